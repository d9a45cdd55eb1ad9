"""What a tool returned, as the text and blocks that a model reads.

A conversion may run the tool author's code (``__str__``, ``__iter__``), so it belongs inside
the guard around the tool (case D-29).
"""

from __future__ import annotations

import enum
from typing import Any

from yiemagent.messages import ImageContent, OpaqueContent, TextContent
from yiemagent.tools.json_text import NoJsonText, json_text, scrub_surrogates, text_of_bytes
from yiemagent.tools.tool import ToolResult

__all__ = ["NO_OUTPUT", "as_tool_result", "error_result"]

NO_OUTPUT = "(no output)"
"""What the model reads when a tool returned nothing: never an empty text (case C-10)."""

_BLOCKS = (TextContent, ImageContent, OpaqueContent)


def as_tool_result(value: Any) -> ToolResult:
    """Make a ``ToolResult`` of whatever a tool returned.

    A ``ToolResult`` stays as it is. Text stays text, content blocks stay blocks. None, an empty
    (or blank) text and an empty list become ``(no output)``. Bytes become text, and anything else JSON text
    (see ``json_text``). Lone surrogates become U+FFFD.

    Coroutines and lazy iterators (generators, ``map``, open files) are an error result with
    ``error_type`` ``unexpected_tool_result``, as is data that contains itself.

    Raises:
        Exception: Whatever ``__str__`` or iteration of the value raises.

    Source: cases C-10, C-27, C-28, D-26, D-27, D-29.
    """
    if type(value) is ToolResult or isinstance(value, ToolResult):
        return value
    if type(value) is str:
        return _text_result(value)
    if value is None or (isinstance(value, list) and not value):
        return ToolResult((TextContent(NO_OUTPUT),))
    if isinstance(value, _BLOCKS):
        return ToolResult((value,))
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, _BLOCKS) for item in value):
        return ToolResult(tuple(value))
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


def _text_result(text: str) -> ToolResult:
    return ToolResult((TextContent(scrub_surrogates(text) if text.strip() else NO_OUTPUT),))


def _is_plain_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, enum.Enum)
