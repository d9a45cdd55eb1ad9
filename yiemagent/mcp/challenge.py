"""Reading ``WWW-Authenticate``.

Source: RFC 9110 section 11.6.1 (several challenges in one header, quoted values with commas).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["AuthScheme", "parse_www_authenticate"]

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rf'({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))(?=\s*(?:,|$))', re.DOTALL)
_SCHEME = re.compile(rf"({_TOKEN})(?=\s|,|$)")
_SEPARATOR = re.compile(r"[\s,]*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AuthScheme:
    """One challenge."""

    name: str
    """In lower case: ``bearer``."""
    parameters: Mapping[str, str]
    """Names in lower case; of a repeated one the first counts."""


def parse_www_authenticate(header: str) -> tuple[AuthScheme, ...]:
    """The challenges of a header, or of several joined by commas; what cannot be read is skipped."""
    found: list[tuple[str, dict[str, str]]] = []
    position = 0
    while True:
        position = _SEPARATOR.match(header, position).end()  # type: ignore[union-attr]
        if position >= len(header):
            return tuple(AuthScheme(name, parameters) for name, parameters in found)
        if match := _PARAMETER.match(header, position):
            if found:
                quoted, plain = match[2], match[3]
                value = plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
                found[-1][1].setdefault(match[1].lower(), value)
            position = match.end()
        elif match := _SCHEME.match(header, position):
            found.append((match[1].lower(), {}))
            position = match.end()
        else:
            # A token68 (Negotiate) or nonsense: on to the next separator.
            end = re.search(r"[\s,]", header[position:])
            position = len(header) if end is None else position + end.start()
