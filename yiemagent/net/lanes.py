"""Connections that are kept open: a lane is a pool of one connection.

A lane is used by one exchange at a time, whatever the thread, so nothing of it is ever shared
between threads, and threads that come and go still find a warm connection. A child
process starts with none.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Hashable
from typing import TYPE_CHECKING

from yiemagent.forking import forget_parent_on_fork

if TYPE_CHECKING:
    from yiemagent.net.lane import Lane

__all__ = ["Lanes", "shared_lanes"]

_IDLE_SECONDS = 300.0
"""Balancers drop idle connections after 60 to 350 s; older ones are not worth a try."""
_IDLE_LIMIT = 64
"""More are not worth their sockets, even after a burst of many threads."""


class Lanes:
    """A set of idle lanes by key (origin, proxy, TLS settings). Any thread.

    It is closed when collected, or by ``close``; lanes in use are then closed when they come
    back.

    Args:
        idle_seconds: Older idle lanes are closed when others come back.
        idle_limit: Idle lanes kept at most for one key.
    """

    def __init__(self, *, idle_seconds: float = _IDLE_SECONDS, idle_limit: int = _IDLE_LIMIT) -> None:
        self._idle_seconds = idle_seconds
        self._idle_limit = idle_limit
        # Guards _idle, _closed and _swept. Reentrant: an answer that was dropped half read gives its
        # lane back from a garbage collection, also in a thread that is in here.
        self._lock = threading.RLock()
        self._idle: dict[Hashable, list[Lane]] = {}
        self._closed = False
        self._swept = 0.0
        forget_parent_on_fork(self)
        weakref.finalize(self, _close_all, self._idle).atexit = False

    def take(self, key: Hashable, idle_limit: float | None = None) -> Lane | None:
        """The lane for *key* that was used last, or None when there is no idle one.

        Args:
            key: Of the target.
            idle_limit: Seconds that it may have been idle; when the last one was idle for longer,
                all are left where they are.
        """
        now = time.monotonic()
        with self._lock:
            idle = self._idle.get(key)
            if not idle or (idle_limit is not None and now - idle[-1].idle_since > idle_limit):
                return None
            return idle.pop()

    def give(self, lane: Lane) -> None:
        """Take *lane* back; called when its exchange is over."""
        now = time.monotonic()
        lane.idle_since = now
        surplus: list[Lane] = []
        with self._lock:
            if self._closed:
                surplus.append(lane)
            else:
                sweep = now - self._swept > self._idle_seconds / 2
                if sweep:
                    self._swept = now  # First of all: one that comes back meanwhile must not sweep too.
                idle = self._idle.setdefault(lane.key, [])
                idle.append(lane)
                if len(idle) > self._idle_limit:
                    surplus.append(idle.pop(0))
                if sweep:
                    surplus += self._stale(now)
        for extra in surplus:
            extra.close()

    def close(self) -> None:
        """Close what is idle, and from now on what comes back."""
        with self._lock:
            self._closed = True
            lanes = [lane for idle in self._idle.values() for lane in idle]
            self._idle.clear()
        for lane in lanes:
            lane.close()

    def _stale(self, now: float) -> list[Lane]:
        stale = []
        for key in list(self._idle):
            for lane in self._idle.pop(key):
                if now - lane.idle_since > self._idle_seconds:
                    stale.append(lane)
                else:
                    self._idle.setdefault(key, []).append(lane)
        return stale

    def _after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        self._idle = {}
        self._swept = 0.0


def _close_all(idle: dict[Hashable, list[Lane]]) -> None:
    for lanes in idle.values():
        for lane in lanes:
            lane.close()


_shared: Lanes | None = None


def shared_lanes() -> Lanes:
    """The lanes of this process: an agent made for each web request still finds a warm one."""
    global _shared
    lanes = _shared
    if lanes is None:
        lanes = _shared = Lanes()
    return lanes
