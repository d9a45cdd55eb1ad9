"""Serving over HTTP: what a WSGI application of ours answers to real requests."""

from __future__ import annotations

import http.client
import io
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.mcp.serve import McpServer
from yiemagent.mcp.serve_http import serve_http
from yiemagent.mcp.serve_http_runner import HttpServing, run_http
from yiemagent.testing import WAIT, Gate
from yiemagent.tools.decorator import tool
from yiemagent.tools.tool import ToolContext

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
BOTH = "application/json, text/event-stream"


class Reply:
    """An HTTP answer, read to its end."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The messages of an event stream."""
        return [json.loads(line[6:]) for line in self.body.splitlines() if line.startswith(b"data: ")]


def request(
    serving: HttpServing, method: str, body: Any = None, path: str | None = None, **headers: str
) -> Reply:
    parts = urlsplit(serving.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", "Accept": BOTH}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path or parts.path, data, {k: v for k, v in sent.items() if v})
        return Reply(connection.getresponse())
    finally:
        connection.close()


def rpc(method: str, params: dict[str, Any] | None = None, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


def modern(serving: HttpServing, method: str, params: dict[str, Any] | None = None, **headers: str) -> Reply:
    """A request of 2026-07-28, with the headers it must have unless others are given."""
    full = {**(params or {}), "_meta": {**META, **(params or {}).get("_meta", {})}}
    needed = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
    name = full.get("name") or full.get("uri")
    if name:
        needed["Mcp_Name"] = name
    return request(serving, "POST", rpc(method, full), **{**needed, **headers})


def initialize(serving: HttpServing, version: str = "2025-11-25") -> Reply:
    info = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    return request(serving, "POST", rpc("initialize", info))


def test_modern_requests_need_no_session(http: HttpServing) -> None:
    """2026-07-28: one POST, one JSON answer."""
    reply = modern(http, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})

    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    assert reply.json["result"]["content"] == [{"type": "text", "text": "3"}]
    assert "Mcp-Session-Id" not in reply.headers


def test_a_legacy_session_begins_with_initialize_and_ends_with_delete(http: HttpServing) -> None:
    """2025-03-26 to 2025-11-25: Mcp-Session-Id, 202 for notifications, 404 after the end."""
    session = initialize(http).headers["Mcp-Session-Id"]
    known = {"Mcp_Session_Id": session, "MCP_Protocol_Version": "2025-11-25"}

    noted = request(http, "POST", {"jsonrpc": "2.0", "method": "notifications/initialized"}, **known)
    listed = request(http, "POST", rpc("tools/list"), **known)
    ended = request(http, "DELETE", **known)
    after = request(http, "POST", rpc("tools/list"), **known)

    assert (noted.status, noted.body) == (202, b"")
    assert len(listed.json["result"]["tools"]) == 3
    assert ended.status == 204
    assert after.status == 404


def test_a_session_is_taken_up_by_another_process(http: HttpServing, server: McpServer) -> None:
    """Pre-forking web servers: the id says all that must be known."""
    session = initialize(http, "2025-03-26").headers["Mcp-Session-Id"]

    with run_http(server) as other:
        reply = request(other, "POST", rpc("tools/list", {"cursor": "6"}), Mcp_Session_Id=session)

    assert reply.json["result"]["tools"][0].keys() == {"name", "description", "inputSchema", "annotations"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({"Mcp_Session_Id": "no-such-session"}, 404),
        ({"Mcp_Session_Id": "2026-07-28.abc"}, 404),
        ({"MCP_Protocol_Version": "1900-01-01"}, 400),
    ],
)
def test_a_request_without_a_usable_session_is_refused(
    http: HttpServing, headers: dict[str, str], status: int
) -> None:
    """2025-11-25 transports: 400 without a session, 404 for an unknown one."""
    reply = request(http, "POST", rpc("tools/list"), **headers)

    assert reply.status == status
    assert reply.json["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp_Method": ""},
        {"Mcp_Method": "tools/list"},
        {"Mcp_Name": ""},
        {"Mcp_Name": "boom"},
        {"MCP_Protocol_Version": ""},
        {"Mcp_Param_City": ""},
        {"Mcp_Param_City": "Paris"},
        {"Mcp_Param_City": "=?base64?!!?="},
    ],
)
def test_headers_that_do_not_say_what_the_body_says_are_refused(
    http: HttpServing, headers: dict[str, str]
) -> None:
    """2026-07-28 server validation: 400 and -32020."""
    call = {"name": "forecast", "arguments": {"city": "Rome"}}

    reply = modern(http, "tools/call", call, **{"Mcp_Param_City": "Rome", **headers})

    assert reply.status == 400
    assert reply.json["error"]["code"] == -32020


