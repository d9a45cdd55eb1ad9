"""What the loop is given: context, configuration, and the contexts and results of its hooks.

The loop owns no queue and no state between runs; everything it needs from outside it asks a
callable of ``AgentLoopConfig`` for. Every callable runs on the loop's thread, in the caller's
context variables, and may block it; what one raises ends the run with status ``error``
(decision 23), except where its field says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.assistant_events import AssistantEvent
from yiemagent.data_class import dataclass, replace
from yiemagent.lineage import Lineage
from yiemagent.loop.limits import Limits
from yiemagent.loop.redirect import Redirect
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    CustomMessage,
    LlmMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from yiemagent.model import Llm, LlmContext, StreamOptions, ThinkingLevel
from yiemagent.tools.registry import ToolRegistry
from yiemagent.tools.tool import ExecutionMode, ToolContext, ToolResult

__all__ = [
    "AfterToolCallContext",
    "AfterToolCallHook",
    "AfterToolCallResult",
    "AgentContext",
    "AgentLoopConfig",
    "BeforeToolCallContext",
    "BeforeToolCallHook",
    "BeforeToolCallResult",
    "EventSink",
    "NextTurn",
    "PrepareNextTurnContext",
    "StreamFn",
    "default_convert_to_llm",
]

StreamFn: TypeAlias = Callable[[LlmContext, StreamOptions], Iterator[AssistantEvent]]


class EventSink(Protocol):
    """``event_sink(text, publish=False)``: becomes a ``Log`` event of the run (decision 25)."""

    def __call__(self, text: str, publish: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class AgentContext:
    """What a run starts from, and what hooks see. The loop copies ``messages``; nobody changes them."""

    system_prompt: str = ""
    messages: Sequence[Message] = ()
    tools: ToolRegistry = field(default_factory=ToolRegistry)

    def __post_init__(self) -> None:
        if not isinstance(self.tools, ToolRegistry):
            object.__setattr__(self, "tools", ToolRegistry(self.tools or ()))

    def with_messages(self, messages: Sequence[Message]) -> AgentContext:
        """The same context with other messages."""
        return replace(self, messages=messages)


@dataclass(frozen=True, slots=True)
class BeforeToolCallContext:
    """A call that is about to run. ``args`` is the validated copy: the hook may edit it in place."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: dict[str, Any]
    context: AgentContext
    tool: Any = None
    """The ``Tool``; its ``annotations`` tell what it may do."""


@dataclass(frozen=True, slots=True)
class BeforeToolCallResult:
    """``block`` true keeps the call from running; the model reads ``reason``."""

    block: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AfterToolCallContext:
    """A call that ran, well or with an exception of the tool."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: dict[str, Any]
    result: ToolResult
    is_error: bool
    context: AgentContext
    tool: Any = None


@dataclass(frozen=True, slots=True)
class AfterToolCallResult:
    """Fields of the result to replace as a whole; None keeps (decision 13)."""

    content: Sequence[ContentBlock] | None = None
    details: Any = None
    is_error: bool | None = None
    usage: Usage | None = None
    terminate: bool | None = None


@dataclass(frozen=True, slots=True)
class PrepareNextTurnContext:
    """The turn that just ended."""

    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]
    context: AgentContext
    new_messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class NextTurn:
    """What ``prepare_next_turn`` changes for the rest of the run; None keeps."""

    context: AgentContext | None = None
    model: Llm | None = None
    thinking_level: ThinkingLevel | None = None


class BeforeToolCallHook(Protocol):
    """None lets the call run. What it raises blocks the call (decision 12)."""

    def __call__(
        self, ctx: BeforeToolCallContext, signal: AbortSignal, event_sink: EventSink, /
    ) -> BeforeToolCallResult | None: ...


class AfterToolCallHook(Protocol):
    """None keeps the result, a ``ToolResult`` replaces it. What it raises is that call's error result."""

    def __call__(
        self, ctx: AfterToolCallContext, signal: AbortSignal, event_sink: EventSink, /
    ) -> AfterToolCallResult | ToolResult | None: ...


