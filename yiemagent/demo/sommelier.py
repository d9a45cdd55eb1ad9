"""The demonstration's agent: the runbook's wine assistant, its cellar behind an MCP server."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from yiemagent.demo.screen import Screen
from yiemagent.errors import YiemAgentError

if TYPE_CHECKING:
    from yiemagent.agent.agent import Agent
    from yiemagent.mcp import McpStdio
    from yiemagent.model import Llm

__all__ = ["SYSTEM_PROMPT", "ask", "cellar_client", "sommelier"]

SYSTEM_PROMPT = (
    "You are the sommelier of a wine cellar. Answer only from what your tools say; look things up before you "
    "answer, and never invent a wine or a price. Prices are in euros. Number the wines you list. "
    "Answer in plain text, briefly, in the language of the question."
)
_SERVER = "yiemagent.demo.cellar_server"


def cellar_client() -> McpStdio:
    """A client of the cellar's server, which starts as a child process with the first call."""
    from yiemagent.mcp import McpStdio

    return McpStdio(sys.executable, ["-m", _SERVER], inherit_env=["PYTHONPATH"])


@contextlib.contextmanager
def sommelier(llm: Llm, cellar: McpStdio, system_prompt: str | None = None) -> Iterator[Agent]:
    """An agent that has the cellar's tools, for as long as the block lasts.

    Args:
        cellar: Where the tools are; it is trusted, because it is ours.
        system_prompt: Instead of the sommelier's.
    """
    from yiemagent.agent.agent import Agent
    from yiemagent.mcp import ToolSource

    with Agent(
        llm,
        system_prompt=SYSTEM_PROMPT if system_prompt is None else system_prompt,
        mcp_server=ToolSource(cellar, trust="trusted"),
        parallel_tool_execute=True,
    ) as agent:
        yield agent


def ask(agent: Agent, question: str, screen: Screen) -> bool:
    """Ask one question and show everything up to the end of its run.

    Returns:
        Whether there was an answer.

    Raises:
        KeyboardInterrupt: Ctrl-C; the run is aborted and the conversation stays usable.
    """
    try:
        with agent.stream(question) as events:
            for event in events:
                screen.show(event)
            result = events.result()
    except YiemAgentError as error:
        screen.error(str(error))
        return False
    if result.status == "limit":
        screen.line(f"(stopped: the limit {result.limit} was reached)", "dim")
    screen.summary(result)
    return True
