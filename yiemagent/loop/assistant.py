"""One model call: build the request, follow the stream, end with exactly one message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.assistant_events import AssistantEvent, Done, Failed, RetryScheduled, StreamStart, fold
from yiemagent.context.transcript import repair_transcript, validate_transcript
from yiemagent.errors import (
    ContextOverflow,
    EmptyResponse,
    InvalidTranscript,
    LlmError,
    LlmTimeout,
    StreamTruncated,
    YiemAgentError,
)
from yiemagent.events import MessageEnd, MessageStart, MessageUpdate
from yiemagent.loop.config import AgentContext
from yiemagent.loop.model_call import iterate_model
from yiemagent.loop.run_state import LoopRun, call_hook
from yiemagent.loop.unique_calls import settle_tool_calls
from yiemagent.messages import AssistantMessage, Message, ReasoningContent, StopReason, TextContent, ToolCall
from yiemagent.model import LlmContext, StreamOptions

__all__ = ["Answer", "stream_assistant_response"]

ABORTED_TEXT = "Request was aborted"


@dataclass(frozen=True, slots=True)
class Answer:
    """The message of one model call, and what went wrong if something did."""

    message: AssistantMessage
    error: BaseException | None = None


def stream_assistant_response(run: LoopRun) -> Answer:
    """Ask the model once; its message is delivered and part of the history on every path.

    Order (research facts 12, ST-2): prepare_context, transform_context, validation,
    convert_to_llm, get_api_key, the stream. Nothing of it happens in an aborted run.
    """
    if run.expire() or run.signal.aborted:
        return _deliver(run, Answer(_plain("aborted", ABORTED_TEXT)), started=False)
    call_signal = AbortSignal(run.signal)
    if run.config.redirect is not None:
        run.config.redirect.begin_call(call_signal)
    try:
        answer = _ask(run, call_signal)
        if isinstance(answer.error, ContextOverflow) and _recover(run):
            answer = _ask(run, call_signal)
    finally:
        if run.config.redirect is not None:
            run.config.redirect.end_call()
        call_signal.detach()
    run.budget.charge_usage(answer.message.usage)
    return answer


def _ask(run: LoopRun, call_signal: AbortSignal) -> Answer:
    try:
        context, options = _build_request(run, call_signal)
    except YiemAgentError as error:
        return _deliver(run, Answer(_plain("error", str(error)), error), started=False)
    call = _Call(run, call_signal)
    try:
        for event in iterate_model(run.stream_fn, context, options, abortable=run.abortable):
            call.follow(event)
            if call.answer is not None or call_signal.aborted:
                break
    except BaseException as error:
        call.broke(error)
    return _deliver(run, call.finish(), started=call.started)


class _Call:
    """Follows the events of one stream; emits what listeners want to see of it."""

    __slots__ = ("_base", "_failure", "_log", "_run", "_signal", "answer", "started")

    def __init__(self, run: LoopRun, signal: AbortSignal) -> None:
        self._run = run
        self._signal = signal
        self._base = AssistantMessage(())
        self._log: list[AssistantEvent] = []
        self._failure: BaseException | None = None
        self.started = False
        self.answer: Answer | None = None

    def follow(self, event: AssistantEvent) -> None:
        if isinstance(event, Done):
            self.answer = self._done(event.message)
        elif isinstance(event, Failed):
            error = event.error or LlmError(event.message.error_message or "the model failed")
            self.answer = self._failed(error, event.message)
        elif isinstance(event, StreamStart):
            self._base, self.started = event.message, True
            self._run.emit(MessageStart(event.message))
        elif isinstance(event, RetryScheduled):
            self._run.diagnose("llm_retry", attempt=event.attempt, delay=event.delay, kind=event.error.kind)
        elif self.started:
            self._log.append(event)
            self._run.emit(MessageUpdate(event, self._base, self._log, len(self._log)))

    def broke(self, error: BaseException) -> None:
        self._failure = error

    def finish(self) -> Answer:
        if self.answer is not None and self.answer.error is None:
            return self.answer
        if self._run.signal.aborted or self._run.expire():
            return Answer(self._partial("aborted", ABORTED_TEXT))
        if self._signal.aborted:
            message = self._partial("redirected", None)
            kept = tuple(block for block in message.content if not isinstance(block, ToolCall))
            return Answer(replace(message, content=kept or (TextContent(""),)))
        if self.answer is not None:
            return self.answer
        if self._failure is not None:
            return self._failed(_as_llm_error(self._failure))
        return self._failed(
            StreamTruncated("the model's stream ended without a final message", retryable=True)
        )

    def _done(self, message: AssistantMessage) -> Answer:
        if not message.content and self._log:
            message = replace(message, content=fold(self._base, self._log).content)
        message = settle_tool_calls(message, self._run.context.tools, self._run.diagnose)
        if message.stop_reason in ("error", "aborted"):
            return self._failed(LlmError(message.error_message or "the model failed"), message)
        if message.stop_reason == "stop" and _is_blank(message):
            error = EmptyResponse("the model answered with neither text nor a tool call", retryable=True)
            return self._failed(error, message)
        return Answer(message)

    def _failed(self, error: LlmError, message: AssistantMessage | None = None) -> Answer:
        partial = self._partial("error", str(error))
        if message is not None and (message.content or not partial.content):
            partial = replace(message, stop_reason="error", error_message=str(error))
        partial = replace(partial, error_kind=error.kind)
        if error.partial is None:
            error.partial = partial
        return Answer(partial, error)

    def _partial(self, stop_reason: StopReason, text: str | None) -> AssistantMessage:
        return replace(fold(self._base, self._log), stop_reason=stop_reason, error_message=text)


# -- the request -------------------------------------------------------------------------


def _build_request(run: LoopRun, call_signal: AbortSignal) -> tuple[LlmContext, StreamOptions]:
    config = run.config
    context, messages = _prepared(run)
    if config.transform_context is not None:
        messages = call_hook("transform_context", config.transform_context, messages, call_signal)
    if run.replacement is not None:
        messages, run.replacement = run.replacement, None
    messages = _valid(run, messages)
    converted = call_hook("convert_to_llm", config.convert_to_llm, messages)
    api_key = config.api_key
    if config.get_api_key is not None:
        api_key = call_hook("get_api_key", config.get_api_key, config.model.info.provider) or api_key
    wanted = config.want_deltas
    options = StreamOptions(
        signal=call_signal,
        deadline=run.budget.deadline,
        want_deltas=wanted() if callable(wanted) else wanted,
        api_key=api_key or None,
        reasoning=None if config.reasoning == "off" else config.reasoning,
        thinking_budgets=config.thinking_budgets,
        session_id=config.session_id,
        transport=config.transport,
        max_retry_delay=config.max_retry_delay,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        tool_choice=config.tool_choice,
        extra_body=config.extra_body,
        on_payload=config.on_payload,
        on_response=config.on_response,
        event_sink=run.event_sink,
    )
    return LlmContext(context.system_prompt, converted, context.tools.specs), options


def _prepared(run: LoopRun) -> tuple[AgentContext, Sequence[Message]]:
    hook = run.config.prepare_context
    if hook is None:
        return run.context, run.messages
    context: Any = call_hook("prepare_context", hook, run.visible_context(), run.event_sink)
    if context is None:
        return run.context, run.messages
    return context, context.messages


def _valid(run: LoopRun, messages: Sequence[Message]) -> Sequence[Message]:
    own = messages is run.messages
    violations = validate_transcript(messages, run.validated if own else 0)
    if violations and run.config.invalid_transcript == "repair":
        messages, done = repair_transcript(messages)
        run.diagnose("transcript_repaired", violations=len(violations), repairs=len(done))
        return messages
    if violations:
        kinds = ", ".join(sorted({str(violation["type"]) for violation in violations}))
        raise InvalidTranscript(
            f"the transcript cannot be sent: {kinds}; repair_transcript() mends it", violations=violations
        )
    if own:
        run.validated = len(messages)
        return tuple(messages)
    return messages


def _recover(run: LoopRun) -> bool:
    recover = run.config.recover_context
    if recover is None or run.overflow_recovered:
        return False
    run.overflow_recovered = True
    # The failed answer is in the history; it is left out of what is asked with next.
    shorter = call_hook("recover_context", recover, tuple(run.messages[:-1]))
    if shorter is None:
        return False
    run.diagnose("context_overflow_recovered", messages=len(shorter))
    run.replacement = shorter
    return True


# -- the message -------------------------------------------------------------------------


def _deliver(run: LoopRun, answer: Answer, *, started: bool) -> Answer:
    if not started:
        run.emit(MessageStart(answer.message))
    run.append(answer.message)
    run.emit(MessageEnd(answer.message))
    return answer


def _plain(stop_reason: StopReason, text: str) -> AssistantMessage:
    return AssistantMessage((TextContent(""),), stop_reason=stop_reason, error_message=text)


def _is_blank(message: AssistantMessage) -> bool:
    return not any(
        not isinstance(block, ReasoningContent)
        and not (isinstance(block, TextContent) and not block.text.strip())
        for block in message.content
    )


def _as_llm_error(error: BaseException) -> LlmError:
    if isinstance(error, LlmError):
        return error
    kind = LlmTimeout if isinstance(error, TimeoutError) else LlmError
    made = kind(f"the model raised {type(error).__name__}: {error}", kind="model_exception")
    made.__cause__ = error
    return made
