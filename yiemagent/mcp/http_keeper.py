"""Deadlines of requests during which the user may be asked.

While a server waits for an elicitation, the clock of the call stands still and later goes on,
so no time-out of a socket can be right for it: the read that is going on was begun with the
old moment. One thread watches such exchanges instead, and cuts them off when their time is up.
"""

from __future__ import annotations

import logging
import threading

from yiemagent.mcp.http_run import HttpRun

__all__ = ["DeadlineKeeper"]

logger = logging.getLogger(__name__)

_IDLE = 2.0
"""Seconds that the thread waits for another exchange before it ends."""


class DeadlineKeeper:
    """Aborts the signal of each exchange that is watched when its deadline has passed. Any thread."""

    def __init__(self) -> None:
        # Guards all that follows. Taken directly and not through the condition, which is notified when
        # an exchange comes, and on close. Reentrant: a signal handler or a finalizer may close.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._runs: set[HttpRun] = set()
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, run: HttpRun) -> None:
        """Cut *run* off when its deadline passes, until it is forgotten."""
        made: threading.Thread | None = None
        try:
            with self._lock:
                self._runs.add(run)
                if self._thread is None:
                    made = threading.Thread(target=self._keep, name="yiemagent-mcp-deadlines", daemon=True)
                    self._thread = made
                self._changed.notify()
            if made is not None:
                made.start()
        except BaseException:
            with self._lock:
                # One that comes up all the same finds that it is not the one.
                if made is not None and self._thread is made and made.ident is None:
                    self._thread = None
            raise

    def forget(self, run: HttpRun) -> None:
        """*run* is over."""
        with self._lock:
            self._runs.discard(run)

    def close(self) -> None:
        """Let the thread end."""
        with self._lock:
            self._closed = True
            self._changed.notify()

    def _keep(self) -> None:
        while True:
            with self._lock:
                if self._thread is not threading.current_thread():
                    return
                if not self._runs and not self._closed:
                    self._changed.wait(_IDLE)
                if not self._runs:
                    self._thread = None
                    return
                runs = list(self._runs)
                waits = [left for run in runs if (left := run.deadline.remaining()) is not None]
                if not any(run.deadline.expired for run in runs):
                    # Nobody tells when an exchange is over: that would wake this thread for each.
                    self._changed.wait(min([*waits, _IDLE]))
            for run in runs:
                if run.deadline.expired:
                    run.cut_off()
                    self.forget(run)
