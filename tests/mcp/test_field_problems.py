"""The table of field problems names tests that exist, and names all problems."""

from __future__ import annotations

import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).parent
TABLE = (HERE.parents[1] / "docs" / "mcp-field-problems.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", TABLE)))


@pytest.mark.parametrize(("file", "test"), NAMED, ids=lambda part: part)
def test_each_named_test_exists(file: str, test: str) -> None:
    """The table is kept true by machine."""
    source = (HERE / file).read_text(encoding="utf-8")
    assert not test or f"\ndef {test}(" in source


def test_all_problems_are_in_the_table() -> None:
    """59 of the trackers, and the cases of group E."""
    rows = [line.split("|")[1].strip() for line in TABLE.splitlines() if line.startswith("| ")]
    numbers = [int(row) for row in rows if row.isdigit()]
    assert numbers == list(range(1, 60))
    cases = {row for row in rows if row.startswith("E-")}
    assert cases == {f"E-{n:02}" for n in range(1, 29)} - {"E-06", "E-12", "E-24"}
