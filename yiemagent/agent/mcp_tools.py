"""The tools of the agent's MCP servers, joined with its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.events import Diagnostic, Event
from yiemagent.tools.registry import ToolRegistry

__all__ = ["McpTools", "OnMcpFailure"]

OnMcpFailure = Literal["raise", "event"]


class McpTools:
    """Discovers at the first run, not at construction, and looks for changes between turns."""

    def __init__(self, servers: Any, on_failure: OnMcpFailure) -> None:
        several = isinstance(servers, Iterable) and not callable(servers)
        self._servers = tuple(servers) if several else (servers,)
        for server in self._servers:
            if not callable(server):
                raise ConfigurationError(
                    "mcp_server must be a callable server(method, *args, event_sink=...) such as McpStdio, "
                    f"McpHttp or McpNats, or a list of these; got {server!r}"
                )
        self._on_failure = on_failure
        self._sources: list[Any] | None = None

    def refresh(
        self, own: ToolRegistry, signal: AbortSignal, emit: Callable[[Event], object], *, begins: bool = False
    ) -> ToolRegistry | None:
        """The agent's own tools with those of every server; None when nothing changed.

        Args:
            begins: The run has only the agent's own tools yet, so that it needs them in any case.
        """
        from yiemagent.mcp.bridge import ToolSource

        first = self._sources is None
        if self._sources is None:
            self._sources = [ToolSource(server) for server in self._servers]
        changed = first or begins
        tools = list(own)
        for source in self._sources:
            try:
                changed = source.refresh_if_changed(signal=signal) or changed
                tools.extend(source.tools())
            except Exception as error:
                if self._on_failure == "raise":
                    self._sources = None if first else self._sources
                    raise
                emit(Diagnostic("mcp_discovery_failed", {"server": source.label, "error": str(error)}))
        return ToolRegistry(tools) if changed else None
