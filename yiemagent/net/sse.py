"""Bytes to server-sent events, in whatever pieces the bytes arrive.

Lines end with CR, LF or CRLF, also across a read border; nothing else ends a line (U+2028 and
0x85 do not: B-31, B-32), so UTF-8 is decoded only after framing. A tail without a blank line
is an event too (B-42).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from yiemagent.net.errors import HttpBodyTooLarge

__all__ = ["SseEvent", "SseParser", "read_event_batches"]

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event; ``data`` lines are joined by LF."""

    data: str
    event: str = "message"
    id: str = ""
    """The last id the stream has named, of this event or an earlier one."""


class SseParser:
    """Incremental and linear in the number of bytes. One thread.

    Args:
        max_event_bytes: An event, comments included, may be this long.

    Attributes:
        last_event_id: For ``Last-Event-ID`` when the stream is taken up again.
        retry: Seconds the server asks to wait before reconnecting, or None.
    """

    __slots__ = (
        "_begun",
        "_data",
        "_event",
        "_limit",
        "_size",
        "_skip_lf",
        "_tail",
        "last_event_id",
        "retry",
    )

    def __init__(self, max_event_bytes: int = 64 * 1024 * 1024) -> None:
        self.last_event_id = ""
        self.retry: float | None = None
        self._limit = max_event_bytes
        self._begun = False
        self._tail: list[bytes] = []
        self._skip_lf = False
        self._data: list[bytes] = []
        self._event = ""
        self._size = 0

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next bytes and return the events they complete.

        Raises:
            HttpBodyTooLarge: An event is longer than allowed.
        """
        if not self._begun:
            data = self._first(data)
        if self._skip_lf and data:
            self._skip_lf = False
            if data[0] == 10:
                data = data[1:]
        if not data:
            return []
        self._size += len(data)
        if self._size > self._limit:
            raise HttpBodyTooLarge(
                f"a server-sent event has more than {self._limit} bytes", limit=self._limit
            )
        lines = data.splitlines()
        last = data[-1]
        if last != 10 and last != 13:
            rest = lines.pop()
            if not lines:
                self._tail.append(rest)
                return []
        else:
            rest = b""
            self._skip_lf = last == 13
        if self._tail:
            lines[0] = b"".join(self._tail) + lines[0]
        self._tail = [rest] if rest else []
        return self._take(lines)

    def finish(self) -> list[SseEvent]:
        """The body is over: return the event that was not ended by a blank line, if any."""
        lines = [b"".join(self._tail), b""] if self._tail else [b""]
        self._tail = []
        return self._take(lines)

    def _first(self, data: bytes) -> bytes:
        held = b"".join(self._tail) + data
        if len(held) < 3 and _BOM.startswith(held):
            self._tail = [held]
            return b""
        self._begun = True
        self._tail = []
        return held.removeprefix(_BOM)

    def _take(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        data = self._data
        for line in lines:
            if line[:5] == b"data:":
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if data:
                    text = data[0] if len(data) == 1 else b"\n".join(data)
                    decoded = text.decode("utf-8", "replace")
                    events.append(SseEvent(decoded, self._event or "message", self.last_event_id))
                    data.clear()
                self._event = ""
                self._size = 0
            elif line[0] != 58:  # a colon begins a comment
                self._field(line)
        if self._tail:
            self._size += len(self._tail[0])
        return events

    def _field(self, line: bytes) -> None:
        name, _, raw = line.partition(b":")
        value = raw.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self.last_event_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry = int(value[:12]) / 1000


class _Body(Protocol):
    def read_some(self, idle_until: float | None = None) -> bytes: ...


def read_event_batches(
    body: _Body,
    parser: SseParser,
    idle: float | Callable[[], float | None] | None,
    first: bytes = b"",
) -> Iterator[list[SseEvent]]:
    """Yield the events of *body* in the batches they arrive in, never an empty one.

    Args:
        body: A response; read to its end unless the caller stops.
        idle: Seconds that may pass between events; comments do not count (F-07). A function is
            asked anew after each batch.
        first: Bytes of the body that were read already.

    Raises:
        HttpTimeout: Phase ``idle`` or ``total``; and what else ``read_some`` raises.
    """

    def limit() -> float | None:
        seconds = idle() if callable(idle) else idle
        return None if seconds is None else time.monotonic() + seconds

    until = limit()
    data = first or body.read_some(until)
    while data:
        batch = parser.feed(data)
        if batch:
            yield batch
            until = limit()
        data = body.read_some(until)
    batch = parser.finish()
    if batch:
        yield batch
