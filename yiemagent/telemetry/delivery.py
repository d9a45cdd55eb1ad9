"""Handing records to handlers without the run waiting for them."""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Generic, TypeVar

from yiemagent.errors import ConfigurationError
from yiemagent.forking import forget_parent_on_fork

__all__ = ["Delivery"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

_SLICE = 0.5  # Longest single wait, so that Ctrl-C gets through on every platform.
_AT_EXIT = 1.0
"""Seconds that the interpreter waits at its end for what is still queued."""


class Delivery(Generic[T]):
    """A bounded queue and one daemon thread that takes from it and calls the handlers.

    A handler that blocks holds up the handlers, never the run: when the queue is full the
    newest records are dropped and counted. A handler that raises is logged once; the others
    and later records are not affected. The thread starts with the first record and ends when
    nothing comes for a while.

    Args:
        handlers: Called in order, one record after the other, on one thread.
        size: Most records that wait.
        idle: Seconds after which the thread ends when nothing comes.

    Raises:
        ConfigurationError: *size* is below 1, or a handler is not callable.
    """

    def __init__(self, handlers: Sequence[Callable[[T], object]], *, size: int, idle: float = 2.0) -> None:
        for handler in handlers:
            if not callable(handler):
                raise ConfigurationError(f"a handler must be callable, got {handler!r}")
        if isinstance(size, bool) or size < 1:
            raise ConfigurationError(f"the queue size must be 1 record or more, got {size!r}")
        self._handlers = tuple(handlers)
        self._size = size
        self._idle = idle
        self._failed: set[int] = set()
        self._hooked = False
        self._reset()
        forget_parent_on_fork(self)

    def _reset(self) -> None:
        # Guards everything below; handlers are called and threads started outside it. Taken directly
        # and not through the condition: Ctrl-C could come between taking it and entering the block.
        # Reentrant: a finalizer or a signal handler may have something to record.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[T] = deque()
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """How many records found the queue full, or came after ``close``."""

    def put(self, record: T) -> bool:
        """Queue *record*; never blocks, and false when it was dropped instead. Any thread."""
        made: threading.Thread | None = None
        try:
            with self._lock:
                full = self._closed or len(self._waiting) >= self._size
                if full:
                    self.dropped += 1
                else:
                    self._waiting.append(record)
                complain = full and self.dropped == 1
                if self._waiting and self._thread is None:
                    made = threading.Thread(target=self._serve, name="yiemagent-telemetry", daemon=True)
                    self._thread = made
                self._changed.notify_all()
            if made is not None:
                self._flush_at_exit()
                made.start()
        except BaseException:
            with self._lock:
                # One that comes up all the same finds that it is not the one.
                if made is not None and self._thread is made and made.ident is None:
                    self._thread = None
            raise
        if complain:
            logger.warning("size=%d | the telemetry queue is full; records are dropped", self._size)
        return not full

    def deliver(self, record: T) -> None:
        """Call the handlers with *record* here and now."""
        for handler in self._handlers:
            try:
                handler(record)
            except Exception:
                if id(handler) not in self._failed:
                    self._failed.add(id(handler))
                    logger.exception("handler=%r | raised; its later failures are not logged", handler)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything queued was handled.

        Returns:
            Whether it was within *timeout* seconds (None: as long as it takes).
        """
        deadline = None if timeout is None else monotonic() + timeout
        with self._lock:
            while self._waiting or self._busy:
                left = _SLICE if deadline is None else min(_SLICE, deadline - monotonic())
                if left <= 0:
                    return False
                self._changed.wait(left)
            return True

    def close(self, timeout: float | None = 5.0) -> bool:
        """Flush, take no more records and end the thread; calling it twice is harmless.

        Returns:
            Whether everything was handled within *timeout* seconds.
        """
        flushed = self.flush(timeout)
        with self._lock:
            self._closed = True
            self._changed.notify_all()
        return flushed

    def _serve(self) -> None:
        while True:
            with self._lock:
                if self._thread is not threading.current_thread():
                    return
                if not self._waiting and not self._closed:
                    self._changed.wait(self._idle)
                if not self._waiting:
                    self._thread = None
                    return
                record = self._waiting.popleft()
                self._busy = True
            try:
                self.deliver(record)
            except BaseException:
                logger.exception("a telemetry handler wanted to end its thread")
            finally:
                with self._lock:
                    self._busy = False
                    self._changed.notify_all()
            del record

    def _flush_at_exit(self) -> None:
        if not self._hooked:
            self._hooked = True
            atexit.register(_flush, weakref.ref(self))

    def _after_fork_in_child(self) -> None:
        """What waits belongs to the parent, and so does the thread."""
        self._reset()


def _flush(reference: weakref.ref[Delivery[T]]) -> None:
    delivery = reference()
    if delivery is not None:
        delivery.flush(_AT_EXIT)
