"""One daemon thread that is kept for the next piece of work, and can be left behind.

Tools and models that cannot be interrupted run on such a thread: the loop waits for them as
long as it wants to, and when it no longer does it leaves the thread and takes a fresh one.
Thread-bound resources (sqlite3 connections) work across calls as long as nothing was left.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Generic, TypeVar

__all__ = ["KeptThread", "Mailbox"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

_SLICE = 0.5  # Longest single wait of a loop, so that Ctrl-C gets through on every platform.


class Mailbox(Generic[T]):
    """Items put by any thread and taken by one, in order; the taker can be woken without an item.

    It has no lock of its own: ``queue.SimpleQueue`` wakes with one step and loses no wake-up, also of a
    finalizer or a signal handler in the very thread that is about to wait. Measured: a hand-over
    takes half the time of one through a condition, which wakes twice.
    """

    __slots__ = ("_queue", "_woken")

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._woken = False

    def put(self, item: T) -> None:
        """Add *item*, which is not None; never blocks."""
        self._queue.put(item)

    def wake(self) -> None:
        """Make the current or next ``take`` return None unless it has an item."""
        self._woken = True
        self._queue.put(None)  # A nudge; what it means is looked at after it came.

    def take(self, deadline: float | None = None) -> T | None:
        """The next item; None when woken, or when ``monotonic()`` reached *deadline*."""
        left = _SLICE
        while True:
            if deadline is not None:
                left = min(_SLICE, deadline - monotonic())
            try:
                item = self._queue.get(not self._woken and left > 0, left)
            except queue.Empty:
                if self._woken or left <= 0:
                    self._woken = False
                    return None
            else:
                if item is not None:
                    return item


class _Line:
    """The work of one thread, and how much of it was given and done; each count has one writer."""

    __slots__ = ("_closed", "_lock", "done", "given", "inbox", "left")

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self.given = 0
        self.done = 0
        self.left = False
        self._lock = threading.Lock()  # Guards that nothing is given once the thread is to end.
        self._closed = False

    def give(self, work: Callable[[], object]) -> bool:
        """Add *work*; never blocks. False when the thread has taken its last."""
        with self._lock:
            if self._closed:
                return False
            self.given += 1
            self.inbox.put(work)
            return True

    def leave(self) -> None:
        """Let the thread end once it has done what it was given."""
        self.left = True
        self.inbox.put(None)

    def take(self, idle: float | None) -> Callable[[], object] | None:
        """The next work; None, the thread's last word, when none came for *idle* seconds or it was left."""
        while True:
            try:
                work = self.inbox.get(not self.left, idle)
            except queue.Empty:
                work = None
            if work is not None:
                return work
            with self._lock:
                if self.inbox.empty():
                    self._closed = True
                    return None


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
            line.leave()

    close = leave

    def __del__(self) -> None:
        if not sys.is_finalizing():  # Its thread runs no more.
            self.leave()

    def forget(self) -> None:
        """Drop the thread without touching it: it belongs to the parent of this fork."""
        self._line = self._thread = None


def _serve(line: _Line, idle: float | None) -> None:
    while (work := line.take(idle)) is not None:
        try:
            work()
        except BaseException:
            with suppress(Exception):  # A log handler that raises must not end the thread.
                logger.exception("work on a kept thread raised")
        del work
        line.done += 1
