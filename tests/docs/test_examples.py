"""Every Python example of the documents runs, in order, in one namespace a document.

The models of the examples are asked over a real connection: ``OPENAI_BASE_URL`` points at the
offline model. A block whose first line is ``# not run: <why>`` is only compiled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from yiemagent.demo.offline import OfflineModel

_ROOT = Path(__file__).parents[2]
_DOCUMENTS = ("README.md", "docs/guide.md", "docs/runbook.md", "docs/models.md", "docs/mcp.md")
_BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = "# not run: "
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def _blocks(document: Path) -> Iterator[tuple[int, str]]:
    """The Python blocks of *document* with the number of lines before each."""
    text = document.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        indent = match.group(1)
        lines = [line.removeprefix(indent) for line in match.group(2).splitlines()]
        yield text.count("\n", 0, match.start()) + 1, "\n".join(lines) + "\n"


@pytest.fixture
def _a_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with OfflineModel() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        yield


@pytest.fixture
def _log_levels_kept() -> Iterator[None]:
    """An example may show how to turn the log on; the tests after it run with it off."""
    log = logging.getLogger("yiemagent")
    level, handlers = log.level, list(log.handlers)
    root_handlers = list(logging.getLogger().handlers)
    yield
    log.setLevel(level)
    log.handlers[:] = handlers
    logging.getLogger().handlers[:] = root_handlers


@pytest.mark.servers
@pytest.mark.usefixtures("_a_model", "_log_levels_kept")
@pytest.mark.parametrize("name", _DOCUMENTS)
def test_every_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documentation that does not run is wrong (issue 2, part 8)."""
    document = _ROOT / name
    namespace: dict[str, object] = {"__name__": f"example in {name}"}
    monkeypatch.chdir(tmp_path)
    count = 0

    for line, source in _blocks(document):
        # Newlines before the block make tracebacks point into the document.
        code = compile("\n" * line + source, str(document), "exec", dont_inherit=True)
        if not source.startswith(_NOT_RUN):
            exec(code, namespace)
        count += 1

    assert count > 0


@pytest.mark.parametrize(
    "document", sorted([*_ROOT.glob("*.md"), *_ROOT.glob("docs/**/*.md")]), ids=lambda path: path.stem
)
def test_every_link_leads_somewhere(document: Path) -> None:
    """A moved page or a renamed heading must not leave dead links behind."""
    for match in _LINK.finditer(_prose(document)):
        page, anchor = match.group(1), match.group(2)
        target = document.parent / page if page else document
        assert target.exists(), f"{document.name} links to {page}"
        if anchor:
            assert anchor in _anchors(target), f"{document.name} links to {page}#{anchor}"


def _prose(document: Path) -> str:
    return _FENCED.sub("", document.read_text(encoding="utf-8"))


def _anchors(document: Path) -> set[str]:
    """The anchors that a heading gets: lower case, spaces to hyphens, punctuation dropped."""
    headings = re.findall(r"^#+ (.*)$", _prose(document), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
