"""Budgets of Python calls and lines: a guard against slow growth that no timing would notice.

Each budget is what was measured plus about a sixth. When one is exceeded, look first for what
was added to the way of every turn (``python -m benchmarks`` says what it costs in time). A
feature that is worth its calls may raise its budget: put in the new count plus a sixth, and say
in the commit what the calls are for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent import Agent, OpenAIChat, tool
from yiemagent.mcp import McpStdio
from yiemagent.messages import AssistantMessage, Message, TextContent, UserMessage

CALLS_OF_A_TURN = 595
CALLS_OF_A_TOOL_TURN = 655
CALLS_OF_A_DELTA = 36.0
CALLS_OF_AN_AGENT = 56
CALLS_OF_A_TOOL_IN_AN_AGENT = 0.1
CALLS_OF_AN_MCP_CALL = 55
LINES_OF_A_KNOWN_MESSAGE = 0.1


SERVER = """
from yiemagent.mcp.serve import McpServer
from yiemagent.mcp.serve_stdio import serve_stdio

def add(a: int, b: int) -> int:
    return a + b

serve_stdio(McpServer([add]))
"""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def make_agent(url: str) -> Iterator[Callable[[str], Agent]]:
    """An agent whose model answers as the script says."""
    agents: list[Agent] = []

    def make(script: str) -> Agent:
        model = OpenAIChat("mock", base_url=f"{url}/{script}/v1", api_key="sk-bench")
        agents.append(Agent(model, tools=[add], max_tool_turns=None))
        return agents[-1]

    yield make
    for agent in agents:
        agent.stop()


def _run(agent: Agent, history: tuple[Message, ...] = ()) -> Callable[[], object]:
    def work() -> None:
        agent.messages = history
        assert "42" in agent.run("What is the sum?").text

    work()  # The first run loads modules, connects and encodes the history.
    return work


@pytest.mark.servers
def test_a_turn_costs_no_more_calls_than_it_did(python_calls: Any, make_agent: Any) -> None:
    """Issue 7, job (a): one prompt and its answer, from ``run`` to the result, all threads."""
    assert python_calls.least(_run(make_agent("tools=0"))) <= CALLS_OF_A_TURN


@pytest.mark.servers
def test_a_tool_turn_costs_no_more_calls_than_it_did(python_calls: Any, make_agent: Any) -> None:
    """Issue 7, job (b): what each turn with one tool call adds."""
    short = python_calls.least(_run(make_agent("tools=1")))
    long = python_calls.least(_run(make_agent("tools=11")))

    assert (long - short) / 10 <= CALLS_OF_A_TOOL_TURN


@pytest.mark.servers
def test_a_delta_costs_no_more_calls_than_it_did(python_calls: Any, make_agent: Any) -> None:
    """Issue 7, job (g): what each streamed piece adds, from the socket to the iterating caller."""

    def stream(agent: Agent) -> Callable[[], object]:
        def work() -> None:
            agent.messages = ()
            for _ in agent.stream("Say something."):
                pass

        work()
        return work

    short = python_calls.least(stream(make_agent("deltas=200")))
    long = python_calls.least(stream(make_agent("deltas=1200")))

    assert (long - short) / 1000 <= CALLS_OF_A_DELTA


@pytest.mark.servers
def test_a_message_that_the_request_before_had_costs_no_line(python_lines: Any, make_agent: Any) -> None:
    """Issue 7, job (h): a turn costs what it adds and not its history; loops over it are seen as lines."""
    history = tuple(
        AssistantMessage((TextContent(f"answer {number}"),)) if number % 2 else UserMessage("question")
        for number in range(3000)
    )
    agent = make_agent("tools=0")
    short = python_lines.least(_run(agent, history[:1000]), rounds=2)
    long = python_lines.least(_run(agent, history), rounds=2)

    assert (long - short) / 2000 <= LINES_OF_A_KNOWN_MESSAGE


@pytest.mark.servers
def test_an_mcp_call_over_stdio_costs_no_more_calls_than_it_did(python_calls: Any) -> None:
    """Issue 7, MCP: from ``call_tool`` to its result, all threads of the client."""
    with McpStdio(sys.executable, ["-c", SERVER], inherit_env=True) as client:
        count = python_calls.least(lambda: client.call_tool("add", {"a": 1, "b": 2}))

    assert count <= CALLS_OF_AN_MCP_CALL


def test_making_an_agent_costs_no_more_calls_than_it_did(python_calls: Any) -> None:
    """Issue 7: an agent per web request is cheap, however many tools it has."""
    model = OpenAIChat("mock", base_url="http://127.0.0.1:9/v1", api_key="sk-bench")
    tools = [tool(add, name=f"add_{number}") for number in range(50)]
    one = python_calls.least(lambda: Agent(model, tools=tools[:1]))
    fifty = python_calls.least(lambda: Agent(model, tools=tools))

    assert one <= CALLS_OF_AN_AGENT
    assert (fifty - one) / 49 <= CALLS_OF_A_TOOL_IN_AN_AGENT
