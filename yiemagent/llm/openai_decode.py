"""Chat Completions answers, streamed or whole, into a message (the "Decoding rules").

Nothing a server sends raises anything but an ``LlmError`` here. What deviates and is read past
leaves a stable name in ``AssistantMessage.warnings``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yiemagent.errors import LlmError
from yiemagent.llm.answer import AnswerBuilder, OpenBlock
from yiemagent.llm.errors import body_error, invalid_answer, make_error, truncated_answer
from yiemagent.llm.names import call_id_of, name_of
from yiemagent.llm.openai_parts import (
    choice_of,
    content_pieces,
    extra_of_call,
    has_other_parts,
    merge_details,
    reasoning_of,
    text_of_details,
)
from yiemagent.llm.outcome import Ending, conclude, give_up
from yiemagent.llm.slots import CallSlots
from yiemagent.llm.usage import openai_usage, with_cost
from yiemagent.llm.wire_json import SHAPE_ERRORS, raw_decode
from yiemagent.messages import AssistantMessage, StopReason
from yiemagent.model import ModelInfo

if TYPE_CHECKING:
    from yiemagent.llm.think import ThinkSplitter

__all__ = ["ChatDecoder"]

_FINISH: dict[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "complete": "stop",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
    "content_filtered": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
    "error": "error",
    "network_error": "error",
}
"""The provider's word, in lower case, and what it means; unknown ones are kept and mean nothing."""


