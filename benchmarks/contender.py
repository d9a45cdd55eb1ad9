"""Us, as a contender of a harness that compares agent libraries; not used by ``make bench``.

Such a harness has one module of this form for each library, all with the same functions, runs
each in a virtual environment of its own against one deterministic server, and times ``run``.
Copy the file to its contenders under a name that no package has (``yiemagent_agent.py``).
docs/performance.md has the figures of such a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from yiemagent import Agent, OpenAIChat, Tool, tool
from yiemagent.assistant_events import TextDelta
from yiemagent.events import MessageUpdate
from yiemagent.messages import AssistantMessage, Message, TextContent, UserMessage

VENV = "yiemagent"
IMPORT = "import yiemagent"
DIST = "yiemagent"


def model(url: str) -> OpenAIChat:
    """A model at an OpenAI-compatible base URL, warm as in a web worker; any threads may share it."""
    made = OpenAIChat("mock", base_url=url, api_key="sk-bench")
    made.warm_up()
    return made


def tools(functions: Sequence[Callable[..., Any]]) -> list[Tool]:
    """The library's tools, of typed functions."""
    return [tool(function) for function in functions]


def schema_tools(specs: Sequence[tuple[str, str, dict[str, Any], Callable[..., Any]]]) -> list[Tool]:
    """The library's tools, of (name, description, JSON schema, function), as MCP tools come."""
    return [
        Tool(name=name, description=text, input_schema=schema, execute=_by_name(function))
        for name, text, schema, function in specs
    ]


def agent(model: OpenAIChat, tools: Sequence[Tool]) -> Agent:
    """An agent, ready to run."""
    return Agent(model, tools=tools, parallel_tool_execute=True, max_tool_turns=None)


def run(agent: Agent, prompt: str, history: Sequence[Message] | None = None) -> str:
    """A fresh conversation, after *history* if given; the final text."""
    agent.messages = history or ()
    return agent.run(prompt).text


def history(number: int) -> list[Message]:
    """*number* messages, user and assistant in turn."""
    texts = (
        f"message {index} of a long conversation, about a hundred characters of text so that it "
        "weighs something."
        for index in range(number)
    )
    return [
        AssistantMessage((TextContent(text),)) if index % 2 else UserMessage((TextContent(text),))
        for index, text in enumerate(texts)
    ]


def stream(agent: Agent, prompt: str) -> tuple[str, int]:
    """The text of a streamed answer, and the number of deltas that the caller saw."""
    agent.messages = ()
    deltas = [
        event.assistant_event.delta
        for event in agent.stream(prompt)
        if isinstance(event, MessageUpdate) and isinstance(event.assistant_event, TextDelta)
    ]
    return "".join(deltas), len(deltas)


def _by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _id, args, _signal, _update: function(**args)
