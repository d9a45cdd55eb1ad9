"""Single values as a schema's ``type`` wants them, where what was meant is beyond doubt.

Each check has the signature ``Check``. With *lenient* false nothing is coerced: the check says
what JSON Schema says. Source: the coercion table, facts
TC-12 to TC-18 where that is silent, tests T146 to T148.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from yiemagent.tools.argument_errors import ArgumentError, Path, flat_path, json_type

__all__ = [
    "SCALAR_CHECKS",
    "Check",
    "Errors",
    "accepts",
    "check_boolean",
    "check_integer",
    "check_null",
    "check_number",
    "check_string",
    "copy_json",
    "decode_json_text",
    "wrong_type",
]

Errors: TypeAlias = list[ArgumentError]
Check: TypeAlias = Callable[[Any, Path, Errors, bool], Any]
"""``check(value, path, errors, lenient)``: the value to use; what is wrong is added to *errors*.

It never changes *value*, and what it returns shares no container with it.
"""

# int() and float() take more than JSON does: "4_2", full-width digits, "nan", ".5" (T147, T148).
_INTEGER = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_LONGEST_NUMBER = 400
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def wrong_type(expected: str, value: Any, path: Path, errors: Errors) -> Any:
    """Record that *value* is not an *expected*; gives *value* back."""
    errors.append(ArgumentError(flat_path(path), f"expected {expected}, got {json_type(value)}"))
    return value


def check_integer(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
    """An int, a float without fraction, or (lenient) a text that is one of these."""
    if type(value) is int:
        return value
    number = _number_in(value) if lenient and isinstance(value, str) else value
    if type(number) is float and number.is_integer():
        return int(number)
    if isinstance(number, int) and not isinstance(number, bool):
        return int(number)
    return wrong_type("integer", value, path, errors)


def check_number(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
    """A finite int or float, or (lenient) a text that is one."""
    if type(value) is int:
        return value
    number = _number_in(value) if lenient and isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return wrong_type("number", value, path, errors)
    if not math.isfinite(number):
        errors.append(ArgumentError(flat_path(path), f"expected a finite number, got {number}"))
    return number


def check_string(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
    """A text, or (lenient) a number or boolean as JSON writes it; never null."""
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str(value)
    if lenient and isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return wrong_type("string", value, path, errors)


def check_boolean(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
    """A bool, or (lenient) 0, 1, or the text of one of these in any case."""
    if value is True or value is False:
        return value
    if lenient:
        if isinstance(value, str):
            known = _BOOLEANS.get(value.strip().lower())
            if known is not None:
                return known
        elif isinstance(value, (int, float)) and value in (0, 1):
            return value == 1
    return wrong_type("boolean", value, path, errors)


def check_null(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
    """None, or (lenient) the text ``null``."""
    if value is None or (lenient and isinstance(value, str) and value.strip() == "null"):
        return None
    return wrong_type("null", value, path, errors)


SCALAR_CHECKS: dict[str, Check] = {
    "integer": check_integer,
    "number": check_number,
    "string": check_string,
    "boolean": check_boolean,
    "null": check_null,
}


def accepts(check: Check, value: Any) -> bool:
    """Whether *value* is right as it is, without coercion."""
    errors: Errors = []
    check(value, None, errors, False)
    return not errors


def copy_json(value: Any) -> Any:
    """A copy of *value* that shares no dict or list with it."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(item) for item in value]
    return value


def decode_json_text(text: str, wanted: type) -> Any:
    """The *wanted* container (dict or list) that *text* holds as JSON, decoded up to twice; else None.

    Source: case A-11.
    """
    found: Any = text
    for _ in range(2):
        stripped = found.strip()
        if stripped[:1] not in ("{", "[", '"'):
            return None
        try:
            found = json.loads(stripped, strict=False, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return None
        if isinstance(found, wanted):
            return found
        if not isinstance(found, str):
            return None
    return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _number_in(text: str) -> int | float | None:
    stripped = text.strip()
    if len(stripped) > _LONGEST_NUMBER or not re.fullmatch(_NUMBER, stripped):
        return None
    if re.fullmatch(_INTEGER, stripped):
        return int(stripped)
    number = float(stripped)
    return number if math.isfinite(number) else None
