"""One request in, one reply out: text, or the tool calls that have to come first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yiemagent.demo.offline import answer as answers
from yiemagent.demo.offline.conversation import Scene, read_scene, text_of
from yiemagent.demo.offline.desk import Call, CannotLookUp, Desk, Waiting
from yiemagent.demo.offline.other_tools import choose_tool, fill_arguments

__all__ = ["Reply", "reply_to"]

_CELLAR_TOOLS = (
    "search_wines",
    "wine_details",
    "compare_wines",
    "pair_with_food",
    "price_range",
    "list_regions",
    "list_grapes",
    "stock_value",
)
_NO_TOOLS = (
    "I am a rule-based stand-in for a language model. I can only answer by calling tools, and I may not call "
    "any here."
)
_NO_FIT = "I am a rule-based stand-in for a language model, and none of the tools I have ({}) seems to fit."


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: ``text``, or ``calls`` with their ids."""

    text: str = ""
    calls: tuple[tuple[str, Call], ...] = ()


def reply_to(request: Mapping[str, Any]) -> Reply:
    """The reply to a valid Chat Completions request; the same for the same request."""
    messages: Sequence[Mapping[str, Any]] = request["messages"]
    functions = [tool["function"] for tool in request.get("tools") or ()]
    choice = request.get("tool_choice", "auto")
    scene = read_scene(messages)
    if choice == "none":
        functions = []
    forced = choice["function"]["name"] if isinstance(choice, Mapping) else None
    if forced or (choice == "required" and not scene.results):
        return _forced(scene, [f for f in functions if forced in (None, f["name"])], messages)
    try:
        return Reply(_text(scene, functions, messages))
    except Waiting as waiting:
        calls = waiting.calls if request.get("parallel_tool_calls", True) else waiting.calls[:1]
        return _calling(calls, messages)
    except CannotLookUp as problem:
        return Reply(str(problem))


def _text(scene: Scene, functions: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> str:
    tools = _cellar_tools(functions)
    if tools:
        return answers.answer(scene, Desk(scene, tools))
    if scene.results:
        return _retell(messages)
    small_talk = {"greeting": answers.GREETING, "thanks": answers.THANKS}
    if scene.own.kind in small_talk:
        return small_talk[scene.own.kind]
    if not functions:
        return _NO_TOOLS
    function = choose_tool(scene.question, functions)
    if function is None:
        raise CannotLookUp(_NO_FIT.format(", ".join(str(f["name"]) for f in functions)))
    raise Waiting([(function["name"], fill_arguments(scene.question, function))])


def _forced(
    scene: Scene, functions: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]
) -> Reply:
    if not functions:
        return Reply(_NO_TOOLS)
    function = choose_tool(scene.question, functions) or functions[0]
    return _calling([(function["name"], fill_arguments(scene.question, function))], messages)


def _calling(calls: Sequence[Call], messages: Sequence[Mapping[str, Any]]) -> Reply:
    return Reply(
        calls=tuple((_call_id(call, place, len(messages)), call) for place, call in enumerate(calls))
    )


def _call_id(call: Call, place: int, turn: int) -> str:
    """Unique in its conversation, and the same each time the same conversation is asked."""
    return "call_" + hashlib.sha256(f"{turn}/{place}/{call}".encode()).hexdigest()[:16]


def _cellar_tools(functions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The cellar's tools among those offered, by their own names; a server's prefix is allowed."""
    found: dict[str, str] = {}
    for function in functions:
        name = str(function["name"])
        known = next(
            (tool for tool in _CELLAR_TOOLS if name == tool or name.endswith(("_" + tool, "-" + tool))), None
        )
        if known is not None:
            found[known] = name
    search = next((f for f in functions if f["name"] == found.get("search_wines")), {})
    is_ours = "colour" in ((search.get("parameters") or {}).get("properties") or {})
    return found if is_ours else {}


def _retell(messages: Sequence[Mapping[str, Any]]) -> str:
    """What the tools said since the last question, as it is."""
    said: list[str] = []
    for message in reversed(messages):
        if message.get("role") == "user":
            break
        if message.get("role") == "tool":
            said.append(text_of(message))
    return "\n".join(reversed(said))
