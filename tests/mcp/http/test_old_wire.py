"""Servers of protocol 2024-11-05: a stream down, a POST for each message up."""

from __future__ import annotations

import gc
import os
import queue
import threading
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpTimeout, RunAborted
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.jsonrpc import make_notification
from yiemagent.mcp.transport import RequestRefused
from yiemagent.testing import WAIT, run_in_thread
from yiemagent.testing.loopback import ServedRequest
from yiemagent.testing.loopback_mcp import result_for, sse_event


class OldServer:
    """Speaks the old wire at /sse and /messages; what is put into ``down`` goes down the stream.

    Attributes:
        endpoint: What the stream begins with.
        answer: Makes the response to a request; None leaves it unanswered.
    """

    def __init__(self) -> None:
        self.down: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.endpoint = sse_event("/messages?session=7", event="endpoint")
        self.answer: Any = lambda request: result_for(request, {"method": request.json["method"]})
        self.posted: list[Any] = []

    def __call__(self, request: ServedRequest) -> None:
        if request.method == "GET" and request.path == "/sse":
            request.start()
            request.chunk(self.endpoint)
            while (piece := self.down.get()) is not None:
                request.chunk(piece)
            request.chunk(b"")
            request.hang_up()
        elif request.path == "/messages?session=7":
            self.posted.append(request.json)
            request.reply(b"Accepted", 202)
            if "id" in request.json and (response := self.answer(request)) is not None:
                self.down.put(sse_event(response))
        else:
            request.reply({"detail": "Method Not Allowed"}, 405)


@pytest.fixture
def old() -> Any:
    server = OldServer()
    yield server
    server.down.put(None)


def test_a_server_that_refuses_the_post_is_tried_on_the_old_wire(wire: Any, old: OldServer) -> None:
    """Protocol 2026-07-28, Backward Compatibility: 400, 404 or 405, then a GET with an endpoint event."""
    client = wire(old, path="/sse")

    assert client.initialize("2024-11-05")["result"] == {"method": "initialize"}
    assert client.ask("tools/list")["result"] == {"method": "tools/list"}
    assert [m["method"] for m in old.posted] == ["initialize", "tools/list"]


def test_the_probe_of_the_newer_era_stays_a_refusal(wire: Any, old: OldServer) -> None:
    """Only ``initialize`` can open the old wire: ``server/discover`` means nothing to it."""
    client = wire(old, path="/sse")

    with pytest.raises(RequestRefused) as caught:
        client.ask("server/discover")
    assert caught.value.status == 405
    assert [r.method for r in client.server.requests] == ["POST"]


def test_the_old_wire_can_be_asked_for(wire: Any, old: OldServer) -> None:
    """``wire="sse"`` saves the attempts that such a server refuses."""
    client = wire(old, path="/sse", wire="sse")

    client.ask("initialize")

    assert [r.method for r in client.server.requests] == ["GET", "POST"]


def test_the_old_wire_can_be_ruled_out(wire: Any, old: OldServer) -> None:
    """``wire="streamable"`` takes the refusal as it is."""
    client = wire(old, path="/sse", wire="streamable")

    with pytest.raises(RequestRefused):
        client.ask("initialize")
    assert [r.method for r in client.server.requests] == ["POST"]


def test_a_server_of_neither_wire_says_both_reasons(wire: Any) -> None:
    """Field problem 19: the error says what was tried."""
    client = wire(lambda request: request.reply(b"nothing here", 404))

    with pytest.raises(RequestRefused, match=r"404: nothing here; nor does it speak HTTP\+SSE: .*404"):
        client.ask("initialize")


def test_what_the_server_says_of_itself_comes_from_the_connection_that_is_known(
    wire: Any, old: OldServer
) -> None:
    """The receiver is told of the connection it was given to."""
    client = wire(old, path="/sse")
    client.initialize("2024-11-05")

    old.down.put(sse_event({"jsonrpc": "2.0", "id": 9, "method": "ping"}))

    assert client.ear.wait_for_message()["method"] == "ping"


