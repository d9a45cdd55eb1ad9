"""fastmcp's server: every tool, resource and prompt, in both eras, over stdio and HTTP."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.mcp.bridge import ToolSource
from yiemagent.messages import ImageContent

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

SERVER = str(pathlib.Path(__file__).with_name("fastmcp_server.py"))


@pytest.fixture(scope="module", params=["stdio", "http"])
def wire(request: pytest.FixtureRequest) -> str:
    """How the server is reached."""
    return str(request.param)


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the client passed on of progress and logs."""
    return []


@pytest.fixture(scope="module", params=["2026-07-28", "2025-11-25"])
def client(
    request: pytest.FixtureRequest, wire: str, peer_python: str, reach_once: Any, said: list[str]
) -> Any:
    """A client of the server, for all tests of one wire and era."""
    return reach_once(
        wire,
        [peer_python, SERVER],
        era=request.param,
        name="fast",
        on_elicitation=lambda question: {"value": "Grace"},
        event_sink=lambda text, publish=False: said.append(text),
    )


def test_every_tool_answers_as_it_should(client: Any) -> None:
    """Quirks 1 to 6, 18; field problem 38."""
    modern = client.connect().protocol_version == "2026-07-28"
    answers = {
        "add": ({"a": 1, "b": 2}, "3", False),
        "fail": ({}, "Error calling tool 'fail': kaboom", True),
        "image": ({}, "", False),
        "audio": ({}, "", False),
        "wine": ({}, '{"name":"Barolo","year":2016}', False),
        "names": ({}, '["a","b"]', False),
        "slow": ({"steps": 2}, "done", False),
        "ask": ({}, None, modern),
        "noisy": ({}, "ok", False),
        "big": ({"kilobytes": 200}, "x" * 200 * 1024, False),
    }
    tools = client.list_tools()
    assert {tool.name for tool in tools} == set(answers)
    for tool in tools:
        arguments, text, is_error = answers[tool.name]
        result = client.call_tool(tool.name, arguments)
        assert (tool.name, result.is_error, result.warnings) == (tool.name, is_error, ())
        if text is not None:
            assert result.text == text
    if not modern:  # Quirk 13: this server can only ask in the older era.
        assert client.call_tool("ask").text == "accept: Grace"


def test_the_model_reads_pictures_sounds_and_structured_values(client: Any) -> None:
    """Quirks 4, 5, 6; field problem 41."""
    tools = {tool.name: tool for tool in ToolSource(client, watch=False).tools()}

    def run(name: str) -> Any:
        return tools[name].execute("c", {}, AbortSignal(), lambda partial: None)

    (picture,) = run("image").content
    assert isinstance(picture, ImageContent)
    assert picture.mime_type == "image/png"
    assert run("audio").text == "[audio, audio/wav, 12 bytes, not readable here]"
    assert run("wine").text == '{"name":"Barolo","year":2016}'
    assert run("names").text == '["a","b"]'
    assert run("names").details["structured_content"] == {"result": ["a", "b"]}
    assert tools["wine"].output_schema is not None


def test_every_resource_and_prompt_is_there(client: Any) -> None:
    """Issue 5: every tool, resource and prompt they offer."""
    assert [resource.uri for resource in client.list_resources()] == ["data://greeting"]
    assert [template.uri_template for template in client.list_resource_templates()] == [
        "data://item/{number}"
    ]
    assert client.read_resource("data://greeting")[0].text == "hello"
    assert client.read_resource("data://item/7")[0].text == "item 7"
    (prompt,) = client.list_prompts()
    messages = client.get_prompt(prompt.name, {"topic": "wine"}).messages
    assert messages[0]["content"]["text"] == "Tell me about wine"


def test_progress_and_logs_are_heard(client: Any, said: list[str]) -> None:
    """Quirks 10, 13: logs on the modern wire only where they are asked for."""
    said.clear()
    client.call_tool("slow", {"steps": 2})
    assert [line for line in said if "step" in line] == ["[fast] 1/2: step 1", "[fast] 2/2: step 2"]
    assert sum("log 1" in line for line in said) == 1
