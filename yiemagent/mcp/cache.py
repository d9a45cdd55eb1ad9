"""Answers that a server allows to be kept for a while (``ttlMs``), one client's own.

Source: protocol 2026-07-28 "Caching"; E-16.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ResultCache"]

MAX_RESULTS = 1_000


class ResultCache:
    """Results by method and params, each until its own time is over or a change was told.

    Kept per client, so ``cacheScope`` is respected: nothing is shared between callers.

    Args:
        clock: For tests; ``time.monotonic`` by default.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Guards _kept.
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, int, Mapping[str, Any]]] = OrderedDict()

    def get(self, method: str, params: Mapping[str, Any], generation: int) -> Mapping[str, Any] | None:
        """The fresh result of an equal request, or None.

        Args:
            method: Of the request.
            params: Of the request, without ``_meta``.
            generation: How often the thing has changed; a result of another generation is stale.
        """
        with self._lock:
            kept = self._kept.get(_key(method, params))
        if kept is None or kept[1] != generation or self._clock() >= kept[0]:
            return None
        return kept[2]

    def put(self, method: str, params: Mapping[str, Any], generation: int, result: Mapping[str, Any]) -> None:
        """Keep *result* if it says for how long; *generation* is that from before it was asked for."""
        ttl = result.get("ttlMs")
        if isinstance(ttl, bool) or not isinstance(ttl, int | float) or ttl <= 0:
            return
        with self._lock:
            self._kept[_key(method, params)] = (self._clock() + ttl / 1000, generation, result)
            self._kept.move_to_end(_key(method, params))
            while len(self._kept) > MAX_RESULTS:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Begin empty in a forked child."""
        self._lock = threading.Lock()
        self._kept = OrderedDict()


def _key(method: str, params: Mapping[str, Any]) -> str:
    return json.dumps([method, params], sort_keys=True, default=repr)
