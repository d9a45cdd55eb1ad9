"""What a docstring says: the description and one text per parameter.

Google, NumPy and reST sections are read, in one docstring also mixed. What cannot be read is
left in the description: a docstring never makes a tool fail.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import field

from yiemagent.data_class import dataclass

__all__ = ["Docstring", "parse_docstring"]

_PARAMETER_SECTIONS = frozenset(
    (
        "args",
        "arguments",
        "parameters",
        "params",
        "keyword args",
        "keyword arguments",
        "other parameters",
        "attributes",
    )
)
_OTHER_SECTIONS = frozenset(
    (
        "returns",
        "return",
        "yields",
        "yield",
        "raises",
        "raise",
        "except",
        "exceptions",
        "warns",
        "warning",
        "warnings",
        "example",
        "examples",
        "note",
        "notes",
        "references",
        "todo",
        "receives",
        "methods",
    )
) | {"see also"}
# Texts, since most docstrings need none of them; re keeps what it has compiled.
_SECTION = r"([A-Za-z][A-Za-z ]*?)\s*:\s*"
_UNDERLINE = r"\s*(-{3,}|={3,})\s*"
_NAMES = r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)"
_GOOGLE_ENTRY = _NAMES + r"\s*(?:\(.*?\)|\[.*?\])?\s*:(?:\s+(?P<text>.*)|$)"
_NUMPY_ENTRY = _NAMES + r"\s*(?:$|:)"
_FIELD = r"[:@](?P<kind>\w+)(?:\s+(?P<about>[^:]*))?:(?:\s+(?P<text>.*)|$)"
_PARAMETER_FIELDS = frozenset(
    ("param", "parameter", "arg", "argument", "key", "keyword", "var", "ivar", "cvar")
)
_OTHER_FIELDS = frozenset(
    (
        "type",
        "rtype",
        "return",
        "returns",
        "raise",
        "raises",
        "except",
        "exception",
        "yield",
        "yields",
        "vartype",
        "meta",
    )
)


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of a docstring that a model needs."""

    description: str = ""
    """Everything before the first section, without its indentation."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """By name; lines that continue are joined by a space."""


def parse_docstring(text: str | None) -> Docstring:
    """Read *text*; None or a blank one gives an empty ``Docstring``."""
    if not text or not text.strip():
        return Docstring()
    reader = _Reader(inspect.cleandoc(text).splitlines())
    reader.read()
    description = "\n".join(reader.description).strip()
    if "\n\n\n" in description:
        description = re.sub(r"\n{3,}", "\n\n", description)
    return Docstring(description, {name: text for name, text in reader.parameters.items() if text})


class _Reader:
    """One pass over the lines of one docstring."""

    def __init__(self, lines: list[str]) -> None:
        self.description: list[str] = []
        self.parameters: dict[str, str] = {}
        self._lines = lines
        self._next = 0

    def read(self) -> None:
        while self._next < len(self._lines):
            line = self._lines[self._next]
            self._next += 1
            if self._underlined(self._next - 1):
                self._read_numpy(_section_name(line))
            elif self._starts_google_section(line):
                self._read_google(_section_name(line))
            elif not self._read_field(line):
                self.description.append(line)

    def _underlined(self, index: int) -> bool:
        """Whether a NumPy section starts at *index*."""
        lines = self._lines
        return (
            index + 1 < len(lines)
            and _is_section_name(lines[index])
            and re.fullmatch(_UNDERLINE, lines[index + 1]) is not None
        )

    def _starts_google_section(self, line: str) -> bool:
        if not _is_section_name(line) or re.fullmatch(_SECTION, line) is None:
            return False
        following = next((other for other in self._lines[self._next :] if other.strip()), " ")
        return following[0].isspace()

    def _read_google(self, section: str) -> None:
        body = self._take_while(
            lambda index: not self._lines[index].strip() or self._lines[index][0].isspace()
        )
        if section not in _PARAMETER_SECTIONS:
            return
        names: list[str] = []
        margin = next((_indent(line) for line in body if line.strip()), 0)
        for line in body:
            entry = re.match(_GOOGLE_ENTRY, line.strip()) if _indent(line) <= margin else None
            if entry is not None:
                names = self._start(entry["names"], entry["text"])
            else:
                self._continue(names, line)

    def _read_numpy(self, section: str) -> None:
        self._next += 1
        body = self._take_while(lambda index: not self._underlined(index))
        if section not in _PARAMETER_SECTIONS:
            return
        names: list[str] = []
        for line in body:
            entry = re.match(_NUMPY_ENTRY, line) if line.strip() and not line[0].isspace() else None
            if entry is not None:
                names = self._start(entry["names"], "")
            else:
                self._continue(names, line)

    def _read_field(self, line: str) -> bool:
        """Read a reST (or Epytext) field that starts at *line*, if one does."""
        match = re.match(_FIELD, line) if line.startswith((":", "@")) else None
        if match is None or match["kind"] not in _PARAMETER_FIELDS | _OTHER_FIELDS:
            return False
        names: list[str] = []
        about = (match["about"] or "").split()
        if match["kind"] in _PARAMETER_FIELDS and about:
            names = self._start(about[-1], match["text"])
        for more in self._take_while(lambda index: self._lines[index][:1].isspace()):
            self._continue(names, more)
        return True

    def _take_while(self, belongs: Callable[[int], bool]) -> list[str]:
        start = self._next
        while self._next < len(self._lines) and belongs(self._next):
            self._next += 1
        return self._lines[start : self._next]

    def _start(self, names: str, text: str | None) -> list[str]:
        found = [name.strip().lstrip("*") for name in names.split(",")]
        self.parameters.update(dict.fromkeys(found, (text or "").strip()))
        return found

    def _continue(self, names: list[str], line: str) -> None:
        for name in names:
            self.parameters[name] = f"{self.parameters[name]} {line.strip()}".strip()


def _is_section_name(line: str) -> bool:
    name = _section_name(line)
    return name in _PARAMETER_SECTIONS or name in _OTHER_SECTIONS


def _section_name(line: str) -> str:
    return line.strip().rstrip(":").strip().lower()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
