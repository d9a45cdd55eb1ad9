"""Which of the two HTTP wires a server speaks, found out when the session is opened.

Source: protocol 2026-07-28 "Backward Compatibility", HTTP+SSE Transport; issue 5 part 2.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from typing import Literal, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.http_connection import HttpConnection
from yiemagent.mcp.http_link import HttpLink
from yiemagent.mcp.http_sse import SseConnection
from yiemagent.mcp.jsonrpc import Message
from yiemagent.mcp.transport import Connection, OnMessage, Receiver, RequestRefused

__all__ = ["HttpWire", "WireConnection"]

logger = logging.getLogger(__name__)

HttpWire: TypeAlias = Literal["auto", "streamable", "sse"]

_OLD_WIRE_STATUSES = (400, 404, 405)
"""Refusals of ``initialize`` after which the server may be one of 2024-11-05."""


class _As:
    """Tells a receiver that what a wire brings comes from the connection it knows."""

    def __init__(self, connection: WireConnection, receiver: Receiver) -> None:
        self._connection = weakref.ref(connection)
        self._receiver = receiver

    def receive(self, connection: Connection, message: Message) -> None:
        """See ``Receiver.receive``."""
        known = self._connection()
        if known is not None:
            self._receiver.receive(known, message)

    def lost(self, connection: Connection, error: McpConnectionError) -> None:
        """See ``Receiver.lost``."""
        known = self._connection()
        if known is not None:
            self._receiver.lost(known, error)


class WireConnection:
    """See ``Connection``: Streamable HTTP, until ``initialize`` shows that the server is older.

    Args:
        link: The way to the server; closed with the connection.
        receiver: Gets the server's requests and what belongs to no exchange.
        wire: ``"auto"``, or the only one to try.
    """

    def __init__(self, link: HttpLink, receiver: Receiver, wire: HttpWire) -> None:
        self._link = link
        self._only = wire
        self._ears = _As(self, receiver)
        self._wire: HttpConnection | SseConnection = HttpConnection(link, self._ears)

    @property
    def alive(self) -> bool:
        """Whether a new exchange may begin."""
        return self._wire.alive

    def exchange(
        self,
        request: Message,
        *,
        headers: Mapping[str, str],
        deadline: Deadline,
        signal: AbortSignal | None,
        on_message: OnMessage,
    ) -> Message:
        """See ``Connection.exchange``."""
        wire = self._wire
        if self._only == "sse" and isinstance(wire, HttpConnection):
            wire = self._open_old_wire(wire, deadline, signal)
        try:
            return wire.exchange(
                request, headers=headers, deadline=deadline, signal=signal, on_message=on_message
            )
        except RequestRefused as exc:
            old = self._only == "auto" and isinstance(wire, HttpConnection) and wire.alive
            if not old or request["method"] != "initialize" or exc.status not in _OLD_WIRE_STATUSES:
                raise
            logger.debug("server=%s status=%s | trying HTTP+SSE", self._link.label, exc.status)
            try:
                wire = self._open_old_wire(wire, deadline, signal)
            except McpConnectionError as sse:
                raise RequestRefused(
                    f"{exc}; nor does it speak HTTP+SSE: {sse}", status=exc.status, body=exc.body
                ) from exc
        return wire.exchange(
            request, headers=headers, deadline=deadline, signal=signal, on_message=on_message
        )

    def _open_old_wire(
        self, wire: HttpConnection | SseConnection, deadline: Deadline, signal: AbortSignal | None
    ) -> SseConnection:
        old_wire = SseConnection(self._link, self._ears)
        self._wire = old_wire
        try:
            old_wire.open(deadline, signal)
        except BaseException:
            self._wire = wire
            old_wire.close(0)
            raise
        return old_wire

    def send(
        self,
        message: Message,
        *,
        headers: Mapping[str, str],
        deadline: Deadline,
        signal: AbortSignal | None = None,
    ) -> None:
        """See ``Connection.send``."""
        self._wire.send(message, headers=headers, deadline=deadline, signal=signal)

    def established(self, version: str) -> None:
        """See ``Connection.established``."""
        self._wire.established(version)

    def close(self, timeout: float) -> None:
        """See ``Connection.close``."""
        self._wire.close(timeout)
        self._link.close()

    def abandon(self) -> None:
        """See ``Connection.abandon``."""
        self._wire.abandon()
