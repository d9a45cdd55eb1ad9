"""Another MCP server, put on a subject and taken from there."""

from __future__ import annotations

import pathlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpError, RunAborted
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.http import HttpTransport
from yiemagent.mcp.nats import McpNats
from yiemagent.mcp.serve_bridge import McpBridge
from yiemagent.mcp.serve_http_runner import run_http
from yiemagent.mcp.serve_nats import serve_nats
from yiemagent.mcp.stdio import StdioTransport
from yiemagent.testing import WAIT
from yiemagent.tools.decorator import tool
from yiemagent.tools.tool import ToolContext

pytestmark = pytest.mark.servers

TOPIC = "bridged"
PROGRAM = pathlib.Path(__file__).parents[1] / "serve" / "served.py"


@pytest.fixture(params=["2026-07-28", "2025-11-25", "2024-11-05"])
def behind(request: pytest.FixtureRequest) -> Iterator[McpClient]:
    """A stdio server, spoken to in an era of its own."""
    with McpClient(StdioTransport(sys.executable, [str(PROGRAM)]), era=request.param) as client:
        yield client


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25", "plain"])
def test_a_stdio_server_is_used_over_nats(nats: Any, behind: McpClient, era: str) -> None:
    """Issue 5 part 4: any MCP server on a subject, each side in its own era."""
    with serve_nats(behind, nats.url, TOPIC), McpNats(nats.url, TOPIC, era=era) as mcp:
        steps: list[Any] = []

        assert [tool.name for tool in mcp.list_tools()][:3] == ["add", "boom", "noisy"]
        assert mcp.call_tool("add", {"a": 1, "b": 2}).content[0]["text"] == "3"
        assert mcp.call_tool("boom").is_error
        result = mcp.call_tool("count", {"to": 2}, on_progress=lambda step: steps.append(step.progress))
        assert (result.content[0]["text"], steps) == ("done", [1, 2])
        assert mcp.read_resource("memo://day/1")[0].text == "what was on 1"
        assert mcp.request("prompts/get", {"name": "about", "arguments": {"topic": "oak"}})["result"][
            "messages"
        ]
        with pytest.raises(McpError, match="Unknown tool: nothing") as caught:
            mcp.call_tool("nothing")
        assert caught.value.code == -32602


def test_the_bridge_says_who_is_behind_it(nats: Any, behind: McpClient) -> None:
    """Name, version, instructions and capabilities are those of the server behind."""
    with serve_nats(behind, nats.url, TOPIC), McpNats(nats.url, TOPIC) as mcp:
        info = mcp.connect()

    assert (info.name, info.version, info.instructions) == ("served", "1.2", "Be kind.")
    assert set(info.capabilities) == {"tools", "resources", "prompts"}


def test_an_abort_goes_all_the_way(nats: Any) -> None:
    """A cancelled call over the bridge is cancelled behind it."""
    cancelled = threading.Event()

    @tool
    def wait(ctx: ToolContext) -> str:
        """Wait until the call is cancelled."""
        while not ctx.signal.wait(0.01):
            ctx.update("waiting")
        cancelled.set()
        return "over"

    signal = AbortSignal()
    with (
        run_http([wait]) as http,
        McpClient(HttpTransport(http.url)) as behind,
        serve_nats(McpBridge(behind), nats.url, TOPIC),
        McpNats(nats.url, TOPIC) as mcp,
    ):
        with pytest.raises(RunAborted):
            mcp.call_tool("wait", signal=signal, on_progress=lambda step: signal.abort())
        assert cancelled.wait(WAIT)


def test_a_dead_server_behind_is_an_error_and_not_a_silence(nats: Any) -> None:
    """The reason comes through, and the bridge goes on."""
    behind = McpClient(StdioTransport(sys.executable, ["-c", "raise SystemExit('no key')"]))

    with behind, serve_nats(behind, nats.url, TOPIC), McpNats(nats.url, TOPIC, era="plain") as mcp:
        with pytest.raises(McpError, match="no key") as caught:
            mcp.call_tool("add", {"a": 1, "b": 2})

    assert not isinstance(caught.value, McpConnectionError)


def test_a_nats_server_is_used_over_http(nats: Any) -> None:
    """The other way round: the Julia design's dialect behind a web endpoint."""

    def add(a: int, b: int) -> int:
        """Add two whole numbers."""
        return a + b

    with (
        serve_nats([add], nats.url, TOPIC),
        McpNats(nats.url, TOPIC, era="plain") as behind,
        run_http(behind) as http,
        McpClient(HttpTransport(http.url)) as mcp,
    ):
        assert [tool.name for tool in mcp.list_tools()] == ["add"]
        assert mcp.call_tool("add", {"a": 1, "b": 2}).content[0]["text"] == "3"
