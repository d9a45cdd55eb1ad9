"""Where a Chat Completions answer keeps what: choices, reasoning, content parts, unknown keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = [
    "choice_of",
    "content_pieces",
    "extra_of_call",
    "has_other_parts",
    "merge_details",
    "reasoning_of",
    "text_of_details",
]

_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_text")
"""The first that is not empty counts; some servers send the same text twice (A-36)."""
_TEXT_TYPES = frozenset({"text", "output_text", "input_text"})
_THINKING_TYPES = frozenset({"thinking", "reasoning", "reasoning_text"})
_CALL_KEYS = frozenset({"id", "type", "index", "function"})
_FUNCTION_KEYS = frozenset({"name", "arguments"})


def choice_of(chunk: Mapping[str, Any], *, whole: bool) -> Mapping[str, Any] | None:
    """The choice with index 0, or the first without an index; of a whole answer any (A-64)."""
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return None
    if len(choices) == 1 and type(choices[0]) is dict and not choices[0].get("index"):
        return choices[0]
    usable = [choice for choice in choices if isinstance(choice, Mapping)]
    for choice in usable:
        if not choice.get("index"):
            return choice
    return usable[0] if usable and whole else None


def reasoning_of(delta: Mapping[str, Any]) -> tuple[str, str]:
    """Key and text of the reasoning; empty when there is none."""
    for key in _REASONING_KEYS:
        value = delta.get(key)
        if value:
            return key, value if isinstance(value, str) else _flat(value)
    return "", ""


def content_pieces(content: Any) -> Iterator[tuple[bool, str]]:
    """The texts of a list of content parts, as (is it reasoning, text); others are skipped (A-31)."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            yield False, part
        elif isinstance(part, Mapping):
            kind = part.get("type")
            if kind in _THINKING_TYPES:
                yield True, _flat(part.get("thinking") or part.get("reasoning") or part.get("text") or "")
            elif kind in _TEXT_TYPES or kind is None:
                yield False, _flat(part.get("text") or "")


def has_other_parts(content: Any) -> bool:
    """Whether a content list holds more than text, so that it must be echoed as it came (A-32)."""
    return isinstance(content, list) and any(
        isinstance(part, Mapping) and part.get("type") not in _TEXT_TYPES for part in content
    )


def text_of_details(details: Any) -> str:
    """The readable text of ``reasoning_details``."""
    items = details if isinstance(details, list) else [details]
    texts = (item.get("text") or item.get("summary") for item in items if isinstance(item, Mapping))
    return "".join(text for text in texts if isinstance(text, str))


def merge_details(held: list[Any], details: Any) -> None:
    """Add ``reasoning_details``, verbatim and in order; a continued item grows by its texts."""
    for item in details if isinstance(details, list) else [details]:
        last = held[-1] if held else None
        if (
            isinstance(item, Mapping)
            and isinstance(last, dict)
            and item.get("type") == last.get("type")
            and item.get("index") is not None
            and item.get("index") == last.get("index")
        ):
            for key, value in item.items():
                grows = key in ("text", "summary", "data") and isinstance(last.get(key), str)
                last[key] = last[key] + value if grows and isinstance(value, str) else value
        else:
            held.append(dict(item) if isinstance(item, Mapping) else item)


def extra_of_call(item: Mapping[str, Any], function: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a tool call that we do not know and that hold something (A-61)."""
    extra = {key: value for key, value in item.items() if key not in _CALL_KEYS and value}
    inner = {key: value for key, value in function.items() if key not in _FUNCTION_KEYS and value}
    if inner:
        extra["function"] = inner
    return extra


def _flat(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _flat(value.get("text") or "")
    if isinstance(value, list):
        return "".join(_flat(item) for item in value)
    return ""
