"""Redirect: cancel the model call in progress and ask again (decision 9)."""

from __future__ import annotations

import threading

from yiemagent.abort import AbortSignal

__all__ = ["REDIRECTED", "Redirect"]

REDIRECTED = "redirected"
"""The reason with which a redirected model call's own signal is aborted."""


class Redirect:
    """A request that outlives the moment: raised by any thread, cleared before each poll.

    Whoever redirects queues its message first and raises the request second; the loop clears
    the request first and polls second. So a message is either polled, or its request cancels
    the call that was made without it (R1, R2).
    """

    __slots__ = ("_call", "_lock", "_wanted")

    def __init__(self) -> None:
        # Guards the two fields below; aborting a call happens outside it.
        self._lock = threading.Lock()
        self._wanted = False
        self._call: AbortSignal | None = None

    def request(self) -> None:
        """Cancel the model call in progress, or the next one if it was not polled before."""
        with self._lock:
            self._wanted = True
            call = self._call
        if call is not None:
            call.abort(REDIRECTED)

    def clear(self) -> None:
        """The loop is about to poll: whatever was queued until now will be seen."""
        with self._lock:
            self._wanted = False

    def begin_call(self, call: AbortSignal) -> None:
        """A model call begins; *call* is its own signal."""
        with self._lock:
            self._call = call
            wanted = self._wanted
        if wanted:
            call.abort(REDIRECTED)

    def end_call(self) -> None:
        """The model call is over."""
        with self._lock:
            self._call = None
