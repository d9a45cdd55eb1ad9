"""server-everything: all 17 tools, its resources and prompts, over stdio and HTTP (protocol 2025-11-25)."""

from __future__ import annotations

import os
import pathlib
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.mcp.bridge import ToolSource
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.elicitation import ElicitationRequest
from yiemagent.mcp.http import McpHttp
from yiemagent.mcp.stdio import McpStdio
from yiemagent.messages import ImageContent, TextContent

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

ANSWERS: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "echo": ({"message": "hi"}, "Echo: hi", ["text"]),
    "get-annotated-message": (
        {"messageType": "error", "includeImage": True},
        "Error: Operation failed",
        ["text", "image"],
    ),
    "get-env": ({}, '"PATH"', ["text"]),
    "get-resource-links": ({"count": 2}, "Here are 2 resource links", ["text"] + ["resource_link"] * 2),
    "get-resource-reference": (
        {"resourceType": "Text", "resourceId": 1},
        "Returning resource reference",
        ["text", "resource", "text"],
    ),
    "get-structured-content": ({"location": "New York"}, '"temperature":33', ["text"]),
    "get-sum": ({"a": 1, "b": 2}, "The sum of 1 and 2 is 3.", ["text"]),
    "get-tiny-image": ({}, "The image above is the MCP logo.", ["text", "image", "text"]),
    "gzip-file-as-resource": (
        {"name": "x.gz", "data": "data:text/plain;base64,aGVsbG8="},
        "",
        ["resource_link"],
    ),
    "trigger-long-running-operation": (
        {"duration": 0.2, "steps": 2},
        "Long running operation completed",
        ["text"],
    ),
    "get-roots-list": ({}, "file:///tmp", ["text"]),
    "trigger-elicitation-request": ({}, "Grace", ["text", "text", "text"]),
    "trigger-url-elicitation": (
        {"url": "https://login.example/x"},
        "User completed the URL elicitation flow",
        ["text", "text"],
    ),
    "trigger-sampling-request": ({"prompt": "p", "maxTokens": 5}, "a sampled word", ["text"]),
    "simulate-research-query": ({"topic": "wine"}, "# Research Report: wine", ["text"]),
    "toggle-simulated-logging": ({}, "Started simulated", ["text"]),
    "toggle-subscriber-updates": ({}, "Started simulated resource updated", ["text"]),
}
"""Arguments, a part of the text, and the types of the blocks."""


def _on_elicitation(question: ElicitationRequest) -> Any:
    return True if question.mode == "url" else {"name": "Grace", "check": True}


OPTIONS: dict[str, Any] = {
    "on_elicitation": _on_elicitation,
    "on_sampling": lambda question: "a sampled word",
    "roots": ["/tmp"],
    "name": "everything",
}


@pytest.fixture(scope="module")
def program(npm_servers: pathlib.Path) -> list[str]:
    """The command line, without the wire."""
    return [shutil.which("node") or "node", str(npm_servers / "server-everything" / "dist" / "index.js")]


@pytest.fixture(scope="module")
def url(program: list[str], http_server: Any) -> str:
    """The server over HTTP, where each client has a session of its own."""
    port = http_server(lambda port: [*program, "streamableHttp"], dict(os.environ))
    return f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(params=["stdio", "http"])
