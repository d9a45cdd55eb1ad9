"""One request over Streamable HTTP and what can come back."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, McpConnectionError, McpProtocolError
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.http import HttpTransport
from yiemagent.mcp.jsonrpc import make_notification
from yiemagent.mcp.transport import RequestRefused
from yiemagent.testing import WAIT
from yiemagent.testing.loopback import ServedRequest
from yiemagent.testing.loopback_mcp import result_for, sse_event

PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}


def test_a_json_answer_is_returned_as_it_came(wire: Any) -> None:
    """E-10: a server may answer with one JSON object."""
    client = wire(lambda request: request.reply(result_for(request, {"tools": []})))

    assert client.ask() == {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}


def test_both_kinds_of_answer_are_accepted_and_the_body_is_json(wire: Any) -> None:
    """Streamable HTTP, "Sending Messages": Accept lists JSON and event streams."""
    client = wire(lambda request: request.reply(result_for(request)), headers={"X-Team": "cellar"})

    client.ask("tools/call", {"name": "x"}, headers={"Mcp-Method": "tools/call", "Mcp-Name": "x"})

    sent = client.server.requests[0]
    assert sent.method == "POST"
    assert sent.headers["accept"] == "application/json, text/event-stream"
    assert sent.headers["content-type"] == "application/json"
    assert (sent.headers["mcp-method"], sent.headers["mcp-name"]) == ("tools/call", "x")
    assert sent.headers["x-team"] == "cellar"
    assert sent.json == {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}


def test_notifications_of_an_event_stream_come_in_order_in_the_calling_thread(wire: Any) -> None:
    """E-11: progress before the response belongs to the request whose stream brings it."""
    second = {**PROGRESS, "params": {"progress": 2}}
    threads = []

    def handler(request: ServedRequest) -> None:
        request.stream(sse_event(one) for one in (PROGRESS, second, result_for(request, {"ok": True})))

    client = wire(handler)
    notes: list[Any] = []

    def note(message: Any) -> None:
        notes.append(message)
        threads.append(threading.current_thread())

    assert client.ask(on_message=note)["result"] == {"ok": True}
    assert notes == [PROGRESS, second]
    assert set(threads) == {threading.current_thread()}


def test_requests_of_the_server_go_to_the_receiver(wire: Any) -> None:
    """Quirk 8: sampling and elicitation arrive in the middle of a tools/call."""
    question = {"jsonrpc": "2.0", "id": "q-1", "method": "roots/list"}
    client = wire(lambda request: request.stream([sse_event(question), sse_event(result_for(request))]))

    client.ask("tools/call")

    assert client.ear.messages == [question]
    assert client.notes == []


def test_events_that_are_no_messages_are_passed_over(wire: Any) -> None:
    """Comments, priming events, other event types and junk cost nothing but a warning."""
    client = wire(
        lambda request: request.stream(
            [
                ": hello\n\n",
                sse_event("", id="7"),
                sse_event("tick", event="ping"),
                sse_event("{not json"),
                sse_event(result_for(request, {"ok": 1})),
            ]
        )
    )

    assert client.ask()["result"] == {"ok": 1}


def test_a_batch_is_taken_apart(wire: Any) -> None:
    """E-14: protocol 2025-03-26 lets a server answer with an array."""
    client = wire(lambda request: request.reply(_array([PROGRESS, result_for(request, {"ok": 1})])))

    assert client.ask()["result"] == {"ok": 1}
    assert client.notes == [PROGRESS]


def _array(messages: list[Any]) -> str:
    import json

    return json.dumps(messages)


def test_an_id_that_comes_back_as_a_text_is_still_ours(wire: Any) -> None:
    """E-07: some servers turn ids into texts."""
    client = wire(lambda request: request.reply({**result_for(request), "id": str(request.json["id"])}))

    assert client.ask()["id"] == "1"


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_json_rpc_error_is_returned_whatever_the_status(wire: Any, status: int) -> None:
    """Protocol 2026-07-28: an unknown method is a 404 with -32601 in the body."""
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}
    client = wire(lambda request: request.reply(error, status))

    assert client.ask() == error
    assert client.connection.alive


def test_a_refusal_without_json_rpc_keeps_status_and_body(wire: Any) -> None:
    """Field problem 19: the error names URL, status and what was said."""
    client = wire(lambda request: request.reply("<h1>Bad gateway</h1>", 502, {"Content-Type": "text/html"}))

    with pytest.raises(RequestRefused, match=r"/mcp answered 502: <h1>Bad gateway") as caught:
        client.ask()
    assert (caught.value.status, caught.value.body) == (502, "<h1>Bad gateway</h1>")


def test_a_frameworks_own_error_is_no_json_rpc_error(wire: Any) -> None:
    """{"error": "not_found"} is what an API gateway says."""
    client = wire(lambda request: request.reply({"error": "not_found"}, 404))

    with pytest.raises(RequestRefused, match="404"):
        client.ask()


def test_a_web_page_is_no_answer(wire: Any) -> None:
    """A URL that leads to a web page says so instead of failing in the JSON parser."""
    client = wire(lambda request: request.reply("<html>", 200, {"Content-Type": "text/html"}))

    with pytest.raises(RequestRefused, match=r"text/html.* answered 200: <html>"):
        client.ask()


def test_json_without_the_response_breaks_the_protocol(wire: Any) -> None:
    """An answer to something else is not taken for ours."""
    client = wire(lambda request: request.reply({"jsonrpc": "2.0", "id": 99, "result": {}}))

    with pytest.raises(McpProtocolError, match="without a response"):
        client.ask()


def test_a_stream_that_ends_without_the_response_is_an_error_and_not_asked_again(wire: Any) -> None:
    """E-09: what may have been carried out is never sent twice."""
    client = wire(lambda request: request.stream([sse_event(PROGRESS)]))

    with pytest.raises(McpConnectionError, match="not known whether it was carried out"):
        client.ask("tools/call")
    assert len(client.server.requests) == 1


def test_a_server_that_hangs_up_on_a_call_gets_it_once(wire: Any) -> None:
    """E-09, field problem 20: a broken connection is an error at once, and nothing is repeated."""
    client = wire(lambda request: request.reply(result_for(request)))
    client.ask()
    client.server.handler = ServedRequest.reset

    with pytest.raises(McpConnectionError, match=client.server.url):
        client.ask("tools/call")
    assert [request.json["method"] for request in client.server.requests] == ["tools/list", "tools/call"]


def test_a_connection_that_the_server_dropped_while_idle_is_replaced(wire: Any) -> None:
    """A call after a pause must not fail because the server closes idle connections."""
    client = wire(lambda request: request.reply(result_for(request)))
    client.ask()
    client.server.drop_connections()

    client.ask("tools/call")

    assert client.server.connections == 2


def test_an_absent_server_is_one_error_that_names_it() -> None:
    """Field problem 25: unreachable is one connection error."""
    transport = HttpTransport("http://127.0.0.1:9/mcp")
    connection = transport.connect(_Deaf(), deadline=Deadline(WAIT), signal=None)

    with pytest.raises(McpConnectionError, match=r"http://127\.0\.0\.1:9/mcp"):
        connection.exchange(
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
            headers={},
            deadline=Deadline(WAIT),
            signal=None,
            on_message=print,
        )
    connection.close(WAIT)


class _Deaf:
    def receive(self, connection: object, message: object) -> None: ...

    def lost(self, connection: object, error: object) -> None: ...


def test_a_notification_is_accepted_with_202(wire: Any) -> None:
    """Streamable HTTP: notifications have no answer."""
    client = wire(lambda request: request.reply(b"", 202))

    client.connection.send(make_notification("notifications/x"), headers={}, deadline=Deadline(WAIT))

    assert client.server.requests[0].json == {"jsonrpc": "2.0", "method": "notifications/x"}


def test_a_refused_notification_is_an_error(wire: Any) -> None:
    """Streamable HTTP: a server that cannot accept a notification answers 4xx."""
    client = wire(
        lambda request: request.reply({"jsonrpc": "2.0", "error": {"code": 1, "message": "no"}}, 400)
    )

    with pytest.raises(RequestRefused, match="400"):
        client.connection.send(make_notification("notifications/x"), headers={}, deadline=Deadline(WAIT))


def test_a_missing_slash_is_found_out_once(wire: Any) -> None:
    """Web frameworks answer 307 when only the slash at the end is missing."""

    def handler(request: ServedRequest) -> None:
        if request.path == "/mcp":
            request.reply(b"", 307, {"Location": "/mcp/"})
        else:
            request.reply(result_for(request))

    client = wire(handler)

    client.ask()
    client.ask()

    assert [request.path for request in client.server.requests] == ["/mcp", "/mcp/", "/mcp/"]


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/mcp", "https://elsewhere.example/mcp"])
def test_a_redirect_to_another_server_is_not_followed(wire: Any, location: str) -> None:
    """Headers with credentials must not travel where the server points."""
    client = wire(lambda request: request.reply(b"", 307, {"Location": location}))

    with pytest.raises(RequestRefused, match="redirects are not followed"):
        client.ask()


def test_circular_redirects_end(wire: Any) -> None:
    """A server that points to itself is not asked for ever."""
    client = wire(lambda request: request.reply(b"", 307, {"Location": request.path}))

    with pytest.raises(RequestRefused, match="in circles"):
        client.ask()


@pytest.mark.parametrize("url", ["", "mcp.example", "ftp://host/mcp", "https://", "http://[::1", None])
def test_what_is_no_url_is_refused_at_once(url: Any) -> None:
    """A typing error shows at construction, not at the first call."""
    with pytest.raises(ConfigurationError, match="http"):
        HttpTransport(url)


def test_secrets_of_the_url_and_headers_do_not_show() -> None:
    """Labels and reprs are for logs."""
    transport = HttpTransport("https://user:pw@host/mcp?key=s3", headers={"X-Key": "s3"}, auth="t0ken")

    assert transport.label == "https://host/mcp"
    assert repr(transport) == "HttpTransport('https://host/mcp')"


@pytest.mark.parametrize("method", ["tools/list", "resources/read", "initialize"])
def test_what_is_no_tool_call_is_sent_again_on_a_fresh_connection(wire: Any, method: str) -> None:
    """A kept connection that dies under a request costs nothing but a tool call anything."""
    client = wire(lambda request: request.reply(result_for(request)))
    client.ask()
    seen: list[int] = []

    def handler(request: ServedRequest) -> None:
        seen.append(request.connection)
        if request.connection == 1:
            request.hang_up()
        else:
            request.reply(result_for(request))

    client.server.handler = handler

    client.ask(method)

    assert seen == [1, 2]


def test_a_tool_call_on_a_connection_that_dies_is_not_sent_again(wire: Any) -> None:
    """E-09: the server may have read it before it hung up."""
    client = wire(lambda request: request.reply(result_for(request)))
    client.ask()
    client.server.handler = ServedRequest.hang_up

    with pytest.raises(McpConnectionError):
        client.ask("tools/call")
    assert len(client.server.requests) == 2


def test_a_close_wherever_its_own_thread_is_in_an_exchange_ends_it_or_comes_too_late(
    wire: Any, at_line: Any
) -> None:
    """D-20: a signal handler closes the client whose call it interrupts."""
    server = wire(lambda request: request.reply(result_for(request, {}))).server
    for number in itertools.count(1):
        client, came = wire(server), []

        def close(client: Any = client, came: list[bool] = came) -> None:
            came.append(True)
            client.connection.close(0)

        ended = at_line(number, "mcp/http_connection.py", close, client.ask)
        if not came:
            break
        assert isinstance(ended, McpConnectionError) or ended["result"] == {}
        assert client.connection._wire._runs == {}
        with pytest.raises(McpConnectionError, match="was closed"):
            client.ask()
    assert number > 20
