"""Which run is this code part of? Known to hooks and tools through a context variable.

A tool that runs another agent thereby passes on abort, deadline and budget, and an agent finds
out that a tool of its own run is calling it, which could never be answered (case D-03).
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from yiemagent.abort import AbortSignal
from yiemagent.loop.limits import Budget

__all__ = ["RunScope", "current_scope"]


@dataclass(frozen=True, slots=True, eq=False)
class RunScope:
    """One live run, and the run whose tool or hook started it."""

    owner: object
    """Whoever started the run: an agent, or None for the stateless loop."""
    signal: AbortSignal
    budget: Budget
    parent: RunScope | None = None

    def belongs_to(self, owner: object) -> bool:
        """Whether *owner* is this run's, or one of those around it."""
        scope: RunScope | None = self
        while scope is not None:
            if scope.owner is owner:
                return True
            scope = scope.parent
        return False


current_scope: ContextVar[RunScope | None] = ContextVar("yiemagent_run", default=None)
