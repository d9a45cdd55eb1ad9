"""What is known of a history by its lineage changes the cost of its requests and never their bytes."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.assistant_events import AssistantEvent, Done
from yiemagent.lineage import Lineage, same_beginning
from yiemagent.llm.openai_messages import Dialect
from yiemagent.llm.openai_request import ChatRequests
from yiemagent.llm.quirks import quirks_for
from yiemagent.loop.config import NextTurn, PrepareNextTurnContext
from yiemagent.messages import AssistantMessage, CustomMessage, TextContent, ToolCall, UserMessage
from yiemagent.model import LlmContext, ModelInfo, StreamOptions
from yiemagent.tools.tool import Tool, ToolResult


class Model:
    """Answers as the bytes of the request say, and keeps them; like one over HTTP, it uses the notes."""

    abortable = True

    def __init__(self, url: str, *, calls: bool = True) -> None:
        self.requests = ChatRequests(Dialect(quirks_for(url, "m", {}), "m", True))
        self.sent: list[bytes] = []
        self._calls = calls
        self.info = ModelInfo(id="m")

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        body = self.requests.body(context, options, stream=False, defaults={})
        self.sent.append(body)
        draw = zlib.crc32(body)
        blocks: list[Any] = [TextContent(f"answer {draw % 1000}")]
        if self._calls and draw % 3 == 0:
            names = ("add", "read")[: 1 + draw // 3 % 2]
            blocks += [ToolCall(f"call_{draw % 10_000}_{name}", name, {"n": draw % 7}) for name in names]
        yield Done(AssistantMessage(tuple(blocks), stop_reason="tool_calls" if len(blocks) > 1 else "stop"))


def _tools() -> list[Tool]:
    def run(_id: str, args: dict[str, Any], *_: Any) -> ToolResult:
        return ToolResult(
            (TextContent(f"result {args['n']}"),), trust="untrusted" if args["n"] == 3 else None
        )

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return [Tool(name=name, description=name, input_schema=schema, execute=run) for name in ("add", "read")]


def _cut(draw: random.Random, history: list[Any]) -> list[Any]:
    return history[: draw.randrange(len(history) + 1)]


CHANGES: list[Callable[[random.Random, list[Any]], list[Any]]] = [
    lambda draw, history: history,
    _cut,
    lambda draw, history: [*_cut(draw, history), UserMessage(f"other {draw.random()}")],
    lambda draw, history: [*_cut(draw, history), CustomMessage("note", {"n": 1})],
    lambda draw, history: [
        *_cut(draw, history),
        AssistantMessage((TextContent("half"),), stop_reason="error"),
    ],
    lambda draw, history: [*_cut(draw, history), {"role": "user", "content": "of another library"}],
    lambda draw, history: [UserMessage("anew"), *history[1:]],
    lambda draw, history: [*history[:-3], *([UserMessage("else")] * len(history[-3:]))],
    lambda draw, history: [*history, *history[-1:]],
    lambda draw, history: [],
]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_conversation_that_remembers_sends_what_one_that_does_not_would_send(
    seed: int, parallel: bool
) -> None:
    """Issue 7: it grows, is cut, goes another way, changes its model, is replaced in the middle of a run."""
    draw = random.Random(seed)
    models = [Model("https://api.openai.com/v1"), Model("https://api.mistral.ai/v1")]
    replacing, leaving_out = [False], [False]

    def prepare(context: PrepareNextTurnContext) -> NextTurn | None:
        messages = context.context.messages
        return NextTurn(context=context.context.with_messages(messages[-2:])) if replacing[0] else None

    def transform(messages: Any, _signal: Any) -> Any:
        return messages[1:] if leaving_out[0] else messages

    with Agent(
        models[0],
        tools=_tools(),
        parallel_tool_execute=parallel,
        max_tool_turns=4,
        fence_untrusted=seed == 3,
        prepare_next_turn=prepare,
        transform_context=transform if seed == 2 else None,
    ) as agent:
        for number in range(120):
            agent.model = model = draw.choice(models)
            if draw.random() < 0.5:
                agent.messages = draw.choice(CHANGES)(draw, list(agent.messages))
            replacing[0], leaving_out[0] = draw.random() < 0.1, draw.random() < 0.3
            model.sent.clear()
            with agent.clone(messages=agent.messages) as forgetful:
                forgetful.run(f"question {number}")
            expected = model.sent.copy()
            model.sent.clear()
            agent.run(f"question {number}")
            assert model.sent == expected


def test_a_long_conversation_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 7: a turn costs what it adds."""
    looks: list[int] = []

    def look(one: Any, other: Any) -> int:
        looks.append(len(one))
        return same_beginning(one, other)

    for place in ("loop.request", "llm.openai_request", "agent.settings"):
        monkeypatch.setattr(f"yiemagent.{place}.same_beginning", look)
    history = [UserMessage("q"), AssistantMessage((TextContent("a"),))] * 50
    with Agent(Model("https://api.openai.com/v1", calls=False), messages=history) as agent:
        agent.run("one")
        looks.clear()
        for number in range(5):
            agent.run(f"two {number}")
        assert [length for length in looks if length] == []
        for number in range(3):
            agent.messages = history
            agent.run(f"three {number}")
    assert [length for length in looks if length] == [100, 100, 100]  # when it was given


@pytest.mark.parametrize("notes_too", [True, False])
def test_a_model_that_stands_before_another_may_send_other_messages(notes_too: bool) -> None:
    """It hands the options on as they are; what it leaves out must be left out."""
    inner = Model("https://api.openai.com/v1", calls=False)
    leave_out = [0]

    class Middle:
        info = inner.info

        def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
            told = options if notes_too else replace(options, notes=None)
            yield from inner.stream(replace(context, messages=context.messages[leave_out[0] :]), told)

    history = [UserMessage("q"), AssistantMessage((TextContent("a"),))] * 3
    with Agent(Middle(), messages=history) as agent:
        for number in range(6):
            leave_out[0] = number % 3
            agent.messages = history
            agent.run(f"question {number}")
    asked = [[m["role"] for m in json.loads(body)["messages"]] for body in inner.sent]
    assert [len(roles) for roles in asked] == [7, 6, 5, 7, 6, 5]
    assert [roles[0] for roles in asked] == ["user", "assistant", "user"] * 2


# --- the lineage itself


def test_a_history_begins_with_all_that_was_noted_of_it() -> None:
    """It only grows."""
    lineage = Lineage()
    assert lineage.kept(lineage.mark, 7) == 7


def test_of_a_history_that_was_cut_so_much_is_kept() -> None:
    """And no more than was noted."""
    before = Lineage()
    after = Lineage(before, 3)
    assert (after.kept(before.mark, 7), after.kept(before.mark, 2)) == (3, 2)


def test_of_another_history_nothing_is_known() -> None:
    """Nor of the one before the one before, nor under no mark."""
    first = Lineage()
    third = Lineage(Lineage(first, 5), 5)
    assert third.kept(first.mark, 5) == third.kept(None, 5) == Lineage().kept(None, 5) == 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("", "", 0), ("abc", "abc", 3), ("abc", "ab", 2), ("ab", "abc", 2), ("abx", "aby", 2), ("x", "y", 0)],
)
def test_two_histories_begin_with_the_same_objects_so_far(one: str, other: str, same: int) -> None:
    """Objects that are equal are not the same."""
    objects = {letter: [letter] for letter in "abcxy"}
    assert same_beginning([objects[o] for o in one], tuple(objects[o] for o in other)) == same
    assert same_beginning([[1]], [[1]]) == 0
