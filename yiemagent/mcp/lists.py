"""Asking for whole lists, with the pages a server allows to be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from yiemagent.mcp.cache import ResultCache
from yiemagent.mcp.call import Call
from yiemagent.mcp.calls import Calls
from yiemagent.mcp.jsonrpc import METHOD_NOT_FOUND, error_of, result_of
from yiemagent.mcp.notices import Notices
from yiemagent.mcp.paging import collect_pages
from yiemagent.mcp.session import Session

__all__ = ["PROMPTS", "RESOURCES", "TEMPLATES", "TOOLS", "ListKind", "Lists"]


@dataclass(frozen=True, slots=True)
class ListKind:
    """One of the lists of a server."""

    method: str
    items: str
    """Key of the members in the result."""
    identity: str
    """Key that tells members apart."""
    capability: str
    """What a server declares that has such a list; also the name under which its changes are told."""


TOOLS = ListKind("tools/list", "tools", "name", "tools")
PROMPTS = ListKind("prompts/list", "prompts", "name", "prompts")
RESOURCES = ListKind("resources/list", "resources", "uri", "resources")
TEMPLATES = ListKind("resources/templates/list", "resourceTemplates", "uriTemplate", "resources")


class Lists:
    """Collects lists.

    Args:
        calls: Where requests go.
        notices: Who knows what has changed.
        cache: Where pages are kept.
        label: What messages call the server.
    """

    def __init__(self, calls: Calls, notices: Notices, cache: ResultCache, label: str) -> None:
        self._calls = calls
        self._notices = notices
        self._cache = cache
        self._label = label

    def collect(
        self, kind: ListKind, call: Call, *, refresh: bool = False, session_id: str | None = None
    ) -> tuple[Session, list[Mapping[str, Any]]]:
        """All members, in the server's order, and the session that answered.

        Args:
            kind: Which list.
            call: Its deadline holds for all pages together.
            refresh: Ask even for what may be kept.
            session_id: ``sessionId`` of the plain dialect.

        Raises:
            McpError: The server refused; a list that it does not have at all is empty.
            McpTimeout, RunAborted, McpConnectionError, McpProtocolError: As of ``Calls.request``.
        """
        session = self._calls.session(call)
        generation = self._notices.changes(kind.capability)
        dialect = {"sessionId": session_id} if session.era.session_in_params and session_id else {}

        def fetch(cursor: Any) -> Mapping[str, Any]:
            params = {**dialect} if cursor is None else {**dialect, "cursor": cursor}
            kept = None if refresh else self._cache.get(kind.method, params, generation)
            return kept if kept is not None else self._ask(kind, params, call, generation)

        members = collect_pages(
            fetch,
            items=kind.items,
            identity=kind.identity,
            label=self._label,
            empty_cursor_ends=session.era.empty_cursor_ends,
        )
        return session, members

    def _ask(
        self, kind: ListKind, params: Mapping[str, Any], call: Call, generation: int
    ) -> Mapping[str, Any]:
        session, response = self._calls.request(kind.method, params, call)
        error = error_of(response)
        offered = not session.era.version or kind.capability in session.server.capabilities
        if error is not None and error.code == METHOD_NOT_FOUND and not offered:
            return {}
        result = result_of(response)
        self._cache.put(kind.method, params, generation, result)
        return result