@pytest.mark.parametrize("city", ["Rome", "=?base64?Um9tZQ==?="])
def test_mirrored_parameters_are_compared_after_decoding(http: HttpServing, city: str) -> None:
    """2026-07-28 value encoding."""
    call = {"name": "forecast", "arguments": {"city": "Rome"}}

    assert modern(http, "tools/call", call, Mcp_Param_City=city).status == 200


def test_modern_errors_have_the_status_of_the_specification(http: HttpServing) -> None:
    """2026-07-28: 404 for an unknown method, 400 for an unknown version or missing metadata, else 200."""
    unknown_version = {**META, "io.modelcontextprotocol/protocolVersion": "2199-01-01"}

    assert modern(http, "nothing").status == 404
    assert modern(http, "tools/call", {"name": "nothing"}).status == 200
    reply = modern(http, "tools/list", {"_meta": unknown_version}, MCP_Protocol_Version="2199-01-01")
    assert (reply.status, reply.json["error"]["code"]) == (400, -32022)
    bare = request(
        http, "POST", rpc("tools/list"), MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/list"
    )
    assert (bare.status, bare.json["error"]["code"]) == (400, -32602)


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("http://127.0.0.1", 200),
        ("https://app.example", 200),
        ("https://evil.example", 403),
        ("null", 403),
        ("https://localhost.evil.example", 403),
    ],
)
def test_pages_from_elsewhere_are_refused(server: McpServer, origin: str, status: int) -> None:
    """Security: Origin must be checked against DNS rebinding."""
    with run_http(server, allowed_origins=["https://app.example"]) as serving:
        assert modern(serving, "tools/list", Origin=origin).status == status


@pytest.mark.parametrize(
    ("method", "body", "headers", "status"),
    [
        ("GET", None, {}, 405),
        ("PUT", b"", {}, 405),
        ("DELETE", None, {}, 405),
        ("POST", b"{", {}, 400),
        ("POST", b"7", {}, 400),
        ("POST", b"{}", {"Content_Type": "text/plain"}, 415),
        ("POST", b"{}", {"Accept": "text/html"}, 406),
        ("POST", b"x" * 2_000, {}, 413),
    ],
)
def test_what_is_no_message_is_refused(
    server: McpServer, method: str, body: bytes | None, headers: dict[str, str], status: int
) -> None:
    """Streamable HTTP: methods, types and sizes."""
    with run_http(server, max_body_bytes=1_000) as serving:
        assert request(serving, method, body, **headers).status == status


def test_another_path_is_not_found(http: HttpServing) -> None:
    """One endpoint."""
    assert request(http, "POST", rpc("ping"), path="/other").status == 404


def test_progress_comes_as_an_event_stream(http: HttpServing) -> None:
    """Streamable HTTP: notifications, then the response, then the end."""
    call = {"name": "count", "arguments": {"to": 2}, "_meta": {"progressToken": "t"}}

    reply = modern(http, "tools/call", call)

    assert reply.headers["Content-Type"] == "text/event-stream"
    assert reply.headers["X-Accel-Buffering"] == "no"
    *notes, response = reply.events
    assert [note["params"]["progress"] for note in notes] == [1, 2]
    assert response["result"]["content"][0]["text"] == "done"


def test_clients_that_read_no_streams_get_json(http: HttpServing) -> None:
    """Accept decides."""
    call = {"name": "count", "arguments": {"to": 2}, "_meta": {"progressToken": "t"}}

    assert modern(http, "tools/call", call, Accept="application/json").json["result"]


