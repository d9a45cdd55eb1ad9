"""The head of an answer, read in one step when it is an ordinary one.

``http.client`` reads it line by line and has it parsed as the head of an e-mail, which costs a tenth
of all that a short conversation does. A head that has arrived as a whole and has nothing unusual is
taken apart here; every other one is left to ``http.client``, with nothing of it consumed.
"""

from __future__ import annotations

import http.client
import re
from typing import Any

__all__ = ["HeadResponse"]

# No line of it may be folded, hold a control character or lack its name: that is for the parser of e-mail.
_ORDINARY = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n"
    rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n){0,99})\r\n"
)


class HeadResponse(http.client.HTTPResponse):
    """An ``http.client`` response that is quick to begin."""

    def begin(self) -> None:
        """Read the head; the body is still to be read.

        Raises:
            HTTPException: What came is no head of an answer.
        """
        # One read at most, and what it brings stays in the buffer.
        ordinary = _ORDINARY.match(self.fp.peek()) if self.headers is None and not self.debuglevel else None
        if ordinary is None:
            super().begin()
            return
        self.fp.read(ordinary.end())
        status, reason, lines = ordinary.groups()
        self.version = 11
        self.code = self.status = int(status)
        self.reason = (reason or b"").decode("latin-1").strip()
        self._take_fields(lines.decode("latin-1"))

    def _take_fields(self, lines: str) -> None:
        head = self.headers = self.msg = _Fields()
        first: dict[str, str] = {}
        for line in lines.split("\r\n")[:-1]:
            name, _, value = line.partition(":")
            value = value.lstrip(" \t")
            head.set_raw(name, value)
            first.setdefault(name.lower(), value)
        self.chunked = first.get("transfer-encoding", "").lower() == "chunked"
        if self.chunked:
            self.chunk_left = None
            self.length = None
        else:
            self.length = _length_of(first.get("content-length"))
        if self.status in (204, 304) or self._method == "HEAD":  # type: ignore[attr-defined]
            self.length = 0
        endless = self.length is None and not self.chunked
        self.will_close = endless or "close" in first.get("connection", "").lower()


class _Fields(http.client.HTTPMessage):
    """A head that was taken apart here: nothing of it is left over, or is still to be decoded."""

    def items(self) -> list[tuple[str, str]]:
        """All fields, in the order in which they came."""
        return list(self.raw_items())

    def get_payload(self, i: Any = None, decode: bool = False) -> Any:
        """What could not be parsed: nothing. urllib3 asks for it with each answer."""
        return None


def _length_of(value: str | None) -> int | None:
    try:
        length = int(value) if value else -1
    except ValueError:
        return None
    return length if length >= 0 else None
