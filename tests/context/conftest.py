"""Strategies for transcripts, sound and broken, shared by the context tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import strategies as st

from yiemagent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

texts = st.text(max_size=30)
blocks = st.one_of(
    texts.map(TextContent),
    texts.map(ReasoningContent),
    st.just(ImageContent(url="http://127.0.0.1/a.png")),
)
contents = st.lists(blocks, max_size=3).map(tuple)
arguments = st.dictionaries(st.text(max_size=4), st.one_of(st.none(), st.integers(), texts), max_size=3)


@st.composite
def _groups(draw: st.DrawFn) -> list[Message]:
    ids = draw(st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=3, unique=True))
    calls = tuple(ToolCall(one, "look", draw(arguments)) for one in ids)
    answers = [ToolResultMessage(one, "look", draw(contents)) for one in draw(st.permutations(ids))]
    return [AssistantMessage((*draw(contents), *calls)), *answers]


_single = st.one_of(
    contents.map(UserMessage),
    contents.map(AssistantMessage),
    st.builds(CustomMessage, st.just("note"), st.just("n")),
).map(lambda message: [message])


@st.composite
def _broken(draw: st.DrawFn) -> list[Message]:
    ids = st.sampled_from(["a", "b", " ", ""])
    call = st.builds(ToolCall, ids, st.just("look"))
    message = st.one_of(
        contents.map(UserMessage),
        st.lists(call, max_size=3).map(lambda calls: AssistantMessage(tuple(calls))),
        st.builds(lambda one: ToolResultMessage(one, "look", "r"), ids),
        st.builds(CustomMessage, st.just("note"), st.just("n")),
    )
    return draw(st.lists(message, max_size=12))


@dataclasses.dataclass(frozen=True)
class Strategies:
    """What property tests draw from."""

    sound: st.SearchStrategy[Sequence[Message]]
    broken: st.SearchStrategy[Sequence[Message]]


@pytest.fixture(scope="session")
def strategies() -> Strategies:
    sound = st.lists(st.one_of(_single, _groups()), max_size=12).map(
        lambda units: [message for unit in units for message in unit]
    )
    return Strategies(sound, _broken())
