"""Us, on the same jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.jobs import history_text
from yiemagent import Agent as YiemAgent
from yiemagent import OpenAIChat
from yiemagent.assistant_events import TextDelta
from yiemagent.events import MessageUpdate
from yiemagent.messages import AssistantMessage, Message, UserMessage

NAME = "yiemagent"


class Agent:
    """An agent that starts a fresh conversation for every run."""

    def __init__(self, url: str, functions: Sequence[Callable[..., Any]], *, parallel: bool = False) -> None:
        model = OpenAIChat("mock", base_url=url + "/v1", api_key="sk-bench")
        self.agent = YiemAgent(model, tools=functions, parallel_tool_execute=parallel, max_tool_turns=None)

    def run(self, prompt: str, history: Sequence[Message] = ()) -> str:
        """One conversation, after *history*; the final text."""
        self.agent.messages = history
        return self.agent.run(prompt).text

    def stream(self, prompt: str) -> int:
        """One streamed answer; the number of deltas seen."""
        self.agent.messages = ()
        return sum(
            isinstance(event, MessageUpdate) and isinstance(event.assistant_event, TextDelta)
            for event in self.agent.stream(prompt)
        )


def history(number: int) -> list[Message]:
    """*number* messages of about a hundred characters."""
    return [
        AssistantMessage(history_text(n)) if n % 2 else UserMessage(history_text(n))  # type: ignore[arg-type]
        for n in range(number)
    ]
