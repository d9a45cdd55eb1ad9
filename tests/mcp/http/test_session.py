"""Sessions of protocol 2025-03-26 to 2025-11-25: their id, their loss, their streams, their end."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import pytest

from yiemagent.errors import McpConnectionError, McpTimeout
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.jsonrpc import make_notification
from yiemagent.mcp.transport import RequestRefused, SessionLost
from yiemagent.testing import WAIT, run_in_thread
from yiemagent.testing.loopback import ServedRequest
from yiemagent.testing.loopback_mcp import SessionServer, result_for, sse_event

NO_SESSION = {
    "jsonrpc": "2.0",
    "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"},
    "id": None,
}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def posts(client: Any) -> list[ServedRequest]:
    return [request for request in client.server.requests if request.method == "POST"]


def methods(client: Any) -> list[str]:
    return [request.method for request in client.server.requests]


def stay(request: ServedRequest) -> None:
    """Hold a stream open that has begun."""
    request.closing.wait(WAIT)
    request.hang_up()


def keep_open(request: ServedRequest) -> None:
    """A GET stream that says nothing and stays."""
    request.start()
    request.chunk(": here\n\n")
    stay(request)


def test_the_session_id_and_the_version_are_on_every_request_after_initialize(wire: Any) -> None:
    """Protocol 2025-11-25 "Session Management" and "Protocol Version Header"."""
    client = wire(SessionServer("abc"))

    client.initialize()
    client.ask()
    client.connection.send(make_notification("notifications/x"), headers={}, deadline=Deadline(WAIT))

    first, *rest = posts(client)
    assert "mcp-session-id" not in first.headers
    assert "mcp-protocol-version" not in first.headers
    assert [(r.headers["mcp-session-id"], r.headers["mcp-protocol-version"]) for r in rest] == [
        ("abc", "2025-11-25")
    ] * 2


def test_versions_without_the_header_do_not_get_it(wire: Any) -> None:
    """``MCP-Protocol-Version`` came with 2025-06-18."""
    client = wire(SessionServer())

    client.initialize("2025-03-26")
    client.ask()

    assert "mcp-protocol-version" not in posts(client)[-1].headers


def test_closing_deletes_the_session_once(wire: Any) -> None:
    """Protocol 2025-11-25: a client that is done sends DELETE with the id."""
    client = wire(SessionServer("abc"))
    client.initialize()

    client.close()
    client.close()

    deleted = [r for r in client.server.requests if r.method == "DELETE"]
    assert [r.headers["mcp-session-id"] for r in deleted] == ["abc"]


@pytest.mark.parametrize("status", [404, 405, 500])
def test_a_server_that_will_not_delete_a_session_does_not_matter(wire: Any, status: int) -> None:
    """405 is allowed, and close never raises for what a server does."""
    server = SessionServer()
    server.on_delete = lambda request: request.reply(b"", status)
    client = wire(server)
    client.initialize()

    client.close()

    assert "DELETE" in methods(client)


def test_a_server_without_sessions_gets_no_delete(wire: Any) -> None:
    """There is nothing to end."""
    client = wire(SessionServer(None))
    client.initialize()

    client.close()

    assert "DELETE" not in methods(client)


def test_stateless_there_is_no_get_and_no_delete(wire: Any) -> None:
    """Protocol 2026-07-28 has removed both."""
    client = wire(SessionServer())
    client.connection.established("2026-07-28")
    client.ask("tools/call")

    client.close()

    assert methods(client) == ["POST"]


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, "Session not found"), (404, ""), (400, NO_SESSION)],
    ids=["text", "empty", "400"],
)
def test_a_lost_session_is_its_own_error(wire: Any, status: int, body: Any) -> None:
    """Field problems 17 and 18: 404, and the 400 that server-everything sends; nothing was carried out."""
    server = SessionServer()
    client = wire(server)
    client.initialize()
    server.on_call = lambda request: request.reply(body, status)

    with pytest.raises(SessionLost) as caught:
        client.ask("tools/call")

    assert caught.value.status == status
    assert not client.connection.alive


def test_after_the_loss_nothing_is_sent_on_the_lost_session(wire: Any) -> None:
    """A call that comes too late is as safe to repeat as the one that found out."""
    server = SessionServer()
    client = wire(server)
    client.initialize()
    server.on_call = lambda request: request.reply(b"", 404)
    with pytest.raises(SessionLost):
        client.ask()
    before = len(posts(client))

    with pytest.raises(SessionLost):
        client.ask()
    client.close()

    assert len(posts(client)) == before
    assert "DELETE" not in methods(client)


def test_other_calls_of_a_lost_session_are_not_torn_down(wire: Any) -> None:
    """What a server already works on may still be answered."""
    server = SessionServer()
    working, go_on = threading.Event(), threading.Event()

    def on_call(request: ServedRequest) -> None:
        if request.json["params"]["name"] == "slow":
            working.set()
            assert go_on.wait(WAIT)
            request.reply(result_for(request, {"done": True}))
        else:
            request.reply(b"", 404)

    server.on_call = on_call
    client = wire(server)
    client.initialize()
    slow = run_in_thread(client.ask, "tools/call", {"name": "slow"})
    assert working.wait(WAIT)

    with pytest.raises(SessionLost):
        client.ask("tools/call", {"name": "fast"})
    go_on.set()

    assert slow.get()["result"] == {"done": True}


def test_a_404_without_a_session_is_a_refusal(wire: Any) -> None:
    """A wrong path is no lost session."""
    client = wire(lambda request: request.reply(b"", 404))

    with pytest.raises(RequestRefused) as caught:
        client.ask()
    assert not isinstance(caught.value, SessionLost)


# --- the GET stream


def test_the_get_stream_brings_requests_and_notifications(wire: Any) -> None:
    """Quirk 8: elicitation may come on the standalone stream while a POST waits."""
    server = SessionServer("abc")

    def on_get(request: ServedRequest) -> None:
        request.start()
        request.chunk(sse_event(CHANGED))
        stay(request)

    server.on_get = on_get
    client = wire(server)

    client.initialize()

    assert client.ear.wait_for_message() == CHANGED
    get = next(r for r in client.server.requests if r.method == "GET")
    assert get.headers["accept"] == "text/event-stream"
    assert get.headers["mcp-session-id"] == "abc"
    assert "last-event-id" not in get.headers


@pytest.mark.servers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_that_drops_the_connection_leaves_the_get_stream_to_its_parent(wire: Any) -> None:
    """Field problem 49: the socket is shared, and the signal has a lock of the parent's."""
    server, later = SessionServer("abc"), threading.Event()

    def on_get(request: ServedRequest) -> None:
        request.start()
        request.chunk(sse_event(CHANGED))
        later.wait(WAIT)
        request.chunk(sse_event({**CHANGED, "params": {"after": "the fork"}}))
        stay(request)

    server.on_get = on_get
    client = wire(server)
    client.initialize()
    client.ear.wait_for_message()
    pid = os.fork()
    if pid == 0:
        try:
            client.connection._wire = None
            gc.collect()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    client.ear.messages.clear()
    later.set()

    assert client.ear.wait_for_message()["params"] == {"after": "the fork"}
    assert methods(client).count("GET") == 1


