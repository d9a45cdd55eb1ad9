"""Descriptions from docstrings as people write them."""

from __future__ import annotations

import pytest

from yiemagent.tools.docstring import Docstring, parse_docstring

GOOGLE = """Search the wine inventory.

    Looks at name, region
    and notes.

    Args:
        query (str): Tasting notes, grape or region.
        max_results (Optional[int], optional): How many wines
            to return at most.
        *filters: More words: all must match.
        bare:

    Returns:
        One line per wine.

    Raises:
        ValueError: Never.

    Example:
        >>> search("oak")
    """

NUMPY = """Search the wine inventory.

    Looks at name, region
    and notes.

    Parameters
    ----------
    query : str
        Tasting notes, grape or region.
    max_results, limit : int, optional
        How many wines
        to return at most.
    bare

    Returns
    -------
    str
        One line per wine.

    See Also
    --------
    other : nothing
    """

REST = """Search the wine inventory.

    Looks at name, region
    and notes.

    :param query: Tasting notes, grape or region.
    :type query: str
    :param int max_results: How many wines
        to return at most.
    :returns: One line per wine,
        or none.
    :raises ValueError: Never.
    """

DESCRIPTION = "Search the wine inventory.\n\nLooks at name, region\nand notes."


def test_google_sections_are_read() -> None:
    """Issue 2, part 2."""
    assert parse_docstring(GOOGLE) == Docstring(
        DESCRIPTION,
        {
            "query": "Tasting notes, grape or region.",
            "max_results": "How many wines to return at most.",
            "filters": "More words: all must match.",
        },
    )


def test_numpy_sections_are_read() -> None:
    """Issue 2, part 2."""
    assert parse_docstring(NUMPY) == Docstring(
        DESCRIPTION,
        {
            "query": "Tasting notes, grape or region.",
            "max_results": "How many wines to return at most.",
            "limit": "How many wines to return at most.",
        },
    )


def test_rest_fields_are_read() -> None:
    """Issue 2, part 2."""
    assert parse_docstring(REST) == Docstring(
        DESCRIPTION,
        {"query": "Tasting notes, grape or region.", "max_results": "How many wines to return at most."},
    )


def test_epytext_fields_are_read_like_rest() -> None:
    """A field with another mark."""
    assert parse_docstring("Search.\n\n@param query: What.\n@return: Wines.") == Docstring(
        "Search.", {"query": "What."}
    )


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_without_a_docstring_there_is_nothing(text: str | None) -> None:
    """A tool needs none."""
    assert parse_docstring(text) == Docstring()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One line.", Docstring("One line.")),
        ("Args: what the shell calls arguments.", Docstring("Args: what the shell calls arguments.")),
        ("Text.\n\nArgs:\nnot indented", Docstring("Text.\n\nArgs:\nnot indented")),
        ("Text.\n\nNote:\n    Left out.\n\nMore text.", Docstring("Text.\n\nMore text.")),
        ("Text.\n\n\n\n\nMore.", Docstring("Text.\n\nMore.")),
        (
            "Text.\n\nArgs:\n    no entry here\n    a: First.\n    more of it",
            Docstring("Text.", {"a": "First. more of it"}),
        ),
        ("Text.\n\nArgs:\n    a, b: Both.", Docstring("Text.", {"a": "Both.", "b": "Both."})),
        ("Text.\n\nArgs:", Docstring("Text.")),
        ("Text.\n\n:note: kept", Docstring("Text.\n\n:note: kept")),
        ("Text.\n\n:param: nameless", Docstring("Text.")),
        ("Steps\n-----\nkept", Docstring("Steps\n-----\nkept")),
        (
            "Text.\n\nParameters\n==========\na : int\n\n    First.\n\n    Second.",
            Docstring("Text.", {"a": "First. Second."}),
        ),
        (
            "Text.\n\nArgs:\n    a: First.\n\nKeyword Args:\n    b: Second.",
            Docstring("Text.", {"a": "First.", "b": "Second."}),
        ),
        (
            "Text.\n\nArgs:\n    a: See http://x.y/z: it is there.",
            Docstring("Text.", {"a": "See http://x.y/z: it is there."}),
        ),
    ],
)
def test_unusual_docstrings_lose_nothing_that_matters(text: str, expected: Docstring) -> None:
    """What cannot be read stays in the description."""
    assert parse_docstring(text) == expected
