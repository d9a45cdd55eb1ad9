"""Calls that depend on the definition of the tool: mirrored parameters, and tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpTimeout, RunAborted
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.results import McpTool
from yiemagent.testing import Gate, run_in_thread
from yiemagent.testing.memory_mcp import MemoryTransport, ScriptedMcpServer, ServerEnd

TASKS = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}}
SLOW = {"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}


class _HeaderTransport(MemoryTransport):
    """A memory wire that has headers, and remembers them."""

    sent: list[tuple[str, Mapping[str, str]]]

    def connect(self, receiver: Any, **limits: Any) -> Any:
        connection = super().connect(receiver, **limits)
        connection.mirrors_headers = True
        exchange = connection.exchange

        def remember(request: Any, *, headers: Mapping[str, str], **more: Any) -> Any:
            self.sent.append((request["method"], dict(headers)))
            return exchange(request, headers=headers, **more)

        connection.exchange = remember  # type: ignore[method-assign]
        return connection


def _with_headers(server: ScriptedMcpServer) -> _HeaderTransport:
    transport = _HeaderTransport(server.serve)
    object.__setattr__(transport, "sent", [])
    return transport


def _tool(name: str, header: str) -> dict[str, Any]:
    properties = {"region": {"type": "string", "x-mcp-header": header}}
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def test_requests_are_mirrored_into_headers_in_the_modern_era() -> None:
    """Protocol 2026-07-28: MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Param-*."""
    server = ScriptedMcpServer(tools=[_tool("sql", "Region")])
    transport = _with_headers(server)
    with McpClient(transport) as client:
        client.list_tools()
        client.call_tool("sql", {"region": "eu"})
    assert transport.sent[-1] == (
        "tools/call",
        {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "sql",
            "Mcp-Param-Region": "eu",
        },
    )


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("2024-11-05", {}),
        ("2025-03-26", {}),
        ("2025-06-18", {"MCP-Protocol-Version": "2025-06-18"}),
        ("2025-11-25", {"MCP-Protocol-Version": "2025-11-25"}),
    ],
)
def test_older_eras_say_their_version_after_the_handshake_only(version: str, headers: Any) -> None:
    """Protocol 2025-06-18: the version header MUST be there after initialize."""
    transport = _with_headers(ScriptedMcpServer())
    with McpClient(transport, era=version) as client:
        client.list_tools()
    assert transport.sent == [("initialize", {}), ("tools/list", headers)]


def test_a_tool_with_a_broken_header_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Protocol 2026-07-28: MUST be excluded, SHOULD be logged with name and reason."""
    server = ScriptedMcpServer(tools=[_tool("good", "Region"), _tool("bad", "two words")])
    with McpClient(_with_headers(server)) as client:
        assert [tool.name for tool in client.list_tools()] == ["good"]
    assert "tool=bad" in caplog.text
    assert "'two words' is no header name" in caplog.text


def test_wires_without_headers_keep_such_a_tool(make_client: Any) -> None:
    """Protocol: clients on other transports may ignore the annotation."""
    server = ScriptedMcpServer(tools=[_tool("bad", "two words")])
    assert len(make_client(server).list_tools()) == 1


def test_a_header_mismatch_leads_to_a_new_list_and_one_repetition() -> None:
    """Protocol: SHOULD call tools/list, then retry with the appropriate headers."""
    calls: list[Any] = []

    def call(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        calls.append(request)
        if len(calls) == 1:
            end.refuse(request, -32020, "Header mismatch")
            return None
        return {"content": []}

    server = ScriptedMcpServer(tools=[_tool("sql", "Region")], on={"tools/call": call})
    transport = _with_headers(server)
    with McpClient(transport) as client:
        client.call_tool("sql", {"region": "eu"})
    assert [method for method, _ in transport.sent] == [
        "server/discover",
        "tools/call",
        "tools/list",
        "tools/call",
    ]
    assert "Mcp-Param-Region" not in transport.sent[1][1]
    assert transport.sent[3][1]["Mcp-Param-Region"] == "eu"


def test_a_definition_is_read_leniently() -> None:
    """The Julia design says label; TypeScript servers put the title into annotations."""
    assert McpTool.read({"name": "a", "label": "Label"}).title == "Label"
    assert McpTool.read({"name": "a", "annotations": {"title": "T"}}).title == "T"
    assert McpTool.read({"name": "a", "inputSchema": None, "annotations": []}).input_schema == {}
    assert McpTool.read({"name": "a", "input_schema": {"type": "object"}}).input_schema == {"type": "object"}


# --- tasks of protocol 2025-11-25


def _task_server(states: list[dict[str, Any]], result: dict[str, Any]) -> ScriptedMcpServer:
    following = iter(states)

    def call(request: Any, end: ServerEnd) -> dict[str, Any]:
        assert request["params"]["task"]["ttl"] > 0
        return {"task": {"taskId": "t-1", "status": "working", "pollInterval": 1}}

    return ScriptedMcpServer(
        versions=("2025-11-25",),
        tools=[SLOW],
        capabilities=TASKS,
        on={
            "tools/call": call,
            "tasks/get": lambda r, e: {"taskId": "t-1", "pollInterval": 1, **next(following)},
            "tasks/result": lambda r, e: result,
            "tasks/cancel": lambda r, e: {"taskId": "t-1", "status": "cancelled"},
        },
    )


def test_a_tool_that_must_be_a_task_is_one(make_client: Any) -> None:
    """Quirk 14: clients MUST call such a tool as a task; polling honours pollInterval."""
    states = [{"status": "working", "statusMessage": "halfway"}, {"status": "completed"}]
    server = _task_server(states, {"content": [{"type": "text", "text": "report"}]})
    heard: list[str] = []
    client = make_client(server)
    answer = client.call_tool("slow", {"topic": "x"}, on_progress=lambda p: heard.append(p.message))
    assert answer.text == "report"
    assert heard == ["halfway", "completed"]
    assert server.methods()[-4:] == ["tools/call", "tasks/get", "tasks/get", "tasks/result"]


def test_a_failed_task_is_an_error_result(make_client: Any) -> None:
    """Even where its result does not say so."""
    server = _task_server([{"status": "failed"}], {"content": [{"type": "text", "text": "boom"}]})
    answer = make_client(server).call_tool("slow")
    assert (answer.is_error, answer.text) == (True, "boom")


def test_a_task_that_is_left_is_cancelled(make_client: Any) -> None:
    """Abort and timeout reach the server."""
    gate = Gate()
    server = _task_server([], {})
    server.on = {**server.on, "tasks/get": lambda request, end: gate.block()}
    client = make_client(server)
    signal = AbortSignal()
    outcome = run_in_thread(client.call_tool, "slow", signal=signal)
    gate.wait_entered()
    signal.abort()
    with pytest.raises(RunAborted):
        outcome.get()
    gate.open()
    assert server.wait_for("tasks/cancel")["params"] == {"taskId": "t-1"}


def test_a_task_without_end_ends_with_the_call(make_client: Any) -> None:
    """One deadline for all of it."""
    server = _task_server([{"status": "working"}] * 10_000, {})
    with pytest.raises(McpTimeout):
        make_client(server).call_tool("slow", timeout=0.3)
    server.wait_for("tasks/cancel")


def test_servers_without_tasks_are_called_plainly(make_client: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Protocol: without the capability clients MUST NOT augment a call."""
    server = ScriptedMcpServer(versions=("2025-11-25",), tools=[SLOW])
    client = make_client(server)
    client.list_tools()
    with caplog.at_level(logging.DEBUG):
        client.call_tool("slow")
    assert "task" not in server.received[-1]["params"]
