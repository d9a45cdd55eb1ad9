"""Logging in to an MCP server before anything is asked of it."""

from __future__ import annotations

from yiemagent.abort import AbortSignal
from yiemagent.mcp.deadline import Deadline, check_seconds
from yiemagent.mcp.http_auth import HttpAuth
from yiemagent.mcp.http_link import HttpLink, HttpOptions
from yiemagent.mcp.jsonrpc import encode, make_request

__all__ = ["probe"]


def probe(url: str, auth: HttpAuth, *, timeout: float | None) -> None:
    """Ask the server at *url* for a ``ping``, so that it says which authorization it wants.

    Whatever it answers beyond that does not matter.

    Raises:
        McpAuthorizationError: No authorization could be had.
        McpTimeout: *timeout* seconds passed first.
        McpConnectionError: The server cannot be reached.
    """
    link = HttpLink(url, HttpOptions(), auth)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        link.open(
            "POST",
            headers=headers,
            body=encode(make_request(1, "ping")),
            deadline=Deadline(check_seconds("timeout", timeout)),
            signal=AbortSignal(),
            operation="ping",
        ).close()
    finally:
        link.close()
