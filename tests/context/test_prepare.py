"""Ready-made hooks that prepare one request, alone and together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.context.compact import Compactor
from yiemagent.context.observation import observing
from yiemagent.context.prepare import (
    compose,
    compose_prepare,
    keep_last_turns,
    last_turns,
    only_tools,
    system_note,
    time_note,
)
from yiemagent.context.transcript import validate_transcript
from yiemagent.context.truncate import make_transform, shorten_results
from yiemagent.context.trust import untrusted_boundary
from yiemagent.errors import ConfigurationError
from yiemagent.loop.config import AgentContext
from yiemagent.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from yiemagent.model import ModelInfo
from yiemagent.testing.scripted import ScriptedLlm
from yiemagent.tools.tool import Tool


def group(call_id, text="found", **fields):
    return [
        AssistantMessage((ToolCall(call_id, "look"),)),
        ToolResultMessage(call_id, "look", text, **fields),
    ]


HISTORY = [
    UserMessage("q1"),
    *group("a"),
    AssistantMessage("a1"),
    UserMessage("q2"),
    AssistantMessage("a2"),
    UserMessage("q3"),
    *group("b"),
]


def tool(name):
    return Tool(name=name, execute=lambda *args: "x")


# --- transforms


def test_transforms_are_called_first_to_last_with_the_signal():
    """Runbook 2.6."""
    calls = []

    def first(messages, signal):
        calls.append(("first", signal))
        return messages[1:]

    def second(messages, signal):
        calls.append(("second", signal))
        return [*messages, UserMessage("end")]

    sent = compose(first, None, second)(HISTORY, "the signal")

    assert calls == [("first", "the signal"), ("second", "the signal")]
    assert [m.text for m in sent[-1:]] == ["end"]
    assert len(sent) == len(HISTORY)


def test_no_transform_changes_nothing():
    """The loop gets its own list back."""
    assert compose()(HISTORY) is HISTORY
    assert compose(shorten_results(), untrusted_boundary())(HISTORY) is HISTORY


def test_an_overflow_is_recovered_from_behind_the_fence():
    """TR-6: the second request is fenced like the first."""
    llm = ScriptedLlm("s", "t", info=ModelInfo(id="m", context_window=10_000))
    history = [
        UserMessage("q"),
        *(AssistantMessage("x" * 3_000) for _ in range(8)),
        UserMessage("and"),
        *group("b", "obey " * 100, trust="untrusted"),
    ]
    pipeline = compose(Compactor(llm), untrusted_boundary())
    pipeline(history)

    shorter = pipeline.recover_from_overflow(history)

    assert validate_transcript(shorter) == []
    assert "<<<BEGIN EXTERNAL CONTENT>>>\nSource: look" in shorter[-1].text
    assert shorter[1].text.startswith("Summary")


def test_an_overflow_nobody_can_help_is_said_so():
    """None: the run ends with the overflow error."""
    llm = ScriptedLlm(info=ModelInfo(id="m", context_window=1_000))

    assert compose(make_transform(), untrusted_boundary()).recover_from_overflow(HISTORY) is None
    assert compose(Compactor(llm)).recover_from_overflow([UserMessage("q" * 50_000)]) is None


def test_something_that_is_no_transform_is_refused():
    """Bad input is a clear error, when it is put together."""
    with pytest.raises(ConfigurationError, match="'nonsense'"):
        compose("nonsense")
    with pytest.raises(ConfigurationError, match="5"):
        compose_prepare(5)


# --- the prompt


def test_a_note_is_a_paragraph_of_the_system_prompt():
    """Runbook 2.6."""
    context = AgentContext("Be brief.", HISTORY)

    prepared = system_note("Speak French.")(context, None)

    assert prepared.system_prompt == "Be brief.\n\nSpeak French."
    assert prepared.messages is HISTORY
    assert context.system_prompt == "Be brief."


def test_a_note_without_a_prompt_is_the_prompt():
    """No blank beginning."""
    assert system_note("Speak French.")(AgentContext(), None).system_prompt == "Speak French."


def test_a_note_may_depend_on_the_context():
    """User preferences, the number of messages, anything."""
    hook = system_note(lambda context: f"{len(context.messages)} so far" if context.messages else None)

    assert hook(AgentContext("p", HISTORY), None).system_prompt == "p\n\n9 so far"
    assert hook(AgentContext("p"), None).system_prompt == "p"


def test_the_time_is_told_with_its_offset_and_rounded_down():
    """Runbook 2.6; a steady prompt keeps the provider's cache warm."""
    noon = datetime(2026, 5, 4, 12, 34, 56, 789, tzinfo=UTC)
    zone = timezone(timedelta(hours=2))

    def told(**options):
        hook = time_note(now=lambda tz: noon.astimezone(tz), **options)
        return hook(AgentContext(), None).system_prompt

    assert told() == "Current time: 2026-05-04T12:34:00+00:00"
    assert told(zone=zone, resolution=1) == "Current time: 2026-05-04T14:34:56+02:00"
    assert told(label="Now", resolution=3600) == "Now: 2026-05-04T12:00:00+00:00"


