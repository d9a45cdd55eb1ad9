"""Events of a run, in the order of the loop: what listeners and event streams get.

Every start has its end on every path, and ``AgentEnd`` is always the last event of a run
(decision 7). ``str(event)`` is one readable line (decision 25). Nothing is ever changed in an
event after it was emitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal, TypeAlias

from yiemagent.assistant_events import AssistantEvent, fold
from yiemagent.data_class import dataclass
from yiemagent.messages import AssistantMessage, Message, ToolResultMessage

__all__ = [
    "AgentEnd",
    "AgentStart",
    "Diagnostic",
    "Event",
    "Log",
    "MessageEnd",
    "MessageStart",
    "MessageUpdate",
    "RunStatus",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "ToolExecutionUpdate",
    "TurnEnd",
    "TurnStart",
]

RunStatus: TypeAlias = Literal["completed", "aborted", "error", "limit"]


@dataclass(frozen=True, slots=True)
class AgentStart:
    """A run begins."""

    type: ClassVar[str] = "agent_start"

    def __str__(self) -> str:
        return "agent start"


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """A run is over; always the last event of it.

    ``messages`` are the new ones only: the prompts and everything produced.
    """

    messages: tuple[Message, ...]
    status: RunStatus = "completed"
    error: BaseException | None = None
    limit: str | None = None
    """Name of the limit that was reached, with status ``limit``."""
    type: ClassVar[str] = "agent_end"

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The same as ``messages``, by the name the designs use."""
        return self.messages

    def __str__(self) -> str:
        cause = f": {self.error}" if self.error else f": {self.limit}" if self.limit else ""
        return f"agent end ({self.status}{cause}), {len(self.messages)} new messages"


@dataclass(frozen=True, slots=True)
class TurnStart:
    """One model call and its tools begin."""

    type: ClassVar[str] = "turn_start"

    def __str__(self) -> str:
        return "turn start"


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The answer of a turn with the results of its tool calls, in call order."""

    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...] = ()
    type: ClassVar[str] = "turn_end"

    def __str__(self) -> str:
        return f"turn end, {len(self.tool_results)} tool results"


@dataclass(frozen=True, slots=True)
class MessageStart:
    """A message begins: a prompt, a steering message, an answer or a tool result."""

    message: Message
    type: ClassVar[str] = "message_start"

    def __str__(self) -> str:
        return f"message start: {self.message.role}"


@dataclass(frozen=True, slots=True)
class MessageUpdate:
    """One piece of an answer arrived."""

    assistant_event: AssistantEvent
    _base: AssistantMessage = field(repr=False)
    _log: Sequence[AssistantEvent] = field(repr=False)
    _length: int = field(repr=False)
    type: ClassVar[str] = "message_update"

    @property
    def message(self) -> AssistantMessage:
        """The answer as it was at this event; built when asked for, at the cost of its length."""
        return fold(self._base, self._log[: self._length])

    def __str__(self) -> str:
        return f"message update: {self.assistant_event.type}"


@dataclass(frozen=True, slots=True)
class MessageEnd:
    """A message is complete and part of the history."""

    message: Message
    type: ClassVar[str] = "message_end"

    def __str__(self) -> str:
        return f"message end: {self.message.role}"


@dataclass(frozen=True, slots=True)
class ToolExecutionStart:
    """A tool call begins to be handled; the arguments are raw, as the model sent them."""

    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    type: ClassVar[str] = "tool_execution_start"

    def __str__(self) -> str:
        return f"tool start: {self.tool_name} ({self.tool_call_id})"


@dataclass(frozen=True, slots=True)
class ToolExecutionUpdate:
    """A running tool reported progress; ``partial_result`` is a ``ToolResult``."""

    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    partial_result: Any
    type: ClassVar[str] = "tool_execution_update"

    def __str__(self) -> str:
        return f"tool update: {self.tool_name} ({self.tool_call_id})"


@dataclass(frozen=True, slots=True)
class ToolExecutionEnd:
    """A tool call has its one result; ``result`` is a ``ToolResult``."""

    tool_call_id: str
    tool_name: str
    result: Any
    is_error: bool
    type: ClassVar[str] = "tool_execution_end"

    def __str__(self) -> str:
        outcome = "failed" if self.is_error else "ok"
        return f"tool end: {self.tool_name} ({self.tool_call_id}), {outcome}"


@dataclass(frozen=True, slots=True)
class Log:
    """What a hook, a tool or a model said through ``event_sink(text, publish=...)``."""

    text: str
    publish: bool = False
    type: ClassVar[str] = "log"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something worth seeing that changes nothing: a retry, a repair, a limit, a compaction.

    ``name`` is stable; ``data`` holds names, counts and sizes, never content.
    """

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    type: ClassVar[str] = "diagnostic"

    def __str__(self) -> str:
        return f"{self.name} {dict(self.data)}"


Event: TypeAlias = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | Log
    | Diagnostic
)
