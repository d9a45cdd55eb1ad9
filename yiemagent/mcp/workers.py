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
        # Guards _work and _running.
        self._lock = threading.Lock()
        self._work: deque[tuple[contextvars.Context, Callable[[], object]]] = deque()
        self._running = 0

    def start(self, work: Callable[[], object], context: contextvars.Context | None = None) -> bool:
        """Have *work* done soon, in a copy of *context* (the caller's by default). Never blocks.

        What it raises is logged and contained.

        Returns:
            False when too much is waiting already; the work is then not done.
        """
        own = contextvars.copy_context() if context is None else context.copy()
        with self._lock:
            if len(self._work) >= self._limit:
                return False
            self._work.append((own, work))
            needed = self._running < self._threads
            self._running += needed
        if needed:
            threading.Thread(target=self._run, name=f"yiemagent-{self._name}", daemon=True).start()
        return True

    def clear(self) -> None:
        """Drop what has not begun."""
        with self._lock:
            self._work.clear()

    def forget(self) -> None:
        """Forget the parent's threads in a forked child."""
        self._lock = threading.Lock()
        self._work = deque()
        self._running = 0

    def _run(self) -> None:
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
