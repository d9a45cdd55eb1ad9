"""Carries work from the native loop's thread to a thread that may be a greenlet."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Any

from yiemagent.mcp.nats_native import make_flag

__all__ = ["Pump"]


class Pump:
    """Hands each item to *take* on a thread of its own kind, in order.

    Args:
        take: Must not block for long.
    """

    def __init__(self, take: Callable[[Any], object]) -> None:
        self._take = take
        self._items: collections.deque[Any] = collections.deque()
        self._closed = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="yiemagent-mcp-nats-pump", daemon=True)
        self._thread.start()
        self._ready.wait()

    def put(self, item: Any) -> None:
        """Hand over *item*. Any native thread."""
        self._items.append(item)
        self._flag.set()

    def close(self) -> None:
        """End the thread; what waits is dropped."""
        self._closed = True
        self._flag.set()

    def _run(self) -> None:
        self._flag = make_flag()
        self._ready.set()
        try:
            while not self._closed:
                self._flag.wait(None)
                while self._items and not self._closed:
                    self._take(self._items.popleft())
        finally:
            self._flag.close()
