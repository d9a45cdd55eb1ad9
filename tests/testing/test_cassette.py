"""Cassettes: what is recorded once is replayed exactly, and secrets stay out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, LlmError, RateLimited
from yiemagent.messages import Usage, UserMessage
from yiemagent.model import LlmContext, StreamOptions
from yiemagent.testing import ScriptedLlm, call, calls, fail, say
from yiemagent.testing.cassette import record, replay

pytest_plugins = ["pytester"]


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def events_of(agent: Agent, prompt: str) -> list[str]:
    return [str(event) for event in agent.stream(prompt)]


def test_a_recorded_run_is_replayed_event_by_event(tmp_path: Path) -> None:
    """Part 9: tool calls, chunks, reasoning and usage come back as they were."""
    tape = tmp_path / "sum.json"
    script = ScriptedLlm(
        calls(call("add", a=1, b=2), text="Adding."),
        say("Three.", chunks=["Th", "ree."], reasoning="easy", usage=Usage(output_tokens=2)),
    )
    with Agent(record(script, tape), tools=[add]) as agent:
        first = events_of(agent, "1 + 2?")
        recorded = agent.messages
    with Agent(replay(tape), tools=[add]) as agent:
        second = events_of(agent, "1 + 2?")
        replayed = agent.messages

    assert first == second
    assert [message.content for message in replayed] == [message.content for message in recorded]
    assert replayed[-1].usage == Usage(output_tokens=2)  # type: ignore[union-attr]


def test_an_error_is_replayed_with_its_class(tmp_path: Path) -> None:
    """What the provider refused then is refused now."""
    tape = tmp_path / "limit.json"
    error = RateLimited("slow down", status=429, retryable=True, retry_after=3.0)
    with Agent(record(ScriptedLlm(fail(error)), tape)) as agent, pytest.raises(RateLimited):
        agent.run("x")

    with Agent(replay(tape)) as agent, pytest.raises(RateLimited) as caught:
        agent.run("x")

    assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (429, True, 3.0)


def test_another_question_is_refused_and_the_difference_shown(tmp_path: Path) -> None:
    """A cassette that no longer fits its test must not pass it."""
    tape = tmp_path / "x.json"
    with Agent(record(ScriptedLlm("a"), tape)) as agent:
        agent.run("one")

    with Agent(replay(tape)) as agent, pytest.raises(LlmError, match="another question") as caught:
        agent.run("two")

    assert "one" in str(caught.value)
    assert "two" in str(caught.value)


def test_a_question_too_many_is_refused(tmp_path: Path) -> None:
    """The script is strict."""
    tape = tmp_path / "x.json"
    with Agent(record(ScriptedLlm("a"), tape)) as agent:
        agent.run("one")

    with Agent(replay(tape)) as agent:
        agent.run("one")
        with pytest.raises(LlmError, match="no further answer"):
            agent.run("two")


def test_secrets_do_not_reach_the_file(tmp_path: Path) -> None:
    """Keys by their look, keys of the call, and what the user names."""
    tape = tmp_path / "x.json"
    key = "sk-proj-abcdef0123456789"
    model = record(ScriptedLlm(say(f"your key is {key}, Mr Smith")), tape, scrub=["Smith"])
    options = StreamOptions(api_key="private-value-of-the-call")
    question = UserMessage(f"Authorization: Bearer abcdefgh12345678 and {key} private-value-of-the-call")  # type: ignore[arg-type]

    list(model.stream(LlmContext("", [question]), options))

    text = tape.read_text()
    assert not [s for s in (key, "Smith", "abcdefgh12345678", "private-value-of-the-call") if s in text]
    assert text.count("[scrubbed]") >= 5


def test_pauses_are_kept_and_end_with_an_abort(tmp_path: Path) -> None:
    """Chunk timing is on the tape; a replay at its speed can be left in the middle of a pause."""
    tape = tmp_path / "x.json"
    with Agent(record(ScriptedLlm(say("ab", chunks=["a", "b"])), tape)) as agent:
        list(agent.stream("x"))
    data: dict[str, Any] = json.loads(tape.read_text())
    events = data["exchanges"][0]["events"]
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    for event in events[3:]:
        event["at"] += 3600
    tape.write_text(json.dumps(data))
    signal = AbortSignal()

    heard = []
    for event in replay(tape, speed=1).stream(
        LlmContext("", [UserMessage("x")]), StreamOptions(signal=signal)
    ):  # type: ignore[arg-type]
        heard.append(event.type)
        if event.type == "text_delta":
            signal.abort()

    assert heard == ["start", "text_start", "text_delta"]


@pytest.mark.parametrize("content", [None, "no json", '{"format": 1}'])
def test_what_is_no_cassette_is_refused_in_words(tmp_path: Path, content: str | None) -> None:
    """Bad input names the file and the way out."""
    tape = tmp_path / "x.json"
    if content is not None:
        tape.write_text(content)

    with pytest.raises(ConfigurationError, match=r"cassette"):
        replay(tape)


@pytest.mark.servers
def test_the_fixture_records_first_and_replays_afterwards(pytester: pytest.Pytester) -> None:
    """``pytest_plugins = ["yiemagent.testing.pytest_plugin"]``."""
    pytester.makeconftest('pytest_plugins = ["yiemagent.testing.pytest_plugin"]')
    pytester.makepyfile(
        """
        from yiemagent import Agent
        from yiemagent.testing import ScriptedLlm

        def test_it(cassette, request):
            answers = ["recorded"] if request.config.getoption("--co", False) is False else []
            with Agent(cassette(ScriptedLlm(*answers))) as agent:
                assert agent.run("x").text == "recorded"
        """
    )

    first = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    tape = next(pytester.path.glob("cassettes/*.json"))
    tape.write_text(tape.read_text().replace("recorded", "replayed"))
    second = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    first.assert_outcomes(passed=1)
    second.assert_outcomes(failed=1)
    second.stdout.fnmatch_lines(["*replayed*"])
