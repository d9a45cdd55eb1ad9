"""The agent's constructor: every keyword, checked once and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self

from yiemagent.abort import AbortSignal
from yiemagent.agent.engine import AgentEngine
from yiemagent.agent.listeners import Listeners, sink_listener
from yiemagent.agent.options import as_llm, check_keywords, make_limits, refuse_unknown
from yiemagent.agent.queues import Channels, QueueMode
from yiemagent.agent.settings import as_messages, checked_level
from yiemagent.agent.state import StateReducer
from yiemagent.loop.config import (
    AfterToolCallHook,
    AgentContext,
    AgentLoopConfig,
    BeforeToolCallHook,
    EventSink,
    NextTurn,
    PrepareNextTurnContext,
    default_convert_to_llm,
)
from yiemagent.loop.limits import Limits
from yiemagent.messages import LlmMessage, Message
from yiemagent.model import Llm, ThinkingLevel
from yiemagent.tools.pool import ToolThreads
from yiemagent.tools.registry import ToolRegistry
from yiemagent.tools.tool import ToolContext, Tools

if TYPE_CHECKING:
    from yiemagent.agent.mcp_tools import McpTools, OnMcpFailure

__all__ = ["ConstructedAgent"]


class ConstructedAgent(AgentEngine):
    """An agent with everything it is made of, and no verbs yet."""

    __slots__ = ()

    def __init__(
        self,
        model: Llm | str | Callable[..., Mapping[str, Any]],
        *,
        system_prompt: str = "",
        tools: Tools = (),
        messages: Iterable[Message | Mapping[str, Any]] = (),
        thinking_level: ThinkingLevel = "off",
        prepare_context: Callable[[AgentContext, EventSink], AgentContext | None] | None = None,
        transform_context: Callable[[Sequence[Message], AbortSignal], Sequence[Message]] | None = None,
        convert_to_llm: Callable[[Sequence[Message]], Sequence[LlmMessage]] | None = None,
        recover_context: Callable[[Sequence[Message]], Sequence[Message] | None] | None = None,
        fence_untrusted: bool = True,
        format_msg_for_llm: Callable[..., Mapping[str, Any]] | None = None,
        before_tool_call: BeforeToolCallHook | None = None,
        after_tool_call: AfterToolCallHook | None = None,
        around_tool_call: Callable[[ToolContext], AbstractContextManager[object]] | None = None,
        prepare_next_turn: Callable[[PrepareNextTurnContext], NextTurn | None] | None = None,
        should_stop_after_turn: Callable[[PrepareNextTurnContext], bool] | None = None,
        get_api_key: Callable[[str], str | None] | None = None,
        on_payload: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None,
        on_response: Callable[[int, Mapping[str, str]], object] | None = None,
        mcp_server: Any = None,
        on_mcp_failure: OnMcpFailure = "raise",
        parallel_tool_execute: bool = False,
        max_tool_concurrency: int | None = 8,
        tool_timeout: float | None = None,
        abort_grace: float = 0.5,
        max_tool_result_chars: int | None = 400_000,
        max_tool_turns: int | EllipsisType | None = ...,
        max_seconds: float | EllipsisType | None = ...,
        max_total_tokens: int | EllipsisType | None = ...,
        limits: Limits | None = None,
        event_sink: Callable[..., object] | None = None,
        when_busy: str = "queue",
        steering_mode: QueueMode = "one_at_a_time",
        follow_up_mode: QueueMode = "one_at_a_time",
        temperature: float | None = None,
        max_tokens: int | None = None,
        tool_choice: Any = None,
        extra_body: Mapping[str, Any] | None = None,
        transport: str | None = None,
        thinking_budgets: Mapping[str, int] | None = None,
        session_id: str | None = None,
        max_retry_delay: float | None = None,
        **unknown: Any,
    ) -> None:
        """Check everything and keep it; nothing is started.

        Args:
            model: An ``Llm`` such as ``OpenAIChat("gpt-5-mini")``, a string ``"provider:model"``, or a
                callable ``llm_call(request, *, event_sink) -> dict``.
            system_prompt: What the model is told first.
            tools: ``Tool`` objects and plain typed functions, in any mix.
            messages: The history to start from: messages of ours or OpenAI-format dicts.
            thinking_level: ``off`` (default), ``minimal``, ``low``, ``medium``, ``high``, ``xhigh``.
            prepare_context: ``(AgentContext, event_sink) -> AgentContext`` before each model call.
            transform_context: ``(messages, signal) -> messages`` before each model call.
            convert_to_llm: ``(messages) -> messages`` a model knows; drops custom ones by default.
            recover_context: ``(messages) -> shorter messages`` once after a context overflow.
            fence_untrusted: Whether untrusted tool results are fenced before the model reads them.
            format_msg_for_llm: ``(LlmContext) -> request`` for an ``llm_call`` callable.
            before_tool_call, after_tool_call: ``hook(ctx, signal, event_sink)`` around each call.
            around_tool_call: ``(ToolContext) -> context manager`` on the tool's own thread.
            prepare_next_turn, should_stop_after_turn, get_api_key, on_payload, on_response:
                As in ``AgentLoopConfig``.
            mcp_server: One callable of the Julia design, or several; discovered at the first run.
            on_mcp_failure: ``raise`` (the run fails) or ``event`` (a ``Diagnostic``; it goes on).
            parallel_tool_execute: Whether the calls of one answer run side by side.
            max_tool_concurrency: At most so many of them (default 8; None = all).
            tool_timeout: Seconds for one call, unless its tool says otherwise; None = no limit.
            abort_grace: Seconds that running tools have after an abort (default 0.5).
            max_tool_result_chars: Longest result text the model sees, in code points.
            max_tool_turns: Turns with tool calls per message (default 25; None = unlimited).
            max_seconds, max_total_tokens: See ``Limits``; give these or ``limits``.
            limits: All limits in one object.
            event_sink: ``event_sink(text, publish=False)`` gets each event as a readable line; one that
                takes the text alone, such as ``print``, will do.
            when_busy: ``queue`` (default) or ``raise`` (``AgentBusy``) for messages while a run is on.
            steering_mode, follow_up_mode: ``one_at_a_time`` (default) or ``all``.
            temperature, max_tokens, tool_choice, extra_body, transport, thinking_budgets, session_id:
                Passed to the model; None sends nothing.
            max_retry_delay: Longest wait in seconds that a provider may ask for (0 = no limit).

        Raises:
            ConfigurationError: A keyword or value cannot work; it names it and the way out.
        """
        refuse_unknown(unknown, ConstructedAgent.__init__)
        check_keywords(locals())
        shorthands = {
            "max_tool_turns": max_tool_turns,
            "max_seconds": max_seconds,
            "max_total_tokens": max_total_tokens,
        }
        self._config = AgentLoopConfig(
            model=as_llm(model, format_msg_for_llm),
            reasoning=checked_level(thinking_level),
            convert_to_llm=convert_to_llm or default_convert_to_llm,
            prepare_context=prepare_context,
            transform_context=transform_context,
            recover_context=recover_context,
            fence_untrusted=fence_untrusted,
            before_tool_call=before_tool_call,
            after_tool_call=after_tool_call,
            around_tool_call=around_tool_call,
            prepare_next_turn=prepare_next_turn,
            should_stop_after_turn=should_stop_after_turn,
            get_api_key=get_api_key,
            on_payload=on_payload,
            on_response=on_response,
            tool_execution="parallel" if parallel_tool_execute else "sequential",
            max_tool_concurrency=max_tool_concurrency,
            tool_timeout=tool_timeout,
            abort_grace=abort_grace,
            max_tool_result_chars=max_tool_result_chars,
            limits=make_limits(limits, shorthands),
            invalid_transcript="repair",
            temperature=temperature,
            max_tokens=max_tokens,
            tool_choice=tool_choice,
            extra_body=extra_body,
            transport=transport,
            thinking_budgets=thinking_budgets,
            session_id=session_id,
            max_retry_delay=max_retry_delay,
        )
        self._begin_life(messages)
        self._tools = ToolRegistry()
        self._mcp = None if mcp_server is None else _mcp_tools(mcp_server, on_mcp_failure)
        self._when_busy = when_busy
        self.system_prompt = system_prompt
        self.tools = tools
        self.steering_mode = steering_mode
        self.follow_up_mode = follow_up_mode
        if event_sink is not None:
            self._listeners.add(sink_listener(event_sink), deltas=False)

    def clone(self, *, messages: Iterable[Message | Mapping[str, Any]] = ()) -> Self:
        """A new agent of the same make: model, tools, hooks and settings, but its own conversation.

        Args:
            messages: The history it starts from; empty by default. Listeners are not taken over.
        """
        other = object.__new__(type(self))
        other._begin_life(messages)
        other._config, other._tools, other._mcp = self._config, self._tools, self._mcp
        other._system_prompt, other._when_busy = self._system_prompt, self._when_busy
        other.steering_mode, other.follow_up_mode = self.steering_mode, self.follow_up_mode
        return other

    def _begin_life(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        self._channels = Channels()
        self._listeners = Listeners()
        self._threads = ToolThreads()
        self._reducer = StateReducer(as_messages(messages))
        self._thread = self._live = self._finalizer = None


def _mcp_tools(servers: Any, on_failure: OnMcpFailure) -> McpTools:
    from yiemagent.agent.mcp_tools import McpTools

    return McpTools(servers, on_failure)
