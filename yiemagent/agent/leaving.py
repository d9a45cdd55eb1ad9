"""Leaving the interpreter: every agent is told to stop, and one short time is waited for all.

Threads are daemons, so nothing here is needed for the process to end; but a run that is given a
moment ends in order instead of printing or writing into an interpreter that is being taken down
(cases D-17, D-19).
"""

from __future__ import annotations

import atexit
import threading
import weakref
from time import monotonic

from yiemagent.agent.queues import Channels
from yiemagent.forking import forget_parent_on_fork

__all__ = ["enroll", "stop_channels"]

_EXIT_JOIN = 0.5  # Seconds that the exit waits for all runs together to notice their abort.
_REASON = "interpreter exit"


class _Leaving:
    """The channels of every agent that was used; they are held weakly."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # Guards the two below; reentrant for finalizers.
        self._enrolled: weakref.WeakSet[Channels] = weakref.WeakSet()
        self._registered = False

    def add(self, channels: Channels) -> None:
        with self._lock:
            self._enrolled.add(channels)
            if self._registered:
                return
            self._registered = True
        forget_parent_on_fork(self)
        atexit.register(self.leave)

    def leave(self) -> None:
        with self._lock:
            everybody = list(self._enrolled)
        deadline = monotonic() + _EXIT_JOIN
        for channels in everybody:
            stop_channels(channels, _REASON)
        for channels in everybody:
            channels.wait_idle(deadline)

    def _after_fork_in_child(self) -> None:
        # What the parent's threads were doing is nothing to wait for, nor are their locks to touch.
        self._lock = threading.RLock()
        self._enrolled = weakref.WeakSet()


_leaving = _Leaving()


def enroll(channels: Channels) -> None:
    """Stop *channels* when the interpreter exits, unless they are gone by then."""
    _leaving.add(channels)


def stop_channels(channels: Channels, reason: str) -> None:
    """Take nothing more, tell those who wait for what will not be run, and abort the run that is on."""
    for ticket in channels.stop():
        ticket.refuse()
    signal = channels.signal_to_abort(reason)
    if signal is not None:
        signal.abort(reason)
