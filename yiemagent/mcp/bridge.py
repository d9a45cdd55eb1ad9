"""The tools of one server, chosen, named and kept up to date between an agent's turns.

Source: FR-004; WT-001, WT-020; runbook 2.3; E-04, E-15, E-16; issue 5 part 5.
"""

from __future__ import annotations

import fnmatch
import logging
import threading
from collections.abc import Callable, Iterable, MutableMapping, MutableSequence
from dataclasses import dataclass, field
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, McpError, RunAborted
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.results import McpTool
from yiemagent.mcp.subscriptions import Subscription
from yiemagent.mcp.tool_names import legal_tool_names
from yiemagent.mcp.wrapping import McpCallable, discover_tools, server_label, wrap_mcp_tool
from yiemagent.messages import TextContent, Trust
from yiemagent.tools.tool import Tool, ToolResult
from yiemagent.value_checks import check_names, check_seconds, check_switch, check_type

__all__ = ["Choice", "ToolSource", "list_tools_tool", "register_all_tools", "wrap_mcp_tool"]

logger = logging.getLogger(__name__)

Choice = Iterable[str] | Callable[[McpTool], bool]
"""Names or patterns (``"read_*"``) of the server's, or a function that is asked about each tool."""


@dataclass(frozen=True, kw_only=True)
class _Choices:
    """Which tools of a server are taken, and how they are made."""

    session_id: str = ""
    prefix: str | bool = ""
    allow: Choice | None = None
    deny: Choice | None = None
    trust: Trust = "untrusted"
    timeout: float | None = None
    _patterns: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for name in ("allow", "deny"):
            choice = getattr(self, name)
            if choice is not None and not callable(choice):
                self._patterns[name] = check_names(name, choice)
        check_type("session_id", self.session_id, str, none=False)
        check_type("prefix", self.prefix, str, bool)
        check_seconds("timeout", self.timeout)
        if self.trust not in ("trusted", "untrusted"):
            raise ConfigurationError(f"trust must be 'trusted' or 'untrusted', got {self.trust!r}")

    def take(self, offered: list[McpTool], label: str) -> list[McpTool]:
        """Those of *offered* that are allowed and not denied."""
        for pattern in self._patterns.get("allow", ()):
            if not any(fnmatch.fnmatchcase(tool.name, pattern) for tool in offered):
                logger.warning("server=%s | allow=%r fits no tool of the server", label, pattern)
        return [
            tool
            for tool in offered
            if (self.allow is None or self._fits("allow", tool)) and not self._fits("deny", tool)
        ]

    def _fits(self, name: str, tool: McpTool) -> bool:
        choice = getattr(self, name)
        if callable(choice):
            return bool(choice(tool))
        return any(fnmatch.fnmatchcase(tool.name, pattern) for pattern in self._patterns.get(name, ()))

    def make(self, mcp: McpCallable, offered: list[McpTool], label: str) -> dict[str, tuple[str, Tool]]:
        """A tool for each that is taken: by our name, with the server's."""
        taken = self.take(offered, label)
        prefix = f"{label}__" if self.prefix is True else self.prefix or ""
        names = legal_tool_names([tool.name for tool in taken], prefix)
        made = {}
        for definition in taken:
            try:
                tool = wrap_mcp_tool(
                    mcp,
                    definition,
                    name=names[definition.name],
                    session_id=self.session_id,
                    trust=self.trust,
                    timeout=self.timeout,
                )
            except ConfigurationError as exc:
                logger.warning("server=%s tool=%s | left out: %s", label, definition.name, exc)
            else:
                made[tool.name] = (definition.name, tool)
        return made


