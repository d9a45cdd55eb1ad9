"""Lists of several pages."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from yiemagent.mcp.paging import MAX_PAGES, collect_pages


def _pages(*pages: tuple[list[str], Any]) -> tuple[list[Any], Any]:
    """A fetch function over pages of names and next cursors, and the cursors it was asked for."""
    asked: list[Any] = []
    rest = iter(pages)

    def fetch(cursor: Any) -> Mapping[str, Any]:
        asked.append(cursor)
        names, following = next(rest)
        result: dict[str, Any] = {"tools": [{"name": name} for name in names]}
        return result if following is ... else {**result, "nextCursor": following}

    return asked, fetch


def _collect(fetch: Any, **options: Any) -> list[str]:
    found = collect_pages(fetch, items="tools", identity="name", label="test", **options)
    return [member["name"] for member in found]


def test_pages_are_followed_to_the_end() -> None:
    """Field problem 37; decision 31: a missing or null cursor ends."""
    asked, fetch = _pages((["a", "b"], "x"), (["c"], "y"), (["d"], None))
    assert _collect(fetch) == ["a", "b", "c", "d"]
    assert asked == [None, "x", "y"]
    assert _collect(_pages((["a"], ...))[1]) == ["a"]


def test_an_empty_cursor_is_a_cursor_in_the_specification() -> None:
    """Protocol 2026-07-28; E-02."""
    asked, fetch = _pages((["a"], ""), (["b"], None))
    assert _collect(fetch) == ["a", "b"]
    assert asked == [None, ""]


def test_an_empty_cursor_that_leads_to_itself_is_followed_once() -> None:
    """E-02: never loop."""
    _, fetch = _pages((["a"], ""), (["b"], ""))
    assert _collect(fetch) == ["a", "b"]


def test_an_empty_cursor_ends_in_the_julia_dialect() -> None:
    """Decision 31."""
    asked, fetch = _pages((["a"], ""))
    assert _collect(fetch, empty_cursor_ends=True) == ["a"]
    assert asked == [None]


def test_a_cursor_keeps_its_type() -> None:
    """E-03, WT-020: nextCursor => 123."""
    asked, fetch = _pages((["a"], 123), (["b"], None))
    assert _collect(fetch) == ["a", "b"]
    assert asked == [None, 123]


def test_a_cursor_that_never_advances_ends_the_list_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """E-01, field problem 36: 170,000 requests in 55 s elsewhere."""
    asked: list[Any] = []

    def fetch(cursor: Any) -> Mapping[str, Any]:
        asked.append(cursor)
        return {"tools": [{"name": "a"}, {"name": "b"}], "nextCursor": "8"}

    with caplog.at_level(logging.WARNING):
        assert _collect(fetch) == ["a", "b"]
    assert asked == [None, "8"]
    assert [record.getMessage() for record in caplog.records] == [
        "server=test | tools ends here with 2 members: the cursor '8' came twice"
    ]


def test_a_list_ends_after_a_thousand_pages_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Decision 31."""
    numbers = itertools.count()

    def fetch(cursor: Any) -> Mapping[str, Any]:
        number = next(numbers)
        return {"tools": [{"name": f"t{number}"}], "nextCursor": str(number)}

    assert len(_collect(fetch)) == MAX_PAGES
    assert "1,000 pages" in caplog.text


def test_members_without_a_name_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """E-03: one broken member must not cost the others."""

    def fetch(cursor: Any) -> Mapping[str, Any]:
        return {"tools": [{"name": "a"}, {"title": "no name"}, "text", {"name": ""}, {"name": 7}]}

    assert _collect(fetch) == ["a"]
    assert "without name" in caplog.text


@pytest.mark.parametrize("result", [{}, {"tools": None}, {"tools": {"name": "a"}}])
def test_a_result_without_a_list_is_an_empty_list(result: Mapping[str, Any]) -> None:
    """E-03."""
    assert _collect(lambda cursor: result) == []


def test_the_first_of_two_members_with_one_name_stays(caplog: pytest.LogCaptureFixture) -> None:
    """E-04: nothing is replaced in silence."""
    _, fetch = _pages((["a", "b", "a"], None))
    assert _collect(fetch) == ["a", "b"]
    assert "names more than once: a" in caplog.text


def test_the_older_spelling_of_the_cursor_is_read() -> None:
    """E-03: next_cursor."""
    pages = iter([{"tools": [{"name": "a"}], "next_cursor": "x"}, {"tools": [{"name": "b"}]}])
    assert _collect(lambda cursor: next(pages)) == ["a", "b"]
