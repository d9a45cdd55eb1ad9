"""Characters of a conversation, counted once per message."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.context.observation import observing
from yiemagent.context.size import (
    check_size,
    estimate_size,
    estimate_tokens,
    large_context,
    message_size,
    stats,
)
from yiemagent.errors import ConfigurationError
from yiemagent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)


def size_of(*blocks):
    return estimate_size([AssistantMessage(blocks)])


def test_text_reasoning_arguments_and_images_are_counted():
    """CX-1."""
    messages = [
        UserMessage((TextContent("12345"), ImageContent(data="A" * 5000))),
        AssistantMessage((ReasoningContent("123"), ToolCall("call-1", "look", {"a": 1}))),
        ToolResultMessage("call-1", "look", "1234567"),
    ]

    assert estimate_size(messages, "system") == 6 + 5 + 100 + 3 + len('{"a":1}') + 7


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        (None, 0),
        ({}, 2),
        ({"a": object()}, 50),
        ({1, 2}, 50),
        ({(1, 2): "tuple key"}, 50),
        ({"é": "ü"}, len('{"é":"ü"}')),
        (MappingProxyType({"a": MappingProxyType({})}), len('{"a":{}}')),
    ],
)
def test_arguments_count_as_compact_json(arguments, size):
    """T216: what JSON cannot say counts 50."""
    assert size_of(ToolCall("1", "look", arguments)) == size


def test_arguments_that_contain_themselves_count_50():
    """T216."""
    circular = {}
    circular["self"] = circular

    assert size_of(ToolCall("1", "look", circular)) == 50


def test_arguments_that_did_not_parse_count_their_raw_text():
    """A megabyte of broken arguments is a megabyte."""
    assert size_of(ToolCall("1", "look", {}, arguments_error="bad", raw_arguments="{" * 1000)) == 1002


def test_opaque_blocks_count_their_json():
    """They are sent back verbatim."""
    assert size_of(OpaqueContent({"type": "x"})) == len('{"type":"x"}')


@pytest.mark.parametrize("content", [None, 5, [], (), [None], [object()], {"a": 1}])
def test_unknown_content_counts_nothing(content):
    """T214."""
    assert estimate_size([CustomMessage("note", content)]) == 0


def test_a_message_without_content_counts_nothing():
    """T214."""
    assert estimate_size([object(), None]) == 0


def test_own_messages_count_their_text():
    """CX-1: string content."""
    assert estimate_size([CustomMessage("note", "12345")]) == 5


@pytest.mark.parametrize(
    ("text", "size"), [("\x00\x01", 2), ("👩‍👩‍👧", 5), ("e\u0301", 2), ("\ud800", 1), ("日本", 2)]
)
def test_any_text_is_counted_in_code_points(text, size):
    """T215: code points, not graphemes."""
    assert estimate_size([UserMessage(text)], text) == 2 * size


def test_a_surrogate_in_arguments_does_not_crash():
    """T215."""
    assert size_of(ToolCall("1", "look", {"a": "\ud800"})) > 0


def test_a_message_is_counted_once():
    """Sizes are remembered, so a turn costs what it added."""

    class Counting(Mapping):
        walks = 0

        def __getitem__(self, key):
            return 1

        def __len__(self):
            return 1

        def __iter__(self):
            Counting.walks += 1
            return iter("a")

    message = AssistantMessage((ToolCall("1", "look", Counting()),))
    first = message_size(message)

    assert message_size(message) == first == len('{"a":1}')
    assert Counting.walks == 1


def test_a_counted_message_equals_one_that_was_not():
    """The memory is no part of the message."""
    counted, fresh = UserMessage("hi", timestamp=1.0), UserMessage("hi", timestamp=1.0)
    message_size(counted)

    assert counted == fresh
    assert hash(counted) == hash(fresh)
    assert repr(counted) == repr(fresh)
    assert pickle.loads(pickle.dumps(counted)) == fresh


def test_four_characters_are_a_token():
    """CX-2."""
    assert [estimate_tokens(size) for size in (0, 3, 4, 4001)] == [0, 0, 1, 1000]


@pytest.mark.parametrize(
    ("size", "level"),
    [
        (199_999, "ok"),
        (200_000, "ok"),
        (200_001, "warning"),
        (400_000, "warning"),
        (400_001, "critical"),
    ],
)
def test_limits_are_strict(size, level):
    """T199."""
    assert check_size([UserMessage("x" * (size - 10))], "s" * 10) == level
    assert large_context([UserMessage("x" * size)]) == (level != "ok")


def test_limits_can_be_given():
    """CX-3, CX-4."""
    messages = [UserMessage("x" * 11)]

    assert check_size(messages, warning=10, critical=20) == "warning"
    assert check_size(messages, warning=5, critical=10) == "critical"
    assert large_context(messages, threshold=11) is False


@pytest.mark.parametrize("limits", [{"warning": -1}, {"warning": 5, "critical": 4}])
def test_absurd_limits_are_refused(limits):
    """Bad input is a clear error."""
    with pytest.raises(ConfigurationError, match="warning="):
        check_size([], **limits)
    with pytest.raises(ConfigurationError, match="-1"):
        large_context([], threshold=-1)


def test_stats_count_messages_by_role():
    """CX-10."""
    numbers = stats([UserMessage("1234"), AssistantMessage("12"), UserMessage("x"), object()], "12345")

    assert numbers.message_count == 4
    assert numbers.char_count == 12
    assert numbers.estimated_tokens == 3
    assert numbers.by_role == {"user": 2, "assistant": 1, "unknown": 1}
    assert numbers.system_prompt_chars == 5


@pytest.mark.parametrize("measure", [estimate_size, stats, large_context, check_size])
def test_each_estimate_is_observed_once(measure):
    """T200."""
    seen = []
    with observing(seen.append):
        measure([UserMessage("secret")], "system")

    assert [(one.name, dict(one.data)) for one in seen] == [
        ("context.size", {"char_count": 12, "message_count": 1}),
    ]


def test_only_critical_is_observed_above_both_limits():
    """T199."""
    seen = []
    with observing(seen.append):
        check_size([UserMessage("x" * 400_001)])

    assert [one.name for one in seen] == ["context.size", "context.warning"]
    assert seen[1].data == {"level": "critical", "char_count": 400_001, "threshold": 400_000}


def test_an_observer_that_raises_is_contained(caplog):
    """Telemetry never breaks a run."""

    def broken(diagnostic):
        raise RuntimeError("observer is broken")

    with observing(broken):
        assert estimate_size([UserMessage("hi")]) == 2

    assert "a context observer raised" in caplog.text


def test_nobody_observes_after_the_block():
    """The observer is bound to the block."""
    seen = []
    with observing(seen.append), observing(None):
        estimate_size([])
    estimate_size([])

    assert seen == []


@given(st.data())
def test_sizes_are_additive_and_agree_with_stats(strategies, data):
    """T212, T213."""
    first, second = data.draw(strategies.sound), data.draw(strategies.broken)
    prompt = data.draw(st.text(max_size=5))

    whole = estimate_size([*first, *second], prompt)

    assert whole == len(prompt) + estimate_size(first) + estimate_size(second)
    assert whole >= estimate_size(first, prompt) >= 0
    assert stats([*first, *second], prompt).char_count == whole
