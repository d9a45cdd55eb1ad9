"""What a tool returned, as the text and blocks that a model reads.

A conversion may run the tool author's code (``__str__``, ``__iter__``), so it belongs inside
the guard around the tool (case D-29).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from yiemagent.data_class import replace
from yiemagent.messages import ImageContent, OpaqueContent, ReasoningContent, TextContent
from yiemagent.tools.json_text import NoJsonText, json_text, scrub_surrogates, text_of_bytes
from yiemagent.tools.tool import ToolResult

__all__ = ["NO_OUTPUT", "as_tool_result", "error_result"]

NO_OUTPUT = "(no output)"
"""What the model reads when a tool returned nothing: never an empty text (case C-10)."""

_BLOCKS = (TextContent, ImageContent, OpaqueContent)


def as_tool_result(value: Any) -> ToolResult:
    """Make a ``ToolResult`` of whatever a tool returned.

    A ``ToolResult`` stays as it is, but texts and dicts of type ``text`` in its content become
    blocks. Text stays text, content blocks stay blocks. None, an empty (or blank) text and an
    empty list become ``(no output)``. Bytes become text, and anything else JSON text (see
    ``json_text``). Lone surrogates become U+FFFD.

    Coroutines and lazy iterators (generators, ``map``, open files) are an error result with
    ``error_type`` ``unexpected_tool_result``, as is data that contains itself.

    Raises:
        Exception: Whatever ``__str__`` or iteration of the value raises.

    Source: cases C-10, C-27, C-28, D-26, D-27, D-29.
    """
    if isinstance(value, ToolResult):
        return _clean(value)
    if type(value) is str:
        return _text_result(value)
    if value is None or (isinstance(value, list) and not value):
        return ToolResult((TextContent(NO_OUTPUT),))
    if isinstance(value, _BLOCKS):
        return _clean(ToolResult((value,)))
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, _BLOCKS) for item in value):
        return _clean(ToolResult(tuple(value)))
    if isinstance(value, (bytes, bytearray)):
        return _text_result(text_of_bytes(bytes(value)))
    try:
        return _text_result(value if _is_plain_text(value) else json_text(value))
    except NoJsonText as problem:
        return error_result(str(problem), "unexpected_tool_result")


def error_result(text: str, error_type: str, **details: Any) -> ToolResult:
    """An error result: *text* for the model, ``{"error_type": error_type, **details}`` for the application.

    Args:
        text: An empty one is replaced by the error type, so that the model reads something.
        error_type: Stable name, such as ``tool_exception``.
        **details: Kept beside ``error_type``.
    """
    shown = scrub_surrogates(text) if text.strip() else error_type
    return ToolResult((TextContent(shown),), {"error_type": error_type, **details}, is_error=True)


def _clean(result: ToolResult) -> ToolResult:
    """*result* itself, or a copy with real blocks whose texts can be encoded."""
    try:
        content = tuple(_block(item) for item in result.content)
    except NoJsonText as problem:
        return error_result(str(problem), "unexpected_tool_result")
    if all(new is old for new, old in zip(content, result.content, strict=True)):
        return result
    return replace(result, content=content)


def _block(item: Any) -> Any:
    if isinstance(item, TextContent):
        clean = scrub_surrogates(item.text)
        return item if clean is item.text or clean == item.text else replace(item, text=clean)
    if isinstance(item, (*_BLOCKS, ReasoningContent)):
        return item
    if isinstance(item, str):
        return TextContent(scrub_surrogates(item))
    if isinstance(item, Mapping) and item.get("type") == "text" and isinstance(item.get("text"), str):
        return TextContent(scrub_surrogates(item["text"]))
    raise NoJsonText(
        f"The tool returned a ToolResult whose content holds a {type(item).__name__} instead of "
        "TextContent and ImageContent blocks."
    )


def _text_result(text: str) -> ToolResult:
    return ToolResult((TextContent(scrub_surrogates(text) if text.strip() else NO_OUTPUT),))


def _is_plain_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, enum.Enum)
