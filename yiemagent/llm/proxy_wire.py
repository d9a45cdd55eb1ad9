"""The request and the answer of the SSE proxy protocol: stripped events in camel case. Pure.

Source: PX-1 to PX-7, T227 to T230.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from yiemagent.errors import LlmError
from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.errors import body_error, truncated_answer
from yiemagent.llm.event_decoder import EventDecoder, Handlers
from yiemagent.llm.names import call_id_of, name_of
from yiemagent.llm.outcome import Ending, conclude, give_up
from yiemagent.llm.slots import CallSlot
from yiemagent.llm.usage import with_cost
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    ImageContent,
    LlmMessage,
    ReasoningContent,
    StopReason,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from yiemagent.model import LlmContext, ModelInfo

__all__ = ["ProxyDecoder", "context_to_proxy"]

_STOP: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "toolUse": "tool_calls",
    "tool_use": "tool_calls",
    "error": "error",
    "aborted": "aborted",
}
_SENT_STOP = {"tool_calls": "toolUse", "redirected": "stop", "refusal": "stop"}


def context_to_proxy(context: LlmContext, messages: Any) -> dict[str, Any]:
    """What is asked, as the proxy reads it."""
    data: dict[str, Any] = {"messages": [_message(message) for message in messages]}
    if context.system_prompt:
        data["systemPrompt"] = context.system_prompt
    if context.tools:
        data["tools"] = [
            {"name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema)}
            for tool in context.tools
        ]
    return data


def _message(message: LlmMessage) -> dict[str, Any]:
    content = [made for block in message.content if (made := _block(block)) is not None]
    data: dict[str, Any] = {"content": content, "timestamp": int(message.timestamp * 1000)}
    if isinstance(message, ToolResultMessage):
        return {
            **data,
            "role": "toolResult",
            "toolCallId": message.tool_call_id,
            "toolName": message.tool_name,
            "isError": message.is_error,
            "trust": message.trust,
        }
    if isinstance(message, AssistantMessage):
        stop = _SENT_STOP.get(message.stop_reason, message.stop_reason)
        named = {"api": message.api, "provider": message.provider, "model": message.model}
        return {**data, **named, "role": "assistant", "stopReason": stop}
    return {**data, "role": "user"}


def _block(block: ContentBlock) -> dict[str, Any] | None:
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageContent):
        return {"type": "image", "data": block.data or "", "mimeType": block.mime_type}
    if isinstance(block, ReasoningContent):
        signed = {"thinkingSignature": block.signature} if block.signature else {}
        return {"type": "thinking", "thinking": block.text, **signed}
    if isinstance(block, ToolCall):
        return {"type": "toolCall", "id": block.id, "name": block.name, "arguments": dict(block.arguments)}
    return None


class ProxyDecoder(EventDecoder):
    """Puts an answer together from the proxy's events; unknown ones and broken lines are ignored."""

    __slots__ = ("_done",)

    def __init__(self, builder: AnswerBuilder, source: str, info: ModelInfo) -> None:
        super().__init__(builder, source, info)
        self._done: Mapping[str, Any] | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the end was announced."""
        return self._done is not None or self._failure is not None

    def take_body(self, body: Any) -> None:
        """A whole JSON body is never an answer of this protocol."""
        error = body.get("error") if isinstance(body, Mapping) else None
        self._failure = body_error(error or {"message": "a body that is no event stream"}, self._source)

    def _text(self, chunk: Mapping[str, Any]) -> None:
        self._grow("text", chunk)

    def _thinking(self, chunk: Mapping[str, Any]) -> None:
        self._grow("reasoning", chunk)

    def _grow(self, kind: Any, chunk: Mapping[str, Any]) -> None:
        piece, index = chunk.get("delta"), chunk.get("contentIndex")
        if isinstance(piece, str) and piece:
            block = self._blocks.get(index)
            if block is None:
                block = self._blocks[index] = self.builder.begin(kind)
            if block.kind == kind:
                self.builder.add(block, piece)

    def _signed(self, chunk: Mapping[str, Any]) -> None:
        block, signature = self._blocks.get(chunk.get("contentIndex")), chunk.get("contentSignature")
        if block is not None and isinstance(signature, str):
            block.signature = signature

    def _call_start(self, chunk: Mapping[str, Any]) -> None:
        slot = CallSlot()
        slot.take(call_id_of(chunk.get("id")), name_of(chunk.get("toolName")), None)
        block = self._blocks[chunk.get("contentIndex")] = self.builder.begin_call(slot)
        self.builder.add_to_call(block, "")

    def _call_delta(self, chunk: Mapping[str, Any]) -> None:
        block = self._blocks.get(chunk.get("contentIndex"))
        if block is not None and block.slot is not None:
            self.builder.add_to_call(block, block.slot.take("", "", chunk.get("delta")))

    def _end(self, chunk: Mapping[str, Any]) -> None:
        self._done = chunk

    def _is_error(self, chunk: Mapping[str, Any]) -> bool:
        return False  # its error events have a type

    def _take_error(self, chunk: Mapping[str, Any]) -> None:
        self._done = chunk
        text = chunk.get("errorMessage") or "the proxy reported an error"
        self._failure = body_error({"message": str(text)}, self._source)

    def _misshapen(self, kind: str, error: Exception) -> None:
        self.builder.warn("ignored_event_of_unknown_shape")

    def finish(self) -> tuple[AssistantMessage, LlmError | None]:
        """The message, and why it is no answer if it is none; to be called once."""
        done = self._done or {}
        reason = done.get("reason")
        ending = Ending(
            source=self._source,
            stop=_STOP.get(str(reason), "stop"),
            finish_reason=reason if isinstance(reason, str) else None,
            usage=with_cost(_usage(done.get("usage")), self._info),
            context_window=self._info.context_window,
        )
        failure = self._failure
        if failure is None and self._done is None:
            failure = truncated_answer(self._source)
        if failure is not None:
            return give_up(self.builder, ending), failure
        return conclude(self.builder, ending)

    _handlers: ClassVar[Handlers] = {
        "text_delta": _text,
        "text_end": _signed,
        "thinking_delta": _thinking,
        "thinking_end": _signed,
        "toolcall_start": _call_start,
        "toolcall_delta": _call_delta,
        "done": _end,
    }


def _usage(raw: Any) -> Usage | None:
    if not isinstance(raw, Mapping):
        return None
    fields = (
        ("input_tokens", "input"),
        ("output_tokens", "output"),
        ("cache_read_tokens", "cacheRead"),
        ("cache_write_tokens", "cacheWrite"),
    )
    counts = {ours: raw[theirs] for ours, theirs in fields if isinstance(raw.get(theirs), int)}
    return Usage(**counts) if counts else None
