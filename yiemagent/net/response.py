"""The answer to a request: its bytes as they arrive, under every limit, ended by an abort."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from yiemagent.net.chunked import BatchedResponse
from yiemagent.net.errors import HttpBodyTooLarge, HttpTimeout

if TYPE_CHECKING:
    from yiemagent.net.exchange import Exchange
    from yiemagent.net.lane import Lane
    from yiemagent.net.lanes import Lanes
    from yiemagent.net.target import Target

__all__ = ["HttpResponse"]

_READ_SIZE = 65_536
_GRACE = 0.02
"""Seconds ``finish`` waits for the end of a body whose last message was already read."""


class HttpResponse:
    """Status, headers and a body that is read once. One thread at a time; abort from any.

    Use it as a context manager, or read to the end, or call ``close`` or ``finish``.

    Attributes:
        status: HTTP status.
        headers: A mapping that ignores case.
    """

    __slots__ = (
        "_body",
        "_ended",
        "_exchange",
        "_idle",
        "_lane",
        "_lanes",
        "_raw",
        "_target",
        "headers",
        "status",
    )

    def __init__(
        self, raw: Any, exchange: Exchange, idle: float | None, target: Target, lane: Lane, lanes: Lanes
    ) -> None:
        self.status: int = raw.status
        self.headers: Mapping[str, str] = raw.headers
        self._raw = raw
        self._body = _plain_body(raw)
        self._exchange = exchange
        self._idle = idle
        self._target = target
        self._lane = lane
        self._lanes = lanes
        self._ended = False

    @property
    def url(self) -> str:
        """Where it came from, without user information and query."""
        return self._target.shown

    @property
    def proxy(self) -> str | None:
        """The proxy it came through, without user information, or None."""
        return self._target.proxy

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters; empty when there is none."""
        return (self.headers.get("content-type") or "").partition(";")[0].strip().lower()

    def read_some(self, idle_until: float | None = None) -> bytes:
        """Wait for more of the body and return what there is; empty at its end.

        Args:
            idle_until: ``time.monotonic()`` value at which silence becomes an idle timeout;
                None: the client's idle timeout, counted from now.

        Raises:
            HttpAborted: The signal was aborted.
            HttpTimeout: Phase ``idle`` or ``total``.
            HttpConnectionError: The connection broke, or the body ended before its length.
        """
        if self._ended:
            return b""
        exchange = self._exchange
        error: BaseException
        try:
            self._arm(idle_until)
            data = self._next()
        except Exception as raised:
            error = raised if isinstance(raised, HttpTimeout) else self._translated(raised)
            self.close()
            raise error from None
        if exchange.cut:
            self.close()
            raise exchange.aborted()
        if not data or (self._body is not None and self._body.isclosed()):
            self._complete()
        return data

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the body piece by piece, each as soon as it arrives; raises as ``read_some``."""
        try:
            while data := self.read_some():
                yield data
        finally:
            self.close()

    def read(self, limit: int | None = 64 * 1024 * 1024) -> bytes:
        """The rest of the body, raises as ``read_some``.

        Args:
            limit: Bytes, after decompression, that are accepted at most.

        Raises:
            HttpBodyTooLarge: There is more than *limit*.
        """
        first = self.read_some()
        if self._ended or not (data := self.read_some()):
            return first
        pieces = [first]
        size = len(first)
        while data:
            pieces.append(data)
            size += len(data)
            if limit is not None and size > limit:
                self.close()
                raise HttpBodyTooLarge(f"{self._target.shown} sent more than {limit} bytes", limit=limit)
            data = self.read_some()
        return b"".join(pieces)

    def finish(self) -> None:
        """Nothing more is wanted: keep the connection if the body ends now, else close it.

        Waits at most 20 ms, so that the end mark of a stream whose last event was read is
        swallowed and the connection stays usable; a server that keeps it open (B-44) is left.
        """
        if self._ended:
            return
        if self._exchange.sock is not None:
            try:
                self._wait_at_most(_GRACE)
                if not self._next() and not self._exchange.cut:
                    self._complete()
            except Exception:  # whatever it is: this connection is not used again
                pass
        self.close()

    def close(self) -> None:
        """Close the connection unless the body was read to its end; harmless when repeated."""
        if not self._ended:
            self._raw.close()
            self._end()

    def __enter__(self) -> HttpResponse:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _next(self) -> bytes:
        body = self._body
        if body is not None:
            return body.read_some(_READ_SIZE)
        data: bytes = self._raw.read1(_READ_SIZE, decode_content=True)
        return data

    def _complete(self) -> None:
        self._raw.release_conn()  # Which urllib3 does where it has read the body itself.
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._exchange.end()
        lane = self._lane
        lane.exchange = None
        self._lanes.give(lane)

    def _arm(self, idle_until: float | None) -> None:
        deadline = self._exchange.deadline
        if deadline is None and idle_until is None:
            self._wait_at_most(self._idle)
            return
        now = time.monotonic()
        wait = self._idle if idle_until is None else idle_until - now
        if wait is not None and wait <= 0:
            raise self._timed_out()
        if deadline is not None:
            left = deadline - now
            if left <= 0:
                raise self._timed_out()
            wait = left if wait is None else min(wait, left)
        self._wait_at_most(wait)

    def _wait_at_most(self, seconds: float | None) -> None:
        sock = self._exchange.sock
        if sock is not None:
            try:  # noqa: SIM105 (contextlib.suppress would double the cost of a read)
                sock.settimeout(seconds)
            except OSError:  # closed with its last byte, as the server had announced
                pass

    def _timed_out(self) -> HttpTimeout:
        deadline = self._exchange.deadline
        if deadline is not None and time.monotonic() >= deadline - 0.001:
            return HttpTimeout(f"{self._target.shown} did not finish before the deadline", phase="total")
        return HttpTimeout(
            f"{self._target.shown} sent nothing for {self._idle} s", phase="idle", limit=self._idle
        )

    def _translated(self, error: Exception) -> Exception:
        if self._exchange.cut:
            return self._exchange.aborted()
        from yiemagent.net.translate import is_timeout, translate

        if is_timeout(error):
            return self._timed_out()
        return translate(error, self._target.shown)


def _plain_body(raw: Any) -> BatchedResponse | None:
    """The response under urllib3's, when there is nothing that urllib3 has to do on the way."""
    body = getattr(raw, "_original_response", None)
    if not isinstance(body, BatchedResponse) or "content-encoding" in raw.headers:
        return None
    return body if body.length == raw.length_remaining else None  # Odd lengths are for urllib3 to judge.
