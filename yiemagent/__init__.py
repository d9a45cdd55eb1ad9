"""yiemagent: the agent runtime for synchronous Python.

Blocking calls, real threads, no event loop. ``Agent`` owns a conversation; ``run_agent_loop``
is the stateless loop below it. Names load when they are first used: importing the package loads
neither requests nor jsonschema nor nats.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yiemagent.abort import AbortSignal as AbortSignal
    from yiemagent.agent.agent import Agent as Agent
    from yiemagent.agent.results import Response as Response
    from yiemagent.agent.results import RunResult as RunResult
    from yiemagent.agent.state import AgentState as AgentState
    from yiemagent.agent.streams import RunStream as RunStream
    from yiemagent.event_stream import EventStream as EventStream
    from yiemagent.llm.anthropic import AnthropicMessages as AnthropicMessages
    from yiemagent.llm.openai_chat import OpenAIChat as OpenAIChat
    from yiemagent.llm.responses import OpenAIResponses as OpenAIResponses
    from yiemagent.loop.config import AfterToolCallContext as AfterToolCallContext
    from yiemagent.loop.config import AfterToolCallResult as AfterToolCallResult
    from yiemagent.loop.config import AgentContext as AgentContext
    from yiemagent.loop.config import AgentLoopConfig as AgentLoopConfig
    from yiemagent.loop.config import BeforeToolCallContext as BeforeToolCallContext
    from yiemagent.loop.config import BeforeToolCallResult as BeforeToolCallResult
    from yiemagent.loop.config import NextTurn as NextTurn
    from yiemagent.loop.config import PrepareNextTurnContext as PrepareNextTurnContext
    from yiemagent.loop.limits import Limits as Limits
    from yiemagent.loop.run import agent_loop as agent_loop
    from yiemagent.loop.run import agent_loop_continue as agent_loop_continue
    from yiemagent.loop.run import run_agent_loop as run_agent_loop
    from yiemagent.tools.decorator import tool as tool
    from yiemagent.tools.registry import ToolRegistry as ToolRegistry
    from yiemagent.tools.tool import Tool as Tool
    from yiemagent.tools.tool import ToolContext as ToolContext
    from yiemagent.tools.tool import ToolResult as ToolResult

_HOMES = {
    "yiemagent.abort": ("AbortSignal",),
    "yiemagent.agent.agent": ("Agent",),
    "yiemagent.agent.results": ("Response", "RunResult"),
    "yiemagent.agent.state": ("AgentState",),
    "yiemagent.agent.streams": ("RunStream",),
    "yiemagent.event_stream": ("EventStream",),
    "yiemagent.llm.anthropic": ("AnthropicMessages",),
    "yiemagent.llm.openai_chat": ("OpenAIChat",),
    "yiemagent.llm.responses": ("OpenAIResponses",),
    "yiemagent.loop.config": (
        "AfterToolCallContext",
        "AfterToolCallResult",
        "AgentContext",
        "AgentLoopConfig",
        "BeforeToolCallContext",
        "BeforeToolCallResult",
        "NextTurn",
        "PrepareNextTurnContext",
    ),
    "yiemagent.loop.limits": ("Limits",),
    "yiemagent.loop.run": ("agent_loop", "agent_loop_continue", "run_agent_loop"),
    "yiemagent.tools.decorator": ("tool",),
    "yiemagent.tools.registry": ("ToolRegistry",),
    "yiemagent.tools.tool": ("Tool", "ToolContext", "ToolResult"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        if name == "__version__":
            from importlib.metadata import version

            return version("yiemagent")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
