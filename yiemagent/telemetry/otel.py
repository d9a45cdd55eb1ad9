"""OpenTelemetry spans and metrics of a run, by the GenAI semantic conventions (extra ``otel``).

``invoke_agent`` holds ``chat`` and ``execute_tool``, and hangs below whatever span the caller
was in when it prompted: events come on the loop's thread, in the caller's context variables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.events import (
    AgentEnd,
    AgentStart,
    Diagnostic,
    Event,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnStart,
)
from yiemagent.messages import AssistantMessage, Message, Usage
from yiemagent.model import ModelInfo
from yiemagent.telemetry.genai import (
    DURATION,
    SCHEMA_URL,
    TOKEN_USAGE,
    Attributes,
    answer_attributes,
    messages_as_json,
    prompt_tokens,
    provider_name,
    to_json,
    usage_attributes,
)
from yiemagent.telemetry.introspection import error_kind_of, error_type_of
from yiemagent.telemetry.records import sanitized
from yiemagent.telemetry.runs import Runs

try:
    from opentelemetry import context as otel_context
    from opentelemetry import metrics, trace
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
except ImportError as error:
    raise ConfigurationError(
        "OpenTelemetry is not installed; install it with: pip install 'yiemagent[otel]'"
    ) from error

__all__ = ["OpenTelemetry"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Operation:
    """One open span, whether it is the current one, and what its metrics are told."""

    span: Span
    attributes: Attributes
    """Those that the metrics share."""
    token: Token[Any] | None = None
    began: float = field(default_factory=perf_counter)


@dataclass(slots=True)
class _Run:
    agent: _Operation
    info: ModelInfo | None
    outer: _Run | None
    """The run in whose hook this one was started, on the same thread."""
    chat: _Operation | None = None
    tools: dict[str, _Operation] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    unread: list[Message] = field(default_factory=list)
    """What was said since the last answer; kept only for those who asked for content."""


_current_run: ContextVar[_Run | None] = ContextVar("yiemagent_otel_run", default=None)


class OpenTelemetry:
    """A listener that makes spans and metrics of runs.

    Subscribe it with ``watch(agent)``, or give it as ``emit`` to the stateless loop. One may
    hear any number of agents at once. Give ``around_tool_call`` to the agent as well, and the
    spans of a parallel tool's own work hang below its ``execute_tool`` span; tools that run one
    after the other need no help.

    Without content unless *capture_content*: then messages, tool arguments and tool results
    become attributes, too. Each ``chat`` span has what was said in its run since the answer
    before it, not the whole history.

    Args:
        agent_name: ``gen_ai.agent.name``.
        conversation_id: ``gen_ai.conversation.id``, such as the session's.
        capture_content: See above.
        tracer_provider: The global one when None.
        meter_provider: Likewise.

    Spans and metrics: ``invoke_agent``, ``chat``, ``execute_tool``;
    ``gen_ai.client.operation.duration`` for all three, ``gen_ai.client.token.usage`` for chat.
    Diagnostic events (retries, limits, compactions) are events of the innermost span. Values of
    ``error.type`` are ``LlmError.kind`` for chat, ``details["error_type"]`` for tools, and for
    an agent the kind or class of its error, or ``aborted``.

    Source: ``SEMCONV_VERSION`` in ``yiemagent.telemetry.genai``.
    """

    def __init__(
        self,
        agent_name: str | None = None,
        *,
        conversation_id: str | None = None,
        capture_content: bool = False,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._agent_name = agent_name
        self._capture = capture_content
        self._tracer = trace.get_tracer("yiemagent", None, tracer_provider, SCHEMA_URL)
        meter = metrics.get_meter("yiemagent", "", meter_provider, SCHEMA_URL)
        self._duration = meter.create_histogram(**DURATION)
        self._tokens = meter.create_histogram(**TOKEN_USAGE)
        self._common: Attributes = {}
        if conversation_id is not None:
            self._common["gen_ai.conversation.id"] = conversation_id
        self._runs: Runs[_Run] = Runs()

    def watch(self, agent: Any) -> Callable[[], None]:
        """Subscribe to *agent*, without the deltas, and ask it for its model's name.

        Returns:
            A function that unsubscribes.
        """

        def listener(event: Event, signal: AbortSignal) -> None:
            self._hear(event, signal, agent)

        unsubscribe: Callable[[], None] = agent.subscribe(listener, deltas=False)
        return unsubscribe

    def __call__(self, event: Event, signal: AbortSignal | None = None) -> None:
        """Hear one event, on the loop's thread."""
        self._hear(event, signal, None)

    @contextmanager
    def around_tool_call(self, ctx: Any) -> Iterator[None]:
        """Make the call's span the current one on the tool's own thread."""
        run = _current_run.get()
        tool = None if run is None else run.tools.get(ctx.tool_call_id)
        if tool is None:
            yield
            return
        with trace.use_span(tool.span, record_exception=False, set_status_on_exception=False):
            yield

    # -- events ----------------------------------------------------------------------------

    def _hear(self, event: Event, signal: AbortSignal | None, agent: Any) -> None:
        if isinstance(event, AgentStart):
            self._runs.begin(signal, self._begin_run(agent))
            return
        run = self._runs.get(signal)
        if run is None:
            return
        if isinstance(event, TurnStart):
            self._begin_chat(run)
        elif isinstance(event, MessageStart):
            if isinstance(event.message, AssistantMessage) and event.message.error_kind != "limit":
                self._begin_chat(run)
        elif isinstance(event, MessageEnd):
            self._message(run, event.message)
        elif isinstance(event, ToolExecutionStart):
            self._begin_tool(run, event)
        elif isinstance(event, ToolExecutionEnd):
            self._end_tool(run, event)
        elif isinstance(event, Diagnostic):
            self._diagnostic(run, event)
        elif isinstance(event, AgentEnd):
            self._runs.end(signal)
            self._end_run(run, event)

    def _begin_run(self, agent: Any) -> _Run:
        info = getattr(getattr(agent, "model", None), "info", None)
        name = f"invoke_agent {self._agent_name}" if self._agent_name else "invoke_agent"
        operation = self._start(name, "invoke_agent", SpanKind.INTERNAL, info, None)
        if self._agent_name:
            operation.span.set_attribute("gen_ai.agent.name", self._agent_name)
        run = _Run(operation, info, _current_run.get())
        _attach(operation)
        _current_run.set(run)
        return run

    def _end_run(self, run: _Run, event: AgentEnd) -> None:
        for left in (run.chat, *run.tools.values()):
            if left is not None:
                self._end(left, "interrupted")
        span = run.agent.span
        span.set_attributes({**usage_attributes(run.usage), "yiemagent.status": event.status})
        if event.limit is not None:
            span.set_attribute("yiemagent.limit", event.limit)
        if self._capture:
            self._capture_run(span, event.messages)
        failed = None
        if event.status == "aborted":
            failed = "aborted"
        elif event.status == "error":
            failed = error_kind_of(event.error) or "_OTHER"
        self._end(run.agent, failed, str(event.error or ""))
        _current_run.set(run.outer)

    def _begin_chat(self, run: _Run) -> None:
        if run.chat is None:
            model = run.info.id if run.info is not None else ""
            name = f"chat {model}" if model else "chat"
            run.chat = self._start(name, "chat", SpanKind.CLIENT, run.info, run.agent)
            _attach(run.chat)

    def _message(self, run: _Run, message: Message) -> None:
        if not isinstance(message, AssistantMessage):
            if self._capture:
                run.unread.append(message)
            return
        chat, run.chat = run.chat, None
        if chat is None:
            return
        if run.info is None:
            _name_model(run, chat, message)
        chat.span.set_attributes(answer_attributes(message))
        if self._capture:
            chat.span.set_attribute("gen_ai.input.messages", messages_as_json(run.unread))
            chat.span.set_attribute("gen_ai.output.messages", messages_as_json([message]))
            run.unread.clear()
        if message.model:
            chat.attributes["gen_ai.response.model"] = message.model
        if message.usage is not None:
            run.usage += message.usage
            self._count_tokens(chat, message.usage)
        failed = None
        if message.stop_reason in ("error", "aborted"):
            failed = message.error_kind or ("aborted" if message.stop_reason == "aborted" else "_OTHER")
        self._end(chat, failed, message.error_message or "")

    def _begin_tool(self, run: _Run, event: ToolExecutionStart) -> None:
        name = f"execute_tool {event.tool_name}"
        tool = self._start(name, "execute_tool", SpanKind.INTERNAL, run.info, run.agent)
        tool.span.set_attributes(
            {
                "gen_ai.tool.name": event.tool_name,
                "gen_ai.tool.call.id": event.tool_call_id,
                "gen_ai.tool.type": "function",
            }
        )
        if self._capture:
            tool.span.set_attribute("gen_ai.tool.call.arguments", to_json(dict(event.arguments)))
        for other in run.tools.values():
            _detach(other)
        # With two open the tools run side by side, and the thread that starts them all is in none.
        if not run.tools:
            _attach(tool)
        run.tools[event.tool_call_id] = tool

    def _end_tool(self, run: _Run, event: ToolExecutionEnd) -> None:
        tool = run.tools.pop(event.tool_call_id, None)
        if tool is None:
            return
        text = getattr(event.result, "text", "")
        if self._capture and not event.is_error:
            tool.span.set_attribute("gen_ai.tool.call.result", text)
        failed = (error_type_of(event.result) or "tool_error") if event.is_error else None
        self._end(tool, failed, text)

    def _diagnostic(self, run: _Run, event: Diagnostic) -> None:
        innermost = run.chat or run.agent
        innermost.span.add_event(event.name, _plain(event.data))
        if event.name == "limit_reached" and run.chat is not None:
            # No model is asked any more. A span that is never ended is never exported.
            _detach(run.chat)
            run.chat = None

    # -- one span --------------------------------------------------------------------------

    def _start(
        self, name: str, operation: str, kind: SpanKind, info: ModelInfo | None, parent: _Operation | None
    ) -> _Operation:
        shared: Attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider_name(info.provider if info is not None else ""),
        }
        if info is not None and info.id and operation != "execute_tool":
            shared["gen_ai.request.model"] = info.id
        context = None if parent is None else trace.set_span_in_context(parent.span)
        span = self._tracer.start_span(name, context, kind, {**shared, **self._common})
        return _Operation(span, shared)

    def _end(self, operation: _Operation, failed: str | None, description: str = "") -> None:
        """End the span and record its duration; *failed* is the ``error.type``."""
        _detach(operation)
        attributes = dict(operation.attributes)
        if failed is not None:
            attributes["error.type"] = failed
            operation.span.set_attribute("error.type", failed)
            # What went wrong may quote what was said.
            text = description[:1_000] if self._capture else None
            operation.span.set_status(Status(StatusCode.ERROR, text or None))
        self._duration.record(
            perf_counter() - operation.began, attributes, trace.set_span_in_context(operation.span)
        )
        operation.span.end()

    def _count_tokens(self, chat: _Operation, usage: Usage) -> None:
        for kind, tokens in (("input", prompt_tokens(usage)), ("output", usage.output_tokens)):
            if tokens is not None:
                attributes = {**chat.attributes, "gen_ai.token.type": kind}
                self._tokens.record(tokens, attributes, trace.set_span_in_context(chat.span))

    def _capture_run(self, span: Span, messages: tuple[Message, ...]) -> None:
        answers = [message for message in messages if isinstance(message, AssistantMessage)]
        asked = [message for message in messages if message.role == "user"]
        span.set_attribute("gen_ai.input.messages", messages_as_json(asked))
        span.set_attribute("gen_ai.output.messages", messages_as_json(answers[-1:]))


def _name_model(run: _Run, chat: _Operation, message: AssistantMessage) -> None:
    """Nobody told the model's name; its answer does."""
    named = {"gen_ai.provider.name": provider_name(message.provider)}
    if message.model:
        named["gen_ai.request.model"] = message.model
        chat.span.update_name(f"chat {message.model}")
    for operation in (chat, run.agent):
        operation.attributes.update(named)
        operation.span.set_attributes(named)


def _attach(operation: _Operation) -> None:
    operation.token = otel_context.attach(trace.set_span_in_context(operation.span))


def _detach(operation: _Operation) -> None:
    token, operation.token = operation.token, None
    if token is not None:
        otel_context.detach(token)


def _plain(data: Mapping[str, Any]) -> Attributes:
    """Attributes may be text, numbers and truth values; None is left out, the rest is JSON."""
    return {
        key: value if isinstance(value, (str, bool, int, float)) else to_json(value)
        for key, value in sanitized(data).items()
        if value is not None
    }
