"""MCP without an event loop: clients over stdio, HTTP and NATS, servers, and their tools for an agent.

Names load when they are first used: importing this package loads neither requests nor nats.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yiemagent.mcp.bridge import ToolSource as ToolSource
    from yiemagent.mcp.bridge import list_tools_tool as list_tools_tool
    from yiemagent.mcp.bridge import register_all_tools as register_all_tools
    from yiemagent.mcp.bridge import wrap_mcp_tool as wrap_mcp_tool
    from yiemagent.mcp.client import McpClient as McpClient
    from yiemagent.mcp.config import connect as connect
    from yiemagent.mcp.config import load_servers as load_servers
    from yiemagent.mcp.elicitation import ElicitationAnswer as ElicitationAnswer
    from yiemagent.mcp.elicitation import ElicitationRequest as ElicitationRequest
    from yiemagent.mcp.http import McpHttp as McpHttp
    from yiemagent.mcp.http_auth import BearerToken as BearerToken
    from yiemagent.mcp.nats import McpNats as McpNats
    from yiemagent.mcp.options import ClientOptions as ClientOptions
    from yiemagent.mcp.results import McpPrompt as McpPrompt
    from yiemagent.mcp.results import McpResource as McpResource
    from yiemagent.mcp.results import McpTool as McpTool
    from yiemagent.mcp.results import Progress as Progress
    from yiemagent.mcp.results import ServerInfo as ServerInfo
    from yiemagent.mcp.results import ServerLog as ServerLog
    from yiemagent.mcp.results import ToolCallResult as ToolCallResult
    from yiemagent.mcp.sampling import SamplingRequest as SamplingRequest
    from yiemagent.mcp.serve import McpServer as McpServer
    from yiemagent.mcp.serve_bridge import McpBridge as McpBridge
    from yiemagent.mcp.serve_http import serve_http as serve_http
    from yiemagent.mcp.serve_http_runner import run_http as run_http
    from yiemagent.mcp.serve_nats import serve_nats as serve_nats
    from yiemagent.mcp.serve_offers import PromptArgument as PromptArgument
    from yiemagent.mcp.serve_offers import ServedPrompt as ServedPrompt
    from yiemagent.mcp.serve_offers import ServedResource as ServedResource
    from yiemagent.mcp.serve_stdio import serve_stdio as serve_stdio
    from yiemagent.mcp.stdio import McpStdio as McpStdio
    from yiemagent.mcp.subscriptions import Subscription as Subscription

_HOMES = {
    "yiemagent.mcp.bridge": ("ToolSource", "list_tools_tool", "register_all_tools", "wrap_mcp_tool"),
    "yiemagent.mcp.client": ("McpClient",),
    "yiemagent.mcp.config": ("connect", "load_servers"),
    "yiemagent.mcp.elicitation": ("ElicitationAnswer", "ElicitationRequest"),
    "yiemagent.mcp.http": ("McpHttp",),
    "yiemagent.mcp.http_auth": ("BearerToken",),
    "yiemagent.mcp.nats": ("McpNats",),
    "yiemagent.mcp.options": ("ClientOptions",),
    "yiemagent.mcp.results": (
        "McpPrompt",
        "McpResource",
        "McpTool",
        "Progress",
        "ServerInfo",
        "ServerLog",
        "ToolCallResult",
    ),
    "yiemagent.mcp.sampling": ("SamplingRequest",),
    "yiemagent.mcp.serve": ("McpServer",),
    "yiemagent.mcp.serve_bridge": ("McpBridge",),
    "yiemagent.mcp.serve_http": ("serve_http",),
    "yiemagent.mcp.serve_http_runner": ("run_http",),
    "yiemagent.mcp.serve_nats": ("serve_nats",),
    "yiemagent.mcp.serve_offers": ("PromptArgument", "ServedPrompt", "ServedResource"),
    "yiemagent.mcp.serve_stdio": ("serve_stdio",),
    "yiemagent.mcp.stdio": ("McpStdio",),
    "yiemagent.mcp.subscriptions": ("Subscription",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps ``serve_http`` and its like the functions, though modules of the same name hold them.

    Importing such a module sets it as an attribute of this package; whoever imported the module
    first would make everybody else's ``from yiemagent.mcp import serve_http`` give the module.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOME_OF and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
