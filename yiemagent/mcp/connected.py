"""The client's connection, and the client as the callable of the Julia design.

Source: issue 5 parts 1, 6; WT-001, WT-020 to WT-022; field problems 2-5, 31, 49.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Self, Unpack

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, McpError
from yiemagent.forking import forget_parent_on_fork
from yiemagent.mcp.answers import Answers
from yiemagent.mcp.cache import ResultCache
from yiemagent.mcp.call import Call
from yiemagent.mcp.calls import UNSET, Calls, Timeout
from yiemagent.mcp.deadline import Deadline, check_seconds
from yiemagent.mcp.eras import LOG_LEVELS
from yiemagent.mcp.jsonrpc import (
    INTERNAL_ERROR,
    Message,
    make_error,
    make_notification,
    make_result,
    result_of,
)
from yiemagent.mcp.link import ServerLink
from yiemagent.mcp.lists import Lists
from yiemagent.mcp.notices import Notices
from yiemagent.mcp.options import ClientKeywords, ClientOptions, EventSink, OnProgress
from yiemagent.mcp.results import ServerInfo
from yiemagent.mcp.subscriptions import Subscriptions
from yiemagent.mcp.tool_calls import ToolCalls
from yiemagent.mcp.transport import Connection, Transport

__all__ = ["ConnectedClient"]


class ConnectedClient:
    """What ``McpClient`` is but for the typed methods of tools, resources and prompts.

    Args:
        transport: How to reach the server.
        **options: The fields of ``ClientOptions``.

    Raises:
        ConfigurationError: An option cannot be used.
    """

    def __init__(self, transport: Transport, **options: Unpack[ClientKeywords]) -> None:
        try:
            self._options = ClientOptions(**options)
        except TypeError as exc:
            raise ConfigurationError(f"unknown option of an MCP client: {exc}") from None
        self._label = self._options.name or transport.label
        self._answers = Answers(
            name=self._label,
            on_elicitation=self._options.on_elicitation,
            on_sampling=self._options.on_sampling,
            roots=self._options.roots,
            more_capabilities=self._options.capabilities,
        )
        self._notices = Notices(self._label, self._options)
        self._link = ServerLink(transport, self._options, self._answers, self._notices)
        self._calls = Calls(self._link, self._answers, self._notices, self._options)
        self._cache = ResultCache()
        self._lists = Lists(self._calls, self._notices, self._cache, self._label)
        self._tools = ToolCalls(self._calls, self._lists, self._label)
        self._subscriptions = Subscriptions(self._link, self._calls, self._notices)
        self._link.on_session(self._subscriptions.reconnected)
        forget_parent_on_fork(self)
        weakref.finalize(self, self._subscriptions.close).atexit = False

    # --- the connection

    @property
    def label(self) -> str:
        """What messages call the server."""
        return self._label

    @property
    def _connection(self) -> Connection | None:
        session = self._link.current
        return None if session is None else session.connection

    @property
    def options(self) -> ClientOptions:
        """How this client behaves."""
        return self._options

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._link.closed

    @property
    def connected(self) -> bool:
        """Whether there is a connection now; the next call makes one otherwise."""
        return self._link.current is not None

    def connect(self, *, timeout: Timeout = UNSET, signal: AbortSignal | None = None) -> ServerInfo:
        """Connect now instead of with the first call; returns who answered.

        Args:
            timeout: ``connect_timeout`` by default.
            signal: Ends it.
        """
        seconds = self._options.connect_timeout if timeout is UNSET else check_seconds("timeout", timeout)
        return self._link.session(Deadline(seconds), signal).server

    def close(self, timeout: float | None = None) -> None:
        """End the connection for good, in at most about twice *timeout* plus a second.

        Idempotent, and callable from any thread. Calls in flight fail at once.

        Args:
            timeout: Seconds that the server gets at each step (``close_timeout`` by default).
        """
        seconds = self._options.close_timeout if timeout is None else timeout
        self._subscriptions.close()
        self._link.close(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "connected" if self.connected else "not connected"
        return f"<{type(self).__name__} {self._label!r} {state}>"

    def ping(self, *, timeout: Timeout = UNSET, signal: AbortSignal | None = None) -> None:
        """Make sure that the server answers; where the protocol has no ping, by asking who it is."""
        call = self._calls.begin(timeout, signal)
        era = self._calls.session(call).era
        method = "ping" if era.handshake else "server/discover" if era.request_meta else "tools/list"
        result_of(self._calls.request(method, None, call)[1])

    def set_log_level(
        self, level: str, *, timeout: Timeout = UNSET, signal: AbortSignal | None = None
    ) -> None:
        """Ask for log messages of *level* and above, from now on.

        Raises:
            ConfigurationError: It is none of ``eras.LOG_LEVELS``.
            McpError: The server does not offer it.
        """
        if level not in LOG_LEVELS:
            raise ConfigurationError(f"level={level!r} is none of {', '.join(LOG_LEVELS)}")
        call = self._calls.begin(timeout, signal)
        if self._calls.session(call).era.handshake:
            result_of(self._calls.request("logging/setLevel", {"level": level}, call)[1])
        self._link.log_level = level

    def roots_changed(self) -> None:
        """Tell an older server that ``roots`` gives something else now; newer ones ask when they need it."""
        session = self._link.current
        if session is not None and session.era.handshake:
            self._link.notify(make_notification("notifications/roots/list_changed"), Deadline(5.0))

    # --- the callable of the Julia design

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = UNSET,
        signal: AbortSignal | None = None,
        on_progress: OnProgress | None = None,
        event_sink: EventSink | None = None,
    ) -> Message:
        """Send any request and return the JSON-RPC response, an error response too."""
        call = self._calls.begin(timeout, signal, on_progress, event_sink)
        return self._calls.request(method, params, call)[1]

    def __call__(
        self,
        method: str,
        *args: Any,
        event_sink: EventSink | None = None,
        signal: AbortSignal | None = None,
        timeout: Timeout = UNSET,
        on_progress: OnProgress | None = None,
    ) -> Message:
        """Call it as the Julia design does; returns the JSON-RPC response, an error response too.

        ``mcp("tools/list", session_id)`` gives all pages as one; ``mcp("tools/call", name, arguments,
        session_id)``; any other method takes its params.

        Raises:
            ConfigurationError: The arguments do not fit the method.
            McpError: The transport failed; never because the server answered with an error.

        Source: WT-001, WT-020 to WT-022; runbook 1.1.
        """
        if method == "tools/list" and len(args) <= 1 and not (args and isinstance(args[0], Mapping)):
            call = self._calls.begin(timeout, signal, on_progress, event_sink)
            return self._list_response(call, args[0] if args else None)
        if method == "tools/call" and 1 <= len(args) <= 3 and isinstance(args[0], str):
            call = self._calls.begin(timeout, signal, on_progress, event_sink)
            name, arguments, session_id = (*args, None, None)[:3]
            return self._tools.run(name, arguments, call, session_id or self._options.session_id)
        if len(args) > 1 or (args and not isinstance(args[0], Mapping)):
            raise ConfigurationError(
                f"mcp({method!r}, ...) got {len(args)} arguments; give ('tools/list', session_id), "
                "('tools/call', name, arguments, session_id), or any method with its params"
            )
        params = args[0] if args else None
        return self.request(
            method,
            params,
            timeout=timeout,
            signal=signal,
            on_progress=on_progress,
            event_sink=event_sink,
        )

    def _list_response(self, call: Call, session_id: str | None) -> Message:
        try:
            tools = self._tools.list(call, session_id=session_id or self._options.session_id)
        except McpError as exc:
            if type(exc) is not McpError:
                raise
            return make_error(None, INTERNAL_ERROR if exc.code is None else exc.code, str(exc), exc.data)
        return make_result(None, {"tools": [dict(tool.raw) for tool in tools]})

    def _after_fork_in_child(self) -> None:
        self._calls.forget()
        self._cache.forget()
        self._tools.forget()
        self._subscriptions.forget()
