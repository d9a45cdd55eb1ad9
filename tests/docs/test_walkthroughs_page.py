"""The walkthroughs page and the tests that follow it stay in step, both ways."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "walkthroughs.md").read_text(encoding="utf-8")
_TESTS = _ROOT / "tests" / "flows" / "test_walkthroughs.py"
_WALKTHROUGHS = (
    *("WT-001", "WT-002", "WT-003", "WT-004", "WT-005", "WT-010", "WT-011", "WT-012"),
    *("WT-020", "WT-021", "WT-022", "WT-030", "WT-031", "WT-032"),
)


def _sections() -> dict[str, str]:
    parts = re.split(r"^### (WT-\d{3}): .*$", _PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _tests() -> dict[str, str]:
    tree = ast.parse(_TESTS.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {node.name: ast.get_docstring(node) or "" for node in functions if node.name.startswith("test_")}


def test_every_walkthrough_has_a_section_in_order() -> None:
    """WT-001 to WT-032, none left out."""
    assert tuple(_sections()) == _WALKTHROUGHS


def test_every_section_names_tests_that_follow_it() -> None:
    """And those tests say so in their docstrings."""
    tests = _tests()
    for walkthrough, text in _sections().items():
        named = re.findall(r"`(test_\w+)`", text)
        assert named, f"{walkthrough} names no test"
        for name in named:
            assert walkthrough in tests[name], f"{name} does not say that it follows {walkthrough}"


def test_every_test_is_named_on_the_page() -> None:
    """A test that nobody can find from the page is lost."""
    missing = [name for name in _tests() if f"`{name}`" not in _PAGE]
    assert missing == []
