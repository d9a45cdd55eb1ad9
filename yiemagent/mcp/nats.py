"""MCP over NATS: one request is one message, its answers come to an inbox of its own.

The binding, since the specification has none: the JSON-RPC message is the payload, published
to the server's subject with a reply inbox; the HTTP mirror headers are NATS headers; the server
answers on the inbox with any number of notifications and then the response. Cancelling is
``notifications/cancelled`` with the reply inbox of the request it cancels, so that a queue
group of servers can tell whose request is meant. Requests may go to any member of the group, so
servers keep no session.

Two dialects: ``yiem``, the Julia design's (``sessionId`` in the params, an empty ``nextCursor``
ends the list), spoken to servers that do not know ``server/discover``; and ``mcp``, the
specification's alone.

Source: issue 5 part 4, cases E-17 to E-22, D-02, field problems 50 to 59.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, Unpack

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.nats_connection import NatsConnection
from yiemagent.mcp.nats_desk import NatsTarget
from yiemagent.mcp.nats_loop import lease_loop
from yiemagent.mcp.nats_options import NatsKeywords, NatsOptions, check_subject
from yiemagent.mcp.options import ClientKeywords
from yiemagent.mcp.transport import FallbackEra, Receiver

__all__ = ["McpNats", "McpNatsKeywords", "NatsDialect", "NatsTransport"]

NatsDialect: TypeAlias = Literal["yiem", "mcp"]


class NatsTransport:
    """How to reach an MCP server that listens on a NATS subject. Immutable; opens nothing.

    Args:
        servers: ``nats://host:4222`` or ``tls://host``, one or several.
        topic: The subject that the server listens on, such as ``yiemagent:tools``.
        sender_id: Who asks: the connection's name and the ``Yiem-Sender`` header.
        dialect: What a server speaks that does not answer ``server/discover``.
        **options: Credentials, TLS and patience: the fields of ``NatsOptions``.

    Raises:
        ConfigurationError: An address, the subject or an option cannot work.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        topic: str,
        sender_id: str = "yiemagent",
        *,
        dialect: NatsDialect = "yiem",
        **options: Unpack[NatsKeywords],
    ) -> None:
        if dialect not in ("yiem", "mcp"):
            raise ConfigurationError(f'dialect must be "yiem" or "mcp", got {dialect!r}')
        usable = isinstance(sender_id, str) and sender_id.isascii() and sender_id.isprintable()
        if not usable or not sender_id:
            raise ConfigurationError(f"sender_id must be printable ASCII, got {sender_id!r}")
        self.options = NatsOptions(servers=servers, name=sender_id, **options)
        self.topic = check_subject("topic", topic)
        self.sender_id = sender_id
        self.dialect = dialect

    @property
    def label(self) -> str:
        """The subject and the addresses, without credentials."""
        return f"NATS subject {self.topic!r} at {self.options.label}"

    @property
    def era_key(self) -> str | None:
        """Everybody on one subject of one cluster speaks the same era."""
        return f"{self.options.label} {self.topic}"

    @property
    def fallback_era(self) -> FallbackEra:
        """``plain`` in the ``yiem`` dialect, where nobody shakes hands."""
        return "plain" if self.dialect == "yiem" else "legacy"

    def connect(
        self, receiver: Receiver, *, deadline: Deadline, signal: AbortSignal | None
    ) -> NatsConnection:
        """Connect; see ``Transport.connect``. Fails within ``dial_timeout`` when no server is there."""
        import nats.aio.client  # noqa: F401 - 0.1 s, better spent here than on the loop

        if signal is not None:
            signal.raise_if_aborted()
        loop = lease_loop()
        try:
            connection = NatsConnection(
                NatsTarget(self.options, self.topic, self.sender_id, self.label),
                loop,
                receiver,
            )
            connection.open(deadline, signal)
        except BaseException:
            loop.release()
            raise
        return connection

    def __repr__(self) -> str:
        return f"NatsTransport({self.options.label!r}, {self.topic!r}, {self.sender_id!r})"


class McpNatsKeywords(ClientKeywords, NatsKeywords, total=False):
    """The keywords of a client over NATS."""


class McpNats(McpClient):
    """An MCP server on a NATS subject: ``mcpServer(conn, topic, senderID)`` of the Julia design.

    Args:
        servers: ``nats://host:4222`` or ``tls://host``, one or several.
        topic: The subject that the server listens on, such as ``yiemagent:tools``.
        sender_id: Who asks; also the ``sessionId`` of the Julia design's dialect, where a call
            gives none.
        dialect: What a server speaks that does not answer ``server/discover``: ``"yiem"``, the Julia
            design's dialect, or ``"mcp"``, the specification's handshake.
        **options: The fields of ``NatsOptions`` (credentials, TLS, patience) and ``ClientOptions``.

    Raises:
        ConfigurationError: An address, the subject or an option cannot work.

    Source: WT-001, runbook 1.1, issue 5 part 4.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        topic: str,
        sender_id: str = "yiemagent",
        *,
        dialect: NatsDialect = "yiem",
        **options: Unpack[McpNatsKeywords],
    ) -> None:
        given: dict[str, Any] = dict(options)
        for_nats: Any = {name: given.pop(name) for name in NatsKeywords.__annotations__ if name in given}
        transport = NatsTransport(servers, topic, sender_id, dialect=dialect, **for_nats)
        given.setdefault("session_id", sender_id)
        super().__init__(transport, **given)
