"""One daemon thread that is kept for the next piece of work, and can be left behind.

Tools and models that cannot be interrupted run on such a thread: the loop waits for them as
long as it wants to, and when it no longer does it leaves the thread and takes a fresh one.
Thread-bound resources (sqlite3 connections) work across calls as long as nothing was left.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Generic, TypeVar

__all__ = ["KeptThread", "Mailbox"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

_SLICE = 0.5  # Longest single wait of a loop.


class Mailbox(Generic[T]):
    """Items put by any thread and taken by one, in order; the taker can be woken without an item."""

    __slots__ = ("_closed", "_items", "_lock", "_ready", "_woken")

    def __init__(self) -> None:
        # Guards the rest. Reentrant: a finalizer may wake the box while its own thread is in here.
        self._lock = threading.RLock()
        self._ready = threading.Condition(self._lock)
        self._items: deque[T] = deque()
        self._woken = False
        self._closed = False

    def put(self, item: T) -> bool:
        """Add *item*; never blocks. False when the taker has left for good."""
        with self._lock:
            if self._closed:
                return False
            self._items.append(item)
            self._ready.notify()
            return True

    def wake(self) -> None:
        """Make the current or next ``take`` return None unless it has an item."""
        with self._lock:
            self._woken = True
            self._ready.notify()

    def take(self, deadline: float | None = None, *, closing: bool = False) -> T | None:
        """The next item; None when woken, or when ``monotonic()`` reached *deadline*.

        Args:
            closing: None is the taker's last word: nothing can be put afterwards. Decided under
                the same lock as ``put``, so that no item is accepted and never taken.
        """
        with self._lock:
            while not self._items:
                left = None if deadline is None else min(deadline - monotonic(), threading.TIMEOUT_MAX)
                if self._woken or (left is not None and left <= 0):
                    self._woken = False
                    self._closed = closing
                    return None
                if not closing:
                    # The loop's wait for a run: this very thread may abort it, in a finalizer or a
                    # signal handler, just before it sleeps; that wakes nobody.
                    left = _SLICE if left is None else min(_SLICE, left)
                self._ready.wait(left)
            return self._items.popleft()


class _Line:
    """The work of one thread, and how much of it was given and done; each count has one writer."""

    __slots__ = ("done", "given", "inbox")

    def __init__(self) -> None:
        self.inbox: Mailbox[Callable[[], object]] = Mailbox()
        self.given = 0
        self.done = 0

    def give(self, work: Callable[[], object]) -> bool:
        self.given += 1
        return self.inbox.put(work)


class KeptThread:
    """Runs one piece of work at a time on a thread that is kept between them.

    Args:
        name: Of the thread, after ``yiemagent-``.
        idle: Seconds after which an idle thread ends by itself; None keeps it until ``close``.
    """

    __slots__ = ("_idle", "_line", "_name", "_thread")

    def __init__(self, name: str, *, idle: float | None = None) -> None:
        self._name = name
        self._idle = idle
        self._line: _Line | None = None
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether the last piece of work has not ended yet; the next one would wait for it."""
        line, thread = self._line, self._thread
        return line is not None and line.given != line.done and thread is not None and thread.is_alive()

    def start(self, work: Callable[[], object]) -> None:
        """Run *work* on the thread; the caller makes sure that the one before is over or left.

        What *work* raises is logged; hand results and errors over inside it.

        Raises:
            RuntimeError: The thread cannot be started.
        """
        line, thread = self._line, self._thread
        if line is not None and thread is not None and thread.is_alive() and line.give(work):
            return
        line = _Line()
        line.give(work)
        thread = threading.Thread(
            target=_serve, args=(line, self._idle), name=f"yiemagent-{self._name}", daemon=True
        )
        # Known before it is started: an interrupted start() may have started it all the same.
        self._line, self._thread = line, thread
        try:
            thread.start()
        except RuntimeError:
            self._line = self._thread = None
            raise

    def leave(self) -> None:
        """Forget the thread, whatever it is doing; it ends when its work does."""
        line, self._line, self._thread = self._line, None, None
        if line is not None:
            line.inbox.wake()

    close = leave

    def __del__(self) -> None:
        if not sys.is_finalizing():  # Its lock may be held by a thread that runs no more.
            self.leave()

    def forget(self) -> None:
        """Drop the thread without touching it: it belongs to the parent of this fork."""
        self._line = self._thread = None


def _serve(line: _Line, idle: float | None) -> None:
    while True:
        work = line.inbox.take(None if idle is None else monotonic() + idle, closing=True)
        if work is None:
            return
        try:
            work()
        except BaseException:
            with suppress(Exception):  # A log handler that raises must not end the thread.
                logger.exception("work on a kept thread raised")
        del work
        line.done += 1
