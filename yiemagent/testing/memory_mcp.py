"""MCP servers in the memory of the test, for clients that should not know the difference.

A ``MemoryTransport`` joins a client to a function that plays the server, one call per connection,
on a thread of its own. ``ScriptedMcpServer`` is such a function for most tests; ``serve_in_memory``
makes one of real tools.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.duplex import DuplexConnection
from yiemagent.mcp.eras import MODERN_VERSIONS, SERVER_INFO_META, VERSION_META, VERSIONS
from yiemagent.mcp.jsonrpc import (
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    Message,
    decode,
    encode,
    id_key,
    kind_of,
    make_error,
    make_notification,
    make_request,
    make_result,
)
from yiemagent.mcp.serve_session import ServerSession
from yiemagent.mcp.serve_target import Servable, as_server
from yiemagent.mcp.transport import FallbackEra, Receiver
from yiemagent.testing.gates import WAIT

__all__ = ["MemoryTransport", "ScriptedMcpServer", "ServerEnd", "serve_in_memory"]


class ServerEnd:
    """The server's side of one connection. Any thread; iterate over it for the client's messages."""

    def __init__(self, connection: _MemoryConnection) -> None:
        self._connection = connection
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.closed = threading.Event()
        """Set when the client has closed its side."""

    def receive(self, timeout: float = WAIT) -> Message | None:
        """The next message of the client; None when it has closed.

        Raises:
            AssertionError: Nothing came within *timeout* seconds.
        """
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"the client sent nothing within {timeout} s") from None

    def __iter__(self) -> Iterator[Message]:
        while (message := self._inbox.get()) is not None:
            yield message

    def send(self, message: Message) -> None:
        """Send any message to the client."""
        for copied in decode(encode(message)):
            self._connection.deliver(copied)

    def reply(self, request: Message, result: Mapping[str, Any]) -> None:
        """Answer *request*."""
        self.send(make_result(request["id"], result))

    def refuse(self, request: Message, code: int, message: str, data: Any = None) -> None:
        """Answer *request* with an error."""
        self.send(make_error(request["id"], code, message, data))

    def die(self, text: str = "the server in memory died") -> None:
        """End the connection from the server's side."""
        self._connection.lose(text)
        self.hang_up()

    def hang_up(self) -> None:
        """No more messages will come: let the server's function end."""
        self.closed.set()
        self._inbox.put(None)

    def take(self, message: Message) -> None:
        """Take a message of the client's."""
        self._inbox.put(message)


class _MemoryConnection(DuplexConnection):
    """The client's side."""

    def __init__(self, receiver: Receiver, label: str) -> None:
        super().__init__(receiver, label)
        self.end = ServerEnd(self)

    def _post(self, message: Message) -> None:
        for copied in decode(encode(message)):
            self.end.take(copied)

    def _shut(self, timeout: float) -> None:
        self.end.hang_up()


@dataclass(frozen=True)
class MemoryTransport:
    """How to reach a server in this process. Messages are copied through JSON, as on a real wire."""

    serve: Callable[[ServerEnd], object]
    """Plays the server of one connection, on a thread of its own; when it returns, the server is dead."""
    label: str = "a server in memory"
    era_key: str | None = None
    fallback_era: FallbackEra = "legacy"

    def connect(
        self, receiver: Receiver, *, deadline: Deadline, signal: AbortSignal | None
    ) -> _MemoryConnection:
        """Begin to serve."""
        connection = _MemoryConnection(receiver, self.label)

        def run() -> None:
            try:
                self.serve(connection.end)
            finally:
                connection.lose(f"{self.label} ended")

        threading.Thread(target=run, name="yiemagent-memory-server", daemon=True).start()
        return connection


def serve_in_memory(target: Servable, label: str = "a server in memory") -> MemoryTransport:
    """Tools (or an ``McpServer``) behind a transport: a real server without a wire.

    Args:
        target: As of ``serve_stdio``.
        label: What messages call it.
    """
    server = as_server(target)

    def serve(end: ServerEnd) -> None:
        session = ServerSession(push=end.send)
        for message in end:
            server.handle(session, message, end.send, _in_thread)

    return MemoryTransport(serve, label)


def _in_thread(work: Callable[[], None]) -> bool:
    threading.Thread(target=work, name="yiemagent-memory-call", daemon=True).start()
    return True


Handler = Callable[[Message, ServerEnd], Mapping[str, Any] | None]


