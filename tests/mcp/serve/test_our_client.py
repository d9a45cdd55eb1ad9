"""Our client half against our server half, over stdio and HTTP, in every version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpError, McpTimeout, RunAborted
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.http import HttpTransport
from yiemagent.mcp.serve_http_runner import HttpServing
from yiemagent.mcp.stdio import StdioTransport

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


@pytest.fixture(params=[pytest.param("stdio", marks=pytest.mark.servers), "http"])
def client(
    request: pytest.FixtureRequest, stdio_command: list[str], http: HttpServing
) -> Iterator[Callable[..., McpClient]]:
    """Makes clients; closes them with the test."""
    made: list[McpClient] = []

    def make(**options: Any) -> McpClient:
        if request.param == "stdio":
            transport: Any = StdioTransport(stdio_command[0], stdio_command[1:])
        else:
            transport = HttpTransport(http.url)
        made.append(McpClient(transport, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_newest_version_is_found_without_being_told(client: Any) -> None:
    """2026-07-28 versioning: server/discover first."""
    info = client().connect()

    assert (info.name, info.version, info.protocol_version) == ("served", "1.2", "2026-07-28")
    assert info.instructions == "Be kind."


@pytest.mark.parametrize("version", VERSIONS)
def test_tools_are_listed_and_called_in_every_version(client: Any, version: str) -> None:
    """Issue 5 part 5: both halves in both eras."""
    mcp = client(era=version)

    assert mcp.connect().protocol_version == version
    assert [tool.name for tool in mcp.list_tools()] == [
        "add",
        "boom",
        "noisy",
        "count",
        "sleep",
        "mixed",
        "forecast",
    ]
    assert mcp.call_tool("add", {"a": 20, "b": 22}).content[0]["text"] == "42"
    assert mcp.call_tool("boom").is_error
    with pytest.raises(McpError, match="Unknown tool: nothing") as caught:
        mcp.call_tool("nothing")
    assert caught.value.code == -32602


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_everything_that_is_offered_arrives(client: Any, era: str) -> None:
    """Structured results, blocks, resources, templates and prompts."""
    mcp = client(era=era)
    mcp.list_tools()

    assert mcp.call_tool("forecast", {"city": "Rome"}).structured == {"degrees": 21.5}
    kinds = [block["type"] for block in mcp.call_tool("mixed").content]
    assert kinds == ["text", "image", "audio", "resource_link"]
    assert [resource.uri for resource in mcp.list_resources()] == ["memo://today", "memo://pixel"]
    assert [template.uri_template for template in mcp.list_resource_templates()] == ["memo://day/{day}"]
    assert mcp.read_resource("memo://today")[0].text == "buy wine"
    assert [prompt.name for prompt in mcp.list_prompts()] == ["about"]
    assert mcp.get_prompt("about", {"topic": "oak"}).messages
    mcp.ping()


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_progress_arrives_in_order(client: Any, era: str) -> None:
    """Progress of a call."""
    steps: list[Any] = []

    client(era=era).call_tool("count", {"to": 3}, on_progress=steps.append)

    assert [(step.progress, step.total, step.message) for step in steps] == [
        (1, 3, "step 1"),
        (2, 3, "step 2"),
        (3, 3, "step 3"),
    ]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_call_can_be_left_and_the_next_one_works(client: Any, era: str) -> None:
    """Issue 5 part 6: abort and timeout, the server goes on."""
    mcp = client(era=era)
    signal = AbortSignal()

    with pytest.raises(RunAborted):
        mcp.call_tool("sleep", on_progress=lambda progress: signal.abort(), signal=signal)
    with pytest.raises(McpTimeout):
        mcp.call_tool("sleep", timeout=0.1)

    assert mcp.call_tool("add", {"a": 1, "b": 1}).content[0]["text"] == "2"