@pytest.fixture
def watched() -> Iterator[tuple[HttpServing, Gate, threading.Event]]:
    """A server whose tool waits at a gate and then for its signal."""
    gate, aborted = Gate(), threading.Event()

    @tool
    def watch(ctx: ToolContext) -> str:
        ctx.update("at the gate")
        gate.block()
        while not ctx.signal.aborted:
            ctx.update("x" * 100_000)  # more than the sockets hold, so that a closed one is noticed
        aborted.set()
        return "left"

    with run_http([watch]) as serving:
        yield serving, gate, aborted


def test_closing_the_stream_cancels_a_modern_call(watched: Any) -> None:
    """2026-07-28: a disconnect is the cancellation."""
    serving, gate, aborted = watched
    parts = urlsplit(serving.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=WAIT)
    params = {"name": "watch", "_meta": {**META, "progressToken": 1}}
    headers = {
        "Content-Type": "application/json",
        "Accept": BOTH,
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "watch",
    }
    connection.request("POST", parts.path, json.dumps(rpc("tools/call", params)), headers)
    response = connection.getresponse()
    gate.wait_entered()

    response.close()
    connection.close()
    gate.open()

    assert aborted.wait(WAIT)


def test_a_cancellation_by_post_reaches_a_legacy_call(watched: Any) -> None:
    """2025-11-25: notifications/cancelled in the session."""
    serving, gate, aborted = watched
    known = {"Mcp_Session_Id": initialize(serving).headers["Mcp-Session-Id"]}
    replies: list[Reply] = []
    caller = threading.Thread(
        target=lambda: replies.append(
            request(serving, "POST", rpc("tools/call", {"name": "watch"}, 5), **known)
        )
    )
    caller.start()
    gate.wait_entered()

    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    assert request(serving, "POST", cancel, **known).status == 202
    gate.open()

    assert aborted.wait(WAIT)
    caller.join(WAIT)
    assert (replies[0].status, replies[0].body) == (202, b"")


def test_a_batch_of_2025_03_26_is_answered_by_an_array(http: HttpServing) -> None:
    """2025-03-26: batches."""
    known = {"Mcp_Session_Id": initialize(http, "2025-03-26").headers["Mcp-Session-Id"]}
    note = {"jsonrpc": "2.0", "method": "notifications/x"}

    both = request(http, "POST", [rpc("ping", number=1), note, rpc("ping", number=2)], **known)
    notes = request(http, "POST", [note], **known)

    assert [answer["id"] for answer in both.json] == [1, 2]
    assert (notes.status, notes.body) == (202, b"")


def test_closing_the_server_aborts_what_runs(watched: Any) -> None:
    """Stopping is a flag plus wake-up; the guard sees the threads end."""
    serving, gate, aborted = watched
    known = {"Mcp_Session_Id": initialize(serving).headers["Mcp-Session-Id"]}
    caller = threading.Thread(
        target=lambda: request(serving, "POST", rpc("tools/call", {"name": "watch"}), **known)
    )
    caller.start()
    gate.wait_entered()

    serving.close()
    gate.open()

    assert aborted.wait(WAIT)
    assert serving.wait(0)
    caller.join(WAIT)


def test_an_origin_that_is_none_is_refused() -> None:
    """Messages name the keyword, the value and the way out."""
    with pytest.raises(ConfigurationError, match="allowed_origins takes scheme"):
        serve_http([], allowed_origins=["app.example"])


def test_it_mounts_anywhere() -> None:
    """path=None answers every path, for mounting inside another application."""
    body = json.dumps(rpc("ping")).encode()
    statuses: list[str] = []
    app = serve_http([], path=None)
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/any/where",
        "CONTENT_TYPE": "application/json; charset=utf-8",
        "HTTP_MCP_SESSION_ID": "2025-06-18.x",
        "wsgi.input_terminated": True,
        "wsgi.input": io.BytesIO(body),
    }

    answer = b"".join(app(environ, lambda status, headers: statuses.append(status)))

    assert statuses == ["200 OK"]
    assert json.loads(answer)["result"] == {}
