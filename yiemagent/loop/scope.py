"""Which run is this code part of? Known to hooks and tools through a context variable.

A tool that runs another agent thereby passes on abort, deadline and budget, and an agent finds
out that a tool of its own run is calling it, which could never be answered (case D-03). A run
that is over passes nothing on: what it started and nobody waits for goes its own way.
"""

from __future__ import annotations

from contextvars import Context, ContextVar

from yiemagent.abort import AbortSignal
from yiemagent.data_class import dataclass
from yiemagent.loop.limits import Budget

__all__ = ["RunScope", "current_scope", "enclosing_scope", "is_part_of_run"]


@dataclass(slots=True, eq=False)
class RunScope:
    """One run or one of its tool calls, and what it is part of."""

    owner: object
    """Whoever started the run: an agent, or None for the stateless loop."""
    signal: AbortSignal
    """Of the run; of the call inside one, so that a call whose time is up takes its own runs along."""
    budget: Budget
    parent: RunScope | None = None
    over: bool = False
    """Set once, by the run's own thread, when it has ended."""

    @property
    def binds(self) -> bool:
        """Whether what runs in it is still bound by it: until it is over, and for ever once aborted."""
        return not self.over or self.signal.aborted


current_scope: ContextVar[RunScope | None] = ContextVar("yiemagent_run", default=None)


def enclosing_scope(context: Context | None = None) -> RunScope | None:
    """The innermost scope that binds this code, or what runs in *context*."""
    scope = current_scope.get() if context is None else context.get(current_scope)
    while scope is not None and not scope.binds:
        scope = scope.parent
    return scope


def is_part_of_run(owner: object) -> bool:
    """Whether this code is part of a run of *owner*, which could not go on while it waits for it."""
    scope = enclosing_scope()
    while scope is not None:
        if scope.owner is owner and scope.binds:
            return True
        scope = scope.parent
    return False