class ChatDecoder:
    """Decodes one answer. Feed it events or one whole body, then call ``finish``.

    Args:
        builder: Collects the blocks; its ``events`` are what listeners get.
        source: Who answers, for messages of errors.
        info: Prices and context window of the model.
        think_tags: Move one leading ``<think>`` block of the text to the reasoning.
        max_tokens: What the request allowed, to tell that an answer was cut off (A-67).
    """

    __slots__ = (
        "_call_blocks",
        "_details",
        "_done",
        "_failure",
        "_finish_reason",
        "_has_tool_calls",
        "_info",
        "_max_tokens",
        "_parts",
        "_reasoning",
        "_refusal",
        "_slots",
        "_source",
        "_text",
        "_think",
        "_usage",
        "builder",
    )

    def __init__(
        self,
        builder: AnswerBuilder,
        source: str,
        info: ModelInfo,
        *,
        think_tags: bool = False,
        max_tokens: int | None = None,
    ) -> None:
        self.builder = builder
        self._source = source
        self._info = info
        self._think = _think_splitter() if think_tags else None
        self._max_tokens = max_tokens
        self._text: OpenBlock | None = None
        self._reasoning: OpenBlock | None = None
        self._details: list[Any] = []
        self._parts: Any = None
        self._slots = CallSlots()
        self._call_blocks: dict[int, OpenBlock] = {}
        self._has_tool_calls = False
        self._refusal: list[str] = []
        self._usage: Any = None
        self._finish_reason: str | None = None
        self._done = False
        self._failure: LlmError | None = None

    # -- reading -------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether the end was announced; usage may still follow."""
        return self._finish_reason is not None or self._done or self._failure is not None

    def feed(self, data: str, event: str = "message") -> bool:
        """Take the data of one server-sent event.

        Returns:
            Whether this was the last one worth reading.
        """
        try:
            chunk, _ = raw_decode(data)
        except (ValueError, RecursionError):
            return self._not_json(data)
        if type(chunk) is not dict:
            if chunk is not None:
                self.builder.warn("ignored_non_object_data")
            return False
        if event == "error" or chunk.get("error"):
            self._salvage(chunk)
            self._failure = body_error(chunk.get("error") or chunk, self._source)
            return True
        try:
            self._chunk(chunk)
        except SHAPE_ERRORS as error:
            self._failure = self._invalid(f"a chunk of an unknown shape ({error})")
        return self._failure is not None

    def take_body(self, body: Any) -> None:
        """Take a whole answer."""
        self._done = True
        if not isinstance(body, dict):
            self._failure = self._invalid(f"JSON of type {type(body).__name__}")
            return
        if body.get("error"):
            self._failure = body_error(body["error"], self._source)
            return
        try:
            choice = choice_of(body, whole=True)
            if choice is None:
                self._failure = self._invalid(f"no choices; it has {', '.join(map(str, list(body)[:20]))}")
                return
            self._begin(body)
            self._choice(choice, choice.get("message") or choice.get("delta"), whole=True)
            self._usage = body.get("usage") or self._usage
        except SHAPE_ERRORS as error:
            self._failure = self._invalid(f"an unknown shape ({error})")

    def lost(self, error: LlmError) -> None:
        """The connection broke or fell silent: no harm if the end was announced before."""
        if self.is_finished:
            self.builder.warn("stream_not_ended_by_done")
        elif self._failure is None:
            self._failure = error

    def _not_json(self, data: str) -> bool:
        text = data.strip()
        if text == "[DONE]":
            self._done = True
            return True
        if text:
            self.builder.warn("ignored_non_json_data")
        return False

    def _salvage(self, chunk: dict[str, Any]) -> None:
        with contextlib.suppress(*SHAPE_ERRORS):
            self._chunk(chunk)

    def _chunk(self, chunk: dict[str, Any]) -> None:
        if self.builder.response_id is None:
            self._begin(chunk)
        usage = chunk.get("usage")
        if usage:
            self._usage = usage
        choice = choice_of(chunk, whole=False)
        if choice is not None:
            delta = choice.get("delta")
            if delta is None and not self.builder.blocks:
                self._choice(choice, choice.get("message"), whole=True)
            else:
                self._choice(choice, delta, whole=False)

    def _begin(self, chunk: Mapping[str, Any]) -> None:
        response_id = chunk.get("id")
        if response_id and isinstance(response_id, str):
            self.builder.response_id = response_id

    def _choice(self, choice: Mapping[str, Any], delta: Any, *, whole: bool) -> None:
        if delta:
            self._delta(delta, whole)
        reason = choice.get("finish_reason")
        if reason and reason != "null" and not self._is_final():
            self._finish_reason = str(reason)
        if choice.get("usage"):
            self._usage = choice["usage"]
        if choice.get("error"):
            self._failure = body_error(choice["error"], self._source)

    def _is_final(self) -> bool:
        """Whether the finish reason so far forbids to run calls: no later one replaces it (B-47)."""
        reason = self._finish_reason
        return reason is not None and _FINISH.get(reason.lower()) in ("length", "refusal", "error")

    # -- blocks --------------------------------------------------------------------------

    def _delta(self, delta: Mapping[str, Any], whole: bool) -> None:
        content = delta.get("content")
        if type(content) is str and len(delta) == 1:  # nearly all deltas are this
            if content:
                self._add_text(content)
            return
        key, thought = reasoning_of(delta)
        if thought:
            self._add_reasoning(thought, key)
        details = delta.get("reasoning_details")
        if details:
            if not thought:
                self._add_reasoning(text_of_details(details), "reasoning_details")
            merge_details(self._details, details)
        if content:
            if type(content) is str:
                self._add_text(content)
            else:
                self._add_parts(content, whole)
        refusal = delta.get("refusal")
        if refusal:
            self._refusal.append(str(refusal))
        calls = delta.get("tool_calls")
        if calls:
            for position, item in enumerate(calls if isinstance(calls, list) else [calls]):
                self._add_call(item, (position,) if whole else None)
        elif delta.get("function_call") and not self._has_tool_calls:
            self._add_call({"function": delta["function_call"]}, "function_call")

    def _add_text(self, text: str) -> None:
        if self._think is not None:
            for is_reasoning, piece in self._think.feed(text):
                self._add_piece(is_reasoning, piece)
            return
        block = self._text
        if block is None:
            block = self._text = self.builder.begin("text")
        self.builder.add(block, text)

    def _add_piece(self, is_reasoning: bool, piece: str) -> None:
        if is_reasoning:
            self._add_reasoning(piece, "")
            return
        if self._text is None:
            self._text = self.builder.begin("text")
        self.builder.add(self._text, piece)

    def _add_reasoning(self, text: str, key: str) -> None:
        if not text:
            return
        block = self._reasoning
        if block is None:
            block = self._reasoning = self.builder.begin("reasoning")
            block.extra = {"field": key} if key else None
        self.builder.add(block, text)

    def _add_parts(self, content: Any, whole: bool) -> None:
        for is_reasoning, piece in content_pieces(content):
            if is_reasoning:
                self._add_reasoning(piece, "")
            elif piece:
                self._add_text(piece)
        if whole and has_other_parts(content):
            self._parts = content

    def _add_call(self, item: Any, key: Any) -> None:
        if not isinstance(item, Mapping):
            self.builder.warn("ignored_tool_call")
            return
        function = item.get("function")
        if not isinstance(function, Mapping):
            if item.get("custom") or item.get("type") not in (None, "", "function"):
                self.builder.warn("ignored_tool_call")
                return
            function = {}
        if key is None:
            self._has_tool_calls = True
            index = item.get("index")
            key = index if isinstance(index, (int, str)) else None
        elif key != "function_call":
            self._has_tool_calls = True
        call_id, name = call_id_of(item.get("id")), name_of(function.get("name"))
        arguments = function.get("arguments")
        slot, is_new = self._slots.place(key, call_id, name, arguments)
        if is_new:
            self._call_blocks[id(slot)] = self.builder.begin_call(slot)
        piece = slot.take(call_id, name, arguments)
        if len(item) > 3 or len(function) > 2:
            slot.extra.update(extra_of_call(item, function))
        self.builder.add_to_call(self._call_blocks[id(slot)], piece)

    # -- the end -------------------------------------------------------------------------

    def finish(self) -> tuple[AssistantMessage, LlmError | None]:
        """The message, and why it is no answer if it is none; to be called once."""
        if self._think is not None:
            for is_reasoning, piece in self._think.finish():
                self._add_piece(is_reasoning, piece)
        reason = self._finish_reason
        stop: StopReason = _FINISH.get(reason.lower(), "stop") if reason is not None else "stop"
        ending = Ending(
            source=self._source,
            stop=stop,
            finish_reason=reason,
            usage=with_cost(openai_usage(self._usage), self._info),
            refusal="".join(self._refusal) or None,
            extra=self._extra(),
            max_tokens=self._max_tokens,
            context_window=self._info.context_window,
        )
        failure = self._failure
        if failure is None and not self.is_finished:
            failure = truncated_answer(self._source)
        elif failure is None and stop == "error":
            text = f"{self._source} failed: finish_reason {reason!r}"
            failure = make_error("provider_error", text, retryable=True)
        if failure is not None:
            return give_up(self.builder, ending), failure
        if reason is not None and reason.lower() not in _FINISH:
            self.builder.warn("unknown_finish_reason")
        return conclude(self.builder, ending)

    def _extra(self) -> dict[str, Any] | None:
        extra: dict[str, Any] = {}
        if self._details:
            extra["reasoning_details"] = self._details
        if self._parts is not None:
            extra["content"] = self._parts
        return extra or None

    def _invalid(self, what: str) -> LlmError:
        return invalid_answer(self._source, what)


def _think_splitter() -> ThinkSplitter:
    from yiemagent.llm.think import ThinkSplitter

    return ThinkSplitter()