def make(request: Any, program: list[str]) -> Iterator[Callable[..., McpClient]]:
    """Makes clients of the server."""
    clients: list[McpClient] = []

    def make(**options: Any) -> McpClient:
        if request.param == "stdio":
            clients.append(McpStdio(program[0], [program[1], "stdio"], **options))
        else:
            clients.append(McpHttp(request.getfixturevalue("url"), **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close(timeout=0.5)


def test_every_tool_answers_as_it_should(make: Any) -> None:
    """Quirks 3 to 8, 14, 16; field problems 41, 43; E-05, E-25."""
    client = make(**OPTIONS)
    assert client.connect().protocol_version == "2025-11-25"
    tools = {tool.name: tool for tool in client.list_tools()}
    assert set(tools) == set(ANSWERS)
    for name, (arguments, text, kinds) in ANSWERS.items():
        result = client.call_tool(name, arguments)
        assert (name, result.is_error, result.warnings) == (name, False, ())
        assert text in result.text
        assert [block["type"] for block in result.content] == kinds
    client.call_tool("toggle-simulated-logging")
    client.call_tool("toggle-subscriber-updates")


def test_the_tools_that_are_offered_depend_on_what_the_client_can_do(make: Any) -> None:
    """Quirk 13: 13 tools, 4 more with roots, elicitation and sampling."""
    plain = {tool.name for tool in make().list_tools()}
    assert set(ANSWERS) - plain == {
        "get-roots-list",
        "trigger-elicitation-request",
        "trigger-url-elicitation",
        "trigger-sampling-request",
    }


def test_every_resource_and_prompt_is_there(make: Any) -> None:
    """Quirk 21: blob without text; unknown resources; completions."""
    client = make()
    resources = client.list_resources()
    assert len(resources) == 7
    for resource in resources:
        (part,) = client.read_resource(resource.uri)
        assert part.text
    templates = [template.uri_template for template in client.list_resource_templates()]
    assert templates == [
        "demo://resource/dynamic/text/{resourceId}",
        "demo://resource/dynamic/blob/{resourceId}",
    ]
    assert "Resource 1" in (client.read_resource("demo://resource/dynamic/text/1")[0].text or "")
    assert client.read_resource("demo://resource/dynamic/blob/2")[0].blob
    arguments = {
        "simple-prompt": {},
        "args-prompt": {"city": "Bangkok", "state": "x"},
        "completable-prompt": {"department": "Engineering", "name": "Alice"},
        "resource-prompt": {"resourceType": "Text", "resourceId": "1"},
    }
    prompts = client.list_prompts()
    assert {prompt.name for prompt in prompts} == set(arguments)
    for prompt in prompts:
        assert client.get_prompt(prompt.name, arguments[prompt.name]).messages
    completion = client.complete("department", "E", prompt="completable-prompt")
    assert completion.values == ("Engineering",)
    assert client.complete("resourceId", "1", resource=templates[0]).values == ("1",)
    client.ping()
    client.set_log_level("error")


def test_bad_arguments_and_unknown_tools_are_errors_for_the_model(make: Any) -> None:
    """Quirks 1, 2: isError with a long text."""
    client = make()
    assert client.call_tool("get-sum", {"a": "x"}).is_error
    assert client.call_tool("nothing").is_error


def test_progress_is_heard(make: Any) -> None:
    """Quirk 10."""
    heard: list[str] = []
    arguments = {"duration": 0.2, "steps": 4}
    client = make()
    client.call_tool("trigger-long-running-operation", arguments, on_progress=lambda p: heard.append(str(p)))
    assert heard == ["1/4", "2/4", "3/4", "4/4"]


def test_a_resource_can_be_subscribed_to(make: Any) -> None:
    """resources/subscribe and its updates."""
    client = make()
    updated = threading.Event()
    uri = "demo://resource/static/document/features.md"
    with client.subscribe(uri, lambda told: updated.set()):
        client.call_tool("toggle-subscriber-updates")
        assert updated.wait(15)  # the server tells every five seconds
        client.call_tool("toggle-subscriber-updates")


def test_the_model_reads_what_there_is_to_read(make: Any) -> None:
    """E-25 on a real server; annotations reach the tool."""
    source = ToolSource(make(), watch=False)
    tools = {tool.name: tool for tool in source.tools()}

    def run(name: str) -> Any:
        return tools[name].execute("c", dict(ANSWERS[name][0]), AbortSignal(), lambda partial: None)

    blocks = run("get-tiny-image").content
    assert [type(block) for block in blocks] == [TextContent, ImageContent, TextContent]
    assert "[resource demo://resource/dynamic/text/1]" in run("get-resource-reference").text
    assert "[link to demo://" in run("get-resource-links").text
    assert run("get-structured-content").text.count("temperature") == 1


def test_a_server_that_does_not_end_at_eof_is_ended(program: list[str]) -> None:
    """Field problem 10, quirk 16: its own timers keep it alive."""
    client = McpStdio(program[0], [program[1], "stdio"])
    client.call_tool("toggle-simulated-logging")
    client.close(timeout=0.3)
    assert client.pid is None
