"""Another MCP server, reached by a client of ours, served on: stdio onto NATS, any wire onto any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yiemagent.errors import McpError
from yiemagent.mcp.calls import UNSET, Timeout
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Message, error_of, result_of
from yiemagent.mcp.results import Progress, ServerInfo
from yiemagent.mcp.serve_protocol import MessageServer
from yiemagent.mcp.serve_session import Incoming, Refusal
from yiemagent.messages import TextContent
from yiemagent.tools.tool import ToolResult

__all__ = ["McpBridge"]

FORWARDED = {
    "tools/list": "tools",
    "tools/call": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "resources/read": "resources",
    "prompts/list": "prompts",
    "prompts/get": "prompts",
    "completion/complete": "completions",
}
"""The methods that are passed on, and the capability that each belongs to."""


class McpBridge(MessageServer):
    """Passes requests on to another server and its answers back, as they are.

    Each side may speak another protocol version. Questions that the server behind asks
    (elicitation, sampling, roots) are answered by the client's own callbacks.

    Args:
        client: Reaches the server behind; not closed by the bridge.
        timeout: Seconds for one request; the client's when not given.
    """

    def __init__(self, client: McpClient, *, timeout: Timeout = UNSET) -> None:
        self._client = client
        self._timeout = timeout

    def info(self) -> Mapping[str, Any]:
        """The server behind; connects if need be."""
        behind = self._behind()
        return {"name": behind.name or self._client.label, "version": behind.version}

    def capabilities(self) -> Mapping[str, Any]:
        """What the server behind offers and can be passed on."""
        offered = self._behind().capabilities or {"tools": {}}
        return {name: {} for name in dict.fromkeys(FORWARDED.values()) if name in offered}

    def instructions(self) -> str | None:
        """Those of the server behind."""
        return self._behind().instructions or None

    def takes_long(self, method: str) -> bool:
        """Everything that asks the server behind."""
        return method != "ping"

    def answer(self, incoming: Incoming) -> dict[str, Any]:
        """Pass a request on; its error comes back as it is."""
        if incoming.method not in FORWARDED:
            raise Refusal(METHOD_NOT_FOUND, f"Method not found: {incoming.method}")
        try:
            response = self._forward(incoming)
        except McpError as exc:
            raise Refusal(INTERNAL_ERROR if exc.code is None else exc.code, str(exc), exc.data) from exc
        error = error_of(response)
        if error is not None:
            raise Refusal(INTERNAL_ERROR if error.code is None else error.code, error.message, error.data)
        result = dict(result_of(response))
        if incoming.method.endswith("/list"):
            self._fit_cursor(incoming, result)
        return result

    def _forward(self, incoming: Incoming) -> Message:
        params = {key: value for key, value in incoming.params.items() if key != "_meta"}
        session_id = params.pop("sessionId", None)
        if incoming.method == "tools/call" and isinstance(params.get("name"), str):
            # The client knows which parameters its wire mirrors into headers.
            return self._client(
                "tools/call",
                params["name"],
                params.get("arguments"),
                session_id,
                timeout=self._timeout,
                signal=incoming.signal,
                on_progress=lambda progress: incoming.progress(_as_update(progress)),
            )
        if session_id is not None and not self._behind().protocol_version:
            params["sessionId"] = session_id
        return self._client.request(incoming.method, params, timeout=self._timeout, signal=incoming.signal)

    def _fit_cursor(self, incoming: Incoming, result: dict[str, Any]) -> None:
        """An empty cursor ends a list in the Julia design's dialect, and is a cursor everywhere else."""
        if not incoming.version:
            result.setdefault("nextCursor", "")
        elif result.get("nextCursor") == "" and not self._behind().protocol_version:
            del result["nextCursor"]

    def _behind(self) -> ServerInfo:
        return self._client.connect()


def _as_update(progress: Progress) -> ToolResult:
    details = {"progress": progress.progress, "total": progress.total}
    return ToolResult((TextContent(progress.message),), details)
