"""Checks for values with other values inside, and for limits on a value; see ``coercion.Check``."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from yiemagent.tools.argument_errors import MISSING, ArgumentError, Path, flat_path, shown
from yiemagent.tools.coercion import Check, Errors, accepts, copy_json, decode_json_text, wrong_type

__all__ = ["array_check", "limit_checks", "object_check", "with_limits"]

Limit = Callable[[Any], str | None]
"""Says what is wrong with a value of the right type, or None."""

_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "minimum": ("number", operator.ge, "must be >= {limit}, got {value}"),
    "maximum": ("number", operator.le, "must be <= {limit}, got {value}"),
    "exclusiveMinimum": ("number", operator.gt, "must be > {limit}, got {value}"),
    "exclusiveMaximum": ("number", operator.lt, "must be < {limit}, got {value}"),
    "minLength": (
        "string",
        lambda value, limit: len(value) >= limit,
        "must have at least {limit} characters",
    ),
    "maxLength": ("string", lambda value, limit: len(value) <= limit, "must have at most {limit} characters"),
    "minItems": ("array", lambda value, limit: len(value) >= limit, "must have at least {limit} items"),
    "maxItems": ("array", lambda value, limit: len(value) <= limit, "must have at most {limit} items"),
}


def limit_checks(schema: Mapping[str, Any]) -> list[tuple[str, str, Limit]]:
    """The limits that *schema* states: keyword, JSON type of the values it is about, check."""
    if _LIMITS.keys().isdisjoint(schema):
        return []
    return [
        (keyword, kind, _limit(holds, schema[keyword], text))
        for keyword, (kind, holds, text) in _LIMITS.items()
        if keyword in schema
    ]


def with_limits(check: Check, limits: Sequence[Limit]) -> Check:
    """*check*, then *limits* when it found nothing wrong."""
    if not limits:
        return check

    def check_with_limits(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        before = len(errors)
        value = check(value, path, errors, lenient)
        if len(errors) == before:
            for limit in limits:
                problem = limit(value)
                if problem is not None:
                    errors.append(ArgumentError(flat_path(path), problem))
        return value

    return check_with_limits


def object_check(
    properties: Mapping[str, Check],
    required: Collection[str],
    extra: Check | Literal[False] | None,
) -> Check:
    """A dict, or (lenient) the JSON text of one.

    Args:
        properties: Checks by property.
        required: Names that must be there.
        extra: The check of unknown properties; None keeps them, False refuses them.
    """
    find = properties.get

    def check_object(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        if type(value) is not dict:
            found = _as_dict(value, lenient)
            if found is None:
                return wrong_type("object", value, path, errors)
            value = found
        result = {}
        for name, item in value.items():
            check = find(name)
            if check is None:
                if extra is None:
                    result[name] = copy_json(item)
                elif extra is False:
                    errors.append(ArgumentError(flat_path((path, name)), _unexpected(properties)))
                else:
                    result[name] = extra(item, (path, name), errors, lenient)
            elif item is None and lenient and name not in required and not accepts(check, None):
                continue  # Models write null where they mean "not given" (case C-26).
            else:
                result[name] = check(item, (path, name), errors, lenient)
        for name in required:
            if name not in value:
                errors.append(ArgumentError(flat_path((path, name)), MISSING))
        return result

    return check_object


def array_check(items: Check | None, first: Sequence[Check] = ()) -> Check:
    """A list, or (lenient) the JSON text of one, or one value that is put into a list.

    Args:
        items: The check of each item; None takes any.
        first: Checks of the first items, by position; *items* is then for the rest.
    """

    def check_items(value: Sequence[Any], path: Path, errors: Errors, lenient: bool) -> list[Any]:
        result = [
            check(item, (path, index), errors, lenient)
            for index, (check, item) in enumerate(zip(first, value, strict=False))
        ]
        for index in range(len(result), len(value)):
            item = value[index]
            result.append(copy_json(item) if items is None else items(item, (path, index), errors, lenient))
        return result

    def check_array(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        if isinstance(value, (list, tuple)):
            return check_items(value, path, errors, lenient)
        if not lenient or value is None:
            return wrong_type("array", value, path, errors)
        if isinstance(value, str):
            found = decode_json_text(value, list)
            if found is not None:
                return check_items(found, path, errors, lenient)
            value = _unquoted(value)
        trial: Errors = []
        wrapped = check_items([value], path, trial, lenient)
        return wrong_type("array", value, path, errors) if trial else wrapped

    return check_array


def _limit(holds: Callable[[Any, Any], bool], limit: Any, text: str) -> Limit:
    def check(value: Any) -> str | None:
        return None if holds(value, limit) else text.format(limit=limit, value=shown(value))

    return check


def _as_dict(value: Any, lenient: bool) -> dict[str, Any] | None:
    if isinstance(value, Mapping):
        return dict(value)
    if lenient and isinstance(value, str):
        found: dict[str, Any] | None = decode_json_text(value, dict)
        return found
    return None


def _unexpected(properties: Mapping[str, Check]) -> str:
    return f"unexpected (known: {', '.join(properties)})" if properties else "unexpected (there are none)"


def _unquoted(text: str) -> str:
    """The text inside a JSON string: ``"blue"`` with its quotes means blue (fact TC-16)."""
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] == '"':
        try:
            return str(json.loads(stripped, strict=False))
        except ValueError:
            return text
    return text
