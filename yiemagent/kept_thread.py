"""One daemon thread that is kept for the next piece of work, and can be left behind.

Tools and models that cannot be interrupted run on such a thread: the loop waits for them as
long as it wants to, and when it no longer does it leaves the thread and takes a fresh one.
Thread-bound resources (sqlite3 connections) work across calls as long as nothing was left.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

__all__ = ["KeptThread", "Mailbox"]

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Mailbox(Generic[T]):
    """Items put by any thread and taken by one, in order; the taker can be woken without an item."""

    __slots__ = ("_items", "_ready", "_woken")

    def __init__(self) -> None:
        # Guards _items and _woken.
        self._ready = threading.Condition(threading.Lock())
        self._items: deque[T] = deque()
        self._woken = False

    def put(self, item: T) -> None:
        """Add *item*; never blocks."""
        with self._ready:
            self._items.append(item)
            self._ready.notify()

    def wake(self) -> None:
        """Make the current or next ``take`` return None unless it has an item."""
        with self._ready:
            self._woken = True
            self._ready.notify()

    def take(self, deadline: float | None = None) -> T | None:
        """The next item; None when woken, or when ``monotonic()`` reached *deadline*."""
        with self._ready:
            while not self._items:
                if self._woken:
                    self._woken = False
                    return None
                left = None if deadline is None else deadline - monotonic()
                if left is not None and left <= 0:
                    return None
                self._ready.wait(left)
            return self._items.popleft()


class KeptThread:
    """Runs one piece of work at a time on a thread that is kept between them.

    Args:
        name: Of the thread, after ``yiemagent-``.
        idle: Seconds after which an idle thread ends by itself; None keeps it until ``close``.
    """

    __slots__ = ("_idle", "_inbox", "_name", "_thread")

    def __init__(self, name: str, *, idle: float | None = None) -> None:
        self._name = name
        self._idle = idle
        self._inbox: Mailbox[Callable[[], object]] | None = None
        self._thread: threading.Thread | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Run *work* on the thread; the caller makes sure that the one before is over or left.

        What *work* raises is logged; hand results and errors over inside it.
        """
        inbox, thread = self._inbox, self._thread
        if inbox is None or thread is None or not thread.is_alive():
            inbox = self._inbox = Mailbox()
            inbox.put(work)
            thread = threading.Thread(
                target=_serve, args=(inbox, self._idle), name=f"yiemagent-{self._name}", daemon=True
            )
            self._thread = thread
            thread.start()
        else:
            inbox.put(work)

    def leave(self) -> None:
        """Forget the thread, whatever it is doing; it ends when its work does."""
        inbox, self._inbox, self._thread = self._inbox, None, None
        if inbox is not None:
            inbox.wake()

    close = leave

    def __del__(self) -> None:
        self.leave()

    def forget(self) -> None:
        """Drop the thread without touching it: it belongs to the parent of this fork."""
        self._inbox = self._thread = None


def _serve(inbox: Mailbox[Callable[[], object]], idle: float | None) -> None:
    while True:
        work = inbox.take(None if idle is None else monotonic() + idle)
        if work is None:
            return
        try:
            work()
        except BaseException:
            logger.exception("work on a kept thread raised")
        del work
