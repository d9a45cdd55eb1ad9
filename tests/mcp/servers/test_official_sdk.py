"""The official SDK's server: every tool, resource and prompt, in both eras, over stdio and HTTP."""

from __future__ import annotations

import pathlib
import threading
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpError, McpTimeout, RunAborted
from yiemagent.mcp.bridge import ToolSource
from yiemagent.testing import run_in_thread

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

SERVER = str(pathlib.Path(__file__).with_name("sdk_server.py"))
OPTIONS: dict[str, Any] = {
    "on_elicitation": lambda question: {"name": "Grace"},
    "on_sampling": lambda question: "word",
    "roots": ["/tmp"],
}


@pytest.fixture(scope="module", params=["stdio", "http"])
def wire(request: pytest.FixtureRequest) -> str:
    """How the server is reached."""
    return str(request.param)


@pytest.fixture(scope="module", params=["2026-07-28", "2025-11-25"])
def client(request: pytest.FixtureRequest, wire: str, peer_python: str, reach_once: Any) -> Any:
    """A client of the server, for all tests of one wire and era."""
    return reach_once(wire, [peer_python, SERVER], era=request.param, **OPTIONS)


def test_every_tool_answers_as_it_should(client: Any) -> None:
    """Field problems 1, 37; questions in both eras (MRTR, and requests of the server's)."""
    answers = {
        "add": ({"a": 1, "b": 2}, "3", False),
        "fail": ({}, "Error executing tool fail", True),
        "person": ({}, '{\n  "name": "Ada",\n  "age": 36\n}', False),
        "greet": ({}, "Hello Grace, 36", False),
        "word": ({}, "word", False),
        "folders": ({}, "file:///tmp", False),
        "slow": ({"steps": 2}, "done", False),
        "sleep": ({"seconds": 0}, "slept", False),
        "grow": ({}, "grown", False),
        "touch": ({}, "touched", False),
    }
    tools = client.list_tools()
    assert {tool.name for tool in tools} == set(answers)
    for tool in tools:
        arguments, text, is_error = answers[tool.name]
        result = client.call_tool(tool.name, arguments)
        assert (tool.name, result.text, result.is_error, result.warnings) == (tool.name, text, is_error, ())
    assert client.call_tool("extra").text == "extra"  # Which came with "grow", and is gone now.


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
    with pytest.raises(McpError):
        client.read_resource("data://nothing")
    assert client.connect().instructions == "A server on the official SDK."
    client.ping()


def test_bad_arguments_and_unknown_tools_are_errors_for_the_model(client: Any) -> None:
    """Quirks 1, 2."""
    assert client.call_tool("add", {"a": "x"}).is_error
    unknown = client("tools/call", "nothing", {}, "s")
    assert "error" in unknown or unknown["result"]["isError"]


def test_progress_arrives_in_order(client: Any) -> None:
    """Issue 5 part 2."""
    heard: list[str] = []
    client.call_tool("slow", {"steps": 3}, on_progress=lambda progress: heard.append(str(progress)))
    assert heard == ["1/3: step 1", "2/3: step 2", "3/3: step 3"]


def test_a_call_that_takes_too_long_is_left_and_the_client_goes_on(client: Any) -> None:
    """Field problems 26, 27."""
    with pytest.raises(McpTimeout):
        client.call_tool("sleep", {"seconds": 60}, timeout=0.3)
    assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


def test_an_abort_leaves_a_call(client: Any) -> None:
    """Issue 5 part 6."""
    signal = AbortSignal()
    outcome = run_in_thread(client.call_tool, "sleep", {"seconds": 60}, signal=signal)
    client.ping()
    signal.abort()
    with pytest.raises(RunAborted):
        outcome.get()


def test_tools_that_come_later_are_found_between_turns(wire: str, peer_python: str, reach: Any) -> None:
    """E-15: over subscriptions/listen, since 2026-07-28."""
    client = reach(wire, [peer_python, SERVER], era="modern")
    source = ToolSource(client)
    source.refresh_if_changed()
    assert "extra" not in {tool.name for tool in source.tools()}
    changed = threading.Event()
    before = client.changes("tools")
    client.call_tool("grow")
    for _ in range(200):
        if client.changes("tools") > before:
            break
        changed.wait(0.02)
    assert source.refresh_if_changed()
    assert "extra" in {tool.name for tool in source.tools()}
    source.close()


@pytest.mark.parametrize("client", ["2026-07-28"], indirect=True)
def test_an_updated_resource_is_told(client: Any) -> None:
    """Protocol 2026-07-28: resourceSubscriptions."""
    updated = threading.Event()
    with client.subscribe("data://greeting", lambda uri: updated.set()):
        client.call_tool("touch")
        assert updated.wait(5)


def test_the_newest_era_is_found_by_asking(wire: str, peer_python: str, reach: Any) -> None:
    """Protocol 2026-07-28: the probe."""
    assert reach(wire, [peer_python, SERVER]).connect().protocol_version == "2026-07-28"
