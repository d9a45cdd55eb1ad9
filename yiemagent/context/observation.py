"""Who hears what the context functions notice: sizes, cuts and compactions, never content.

Transforms are called with messages and a signal only, so whoever calls them (the loop) says
around the call where their diagnostics go. The observer is bound to the current context, so
that runs on different threads never hear each other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from yiemagent.events import Diagnostic

__all__ = ["Observer", "observe", "observing"]

logger = logging.getLogger(__name__)

Observer: TypeAlias = Callable[[Diagnostic], object]

_observer: ContextVar[Observer | None] = ContextVar("yiemagent_context_observer", default=None)


@contextmanager
def observing(observer: Observer | None) -> Iterator[None]:
    """Send the diagnostics of everything called inside to *observer*; None silences it.

    Names: ``context.size``, ``context.warning``, ``context.truncated``, ``context.pruned``,
    ``context.compacted``, ``context.compaction_failed``, ``context.fenced`` (TL-1). What the
    observer raises is logged and contained.
    """
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def observe(name: str, data: Mapping[str, Any]) -> None:
    """Tell the current observer, if there is one. *data* holds names, counts and sizes only."""
    observer = _observer.get()
    if observer is None:
        return
    try:
        observer(Diagnostic(name, data))
    except Exception:
        logger.exception("diagnostic=%s | a context observer raised", name)
