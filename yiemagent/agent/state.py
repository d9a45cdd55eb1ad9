"""The agent's state: a reducer over the events of its runs, and the snapshot that readers get."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from yiemagent.data_class import dataclass
from yiemagent.events import (
    AgentEnd,
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from yiemagent.lineage import Lineage
from yiemagent.messages import AssistantMessage, Message
from yiemagent.model import Llm, ThinkingLevel
from yiemagent.tools.tool import Tool

__all__ = ["AgentState", "StateReducer"]


@dataclass(frozen=True, slots=True)
class AgentState:
    """A snapshot; it never changes (PI-75, AG-11)."""

    system_prompt: str
    model: Llm
    thinking_level: ThinkingLevel
    tools: tuple[Tool, ...]
    messages: tuple[Message, ...]
    is_streaming: bool
    """Whether a run is in progress or about to start."""
    streaming_message: Message | None
    """The message that is being delivered, as far as it has come."""
    pending_tool_calls: frozenset[str]
    """Ids of the calls between their start and end event."""
    error_message: str | None
    """Of the last failed turn; cleared by the next run and by ``reset``."""


class StateReducer:
    """Owned by the agent's thread while a run is in progress; readers copy what they need."""

    __slots__ = ("_pending", "_update", "error_message", "lineage", "messages", "notes")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.messages: list[Message] = list(messages)
        self.lineage = Lineage()
        """Of ``messages``: another one whenever they are replaced."""
        self.notes: dict[Any, Any] | None = None
        """``AgentLoopConfig.notes`` of this conversation, from its first run on."""
        self.error_message: str | None = None
        self._update: MessageStart | MessageUpdate | None = None
        self._pending: frozenset[str] = frozenset()

    def reduce(self, event: Event) -> None:
        """Fold one event in; called before any listener sees it."""
        step = _STEPS.get(type(event))
        if step is not None:
            step(self, event)

    def _begins(self, _event: AgentStart) -> None:
        self.error_message = None
        self._update = None

    def _comes(self, event: MessageStart | MessageUpdate) -> None:
        self._update = event

    def _came(self, event: MessageEnd) -> None:
        self._update = None
        self.messages.append(event.message)

    def _calls(self, event: ToolExecutionStart) -> None:
        self._pending = self._pending | {event.tool_call_id}

    def _called(self, event: ToolExecutionEnd) -> None:
        self._pending = self._pending - {event.tool_call_id}

    def _took_turn(self, event: TurnEnd) -> None:
        self.error_message = event.message.error_message or self.error_message

    def _ends(self, _event: AgentEnd) -> None:
        self._update = None
        self._pending = frozenset()

    @property
    def streaming_message(self) -> Message | None:
        """The message that is being delivered; built when asked for."""
        update = self._update
        return update.message if update is not None else None

    @property
    def pending_tool_calls(self) -> frozenset[str]:
        """Ids of the calls between their start and end event."""
        return self._pending

    def last_answer(self) -> AssistantMessage | None:
        """The last assistant message, if any."""
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage):
                return message
        return None

    def replace(self, messages: list[Message], kept: int) -> None:
        """Take another history, whose first *kept* messages are the very ones that this one begins with."""
        if not kept:
            self.notes = None  # Of another conversation: they would only keep its messages alive.
        self.messages = messages
        self.lineage = Lineage(self.lineage, kept)

    def reset(self) -> None:
        """Forget the conversation."""
        self.replace([], 0)
        self.error_message = None
        self._update = None
        self._pending = frozenset()


_STEPS: dict[type, Callable[[StateReducer, Any], None]] = {
    AgentStart: StateReducer._begins,
    MessageStart: StateReducer._comes,
    MessageUpdate: StateReducer._comes,
    MessageEnd: StateReducer._came,
    ToolExecutionStart: StateReducer._calls,
    ToolExecutionEnd: StateReducer._called,
    TurnEnd: StateReducer._took_turn,
    AgentEnd: StateReducer._ends,
}
