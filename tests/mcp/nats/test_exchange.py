"""Requests and answers over a real nats-server."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import (
    ConfigurationError,
    McpConnectionError,
    McpError,
    McpProtocolError,
    McpTimeout,
    RunAborted,
)
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.nats import NatsTransport
from yiemagent.mcp.transport import RequestRefused
from yiemagent.testing import WAIT, run_in_thread

pytestmark = pytest.mark.servers


def ok(request: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request.get("id"), "result": {"content": [], "isError": False}}


def test_a_request_is_one_json_rpc_message_with_the_mirror_headers(connect: Any, respond: Any) -> None:
    """Issue 5 part 4: JSON-RPC payload, headers mirrored, the sender named."""
    responder = respond(lambda request, message: [ok(request)])

    response = connect()(
        "tools/call", {"name": "add"}, headers={"Mcp-Method": "tools/call", "Mcp-Name": "add"}
    )

    assert response["result"] == {"content": [], "isError": False}
    (message,) = responder.messages
    assert message.data == b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}'
    assert message.headers == {"Mcp-Method": "tools/call", "Mcp-Name": "add", "Yiem-Sender": "agent_1"}


def test_notes_before_the_response_come_in_order_in_the_callers_thread(connect: Any, respond: Any) -> None:
    """Fact of section 5.6: a plain request would have returned the first note."""

    def answer(request: dict[str, Any], message: Any) -> list[Any]:
        note = {"jsonrpc": "2.0", "method": "notifications/progress"}
        return [{**note, "params": {"progressToken": 1, "progress": step}} for step in (1, 2, 3)] + [
            ok(request)
        ]

    respond(answer)
    heard: list[tuple[Any, int]] = []

    response = connect()(on_message=lambda m: heard.append((m["params"]["progress"], threading.get_ident())))

    assert response["id"] == 1
    assert heard == [(step, threading.get_ident()) for step in (1, 2, 3)]


def test_a_request_of_the_servers_goes_to_the_receiver(connect: Any, respond: Any) -> None:
    """Case E-14: an answer is told from a question."""
    question = {"jsonrpc": "2.0", "id": "q1", "method": "ping"}
    respond(lambda request, message: [question, ok(request)])
    ask = connect()

    assert ask()["id"] == 1
    assert ask.ear.heard == [question]


def test_an_answer_with_another_id_is_not_ours(connect: Any, respond: Any) -> None:
    """Case E-11: ids only, and as text or number alike."""
    respond(lambda request, message: [{**ok(request), "id": 99}, {**ok(request), "id": str(request["id"])}])

    assert connect()()["id"] == "1"


def test_an_answer_that_is_no_json_is_a_protocol_error(connect: Any, respond: Any) -> None:
    """Case E-07."""
    respond(lambda request, message: [b"<html>"])

    with pytest.raises(McpProtocolError, match="not a JSON-RPC message"):
        connect()()


def test_nobody_on_the_subject_is_told_at_once_and_by_name(connect: Any) -> None:
    """Case E-17: no responders."""
    with pytest.raises(
        RequestRefused, match=r"no MCP server listens on NATS subject 'yiemagent:tools' at nats://"
    ):
        connect()(timeout=None)


def test_a_request_over_max_payload_is_refused_with_both_numbers(connect: Any, respond: Any) -> None:
    """Case E-18: it would close the connection of everybody on it."""
    responder = respond(lambda request, message: [ok(request)])
    ask = connect()

    with pytest.raises(
        McpError, match=r"tools/call is 1,0\d\d,\d\d\d bytes .* at most 1,048,576 \(max_payload\)"
    ):
        ask("tools/call", {"text": "x" * 1_048_576})

    assert ask()["id"] == 2
    assert len(responder.messages) == 1


def test_the_headers_count_for_max_payload(connect: Any, respond: Any) -> None:
    """Case E-18: the server counts them, so a body that would just fit must not be sent."""
    respond(lambda request, message: [ok(request)])
    ask = connect()
    room = 1_048_576 - len('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"text":""}}')

    with pytest.raises(McpError, match="max_payload"):
        ask("tools/call", {"text": "x" * room})

    assert ask()["id"] == 2


def test_a_timeout_names_max_payload_and_cancels_the_request(connect: Any, respond: Any) -> None:
    """Section 5.6: an answer that is too long reaches the client as a silence only."""
    seen = threading.Event()
    responder = respond(lambda request, message: seen.set() or [] if "id" not in request else [])
    ask = connect()

    with pytest.raises(
        McpTimeout, match=r"did not answer tools/call within 0.05 s; an answer over 1,048,576 bytes"
    ):
        ask(timeout=0.05)

    assert seen.wait(WAIT)
    request, cancelled = responder.messages
    assert b'"notifications/cancelled"' in cancelled.data
    assert b'"requestId":1' in cancelled.data
    assert cancelled.reply == request.reply


def test_an_abort_ends_the_wait_and_cancels_the_request(connect: Any, respond: Any) -> None:
    """Issue 5 part 6: abort within 0.2 s."""
    came, cancelled = threading.Event(), threading.Event()

    def answer(request: dict[str, Any], message: Any) -> list[Any]:
        (came if "id" in request else cancelled).set()
        return []

    respond(answer)
    signal = AbortSignal()
    ask = connect()

    waiting = run_in_thread(ask, timeout=None, signal=signal)
    assert came.wait(WAIT)
    signal.abort("user closed the page")

    with pytest.raises(RunAborted):
        waiting.get()
    assert cancelled.wait(WAIT)


def test_an_aborted_signal_sends_nothing(connect: Any, respond: Any) -> None:
    """Decision 10: new work is never begun after an abort."""
    responder = respond(lambda request, message: [ok(request)])
    signal = AbortSignal()
    signal.abort()
    ask = connect()

    with pytest.raises(RunAborted):
        ask(signal=signal)

    assert ask()["id"] == 2
    assert len(responder.messages) == 1


def test_ten_threads_share_one_connection(connect: Any, respond: Any) -> None:
    """Case E-22: from any thread, answers to whom they belong."""
    respond(lambda request, message: [{**ok(request), "result": request["params"]}])
    ask = connect()
    start = threading.Barrier(10)

    def work(number: int) -> list[dict[str, Any]]:
        start.wait(WAIT)
        return [ask(params={"n": number, "i": i}, request_id=number * 100 + i)["result"] for i in range(20)]

    results = [run_in_thread(work, number) for number in range(10)]

    for number, outcome in enumerate(results):
        assert outcome.get() == [{"n": number, "i": i} for i in range(20)]


def test_close_ends_a_waiting_call_at_once(connect: Any, respond: Any) -> None:
    """Field problems 4 and 31: from any thread, and a clear word afterwards."""
    came = threading.Event()
    respond(lambda request, message: came.set() or [])
    ask = connect()

    waiting = run_in_thread(ask, timeout=None)
    assert came.wait(WAIT)
    ask.connection.close(1.0)
    ask.connection.close(1.0)

    with pytest.raises(McpConnectionError, match="was closed"):
        waiting.get()
    assert not ask.connection.alive
    with pytest.raises(McpConnectionError, match="was closed"):
        ask()


def test_answers_beyond_the_pending_limit_fail_their_call_and_the_next_one_works(
    connect: Any, respond: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Case E-21: a slow consumer is noticed, and its subscription made again."""
    respond(lambda request, message: [{**ok(request), "result": {"text": "x" * request["params"]["size"]}}])
    ask = connect(pending_bytes_limit=5_000)

    with pytest.raises(
        McpConnectionError, match=r"dropped: more than 5,000 bytes .* raise pending_bytes_limit"
    ):
        ask(params={"size": 10_000})

    for size in (10, 100, 1_000):
        assert len(ask(params={"size": size})["result"]["text"]) == size
    assert "slow consumer" in caplog.text


