"""One call of the user's: what limits it, who listens to it, and what it was sent over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.data_class import dataclass
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.options import EventSink, OnProgress
from yiemagent.mcp.session import Session

__all__ = ["Call"]


@dataclass(slots=True)
class Call:
    """The limits of one call and who listens to it. Not frozen: one is made for each call."""

    deadline: Deadline
    """For everything, a new connection included."""
    signal: AbortSignal | None = None
    """Ends it when aborted."""
    on_progress: OnProgress | None = None
    """Gets its progress, on the thread of the call."""
    event_sink: EventSink | None = None
    """Gets progress and logs as lines, likewise."""
    meta: Mapping[str, Any] | None = None
    """The user's keys for ``_meta``."""
    session: Session | None = None
    """The session that was there last, or None; it may be lost by now."""
