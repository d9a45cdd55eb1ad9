"""Checks that choose: among listed values, and among alternative schemas; see ``coercion.Check``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from yiemagent.data_class import dataclass
from yiemagent.tools.argument_errors import ArgumentError, Path, flat_path, json_type, shown
from yiemagent.tools.coercion import Check, Errors, accepts, copy_json

__all__ = ["Branch", "all_of", "any_of", "json_equal", "member_check", "nullable", "one_of", "type_list"]

_SHOWN_MEMBERS = 20
_SCALARS = (str, bool, int, float, type(None))


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative of a union."""

    check: Check
    kind: str
    """Its JSON type, for messages; empty when it has none."""


def member_check(members: Sequence[Any]) -> Check:
    """One of *members* as JSON compares them (1 equals 1.0, but not true).

    Lenient: the text of exactly one member that is no text, or the value whose text is one
    (``"1"`` for 1, 1 for ``"1"``). The case of texts matters.
    """
    exact = {_scalar_key(member): member for member in members if isinstance(member, _SCALARS)}
    nested = [member for member in members if not isinstance(member, _SCALARS)]
    by_text: dict[str, Any] = {}
    for member in members:
        if isinstance(member, _SCALARS) and not isinstance(member, str):
            by_text.setdefault(json.dumps(member), member)
    listed = ", ".join(shown(member) for member in members[:_SHOWN_MEMBERS])
    more = ", ..." if len(members) > _SHOWN_MEMBERS else ""
    expected = f"expected one of {listed}{more}" if len(members) != 1 else f"expected {listed}"

    def check_member(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        if isinstance(value, _SCALARS):
            if _scalar_key(value) in exact:
                return exact[_scalar_key(value)]
            if lenient and isinstance(value, str) and value.strip() in by_text:
                return by_text[value.strip()]
            if lenient and value is not None and not isinstance(value, str):
                text = json.dumps(value)
                if _scalar_key(text) in exact:
                    return text
        elif any(json_equal(value, member) for member in nested):
            return copy_json(value)
        errors.append(ArgumentError(flat_path(path), f"{expected}, got {shown(value)}"))
        return value

    return check_member


def type_list(branches: Sequence[Branch]) -> Check:
    """A ``type`` with several names.

    What fits as it is stays. A text is tried against the types in their order, as models write
    numbers and objects as texts (fact TC-19, T145).
    """

    def check_types(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        if not (lenient and isinstance(value, str)):
            fits, found = _first(branches, value, path, False)
            if fits:
                return found
        return _coerced(branches, value, path, errors, lenient)

    return check_types


def any_of(branches: Sequence[Branch]) -> Check:
    """``anyOf``: the first branch that fits as it is, else the first that fits by coercion."""

    def check_any(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        fits, found = _first(branches, value, path, False)
        return found if fits else _coerced(branches, value, path, errors, lenient)

    return check_any


def one_of(branches: Sequence[Branch]) -> Check:
    """``oneOf``: as ``any_of``, and the outcome must fit one branch only."""

    def check_one(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        before = len(errors)
        fits, found = _first(branches, value, path, False)
        if not fits:
            found = _coerced(branches, value, path, errors, lenient)
        if len(errors) == before and sum(accepts(branch.check, found) for branch in branches) > 1:
            errors.append(ArgumentError(flat_path(path), "matches more than one of the allowed forms"))
        return found

    return check_one


def all_of(checks: Sequence[Check]) -> Check:
    """Every one of *checks*, each on what the one before it made of the value."""
    if len(checks) == 1:
        return checks[0]

    def check_all(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        before = len(errors)
        for check in checks:
            value = check(value, path, errors, lenient)
        # What a later check made of the value must still be right for the earlier ones.
        if lenient and len(errors) == before and not all(accepts(check, value) for check in checks[:-1]):
            errors.append(
                ArgumentError(flat_path(path), f"matches none of the allowed forms, got {shown(value)}")
            )
        return value

    return check_all


def nullable(check: Check, keeps_text: Callable[[Any], bool]) -> Check:
    """*check*, or null: ``nullable: true`` (fact TC-18).

    Args:
        check: For everything else.
        keeps_text: Whether the text ``null`` is meant as a text.
    """

    def check_nullable(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        if value is None:
            return None
        if lenient and isinstance(value, str) and value.strip() == "null" and not keeps_text(value):
            return None
        return check(value, path, errors, lenient)

    return check_nullable


def json_equal(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON value: true is not 1, at any depth."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(json_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(json_equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _scalar_key(value: Any) -> tuple[bool, Any]:
    return isinstance(value, bool), value


def _first(branches: Sequence[Branch], value: Any, path: Path, lenient: bool) -> tuple[bool, Any]:
    for branch in branches:
        trial: Errors = []
        found = branch.check(value, path, trial, lenient)
        if not trial:
            return True, found
    return False, None


def _coerced(branches: Sequence[Branch], value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
    """The value by the first branch that takes it, else *value* with the errors that help most."""
    failures: list[tuple[Branch, Errors]] = []
    for branch in branches:
        trial: Errors = []
        found = branch.check(value, path, trial, lenient)
        if not trial:
            return found
        failures.append((branch, trial))
    serious = [failure for failure in failures if failure[0].kind != "null"]
    here = flat_path(path)
    # A branch that is wrong only further inside is the one that was meant.
    inside = [trial for _, trial in serious if all(error.path != here for error in trial)]
    if len(inside) == 1:
        errors.extend(inside[0])
    elif len(serious) == 1:
        errors.extend(serious[0][1])
    else:
        errors.append(ArgumentError(here, _expected(branches, value)))
    return value


def _expected(branches: Sequence[Branch], value: Any) -> str:
    kinds = list(dict.fromkeys(branch.kind for branch in branches))
    if "" in kinds or json_type(value) in kinds:
        return f"matches none of the allowed forms, got {shown(value)}"
    return f"expected {' or '.join(kinds)}, got {json_type(value)}"
