"""Anthropic Messages answers, streamed or whole, into a message.

Events are told apart by ``data.type``, not by their event line, which proxies drop (B-64);
unknown events and deltas are ignored, unknown blocks are kept for the same model (A-79). A
stream is complete only with its ``message_stop`` (B-61).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from yiemagent.errors import LlmError
from yiemagent.llm.answer import AnswerBuilder, OpenBlock
from yiemagent.llm.errors import make_error, truncated_answer
from yiemagent.llm.event_decoder import EventDecoder, Handlers
from yiemagent.llm.names import call_id_of, name_of
from yiemagent.llm.outcome import Ending, conclude, give_up
from yiemagent.llm.slots import CallSlot
from yiemagent.llm.usage import with_cost
from yiemagent.messages import AssistantMessage, StopReason, Usage
from yiemagent.model import ModelInfo

__all__ = ["AnthropicDecoder", "anthropic_usage"]

_STOP: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
    "sensitive": "error",
}


class AnthropicDecoder(EventDecoder):
    """Decodes one answer; see ``EventDecoder``."""

    __slots__ = ("_begun", "_done", "_inputs", "_stop_details", "_stop_reason", "_usage")

    _content_key = "content"

    def __init__(
        self, builder: AnswerBuilder, source: str, info: ModelInfo, *, max_tokens: int | None = None
    ) -> None:
        super().__init__(builder, source, info, max_tokens=max_tokens)
        self._begun = False
        self._inputs: list[tuple[CallSlot, Any]] = []
        self._usage: dict[str, Any] = {}
        self._stop_reason: str | None = None
        self._stop_details: Any = None
        self._done = False

    # -- reading -------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether the end was announced."""
        return self._done or self._failure is not None

    def _take_whole(self, body: Mapping[str, Any]) -> None:
        self._done = True
        self._begin(body)
        for index, block in enumerate(body["content"]):
            self._open(index, block)
        self._take_stop(body)
        self._take_usage(body.get("usage"))

    def _message_start(self, chunk: Mapping[str, Any]) -> None:
        message = chunk.get("message") or {}
        self._begin(message)
        self._take_usage(message.get("usage"))

    def _begin(self, message: Mapping[str, Any]) -> None:
        if self._begun:
            return
        self._begun = True
        response_id = message.get("id")
        if isinstance(response_id, str) and response_id:
            self.builder.response_id = response_id

    def _block_start(self, chunk: Mapping[str, Any]) -> None:
        self._open(chunk.get("index"), chunk.get("content_block") or {})

    def _open(self, index: Any, block: Mapping[str, Any]) -> None:
        kind = block.get("type")
        if kind == "text":
            self._grow(index, "text", block.get("text"))
        elif kind == "thinking":
            self._grow(index, "reasoning", block.get("thinking"))
            self._sign(index, block.get("signature"))
        elif kind == "redacted_thinking":
            opened = self._new(index, "reasoning")
            opened.redacted, opened.signature = True, block.get("data") or None
        elif kind == "tool_use":
            slot = CallSlot()
            slot.take(call_id_of(block.get("id")), name_of(block.get("name")), None)
            self._inputs.append((slot, block.get("input")))
            self._blocks[index] = opened = self.builder.begin_call(slot)
            self.builder.add_to_call(opened, "")
        else:
            self.builder.add_opaque(dict(block))

    def _new(self, index: Any, kind: Any) -> OpenBlock:
        opened = self._blocks[index] = self.builder.begin(kind)
        return opened

    def _grow(self, index: Any, kind: str, piece: Any) -> None:
        """More of a text or thinking block, which begins with its first piece: blank ones are none."""
        if isinstance(piece, str) and piece:
            block = self._blocks.get(index) or self._new(index, kind)
            if block.kind == kind:
                self.builder.add(block, piece)

    def _sign(self, index: Any, piece: Any) -> None:
        """More of a signature; a thinking block without text is kept for it."""
        if isinstance(piece, str) and piece:
            block = self._blocks.get(index) or self._new(index, "reasoning")
            block.signature = (block.signature or "") + piece

    def _block_delta(self, chunk: Mapping[str, Any]) -> None:
        index, delta = chunk.get("index"), chunk.get("delta") or {}
        kind = delta.get("type")
        if kind == "text_delta":
            self._grow(index, "text", delta.get("text"))
        elif kind == "thinking_delta":
            self._grow(index, "reasoning", delta.get("thinking"))
        elif kind == "signature_delta":
            self._sign(index, delta.get("signature"))
        elif kind == "input_json_delta":
            block = self._blocks.get(index)
            if block is not None and block.slot is not None:
                self.builder.add_to_call(block, block.slot.take("", "", delta.get("partial_json")))

    def _message_delta(self, chunk: Mapping[str, Any]) -> None:
        self._take_stop(chunk.get("delta") or {})
        self._take_usage(chunk.get("usage"))

    def _message_stop(self, chunk: Mapping[str, Any]) -> None:
        self._done = True

    def _take_stop(self, said: Mapping[str, Any]) -> None:
        self._stop_reason = said.get("stop_reason") or self._stop_reason
        self._stop_details = said.get("stop_details") or self._stop_details

    def _take_usage(self, usage: Any) -> None:
        if isinstance(usage, Mapping):
            # Counts of the start stay where the end does not repeat them.
            self._usage.update((key, value) for key, value in usage.items() if value is not None)

    # -- the end -------------------------------------------------------------------------

    def finish(self) -> tuple[AssistantMessage, LlmError | None]:
        """The message, and why it is no answer if it is none; to be called once."""
        for slot, given in self._inputs:
            if not slot.text.strip() and isinstance(given, Mapping):
                slot.take("", "", given)
        reason = None if self._stop_reason is None else str(self._stop_reason)
        stop = _STOP.get(reason, "stop") if reason is not None else "stop"
        ending = Ending(
            source=self._source,
            stop=stop,
            finish_reason=reason,
            usage=with_cost(anthropic_usage(self._usage), self._info),
            refusal=self._refusal(stop),
            max_tokens=self._max_tokens,
            context_window=self._info.context_window,
        )
        failure = self._failure
        if failure is None and not self._done:
            failure = truncated_answer(self._source)
        elif failure is None and stop == "error":
            failure = make_error("provider_error", f"{self._source} failed: stop_reason {reason!r}")
        if failure is not None:
            return give_up(self.builder, ending), failure
        if reason is not None and reason not in _STOP:
            self.builder.warn("unknown_finish_reason")
        return conclude(self.builder, ending)

    def _refusal(self, stop: StopReason) -> str | None:
        if stop != "refusal" or not isinstance(self._stop_details, Mapping):
            return None
        explanation = self._stop_details.get("explanation")
        return explanation if isinstance(explanation, str) and explanation else None

    _handlers: ClassVar[Handlers] = {
        "message_start": _message_start,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "message_delta": _message_delta,
        "message_stop": _message_stop,
    }


def anthropic_usage(raw: Mapping[str, Any]) -> Usage | None:
    """Usage from Anthropic's counts; its ``input_tokens`` leave cached ones out already."""
    counts = {
        ours: raw[theirs]
        for ours, theirs in (
            ("input_tokens", "input_tokens"),
            ("output_tokens", "output_tokens"),
            ("cache_read_tokens", "cache_read_input_tokens"),
            ("cache_write_tokens", "cache_creation_input_tokens"),
        )
        if isinstance(raw.get(theirs), int) and not isinstance(raw.get(theirs), bool)
    }
    return Usage(**counts) if counts else None
