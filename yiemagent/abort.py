"""The abort signal: how a run, a model call or a tool is told to stop."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from yiemagent.errors import ConfigurationError, RunAborted

__all__ = ["AbortSignal"]

logger = logging.getLogger(__name__)

# Longest single wait: a signal handler that aborts just before its own thread sleeps wakes nobody.
_SLICE = 0.5


class AbortSignal:
    """A flag that is raised once and never lowered.

    One object per run (and a child of it per model call), so that a tool which outlives
    its run still reads ``aborted`` as true. Any thread may call any method.

    Args:
        parent: A signal whose abort aborts this one too, with the same reason.

    Source: SP-022, AS-1 to AS-6 (H6: never cleared).
    """

    __slots__ = ("__weakref__", "_aborted", "_callbacks", "_changed", "_lock", "_reason", "_unlink")

    def __init__(self, parent: AbortSignal | None = None) -> None:
        # Guards _reason and _callbacks; callbacks run outside it, and one is taken back in a single step of
        # the dict. Reentrant: the finalizer of a
        # dropped stream may abort while its own thread holds the lock.
        # Taken directly and not through the condition: a signal handler that raises between taking
        # a lock and entering the block can only do so in Python code, which a Condition is.
        self._lock = threading.RLock()
        self._changed: threading.Condition | None = None  # Made by the first who waits: few are waited for.
        self._aborted = False
        self._reason = ""
        self._callbacks: dict[object, Callable[[], object]] | None = None
        self._unlink: Callable[[], object] | None = None
        if parent is not None:
            if not isinstance(parent, AbortSignal):
                raise ConfigurationError(f"parent must be an AbortSignal, got {parent!r}")
            self._unlink = parent.on_abort(lambda: self.abort(parent.reason))

    @property
    def aborted(self) -> bool:
        """Whether ``abort`` was called. Setting it to True aborts (the Julia design's spelling)."""
        return self._aborted

    @aborted.setter
    def aborted(self, value: bool) -> None:
        if not value:
            raise ConfigurationError("an AbortSignal cannot be lowered again; make a new one")
        self.abort()

    @property
    def reason(self) -> str:
        """What the first ``abort`` gave as its reason; empty before it."""
        return self._reason

    def abort(self, reason: str = "aborted") -> None:
        """Raise the flag, wake every waiter and run the callbacks, in this thread.

        Args:
            reason: Kept from the first call; later calls do nothing.
        """
        if not isinstance(reason, str):
            raise TypeError(f"reason must be a str, got {type(reason).__name__}")
        with self._lock:
            if self._aborted:
                return
            self._reason = reason
            callbacks, self._callbacks = self._callbacks, None
            self._aborted = True
            if self._changed is not None:
                self._changed.notify_all()
        if callbacks:
            _run_all(list(callbacks.values()))

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until aborted or *timeout* seconds passed (None: for ever).

        Returns:
            Whether the signal is aborted: ``if signal.wait(5): return`` is a sleep that ends early.
        """
        if self._aborted:
            return True
        deadline = None if timeout is None else monotonic() + timeout
        with self._lock:
            changed = self._changed = self._changed or threading.Condition(self._lock)
            while not self._aborted:
                left = _SLICE if deadline is None else min(_SLICE, deadline - monotonic())
                if left <= 0:
                    return False
                changed.wait(left)
        return True

    def raise_if_aborted(self) -> None:
        """Raise ``RunAborted`` when aborted, else do nothing.

        Raises:
            RunAborted: With the reason of the abort.
        """
        if self._aborted:
            raise RunAborted("Operation aborted", reason=self._reason)

    def on_abort(self, callback: Callable[[], object]) -> Callable[[], object]:
        """Call *callback* once on abort, in the aborting thread; at once if already aborted.

        Use it to close a socket or kill a child process. It must be quick; what it raises is
        logged and contained, ``SystemExit`` included, so that the other callbacks still run.

        Returns:
            A function that takes the callback back; calling it twice is harmless.

        Raises:
            TypeError: *callback* cannot be called.
        """
        if not callable(callback):
            raise TypeError(f"an on_abort callback must be callable, got {callback!r}")
        with self._lock:
            if not self._aborted:
                callbacks = self._callbacks
                if callbacks is None:
                    callbacks = self._callbacks = {}
                key = object()
                callbacks[key] = callback
                return functools.partial(callbacks.pop, key, None)
        _run_all([callback])
        return _nothing

    def detach(self) -> None:
        """Stop following the parent, so that a long-lived parent does not keep this child."""
        unlink, self._unlink = self._unlink, None
        if unlink is not None:
            unlink()

    def __repr__(self) -> str:
        state = f"aborted, reason={self._reason!r}" if self.aborted else "not aborted"
        return f"<AbortSignal {state}>"


def _nothing() -> None:
    """Take back a callback that was called."""


def _run_all(callbacks: list[Callable[[], object]]) -> None:
    """Run every callback, whatever the others do: some of them wake threads that wait."""
    interrupt: KeyboardInterrupt | None = None
    for callback in callbacks:
        try:
            callback()
        except KeyboardInterrupt as error:
            interrupt = error  # A second Ctrl-C; it goes on when everybody was told.
        except BaseException:
            with suppress(Exception):  # A log handler that raises must not keep the rest from running.
                logger.exception("callback=%r | an on_abort callback raised", callback)
    if interrupt is not None:
        raise interrupt
