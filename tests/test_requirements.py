"""The manifest of requirements and the tests say the same, both ways."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGES = sorted((TESTS.parent / "docs" / "requirements").glob("*.md"))
_ID = re.compile(
    r"(?<![\w-])(?:PI-\d+(?:\.\d+)*|(?:LP|AG|ST|TV|TC|ES|AS|CX|TR|PX|RG|SB|TL)-\d+|WT-\d{2,3}"
    r"|(?:FR|NFR|US|SP)-\d+|[A-F]-\d\d|T\d{1,3}b?|H\d{1,2}|X[1-8]|R[1-8]|S\d{1,2}|F[1-6]"
    r"|[Dd]ecisions? \d+)(?![\w-])"
)
_SPAN = re.compile(
    r"(?<![\w-])((?:PI-|LP-|AG-|ST-|TV-|TC-|ES-|AS-|TR-|PX-|RG-|SB-|TL-|CX-|[A-F]-|T|X|R))"
    r"(\d+) to (?:\1)?(\d+)(?![\w.-])"
)
_ROW = re.compile(r"^\| (\S+(?: \d+)?) \| (.*) \| (.*) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
_REASONS = ("overridden", "not applicable", "not built", "deferred: ", "see ", "a matter of ")


def cited(text: str) -> set[str]:
    """The ids that a docstring cites, with those of spans such as "T1 to T3"."""
    found = {re.sub(r"^[Dd]ecisions? ", "decision ", match.group(0)) for match in _ID.finditer(text)}
    for prefix, first, last in _SPAN.findall(text):
        width = len(first) if prefix[0] in "ABCDEF" and len(prefix) == 2 else 0
        found |= {prefix + str(n).zfill(width) for n in range(int(first), int(last) + 1)}
    return found


def all_tests() -> dict[str, dict[str, set[str]]]:
    """Every test with the ids that its docstring cites."""
    found: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for path in TESTS.rglob("test_*.py"):
        if "node_modules" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[str(path.relative_to(TESTS))][node.name] = cited(ast.get_docstring(node) or "")
    return found


def rows() -> dict[str, tuple[str, str]]:
    """Every row: id to behaviour and what shows it."""
    found: dict[str, tuple[str, str]] = {}
    for page in PAGES:
        for name, behaviour, shown in _ROW.findall(page.read_text("utf-8")):
            if name != "id":
                assert name not in found, f"{name} has two rows"
                found[name] = (behaviour, shown)
    return found


@pytest.fixture(scope="module")
def manifest() -> dict[str, tuple[str, str]]:
    return rows()


@pytest.fixture(scope="module")
def tests() -> dict[str, dict[str, set[str]]]:
    return all_tests()


def test_every_id_that_a_test_cites_has_a_row(
    manifest: dict[str, tuple[str, str]], tests: dict[str, dict[str, set[str]]]
) -> None:
    """From the tests to the manifest."""
    missing = {
        f"{name} ({file}::{test})"
        for file, functions in tests.items()
        for test, names in functions.items()
        for name in names - manifest.keys()
    }

    assert sorted(missing) == []


def test_every_row_names_tests_that_exist_and_cite_it_or_says_why_not(
    manifest: dict[str, tuple[str, str]], tests: dict[str, dict[str, set[str]]]
) -> None:
    """From the manifest to the tests."""
    wrong = []
    for name, (behaviour, shown) in manifest.items():
        named = _TEST.findall(shown)
        gone = [test for file, test in named if test not in tests.get(file, {})]
        citable = _ID.fullmatch(name) is not None  # The rules of threading.md only name their tests.
        silent = [test for file, test in named if citable and not gone and name not in tests[file][test]]
        reason = shown.startswith(_REASONS)
        replayed = "test_a_recorded_body_gives_its_expected_result" in silent
        if not behaviour or gone or (silent and not reason and not replayed) or not (named or reason):
            wrong.append(f"{name}: {shown}")

    assert wrong == []


def test_every_rule_of_the_threading_contract_has_a_row(manifest: dict[str, tuple[str, str]]) -> None:
    """Both ways: no rule without a test, no row without a rule."""
    page = (TESTS.parent / "docs" / "threading.md").read_text("utf-8")
    rules = page.split("## The rules")[1].split("\n## ")[0]
    numbered = {f"rule {number}" for number in re.findall(r"^(\d+)\. ", rules, re.MULTILINE)}

    assert numbered == {name for name in manifest if name.startswith("rule ")}
    assert numbered == {f"rule {number}" for number in range(1, len(numbered) + 1)}


def test_a_requirement_that_a_test_shows_is_not_called_deferred(
    manifest: dict[str, tuple[str, str]], tests: dict[str, dict[str, set[str]]]
) -> None:
    """What was deferred and then built is said so."""
    shown = {name for functions in tests.values() for names in functions.values() for name in names}

    assert (
        sorted(name for name, row in manifest.items() if row[1].startswith("deferred") and name in shown)
        == []
    )
