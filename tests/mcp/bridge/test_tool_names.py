"""Names that providers take."""

from __future__ import annotations

import re

from yiemagent.mcp.tool_names import legal_tool_names


def test_legal_names_stay_as_they_are() -> None:
    """Nothing is changed without need."""
    assert legal_tool_names(["get_weather", "a-b", "X9"]) == {
        "get_weather": "get_weather",
        "a-b": "a-b",
        "X9": "X9",
    }


def test_other_characters_become_underscores() -> None:
    """Case C-15."""
    names = legal_tool_names(["files.read", "größe", "a b/c"])
    assert names == {"files.read": "files_read", "größe": "gr__e", "a b/c": "a_b_c"}


def test_names_that_would_become_equal_are_told_apart_by_a_hash() -> None:
    """Mapped both ways: every name stays unique, the legal one keeps its own."""
    names = legal_tool_names(["a.b", "a/b", "a_b"])
    assert names["a_b"] == "a_b"
    assert len(set(names.values())) == 3
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", names["a.b"])
    assert legal_tool_names(["a_b", "a/b", "a.b"]) == names


def test_long_names_are_cut_and_end_in_a_hash() -> None:
    """64 characters; names with a common beginning stay apart."""
    long = "x" * 70
    names = legal_tool_names([long + "1", long + "2"])
    assert len(set(names.values())) == 2
    assert all(len(name) == 64 for name in names.values())


def test_a_prefix_counts_for_the_length_and_is_made_legal_too() -> None:
    """E-04: server__tool."""
    assert legal_tool_names(["read"], "my server__") == {"read": "my_server__read"}
    assert len(legal_tool_names(["y" * 60], "server__")["y" * 60]) == 64


def test_a_name_of_nothing_but_other_characters_is_still_a_name() -> None:
    """Some servers name tools in other scripts only."""
    names = legal_tool_names(["天気", "天候"])
    assert len(set(names.values())) == 2
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names.values())