def test_a_callback_that_raises_leaves_the_connection_usable(connect: Any, respond: Any) -> None:
    """Issue 5 part 6: whatever leaves the call, the connection stays."""
    note = {"jsonrpc": "2.0", "method": "notifications/message"}
    respond(lambda request, message: [note, ok(request)])
    ask = connect()

    def fail(message: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(on_message=fail)

    assert ask()["id"] == 2


def test_no_event_loop_is_visible_to_the_caller(connect: Any, respond: Callable[..., Any]) -> None:
    """Case D-02, field problems 14 and 53."""
    import asyncio

    respond(lambda request, message: [ok(request)])
    ask = connect()
    ask()

    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
    assert asyncio.run(_inside_a_loop(ask)) == 2


async def _inside_a_loop(ask: Any) -> Any:
    return ask()["id"]


def test_a_notification_is_published_without_an_inbox(connect: Any, respond: Any) -> None:
    """What has no answer asks for none; a closed connection says so."""
    came = threading.Event()
    responder = respond(lambda request, message: came.set() or [])
    ask = connect()
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    ask.connection.send(note, headers={"Mcp-Method": "notifications/initialized"}, deadline=Deadline(WAIT))

    assert came.wait(WAIT)
    assert responder.messages[0].reply == ""
    ask.connection.close(1.0)
    with pytest.raises(McpConnectionError, match="was closed"):
        ask.connection.send(note, headers={}, deadline=Deadline(WAIT))


def test_an_abandoned_connection_refuses_and_closes_nothing(connect: Any, nats: Any) -> None:
    """Case D-10: in a child its parent's connection is let go without a word."""
    ask = connect()
    ask.connection.abandon()

    assert not ask.connection.alive
    with pytest.raises(McpConnectionError, match="belongs to the process before the fork"):
        ask()
    # What the fork would have dropped is given back here by hand.
    ask.connection._loop.call(ask.connection._desk.link.close, WAIT)
    ask.connection._loop.release()


def test_a_connection_that_was_dropped_ends_by_itself(nats: Any) -> None:
    """Issue 5 part 6: garbage collection closes, too."""
    connection = NatsTransport(nats.url, "t").connect(None, deadline=Deadline(WAIT), signal=None)  # type: ignore[arg-type]
    (thread,) = (one for one in threading.enumerate() if one.name == "yiemagent-nats-loop")

    del connection
    gc.collect()

    thread.join(WAIT)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"dialect": "julia"}, 'dialect must be "yiem" or "mcp"'),
        ({"sender_id": ""}, "sender_id must be printable ASCII"),
        ({"sender_id": "a\nb"}, "sender_id must be printable ASCII"),
    ],
)
def test_a_transport_that_cannot_work_is_refused(options: dict[str, Any], complaint: str) -> None:
    """Messages name the keyword, the value and the way out."""
    with pytest.raises(ConfigurationError, match=complaint):
        NatsTransport("nats://x", "t", **options)
