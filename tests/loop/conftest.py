"""One run of the stateless loop, and its events as one readable line.

A trace is written like this: ``AS`` agent start, ``TS`` turn start, ``M+x`` / ``M.x`` message start
and end of x (u user, a assistant, r1 the result of call t1, with a stop reason that is none of an
answer in brackets), ``M~`` one or more updates, ``X+t1`` / ``X~t1`` / ``X.t1`` start, update and end
of a tool call (``!`` when it failed), ``TE[...]`` turn end with its results, ``AE[...]`` agent end
with the new messages (and its status when that is not completed), ``D:name`` a diagnostic,
``L:text`` a log line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.events import (
    AgentEnd,
    AgentStart,
    Diagnostic,
    Event,
    Log,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.limits import Limits
from yiemagent.loop.run import run_agent_loop, run_agent_loop_continue
from yiemagent.messages import AssistantMessage, Message, TextContent, ToolResultMessage, UserMessage
from yiemagent.tools.tool import Tool


def short(message: Message) -> str:
    if isinstance(message, ToolResultMessage):
        return "r" + message.tool_call_id.removeprefix("t")
    return message.role[0]


def ended(message: Message) -> str:
    odd = ("error", "aborted", "redirected")
    if isinstance(message, AssistantMessage) and message.stop_reason in odd:
        return f"a({message.stop_reason})"
    return short(message)


def listed(messages: Iterable[Message]) -> str:
    return ",".join(short(message) for message in messages)


WORDS: dict[type[Any], Callable[[Any], str]] = {
    AgentStart: lambda event: "AS",
    TurnStart: lambda event: "TS",
    MessageStart: lambda event: f"M+{short(event.message)}",
    MessageUpdate: lambda event: "M~",
    MessageEnd: lambda event: f"M.{ended(event.message)}",
    ToolExecutionStart: lambda event: f"X+{event.tool_call_id}",
    ToolExecutionUpdate: lambda event: f"X~{event.tool_call_id}",
    ToolExecutionEnd: lambda event: f"X.{event.tool_call_id}{'!' if event.is_error else ''}",
    TurnEnd: lambda event: f"TE[{listed(event.tool_results)}]",
    AgentEnd: lambda event: f"AE[{listed(event.messages)}]{status_of(event)}",
    Diagnostic: lambda event: f"D:{event.name}",
    Log: lambda event: f"L:{event.text}",
}


def status_of(event: AgentEnd) -> str:
    return "" if event.status == "completed" else f":{event.status}"


def trace_of(events: Iterable[Event]) -> str:
    words: list[str] = []
    for event in events:
        next_word = WORDS[type(event)](event)
        if next_word != "M~" or words[-1] != "M~":
            words.append(next_word)
    return " ".join(words)


@dataclass
class Ran:
    """What a run told and gave."""

    events: list[Event]
    messages: list[Message]

    @property
    def trace(self) -> str:
        return trace_of(self.events)

    @property
    def end(self) -> AgentEnd:
        last = self.events[-1]
        assert isinstance(last, AgentEnd)
        return last

    @property
    def results(self) -> list[ToolResultMessage]:
        return [message for message in self.messages if isinstance(message, ToolResultMessage)]

    @property
    def answers(self) -> list[AssistantMessage]:
        return [message for message in self.messages if isinstance(message, AssistantMessage)]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def trace() -> Callable[[Iterable[Event]], str]:
    """Events as one line."""
    return trace_of


@pytest.fixture
def user() -> Callable[[str], UserMessage]:
    """A user message of one text."""
    return lambda text: UserMessage((TextContent(text),))


@pytest.fixture
def run() -> Callable[..., Ran]:
    """Run the loop in this thread: ``run("prompt", llm=..., tools=[...], **config)``."""

    def start(
        *prompts: str | Message,
        llm: Any,
        tools: Sequence[Any] = (),
        history: Sequence[Message] = (),
        system_prompt: str = "",
        signal: AbortSignal | None = None,
        emit: Callable[[Event], object] | None = None,
        stream_fn: Any = None,
        again: bool = False,
        limits: dict[str, Any] | None = None,
        **config: Any,
    ) -> Ran:
        events: list[Event] = []

        def both(event: Event) -> None:
            events.append(event)
            if emit is not None:
                emit(event)

        if limits is not None:
            config["limits"] = Limits(**limits)
        context = AgentContext(system_prompt, history, tools)  # type: ignore[arg-type]
        made = AgentLoopConfig(model=llm, **config)
        if again:
            return Ran(events, run_agent_loop_continue(context, made, both, signal, stream_fn))
        asked = [UserMessage((TextContent(p),)) if isinstance(p, str) else p for p in prompts]
        return Ran(events, run_agent_loop(asked, context, made, both, signal, stream_fn))

    return start


@pytest.fixture
def tool() -> Callable[..., Tool]:
    """``tool("name", execute, **fields)``: a tool that takes anything and by default says ``name done``."""

    def make(name: str, execute: Callable[..., Any] | None = None, **fields: Any) -> Tool:
        return Tool(
            name=name,
            description="A tool.",
            execute=execute or (lambda tool_call_id, args, signal, on_update: f"{name} done"),
            **fields,
        )

    return make
