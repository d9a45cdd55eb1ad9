"""What is wrong with the arguments of a call, as data and as the text that a model reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from yiemagent.data_class import dataclass
from yiemagent.tools.json_text import json_text, scrub_surrogates

__all__ = [
    "MISSING",
    "ArgumentError",
    "InvalidArguments",
    "Path",
    "argument_error_text",
    "flat_path",
    "json_type",
    "malformed_arguments_text",
    "shown",
]

MISSING = "missing"
"""The message of a required property that is not there."""

_SHOWN_ERRORS = 5
_SHOWN_ARGUMENTS = 1000  # Code points: never the whole of what was sent (case C-51).
_SHOWN_VALUE = 80

Path: TypeAlias = tuple[Any, str | int] | None
"""Where a value stands: ``(path of the container, key or index)``; None is the root.

Linked, because it is extended for every value and read for wrong ones only.
"""


@dataclass(frozen=True, slots=True)
class ArgumentError:
    """One thing that is wrong. ``str()`` is ``<dotted path or root>: <message>``."""

    path: tuple[str | int, ...]
    """Keys and indexes from the root to the value."""
    message: str

    def __str__(self) -> str:
        where = ".".join(str(step) for step in self.path) or "root"
        return f"{where}: {self.message}"


class InvalidArguments(Exception):
    """The arguments of a call cannot be used; ``text`` is written for the model.

    Control flow between the steps of a tool call: it never leaves the loop, where it becomes an
    error result with ``error_type`` ``invalid_tool_arguments``.
    """

    def __init__(self, text: str, errors: Sequence[ArgumentError] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.errors = tuple(errors)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text, self.errors)


def argument_error_text(tool: Any, raw: Any, errors: Sequence[ArgumentError]) -> str:
    """The text of the error result for *errors*.

    ``Missing required arguments: a, b`` when nothing else is wrong than top-level arguments that
    are not there; else up to five errors and the received arguments, cut to 1,000 code points.

    Source: fact 33 (newer wording), case C-51.
    """
    if errors and all(error.message == MISSING and len(error.path) == 1 for error in errors):
        return scrub_surrogates(f"Missing required arguments: {', '.join(str(e.path[0]) for e in errors)}")
    lines = [f'Validation failed for tool "{tool.name}":']
    lines += [f"  - {error}" for error in errors[:_SHOWN_ERRORS]]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"  - ... and {len(errors) - _SHOWN_ERRORS} more")
    return scrub_surrogates("\n".join([*lines, "", "Received arguments:", _received(raw)]))


def malformed_arguments_text(tool_name: str, problem: str, raw_text: str) -> str:
    """The text of the error result for arguments that could not be parsed at all.

    Source: fact 34.
    """
    text = f'Invalid arguments for tool "{tool_name}": {problem}\n\nReceived arguments:\n{_cut(raw_text)}'
    return scrub_surrogates(text)


def flat_path(path: Path) -> tuple[str | int, ...]:
    """*path* as the tuple of its steps, outermost first."""
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return tuple(reversed(steps))


def json_type(value: Any) -> str:
    """The JSON name of the type of *value*."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, name in (
        (str, "string"),
        (int, "integer"),
        (float, "number"),
        (list, "array"),
        (dict, "object"),
    ):
        if isinstance(value, kind):
            return name
    return type(value).__name__


def shown(value: Any) -> str:
    """*value* as JSON text, cut to some eighty code points."""
    if isinstance(value, str) and len(value) > _SHOWN_VALUE:
        return json.dumps(value[:_SHOWN_VALUE], ensure_ascii=False)[:-1] + '..."'
    if isinstance(value, (dict, list)):
        return (
            f"{json_type(value)} of {len(value)}" if len(value) > 8 else _cut(json_text(value), _SHOWN_VALUE)
        )
    return _cut(json_text(value), _SHOWN_VALUE)


def _received(raw: Any) -> str:
    if isinstance(raw, str):
        return _cut(raw)
    try:
        return _cut(json_text(raw, indent=2))
    except (TypeError, ValueError, RecursionError):
        return _cut(f"({type(raw).__name__} that cannot be shown)")


def _cut(text: str, limit: int = _SHOWN_ARGUMENTS) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text)} characters in all)"
