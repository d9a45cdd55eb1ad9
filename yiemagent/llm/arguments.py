"""The arguments of a tool call, from whatever a model wrote (decoding rule 6).

What does not parse is an error that the model gets to read; it is never repaired to ``{}`` and
run (A-19). Shared by all dialects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from yiemagent.compact_json import compact_json
from yiemagent.data_class import dataclass

__all__ = ["ParsedArguments", "arguments_text", "parse_arguments"]

_FENCE = r"(?s)\A```[a-zA-Z0-9_-]*\s*\n?(.*?)\n?\s*```\s*\Z"
_NEAR = 30
_NESTED = 2
"""How often JSON inside a JSON string is unpacked."""


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The result: ``arguments`` are ``{}`` beside an ``error``."""

    arguments: dict[str, Any]
    error: str | None = None
    """A stable word (``invalid_json``, ``not_an_object``), a colon, and the reason."""
    raw: str | None = None
    """The text that did not parse."""
    warnings: tuple[str, ...] = ()


class _Unusable(Exception):
    pass


def parse_arguments(raw: Any) -> ParsedArguments:
    """Parse the arguments as they came: text, an object, or nothing.

    Never raises.
    """
    warnings: list[str] = []
    try:
        value = _value(raw, warnings)
    except _Unusable as error:
        reason = str(error)
    except RecursionError:
        reason = "invalid_json: nested too deeply"
    else:
        return ParsedArguments(value, None, None, tuple(warnings))
    text = raw if isinstance(raw, str) else repr(raw)
    return ParsedArguments({}, reason, text, tuple(warnings))


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """The JSON text of *arguments* for a request: always an object, never NaN (A-21, C-34)."""
    try:
        return compact_json(dict(arguments))
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        text = json.dumps(dict(arguments), default=str)
        return json.dumps(json.loads(text, parse_constant=lambda name: None), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "{}"


def _value(raw: Any, warnings: list[str]) -> dict[str, Any]:
    if raw is None:
        return {}
    if isinstance(raw, Mapping):
        try:
            json.dumps(raw, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise _Unusable(f"invalid_json: {error}") from None
        return dict(raw)
    value: Any = raw
    for _ in range(_NESTED + 1):
        if not isinstance(value, str):
            break
        value = _decode(value, warnings)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Unusable(f"not_an_object: the arguments are of type {type(value).__name__}, not an object")
    return value


def _decode(text: str, warnings: list[str]) -> Any:
    stripped = text.strip()
    if not stripped:
        return None
    if stripped.startswith("```"):
        fenced = re.match(_FENCE, stripped)
        if fenced is not None:
            warnings.append("arguments_in_code_fence")
            stripped = fenced.group(1).strip()
    decoder = _decoder(warnings)
    try:
        value, end = decoder.raw_decode(stripped)
    except ValueError as error:
        raise _Unusable(_explain(error, stripped)) from None
    rest = stripped[end:].strip()
    if not rest:
        return value
    if value == {} and isinstance(value, dict):
        # An empty object in front is a placeholder that the real one was glued to.
        try:
            second, _ = decoder.raw_decode(rest)
        except ValueError as error:
            if rest.startswith("{"):
                raise _Unusable(_explain(error, rest)) from None
        else:
            if isinstance(second, dict):
                warnings.append("arguments_placeholder_ignored")
                return second
    warnings.append("text_after_arguments_ignored")
    return value


def _decoder(warnings: list[str]) -> json.JSONDecoder:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    warnings.append(f"duplicate_key:{key[:100]}")
                seen.add(key)
        return made

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.JSONDecoder(strict=False, object_pairs_hook=pairs, parse_constant=constant)


def _explain(error: ValueError, text: str) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return f"invalid_json: {error}"
    near = text[max(0, error.pos - _NEAR) : error.pos + _NEAR]
    return f"invalid_json: {error.msg} at character {error.pos} near {near!r}"
