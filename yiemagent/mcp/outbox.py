"""Writing to a pipe from any thread without ever blocking on it.

A message goes straight into the pipe when it fits, which is nearly always. What does not fit
is kept and written by the thread that serves the pipe, so a caller's deadline and abort never
depend on a server that does not read.

Source: E-13 (write and read never wait for each other).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable

from yiemagent.errors import McpConnectionError

__all__ = ["Outbox"]

BACKLOG_LIMIT = 256 << 20
"""Bytes that may wait for a reader that does not read."""


class Outbox:
    """The write end of a pipe and what waits for room in it.

    Args:
        fd: Owned from now on; made non-blocking.
        wake: Called, from any thread, when the serving thread has something to do; never blocks.
    """

    def __init__(self, fd: int, wake: Callable[[], None]) -> None:
        os.set_blocking(fd, False)
        self._fd: int | None = fd
        self._wake = wake
        # Guards everything below; os.write under it never blocks, and nobody closes fd meanwhile.
        self._lock = threading.Lock()
        self._backlog: deque[memoryview] = deque()
        self._waiting = 0
        self._broken = False

    @property
    def fd(self) -> int | None:
        """For polling; None once closed."""
        return self._fd

    @property
    def waiting(self) -> bool:
        """Whether something waits for room."""
        return bool(self._backlog)

    @property
    def broken(self) -> bool:
        """Whether the reader has closed its end."""
        return self._broken

    def write(self, data: bytes) -> None:
        """Write *data*, or keep what does not fit. To a broken pipe it does nothing.

        Raises:
            McpConnectionError: It is closed, or the reader has not read for too long.
        """
        with self._lock:
            fd = self._fd
            if fd is None:
                raise McpConnectionError("its input is closed")
            written = 0
            if not self._backlog:
                try:
                    written = os.write(fd, data)
                    if written == len(data):
                        return
                except BlockingIOError:
                    written = 0
                except OSError:
                    self._break()
            self._keep(memoryview(data)[written:])
            # Inside, so that nobody wakes a thread that has closed this outbox and then its wake pipe.
            self._wake()

    def _keep(self, rest: memoryview) -> None:
        if self._waiting + len(rest) > BACKLOG_LIMIT:
            raise McpConnectionError(f"it does not read its input: {self._waiting:,} bytes are waiting")
        if not self._broken:
            self._backlog.append(rest)
            self._waiting += len(rest)

    def _break(self) -> None:
        self._broken = True
        self._backlog.clear()
        self._waiting = 0

    def flush(self) -> None:
        """Write as much of what waits as fits. Serving thread."""
        with self._lock:
            while self._backlog and self._fd is not None:
                view = self._backlog[0]
                try:
                    written = os.write(self._fd, view)
                except BlockingIOError:
                    return
                except OSError:
                    self._break()
                    return
                self._waiting -= written
                if written < len(view):
                    self._backlog[0] = view[written:]
                    return
                self._backlog.popleft()

    def close(self) -> None:
        """Close the pipe, dropping what waits. Idempotent."""
        with self._lock:
            fd, self._fd = self._fd, None
            self._backlog.clear()
            self._waiting = 0
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

    def abandon(self) -> None:
        """Close the pipe in a forked child, where the lock may be held by nobody."""
        self._lock = threading.Lock()
        self.close()
