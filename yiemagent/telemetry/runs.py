"""Which run an event belongs to, for a listener that hears several at once."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

from yiemagent.abort import AbortSignal

__all__ = ["Runs"]

T = TypeVar("T")


class Runs(Generic[T]):
    """One value for each live run.

    A run is told by its abort signal, which is its own. Without one (``emit=`` of the stateless
    loop) it is told by its thread, where runs can only be inside each other.
    """

    __slots__ = ("_by_signal", "_by_thread", "_lock")

    def __init__(self) -> None:
        # Guards the two dicts.
        self._lock = threading.Lock()
        self._by_signal: dict[int, tuple[AbortSignal, T]] = {}
        self._by_thread: dict[int, list[T]] = {}

    def begin(self, signal: AbortSignal | None, run: T) -> None:
        """A run begins."""
        with self._lock:
            if signal is not None:
                # The signal is kept, so that its id is not given to another one meanwhile.
                self._by_signal[id(signal)] = (signal, run)
            else:
                self._by_thread.setdefault(threading.get_ident(), []).append(run)

    def get(self, signal: AbortSignal | None) -> T | None:
        """The run that an event belongs to; None if its beginning was not heard."""
        with self._lock:
            if signal is not None:
                found = self._by_signal.get(id(signal))
                return None if found is None else found[1]
            stack = self._by_thread.get(threading.get_ident())
            return stack[-1] if stack else None

    def end(self, signal: AbortSignal | None) -> None:
        """A run is over; harmless if its beginning was not heard."""
        with self._lock:
            if signal is not None:
                self._by_signal.pop(id(signal), None)
                return
            thread = threading.get_ident()
            stack = self._by_thread.get(thread, [])
            if stack:
                stack.pop()
            if not stack:
                self._by_thread.pop(thread, None)
