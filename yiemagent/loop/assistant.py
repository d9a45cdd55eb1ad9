"""One model call: follow the stream, end with exactly one message."""

from __future__ import annotations

from contextlib import closing

from yiemagent.abort import AbortSignal
from yiemagent.assistant_events import (
    AssistantEvent,
    Done,
    Failed,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RetryScheduled,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    fold,
)
from yiemagent.context.observation import observing
from yiemagent.data_class import dataclass, replace
from yiemagent.error_text import error_text
from yiemagent.errors import (
    ContextOverflow,
    EmptyResponse,
    LlmError,
    LlmTimeout,
    StreamTruncated,
    YiemAgentError,
)
from yiemagent.events import MessageEnd, MessageStart, MessageUpdate
from yiemagent.loop.model_call import iterate_model
from yiemagent.loop.request import build_request
from yiemagent.loop.run_state import LoopRun, call_hook
from yiemagent.loop.unique_calls import settle_tool_calls
from yiemagent.messages import AssistantMessage, ReasoningContent, StopReason, TextContent, ToolCall
from yiemagent.model import LlmContext, StreamOptions

__all__ = ["Answer", "stream_assistant_response"]

ABORTED_TEXT = "Request was aborted"

_UPDATES = frozenset(
    {
        TextStart,
        TextDelta,
        TextEnd,
        ReasoningStart,
        ReasoningDelta,
        ReasoningEnd,
        ToolCallStart,
        ToolCallDelta,
        ToolCallEnd,
    }
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The message of one model call, and what went wrong if something did."""

    message: AssistantMessage
    error: BaseException | None = None


def stream_assistant_response(run: LoopRun) -> Answer:
    """Ask the model once; its message is delivered and part of the history on every path.

    In a run that is aborted nothing of it happens: no hook is called, the model is not asked.
    """
    if run.stopped():
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
    return answer


def _ask(run: LoopRun, call_signal: AbortSignal) -> Answer:
    call = _Call(run, call_signal)
    try:
        context, options = build_request(run, call_signal)
    except YiemAgentError as error:
        aborted = run.signal.aborted  # An abort may be why the hook failed (PI-70).
        plain = _plain("aborted", ABORTED_TEXT) if aborted else _plain("error", str(error))
        return _deliver(run, Answer(plain, None if aborted else error), started=False)
    if not call_signal.aborted and not run.expire():
        try:
            call.follow_all(context, options)
        except KeyboardInterrupt as error:
            run.interrupted(error)
        except BaseException as error:
            call.broke(error)
    answer = call.finish()
    run.budget.charge_usage(answer.message.usage)
    return _deliver(run, answer, started=call.started)


_NOTHING_YET = AssistantMessage(())


class _Call:
    """Follows the events of one stream; emits what listeners want to see of it."""

    __slots__ = ("_base", "_failure", "_log", "_run", "_signal", "answer", "started")

    def __init__(self, run: LoopRun, signal: AbortSignal) -> None:
        self._run = run
        self._signal = signal
        self._base = _NOTHING_YET
        self._log: list[AssistantEvent] = []
        self._failure: BaseException | None = None
        self.started = False
        self.answer: Answer | None = None

    def follow_all(self, context: LlmContext, options: StreamOptions) -> None:
        run = self._run
        events = iterate_model(run.stream_fn, context, options, abortable=run.abortable, threads=run.threads)
        with closing(events):
            for event in events:
                self.follow(event)
                if self.answer is not None:
                    return

    def follow(self, event: AssistantEvent) -> None:
        if type(event) in _UPDATES:
            if self.started:
                self._log.append(event)
                self._run.emit(MessageUpdate(event, self._base, self._log, len(self._log)))
        elif isinstance(event, Done):
            self.answer = self._done(event.message)
        elif isinstance(event, Failed):
            error = event.error or LlmError(event.message.error_message or "the model failed")
            self.answer = self._failed(error, event.message)
        elif isinstance(event, StreamStart):
            self._base = event.message
            if not self.started:
                self.started = True
                self._run.emit(MessageStart(event.message))
        elif isinstance(event, RetryScheduled):
            self._run.diagnose("llm_retry", attempt=event.attempt, delay=event.delay, kind=event.error.kind)

    def broke(self, error: BaseException) -> None:
        if self.answer is None:  # What cleaning up behind a final message raises changes nothing.
            self._failure = error

    def finish(self) -> Answer:
        if self.answer is not None and self.answer.error is None:
            return self.answer
        if self._run.stopped():
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
        message = self._settled(message)
        if message.stop_reason in ("error", "aborted"):
            return self._failed(LlmError(message.error_message or "the model failed"), message)
        if message.stop_reason in ("stop", "tool_calls") and _is_blank(message):
            error = EmptyResponse("the model answered with neither text nor a tool call", retryable=True)
            return self._failed(error, message)
        return Answer(message)

    def _failed(self, error: LlmError, message: AssistantMessage | None = None) -> Answer:
        partial = self._partial("error", str(error), message)
        partial = replace(partial, error_kind=error.kind)
        if error.partial is None:
            error.partial = partial
        return Answer(partial, error)

    def _partial(
        self, stop_reason: StopReason, text: str | None, message: AssistantMessage | None = None
    ) -> AssistantMessage:
        """The answer as far as it came: the final message's content, else what was streamed."""
        if message is None and self.answer is not None:
            message = self.answer.message
        partial = fold(self._base, self._log)
        if message is not None and (message.content or not partial.content):
            partial = message
        partial = replace(partial, stop_reason=stop_reason, error_message=text, error_kind=None)
        return self._settled(partial)

    def _settled(self, message: AssistantMessage) -> AssistantMessage:
        return settle_tool_calls(message, self._run.offered, self._run.diagnose)


def _recover(run: LoopRun) -> bool:
    """After a context overflow: ask again with a shorter form of the history, once per answer."""
    recover = run.config.recover_context
    if recover is None or run.overflow_recovered or run.stopped():
        return False
    run.overflow_recovered = True
    # The failed answer is in the history, and is left out of what is asked with next.
    with observing(run.heard):
        shorter = call_hook("recover_context", recover, tuple(run.request_messages()[:-1]))
    if shorter is None:
        return False
    run.diagnose("context_overflow_recovered", messages=len(shorter))
    run.shortened = (shorter, len(run.messages))
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
    text = f"the model raised {error_text(error)}"
    if isinstance(error, TimeoutError):
        made: LlmError = LlmTimeout(text)
    else:
        made = LlmError(text, kind="model_exception")
    made.__cause__ = error
    return made
