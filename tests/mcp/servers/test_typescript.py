"""Version 2 of the TypeScript SDK, both eras on stdio."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest

from yiemagent.mcp.stdio import McpStdio

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

SERVER = str(pathlib.Path(__file__).with_name("typescript_server.mjs"))


@pytest.mark.parametrize("era", ["auto", "2026-07-28", "2025-11-25", "2025-06-18"])
def test_everything_it_offers_works(npm_servers: Any, era: str) -> None:
    """Issue 5: both eras; quirk 1: an unknown tool is a JSON-RPC error here."""
    with McpStdio(shutil.which("node") or "node", [SERVER], era=era) as client:
        assert client.connect().protocol_version == ("2026-07-28" if era == "auto" else era)
        assert [tool.name for tool in client.list_tools()] == ["add", "fail"]
        assert client.call_tool("add", {"a": 1, "b": 2.5}).text == "3.5"
        failed = client.call_tool("fail")
        assert (failed.is_error, failed.text) == (True, "kaboom")
        assert client("tools/call", "nothing", {}, "s")["error"]["code"] == -32602
        assert client.read_resource("data://greeting")[0].text == "hello"
        assert client.read_resource("data://item/7")[0].text == "item 7"
        assert [resource.uri for resource in client.list_resources()] == ["data://greeting"]
        assert [t.uri_template for t in client.list_resource_templates()] == ["data://item/{number}"]
        assert [prompt.name for prompt in client.list_prompts()] == ["hello"]
        assert client.get_prompt("hello").messages[0]["content"]["text"] == "Say hello"
        client.ping()