def test_a_server_that_offers_no_get_stream_is_asked_once(wire: Any) -> None:
    """405 means: not offered."""
    client = wire(SessionServer())
    client.initialize()
    client.ask("tools/call")
    client.close()

    assert methods(client).count("GET") == 1


def test_a_get_stream_that_ends_is_taken_up_where_it_was(wire: Any) -> None:
    """Protocol 2025-11-25: after ``retry`` milliseconds, with ``Last-Event-ID``."""
    server = SessionServer()

    def on_get(request: ServedRequest) -> None:
        if "last-event-id" in request.headers:
            request.start()
            request.chunk(sse_event({**CHANGED, "params": {"after": request.headers["last-event-id"]}}))
            stay(request)
        else:
            request.stream([sse_event("", id="e-7", retry=1)])

    server.on_get = on_get
    client = wire(server)

    client.initialize()

    assert client.ear.wait_for_message()["params"] == {"after": "e-7"}


def test_a_call_waits_until_the_stream_stands_on_which_it_may_be_asked(wire: Any) -> None:
    """An elicitation on a stream that is not there yet would be lost, and the call hang."""
    server = SessionServer()
    order: list[str] = []

    def on_get(request: ServedRequest) -> None:
        request.closing.wait(0.1)  # longer than it takes to send the call
        order.append("GET")
        keep_open(request)

    def on_call(request: ServedRequest) -> None:
        order.append("call")
        request.reply(result_for(request))

    server.on_get, server.on_call = on_get, on_call
    client = wire(server)
    client.initialize()

    client.ask("tools/call")

    assert order == ["GET", "call"]


def test_a_response_on_the_get_stream_is_the_answer(wire: Any) -> None:
    """Not by the book, but a server that does it has answered."""
    server = SessionServer()
    asked: list[ServedRequest] = []
    arrived = threading.Event()

    def on_get(request: ServedRequest) -> None:
        request.start()
        request.chunk(": here\n\n")
        assert arrived.wait(WAIT)
        request.chunk(sse_event(result_for(asked[0], {"late": True})))
        stay(request)

    def on_call(request: ServedRequest) -> None:
        asked.append(request)
        arrived.set()
        request.closing.wait(WAIT)
        request.hang_up()

    server.on_get, server.on_call = on_get, on_call
    client = wire(server)
    client.initialize()

    assert client.ask("tools/call")["result"] == {"late": True}
    client.close()
    assert [r.json["method"] for r in posts(client)] == ["initialize", "tools/call"]


