"""Tools the stand-in was not made for: it picks one by its words and fills in the arguments it can.

So that examples and tests with tools of their own run without a real model. It does not
pretend to understand them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from yiemagent.demo.cellar.wording import stem, words
from yiemagent.demo.offline.numbers import read_numbers
from yiemagent.demo.offline.phrasing import SMALL_WORDS

__all__ = ["choose_tool", "fill_arguments"]

_NEVER_GUESSED = frozenset({"list_tools"})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_PROPER_NAME = re.compile(r"(?<!^)(?<![.?!] )\b[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
_WANTS_A_NAME = frozenset({"city", "place", "location", "country", "name", "town", "person"})


def choose_tool(question: str, functions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The function that shares most words with *question*; None when none shares any.

    A tool that is alone is taken for any question that says something.
    """
    asked = {stem(word) for word in words(question) if word not in SMALL_WORDS}
    candidates = [function for function in functions if function.get("name") not in _NEVER_GUESSED]
    if not asked or not candidates:
        return None
    if len(candidates) == 1:
        return candidates[0]
    scored = [(len(asked & _words_of(function)), function) for function in candidates]
    best = max(scored, key=lambda entry: entry[0])
    return best[1] if best[0] else None


def fill_arguments(question: str, function: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for *function* out of *question*: the required ones, and those it names numbers for."""
    schema = function.get("parameters") or {}
    required = schema.get("required") or []
    numbers = [float(text) for text in _NUMBER.findall(question)]
    filled: dict[str, Any] = {}
    for name, wanted in (schema.get("properties") or {}).items():
        if name in required:
            filled[name] = _value(name, wanted if isinstance(wanted, dict) else {}, question, numbers)
    return filled


def _words_of(function: Mapping[str, Any]) -> set[str]:
    properties = (function.get("parameters") or {}).get("properties") or {}
    text = f"{function.get('name')} {function.get('description')} {' '.join(properties)}"
    return {stem(word) for word in words(text) if word not in SMALL_WORDS}


def _value(name: str, schema: Mapping[str, Any], question: str, numbers: list[float]) -> Any:
    if "enum" in schema:
        choices = schema["enum"]
        said = set(words(question))
        return next((choice for choice in choices if said.issuperset(words(str(choice)))), choices[0])
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = kind[0]
    if kind in ("integer", "number"):
        amount = numbers.pop(0) if numbers else float(schema.get("default", schema.get("minimum", 1)))
        return int(amount) if kind == "integer" or amount == int(amount) else amount
    if kind == "boolean":
        return True
    if kind == "array":
        items = schema.get("items")
        return [_value(name, items if isinstance(items, dict) else {}, question, numbers)]
    return {} if kind == "object" else _text(name, question)


def _text(name: str, question: str) -> str:
    proper = _PROPER_NAME.search(question)
    if proper and set(words(name)) & _WANTS_A_NAME:
        return proper.group()
    telling = [word for word in words(read_numbers(question).rest) if word not in SMALL_WORDS]
    return " ".join(telling) or question
