"""server-filesystem and server-memory: every tool they offer, over stdio."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.errors import McpError
from yiemagent.mcp.stdio import McpStdio

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]


@pytest.fixture
def run(npm_servers: pathlib.Path) -> Iterator[Callable[..., McpStdio]]:
    """Makes a client of one of the npm servers."""
    clients: list[McpStdio] = []

    def make(name: str, *args: str, **options: Any) -> McpStdio:
        program = str(npm_servers / name / "dist" / "index.js")
        clients.append(McpStdio(shutil.which("node") or "node", [program, *args], **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close(timeout=0.5)


def test_every_tool_of_filesystem_works(run: Any, tmp_path: pathlib.Path) -> None:
    """All have an outputSchema; quirk 6: structuredContent repeats the content."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    folder = tmp_path / "folder"
    a, b, c = (str(tmp_path / name) for name in ("a.txt", "b.txt", "c.txt"))
    client = run("server-filesystem", str(tmp_path))
    steps: list[tuple[str, dict[str, Any], str]] = [
        ("list_allowed_directories", {}, str(tmp_path)),
        ("read_text_file", {"path": a}, "one\ntwo"),
        ("read_file", {"path": a, "head": 1}, "one"),
        ("read_media_file", {"path": str(tmp_path / "dot.png")}, ""),
        ("read_multiple_files", {"paths": [a, str(tmp_path / "nothing")]}, "Error"),
        ("write_file", {"path": b, "content": "three"}, "Successfully wrote"),
        ("edit_file", {"path": b, "edits": [{"oldText": "three", "newText": "four"}]}, "+four"),
        ("create_directory", {"path": str(folder)}, "Successfully created"),
        ("list_directory", {"path": str(tmp_path)}, "[DIR] folder"),
        ("list_directory_with_sizes", {"path": str(tmp_path)}, "Total"),
        ("directory_tree", {"path": str(tmp_path)}, '"folder"'),
        ("move_file", {"source": b, "destination": c}, "Successfully moved"),
        ("search_files", {"path": str(tmp_path), "pattern": "*.txt"}, "c.txt"),
        ("get_file_info", {"path": c}, "size: 4"),
    ]
    tools = {tool.name: tool for tool in client.list_tools()}
    assert set(tools) == {name for name, _, _ in steps}
    assert all(tool.output_schema for tool in tools.values())
    for name, arguments, text in steps:
        result = client.call_tool(name, arguments)
        assert (name, result.is_error, result.warnings) == (name, False, ())
        assert text in result.text
    assert (tmp_path / "c.txt").read_text() == "four"
    denied = client.call_tool("read_text_file", {"path": "/etc/passwd"})
    assert denied.is_error
    assert "Access denied" in denied.text


def test_what_filesystem_does_not_have_is_empty_or_an_error(run: Any, tmp_path: pathlib.Path) -> None:
    """Quirk 15: resources and prompts are -32601."""
    client = run("server-filesystem", str(tmp_path))
    assert client.list_resources() == ()
    assert client.list_prompts() == ()
    with pytest.raises(McpError):
        client.read_resource("file:///x")


def test_filesystem_asks_for_its_folders(run: Any, tmp_path: pathlib.Path) -> None:
    """Quirk 8: without an argument it asks for roots right after the handshake."""
    (tmp_path / "a.txt").write_text("one")
    client = run("server-filesystem", roots=[tmp_path])
    client.connect()
    for _ in range(100):  # it learns them a moment after our handshake is over
        result = client.call_tool("list_allowed_directories")
        if str(tmp_path) in result.text:
            break
    assert client.call_tool("read_text_file", {"path": str(tmp_path / "a.txt")}).text == "one"


def test_every_tool_of_memory_works(run: Any, tmp_path: pathlib.Path) -> None:
    """9 tools, 1 resource."""
    client = run("server-memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")})
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    bob = {"name": "Bob", "entityType": "person", "observations": []}
    knows = {"from": "Ada", "to": "Bob", "relationType": "knows"}
    steps: list[tuple[str, dict[str, Any], str]] = [
        ("create_entities", {"entities": [ada, bob]}, "Ada"),
        ("create_relations", {"relations": [knows]}, "knows"),
        ("add_observations", {"observations": [{"entityName": "Bob", "contents": ["sings"]}]}, "sings"),
        ("read_graph", {}, "writes programs"),
        ("search_nodes", {"query": "sings"}, "Bob"),
        ("open_nodes", {"names": ["Ada"]}, "Ada"),
        ("delete_observations", {"deletions": [{"entityName": "Bob", "observations": ["sings"]}]}, "deleted"),
        ("delete_relations", {"relations": [knows]}, "deleted"),
        ("delete_entities", {"entityNames": ["Bob"]}, "deleted"),
    ]
    assert {tool.name for tool in client.list_tools()} == {name for name, _, _ in steps}
    for name, arguments, text in steps:
        result = client.call_tool(name, arguments)
        assert (name, result.is_error, result.warnings) == (name, False, ())
        assert text in result.text
    graph = client.call_tool("read_graph").structured
    assert [entity["name"] for entity in graph["entities"]] == ["Ada"]
    for resource in client.list_resources():
        assert client.read_resource(resource.uri)[0].text is not None
    assert json.loads((tmp_path / "memory.jsonl").read_text().splitlines()[0])["name"] == "Ada"
