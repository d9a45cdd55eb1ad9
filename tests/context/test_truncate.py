"""Leaving out whole units so that a conversation fits."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.context.observation import observing
from yiemagent.context.size import estimate_size
from yiemagent.context.transcript import validate_transcript
from yiemagent.context.truncate import make_transform, shorten_results, truncate
from yiemagent.errors import ConfigurationError
from yiemagent.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)


def users(*texts):
    return [UserMessage(text) for text in texts]


def numbered(count):
    return [AssistantMessage(str(index)) for index in range(count)]


def group(call_id, text="found"):
    call = AssistantMessage((ToolCall(call_id, "look", {}),))
    return [call, ToolResultMessage(call_id, "look", text)]


def texts(messages):
    return [message.text for message in messages]


# --- sliding window


def test_the_newest_are_kept_with_the_first_question():
    """CX-7."""
    messages = [*users("question"), *numbered(10)]

    kept, dropped = truncate(messages, max_messages=4)

    assert texts(kept) == ["question", "7", "8", "9"]
    assert dropped == 7


def test_no_message_allowed_still_keeps_the_first_question():
    """T201."""
    assert texts(truncate([*users("question"), *numbered(3)], max_messages=0)[0]) == ["question"]


def test_one_character_allowed_still_keeps_the_first_question():
    """T202."""
    assert texts(truncate([*users("question"), *numbered(3)], max_chars=1)[0]) == ["question"]


def test_no_character_allowed_keeps_nothing_without_the_first_question():
    """T202."""
    assert truncate(users("a", "b"), max_chars=0, keep_first_user=False) == ([], 2)


def test_exactly_at_the_limits_nothing_is_left_out():
    """T203."""
    messages = users("12345", "12345")

    assert truncate(messages, max_messages=2, max_chars=10) == (messages, 0)


def test_without_a_question_the_window_is_plain():
    """T204."""
    assert texts(truncate(numbered(5), max_messages=2)[0]) == ["3", "4"]


def test_a_first_question_inside_the_window_is_there_once():
    """T205."""
    messages = [*numbered(4), *users("question"), AssistantMessage("answer")]

    assert texts(truncate(messages, max_messages=3)[0]) == ["question", "answer"]


def test_what_lies_before_the_first_question_is_left_out():
    """T206."""
    messages = [*numbered(2), *users("question"), *numbered(2)]

    assert texts(truncate(messages, max_messages=4)[0]) == ["question", "0", "1"]


def test_a_unit_too_long_is_skipped_and_older_ones_are_kept():
    """T211."""
    messages = [*users("q"), AssistantMessage("old"), AssistantMessage("x" * 100), AssistantMessage("new")]

    assert texts(truncate(messages, max_chars=20)[0]) == ["q", "old", "new"]


def test_a_call_is_left_out_with_its_results():
    """CX-6, case C-01."""
    messages = [*users("q"), *group("a", "x" * 100), AssistantMessage("answer")]

    kept, dropped = truncate(messages, max_chars=50)

    assert texts(kept) == ["q", "answer"]
    assert dropped == 2


def test_a_call_does_not_fit_by_halves():
    """CX-6."""
    assert truncate([*users("q"), *group("a"), *users("z")], max_messages=3)[1] == 2


def test_an_unknown_strategy_is_taken_for_the_window(caplog):
    """CX-5."""
    assert texts(truncate(numbered(3), max_messages=1, strategy="newest")[0]) == ["2"]
    assert "strategy='newest'" in caplog.text


def test_no_limit_keeps_everything():
    """None = no limit."""
    messages = numbered(500)

    assert truncate(messages, max_messages=None, max_chars=None) == (messages, 0)


# --- bookends


@pytest.mark.parametrize(
    ("room", "kept"),
    [
        (5, ["0", "1", "2", "8", "9"]),
        (1, ["0"]),
        (2, ["0", "9"]),
        (10, [str(index) for index in range(10)]),
        (0, []),
    ],
)
def test_bookends_favour_the_front(room, kept):
    """T207."""
    assert texts(truncate(numbered(10), max_messages=room, strategy="bookends")[0]) == kept


def test_bookends_never_exceed_the_characters():
    """T208: not even for the first question."""
    messages = [*users("x" * 100), *numbered(10)]

    kept, _ = truncate(messages, max_chars=3, strategy="bookends")

    assert estimate_size(kept) == 3
    assert texts(kept) == ["0", "8", "9"]


def test_bookends_keep_calls_with_their_results():
    """CX-6."""
    messages = [*group("a"), *group("b"), *group("c")]

    assert truncate(messages, max_messages=5, strategy="bookends")[0] == [*group_of(messages, 0, 2)]


def group_of(messages, *begins):
    return [messages[index] for begin in (b * 2 for b in begins) for index in (begin, begin + 1)]


# --- properties

limits = st.fixed_dictionaries(
    {
        "max_messages": st.one_of(st.none(), st.integers(0, 8)),
        "max_chars": st.one_of(st.none(), st.integers(0, 80)),
        "strategy": st.sampled_from(["sliding_window", "bookends"]),
        "keep_first_user": st.booleans(),
    }
)


def _positions(kept, messages):
    """Where each kept message lies; by identity, since equal messages may occur twice."""
    return [next(i for i, one in enumerate(messages) if one is message) for message in kept]


@given(st.data(), limits)
def test_a_truncated_transcript_is_sound_ordered_and_within_its_limits(strategies, data, limits):
    """T209, T210, T212."""
    messages = data.draw(strategies.sound)

    kept, dropped = truncate(messages, **limits)

    assert validate_transcript(kept) == []
    assert dropped == len(messages) - len(kept)
    positions = _positions(kept, [*messages])
    assert positions == sorted(set(positions))
    first = next((m for m in messages if m.role == "user"), None)
    forced = limits["strategy"] == "sliding_window" and limits["keep_first_user"] and first is not None
    free = [message for message in kept if message is not first] if forced else kept
    assert limits["max_messages"] is None or len(free) <= limits["max_messages"]
    assert limits["max_chars"] is None or estimate_size(free) <= limits["max_chars"]
    assert not forced or any(message is first for message in kept)


@given(st.data(), limits)
def test_an_orphan_result_is_kept_or_dropped_without_an_error(strategies, data, limits):
    """T209 for transcripts that are broken already: truncating neither mends nor raises."""
    messages = data.draw(strategies.broken)

    kept, dropped = truncate(messages, **limits)

    assert len(kept) + dropped == len(messages)


@given(st.data(), limits)
def test_the_transform_truncates_the_same(strategies, data, limits):
    """T212, CX-9."""
    messages = data.draw(strategies.sound)

    assert make_transform(**limits)(messages, None) == truncate(messages, **limits)[0]


# --- what is said, and bad input


def test_a_cut_is_observed_and_no_cut_is_not():
    """CX-5: telemetry only if something was left out."""
    seen = []
    with observing(seen.append):
        truncate(numbered(2), max_messages=2)
        truncate(numbered(3), max_messages=2)

    assert [(one.name, dict(one.data)) for one in seen] == [
        ("context.truncated", {"dropped": 1, "kept": 2, "strategy": "sliding_window"}),
    ]


def test_the_transform_warns_once(caplog):
    """CX-9: a long conversation is cut each turn; one warning is enough."""
    caplog.set_level(logging.DEBUG)
    transform = make_transform(max_messages=1)
    for _ in range(3):
        transform(numbered(2), None)

    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG", "DEBUG"]


def test_the_transform_can_be_silent(caplog):
    """CX-9: warn_on_truncation."""
    make_transform(max_messages=1, warn_on_truncation=False)(numbered(2), None)

    assert caplog.records == []


@pytest.mark.parametrize("bad", [{"max_messages": -1}, {"max_chars": -5}])
def test_negative_limits_are_refused_at_once(bad):
    """Bad input is a clear error, when the transform is made and not in the run."""
    with pytest.raises(ConfigurationError, match="0 or more"):
        make_transform(**bad)
    with pytest.raises(TypeError):
        make_transform(max_message=3)


def test_the_given_list_is_left_alone():
    """The history is never changed."""
    messages = numbered(3)
    kept, _ = truncate(messages, max_messages=None)
    kept.clear()

    assert len(messages) == 3


# --- huge results


def test_the_middle_of_a_huge_result_is_left_out():
    """Case C-29."""
    image = ImageContent(url="u")
    text = "0123456789" * 200_000
    messages = [
        AssistantMessage((ToolCall("a", "look"),)),
        ToolResultMessage("a", "look", (TextContent(text), image), trust="untrusted"),
    ]

    shorter = shorten_results(1_000)(messages, None)[1]

    assert len(shorter.text) == 1_000
    head, _, rest = shorter.text.partition("\n[... ")
    missing, _, tail = rest.partition(" characters left out here ...]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) + int(missing) == len(text)
    assert shorter.content[1] is image
    assert shorter.trust == "untrusted"
    assert messages[1].text == text


def test_results_that_fit_and_other_messages_are_untouched():
    """Case C-29: only tool results are cut."""
    messages = [
        UserMessage("x" * 500),
        *group("a", "x" * 200),
        ToolResultMessage("b", "look", [ImageContent()] * 3),
    ]

    assert all(
        made is given for made, given in zip(shorten_results(200)(messages, None), messages, strict=True)
    )


def test_a_cut_result_is_the_same_object_in_the_next_request():
    """Sizes and wire forms are made once, and the provider's cache stays warm."""
    shorten = shorten_results(200)
    messages = group("a", "x" * 500)
    first = shorten(messages, None)[1]

    assert shorten([*messages, UserMessage("next")], None)[1] is first


def test_an_edited_history_is_read_again():
    """A message replaced in the middle must not come back."""
    shorten = shorten_results(200)
    secret, public = group("a", "secret" * 100), group("a", "public" * 100)
    shorten([*secret, *users("next")], None)

    assert "secret" not in shorten([*public, *users("next")], None)[1].text


class _Incomparable:
    def __eq__(self, other):
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None


def test_details_that_cannot_be_compared_do_no_harm():
    """Applications keep arrays in `details`."""
    shorten = shorten_results(200)
    for _ in range(2):
        message = ToolResultMessage("a", "look", "x" * 500, details=_Incomparable(), timestamp=1.0)
        assert len(shorten([message], None)[0].text) == 200


def test_a_limit_without_room_for_the_note_is_refused():
    """Bad input is a clear error."""
    with pytest.raises(ConfigurationError, match="199"):
        shorten_results(199)
