"""Patterns of JSON schemas, which are ECMAScript's and not quite Python's."""

from __future__ import annotations

import re

__all__ = ["compile_pattern"]

_ONLY_ECMASCRIPT = r"\\[pPuck]|\(\?<[A-Za-z_$]|\[\^?\]"
"""Marks of syntax that is right there and wrong here: properties, named groups, empty classes."""


def compile_pattern(pattern: str) -> re.Pattern[str] | None:
    """*pattern* as Python's, or None when only ECMAScript can read it: then it is not checked here.

    Raises:
        re.error: It is broken in either language.
    """
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as problem:
        if re.search(_ONLY_ECMASCRIPT, pattern):
            return None
        raise re.error(str(problem), pattern) from problem
