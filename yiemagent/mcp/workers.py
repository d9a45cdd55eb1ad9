"""Where the user's callbacks run: off the threads that read the wire.

Source: issue 5 part 2 ("answered on a worker, never on the reader"), mcp quirk 8.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Workers"]

logger = logging.getLogger(__name__)


class Workers:
    """Threads that come with the first piece of work and go with the last.

    Nothing has to be stopped: a thread that finds no more work ends by itself.

    Args:
        name: Of the threads, after ``yiemagent-``.
        threads: How many work at once; 1 keeps the order.
        limit: Pieces of work that may wait; more are refused.
    """

    def __init__(self, name: str, *, threads: int, limit: int = 10_000) -> None:
        self._name = name
        self._threads = threads
        self._limit = limit
        # Guards all that follows. Reentrant: a collected client may have something told to its server.
        self._lock = threading.RLock()
        self._work: deque[tuple[contextvars.Context, Callable[[], object]]] = deque()
        self._running = 0
        # Of threads that were started and have not come up yet. Whoever was interrupted while it
        # started one takes its claim back: the thread leaves at once if it comes up all the same.
        self._claims: set[object] = set()

    def start(self, work: Callable[[], object], context: contextvars.Context | None = None) -> bool:
        """Have *work* done soon, in a copy of *context* (the caller's by default). Never blocks.

        What it raises is logged and contained.

        Returns:
            False when too much is waiting already; the work is then not done.
        """
        own = contextvars.copy_context() if context is None else context.copy()
        claim = object()
        try:
            with self._lock:
                if len(self._work) >= self._limit:
                    return False
                self._work.append((own, work))
                # Added before it is counted, so that work which this very thread starts meanwhile sees it.
                self._claims.add(claim)
                needed = len(self._claims) + self._running <= self._threads
                if not needed:
                    self._claims.discard(claim)
            if needed:
                name = f"yiemagent-{self._name}"
                threading.Thread(target=self._run, args=(claim,), name=name, daemon=True).start()
        except BaseException:
            with self._lock:
                self._claims.discard(claim)
            raise
        return True

    def clear(self) -> None:
        """Drop what has not begun."""
        with self._lock:
            dropped, self._work = self._work, deque()
        dropped.clear()

    def forget(self) -> None:
        """Forget the parent's threads in a forked child."""
        self._lock = threading.RLock()
        self._work = deque()
        self._running = 0
        self._claims = set()

    def _run(self, claim: object) -> None:
        with self._lock:
            if claim not in self._claims:
                return
            self._running += 1
            self._claims.discard(claim)
        while True:
            with self._lock:
                if not self._work:
                    self._running -= 1
                    return
                context, work = self._work.popleft()
            try:
                context.run(work)
            except BaseException:
                logger.exception("work=%r | a callback raised", work)
            del context, work