def test_closing_ends_the_thread_that_reads_the_get_stream(wire: Any) -> None:
    """Field problem 6: no thread and no CPU after close."""
    server = SessionServer()
    server.on_get = keep_open
    client = wire(server)
    client.initialize()
    client.ask("tools/call")
    assert len(_listeners()) == 1

    client.close()

    assert _listeners() == []


def test_a_connection_that_nobody_holds_stops_listening(wire: Any) -> None:
    """Garbage collection is enough: the thread holds its connection weakly."""
    server = SessionServer()
    server.on_get = keep_open
    client = wire(server)
    client.initialize()
    client.ask("tools/call")
    (thread,) = _listeners()

    del client.connection
    gc.collect()

    thread.join(WAIT)
    assert not thread.is_alive()
    client.close = lambda: None


def _listeners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "yiemagent-mcp-listen"]


# --- resuming the stream of a request


def test_the_stream_of_a_request_is_taken_up_by_get(wire: Any) -> None:
    """Protocol 2025-11-25, SEP-1699: a server may end the connection and be polled for the rest."""
    server = SessionServer("abc")
    asked: list[ServedRequest] = []

    def on_call(request: ServedRequest) -> None:
        asked.append(request)
        request.stream([sse_event("", id="e-1", retry=1)])

    def on_get(request: ServedRequest) -> None:
        if request.headers.get("last-event-id") == "e-1":
            request.stream([sse_event(CHANGED, id="e-2"), sse_event(result_for(asked[0], {"ok": 1}))])
        else:
            request.reply(b"", 405)

    server.on_call, server.on_get = on_call, on_get
    client = wire(server)
    client.initialize()

    assert client.ask("tools/call")["result"] == {"ok": 1}

    assert client.notes == [CHANGED]
    assert [r.json["method"] for r in posts(client)] == ["initialize", "tools/call"]
    resumed = client.server.requests[-1]
    assert (resumed.method, resumed.headers["mcp-session-id"]) == ("GET", "abc")


def test_a_stream_that_breaks_after_an_event_id_is_taken_up_too(wire: Any) -> None:
    """E-10: a network failure costs a resumable stream nothing."""
    server = SessionServer()
    asked: list[ServedRequest] = []

    def on_call(request: ServedRequest) -> None:
        asked.append(request)
        request.start()
        request.chunk(sse_event(CHANGED, id="e-1", retry=1))
        request.reset()

    def on_get(request: ServedRequest) -> None:
        if "last-event-id" in request.headers:
            request.stream([sse_event(result_for(asked[0]))])
        else:
            request.reply(b"", 405)

    server.on_call, server.on_get = on_call, on_get
    client = wire(server)
    client.initialize()

    assert client.ask("tools/call")["id"] == 2


def test_a_server_that_refuses_to_resume_leaves_the_outcome_open(wire: Any) -> None:
    """The call may have been carried out: it is neither repeated nor called refused."""
    server = SessionServer()
    server.on_call = lambda request: request.stream([sse_event("", id="e-1", retry=1)])
    client = wire(server)
    client.initialize()

    with pytest.raises(McpConnectionError, match=r"405.*not known whether") as caught:
        client.ask("tools/call")
    assert not isinstance(caught.value, RequestRefused)


def test_resuming_ends_when_nothing_new_comes(wire: Any) -> None:
    """A server that only ever repeats its last id does not hold a call for ever."""
    server = SessionServer()
    server.on_call = lambda request: request.stream([sse_event("", id="e-1", retry=1)])

    def on_get(request: ServedRequest) -> None:
        if "last-event-id" in request.headers:
            request.stream([sse_event("", id="e-1")])
        else:
            request.reply(b"", 405)

    server.on_get = on_get
    client = wire(server)
    client.initialize()

    with pytest.raises(McpConnectionError, match="without a response"):
        client.ask("tools/call")


def test_the_deadline_counts_while_waiting_to_resume(wire: Any) -> None:
    """``retry`` is the server's wish, the deadline the caller's."""
    server = SessionServer()
    server.on_call = lambda request: request.stream([sse_event("", id="e-1", retry=60_000)])
    client = wire(server)
    client.initialize()

    with pytest.raises(McpTimeout):
        client.ask("tools/call", timeout=0.2)


def test_stateless_streams_are_not_resumed(wire: Any) -> None:
    """Protocol 2026-07-28: resumption is gone; event ids mean nothing."""
    server = SessionServer()
    server.on_call = lambda request: request.stream([sse_event("", id="e-1", retry=1)])
    client = wire(server)
    client.connection.established("2026-07-28")

    with pytest.raises(McpConnectionError, match="without a response"):
        client.ask("tools/call")
    assert methods(client) == ["POST"]


def test_a_get_stream_that_brings_nothing_is_not_asked_for_all_the_time(wire: Any) -> None:
    """A server that closes at once and wishes ``retry: 0`` would else be asked without end."""
    server = SessionServer()
    server.on_get = lambda request: request.stream(["retry: 0\n\n"])
    client = wire(server)
    client.initialize()
    for _ in range(20):
        client.ask()

    assert methods(client).count("GET") <= 2