@dataclass
class ScriptedMcpServer:
    """A server that says what it is told to, in both protocol eras.

    Example::

        server = ScriptedMcpServer(on={"tools/call": lambda request, end: {"content": []}})
        client = McpClient(server.transport())
    """

    versions: Sequence[str] = VERSIONS
    """What it speaks."""
    tools: Sequence[Mapping[str, Any]] = ({"name": "echo", "inputSchema": {"type": "object"}},)
    capabilities: Mapping[str, Any] = field(default_factory=lambda: {"tools": {"listChanged": True}})
    on: Mapping[str, Handler] = field(default_factory=dict)
    """Answers by method, each on a thread of its own: a result, or None when it answers by itself."""
    received: list[Message] = field(default_factory=list)
    """Everything that clients sent, in order."""
    ends: list[ServerEnd] = field(default_factory=list)
    """The connections, in order."""
    news: threading.Condition = field(default_factory=lambda: threading.Condition())
    """Told with each message received and each connection."""

    def transport(self, **options: Any) -> MemoryTransport:
        """How to reach it; *options* are fields of ``MemoryTransport``."""
        return MemoryTransport(self.serve, **options)

    def serve(self, end: ServerEnd) -> None:
        """Play the server of one connection."""
        with self.news:
            self.ends.append(end)
            self.news.notify_all()
        for message in end:
            with self.news:
                self.received.append(message)
                self.news.notify_all()
            if kind_of(message) == "request":
                self._answer(message, end)

    def _answer(self, request: Message, end: ServerEnd) -> None:
        method = request["method"]
        handler = self.on.get(method)
        if handler is not None:

            def work() -> None:
                result = handler(request, end)
                if result is not None:
                    end.reply(request, result)

            _in_thread(work)
            return
        version = (request.get("params") or {}).get("_meta", {}).get(VERSION_META)
        if version is not None and version not in self.versions:
            known = [v for v in self.versions if v in MODERN_VERSIONS]
            if known:
                data = {"supported": list(self.versions), "requested": version}
                end.refuse(request, UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)
                return
        result = self._result(request, version)
        if result is None:
            end.refuse(request, METHOD_NOT_FOUND, f"Method not found: {method}")
        else:
            end.reply(request, result)

    def _result(self, request: Message, version: str | None) -> Mapping[str, Any] | None:
        method, params = request["method"], request.get("params") or {}
        info = {"name": "scripted", "version": "1"}
        modern = any(v in MODERN_VERSIONS for v in self.versions)
        if method == "server/discover" and modern:
            return {
                "resultType": "complete",
                "supportedVersions": list(self.versions),
                "capabilities": self.capabilities,
                "_meta": {SERVER_INFO_META: info},
            }
        if method == "initialize" and any(v not in MODERN_VERSIONS for v in self.versions):
            wanted = params.get("protocolVersion")
            legacy = [v for v in self.versions if v not in MODERN_VERSIONS]
            return {
                "protocolVersion": wanted if wanted in legacy else legacy[-1],
                "capabilities": self.capabilities,
                "serverInfo": info,
            }
        if method == "tools/list":
            return {"tools": list(self.tools)}
        if method == "tools/call":
            return {"content": [{"type": "text", "text": str(params.get("arguments"))}]}
        if method in ("ping", "logging/setLevel"):
            return {}
        return None

    def wait_for(self, method: str, count: int = 1) -> Message:
        """The *count*-th message with this method, waited for.

        Raises:
            AssertionError: It did not come.
        """

        def found() -> list[Message]:
            return [message for message in self.received if message.get("method") == method]

        with self.news:
            if not self.news.wait_for(lambda: len(found()) >= count, WAIT):
                raise AssertionError(f"{count} times {method} did not come; got {self.received!r}")
            return found()[count - 1]

    def wait_for_answer(self, request_id: Any) -> Message:
        """The client's response to our request *request_id*, waited for."""

        def found() -> list[Message]:
            key = id_key(request_id)
            return [m for m in self.received if kind_of(m) == "response" and id_key(m.get("id")) == key]

        with self.news:
            if not self.news.wait_for(lambda: bool(found()), WAIT):
                raise AssertionError(f"request {request_id!r} was not answered; got {self.received!r}")
            return found()[0]

    def methods(self) -> list[str]:
        """The methods of everything received, in order."""
        return [str(message.get("method")) for message in self.received]

    def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification over the newest connection."""
        self.ends[-1].send(make_notification(method, params))

    def ask(self, request_id: Any, method: str, params: Mapping[str, Any] | None = None) -> Message:
        """Send a request over the newest connection and wait for the client's response."""
        self.ends[-1].send(make_request(request_id, method, params))
        return self.wait_for_answer(request_id)
