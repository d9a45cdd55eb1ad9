"""The connection of a lane: it tells the exchange which socket it uses, and sends in one go."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from yiemagent.net.chunked import BatchedResponse

if TYPE_CHECKING:
    from yiemagent.net.exchange import Exchange
    from yiemagent.net.lane import Lane

__all__ = ["watch"]

_ONE_WRITE = 262_144
"""Bytes up to which head and body are joined, so that the server wakes once and not twice."""


_MOST_LINES = 32
"""Fields whose lines a connection keeps; the first requests have those that all have."""


def watch(pool: Any, lane: Lane) -> Any:
    """*pool*, whose connections from now on belong to *lane*."""
    pool.ConnectionCls = functools.partial(_watched(pool.ConnectionCls), lane)
    return pool


@functools.lru_cache(maxsize=8)
def _watched(base: type) -> type:
    return type("Watched" + base.__name__, (_WatchedConnection, base), {})


class _WatchedConnection:
    """Leans on the inside of urllib3's connections, as nothing else does."""

    response_class = BatchedResponse

    def __init__(self, lane: Lane, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lane = lane
        self._opened_for: Exchange | None = None
        self._held: list[Any] | None = None
        self._lines: dict[tuple[str, Any], bytes] = {}  # Of fields that nearly every request has.

    def connect(self) -> None:
        # Read here: the lane may be another exchange's when a thread that was left goes on.
        exchange = self._opened_for = self._lane.exchange
        if exchange is None:
            super().connect()  # type: ignore[misc]
        else:
            exchange.connect(self, functools.partial(self._open, exchange, super().connect))  # type: ignore[misc]

    def _open(self, exchange: Exchange, connect: Callable[[], object]) -> None:
        # Who opens also closes: a caller that has left does not learn what comes after.
        self._opening: list[Any] = []
        try:
            connect()
        finally:
            for sock in self._opening:
                exchange.opened(sock)

    def _new_conn(self) -> Any:
        sock = super()._new_conn()  # type: ignore[misc]
        if self._opened_for is not None:
            self._opening.append(self._opened_for.opening(sock))
        return sock

    def request(self, *args: Any, **kwargs: Any) -> None:
        exchange = self._lane.exchange
        sock: Any = getattr(self, "sock", None)
        if exchange is not None and sock is not None:
            exchange.attach(sock)
        self._held = []
        try:
            super().request(*args, **kwargs)  # type: ignore[misc]
        finally:
            held, self._held = self._held, None
        if sum(map(len, held)) <= _ONE_WRITE:
            held = [b"".join(held)]
        for data in held:
            super().send(data)  # type: ignore[misc]

    def putheader(self, header: str, value: str, *more: str) -> None:
        line = self._lines.get((header, value)) if not more else None
        if line is None:
            text = f"{header}: {value}"
            if type(value) is not str or not text.isprintable() or more:
                super().putheader(header, value, *more)  # type: ignore[misc]
                return
            # Nothing in it ends the line, and names were checked before.
            line = text.encode("latin-1")
            if len(self._lines) < _MOST_LINES:
                self._lines[header, value] = line
        self._buffer.append(line)  # type: ignore[attr-defined]

    def send(self, data: Any) -> None:
        # The proxy's CONNECT is sent inside connect(), which is never reached while holding.
        if self._held is None:
            super().send(data)  # type: ignore[misc]
        else:
            self._held.append(data)
