"""The client as the callable of the Julia design."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, McpConnectionError
from yiemagent.mcp.eras import VERSIONS
from yiemagent.testing.memory_mcp import ScriptedMcpServer

EVERY_ERA = [*VERSIONS, "plain"]


def _server(era: str, **options: Any) -> ScriptedMcpServer:
    return ScriptedMcpServer(versions=() if era == "plain" else VERSIONS, **options)


@pytest.mark.parametrize("era", EVERY_ERA)
def test_tools_are_listed_and_called_by_calling_the_client(make_client: Any, era: str) -> None:
    """WT-001, WT-020, WT-021; runbook 1.1: the same in every era."""
    lines: list[str] = []
    mcp = make_client(_server(era), era=era)
    listed = mcp("tools/list", "session-1", event_sink=lambda text, publish=False: lines.append(text))
    assert listed["result"]["tools"] == [{"name": "echo", "inputSchema": {"type": "object"}}]
    assert "nextCursor" not in listed["result"]
    called = mcp("tools/call", "echo", {"city": "Bangkok"}, "session-1", event_sink=print)
    assert called["jsonrpc"] == "2.0"
    assert called["result"]["content"] == [{"type": "text", "text": "{'city': 'Bangkok'}"}]


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28", "plain"])
def test_errors_of_the_server_are_returned_not_raised(make_client: Any, era: str) -> None:
    """WT-022: response["error"]."""

    def refuse(request: Any, end: Any) -> None:
        end.refuse(request, -32601, "Method not found", {"x": 1})

    mcp = make_client(_server(era, on={"tools/call": refuse, "tools/list": refuse}), era=era)
    error = {"code": -32601, "message": "Method not found", "data": {"x": 1}}
    assert mcp("tools/call", "getWeather", {}, "s")["error"] == error
    assert mcp("tools/list", "s")["error"] == error


def test_all_pages_come_as_one_response(make_client: Any) -> None:
    """Runbook 2.3, decision 31."""
    pages: dict[Any, Any] = {None: (["a"], "x"), "x": (["b"], "")}

    def listing(request: Any, end: Any) -> dict[str, Any]:
        names, following = pages[request["params"].get("cursor")]
        return {"tools": [{"name": name} for name in names], "nextCursor": following}

    mcp = make_client(ScriptedMcpServer(versions=(), on={"tools/list": listing}), era="plain")
    assert [tool["name"] for tool in mcp("tools/list", "s")["result"]["tools"]] == ["a", "b"]


def test_a_failing_transport_is_raised(make_client: Any) -> None:
    """The bridge makes "MCP call error: ..." of it."""
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: end.die("gone")})
    with pytest.raises(McpConnectionError, match="gone"):
        make_client(server)("tools/call", "echo", {}, "s")


def test_any_other_method_takes_its_params(make_client: Any) -> None:
    """The whole protocol is reachable."""
    server = ScriptedMcpServer(on={"resources/read": lambda request, end: {"contents": []}})
    mcp = make_client(server)
    assert mcp("resources/read", {"uri": "a://"})["result"] == {"contents": []}
    assert "error" in mcp("future/method")
    assert mcp.request("tools/list", {"cursor": "x"})["result"]["tools"]


@pytest.mark.parametrize("args", [("resources/read", "uri"), ("x", {}, {}), ("tools/list", 1, 2)])
def test_arguments_that_do_not_fit_are_refused(make_client: Any, args: tuple[Any, ...]) -> None:
    """The message shows how it is called."""
    mcp = make_client(ScriptedMcpServer())
    with pytest.raises(ConfigurationError, match="'tools/call', name, arguments, session_id"):
        mcp(*args)
