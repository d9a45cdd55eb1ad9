"""MCP servers over HTTP that say exactly what a test tells them to, for ``LoopbackServer``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from yiemagent.testing.loopback import ServedRequest

__all__ = ["Answer", "SessionServer", "result_for", "sse_event"]

Answer: TypeAlias = Callable[[ServedRequest], object]


def result_for(request: ServedRequest, value: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON-RPC response to a request that was served."""
    return {"jsonrpc": "2.0", "id": request.json["id"], "result": dict(value or {})}


def sse_event(
    data: Mapping[str, Any] | str,
    *,
    id: str | None = None,
    retry: int | None = None,
    event: str | None = None,
) -> str:
    """One server-sent event; a mapping is sent as JSON, *retry* is in milliseconds as on the wire."""
    named = {"event": event, "id": id, "retry": retry}
    fields = [f"{name}: {value}" for name, value in named.items() if value is not None]
    text = data if isinstance(data, str) else json.dumps(data)
    return "\n".join([*fields, f"data: {text}", "", ""])


class SessionServer:
    """A handler that serves the session protocol; a test replaces what it is about.

    Attributes:
        on_call: Answers every request but ``initialize``; by default with an empty result.
        on_get: Answers GET; by default there is no stream (405).
        on_delete: Answers DELETE; by default with 200.

    Args:
        session_id: Given out by ``initialize``; None for a server that keeps no sessions.
        version: Answered by ``initialize``.
    """

    def __init__(self, session_id: str | None = "s-1", version: str = "2025-11-25") -> None:
        self.session_id = session_id
        self.version = version
        self.on_call: Answer = lambda request: request.reply(result_for(request))
        self.on_get: Answer = lambda request: request.reply(b"", 405)
        self.on_delete: Answer = lambda request: request.reply(b"", 200)

    def __call__(self, request: ServedRequest) -> None:
        """Serve one request."""
        if request.method == "GET":
            self.on_get(request)
        elif request.method == "DELETE":
            self.on_delete(request)
        elif request.json.get("method") == "initialize":
            headers = {} if self.session_id is None else {"Mcp-Session-Id": self.session_id}
            told = {"protocolVersion": self.version, "capabilities": {}, "serverInfo": {"name": "loopback"}}
            request.reply(result_for(request, told), headers=headers)
        elif "id" in request.json and "method" in request.json:
            self.on_call(request)
        else:
            request.reply(b"", 202)
