"""MCP tools as tools of an agent, from any callable of the Julia design's shape.

Such a callable is ``mcp("tools/list", session_id, event_sink=...)`` and
``mcp("tools/call", name, arguments, session_id, event_sink=...)``, and returns the JSON-RPC
response. ``McpClient`` is one; where a callable also takes ``signal``, ``timeout``, ``on_progress``
or ``cursor``, they are given to it.

Source: FR-004, SP-009; WT-001, WT-020 to WT-022; runbook 1.1, 2.3, 4.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, McpProtocolError, RunAborted
from yiemagent.mcp.content import tool_result
from yiemagent.mcp.jsonrpc import error_of, result_of
from yiemagent.mcp.output import check_output
from yiemagent.mcp.paging import collect_pages
from yiemagent.mcp.results import McpTool
from yiemagent.mcp.tool_names import legal_tool_names
from yiemagent.messages import Trust
from yiemagent.tools.result import error_result
from yiemagent.tools.tool import OnUpdate, Tool, ToolResult, current_event_sink

__all__ = ["McpCallable", "discover_tools", "server_label", "wrap_mcp_tool"]

logger = logging.getLogger(__name__)

McpCallable = Callable[..., Any]
"""``mcp(method, *args, event_sink=...)``, returning a JSON-RPC response."""

_KEYWORDS = ("event_sink", "signal", "timeout", "on_progress", "cursor")


def server_label(mcp: McpCallable) -> str:
    """What messages call the server behind *mcp*."""
    label = getattr(mcp, "label", None)
    return label if isinstance(label, str) and label else getattr(mcp, "__name__", type(mcp).__name__)


def _accepted(mcp: McpCallable) -> frozenset[str]:
    """Which of the keywords that may be given *mcp* takes."""
    try:
        parameters = inspect.signature(mcp).parameters.values()
    except (TypeError, ValueError):
        return frozenset(("event_sink",))
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return frozenset(_KEYWORDS)
    named = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    return frozenset(name for name in _KEYWORDS if name in named)


def discover_tools(
    mcp: McpCallable,
    *,
    session_id: str = "",
    signal: AbortSignal | None = None,
    timeout: float | None = None,
) -> list[McpTool]:
    """Every tool of a server, all pages.

    Args:
        mcp: The server.
        session_id: Handed on with each call.
        signal: Ends it, where the callable takes one.
        timeout: Seconds, where the callable takes them; its own limit when None.

    Raises:
        McpError: The server answered with an error, or its transport failed. Never an empty list
            instead.
        McpProtocolError: It did not return a JSON-RPC response.

    Source: WT-020, decision 31; E-03; runbook 2.3.
    """
    accepted = _accepted(mcp)
    label = server_label(mcp)
    offered: dict[str, Any] = {"event_sink": current_event_sink.get(), "signal": signal}
    keywords = {name: value for name, value in offered.items() if name in accepted}
    if timeout is not None and "timeout" in accepted:
        keywords["timeout"] = timeout

    def fetch(cursor: Any) -> Mapping[str, Any]:
        if cursor is None:
            return _listed(mcp("tools/list", session_id, **keywords), label)
        if "cursor" not in accepted:
            logger.warning("server=%s | has more tools, but its callable takes no cursor=", label)
            return {}
        return _listed(mcp("tools/list", session_id, cursor=cursor, **keywords), label)

    members = collect_pages(fetch, items="tools", identity="name", label=label, empty_cursor_ends=True)
    return [McpTool.read(member) for member in members]


def _listed(response: Any, label: str) -> Mapping[str, Any]:
    if not isinstance(response, Mapping):
        raise McpProtocolError(f"{label} returned {response!r} for tools/list instead of a JSON-RPC response")
    return result_of(response)


def wrap_mcp_tool(
    mcp: McpCallable,
    tool_def: McpTool | Mapping[str, Any],
    *,
    name: str | None = None,
    session_id: str = "",
    trust: Trust = "untrusted",
    timeout: float | None = None,
) -> Tool:
    """One tool of a server as a ``Tool`` (``_wrap_mcp_tool`` of the Julia design).

    The tool never raises for what the server does: a JSON-RPC error becomes the error result
    ``MCP error: <message>`` (``error_type`` ``mcp_error``), a failure of the transport
    ``MCP call error: <message>`` (``mcp_call_error``), and ``isError`` an error result with the
    server's own text (``mcp_tool_error``). An abort of the call is passed on to the server.

    Args:
        mcp: The server.
        tool_def: As ``tools/list`` gives it.
        name: The name for the model; the server's, made legal, when None.
        session_id: Handed on with each call.
        trust: Whether what the server says may be believed.
        timeout: Seconds for one call, here and at the server's client; their own limits when None.

    Raises:
        ConfigurationError: The definition cannot be used as a tool.

    Source: WT-021, WT-022; E-05, E-07, E-09, E-10.
    """
    definition = tool_def if isinstance(tool_def, McpTool) else _definition(tool_def)
    schema = {"type": "object", **definition.input_schema}
    schema.setdefault("properties", {})
    return Tool(
        name=name or legal_tool_names([definition.name])[definition.name],
        description=definition.description or definition.title,
        input_schema=schema,
        execute=_McpExecution(mcp, definition, _accepted(mcp), session_id, trust, timeout),
        label=definition.title or None,
        timeout=timeout,
        annotations=definition.annotations,
        output_schema=definition.output_schema,
    )


def _definition(raw: Mapping[str, Any]) -> McpTool:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str) or not raw["name"]:
        raise ConfigurationError(f"an MCP tool definition needs a name, got {raw!r}")
    return McpTool.read(raw)


@dataclass(frozen=True)
class _McpExecution:
    """The body of a wrapped tool."""

    mcp: McpCallable
    definition: McpTool
    accepted: frozenset[str]
    session_id: str
    trust: Trust
    timeout: float | None

    def tolerate_reference(self, missing: str) -> None:
        """Servers send schemas that refer to nothing: the tool is kept, the rest of it works (C-22)."""
        text = "server=%s tool=%s | its schema refers to %s; what is given there will be refused"
        logger.warning(text, server_label(self.mcp), self.definition.name, missing)

    def __call__(
        self, tool_call_id: str, args: dict[str, Any], signal: AbortSignal, on_update: OnUpdate, /
    ) -> ToolResult:
        """Call the tool at the server."""
        offered: dict[str, Any] = {
            "event_sink": current_event_sink.get(),
            "signal": signal,
            "on_progress": lambda progress: on_update(str(progress)),
        }
        if self.timeout is not None:
            offered["timeout"] = self.timeout
        keywords = {name: value for name, value in offered.items() if name in self.accepted}
        try:
            response = self.mcp("tools/call", self.definition.name, args, self.session_id, **keywords)
        except RunAborted:
            raise
        except Exception as exc:
            return self._failed(f"MCP call error: {exc}", "mcp_call_error", error=str(exc))
        return self._read(response)

    def _read(self, response: Any) -> ToolResult:
        label = server_label(self.mcp)
        if not isinstance(response, Mapping) or not ("result" in response or "error" in response):
            problem = f"{label} returned {response!r} instead of a JSON-RPC response"
            return self._failed(f"MCP call error: {problem}", "mcp_call_error", error=problem)
        error = error_of(response)
        if error is not None:
            return self._failed(
                f"MCP error: {error.message}",
                "mcp_error",
                error=error.message,
                code=error.code,
                data=error.data,
            )
        result = response.get("result")
        warnings = check_output(self.definition, result, label) if isinstance(result, Mapping) else ()
        return tool_result(
            result,
            server=label,
            tool=self.definition.name,
            trust=self.trust,
            warnings=warnings,
        )

    def _failed(self, text: str, error_type: str, **details: Any) -> ToolResult:
        made = error_result(
            text, error_type, server=server_label(self.mcp), tool=self.definition.name, **details
        )
        return replace(made, trust=self.trust)
