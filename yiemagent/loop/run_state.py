"""The state of one run while it runs; only the loop's thread touches it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.data_class import dataclass, replace
from yiemagent.error_text import error_text
from yiemagent.errors import HookFailed, YiemAgentError
from yiemagent.events import (
    AgentEnd,
    Diagnostic,
    Event,
    Log,
    MessageEnd,
    MessageStart,
    RunStatus,
    TurnEnd,
    TurnStart,
)
from yiemagent.lineage import Lineage
from yiemagent.loop.config import AgentContext, AgentLoopConfig, StreamFn
from yiemagent.loop.limits import Budget
from yiemagent.messages import AssistantMessage, Message, ToolResultMessage, Usage
from yiemagent.tools.pool import ToolThreads
from yiemagent.tools.registry import ToolRegistry

__all__ = ["Emit", "LoopRun", "Outcome", "call_hook"]

logger = logging.getLogger(__name__)
Emit = Callable[[Event], object]

DEADLINE = "max_seconds"
INTERRUPTED = "interrupted"


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
    lineage: Lineage | None = None
    """Of ``messages``, as long as they are the history that the events tell of."""
    notes: dict[Any, Any] = field(default_factory=dict)
    """What was worked out about the history; outlives the run when its conversation does."""
    new_messages: list[Message] = field(default_factory=list)
    offered: ToolRegistry = field(default_factory=ToolRegistry)
    """The tools that the model was offered with its last call: no others are executed."""
    validated: int = 0
    """How many of ``messages`` are known to pair up."""
    plain: bool = True
    """Whether each of them is for every model: no custom message, no answer that is not sent."""
    truncated_turns: int = 0
    """Turns in a row whose calls were cut off."""
    overflow_recovered: bool = False
    shortened: tuple[Sequence[Message], int] | None = None
    """After a context overflow: what is asked with in place of the first so many messages."""
    in_turn: bool = False
    """Whether a turn was started and not ended."""
    interrupt: KeyboardInterrupt | None = None
    """Ctrl-C in the caller's own thread: the run is aborted in order, then it goes on its way."""
    over: bool = False
    _emit_failed: bool = False

    # -- events --------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Hand *event* out; what the listener raises is logged once and contained (decision 23)."""
        if self.over:
            return  # A hook's ``event_sink`` that outlived the run: nothing comes after its end.
        try:
            self.emit_to(event)
        except KeyboardInterrupt as error:
            self.interrupted(error)
        except BaseException:
            if not self._emit_failed:
                self._emit_failed = True
                with suppress(Exception):  # A log handler that raises is no reason to fail either.
                    logger.exception(
                        "event=%s | an event listener raised; later failures are not logged", event.type
                    )

    def event_sink(self, text: str, publish: bool = False) -> None:
        """What hooks and tools get as ``event_sink``."""
        self.emit(Log(str(text), publish))

    def diagnose(self, name: str, **data: Any) -> None:
        """Make something visible that changes nothing."""
        self.emit(Diagnostic(name, data))

    def heard(self, noticed: Diagnostic) -> None:
        """What the context functions notice: told of, and their own model calls are charged."""
        tokens, cost = noticed.data.get("summary_tokens"), noticed.data.get("cost")
        if tokens or cost:
            self.budget.charge_usage(Usage(output_tokens=tokens, cost=cost))
        self.emit(noticed)

    def start_turn(self) -> None:
        """Emit the start of a turn."""
        self.in_turn = True
        self.emit(TurnStart())

    def end_turn(self, message: AssistantMessage, results: tuple[ToolResultMessage, ...] = ()) -> None:
        """Emit the end of the turn."""
        self.in_turn = False
        self.emit(TurnEnd(message, results))

    def end(self, outcome: Outcome) -> None:
        """Emit the end of the run; nothing is emitted afterwards."""
        self.emit(AgentEnd(tuple(self.new_messages), outcome.status, outcome.error, outcome.limit))
        self.over = True

    # -- messages ------------------------------------------------------------------------

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

    def offered_context(self) -> AgentContext:
        """The same, with the tools that the model was offered."""
        return replace(self.context, messages=tuple(self.messages), tools=self.offered)

    def request_messages(self) -> list[Message]:
        """What the model is asked with before any hook: the history, or its shorter form."""
        if self.shortened is None:
            return self.messages
        shorter, replaced = self.shortened
        return [*shorter, *self.messages[replaced:]]

    # -- stopping ------------------------------------------------------------------------

    def interrupted(self, error: KeyboardInterrupt) -> None:
        """Note a Ctrl-C and abort the run."""
        self.interrupt = self.interrupt or error
        self.signal.abort(INTERRUPTED)

    def stopped(self) -> bool:
        """Whether nothing new may begin: the run is aborted, or its time is used up."""
        return self.signal.aborted or self.expire()

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
        raise HookFailed(f"{name} raised {error_text(error)}", hook=name) from error
