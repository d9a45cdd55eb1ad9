"""The demonstration's agent: the runbook's wine assistant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yiemagent.demo.cellar import cellar_tools
from yiemagent.demo.screen import Screen
from yiemagent.errors import YiemAgentError

if TYPE_CHECKING:
    from yiemagent.agent.agent import Agent
    from yiemagent.model import Llm

__all__ = ["SYSTEM_PROMPT", "ask", "sommelier"]

SYSTEM_PROMPT = (
    "You are the sommelier of a wine cellar. Answer only from what your tools say; look things up before you "
    "answer, and never invent a wine or a price. Prices are in euros. Number the wines you list. "
    "Answer in plain text, briefly, in the language of the question."
)


def sommelier(llm: Llm, system_prompt: str | None = None) -> Agent:
    """An agent that has the cellar's tools."""
    from yiemagent.agent.agent import Agent

    return Agent(
        llm,
        system_prompt=SYSTEM_PROMPT if system_prompt is None else system_prompt,
        tools=cellar_tools(),
        parallel_tool_execute=True,
    )


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
