"""One request on its way, and how another thread ends it in any phase.

Measured: ``response.close()`` from another thread blocks until the next byte; shutting the
socket down ends a blocked read within a millisecond, over TLS too, before and after the
headers (F-04, F-05). DNS and connect cannot be interrupted, so a new connection is opened on
a helper thread that can be left.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.net.errors import HttpAborted, HttpTimeout

__all__ = ["Exchange"]

_SLICE = 0.5  # Longest single wait: an abort by this very thread, as it begins to wait, wakes nobody.


class Exchange:
    """The state that the thread which waits and the thread which aborts share.

    Args:
        signal: Ends the exchange when aborted; None: nothing does.
        connect_limit: ``time.monotonic()`` value until which a new connection must stand.
        connect_seconds: The same as a number of seconds, for the message.
        deadline: ``time.monotonic()`` value until which the whole exchange must be over.
    """

    __slots__ = (
        "_changed",
        "_forget",
        "_lock",
        "_sock",
        "connect_limit",
        "connect_seconds",
        "cut",
        "deadline",
        "fresh",
        "signal",
    )

    def __init__(
        self,
        signal: AbortSignal | None,
        connect_limit: float | None,
        connect_seconds: float | None,
        deadline: float | None,
    ) -> None:
        self.signal = signal
        self.connect_limit = connect_limit
        self.connect_seconds = connect_seconds
        self.deadline = deadline
        self.fresh = False
        self.cut = False
        self._sock: Any = None
        # Guards cut, _sock and how a connect on the helper went, so that a late abort never hits a
        # socket that was given back to the pool. The shutdown under it does not block. Reentrant: a
        # signal handler, or the finalizer of a dropped stream, may abort while its thread is in here.
        self._lock = threading.RLock()
        self._changed: threading.Condition | None = None  # For a connect on the helper.
        self._forget = signal.on_abort(self._cut) if signal is not None else None

    @property
    def sock(self) -> Any:
        """The connected socket, or None (before connect, or with a transport that has none)."""
        return self._sock

    def attach(self, sock: Any) -> None:
        """Make *sock* the one that an abort shuts down.

        Raises:
            HttpAborted: The abort came first.
        """
        with self._lock:
            self._sock = sock
            if not self.cut:
                return
            self._sock = None
        raise self.aborted()

    def end(self) -> None:
        """Let go of socket and signal: from here on an abort changes nothing."""
        with self._lock:
            self._sock = None
        forget, self._forget = self._forget, None
        if forget is not None:
            forget()

    def aborted(self) -> HttpAborted:
        """The error to raise once the exchange was cut."""
        return HttpAborted(reason=self.signal.reason if self.signal is not None else "")

    def connect(self, connection: Any, connect: Callable[[], object]) -> None:
        """Open *connection* by calling *connect*, and watch its socket.

        Raises:
            HttpAborted: Aborted meanwhile; the helper thread closes what it may still open.
            HttpTimeout: Phase ``connect`` or ``total``.
        """
        self.fresh = True
        if self.signal is None and self.connect_limit is None:
            connect()
        else:
            self._connect_on_helper(connection, connect)
        self.attach(connection.sock)

    def opening(self, sock: Any) -> Any:
        """Watch a socket whose TLS or proxy handshake is still to come.

        The TLS layer takes the descriptor out of *sock*, so a duplicate of it is watched until
        ``attach`` names the final one.
        """
        double = sock.dup()
        try:
            self.attach(double)
        except HttpAborted:
            double.close()
            sock.close()
            raise
        return double

    def opened(self, double: Any) -> None:
        """Close what ``opening`` returned. An abort before ``attach`` is seen there."""
        with self._lock:
            if self._sock is double:
                self._sock = None
        double.close()

    def _connect_on_helper(self, connection: Any, connect: Callable[[], object]) -> None:
        outcome: list[BaseException | None] = []
        left = False

        def work() -> None:
            error: BaseException | None = None
            try:
                connect()
            except BaseException as raised:
                error = raised
            with self._lock:
                unwanted = left
                outcome.append(error)
                changed.notify_all()
            if unwanted:
                with contextlib.suppress(Exception):
                    connection.close()

        changed = self._changed = threading.Condition(self._lock)
        if self.cut:
            raise self.aborted()
        threading.Thread(target=work, name="yiemagent-net-connect", daemon=True).start()
        limit = self.connect_limit
        with self._lock:
            while not outcome and not self.cut:
                wait = _SLICE if limit is None else min(_SLICE, limit - time.monotonic())
                if wait <= 0:
                    break
                changed.wait(wait)
            left = True
            finished = bool(outcome)
            if not finished and not self.cut:
                self._shut()
        if self.cut:
            if finished:
                connection.close()
            raise self.aborted()
        if not finished:
            raise self._connect_timeout()
        if outcome[0] is not None:
            raise outcome[0]

    def _connect_timeout(self) -> HttpTimeout:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return HttpTimeout("no connection before the deadline", phase="total")
        return HttpTimeout(
            f"no connection within {self.connect_seconds} s",
            phase="connect",
            limit=self.connect_seconds,
        )

    def _cut(self) -> None:
        with self._lock:
            self.cut = True
            self._shut()
            if self._changed is not None:
                self._changed.notify_all()

    def _shut(self) -> None:
        sock = self._sock
        if sock is None:
            return
        # TLS inside a TLS proxy has no shutdown of its own; the socket below it has.
        inner = sock if hasattr(sock, "shutdown") else getattr(sock, "socket", None)
        if inner is not None:
            with contextlib.suppress(OSError):
                inner.shutdown(socket.SHUT_RDWR)
