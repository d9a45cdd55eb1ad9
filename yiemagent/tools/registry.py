"""The tools of an agent in their order, found by the names that models really write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from operator import attrgetter
from typing import Any

from yiemagent.errors import ConfigurationError
from yiemagent.tools.decorator import as_tool, as_tools
from yiemagent.tools.json_text import scrub_surrogates
from yiemagent.tools.tool import Tool, ToolLike, Tools

__all__ = ["ToolRegistry", "register_tool"]

_LEAKED_TOKEN = "<|"
_PREFIXES = ("functions.", "functions/", "function.", "tools.", "tool.", "default_api.", "multi_tool_use.")
"""What models put before a name because their training data did."""
_SHOWN_NAME = 200
_SHOWN_NAMES = 50
_name = attrgetter("name")


class ToolRegistry:
    """Tools by name, in the order given. It never changes.

    Args:
        tools: Tools and plain functions (of which tools are made), or a mapping with such values.

    Raises:
        ConfigurationError: Two tools have one name, or something is no tool.
    """

    __slots__ = ("_by_name", "_folded")

    def __init__(self, tools: Tools | Mapping[str, ToolLike] = ()) -> None:
        made = as_tools(_listed(tools))
        self._by_name: dict[str, Tool] = dict(zip(map(_name, made), made, strict=True))
        if len(self._by_name) != len(made):
            _refuse_two_of_one_name(made)
        self._folded: dict[str, str | None] | None = None

    @property
    def specs(self) -> tuple[Tool, ...]:
        """The tools, in order: what a model is told about."""
        return tuple(self._by_name.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._by_name)

    def get(self, name: str) -> Tool | None:
        """The tool of exactly this name, or None."""
        return self._by_name.get(name)

    def resolve(self, name: str) -> Tool | None:
        """The tool that a model means by *name*, or None.

        Tried in order: the exact name; without white space around it, white space inside as one
        ``_``, ``-`` or nothing; without what follows ``<|``; without a prefix such as
        ``functions.``; each of these in another case, if only one tool fits.

        Source: decoding rule 8, fact TC-8, cases A-59, A-82.
        """
        found = self._by_name.get(name)
        if found is not None or not isinstance(name, str):
            return found
        candidates = _readings(name)
        for candidate in candidates:
            if candidate in self._by_name:
                return self._by_name[candidate]
        if self._folded is None:
            self._folded = _by_folded_name(self._by_name)
        for candidate in candidates:
            exact = self._folded.get(candidate.casefold())
            if exact is not None:
                return self._by_name[exact]
        return None

    def not_found_text(self, name: str) -> str:
        """What the model reads when no tool has this name: ``Tool <name> not found``, and which there are.

        Source: fact TC-9.
        """
        shown = name if len(name) <= _SHOWN_NAME else f"{name[:_SHOWN_NAME]}..."
        text = f"Tool {shown} not found"
        if not self._by_name:
            return scrub_surrogates(f"{text}. There are no tools.")
        import difflib

        near = difflib.get_close_matches(name[:_SHOWN_NAME], self._by_name, n=3)
        if near:
            text += f". Did you mean {' or '.join(near)}?"
        else:
            text += "."
        listed = ", ".join(self.names[:_SHOWN_NAMES]) + (", ..." if len(self._by_name) > _SHOWN_NAMES else "")
        return scrub_surrogates(f"{text} Known tools: {listed}")

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __repr__(self) -> str:
        return f"<ToolRegistry {', '.join(self._by_name) or 'empty'}>"


def register_tool(tools: MutableMapping[str, Tool] | MutableSequence[Any], tool: ToolLike) -> Tool:
    """Add *tool* to *tools*, a dict by name or a list, and give it back.

    This is ``registerTool`` of the Julia design.

    Raises:
        ConfigurationError: It is no tool, or another one has its name.
    """
    made = as_tool(tool)
    held = tools.values() if isinstance(tools, Mapping) else tools
    for other in ToolRegistry(held):
        if other.name == made.name and other is not made:
            raise ConfigurationError(_two_of_one_name(other, made))
    if isinstance(tools, MutableMapping):
        tools[made.name] = made
    elif made not in tools:
        tools.append(made)
    return made


def _listed(tools: Any) -> Any:
    if isinstance(tools, Mapping):
        return tools.values()
    if isinstance(tools, (str, bytes)) or callable(tools) or not hasattr(tools, "__iter__"):
        raise ConfigurationError(
            f"tools must be a list of tools and functions, got {tools!r}; write tools=[...]"
        )
    return tools


def _refuse_two_of_one_name(tools: Iterable[Tool]) -> None:
    by_name: dict[str, Tool] = {}
    for tool in tools:
        other = by_name.setdefault(tool.name, tool)
        if other is not tool:  # The same tool twice is one.
            raise ConfigurationError(_two_of_one_name(other, tool))


def _two_of_one_name(one: Tool, other: Tool) -> str:
    return (
        f"two tools are named {one.name!r}: {_origin(one)} and {_origin(other)}; "
        "give one of them another name (name=...)"
    )


def _origin(tool: Tool) -> str:
    source = tool.function if tool.function is not None else tool.execute
    where = getattr(source, "__qualname__", type(source).__qualname__)
    return f"{getattr(source, '__module__', '?')}.{where}"


def _readings(name: str) -> list[str]:
    """What *name* may stand for, the most literal first."""
    readings = []
    for text in (name, name.split(_LEAKED_TOKEN, 1)[0]):
        bare = text.strip()
        for prefix in ("", *_PREFIXES):
            if bare.startswith(prefix):
                rest = bare[len(prefix) :].strip()
                readings += [rest, *(re.sub(r"\s+", joint, rest) for joint in ("_", "-", ""))]
    return list(dict.fromkeys(filter(None, readings)))


def _by_folded_name(names: Mapping[str, Tool]) -> dict[str, str | None]:
    """Names without case; None where two differ in nothing else."""
    folded: dict[str, str | None] = {}
    for name in names:
        key = name.casefold()
        folded[key] = None if key in folded else name
    return folded
