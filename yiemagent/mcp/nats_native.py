"""Native threads, and flags to wait on, in a process that gevent may have patched.

gevent is never imported here, only looked up when it has patched the process already. In a
process without it everything is plain ``threading``.

Source: case D-34 (a loop in a patched "thread" is seen by every greenlet).
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Flag", "greenlets_rule", "make_flag", "original", "start_native_thread"]


def original(module: str, name: str) -> Any:
    """Return *name* of *module* as it was before gevent patched it, or as it is."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None:
        return getattr(importlib.import_module(module), name)
    return monkey.get_original(module, name)


def greenlets_rule() -> bool:
    """Whether ``threading`` makes greenlets in this process."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def start_native_thread(body: Callable[[], None], name: str) -> threading.Thread | None:
    """Run *body* in a native daemon thread; returns it unless only gevent's original could start it."""
    if greenlets_rule():
        original("_thread", "start_new_thread")(body, ())
        return None
    thread = threading.Thread(target=body, name=name, daemon=True)
    thread.start()
    return thread


class Flag(Protocol):
    """Wakes one waiter, which may be a thread or a greenlet; each ``wait`` that succeeds lowers it."""

    def set(self) -> None:
        """Raise it. Any thread, any number of times, also after ``close``."""

    def wait(self, timeout: float | None) -> bool:
        """Block until raised (then True) or *timeout* seconds passed; None waits for ever."""

    def close(self) -> None:
        """Give back what it holds; ``set`` does nothing from now on."""


class _ThreadFlag:
    """A lock that the setter opens: half the price of an Event, and Ctrl-C gets through."""

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()

    def set(self) -> None:
        with contextlib.suppress(RuntimeError):  # raised already
            self._closed.release()

    def wait(self, timeout: float | None) -> bool:
        return self._closed.acquire(timeout=-1 if timeout is None else max(timeout, 0.0))

    def close(self) -> None:
        pass


class _HubFlag:
    """A gevent event raised through an async watcher, the one thing a hub lets other threads touch."""

    def __init__(self) -> None:
        self._event = importlib.import_module("gevent.event").Event()
        # Guards _watcher: set() may come from the loop's thread while the waiter leaves, and from a
        # signal handler or a finalizer of the waiter's.
        self._lock = original("_thread", "RLock")()
        self._watcher: Any = sys.modules["gevent"].get_hub().loop.async_()
        self._watcher.start(self._event.set)

    def set(self) -> None:
        with self._lock:
            if self._watcher is not None:
                self._watcher.send()

    def wait(self, timeout: float | None) -> bool:
        raised = bool(self._event.wait(timeout))
        self._event.clear()
        return raised

    def close(self) -> None:
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
            watcher.close()


def make_flag() -> Flag:
    """Make a flag on which the caller's kind of thread can wait."""
    return _HubFlag() if greenlets_rule() else _ThreadFlag()