def default_convert_to_llm(messages: Sequence[Message]) -> Sequence[LlmMessage]:
    """Keep user, assistant and tool-result messages; leave out the application's own."""
    if CustomMessage not in map(type, messages):
        return messages  # type: ignore[return-value]
    return [message for message in messages if not isinstance(message, CustomMessage)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoopConfig:
    """How a run is made. Only ``model`` is needed; seconds everywhere; None = default or unlimited."""

    model: Llm
    convert_to_llm: Callable[[Sequence[Message]], Sequence[LlmMessage]] = default_convert_to_llm
    """Own messages to those a model knows, before each model call."""
    prepare_context: Callable[[AgentContext, EventSink], AgentContext | None] | None = None
    """Replaces the whole context (prompt, messages, tools) for one model call."""
    transform_context: Callable[[Sequence[Message], AbortSignal], Sequence[Message]] | None = None
    """Replaces the messages for one model call; the history stays as it is."""
    fence_untrusted: bool = False
    """Whether untrusted tool results are fenced, as a last step before the model reads them."""
    recover_context: Callable[[Sequence[Message]], Sequence[Message] | None] | None = None
    """Called once per answer after a context overflow: shorter messages to ask again with, or None."""

    reasoning: ThinkingLevel | None = None
    session_id: str | None = None
    on_payload: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None
    on_response: Callable[[int, Mapping[str, str]], object] | None = None
    transport: str | None = None
    thinking_budgets: Mapping[str, int] | None = None
    max_retry_delay: float | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    tool_choice: Any = None
    extra_body: Mapping[str, Any] | None = None
    get_api_key: Callable[[str], str | None] | None = None
    """Called with the provider's name before each model call (keys that expire)."""
    api_key: str | None = None

    tool_execution: ExecutionMode = "sequential"
    max_tool_concurrency: int | None = 8
    """Most tools of one batch that run at once in parallel mode."""
    tool_timeout: float | None = None
    """Seconds that one tool call may take, unless its tool says otherwise."""
    abort_grace: float = 0.5
    """Seconds that running tools have after an abort before they are left (decision 10)."""
    max_tool_result_chars: int | None = 400_000
    """Longest text of one result, in code points, that the model sees; the rest stays in ``details``."""
    before_tool_call: BeforeToolCallHook | None = None
    after_tool_call: AfterToolCallHook | None = None
    around_tool_call: Callable[[ToolContext], AbstractContextManager[object]] | None = None
    """Entered around each tool's execution, on the tool's own thread (close old connections there)."""

    prepare_next_turn: Callable[[PrepareNextTurnContext], NextTurn | None] | None = None
    """Called when another turn follows, just before it starts."""
    should_stop_after_turn: Callable[[PrepareNextTurnContext], bool] | None = None
    """True ends the run after this turn; the queues are not polled."""
    refresh_tools: Callable[[], ToolRegistry | None] | None = None
    """Called before the first turn and between turns: the tools when they changed, else None."""
    get_steering_messages: Callable[[], Sequence[Message] | None] | None = None
    get_follow_up_messages: Callable[[], Sequence[Message] | None] | None = None
    try_finish: Callable[[], bool] | None = None
    """Asked when nothing is pending: False makes the loop poll again. Whoever owns the queues
    decides under its own lock, so that no accepted message is stranded."""
    put_back: Callable[[Sequence[Message]], object] | None = None
    """Takes polled messages back when an abort came before they could be delivered."""
    redirect: Redirect | None = None

    limits: Limits = field(default_factory=Limits)
    invalid_transcript: Literal["error", "repair"] = "error"
    """What happens when calls and results do not pair up before a model call."""
    want_deltas: Callable[[], bool] | bool = True
    """Whether anybody listens to deltas."""
    lineage: Lineage | None = None
    """That of the context's messages, which whoever owns them adds to as the events say."""
    notes: dict[Any, Any] | None = None
    """What was worked out about the history, kept between the runs of one conversation: see
    ``StreamOptions.notes``. None: the run has its own."""
    owner: object = None
    """Whose run this is; a run cannot wait for its own owner."""