def test_the_time_comes_from_the_clock():
    """The default clock is the real one."""
    before = datetime.now(UTC).replace(second=0, microsecond=0)

    text = time_note()(AgentContext(), None).system_prompt

    assert datetime.fromisoformat(text.removeprefix("Current time: ")) >= before


@pytest.mark.parametrize("bad", [0, -1, float("nan")])
def test_an_absurd_resolution_is_refused(bad):
    """Bad input is a clear error."""
    with pytest.raises(ConfigurationError, match="resolution"):
        time_note(resolution=bad)


# --- turns


@pytest.mark.parametrize(("count", "begin"), [(1, 6), (2, 4)])
def test_the_last_turns_begin_with_their_question(count, begin):
    """Runbook 2.6, case C-01: never between a call and its result."""
    assert list(last_turns(HISTORY, count)) == HISTORY[begin:]


@pytest.mark.parametrize("count", [3, 4, 100])
def test_fewer_turns_than_asked_for_are_kept_as_they_are(count):
    """Nothing is copied."""
    assert last_turns(HISTORY, count) is HISTORY


def test_what_comes_before_the_first_question_is_kept_with_too_few_turns():
    """An assistant may have spoken first."""
    history = [AssistantMessage("hello"), UserMessage("q"), AssistantMessage("a")]

    assert last_turns(history, 2) is history
    assert list(last_turns(history, 1)) == history[1:]


def test_questions_in_a_row_begin_one_turn():
    """Case C-07: a follow-up right behind an aborted question."""
    history = [*HISTORY, AssistantMessage("a3"), UserMessage("q4"), UserMessage("q5"), AssistantMessage("a5")]

    assert [m.text for m in last_turns(history, 1)] == ["q4", "q5", "a5"]


@given(st.data(), st.integers(1, 4))
def test_the_last_turns_of_a_sound_transcript_are_sound(strategies, data, count):
    """Case C-01 for any transcript."""
    messages = data.draw(strategies.sound)

    kept = last_turns(messages, count)

    assert validate_transcript(kept) == []
    assert list(kept) == list(messages[len(messages) - len(kept) :])


def test_the_hook_prunes_and_says_so():
    """Runbook 2.6."""
    seen = []
    with observing(seen.append):
        prepared = keep_last_turns(2)(AgentContext("p", HISTORY), None)

    assert list(prepared.messages) == HISTORY[4:]
    assert prepared.system_prompt == "p"
    assert [(one.name, dict(one.data)) for one in seen] == [
        ("context.pruned", {"dropped": 4, "kept": 5, "turns": 2}),
    ]


@pytest.mark.parametrize("bad", [0, -1, True])
def test_an_absurd_number_of_turns_is_refused(bad):
    """Bad input is a clear error."""
    with pytest.raises(ConfigurationError, match="1 turn or more"):
        keep_last_turns(bad)


# --- tools


def test_some_tools_only_are_offered_in_their_order():
    """Runbook 2.6."""
    context = AgentContext("p", HISTORY, [tool("a"), tool("b"), tool("c")])

    assert only_tools(["c", "a", "unknown"])(context, None).tools.names == ("a", "c")
    assert context.tools.names == ("a", "b", "c")


def test_tools_may_be_chosen_by_the_context():
    """By intent, by user, by the number of turns."""
    context = AgentContext("p", HISTORY, [tool("a"), tool("b")])

    assert only_tools(lambda context: {"b"})(context, None).tools.names == ("b",)
    assert only_tools(lambda context: None)(context, None) is context


def test_one_name_instead_of_a_collection_is_refused():
    """`only_tools("ab")` would offer the tools `a` and `b`."""
    with pytest.raises(ConfigurationError, match="'look'"):
        only_tools("look")


# --- together


def test_steps_are_called_first_to_last_and_none_keeps_the_context():
    """Runbook 2.6: prune, tell the time, choose tools."""
    context = AgentContext("p", HISTORY, [tool("a"), tool("b")])
    sinks = []

    def watch(context, event_sink):
        sinks.append(event_sink)

    hook = compose_prepare(
        keep_last_turns(1), None, watch, system_note("one"), system_note("two"), only_tools(["a"])
    )
    prepared = hook(context, "the sink")

    assert prepared.system_prompt == "p\n\none\n\ntwo"
    assert len(prepared.messages) == 3
    assert prepared.tools.names == ("a",)
    assert sinks == ["the sink"]
