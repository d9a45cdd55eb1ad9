"""The seam between the client and the wire: ``Transport`` makes a ``Connection``.

A ``Transport`` is how to reach a server: configuration that never changes. A ``Connection`` is
one live link to it, of one process; when it is lost, or after a fork, the client asks the
transport for a new one. A connection moves messages and knows nothing of MCP's methods beyond
how its wire cancels a request; the handshake, `_meta`, paging and retries are the client's.

Source: issue 5 part 1, field problems 2-4, 7-8, 17, 20-31, 49 and cases E-08 to E-14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.jsonrpc import Message

__all__ = [
    "Connection",
    "FallbackEra",
    "OnMessage",
    "Receiver",
    "RequestRefused",
    "SessionLost",
    "Transport",
]

OnMessage: TypeAlias = Callable[[Message], None]

FallbackEra: TypeAlias = Literal["legacy", "plain"]
"""What to try when a server does not know ``server/discover``: ``initialize``, or nothing at all."""


class RequestRefused(McpConnectionError):
    """The far side answered, but not with a JSON-RPC message; the request was not carried out.

    Attributes:
        status: HTTP status, or the transport's own number; None when it has none.
        body: The first 2,000 characters of what it said.
    """

    def __init__(self, message: str, *, status: int | None = None, body: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class SessionLost(RequestRefused):
    """The server no longer knows our session, so it certainly did not carry out the request.

    The client drops the connection, makes a new one with a new handshake and repeats the
    request once, ``tools/call`` included (field problems 17, 18).
    """


class Receiver(Protocol):
    """The client's ear: what a connection tells it beside the answers to its requests.

    Called on whatever thread reads the wire. Both methods return at once: they take no lock for
    long, do no I/O and run no code of the user's.
    """

    def receive(self, connection: Connection, message: Message) -> None:
        """Take a notification or a request of the server's that belongs to no exchange of ours."""

    def lost(self, connection: Connection, error: McpConnectionError) -> None:
        """The connection ended by itself (not by ``close``); told once, after all exchanges failed."""


class Connection(Protocol):
    """One live link to a server. Any thread may call any method; many exchanges run at once.

    A wire without headers says so by an attribute ``mirrors_headers = False``; it is then given
    none, and tools with unusable ``x-mcp-header`` annotations are not left out.
    """

    @property
    def alive(self) -> bool:
        """Whether a new exchange may begin; False after it was lost or closed."""

    def exchange(
        self,
        request: Message,
        *,
        headers: Mapping[str, str],
        deadline: Deadline,
        signal: AbortSignal | None,
        on_message: OnMessage,
    ) -> Message:
        """Send one request and wait for its response. Sends once: never again by itself.

        The wait ends at the first of: the response, the deadline (asked anew, since progress may
        push it back), the abort, a Ctrl-C, the loss of the connection. In all cases but the
        response the request is cancelled as the wire does it: ``notifications/cancelled`` on
        duplex wires and in the sessions of HTTP, the closed stream on stateless HTTP; never for
        ``initialize``. A response that comes later is dropped.

        Args:
            request: A JSON-RPC request; its id is unique among the connection's exchanges.
            headers: ``MCP-Protocol-Version``, ``Mcp-Method``, ``Mcp-Name``, ``Mcp-Param-*``, values
                already encoded; mirrored where the wire has headers, else ignored.
            deadline: When to give up.
            signal: Ends the wait within 0.1 s when aborted; None when nobody can abort.
            on_message: Gets, in order and **in the calling thread**, the notifications that
                belong to this request (HTTP: all that come on its stream). Requests of the
                server's always go to ``Receiver.receive``, wherever they arrive.

        Returns:
            The response as it came, with ``result`` or ``error``; an error response is returned,
            not raised, also when HTTP dressed it as a 4xx.

        Raises:
            McpTimeout: The deadline passed.
            RunAborted: *signal* was aborted.
            SessionLost: The server does not know the session any more.
            RequestRefused: The far side answered with something that is no JSON-RPC message.
            McpConnectionError: The link could not be made, broke or was closed; where there is one,
                the exit code and the last lines of stderr are in the message.
            McpProtocolError: The answer breaks the protocol so that it cannot be read.
        """

    def send(
        self,
        message: Message,
        *,
        headers: Mapping[str, str],
        deadline: Deadline,
        signal: AbortSignal | None = None,
    ) -> None:
        """Send a message that has no answer: a notification, or our response to the server.

        Raises:
            McpTimeout: The deadline passed before it was handed over.
            RunAborted: *signal* was aborted.
            McpConnectionError: The link is gone, or the far side refused it.
        """

    def established(self, version: str) -> None:
        """The handshake is done and *version* is spoken from now on; called once.

        HTTP remembers it for its own requests and, for a session, starts to read the GET stream.
        Returns at once.
        """

    def close(self, timeout: float) -> None:
        """End the link; exchanges in flight raise ``McpConnectionError`` at once.

        Idempotent; closing twice, from any thread or from a callback, is harmless. Never raises
        for what the server does or fails to do.

        Args:
            timeout: Seconds the server gets to end in order before it is made to.
        """

    def abandon(self) -> None:
        """Drop everything in a forked child without a word to the parent's server.

        Takes no lock, joins no thread, blocks on nothing.
        """


class Transport(Protocol):
    """How to reach one server. Immutable, so it can be shared, compared and used after a fork."""

    @property
    def label(self) -> str:
        """What messages call the server: the command line, URL or subject; without secrets."""

    @property
    def era_key(self) -> str | None:
        """Servers with an equal key speak the same era (the origin of a URL); None: ask each time."""

    @property
    def fallback_era(self) -> FallbackEra:
        """What a server speaks that does not answer ``server/discover``."""

    def connect(self, receiver: Receiver, *, deadline: Deadline, signal: AbortSignal | None) -> Connection:
        """Make a connection. Wires without one (HTTP) return at once.

        Args:
            receiver: Held by the connection as long as it lives.
            deadline: When to give up.
            signal: Ends the attempt when aborted.

        Raises:
            McpTimeout: The deadline passed.
            RunAborted: *signal* was aborted.
            McpConnectionError: The server cannot be started or reached; names it and the cause.
        """
