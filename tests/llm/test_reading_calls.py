"""Tool calls as models write them: pieces, arguments, think blocks (decoding rules 4 to 8)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.llm.arguments import parse_arguments
from yiemagent.llm.slots import CallSlot, CallSlots
from yiemagent.llm.think import ThinkSplitter

# -- arguments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        (None, {}),
        ("", {}),
        (" \n", {}),
        ("null", {}),
        ("{}", {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```{"a": 1}```', {"a": 1}),
        ('{"a": 1} I hope this helps', {"a": 1}),
        ('{"a": 1}{"a":', {"a": 1}),
        ('{}{"a": 1}', {"a": 1}),
        ('{} {"a": 1} tail', {"a": 1}),
        ("{} and nothing else", {}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        (json.dumps(json.dumps('{"a": 1}')), {"a": 1}),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_arguments_are_read_in_the_forms_that_models_use(raw: Any, arguments: Any) -> None:
    """Decoding rule 6."""
    parsed = parse_arguments(raw)

    assert (parsed.arguments, parsed.error) == (arguments, None)


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ('{"path": a.txt"}', "invalid_json"),
        ('{"path": "a', "invalid_json"),
        ("\\n{}", "invalid_json"),
        ("hello", "invalid_json"),
        ('{"a": NaN}', "invalid_json"),
        ('{"a": -Infinity}', "invalid_json"),
        ({"a": float("inf")}, "invalid_json"),
        ('{}{"a": ', "invalid_json"),
        ("[1]", "not_an_object"),
        ("7", "not_an_object"),
        ('"[1]"', "not_an_object"),
        (json.dumps(json.dumps(json.dumps(json.dumps({"a": 1})))), "not_an_object"),
        (7, "not_an_object"),
        (["a"], "not_an_object"),
        ("[" * 100_000, "invalid_json"),
    ],
)
def test_arguments_that_cannot_be_used_are_an_error_and_never_repaired(raw: Any, word: str) -> None:
    """A-19, A-21: running a tool with {} instead is what hurts."""
    parsed = parse_arguments(raw)

    assert parsed.arguments == {}
    assert parsed.error is not None
    assert parsed.error.partition(":")[0] == word
    assert len(parsed.error) < 300
    assert parsed.raw == (raw if isinstance(raw, str) else repr(raw))


@pytest.mark.parametrize(
    ("raw", "warning"),
    [
        ('{"a": 1} tail', "text_after_arguments_ignored"),
        ('{}{"a": 1}', "arguments_placeholder_ignored"),
        ('```\n{"a": 1}\n```', "arguments_in_code_fence"),
        ('{"b": {"a": 1, "a": 2}}', "duplicate_key:a"),
    ],
)
def test_what_is_read_past_leaves_a_warning(raw: str, warning: str) -> None:
    """Stable names."""
    assert parse_arguments(raw).warnings == (warning,)


@given(
    st.dictionaries(
        st.text(max_size=9), st.text() | st.integers() | st.lists(st.none() | st.text()), max_size=5
    )
)
def test_an_object_survives_the_way_through_text(value: dict[str, Any]) -> None:
    """Whatever it holds."""
    assert parse_arguments(json.dumps(value)).arguments == value


@given(st.text() | st.binary().map(repr) | st.from_regex(r'[{}"\\:,a1 ]{0,20}'))
def test_no_text_makes_the_parser_raise(text: str) -> None:
    """And what it says is an object."""
    assert isinstance(parse_arguments(text).arguments, dict)


# -- slots -------------------------------------------------------------------------------

Delta = tuple[Any, str, str, Any]


def assemble(*deltas: Delta) -> list[tuple[str, str, str]]:
    slots = CallSlots()
    for index, call_id, name, arguments in deltas:
        slot, _ = slots.place(index, call_id, name, arguments)
        slot.take(call_id, name, arguments)
    return [(slot.id, slot.name, slot.text) for slot in slots.slots]


A, B = '{"a":1}', '{"b":2}'


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        # An index is a key in order of first appearance, not a position.
        ([(4, "x", "f", A), (1, "y", "g", B)], [("x", "f", A), ("y", "g", B)]),
        # Continuations by index, with id and name left out, blank, or repeated.
        ([(0, "x", "f", ""), (0, "", "", '{"a"'), (0, "x", "f", ":1}")], [("x", "f", A)]),
        # (a) another id with a name is another call, even without arguments; an id alone is not.
        ([(0, "x", "f", ""), (0, "y", "f", "")], [("x", "f", ""), ("y", "f", "")]),
        ([(0, "x", "f", '{"a"'), (0, "y", "", ":1}")], [("x", "f", A)]),
        ([(0, "x", "f", A), (0, "y", "", B)], [("x", "f", A), ("y", "", B)]),
        ([(0, "x", "f", A), (0, "y", "", "")], [("x", "f", A)]),
        # (b) another name after complete arguments.
        ([(0, "x", "f", A), (0, "x", "g", B)], [("x", "f", A), ("x", "g", B)]),
        ([(0, "x", "f", '{"a"'), (0, "x", "g", ":1}")], [("x", "f", A)]),
        # (c) no ids: a name with text after complete arguments.
        ([(0, "", "f", A), (0, "", "f", B), (0, "", "f", A)], [("", "f", A), ("", "f", B), ("", "f", A)]),
        ([(0, "", "f", '{"a"'), (0, "", "f", ":1}"), (0, "", "f", "")], [("", "f", A)]),
        # No index: an id opens a call, none continues the last.
        ([(None, "x", "f", '{"a"'), (None, "", "", ":1}")], [("x", "f", A)]),
        ([(None, "x", "f", A), (None, "y", "f", B)], [("x", "f", A), ("y", "f", B)]),
        (
            [(None, "x", "f", '{"a"'), (None, "y", "g", B), (None, "x", "", ":1}")],
            [("x", "f", A), ("y", "g", B)],
        ),
        ([(0, "x", "f", A), (None, "y", "g", B)], [("x", "f", A), ("y", "g", B)]),
        ([(None, "", "f", A), (None, "", "g", B)], [("", "f", A), ("", "g", B)]),
        # The name may come last.
        ([(0, "x", "", '{"a"'), (0, "", "f", ":1}")], [("x", "f", A)]),
    ],
)
def test_a_delta_finds_its_call(deltas: list[Delta], calls: list[tuple[str, str, str]]) -> None:
    """Decoding rule 4."""
    assert assemble(*deltas) == calls


def test_arguments_may_be_an_object_and_then_text() -> None:
    """A-06 in a stream: the object is whole, so text after it is text."""
    slot = CallSlot()
    slot.take("x", "f", {"a": 1})
    assert (slot.arguments, slot.is_complete()) == ({"a": 1}, True)

    slot.take("", "", " tail")
    assert slot.arguments == '{"a": 1} tail'


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.lists(st.text(max_size=3)), max_size=4),
    st.booleans(),
    st.integers(1, 7),
)
def test_arguments_are_complete_exactly_at_their_end(
    value: dict[str, Any], ascii_only: bool, size: int
) -> None:
    """However they are cut: braces and quotes inside strings do not count."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    slot = CallSlot()
    for at in range(0, len(text), size):
        assert not slot.is_complete()
        slot.take("", "", text[at : at + size])
    assert slot.is_complete()