class ToolSource:
    """The tools of one server, for an agent that looks for changes between its turns.

    Pass it as ``mcp_server=`` to choose, rename or trust the tools of a server; it is callable like
    the server itself. Any thread may call any method.

    Args:
        mcp: An ``McpClient`` or any callable of its shape; another source shares its choices.
        session_id: Handed on with each call.
        prefix: Put before each name; True for the server's label and ``__``.
        allow: Only these tools, by the server's names.
        deny: None of these tools.
        trust: Whether the results may be believed; untrusted ones are fenced before a model reads them.
        timeout: Seconds for one call of a tool.
        watch: Whether to have the server tell of changes, where it must be asked to (a stream that
            stays open, protocol 2026-07-28).

    Raises:
        ConfigurationError: A value cannot be used.
    """

    def __init__(
        self,
        mcp: McpCallable | ToolSource,
        *,
        session_id: str = "",
        prefix: str | bool = "",
        allow: Choice | None = None,
        deny: Choice | None = None,
        trust: Trust = "untrusted",
        timeout: float | None = None,
        watch: bool = True,
    ) -> None:
        if isinstance(mcp, ToolSource):
            self._mcp: McpCallable = mcp._mcp
            self._choices: _Choices = mcp._choices
            self._watch: bool = mcp._watch
        else:
            if not callable(mcp):
                raise ConfigurationError(f"an MCP server is a callable such as McpStdio(...), got {mcp!r}")
            self._mcp = mcp
            self._choices = _Choices(
                session_id=session_id, prefix=prefix, allow=allow, deny=deny, trust=trust, timeout=timeout
            )
            check_switch("watch", watch)
            self._watch = watch
        # Guards what was made of which state of the server's list.
        self._lock = threading.Lock()
        self._made: dict[str, tuple[str, Tool]] | None = None
        self._definitions: list[dict[str, Any]] = []
        self._state = -1
        self._watching: Subscription | None = None

    @property
    def label(self) -> str:
        """What messages call the server."""
        return server_label(self._mcp)

    def __call__(self, method: str, *args: Any, **keywords: Any) -> Any:
        """Call the server itself."""
        return self._mcp(method, *args, **keywords)

    def tools(self, *, signal: AbortSignal | None = None) -> tuple[Tool, ...]:
        """The tools as they were last seen; the server is asked the first time.

        Raises:
            McpError: They could not be discovered, so nobody knows whether there are any.
        """
        if self._made is None:
            self.refresh_if_changed(signal=signal)
        return tuple(tool for _, tool in (self._made or {}).values())

    def mcp_name(self, tool_name: str) -> str | None:
        """What the server calls the tool that is *tool_name* here; None for none of its tools."""
        found = (self._made or {}).get(tool_name)
        return None if found is None else found[0]

    def refresh_if_changed(self, *, signal: AbortSignal | None = None) -> bool:
        """Ask the server again if it said that its list changed, or was connected anew.

        Call it between turns, never inside one.

        Returns:
            Whether ``tools`` gives something else now. When asking again fails, the tools stay and
            it is tried again the next time.

        Raises:
            McpError: The first discovery failed.
            RunAborted: *signal* was aborted.
        """
        first = self._made is None
        if not first and self._seen() == self._state:
            return False
        try:
            return self._refresh(signal)
        except RunAborted:
            raise
        except Exception as exc:
            if first:
                raise
            logger.warning("server=%s | could not list the tools again, keeping the old: %s", self.label, exc)
            return False

    def _seen(self) -> int:
        return self._mcp.changes("tools") if isinstance(self._mcp, McpClient) else 0

    def _refresh(self, signal: AbortSignal | None) -> bool:
        if isinstance(self._mcp, McpClient):
            self._mcp.connect(signal=signal)  # a connection counts as a change
        state = self._seen()
        offered = discover_tools(self._mcp, session_id=self._choices.session_id, signal=signal)
        definitions = [dict(tool.raw) for tool in offered]
        with self._lock:
            changed = self._made is None or definitions != self._definitions
        made = self._choices.make(self._mcp, offered, self.label) if changed else None
        with self._lock:
            self._state = state
            if made is not None:
                self._made, self._definitions = made, definitions
        if changed:
            logger.info("server=%s | discovered %d MCP tools", self.label, len(made or {}))
        self._start_watching(signal)
        return changed

    def _start_watching(self, signal: AbortSignal | None) -> None:
        if not self._watch or self._watching is not None or not isinstance(self._mcp, McpClient):
            return
        try:
            self._watching = self._mcp.watch_lists("tools", signal=signal)
        except McpError as exc:
            self._watching = Subscription()
            logger.warning("server=%s | will not tell of changes: %s", self.label, exc)

    def close(self) -> None:
        """Stop watching for changes; the server itself stays as it is."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.close()

    def __repr__(self) -> str:
        known = "not discovered yet" if self._made is None else f"{len(self._made)} tools"
        return f"<ToolSource {self.label!r}: {known}>"


def register_all_tools(
    tools: MutableMapping[str, Tool] | MutableSequence[Any],
    mcp: McpCallable | ToolSource,
    *,
    session_id: str = "",
    prefix: str | bool = "",
    allow: Choice | None = None,
    deny: Choice | None = None,
    trust: Trust = "untrusted",
    timeout: float | None = None,
    on_failure: Callable[[Exception], object] | None = None,
) -> tuple[Tool, ...]:
    """Discover the tools of a server and add them to *tools* (``registerAllTools`` of the Julia design).

    All or none are added. A tool that is there already is never replaced.

    Args:
        tools: A dict by name, or a list.
        mcp: The server.
        session_id, prefix, allow, deny, trust, timeout: As of ``ToolSource``.
        on_failure: Called with the error when they cannot be discovered; nothing is added then.

    Returns:
        The tools that were added.

    Raises:
        McpError: They could not be discovered, and there is no *on_failure*.
        ConfigurationError: Two tools would have one name.

    Source: WT-001, WT-020; runbook 2.3; E-04.
    """
    source = ToolSource(
        mcp,
        session_id=session_id,
        prefix=prefix,
        allow=allow,
        deny=deny,
        trust=trust,
        timeout=timeout,
        watch=False,
    )
    try:
        found = source.tools()
    except Exception as exc:
        if on_failure is None:
            raise
        on_failure(exc)
        return ()
    held = tools.values() if isinstance(tools, MutableMapping) else tools
    taken = {getattr(tool, "name", getattr(tool, "__name__", None)) for tool in held}
    clashing = [tool.name for tool in found if tool.name in taken]
    if clashing:
        raise ConfigurationError(
            f"tools of {source.label} have names that are taken: {', '.join(clashing)}; "
            "give prefix=..., or leave them out with allow= or deny="
        )
    if isinstance(tools, MutableMapping):
        tools.update({tool.name: tool for tool in found})
    else:
        tools.extend(found)
    logger.info("discovered %d MCP tools of %s; %d tools in all", len(found), source.label, len(tools))
    return found


def list_tools_tool(*sources: ToolSource | McpCallable, name: str = "list_tools") -> Tool:
    """A tool with which a model looks through the tools of servers (``listTools`` of the Julia design).

    Args:
        *sources: The servers.
        name: Of the tool.
    """
    listed = [
        source if isinstance(source, ToolSource) else ToolSource(source, watch=False) for source in sources
    ]

    def execute(tool_call_id: str, args: dict[str, Any], signal: AbortSignal, on_update: Any) -> ToolResult:
        wanted = str(args.get("query") or "").casefold()
        lines = []
        for source in listed:
            source.refresh_if_changed(signal=signal)
            for tool in source.tools():
                line = f"{tool.name}: {tool.description.strip()}"
                if wanted in line.casefold():
                    lines.append(line)
        text = "\n".join(lines) or "No tool fits." if wanted or lines else "There are no tools."
        return ToolResult((TextContent(text),), trust="untrusted")

    return Tool(
        name=name,
        description="List the tools that the connected MCP servers offer, with what they do.",
        input_schema={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Show only tools whose name or description contains this.",
                }
            },
        },
        execute=execute,
    )
