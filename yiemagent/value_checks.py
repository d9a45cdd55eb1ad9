"""Checks of values that callers give: each error names the thing, the value, and what is taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from yiemagent.errors import ConfigurationError

__all__ = [
    "check_callable",
    "check_count",
    "check_names",
    "check_number",
    "check_seconds",
    "check_switch",
    "check_type",
]


def check_seconds(name: str, value: Any, *, zero: bool = False, none: bool = True) -> None:
    """Raise unless *value* is a number of seconds, or None where *none* allows it.

    Raises:
        ConfigurationError: It is negative, no number, or zero where that makes no sense.
    """
    if value is None and none:
        return
    if not _is_number(value) or value < 0 or (value == 0 and not zero):
        least = "0 or more" if zero else "more than 0"
        raise ConfigurationError(f"{name} must be {least} seconds{' or None' * none}, got {value!r}")


def check_count(name: str, value: Any, *, least: int = 1, none: bool = True) -> None:
    """Raise unless *value* is a whole number of *least* or more, or None where *none* allows it.

    Raises:
        ConfigurationError: It is something else.
    """
    if value is None and none:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigurationError(
            f"{name} must be a whole number of at least {least}{' or None' * none}, got {value!r}"
        )


def check_number(name: str, value: Any) -> None:
    """Raise unless *value* is None or a number that JSON has a form for.

    Raises:
        ConfigurationError: It is no number, not a number at all (NaN), or infinite.
    """
    if value is not None and not (_is_number(value) and math.isfinite(value)):
        raise ConfigurationError(f"{name} must be a number or None, got {value!r}")


def check_type(name: str, value: Any, *kinds: type, none: bool = True, secret: bool = False) -> None:
    """Raise unless *value* is one of *kinds*, or None where *none* allows it; a bool is no int here.

    Args:
        name: The keyword, for the message.
        value: What was given; of a *secret* only the type is shown.

    Raises:
        ConfigurationError: It is something else.
    """
    if value is None and none:
        return
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(_with_article(kind) for kind in kinds)
        found = type(value).__name__ if secret else repr(value)
        raise ConfigurationError(f"{name} must be {wanted}{' or None' * none}, got {found}")


def check_names(name: str, value: Any) -> tuple[str, ...]:
    """The texts in *value*; a single text is refused, since it would count as its letters.

    Raises:
        ConfigurationError: It is no collection of texts.
    """
    names = tuple(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else (None,)
    if not all(isinstance(one, str) for one in names):
        raise ConfigurationError(f"{name} must be a list of texts, got {value!r}")
    return names


def check_callable(name: str, value: Any) -> None:
    """Raise unless *value* is None or can be called.

    Raises:
        ConfigurationError: It cannot.
    """
    if value is not None and not callable(value):
        raise ConfigurationError(f"{name} must be callable or None, got {value!r}")


def check_switch(name: str, value: Any) -> None:
    """Raise unless *value* is True or False: ``"no"`` would count as yes.

    Raises:
        ConfigurationError: It is something else.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, got {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _with_article(kind: type) -> str:
    name = "mapping" if kind is Mapping else kind.__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"
