"""The state of one run while it runs; only the loop's thread touches it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import HookFailed, YiemAgentError
from yiemagent.events import Diagnostic, Event, Log, MessageEnd, MessageStart, RunStatus
from yiemagent.loop.config import AgentContext, AgentLoopConfig, StreamFn
from yiemagent.loop.limits import Budget
from yiemagent.messages import Message
from yiemagent.tools.pool import ToolThreads

__all__ = ["Emit", "LoopRun", "Outcome", "call_hook"]

logger = logging.getLogger(__name__)
Emit = Callable[[Event], object]

DEADLINE = "max_seconds"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    status: RunStatus
    error: BaseException | None = None
    limit: str | None = None


@dataclass(slots=True, eq=False)
class LoopRun:
    """Everything one run knows. ``messages`` is the run's own list; ``context`` is what hooks see."""

    config: AgentLoopConfig
    context: AgentContext
    messages: list[Message]
    emit_to: Emit
    signal: AbortSignal
    """The run's own signal: a child of the caller's, also aborted when its time is used up."""
    stream_fn: StreamFn
    abortable: bool
    """Whether the model ends its stream by itself on abort."""
    budget: Budget
    threads: ToolThreads
    new_messages: list[Message] = field(default_factory=list)
    validated: int = 0
    """How many of ``messages`` are known to pair up."""
    truncated_turns: int = 0
    overflow_recovered: bool = False
    replacement: Sequence[Message] | None = None
    """Shorter messages to ask with, made after a context overflow."""
    _emit_failed: bool = False

    def emit(self, event: Event) -> None:
        """Hand *event* out; what the listener raises is logged once and contained (decision 23)."""
        try:
            self.emit_to(event)
        except KeyboardInterrupt:
            raise
        except BaseException:
            if not self._emit_failed:
                self._emit_failed = True
                logger.exception(
                    "event=%s | an event listener raised; later failures are not logged", event.type
                )

    def event_sink(self, text: str, publish: bool = False) -> None:
        """What hooks and tools get as ``event_sink``."""
        self.emit(Log(str(text), publish))

    def diagnose(self, name: str, **data: Any) -> None:
        """Make something visible that changes nothing."""
        self.emit(Diagnostic(name, data))

    def append(self, message: Message) -> None:
        """Add a message that the events already told of."""
        self.messages.append(message)
        self.new_messages.append(message)

    def deliver(self, message: Message) -> None:
        """Add a message together with its two events."""
        self.emit(MessageStart(message))
        self.append(message)
        self.emit(MessageEnd(message))

    def visible_context(self) -> AgentContext:
        """The context as hooks see it: a snapshot of the list, which they may keep."""
        return self.context.with_messages(tuple(self.messages))

    def expire(self) -> bool:
        """Abort the run if its time is used up; whether it is."""
        if not self.budget.expired():
            return False
        self.signal.abort(DEADLINE)
        return True

    def aborted_outcome(self, error: BaseException | None = None) -> Outcome:
        """How an aborted run ended: at a limit when its own time was used up."""
        if self.signal.reason == DEADLINE and self.budget.expired():
            return Outcome("limit", limit=DEADLINE)
        return Outcome("aborted", error)


def call_hook(name: str, hook: Callable[..., Any], *args: Any) -> Any:
    """Call a hook of the configuration.

    Raises:
        YiemAgentError: What the hook raised, when it is one of ours.
        HookFailed: Anything else it raised, as its cause; ``SystemExit`` and the like included.
    """
    try:
        return hook(*args)
    except (YiemAgentError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise HookFailed(f"{name} raised {type(error).__name__}: {error}", hook=name) from error
