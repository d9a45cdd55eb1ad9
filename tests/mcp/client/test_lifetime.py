"""Connecting once, reconnecting, closing, forking, and being collected."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import traceback
import weakref
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, McpConnectionError, McpError, McpTimeout
from yiemagent.mcp.client import McpClient
from yiemagent.testing import Gate, run_in_thread
from yiemagent.testing.memory_mcp import MemoryTransport, ScriptedMcpServer, ServerEnd

LEGACY = ("2025-11-25",)


def test_nothing_happens_before_the_first_call(make_client: Any) -> None:
    """Issue 5 part 6: connect lazily."""
    server = ScriptedMcpServer()
    client = make_client(server)
    assert (server.ends, client.connected, client.closed) == ([], False, False)
    client.list_tools()
    assert client.connected


def test_many_threads_share_one_connection(make_client: Any) -> None:
    """Any thread; one handshake."""
    gate = Gate()
    answer = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}

    def discover(request: Any, end: ServerEnd) -> dict[str, Any]:
        gate.block()
        return answer

    server = ScriptedMcpServer(on={"server/discover": discover})
    client = make_client(server)
    outcomes = [run_in_thread(client.call_tool, "echo", {"n": n}) for n in range(8)]
    gate.wait_entered()
    gate.open()
    assert sorted(outcome.get().text for outcome in outcomes) == [f"{{'n': {n}}}" for n in range(8)]
    assert len(server.ends) == 1


def test_a_thread_that_gives_up_connecting_does_not_take_the_others_with_it(make_client: Any) -> None:
    """Its deadline is its own."""
    gate = Gate()
    asked: list[Any] = []

    def discover(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        asked.append(request)
        if len(asked) == 1:
            gate.block()
            return None
        return {"supportedVersions": ["2026-07-28"], "capabilities": {}}

    server = ScriptedMcpServer(on={"server/discover": discover})
    client = make_client(server, probe_timeout=60)
    impatient = run_in_thread(client.list_tools, timeout=0.3)
    gate.wait_entered()
    patient = run_in_thread(client.list_tools)
    with pytest.raises(McpTimeout):
        impatient.get()
    assert len(patient.get()) == 1
    gate.open()


def test_all_threads_learn_why_the_server_cannot_be_reached(make_client: Any) -> None:
    """One attempt, one cause for all who waited."""
    gate = Gate()

    def initialize(request: Any, end: ServerEnd) -> None:
        gate.block()
        end.refuse(request, -32001, "no licence")

    server = ScriptedMcpServer(versions=LEGACY, on={"initialize": initialize})
    client = make_client(server, era="legacy")
    first = run_in_thread(client.list_tools)
    gate.wait_entered()
    second = run_in_thread(client.list_tools)
    gate.open()
    for outcome in (first, second):
        with pytest.raises(McpError, match="no licence"):
            outcome.get()


def test_a_lost_server_is_connected_to_again_by_the_next_call(make_client: Any) -> None:
    """Field problem 23: restart on next use."""
    server = ScriptedMcpServer()
    lines: list[str] = []
    told = threading.Event()

    def sink(text: str, publish: bool = False) -> None:
        lines.append(text)
        told.set()

    client = make_client(server, name="srv", event_sink=sink)
    client.connect()
    server.ends[0].die("exit code 9")
    assert told.wait(5)
    assert lines == ["[srv] connection lost: exit code 9"]
    assert not client.connected
    assert client.call_tool("echo").text == "{}"
    assert len(server.ends) == 2


def test_a_server_that_always_dies_is_not_started_for_ever(make_client: Any) -> None:
    """Field problem 23: bounded; then fail fast with the cause."""
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: end.die("segmentation fault")})
    client = make_client(server, max_restarts=2)
    for _ in range(3):
        with pytest.raises(McpConnectionError, match="segmentation fault"):
            client.call_tool("echo")
    with pytest.raises(McpConnectionError, match=r"lost 3 times .*max_restarts=2.*segmentation fault"):
        client.call_tool("echo")
    assert len(server.ends) == 3


def test_a_call_that_succeeded_starts_the_count_again(make_client: Any) -> None:
    """A server that dies once a day may be started every day."""
    server = ScriptedMcpServer()
    client = make_client(server, max_restarts=1)
    for number in range(5):
        assert client.call_tool("echo").text == "{}"
        server.ends[number].die()
    assert len(server.ends) == 5


def test_a_closed_client_says_so(make_client: Any) -> None:
    """Field problem 31: not "Event loop is closed"."""
    client = make_client(ScriptedMcpServer(), name="files")
    with client:
        client.list_tools()
    assert client.closed
    with pytest.raises(McpConnectionError, match="the client of files was closed"):
        client.list_tools()
    client.close()
    client.close()


def test_closing_fails_the_calls_in_flight_at_once(make_client: Any) -> None:
    """No caller is left waiting."""
    gate = Gate()
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: gate.block()})
    client = make_client(server)
    outcome = run_in_thread(client.call_tool, "echo")
    gate.wait_entered()
    client.close()
    with pytest.raises(McpConnectionError, match="was closed"):
        outcome.get()
    gate.open()


def test_closing_ends_a_connection_that_is_being_made(make_client: Any) -> None:
    """close() from another thread must not wait for connect_timeout."""
    gate = Gate()
    server = ScriptedMcpServer(on={"server/discover": lambda request, end: gate.block()})
    client = make_client(server)
    outcome = run_in_thread(client.list_tools)
    gate.wait_entered()
    client.close()
    with pytest.raises(McpConnectionError, match="was closed"):
        outcome.get()
    gate.open()


def test_clients_close_in_any_order_from_any_thread() -> None:
    """Field problems 2-4: RuntimeError or a spin elsewhere."""
    server = ScriptedMcpServer()
    clients = [McpClient(server.transport()) for _ in range(3)]
    for client in clients:
        client.connect()
    clients[0].close()
    run_in_thread(clients[2].close).get()
    assert clients[1].call_tool("echo").text == "{}"
    clients[1].close()


def test_a_client_can_be_closed_by_its_own_callback(make_client: Any) -> None:
    """Closing from a callback must not deadlock."""
    closed = threading.Event()

    def on_notification(message: Any) -> None:
        client.close()
        closed.set()

    server = ScriptedMcpServer()
    client = make_client(server, on_notification=on_notification)
    client.connect()
    server.tell("notifications/anything")
    assert closed.wait(5)


def test_a_dropped_client_is_collected_at_once() -> None:
    """Issue 5 part 6: it is in no cycle, so its connection ends without waiting for the collector."""
    server = ScriptedMcpServer()
    client = McpClient(server.transport())
    client.call_tool("echo")
    link = weakref.ref(client._link)
    gc.disable()
    try:
        del client
        assert link() is None
    finally:
        gc.enable()
    server.ends[0].hang_up()


@pytest.mark.servers
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_makes_a_connection_of_its_own(make_client: Any) -> None:
    """Field problem 49: gunicorn --preload."""
    server = ScriptedMcpServer()
    client = make_client(server)
    assert client.call_tool("echo").text == "{}"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert not client.connected
            assert client.call_tool("echo", {"child": 1}).text == "{'child': 1}"
            client.close()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert client.call_tool("echo").text == "{}"
    assert len(server.ends) == 1


def test_connection_failures_are_not_wrapped(make_client: Any) -> None:
    """Field problem 25: one exception, no ExceptionGroup."""

    def serve(end: ServerEnd) -> None:
        end.receive()

    with McpClient(MemoryTransport(serve), era="modern") as client:
        with pytest.raises(McpConnectionError, match="a server in memory ended") as caught:
            client.list_tools()
    assert type(caught.value) is McpConnectionError


def test_a_client_shows_what_it_is(make_client: Any) -> None:
    """repr for people."""
    client = make_client(ScriptedMcpServer(), name="srv")
    assert repr(client) == "<McpClient 'srv' not connected>"
    client.connect()
    assert repr(client) == "<McpClient 'srv' connected>"
    client.close()
    assert repr(client) == "<McpClient 'srv' closed>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": -1}, "timeout must be seconds"),
        ({"close_timeout": "2"}, "close_timeout must be seconds"),
        ({"log_level": "loud"}, "log_level='loud' is none of"),
        ({"max_restarts": -1}, "max_restarts must be a whole number of at least 0 or None"),
        ({"on_log": 7}, "on_log must be callable or None, got 7"),
        ({"tiemout": 3}, "unknown option"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    """Messages name the thing and the value."""
    with pytest.raises(ConfigurationError, match=message):
        McpClient(ScriptedMcpServer().transport(), **options)


def test_two_threads_that_connect_and_close_at_the_same_time_never_hang() -> None:
    """A race, many rounds in one test."""
    for _ in range(50):
        server = ScriptedMcpServer()
        client = McpClient(server.transport())
        start = threading.Barrier(2)

        def use(client: McpClient = client, start: threading.Barrier = start) -> None:
            start.wait(5)
            with contextlib.suppress(McpConnectionError):
                client.list_tools()

        outcome = run_in_thread(use)
        start.wait(5)
        client.close()
        outcome.get()
