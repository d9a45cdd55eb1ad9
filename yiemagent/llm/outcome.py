"""What an answer comes to: the calls in it decide, not what the provider says of it.

The rules that all dialects share once their blocks are complete (decoding rule 9, decisions 15
to 17).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from yiemagent.assistant_events import AssistantEvent, Done, Failed, StreamStart
from yiemagent.data_class import dataclass, replace
from yiemagent.errors import LlmError
from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.errors import make_error
from yiemagent.messages import AssistantMessage, ContentBlock, StopReason, ToolCall, Usage

__all__ = ["Ending", "completed", "conclude", "failed", "give_up"]

_NEARLY_FULL = 0.99
"""Share of the context window from which an empty answer means that there was no room for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a dialect knows of an answer besides its blocks."""

    source: str
    """Who answered, for messages of errors."""
    stop: StopReason = "stop"
    """What ``finish_reason`` means."""
    finish_reason: str | None = None
    usage: Usage | None = None
    refusal: str | None = None
    extra: Mapping[str, Any] | None = None
    max_tokens: int | None = None
    """What the request allowed."""
    context_window: int | None = None


def conclude(builder: AnswerBuilder, ending: Ending) -> tuple[AssistantMessage, LlmError | None]:
    """The message of a complete answer, and why it is no answer if it is none."""
    stop, usage = ending.stop, ending.usage
    used = usage.output_tokens if usage is not None else None
    full = ending.max_tokens is not None and used is not None and used >= ending.max_tokens
    content = builder.content(cut_off=stop == "length", perhaps_cut_off=full)
    has_calls = any(type(block) is ToolCall for block in content)
    if ending.refusal or stop == "refusal":
        return _refused(builder, ending, content, has_calls)
    if has_calls and stop == "stop":
        stop = "tool_calls"
        if ending.finish_reason is not None:
            builder.warn("finish_reason_ignores_tool_calls")
    elif not has_calls and stop == "tool_calls":
        stop = "stop"
        builder.warn("finish_reason_without_tool_calls")
    message = _message(builder, ending, content, stop)
    if not has_calls and stop in ("stop", "length") and not message.text.strip():
        error = _empty(message, ending, stop)
        if error is not None:
            return replace(message, stop_reason="error"), error
    return message, None


def give_up(builder: AnswerBuilder, ending: Ending) -> AssistantMessage:
    """The message of a failed answer: what text there was, and no call."""
    return _message(builder, ending, builder.partial(), "error")


def completed(message: AssistantMessage, *, announce: bool) -> Iterator[AssistantEvent]:
    """The events that end a complete answer.

    Args:
        announce: Somebody listens and has seen nothing yet, since there is no block to see.
    """
    if announce:
        yield StreamStart(replace(message, content=()))
    yield Done(message)


def failed(message: AssistantMessage, error: LlmError) -> Failed:
    """The terminal event for *error*; each of the two carries what the other says."""
    stop = message.stop_reason if message.stop_reason == "refusal" else "error"
    message = replace(message, stop_reason=stop, error_message=str(error), error_kind=error.kind)
    error.partial = message
    return Failed(message, error)


def _refused(
    builder: AnswerBuilder, ending: Ending, content: tuple[ContentBlock, ...], has_calls: bool
) -> tuple[AssistantMessage, LlmError | None]:
    if has_calls:
        builder.warn("tool_calls_of_refusal_dropped")
        content = tuple(block for block in content if type(block) is not ToolCall)
    message = _message(builder, ending, content, "refusal")
    if ending.refusal or message.text.strip():
        return message, None
    text = f"{ending.source} withheld the answer (finish reason {ending.finish_reason})"
    return message, make_error("content_filter", text)


def _empty(message: AssistantMessage, ending: Ending, stop: StopReason) -> LlmError | None:
    usage, window = ending.usage, ending.context_window
    if usage is not None and window:
        prompt = (usage.input_tokens or 0) + (usage.cache_read_tokens or 0)
        if prompt >= window * _NEARLY_FULL:
            text = f"{ending.source}: the prompt of {prompt} tokens leaves no room in a window of {window}"
            return make_error("context_overflow", text)
    if stop == "length":
        return None
    only = ", only with reasoning" if message.reasoning else ""
    text = f"{ending.source} answered with neither text nor a tool call{only}"
    return make_error("empty_response", text, retryable=True)


def _message(
    builder: AnswerBuilder, ending: Ending, content: tuple[ContentBlock, ...], stop: StopReason
) -> AssistantMessage:
    base = builder.base
    return AssistantMessage(
        content,
        stop_reason=stop,
        usage=ending.usage,
        api=base.api,
        provider=base.provider,
        model=base.model,
        response_id=builder.response_id,
        refusal=ending.refusal,
        finish_reason=ending.finish_reason,
        warnings=builder.warnings,
        extra=ending.extra,
    )
