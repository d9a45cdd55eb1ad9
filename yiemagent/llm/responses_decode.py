"""Responses answers, streamed or whole, into a message.

A stream is a list of output items that grow; an item is told by its output index, or by its id
where a server leaves the index out. One that has neither is only read as long as it is the
only one of its kind: mixing two calls would be worse than an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from yiemagent.errors import LlmError
from yiemagent.llm.answer import AnswerBuilder, OpenBlock
from yiemagent.llm.errors import body_error, make_error, truncated_answer
from yiemagent.llm.event_decoder import EventDecoder, Handlers
from yiemagent.llm.names import call_id_of, name_of
from yiemagent.llm.outcome import Ending, conclude, give_up
from yiemagent.llm.slots import CallSlot
from yiemagent.llm.usage import openai_usage, with_cost
from yiemagent.messages import AssistantMessage, StopReason
from yiemagent.model import ModelInfo

__all__ = ["ResponsesDecoder"]

_INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
}


class ResponsesDecoder(EventDecoder):
    """Decodes one answer; see ``EventDecoder``."""

    __slots__ = ("_refusal", "_response")

    _content_key = "output"

    def __init__(
        self, builder: AnswerBuilder, source: str, info: ModelInfo, *, max_tokens: int | None = None
    ) -> None:
        super().__init__(builder, source, info, max_tokens=max_tokens)
        self._refusal: list[str] = []
        self._response: Mapping[str, Any] | None = None

    # -- reading -------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether the end was announced."""
        return self._response is not None or self._failure is not None

    def _take_whole(self, body: Mapping[str, Any]) -> None:
        for index, item in enumerate(body["output"]):
            self._item_done({"output_index": index, "item": item})
        self._ended({"response": body})

    def _is_error(self, chunk: Mapping[str, Any]) -> bool:
        # One beside a response is for the handler, which knows what the response holds.
        return "response" not in chunk

    def _item_added(self, chunk: Mapping[str, Any]) -> None:
        item = chunk.get("item") or {}
        if item.get("type") == "function_call":
            self._call(_key(chunk, item), item)

    def _call(self, key: Any, item: Mapping[str, Any]) -> OpenBlock:
        block = self._blocks.get(("call", key))
        if block is None:
            slot = CallSlot()
            slot.take(call_id_of(item.get("call_id") or item.get("id")), name_of(item.get("name")), None)
            if item.get("id"):
                slot.extra["id"] = item["id"]
            block = self._blocks["call", key] = self.builder.begin_call(slot)
            self.builder.add_to_call(block, "")
        return block

    def _arguments_delta(self, chunk: Mapping[str, Any]) -> None:
        key = _key(chunk, {})
        block = self._blocks.get(("call", key))
        if block is None and key is None:
            block = self._only_call()
        if block is not None and block.slot is not None:
            self.builder.add_to_call(block, block.slot.take("", "", chunk.get("delta")))

    def _only_call(self) -> OpenBlock | None:
        calls = [block for block in self._blocks.values() if block.slot is not None]
        if len(calls) > 1:
            self._failure = self._invalid("arguments that do not say which of several calls they belong to")
        return calls[0] if len(calls) == 1 else None

    def _text_delta(self, chunk: Mapping[str, Any]) -> None:
        self._grow("text", _key(chunk, {}), chunk.get("content_index"), chunk.get("delta"))

    def _refusal_delta(self, chunk: Mapping[str, Any]) -> None:
        self._refusal.append(str(chunk.get("delta") or ""))

    def _reasoning_delta(self, chunk: Mapping[str, Any]) -> None:
        self._grow("reasoning", _key(chunk, {}), None, chunk.get("delta"))

    def _summary_part(self, chunk: Mapping[str, Any]) -> None:
        if chunk.get("summary_index"):
            self._grow("reasoning", _key(chunk, {}), None, "\n\n")

    def _grow(self, kind: Any, key: Any, part: Any, piece: Any) -> None:
        if not isinstance(piece, str) or not piece:
            return
        block = self._blocks.get((kind, key, part))
        if block is None:
            block = self._blocks[kind, key, part] = self.builder.begin(kind)
        self.builder.add(block, piece)

    def _item_done(self, chunk: Mapping[str, Any]) -> None:
        """A whole item; what its deltas said already is not said again."""
        item = chunk.get("item") or {}
        key, kind = _key(chunk, item), item.get("type")
        if kind == "message":
            self._message_done(key, item)
        elif kind == "reasoning":
            self._reasoning_done(key, item)
        elif kind == "function_call":
            block = self._call(key, item)
            assert block.slot is not None
            if not block.slot.text:
                self.builder.add_to_call(block, block.slot.take("", "", item.get("arguments")))
        elif kind:
            self.builder.add_opaque(dict(item))

    def _message_done(self, key: Any, item: Mapping[str, Any]) -> None:
        for part, content in enumerate(item.get("content") or ()):
            if content.get("type") == "refusal":
                if not self._refusal:
                    self._refusal.append(str(content.get("refusal") or ""))
            elif ("text", key, part) not in self._blocks:
                self._grow("text", key, part, content.get("text"))

    def _reasoning_done(self, key: Any, item: Mapping[str, Any]) -> None:
        block = self._blocks.get(("reasoning", key, None))
        if block is None:
            block = self._blocks["reasoning", key, None] = self.builder.begin("reasoning")
            parts = item.get("summary") or item.get("content") or ()
            text = "\n\n".join(str(part.get("text") or "") for part in parts)
            if text:
                self.builder.add(block, text)
        block.extra = dict(item)

    def _begun(self, chunk: Mapping[str, Any]) -> None:
        response_id = (chunk.get("response") or {}).get("id")
        if isinstance(response_id, str) and response_id:
            self.builder.response_id = response_id

    def _ended(self, chunk: Mapping[str, Any]) -> None:
        response = chunk.get("response") or {}
        self._begun(chunk)
        if response.get("status") == "failed" or response.get("error"):
            self._failure = body_error(response.get("error") or response, self._source)
            return
        for index, item in enumerate(response.get("output") or ()):
            self._missed(index, item)
        self._response = response

    def _missed(self, index: int, item: Mapping[str, Any]) -> None:
        """Items that only the final response has: servers that send no item events."""
        kind = item.get("type")
        names = {"message": "text", "reasoning": "reasoning", "function_call": "call"}
        known = any(key[0] == names.get(kind) for key in self._blocks) if kind in names else True
        if not known:
            self._item_done({"output_index": index, "item": item})

    # -- the end -------------------------------------------------------------------------

    def finish(self) -> tuple[AssistantMessage, LlmError | None]:
        """The message, and why it is no answer if it is none; to be called once."""
        response = self._response or {}
        status, details = response.get("status"), response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, Mapping) else None
        stop: StopReason = _INCOMPLETE.get(str(reason), "length") if status == "incomplete" else "stop"
        ending = Ending(
            source=self._source,
            stop=stop,
            finish_reason=str(reason) if status == "incomplete" and reason else None,
            usage=with_cost(openai_usage(response.get("usage")), self._info),
            refusal="".join(self._refusal) or None,
            max_tokens=self._max_tokens,
            context_window=self._info.context_window,
        )
        failure = self._failure
        if failure is None and self._response is None:
            failure = truncated_answer(self._source)
        elif failure is None and status in ("cancelled", "canceled"):
            failure = make_error("provider_error", f"{self._source} cancelled the answer")
        if failure is not None:
            return give_up(self.builder, ending), failure
        return conclude(self.builder, ending)

    _handlers: ClassVar[Handlers] = {
        "response.created": _begun,
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.output_text.delta": _text_delta,
        "response.refusal.delta": _refusal_delta,
        "response.reasoning_summary_part.added": _summary_part,
        "response.reasoning_summary_text.delta": _reasoning_delta,
        "response.reasoning_text.delta": _reasoning_delta,
        "response.function_call_arguments.delta": _arguments_delta,
        "response.completed": _ended,
        "response.incomplete": _ended,
        "response.failed": _ended,
    }


def _key(chunk: Mapping[str, Any], item: Mapping[str, Any]) -> Any:
    index = chunk.get("output_index")
    if isinstance(index, int):
        return index
    name = chunk.get("item_id") or item.get("id") or item.get("call_id")
    return name if isinstance(name, str) else None
