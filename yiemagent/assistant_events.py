"""What a model call yields: one start, block starts, deltas and ends, and one terminal event.

The contract between ``Llm.stream`` and the loop (PI-89, PI-15 to PI-17, ST-5). Events
carry only what is new; ``PartialMessage`` folds them, so that a stream of n deltas costs n
steps and an earlier event never changes afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, ClassVar, TypeAlias

from yiemagent.data_class import dataclass, replace
from yiemagent.errors import LlmError
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    ReasoningContent,
    StopReason,
    TextContent,
    ToolCall,
)

__all__ = [
    "AssistantEvent",
    "Done",
    "Failed",
    "PartialMessage",
    "ReasoningDelta",
    "ReasoningEnd",
    "ReasoningStart",
    "RetryScheduled",
    "StreamStart",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "fold",
]


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The provider began to answer; ``message`` holds what is known of it (model, ids)."""

    message: AssistantMessage
    type: ClassVar[str] = "start"


@dataclass(frozen=True, slots=True)
class TextStart:
    """A text block begins at position ``index`` of the content."""

    index: int
    type: ClassVar[str] = "text_start"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text for the block at ``index``."""

    index: int
    delta: str
    type: ClassVar[str] = "text_delta"


@dataclass(frozen=True, slots=True)
class TextEnd:
    """The text block at ``index`` is complete."""

    index: int
    content: TextContent
    type: ClassVar[str] = "text_end"


@dataclass(frozen=True, slots=True)
class ReasoningStart:
    """A reasoning block begins at position ``index``."""

    index: int
    type: ClassVar[str] = "reasoning_start"


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More reasoning for the block at ``index``."""

    index: int
    delta: str
    type: ClassVar[str] = "reasoning_delta"


@dataclass(frozen=True, slots=True)
class ReasoningEnd:
    """The reasoning block at ``index`` is complete."""

    index: int
    content: ReasoningContent
    type: ClassVar[str] = "reasoning_end"


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A tool call begins at position ``index``; id and name as far as they are known."""

    index: int
    id: str
    name: str
    type: ClassVar[str] = "tool_call_start"


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More argument text for the call at ``index``."""

    index: int
    delta: str
    type: ClassVar[str] = "tool_call_delta"


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """The call at ``index`` is complete and its arguments are parsed."""

    index: int
    content: ToolCall
    type: ClassVar[str] = "tool_call_end"


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The request failed and is asked again after ``delay`` seconds; nothing was shown yet."""

    attempt: int
    """Number of the attempt that failed, from 1."""
    delay: float
    error: LlmError
    type: ClassVar[str] = "retry"


@dataclass(frozen=True, slots=True)
class Done:
    """The answer is complete. Terminal."""

    message: AssistantMessage
    type: ClassVar[str] = "done"


@dataclass(frozen=True, slots=True)
class Failed:
    """There will be no answer; ``message`` has stop reason error or aborted. Terminal."""

    message: AssistantMessage
    error: LlmError | None = None
    type: ClassVar[str] = "error"


AssistantEvent: TypeAlias = (
    StreamStart
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | RetryScheduled
    | Done
    | Failed
)


@dataclass(slots=True)
class _Slot:
    kind: str
    pieces: list[str] = field(default_factory=list)
    done: ContentBlock | None = None
    id: str = ""
    name: str = ""

    def block(self) -> ContentBlock | None:
        if self.done is not None:
            return self.done
        if self.kind == "tool_call":
            return None
        text = "".join(self.pieces)
        return TextContent(text) if self.kind == "text" else ReasoningContent(text)


class PartialMessage:
    """The answer so far, folded from events.

    A tool call counts only once it is complete: half a call is no call (case C-03).
    """

    __slots__ = ("_base", "_slots")

    def __init__(self, base: AssistantMessage | None = None) -> None:
        self._base = base or AssistantMessage(())
        self._slots: dict[int, _Slot] = {}

    def add(self, event: AssistantEvent) -> None:
        """Fold one event in; terminal events and retries change nothing."""
        kind = type(event)
        if kind is TextDelta:
            self._slot(event.index, "text").pieces.append(event.delta)  # type: ignore[union-attr]
        elif kind is ReasoningDelta:
            self._slot(event.index, "reasoning").pieces.append(event.delta)  # type: ignore[union-attr]
        elif isinstance(event, StreamStart):
            self._base = event.message
        elif isinstance(event, (TextEnd, ReasoningEnd, ToolCallEnd)):
            self._slot(event.index, event.content.type).done = event.content
        elif isinstance(event, TextStart):
            self._slot(event.index, "text")
        elif isinstance(event, ReasoningStart):
            self._slot(event.index, "reasoning")
        elif isinstance(event, ToolCallStart):
            self._slot(event.index, "tool_call")

    def snapshot(
        self,
        *,
        stop_reason: StopReason = "stop",
        error_message: str | None = None,
        error_kind: str | None = None,
    ) -> AssistantMessage:
        """The message as far as it has come; blank blocks are left out."""
        blocks = [slot.block() for _, slot in sorted(self._slots.items())]
        kept = tuple(block for block in blocks if block is not None and not _is_blank(block))
        return replace(
            self._base,
            content=kept,
            stop_reason=stop_reason,
            error_message=error_message,
            error_kind=error_kind,
        )

    def _slot(self, index: int, kind: str) -> _Slot:
        slot = self._slots.get(index)
        if slot is None:
            slot = self._slots[index] = _Slot(kind)
        return slot


def fold(base: AssistantMessage, events: Iterable[AssistantEvent]) -> AssistantMessage:
    """The message that *events* make of *base*."""
    partial = PartialMessage(base)
    for event in events:
        partial.add(event)
    return partial.snapshot(stop_reason=base.stop_reason)


def _is_blank(block: Any) -> bool:
    return isinstance(block, TextContent) and not block.text
