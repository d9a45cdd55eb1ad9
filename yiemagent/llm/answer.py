"""An answer in the making: blocks in order, the events about them, and the message in the end.

Knows no dialect. With nobody listening a piece costs one append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from yiemagent.assistant_events import (
    AssistantEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from yiemagent.data_class import replace
from yiemagent.llm.calls import finish_calls
from yiemagent.llm.slots import CallSlot
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    new_call_id,
)
from yiemagent.model import ToolSpec

__all__ = ["AnswerBuilder", "OpenBlock"]


class OpenBlock:
    """A block that still grows."""

    __slots__ = ("announced", "data", "extra", "index", "kind", "pieces", "redacted", "signature", "slot")

    def __init__(self, index: int, kind: Literal["text", "reasoning", "call", "opaque"]) -> None:
        self.index = index
        self.kind = kind
        self.pieces: list[str] = []
        self.slot: CallSlot | None = None
        self.announced = False
        self.signature: str | None = None
        self.redacted = False
        self.extra: Mapping[str, Any] | None = None
        self.data: Mapping[str, Any] | None = None


class AnswerBuilder:
    """Collects blocks; ``events`` holds what listeners have not been given yet.

    Args:
        base: What is known of the message before its content.
        tools: The tools of the request, for the names of calls.
        listening: Whether events are wanted.
    """

    __slots__ = ("_warnings", "base", "blocks", "events", "listening", "response_id", "started", "tools")

    def __init__(self, base: AssistantMessage, tools: Sequence[ToolSpec], *, listening: bool) -> None:
        self.base = base
        self.response_id: str | None = None
        """As the provider calls the answer, once it has said so."""
        self.tools = tools
        self.listening = listening
        self.started = False
        self.blocks: list[OpenBlock] = []
        self.events: list[AssistantEvent] = []
        self._warnings: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The oddities so far, each once."""
        return tuple(self._warnings)

    def warn(self, name: str) -> None:
        """Remember an oddity by its stable name."""
        self._warnings[name] = None

    def begin(self, kind: Literal["text", "reasoning"]) -> OpenBlock:
        """Open a text or reasoning block."""
        block = self._add(kind)
        if self.listening:
            start = TextStart if kind == "text" else ReasoningStart
            self._emit(start(block.index))
        return block

    def add(self, block: OpenBlock, piece: str) -> None:
        """More text for a text or reasoning block."""
        block.pieces.append(piece)
        if self.listening:
            delta = TextDelta if block.kind == "text" else ReasoningDelta
            self._emit(delta(block.index, piece))

    def begin_call(self, slot: CallSlot) -> OpenBlock:
        """Open a block for the call in *slot*."""
        block = self._add("call")
        block.slot = slot
        return block

    def add_to_call(self, block: OpenBlock, piece: str) -> None:
        """*piece* was added to the block's slot; it is shown once the call has a name (B-16)."""
        slot = block.slot
        if not self.listening or slot is None:
            return
        if not block.announced:
            if not slot.name:
                return
            block.announced = True
            self._emit(ToolCallStart(block.index, slot.id or new_call_id(), slot.name))
            piece = slot.text
        if piece:
            self._emit(ToolCallDelta(block.index, piece))

    def add_opaque(self, data: Mapping[str, Any]) -> None:
        """A block that is only kept for the provider that sent it."""
        self._add("opaque").data = data

    def drain(self) -> list[AssistantEvent]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def content(self, *, cut_off: bool = False, perhaps_cut_off: bool = False) -> tuple[ContentBlock, ...]:
        """The finished blocks, with an end event for each; to be called once, at the end.

        Args:
            cut_off: See ``finish_calls``; likewise *perhaps_cut_off*.
        """
        slots = [block.slot for block in self.blocks if block.slot is not None]
        finished = iter(
            finish_calls(slots, self.tools, self.warn, cut_off=cut_off, perhaps_cut_off=perhaps_cut_off)
            if slots
            else ()
        )
        content: list[ContentBlock] = []
        for block in self.blocks:
            done = next(finished) if block.slot is not None else _plain_block(block)
            if done is None:
                continue
            content.append(done)
            if self.listening:
                self._emit_end(block, done)
        return tuple(content)

    def partial(self) -> tuple[ContentBlock, ...]:
        """Text and reasoning so far; half a call is no call (C-03)."""
        blocks = (_plain_block(block) for block in self.blocks if block.slot is None)
        return tuple(block for block in blocks if block is not None)

    def _add(self, kind: Literal["text", "reasoning", "call", "opaque"]) -> OpenBlock:
        block = OpenBlock(len(self.blocks), kind)
        self.blocks.append(block)
        return block

    def _emit(self, event: AssistantEvent) -> None:
        if not self.started:
            # As late as possible: until now the request can still be sent again unnoticed.
            self.started = True
            self.events.append(StreamStart(replace(self.base, response_id=self.response_id)))
        self.events.append(event)

    def _emit_end(self, block: OpenBlock, done: ContentBlock) -> None:
        if isinstance(done, TextContent):
            self._emit(TextEnd(block.index, done))
        elif isinstance(done, ReasoningContent):
            self._emit(ReasoningEnd(block.index, done))
        elif isinstance(done, ToolCall):
            self.add_to_call(block, "")
            if not block.announced:
                self._emit(ToolCallStart(block.index, done.id, done.name))
            self._emit(ToolCallEnd(block.index, done))


def _plain_block(block: OpenBlock) -> ContentBlock | None:
    text = "".join(block.pieces)
    if block.kind == "text":
        return TextContent(text, extra=block.extra) if text else None
    if block.kind == "reasoning":
        if not text and block.signature is None and not block.extra:
            return None
        return ReasoningContent(text, signature=block.signature, redacted=block.redacted, extra=block.extra)
    return OpaqueContent(block.data) if block.data is not None else None
