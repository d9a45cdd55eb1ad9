"""Waiting for a result within a deadline, ended by an abort, open to Ctrl-C.

Nothing here has a lock, so that a finalizer or a signal handler may settle what its own thread is
just about to wait for, and Ctrl-C leaves nothing taken. ``queue.SimpleQueue`` loses no wake-up.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import time
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpTimeout
from yiemagent.mcp.deadline import Deadline

__all__ = ["Outcome", "pause", "wait_for"]

T = TypeVar("T")

_SLICE = 0.5
"""Longest single wait, so that Ctrl-C gets through on every platform."""


class Outcome(Generic[T]):
    """A value or an error that will be there once; the first one counts. Any thread."""

    __slots__ = ("_settled", "_wakers")

    def __init__(self) -> None:
        # Every access is one operation of a list: the first entry is what it ended with.
        self._settled: list[tuple[T | None, BaseException | None]] = []
        self._wakers: list[Callable[[], object]] = []

    @property
    def done(self) -> bool:
        """Whether it is settled."""
        return bool(self._settled)

    def settle(self, value: T) -> None:
        """Let it end with *value*; it does nothing when it has ended already."""
        self._end(value, None)

    def fail(self, error: BaseException) -> None:
        """Let it end with *error*; it does nothing when it has ended already."""
        self._end(None, error)

    def _end(self, value: T | None, error: BaseException | None) -> None:
        self._settled.append((value, error))
        for wake in tuple(self._wakers):
            wake()

    def tell(self, wake: Callable[[], object]) -> None:
        """Call *wake* when it is settled from now on; look at ``done`` afterwards."""
        self._wakers.append(wake)

    def forget(self, wake: Callable[[], object]) -> None:
        """Take *wake* back; harmless if it was never given."""
        with contextlib.suppress(ValueError):
            self._wakers.remove(wake)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is settled, at most *timeout* seconds; returns whether it is."""
        if self._settled:
            return True
        until = None if timeout is None else time.monotonic() + timeout
        woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        wake = functools.partial(woken.put, None)
        try:
            self.tell(wake)
            while not self._settled:
                left = _SLICE if until is None else min(_SLICE, until - time.monotonic())
                if left <= 0:
                    return False
                with contextlib.suppress(queue.Empty):
                    woken.get(timeout=left)
        finally:
            self.forget(wake)
        return True

    def result(self) -> T:
        """What it ended with; call it when it is done."""
        value, error = self._settled[0]
        if error is not None:
            raise error
        return cast(T, value)


def pause(seconds: float, deadline: Deadline, signal: AbortSignal | None, doing: str) -> None:
    """Sleep for *seconds*, within a deadline and open to an abort.

    Raises:
        McpTimeout: The deadline passed.
        RunAborted: *signal* was aborted.
    """
    never: Outcome[None] = Outcome()
    try:
        wait_for(never, deadline.within(seconds), signal, doing)
    except McpTimeout:
        if deadline.expired:
            raise


def wait_for(outcome: Outcome[T], deadline: Deadline, signal: AbortSignal | None, doing: str) -> T:
    """The value of *outcome*, or what it failed with.

    Args:
        outcome: Goes on when the wait ends early.
        deadline: May be pushed back meanwhile.
        signal: Ends the wait when aborted.
        doing: For the message: ``connecting to x``.

    Raises:
        McpTimeout: The deadline passed.
        RunAborted: *signal* was aborted.
    """
    woken: queue.SimpleQueue[None] = queue.SimpleQueue()
    wake = functools.partial(woken.put, None)
    withdraw = None if signal is None else signal.on_abort(wake)
    try:
        outcome.tell(wake)
        while not outcome.done:
            if signal is not None:
                signal.raise_if_aborted()
            if deadline.expired:
                waited = "in time" if deadline.timeout is None else f"within {deadline.timeout:g} s"
                raise McpTimeout(f"{doing} did not end {waited}")
            left = deadline.remaining()
            with contextlib.suppress(queue.Empty):
                woken.get(timeout=_SLICE if left is None else min(left, _SLICE))
        return outcome.result()
    finally:
        outcome.forget(wake)
        if withdraw is not None:
            withdraw()
