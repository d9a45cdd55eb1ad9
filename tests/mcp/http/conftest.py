"""Loopback MCP servers that say what a test tells them to, and connections to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError
from yiemagent.mcp import http_keeper
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.http import HttpTransport
from yiemagent.mcp.jsonrpc import Message, make_request
from yiemagent.mcp.transport import Connection
from yiemagent.testing import WAIT
from yiemagent.testing.loopback import Handler, LoopbackServer


class Ear:
    """A receiver that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.losses: list[McpConnectionError] = []
        self._news = threading.Condition()

    def receive(self, connection: Connection, message: Message) -> None:
        with self._news:
            self.messages.append(message)
            self._news.notify_all()

    def lost(self, connection: Connection, error: McpConnectionError) -> None:
        with self._news:
            self.losses.append(error)
            self._news.notify_all()

    def wait_for_message(self) -> Message:
        with self._news:
            assert self._news.wait_for(lambda: self.messages, WAIT), "no message came"
            return self.messages[-1]

    def wait_for_loss(self) -> McpConnectionError:
        with self._news:
            assert self._news.wait_for(lambda: self.losses, WAIT), "nothing was lost"
            return self.losses[-1]


class Wire:
    """A connection under test and what it told its receiver."""

    def __init__(self, server: LoopbackServer, options: Mapping[str, Any]) -> None:
        self.server = server
        self.ear = Ear()
        self.notes: list[Message] = []
        self._ids = iter(range(1, 1000))
        path = options.get("path", "/mcp")
        rest = {name: value for name, value in options.items() if name != "path"}
        self.transport = HttpTransport(server.url + path, **rest)
        self.connection = self.transport.connect(self.ear, deadline=Deadline(WAIT), signal=None)

    def ask(
        self,
        method: str = "tools/list",
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = WAIT,
        deadline: Deadline | None = None,
        signal: AbortSignal | None = None,
        headers: Mapping[str, str] | None = None,
        on_message: Callable[[Message], None] | None = None,
    ) -> Message:
        return self.connection.exchange(
            make_request(next(self._ids), method, params),
            headers=headers or {},
            deadline=deadline or Deadline(timeout),
            signal=signal,
            on_message=on_message or self.notes.append,
        )

    def initialize(self, version: str = "2025-11-25") -> Message:
        answer = self.ask("initialize", {"protocolVersion": version})
        self.connection.established(version)
        return answer

    def close(self) -> None:
        self.connection.close(WAIT)


@pytest.fixture
def serve() -> Iterator[Callable[[Handler], LoopbackServer]]:
    """Start a server for a handler; closed after the test, when the wires are."""
    servers: list[LoopbackServer] = []

    def start(handler: Handler) -> LoopbackServer:
        servers.append(LoopbackServer(handler))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def wire(serve: Callable[[Handler], LoopbackServer]) -> Iterator[Callable[..., Wire]]:
    """Start a server for a handler and connect to it; closed after the test."""
    wires: list[Wire] = []

    def start(handler: Handler | LoopbackServer, **options: Any) -> Wire:
        server = handler if isinstance(handler, LoopbackServer) else serve(handler)
        wires.append(Wire(server, options))
        return wires[-1]

    yield start
    for one in wires:
        one.close()


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, bundle or netrc of the machine reaches a test."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_idle_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that keeps deadlines ends with its last exchange: a test waits for all its threads."""
    monkeypatch.setattr(http_keeper, "_IDLE", 0.05)
