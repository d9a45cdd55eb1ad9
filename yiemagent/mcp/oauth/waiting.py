"""Waiting for another thread or a person, within the limits of a call; and doing a thing once.

Source: house rule "every wait has a deadline and wakes on abort".
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from yiemagent.errors import McpAuthorizationError, McpTimeout
from yiemagent.mcp.http_auth import AuthCall

__all__ = ["Turn", "wait_for"]


def wait_for(event: threading.Event, call: AuthCall, what: str) -> None:
    """Sleep until *event* is set.

    Args:
        event: Set by another thread, and by an abort, which may only happen while one waits here.
        call: Whose deadline and signal end the wait.
        what: What is waited for, for the message.

    Raises:
        McpTimeout: The deadline passed first.
        RunAborted: The call was aborted.
    """
    forget = call.signal.on_abort(event.set) if call.signal is not None else None
    try:
        reached = event.wait(call.deadline.remaining())
    finally:
        if forget is not None:
            forget()
    if call.signal is not None:
        call.signal.raise_if_aborted()
    if not reached:
        raise McpTimeout(f"no answer in time while waiting for {what}")


class Turn:
    """One piece of work that several threads want done and one of them does.

    The first one works, the others wait. When the work failed with an authorization error the
    waiters get it too (nobody wants one login page after the other); when the worker itself was
    aborted or ran out of time, a waiter takes over.
    """

    __slots__ = ("_error", "_lock", "_over", "_waiters")

    def __init__(self) -> None:
        # Guards all that follows.
        self._lock = threading.Lock()
        self._waiters: list[threading.Event] = []
        self._over = False
        self._error: McpAuthorizationError | None = None

    def work(self, do: Callable[[], None]) -> None:
        """Do the work and tell the waiters."""
        try:
            do()
        except McpAuthorizationError as exc:
            self._error = exc
            raise
        finally:
            with self._lock:
                self._over = True
                waiters, self._waiters = self._waiters, []
            for event in waiters:
                event.set()

    def wait(self, call: AuthCall, what: str) -> None:
        """Wait until the worker is done, well or not.

        Raises:
            McpAuthorizationError: The worker failed with it.
            McpTimeout: The deadline passed first.
            RunAborted: The call was aborted.
        """
        event = threading.Event()
        with self._lock:
            if not self._over:
                self._waiters.append(event)
            else:
                event.set()
        wait_for(event, call, what)
        if self._error is not None:
            raise McpAuthorizationError(
                str(self._error), error=self._error.error, status=self._error.status
            ) from self._error
