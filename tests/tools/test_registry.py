"""Tools by name, and by what models make of names."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.tools.registry import ToolRegistry, register_tool
from yiemagent.tools.tool import Tool


def named(name: str) -> Tool:
    return Tool(name=name, execute=lambda i, a, s, u: None)


def search_wine(query: str) -> str:
    """Search."""
    return query


def test_tools_stay_in_the_order_given() -> None:
    """The prompt's cache depends on it."""
    tools = [named("b"), search_wine, named("a")]

    registry = ToolRegistry(tools)

    assert registry.names == ("b", "search_wine", "a")
    assert [tool.name for tool in registry] == ["b", "search_wine", "a"]
    assert registry.specs[0] is tools[0]
    assert len(registry) == 3
    assert "a" in registry
    assert repr(registry) == "<ToolRegistry b, search_wine, a>"
    assert repr(ToolRegistry()) == "<ToolRegistry empty>"


def test_a_function_becomes_the_same_tool_each_time() -> None:
    """Agents made per request read a signature once."""
    assert ToolRegistry([search_wine]).specs[0] is ToolRegistry([search_wine]).specs[0]


def test_a_mapping_and_a_registry_are_lists_of_their_tools() -> None:
    """The Julia design keeps tools in a dict."""
    registry = ToolRegistry({"a": named("a"), "b": named("b")})

    assert ToolRegistry(registry).names == ("a", "b")


def test_the_same_tool_twice_is_one_tool() -> None:
    """Only different tools of one name are a mistake."""
    tool = named("a")

    assert ToolRegistry([tool, tool]).names == ("a",)


def test_two_tools_of_one_name_are_refused_and_both_are_named() -> None:
    """Issue 2: the message names the thing and the way out."""
    with pytest.raises(ConfigurationError, match="two tools are named 'search_wine'") as caught:
        ToolRegistry([search_wine, named("search_wine")])
    assert "search_wine and" in str(caught.value)
    assert "named.<locals>.<lambda>" in str(caught.value)


@pytest.mark.parametrize("tools", ["search", search_wine, named("a"), 5, None])
def test_what_is_no_list_is_refused(tools: Any) -> None:
    """A tool alone is forgotten brackets."""
    with pytest.raises(ConfigurationError, match=r"write tools=\[\.\.\.\]"):
        ToolRegistry(tools)


def test_what_is_no_tool_is_refused() -> None:
    """Classes and values are no tools."""
    with pytest.raises(ConfigurationError, match="is no tool"):
        ToolRegistry([5])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("read_file", "read_file"),
        ("  read_file  ", "read_file"),
        (" read_file ", "read_file"),
        ("write\t\t\tfile", "write_file"),
        ("write　file", "write_file"),
        ("list files", "list-files"),
        ("read_file<|channel|>commentary", "read_file"),
        ("functions.read_file", "read_file"),
        ("functions. read_file <|x", "read_file"),
        ("default_api.read_file", "read_file"),
        ("Read_File", "read_file"),
        ("functions.READ_FILE<|end|>", "read_file"),
        ("LOOKUP", None),
        ("Lookup", "Lookup"),
        ("read", None),
        ("", None),
        ("<|channel|>", None),
        ("functions.", None),
        (None, None),
        (5, None),
    ],
)
def test_a_name_is_found_as_the_model_meant_it(written: Any, meant: str | None) -> None:
    """Decoding rule 8, TC-8, T141, cases A-59 and A-82."""
    registry = ToolRegistry([named(n) for n in ("read_file", "write_file", "list-files", "Lookup", "lookup")])

    found = registry.resolve(written)

    assert (found.name if found else None) == meant


def test_get_takes_the_exact_name_only() -> None:
    """Hooks and approval lists compare exact names (case A-82)."""
    registry = ToolRegistry([named("read_file")])

    assert registry.get("read_file") is registry.specs[0]
    assert registry.get("Read_File") is None


def test_an_unknown_tool_is_named_with_those_that_exist() -> None:
    """TC-9, architecture section 5: the text starts with the design's words."""
    registry = ToolRegistry([named("read_file"), named("other")])

    assert registry.not_found_text("read_fil") == (
        "Tool read_fil not found. Did you mean read_file? Known tools: read_file, other"
    )
    assert registry.not_found_text("xyz") == "Tool xyz not found. Known tools: read_file, other"
    assert ToolRegistry().not_found_text("xyz") == "Tool xyz not found. There are no tools."


def test_the_text_for_an_unknown_tool_is_bounded() -> None:
    """Case C-51: a name may be a novel, and there may be a hundred tools."""
    text = ToolRegistry([named(f"tool_{n}") for n in range(100)]).not_found_text("\udc97" * 5000)

    assert len(text) < 1200
    assert text.endswith("tool_49, ...")
    text.encode()


def test_register_tool_adds_to_a_dict_or_a_list() -> None:
    """``registerTool`` of the Julia design."""
    by_name: dict[str, Tool] = {}
    listed: list[Any] = [search_wine]

    made = register_tool(by_name, search_wine)
    register_tool(listed, named("other"))
    register_tool(listed, listed[1])

    assert by_name == {"search_wine": made}
    assert [getattr(item, "name", None) for item in listed] == [None, "other"]


def test_register_tool_refuses_a_second_tool_of_a_name() -> None:
    """As the registry does."""
    for tools in ({"a": named("a")}, [named("a")]):
        with pytest.raises(ConfigurationError, match="two tools are named 'a'"):
            register_tool(tools, named("a"))