def test_notifications_are_posted_before_send_returns(wire: Any, old: OldServer) -> None:
    """``notifications/initialized`` must not come after the first request."""
    client = wire(old, path="/sse")
    client.initialize("2024-11-05")

    client.connection.send(
        make_notification("notifications/initialized"), headers={}, deadline=Deadline(WAIT)
    )

    assert old.posted[-1]["method"] == "notifications/initialized"


def test_messages_do_not_go_to_another_server(wire: Any, old: OldServer) -> None:
    """A stream must not send our messages and headers elsewhere."""
    old.endpoint = sse_event("http://elsewhere.example/messages", event="endpoint")
    client = wire(old, path="/sse", wire="sse")

    with pytest.raises(McpConnectionError, match="another server"):
        client.ask("initialize")


def test_a_stream_without_an_endpoint_is_not_this_wire(wire: Any, old: OldServer) -> None:
    """Any event stream could be behind the URL."""
    old.endpoint = sse_event({"hello": 1})
    client = wire(old, path="/sse", wire="sse")

    with pytest.raises(Exception, match="instead of an endpoint event"):
        client.ask("initialize")


def test_the_end_of_the_stream_is_the_end_of_the_connection(wire: Any, old: OldServer) -> None:
    """Field problem 20: calls fail at once, and the client is told."""
    client = wire(old, path="/sse")
    client.initialize("2024-11-05")
    old.answer = lambda request: None
    call = run_in_thread(client.ask, "tools/call")
    client.server.wait_for_requests(4)

    old.down.put(None)

    with pytest.raises(McpConnectionError, match="ended its stream"):
        call.get()
    assert "ended its stream" in str(client.ear.wait_for_loss())
    assert not client.connection.alive


def test_a_message_that_is_not_taken_fails_its_call(wire: Any, old: OldServer) -> None:
    """A refused POST is no reason to wait for the deadline."""
    client = wire(old, path="/sse")
    client.initialize("2024-11-05")
    serve = client.server.handler
    client.server.handler = lambda r: r.reply(b"full", 503) if r.method == "POST" else serve(r)

    with pytest.raises(McpConnectionError, match="503: full"):
        client.ask("tools/call")


def test_deadline_and_abort_end_a_call(wire: Any, old: OldServer) -> None:
    """E-08, on this wire too; both are told as cancellations."""
    client = wire(old, path="/sse")
    client.initialize("2024-11-05")
    old.answer = lambda request: None

    with pytest.raises(McpTimeout):
        client.ask("tools/call", timeout=0.1)
    signal = AbortSignal()
    call = run_in_thread(client.ask, "tools/call", signal=signal)
    client.server.wait_for_requests(6)
    signal.abort()
    with pytest.raises(RunAborted):
        call.get()


def test_the_deadline_counts_until_the_endpoint_comes(wire: Any, old: OldServer) -> None:
    """A stream that says nothing must not hold the first call."""
    old.endpoint = ": nothing yet\n\n"
    client = wire(old, path="/sse", wire="sse")

    with pytest.raises(McpTimeout):
        client.ask("initialize", timeout=0.2)


def test_closing_ends_the_reader(wire: Any, old: OldServer) -> None:
    """No thread is left after close."""
    client = wire(old, path="/sse")
    client.initialize("2024-11-05")

    client.close()

    names = {thread.name for thread in threading.enumerate()}
    assert "yiemagent-mcp-sse" not in names


@pytest.mark.servers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_that_drops_the_connection_leaves_the_stream_to_its_parent(
    wire: Any, old: OldServer
) -> None:
    """Field problem 49: the socket is shared, and the signal has a lock of the parent's."""
    client = wire(old, path="/sse")
    client.initialize("2024-11-05")
    pid = os.fork()
    if pid == 0:
        try:
            client.connection._wire = None
            del client
            gc.collect()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)

    assert client.ask("tools/list")["result"] == {"method": "tools/list"}
    assert not client.ear.losses
