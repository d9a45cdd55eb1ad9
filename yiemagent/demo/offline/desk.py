"""Where the stand-in asks its questions: what is already known answers at once, the rest is called for.

An answer is written as a plain function that asks for what it needs, line by line. It is run anew
for each request of the conversation: it gets further with every tool result, and what is
still missing when it stops becomes the tool calls of that turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from yiemagent.demo.offline.conversation import Scene, call_key, json_in

__all__ = ["Call", "CannotLookUp", "Desk", "Waiting"]

_ERROR_CLASS = re.compile(r"^[A-Z]\w*Error: ")

Call = tuple[str, dict[str, Any]]
"""The name of a tool and its arguments."""


class Waiting(Exception):
    """The answer needs these calls before it can go on."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__(f"{len(calls)} calls are missing")
        self.calls = calls


class CannotLookUp(Exception):
    """A tool is not offered, or it failed; the text says so to the user."""


class Desk:
    """Answers from the tool results that the conversation already holds.

    Args:
        scene: The conversation.
        tools: The tools offered: the name by which the stand-in knows each one, and its real name
            (a server may have put a prefix before it).
    """

    def __init__(self, scene: Scene, tools: Mapping[str, str]) -> None:
        self._scene = scene
        self._tools = tools

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What *tool* says; arguments that are None or empty are left out.

        Raises:
            Waiting: It was not asked yet.
            CannotLookUp: It is not offered, or failed.
        """
        return self.ask_all([(tool, arguments)])[0]

    def ask_all(self, calls: Iterable[Call]) -> list[dict[str, Any]]:
        """What each call says, asked together in one turn; raises as ``ask`` does."""
        named = [self._named(tool, arguments) for tool, arguments in calls]
        missing = [call for call in named if call_key(*call) not in self._scene.results]
        if missing:
            raise Waiting(missing)
        return [self._read(self._scene.results[call_key(*call)]) for call in named]

    def _named(self, tool: str, arguments: Mapping[str, Any]) -> Call:
        if tool not in self._tools:
            raise CannotLookUp(
                f"I would need the tool {tool} for that, and this conversation does not offer it."
            )
        return self._tools[tool], {
            key: value for key, value in arguments.items() if value not in (None, "", ())
        }

    def _read(self, text: str) -> dict[str, Any]:
        found = json_in(text)
        if not isinstance(found, dict):
            said = _ERROR_CLASS.sub("", text.strip()) or "the tool said nothing"
            raise CannotLookUp(f"I could not look that up: {said}")
        return found
