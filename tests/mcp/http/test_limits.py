"""Deadline, abort and close end an exchange in every phase, and the server is told as the era does it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpTimeout, RunAborted
from yiemagent.mcp.deadline import Deadline
from yiemagent.testing import WAIT, run_in_thread
from yiemagent.testing.loopback import ServedRequest
from yiemagent.testing.loopback_mcp import SessionServer, result_for, sse_event

PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
MODERN = "2026-07-28"


def silent(request: ServedRequest) -> None:
    """Never an answer."""
    request.closing.wait(WAIT)
    request.hang_up()


def mute_stream(request: ServedRequest) -> None:
    """A stream that says one thing and then nothing."""
    request.start()
    request.chunk(sse_event(PROGRESS))
    silent(request)


def chatty(request: ServedRequest) -> None:
    """A stream of comments: bytes without end, but no message (trap a of a per-read timeout)."""
    request.start()
    while not request.closing.wait(0.02):
        request.chunk(": still here\n\n")
    request.hang_up()


@pytest.mark.parametrize("handler", [silent, mute_stream, chatty])
def test_the_deadline_ends_the_wait_whatever_the_server_does(wire: Any, handler: Any) -> None:
    """E-08, field problems 21 and 27: one deadline, not one for each read."""
    client = wire(handler)

    with pytest.raises(McpTimeout, match=r"did not answer tools/call within 0\.2 s"):
        client.ask("tools/call", timeout=0.2)
    assert client.connection.alive


def test_a_deadline_that_has_passed_sends_nothing(wire: Any) -> None:
    """``timeout=0`` means: do not wait."""
    client = wire(silent)

    with pytest.raises(McpTimeout):
        client.ask(timeout=0)
    assert client.server.requests == []


def test_a_deadline_that_is_pushed_back_lets_the_call_go_on(wire: Any) -> None:
    """Field problem 29: progress may give a call its time anew, also in the middle of its stream."""
    passed = threading.Event()

    def handler(request: ServedRequest) -> None:
        request.start()
        request.chunk(sse_event(PROGRESS))
        assert passed.wait(WAIT)
        request.chunk(sse_event(result_for(request)))
        request.chunk(b"")

    client = wire(handler)
    deadline = Deadline(0.6)

    def note(message: Any) -> None:
        first = deadline.at
        deadline.extend(WAIT)
        assert first is not None
        passed.wait(0.65)  # past the first moment
        passed.set()

    assert client.ask(deadline=deadline, on_message=note)["id"] == 1


@pytest.mark.parametrize("handler", [silent, mute_stream])
def test_an_abort_ends_the_wait_and_the_connection(wire: Any, handler: Any) -> None:
    """E-08: before the headers and in the stream; stateless, the closed stream is the cancellation."""
    client = wire(handler)
    client.connection.established(MODERN)
    signal = AbortSignal()
    call = run_in_thread(client.ask, "tools/call", signal=signal)
    client.server.wait_for_requests(1)

    signal.abort("enough")

    with pytest.raises(RunAborted) as caught:
        call.get()
    assert caught.value.reason == "enough"
    client.close()
    assert len(client.server.requests) == 1


def test_an_aborted_signal_sends_nothing(wire: Any) -> None:
    """Nothing is begun after an abort (decision 10)."""
    client = wire(silent)
    signal = AbortSignal()
    signal.abort()

    with pytest.raises(RunAborted):
        client.ask(signal=signal)
    assert client.server.requests == []


def test_closing_ends_calls_in_flight(wire: Any) -> None:
    """Field problems 2 to 6: close from any thread, while another one waits."""
    client = wire(silent)
    call = run_in_thread(client.ask)
    client.server.wait_for_requests(1)

    client.close()

    with pytest.raises(McpConnectionError, match="was closed"):
        call.get()
    with pytest.raises(McpConnectionError, match="was closed"):
        client.ask()


def test_a_session_is_told_what_is_cancelled(wire: Any) -> None:
    """Field problem 26: a disconnect is no cancellation in the session era, so a note is sent."""
    server = SessionServer()
    server.on_call = silent
    client = wire(server)
    client.initialize()
    signal = AbortSignal()
    call = run_in_thread(client.ask, "tools/call", signal=signal)
    while (
        client.server.requests[-1].method != "POST"
        or client.server.requests[-1].json.get("method") != "tools/call"
    ):
        client.server.wait_for_requests(len(client.server.requests) + 1)

    signal.abort("enough")

    with pytest.raises(RunAborted):
        call.get()
    client.close()
    notes = [r.json for r in client.server.requests if r.body and "id" not in r.json]
    assert notes == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 2, "reason": "enough"},
        }
    ]


def test_a_timeout_cancels_too_and_the_caller_does_not_wait_for_that(wire: Any) -> None:
    """E-08: the note is sent by another thread."""
    server = SessionServer()
    server.on_call = silent
    client = wire(server)
    client.initialize()

    with pytest.raises(McpTimeout):
        client.ask("tools/call", timeout=0.1)
    client.close()

    methods = [r.json.get("method") for r in client.server.requests if r.body]
    assert methods[-1] == "notifications/cancelled"


def test_initialize_is_never_cancelled(wire: Any) -> None:
    """Protocol 2024-11-05: the initialize request must not be cancelled."""
    client = wire(silent)

    with pytest.raises(McpTimeout):
        client.ask("initialize", timeout=0.5)
    client.close()

    assert [r.json["method"] for r in client.server.requests] == ["initialize"]


def test_what_a_listener_raises_ends_and_cancels_the_call(wire: Any) -> None:
    """An exception of the caller's own code leaves ``exchange`` like a Ctrl-C does."""
    server = SessionServer()
    server.on_call = mute_stream
    client = wire(server)
    client.initialize()

    def note(message: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        client.ask("tools/call", on_message=note)
    client.close()

    methods = [r.json.get("method") for r in client.server.requests if r.body]
    assert methods[-1] == "notifications/cancelled"


def test_many_calls_share_a_connection_object(wire: Any) -> None:
    """Any thread may call; each reads its own answer."""
    barrier = threading.Barrier(4)

    def handler(request: ServedRequest) -> None:
        barrier.wait(WAIT)
        request.reply(result_for(request, {"you": request.json["params"]["name"]}))

    client = wire(handler)
    calls = [run_in_thread(client.ask, "tools/call", {"name": str(number)}) for number in range(4)]

    assert [call.get()["result"]["you"] for call in calls] == ["0", "1", "2", "3"]


def test_the_clock_stands_still_while_the_user_is_asked(wire: Any) -> None:
    """E-11, quirk 8: an elicitation on another stream holds the clock of the call that waits."""
    server = SessionServer()
    deadline = Deadline(0.6)
    asked = threading.Event()

    def on_call(request: ServedRequest) -> None:
        deadline.hold(WAIT)
        asked.set()
        request.closing.wait(0.7)  # past the moment as it was
        request.reply(result_for(request, {"answer": 42}))

    server.on_call = on_call
    client = wire(server)
    client.initialize()

    assert client.ask("tools/call", deadline=deadline)["result"] == {"answer": 42}


def test_the_clock_goes_on_when_the_user_has_answered(wire: Any) -> None:
    """A server that is silent after the answer does not hold the call for ever."""
    server = SessionServer()
    server.on_call = silent
    client = wire(server)
    client.initialize()
    deadline = Deadline(0.2)
    deadline.hold(WAIT)
    call = run_in_thread(client.ask, "tools/call", deadline=deadline)
    client.server.wait_for_requests(3)

    deadline.release()

    with pytest.raises(McpTimeout):
        call.get()