# -- think blocks ------------------------------------------------------------------------


def split(pieces: list[str]) -> tuple[str, str]:
    splitter = ThinkSplitter()
    parts = [part for piece in pieces for part in splitter.feed(piece)] + splitter.finish()
    return "".join(t for thought, t in parts if thought), "".join(t for thought, t in parts if not thought)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("<think>plan</think>\n\nHi", "plan", "Hi"),
        ("\n <think>\nplan\n</think>Hi", "plan\n", "Hi"),
        ("<think></think>Hi", "", "Hi"),
        ("Hi <think>no</think>", "", "Hi <think>no</think>"),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("<thin air", "", "<thin air"),
        ("<think>never closed </thi", "never closed </thi", ""),
        ("  Hi", "", "  Hi"),
        ("<", "", "<"),
        ("", "", ""),
    ],
)
def test_one_leading_think_block_is_reasoning(text: str, reasoning: str, answer: str) -> None:
    """A-37, B-54: in any pieces."""
    assert split([text]) == split(list(text)) == (reasoning, answer)


@given(
    st.lists(
        st.sampled_from(["<th", "ink>", "<think>", "</th", "ink>", "</think>", "a", "\n", "<", "/"]),
        max_size=9,
    )
)
def test_any_split_of_a_text_gives_the_same_blocks(pieces: list[str]) -> None:
    """The tags may be cut anywhere."""
    assert split(pieces) == split(["".join(pieces)])
