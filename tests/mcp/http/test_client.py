"""``McpHttp``: the client over HTTP, as users have it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.errors import McpConnectionError
from yiemagent.mcp import McpHttp, connect, load_servers
from yiemagent.mcp.transport import SessionLost
from yiemagent.testing import WAIT, run_in_thread
from yiemagent.testing.loopback import LoopbackServer, ServedRequest
from yiemagent.testing.loopback_mcp import SessionServer, result_for, sse_event

NO_SESSION = {
    "jsonrpc": "2.0",
    "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"},
    "id": None,
}
TOOL = {
    "name": "search",
    "inputSchema": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
}
BROKEN_TOOL = {
    "name": "broken",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
}


class Old(SessionServer):
    """A server of the session era that forgets its sessions when a test wants it.

    Attributes:
        lost: How many of the next requests with a session id are answered with *refusal*.
        carried_out: Names of the tools that were really called.
    """

    def __init__(self, refusal: tuple[int, Any] = (404, b"")) -> None:
        super().__init__()
        self.refusal = refusal
        self.lost = 0
        self.carried_out: list[str] = []
        self.on_call = self.call

    def call(self, request: ServedRequest) -> None:
        message = request.json
        if message["method"] == "server/discover":
            request.reply({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no"}}, 400)
        elif self.lost:
            self.lost -= 1
            self.session_id = f"{self.session_id}+"
            request.reply(self.refusal[1], self.refusal[0])
        elif message["method"] == "tools/call":
            self.carried_out.append(message["params"]["name"])
            request.reply(result_for(request, {"content": [{"type": "text", "text": "done"}]}))
        else:
            request.reply(result_for(request, {"tools": [TOOL]}))


@pytest.fixture
def client(serve: Callable[[Any], LoopbackServer]) -> Iterator[Callable[..., McpHttp]]:
    """Start a server for a handler and make a client; closed after the test."""
    clients: list[McpHttp] = []

    def start(handler: Any, **options: Any) -> McpHttp:
        server = handler if isinstance(handler, LoopbackServer) else serve(handler)
        clients.append(McpHttp(f"{server.url}/mcp", **{"timeout": WAIT, **options}))
        return clients[-1]

    yield start
    for one in clients:
        one.close()


@pytest.mark.parametrize("refusal", [(404, b""), (400, NO_SESSION)], ids=["404", "400"])
def test_a_lost_session_is_made_again_and_the_call_repeated_once(client: Any, refusal: Any) -> None:
    """Field problems 17 and 18: restart the server, call again; the tool runs once."""
    server = Old(refusal)
    mcp = client(server)
    mcp.call_tool("search")
    server.lost = 1

    assert mcp.call_tool("search").text == "done"

    assert server.carried_out == ["search", "search"]


def test_a_session_that_is_lost_again_at_once_is_an_error(client: Any) -> None:
    """Once is enough: a server that forgets every session is broken."""
    server = Old()
    mcp = client(server)
    mcp.call_tool("search")
    server.lost = 2

    with pytest.raises(SessionLost):
        mcp.call_tool("search")
    assert server.carried_out == ["search"]


def test_a_server_that_answers_everything_with_an_empty_result_is_an_old_one(client: Any, serve: Any) -> None:
    """An answer to ``server/discover`` without versions says nothing about the era."""
    server = SessionServer()
    running = serve(server)
    mcp = client(running)

    assert mcp.connect().protocol_version == "2025-11-25"


def test_modern_requests_carry_their_metadata_and_broken_tools_are_left_out(
    client: Any, serve: Any, caplog: Any
) -> None:
    """Protocol 2026-07-28: Mcp-Method, Mcp-Name, Mcp-Param-*, Base64 where it must be."""

    def handler(request: ServedRequest) -> None:
        results = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
            "tools/list": {"tools": [TOOL, BROKEN_TOOL]},
        }
        request.reply(result_for(request, results.get(request.json["method"], {"content": []})))

    running = serve(handler)
    mcp = client(running)

    assert [tool.name for tool in mcp.list_tools()] == ["search"]
    mcp.call_tool("search", {"region": "Rhône"})

    sent = running.requests[-1].headers
    assert sent["mcp-protocol-version"] == "2026-07-28"
    assert (sent["mcp-method"], sent["mcp-name"]) == ("tools/call", "search")
    assert sent["mcp-param-region"] == "=?base64?UmjDtG5l?="
    assert "broken" in caplog.text


def test_servers_behind_one_origin_may_speak_different_eras(client: Any, serve: Any) -> None:
    """A gateway: what is known of one path is not taken for another."""
    old = SessionServer()

    def handler(request: ServedRequest) -> None:
        modern = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
        if request.path == "/new":
            request.reply(result_for(request, modern))
        else:
            old(request)

    running = serve(handler)
    with McpHttp(f"{running.url}/old") as first, McpHttp(f"{running.url}/new") as second:
        versions = [one.connect().protocol_version for one in (first, second)]

    assert versions == ["2025-11-25", "2026-07-28"]


def test_the_user_is_asked_while_the_call_waits(client: Any) -> None:
    """Quirk 8: the question comes on the GET stream, and the POST is answered after it."""
    answered: list[Any] = []
    server = SessionServer()
    streams: list[ServedRequest] = []

    def on_get(request: ServedRequest) -> None:
        streams.append(request)
        request.start()
        request.chunk(": here\n\n")
        request.closing.wait(WAIT)
        request.hang_up()

    question = {
        "jsonrpc": "2.0",
        "id": "q",
        "method": "elicitation/create",
        "params": {
            "message": "How many?",
            "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}},
        },
    }
    waiting: list[ServedRequest] = []

    def on_call(request: ServedRequest) -> None:
        if request.json["method"] != "tools/call":
            request.reply(result_for(request, {"tools": [TOOL]}))
            return
        streams[0].chunk(sse_event(question))
        waiting.append(request)
        while not answered and not request.closing.is_set():
            request.closing.wait(0.01)
        request.reply(result_for(request, {"content": [{"type": "text", "text": str(answered[0])}]}))

    def handler(request: ServedRequest) -> None:
        if request.method == "POST" and "result" in request.json:
            answered.append(request.json["result"]["content"]["n"])
            request.reply(b"", 202)
        else:
            server(request)

    server.on_get, server.on_call = on_get, on_call
    mcp = client(handler, on_elicitation=lambda request: True)

    assert mcp.call_tool("search").text == "3"


@pytest.mark.servers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_a_session_of_its_own(client: Any) -> None:
    """Field problem 49: nothing of the parent's connection is used, and nothing of it is broken."""
    server = Old()
    mcp = client(server)
    mcp.call_tool("search")

    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            ok = mcp.call_tool("search").text == "done"
        finally:
            os._exit(0 if ok else 1)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert mcp.call_tool("search").text == "done"
    assert server.carried_out == ["search"] * 3


