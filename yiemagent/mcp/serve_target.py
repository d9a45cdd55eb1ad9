"""What can be served: a server, another server behind a client, or plain tools."""

from __future__ import annotations

from typing import TypeAlias

from yiemagent.mcp.client import McpClient
from yiemagent.mcp.serve import McpServer
from yiemagent.mcp.serve_bridge import McpBridge
from yiemagent.mcp.serve_protocol import MessageServer
from yiemagent.tools.tool import Tools

__all__ = ["Servable", "as_server"]

Servable: TypeAlias = MessageServer | McpClient | Tools


def as_server(target: Servable) -> MessageServer:
    """Return a server as it is, a bridge to a client's server, or a server of tools.

    Raises:
        ConfigurationError: Something is no tool, or two tools have one name.
    """
    if isinstance(target, MessageServer):
        return target
    return McpBridge(target) if isinstance(target, McpClient) else McpServer(target)
