"""Sessions that a server forgets, refusals without a message, and servers in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from yiemagent.errors import McpConnectionError
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.jsonrpc import Message, make_result
from yiemagent.mcp.transport import RequestRefused, SessionLost
from yiemagent.testing.memory_mcp import serve_in_memory


@dataclass
class FakeConnection:
    """A connection whose answers are scripted."""

    answer: Callable[[Message], Any]
    alive: bool = True
    sent: list[Message] = field(default_factory=list)
    closed: int = 0

    def exchange(self, request: Message, **limits: Any) -> Message:
        self.sent.append(request)
        result = self.answer(request)
        if isinstance(result, Exception):
            raise result
        return make_result(request["id"], result)

    def send(self, message: Message, **limits: Any) -> None:
        self.sent.append(message)

    def established(self, version: str) -> None:
        pass

    def close(self, timeout: float) -> None:
        self.closed += 1
        self.alive = False

    def abandon(self) -> None:
        pass


@dataclass
class FakeTransport:
    """Makes such connections, one after the other."""

    answers: list[Callable[[Message], Any]]
    made: list[FakeConnection] = field(default_factory=list)
    label: str = "fake"
    era_key: str | None = None
    fallback_era: Any = "legacy"

    def connect(self, receiver: Any, **limits: Any) -> Any:
        self.made.append(FakeConnection(self.answers[min(len(self.made), len(self.answers) - 1)]))
        return self.made[-1]


def _serving(call: Callable[[Message], Any]) -> Callable[[Message], Any]:
    def answer(request: Message) -> Any:
        if request["method"] == "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {}}
        return call(request)

    return answer


def _methods(connection: FakeConnection) -> list[str]:
    return [message["method"] for message in connection.sent]


def test_a_forgotten_session_is_made_anew_once_and_the_call_repeated() -> None:
    """Field problems 17, 18; E-23: 404, and the 400 of server-everything."""
    transport = FakeTransport(
        [
            _serving(lambda request: SessionLost("HTTP 404: session not found", status=404)),
            _serving(lambda request: {"content": [{"type": "text", "text": "ok"}]}),
        ]
    )
    with McpClient(transport, era="legacy") as client:
        assert client.call_tool("echo").text == "ok"
    assert [_methods(connection) for connection in transport.made] == [
        ["initialize", "notifications/initialized", "tools/call"],
        ["initialize", "notifications/initialized", "tools/call"],
    ]


def test_a_session_that_is_forgotten_again_is_an_error() -> None:
    """Once, then error."""
    transport = FakeTransport([_serving(lambda request: SessionLost("HTTP 404", status=404))])
    with McpClient(transport, era="legacy") as client:
        with pytest.raises(SessionLost):
            client.call_tool("echo")
    assert len(transport.made) == 2


def test_a_refusal_of_the_probe_means_an_older_server() -> None:
    """Protocol, HTTP: a 4xx without a modern error leads to initialize."""

    def answer(request: Message) -> Any:
        if request["method"] == "server/discover":
            return RequestRefused("HTTP 405: Method Not Allowed", status=405)
        return {"protocolVersion": "2025-06-18", "capabilities": {}}

    transport = FakeTransport([answer])
    with McpClient(transport) as client:
        assert client.connect().protocol_version == "2025-06-18"
    assert len(transport.made) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_missing_authorization_says_nothing_about_the_era(status: int) -> None:
    """The same refusal would come again; the user must log in."""
    transport = FakeTransport([lambda request: RequestRefused(f"HTTP {status}", status=status)])
    with McpClient(transport) as client:
        with pytest.raises(RequestRefused, match=str(status)):
            client.connect()
    assert _methods(transport.made[0]) == ["server/discover"]


def test_a_refused_call_is_not_repeated() -> None:
    """tools/call is never sent twice."""
    transport = FakeTransport([_serving(lambda request: RequestRefused("HTTP 502: bad gateway", status=502))])
    with McpClient(transport, era="legacy") as client:
        with pytest.raises(RequestRefused, match="502"):
            client.call_tool("echo")
    assert _methods(transport.made[0]).count("tools/call") == 1


def test_a_broken_connection_that_can_go_on_is_kept() -> None:
    """HTTP: each request is a connection of its own."""
    answers = iter([McpConnectionError("connection reset"), {"content": []}])
    transport = FakeTransport([_serving(lambda request: next(answers))])
    with McpClient(transport, era="legacy") as client:
        with pytest.raises(McpConnectionError, match="reset"):
            client.call_tool("echo")
        client.call_tool("echo")
    assert len(transport.made) == 1


def test_tools_are_served_in_memory_in_every_era() -> None:
    """yiemagent.testing: a real server without a wire."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    for era in ("2026-07-28", "2025-11-25", "2024-11-05"):
        with McpClient(serve_in_memory([add]), era=era) as client:
            assert [tool.name for tool in client.list_tools()] == ["add"]
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
