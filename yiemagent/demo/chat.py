"""The interactive conversation of ``python -m yiemagent chat``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TextIO

from yiemagent.demo.screen import Screen
from yiemagent.demo.sommelier import ask

if TYPE_CHECKING:
    from yiemagent.agent.agent import Agent

__all__ = ["ToolLine", "chat"]

_PROMPT = "you> "
_SETTLE = 10.0
_HELP = """Ask anything about the wine cellar. Ctrl-C stops an answer and keeps the conversation.
/tools  what the agent can call      /reset  forget the conversation
/help   this                         /quit   leave (or Ctrl-D)"""


class ToolLine(Protocol):
    """What is shown of a tool."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...


def chat(agent: Agent, list_tools: Callable[[], Iterable[ToolLine]], screen: Screen, source: TextIO) -> bool:
    """Talk until the input ends.

    Args:
        list_tools: Asked for ``/tools``.
        source: Where the questions come from, one a line; a terminal gets a prompt.

    Returns:
        Whether the last question was answered.
    """
    screen.line(_HELP, "dim")
    went_well = True
    while (question := _read(screen, source)) is not None:
        if question.startswith("/"):
            if question == "/quit":
                break
            _command(question, agent, list_tools, screen)
        elif question:
            went_well = _ask(agent, question, screen)
    return went_well


def _ask(agent: Agent, question: str, screen: Screen) -> bool:
    try:
        return ask(agent, question, screen)
    except KeyboardInterrupt:
        agent.wait_for_idle(_SETTLE)
        screen.line("(stopped; the conversation is kept)", "dim")
        return True


def _command(
    command: str, agent: Agent, list_tools: Callable[[], Iterable[ToolLine]], screen: Screen
) -> None:
    if command == "/reset":
        agent.reset()
        screen.line("(forgotten)", "dim")
    elif command == "/tools":
        for tool in list_tools():
            screen.line(f"  {tool.name}: {tool.description.splitlines()[0]}", "cyan")
    else:
        screen.line(_HELP, "dim")


def _read(screen: Screen, source: TextIO) -> str | None:
    """The next question without its blanks; None at the end of the input."""
    if source is not sys.stdin or not source.isatty():
        line = source.readline()
        if line.strip():
            screen.line(f"{_PROMPT}{line.strip()}")
        return line.strip() if line else None
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 (importing it gives input() its line editing)
    while True:
        try:
            return input(_PROMPT).strip()
        except EOFError:
            screen.line()
            return None
        except KeyboardInterrupt:
            screen.line("\n(Ctrl-D or /quit leaves)", "dim")