def test_closing_from_another_thread_ends_a_call(client: Any, serve: Any) -> None:
    """Field problems 2 to 4 and 31: a closed client says that it is closed."""
    server = Old()
    running = serve(server)
    mcp = client(running)
    mcp.call_tool("search")

    def silent(request: ServedRequest) -> None:
        request.closing.wait(WAIT)
        request.hang_up()

    running.handler = lambda r: silent(r) if r.body and r.json.get("method") == "tools/call" else server(r)
    before = len(running.requests)
    call = run_in_thread(mcp.call_tool, "search")
    running.wait_for_requests(before + 1)

    mcp.close()

    with pytest.raises(McpConnectionError, match="closed"):
        call.get()
    with pytest.raises(McpConnectionError, match="closed"):
        mcp.call_tool("search")


def test_an_address_and_a_file_entry_make_the_same_client(client: Any, serve: Any) -> None:
    """``connect("http://...")`` and ``mcpServers``."""
    running = serve(Old())
    entry = {"mcpServers": {"cellar": {"type": "http", "url": f"{running.url}/mcp", "headers": {"X-K": "1"}}}}

    with connect(f"{running.url}/mcp") as one:
        one.call_tool("search")
    (two,) = load_servers(entry).values()
    with two:
        two.call_tool("search")

    assert "x-k" not in running.requests[0].headers
    assert running.requests[-1].headers["x-k"] == "1"


HUNG = """
import sys, threading
from yiemagent.mcp import McpHttp

client = McpHttp(sys.argv[1], era="legacy", timeout=3600)
client.connect()
threading.Thread(target=client.call_tool, args=("search",), daemon=True).start()
print(sys.stdin.readline())
"""


@pytest.mark.servers
def test_a_program_ends_with_a_hung_call_and_an_open_stream(serve: Any) -> None:
    """Decision 20, field problems 5 and 32: neither keeps the process alive, and nothing was closed."""
    server = SessionServer()

    def hold(request: ServedRequest) -> None:
        request.start()
        request.chunk(": here\n\n")
        request.closing.wait(30)
        request.hang_up()

    server.on_get = hold
    server.on_call = hold
    running = serve(server)
    program = subprocess.Popen(
        [sys.executable, "-c", HUNG, f"{running.url}/mcp"], stdin=subprocess.PIPE, text=True
    )
    try:
        running.wait_for_requests(1)
        running.wait_for_requests(4)  # initialize, initialized, GET, tools/call
        program.communicate("go\n", timeout=WAIT)
        assert program.returncode == 0
    finally:
        program.kill()
        program.wait()
