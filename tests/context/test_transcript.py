"""Pairing of tool calls and tool results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.context.transcript import (
    INTERRUPTED_TEXT,
    repair_transcript,
    units,
    units_backwards,
    validate_transcript,
)
from yiemagent.errors import ConfigurationError, InvalidTranscript
from yiemagent.messages import (
    AssistantMessage,
    CustomMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)


def calls(*ids, text="", stop_reason="tool_calls"):
    content = (TextContent(text),) if text else ()
    return AssistantMessage((*content, *(ToolCall(one, "look") for one in ids)), stop_reason=stop_reason)


def result(call_id, text="found"):
    return ToolResultMessage(call_id, "look", text)


def types(messages, start=0):
    return [violation["type"] for violation in validate_transcript(messages, start)]


# --- validating


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_results_may_come_in_any_order(order):
    """T155."""
    messages = [UserMessage("q"), calls("a", "b"), *map(result, order), AssistantMessage("done")]

    assert validate_transcript(messages) == []


def test_an_empty_transcript_is_sound():
    """TV-1."""
    assert validate_transcript([]) == []


def test_a_missing_result_names_the_assistant_message_and_the_ids():
    """T156."""
    messages = [UserMessage("q"), calls("a", "b", "c"), result("b")]

    assert validate_transcript(messages) == [
        {"type": "missing_tool_result", "index": 1, "ids": ["a", "c"]},
    ]


def test_a_duplicate_result_is_named():
    """T156."""
    assert validate_transcript([calls("a"), result("a"), result("a")]) == [
        {"type": "duplicate_tool_result", "index": 2, "ids": ["a"]},
    ]


def test_a_result_of_no_call_of_the_message_is_unexpected():
    """T156."""
    assert validate_transcript([calls("a"), result("z"), result("a")]) == [
        {"type": "unexpected_tool_result", "index": 1, "ids": ["z"]},
    ]


def test_a_result_without_any_call_is_an_orphan():
    """T156, case C-01."""
    assert validate_transcript([UserMessage("q"), result("a")]) == [
        {"type": "orphan_tool_result", "index": 1, "ids": ["a"]},
    ]


def test_a_result_after_an_answer_without_calls_is_an_orphan():
    """T156."""
    assert types([UserMessage("q"), AssistantMessage("hi"), result("a")]) == ["orphan_tool_result"]


@pytest.mark.parametrize("between", [UserMessage("more"), CustomMessage("note", "n"), AssistantMessage("x")])
def test_a_result_behind_another_message_is_missing_and_an_orphan(between):
    """T157, case C-04."""
    assert types([calls("a"), between, result("a")]) == ["missing_tool_result", "orphan_tool_result"]


@pytest.mark.parametrize("bad", ["", " ", None, 7, ["a"]])
def test_a_blank_or_foreign_call_id_is_invalid(bad):
    """T158."""
    assert types([calls(bad)]) == ["invalid_tool_call_id"]


@pytest.mark.parametrize("bad", ["", " ", None, 7, ["a"]])
def test_a_blank_or_foreign_result_id_is_invalid(bad):
    """T158."""
    assert types([calls("a"), result("a"), result(bad)]) == ["invalid_tool_call_id"]


def test_an_id_twice_in_one_message_is_a_duplicate():
    """TV-2."""
    assert validate_transcript([calls("a", "a"), result("a")]) == [
        {"type": "duplicate_tool_call_id", "index": 0, "ids": ["a"]},
    ]


def test_the_same_id_in_two_messages_is_allowed():
    """T158."""
    assert validate_transcript([calls("a"), result("a"), calls("a"), result("a")]) == []


def test_error_results_count_as_results():
    """T159."""
    failed = ToolResultMessage("a", "look", "Operation aborted", is_error=True)

    assert validate_transcript([calls("a"), failed]) == []


@pytest.mark.parametrize("stop_reason", ["error", "aborted", "redirected"])
def test_calls_of_a_failed_answer_need_results_too(stop_reason):
    """H3, case C-02."""
    assert types([calls("a", stop_reason=stop_reason)]) == ["missing_tool_result"]


def test_violations_come_in_document_order():
    """TV-2: the missing result is noticed late but belongs to the call."""
    messages = [result("x"), calls("a", "a", ""), result("z"), UserMessage("q"), calls("b")]

    found = validate_transcript(messages)

    assert [(one["index"], one["type"]) for one in found] == [
        (0, "orphan_tool_result"),
        (1, "duplicate_tool_call_id"),
        (1, "invalid_tool_call_id"),
        (1, "missing_tool_result"),
        (2, "unexpected_tool_result"),
        (4, "missing_tool_result"),
    ]


@pytest.mark.parametrize("bad", [None, "text", {"role": "user"}, 3])
def test_something_that_is_no_list_is_one_violation(bad):
    """TV-2."""
    assert validate_transcript(bad) == [{"type": "invalid_messages", "index": None, "ids": []}]


def test_an_item_that_is_no_message_is_named():
    """TV-2."""
    assert validate_transcript([UserMessage("q"), {"role": "user"}]) == [
        {"type": "invalid_messages", "index": 1, "ids": []},
    ]


def test_what_lies_before_start_is_not_looked_at():
    """The loop checks only what a turn added."""
    messages = [result("orphan"), UserMessage("q"), calls("a")]

    assert types(messages, 1) == ["missing_tool_result"]
    assert validate_transcript(messages, 1)[0]["index"] == 2


def test_a_start_among_results_goes_back_to_their_call():
    """The loop may have checked up to the answer before its results were there."""
    messages = [UserMessage("q"), calls("a", "b"), result("a"), result("b")]

    assert validate_transcript(messages, 2) == []
    assert validate_transcript(messages, 3) == []


def test_a_start_beyond_the_end_checks_everything():
    """A transform that cut the list must not hide what it broke."""
    assert types([result("a")], 50) == ["orphan_tool_result"]


def test_a_negative_start_is_refused():
    """Absurd input is an error, not a guess."""
    with pytest.raises(ConfigurationError, match="-1"):
        validate_transcript([], -1)


@given(st.data())
def test_generated_sound_transcripts_are_sound(strategies, data):
    """The strategies of the other properties really make sound transcripts."""
    assert validate_transcript(data.draw(strategies.sound)) == []


# --- repairing


def test_a_sound_transcript_is_left_alone():
    """TV-6."""
    messages = [UserMessage("q"), calls("a"), result("a")]

    repaired, actions = repair_transcript(messages)

    assert repaired == messages
    assert repaired is not messages
    assert actions == []


def test_a_missing_result_is_answered_by_an_error_result():
    """TV-6, case C-02."""
    messages = [calls("a", "b"), result("b"), UserMessage("next")]

    repaired, actions = repair_transcript(messages)

    answer = repaired[2]
    assert [message.role for message in repaired] == ["assistant", "tool_result", "tool_result", "user"]
    assert (answer.tool_call_id, answer.tool_name, answer.text) == ("a", "look", INTERRUPTED_TEXT)
    assert answer.is_error
    assert answer.details == {"error_type": "interrupted"}
    assert actions == [
        {"action": "answered_call", "type": "missing_tool_result", "index": 0, "ids": ["a"]},
    ]


def test_a_result_behind_another_message_is_dropped_and_its_call_answered():
    """Case C-04: late results are not moved."""
    messages = [calls("a"), UserMessage("next"), result("a", "late")]

    repaired, actions = repair_transcript(messages)

    assert [message.role for message in repaired] == ["assistant", "tool_result", "user"]
    assert repaired[1].text == INTERRUPTED_TEXT
    assert [one["action"] for one in actions] == ["answered_call", "dropped_result"]


def test_orphan_unexpected_and_second_results_are_dropped():
    """Case C-01."""
    first = result("a", "first")
    messages = [result("o"), calls("a"), first, result("a", "second"), result("z")]

    repaired, actions = repair_transcript(messages)

    assert repaired == [messages[1], first]
    assert [(one["action"], one["index"]) for one in actions] == [
        ("dropped_result", 0),
        ("dropped_result", 3),
        ("dropped_result", 4),
    ]


def test_calls_with_unusable_ids_are_taken_out():
    """TV-2: a provider would refuse them."""
    messages = [calls("", "a", "a", text="let me look"), result("a")]

    repaired, actions = repair_transcript(messages)

    assert repaired[0] == AssistantMessage(
        (TextContent("let me look"), ToolCall("a", "look")),
        stop_reason="tool_calls",
        timestamp=messages[0].timestamp,
    )
    assert [one["action"] for one in actions] == ["dropped_call", "dropped_call"]


def test_a_message_of_nothing_but_unusable_calls_is_dropped():
    """Case C-09: an empty answer must not stay."""
    repaired, actions = repair_transcript([UserMessage("q"), calls("")])

    assert [message.role for message in repaired] == ["user"]
    assert [one["action"] for one in actions] == ["dropped_call", "dropped_message"]


def test_items_that_are_no_messages_are_dropped():
    """Bad input: what is sound survives."""
    question = UserMessage("q")

    repaired, actions = repair_transcript([question, None, {"role": "user"}])

    assert repaired == [question]
    assert [one["index"] for one in actions] == [1, 2]


def test_something_that_is_no_list_cannot_be_repaired():
    """The error carries the violation."""
    with pytest.raises(InvalidTranscript, match="NoneType") as caught:
        repair_transcript(None)

    assert caught.value.violations[0]["type"] == "invalid_messages"


@given(st.data())
def test_a_repaired_transcript_validates_and_is_left_alone(strategies, data):
    """TV-6, for arbitrarily broken transcripts."""
    broken = data.draw(strategies.broken)

    repaired, actions = repair_transcript(broken)

    assert validate_transcript(repaired) == []
    assert repair_transcript(repaired) == (repaired, [])
    assert repair_transcript(broken) == (repaired, actions)
    assert bool(actions) == bool(validate_transcript(broken))


@given(st.data())
def test_checking_from_any_index_finds_what_is_wrong_behind_it(strategies, data):
    """A sound beginning may be skipped without missing anything."""
    good = data.draw(strategies.sound)
    broken = [UserMessage("q"), *data.draw(strategies.broken)]
    messages = [*good, *broken]
    start = data.draw(st.integers(0, len(good)))

    assert validate_transcript(messages, start) == validate_transcript(messages)


# --- units


def test_a_call_and_its_results_are_one_unit():
    """CX-6."""
    messages = [UserMessage("q"), calls("a", "b"), result("a"), result("b"), AssistantMessage("done")]

    assert list(units(messages)) == [(0, 1), (1, 4), (4, 5)]


def test_orphan_results_are_units_of_their_own():
    """CX-6."""
    assert list(units([result("a"), result("b"), UserMessage("q")])) == [(0, 1), (1, 2), (2, 3)]


@given(st.data())
def test_units_have_no_gaps(strategies, data):
    """CX-6, for arbitrarily broken transcripts."""
    messages = data.draw(strategies.broken)

    cut = list(units(messages))

    assert [index for begin, end in cut for index in range(begin, end)] == list(range(len(messages)))


@given(st.data())
def test_units_are_the_same_from_both_ends(strategies, data):
    """CX-6, for arbitrarily broken transcripts."""
    messages = data.draw(strategies.broken)
    forwards = list(units(messages))
    start = data.draw(st.sampled_from([0, *(begin for begin, _ in forwards)]))

    assert list(units_backwards(messages))[::-1] == forwards
    assert list(units_backwards(messages, start))[::-1] == list(units(messages, start))
