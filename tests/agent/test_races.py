"""Races: thousands of random moments against the end of a run lose nothing and answer each message once.

``YIEMAGENT_STRESS=n`` plays n times as many rounds, with new random seeds (``make stress``).
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.assistant_events import Done
from yiemagent.errors import AgentStopped, ChannelFull, RunAborted, WaitTimeout, YiemAgentError
from yiemagent.messages import AssistantMessage, TextContent, UserMessage
from yiemagent.model import LlmContext, ModelInfo, StreamOptions
from yiemagent.testing import WAIT, Outcome, run_in_thread

pytestmark = pytest.mark.threads

STRESS = max(1, int(os.environ.get("YIEMAGENT_STRESS", "1")))
FIRST_SEED = random.randrange(1_000_000) if "YIEMAGENT_STRESS" in os.environ else 0
BATCH = 25  # Actions of one actor on one agent: short histories keep the rounds short.


def seeds(rounds: int) -> range:
    """Rounds inside one test: a broken build then costs one wait and not one for each of them."""
    return range(FIRST_SEED, FIRST_SEED + rounds * STRESS)


class Echo:
    """Answers at once with the text of the last user message: ``re: <text>``."""

    info = ModelInfo(id="echo", provider="echo")

    def __init__(self, *, abortable: bool) -> None:
        self.abortable = abortable

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[Any]:
        last = next(m for m in reversed(context.messages) if isinstance(m, UserMessage))
        yield Done(AssistantMessage((TextContent(f"re: {last.text}"),)))


@dataclass
class Accepted:
    """What the agent took from one actor, in order, and what came of calls that give an answer."""

    texts: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    """Answers to follow-ups that joined a call's own run."""


class Storm:
    """Actors that use one agent at random moments, each on a thread of its own."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.rng = random.Random(seed)
        self.agent = Agent(Echo(abortable=seed % 2 == 0), **options)
        self.stopped = threading.Event()

    def pause(self, rng: random.Random) -> None:
        for _ in range(rng.randrange(1500)):
            pass

    def actor(
        self, kind: str, act: Callable[[str, Accepted], Any], actions: int = BATCH
    ) -> Outcome[Accepted]:
        rng = random.Random(self.rng.random())

        def body() -> Accepted:
            accepted = Accepted()
            for number in range(actions):
                text = f"{kind}{number}"
                self.pause(rng)
                while True:
                    try:
                        act(text, accepted)
                    except ChannelFull:
                        self.pause(rng)
                        continue
                    except AgentStopped:
                        return accepted
                    break
            return accepted

        return run_in_thread(body)

    def prompts(self) -> Outcome[Accepted]:
        def act(text: str, accepted: Accepted) -> None:
            self.agent.prompt(text)
            accepted.texts.append(text)

        return self.actor("p", act)

    def follow_ups(self) -> Outcome[Accepted]:
        def act(text: str, accepted: Accepted) -> None:
            self.agent.follow_up(text)
            accepted.texts.append(text)

        return self.actor("f", act)

    def steering(self) -> Outcome[Accepted]:
        def act(text: str, accepted: Accepted) -> None:
            self.agent.steer(text)
            accepted.texts.append(text)

        return self.actor("s", act)

    def aborts(self) -> Outcome[Accepted]:
        return self.actor("a", lambda text, accepted: self.agent.abort())

    def calls(self) -> Outcome[Accepted]:
        def act(text: str, accepted: Accepted) -> None:
            try:
                result = self.agent.run(text, timeout=30)
            except RunAborted as error:
                accepted.texts.append(text)
                accepted.answers.append("aborted")
                if error.result is not None:
                    accepted.extra.extend(r.text for r in error.result.responses[1:])
                return
            accepted.texts.append(text)
            accepted.answers.append(result.text)
            accepted.extra.extend(response.text for response in result.responses[1:])

        return self.actor("r", act)

    def asked(self) -> Counter[str]:
        """How often each text stands in the history as the user's."""
        return Counter(m.text for m in self.agent.messages if isinstance(m, UserMessage))

    def in_order(self, kind: str) -> list[int]:
        texts = [m.text for m in self.agent.messages if isinstance(m, UserMessage)]
        return [int(text[1:]) for text in texts if text[0] == kind]

    def take(self) -> str | None:
        """The next response's text, ``aborted``, or None when nothing is pending."""
        try:
            return str(self.agent.take_response(0)["content"][0]["text"])
        except RunAborted:
            return "aborted"
        except WaitTimeout:
            return None

    def taker(self, done: threading.Event) -> Outcome[list[str]]:
        """Take everything until *done* and idle."""

        def body() -> list[str]:
            taken: list[str] = []
            while True:
                finished = done.is_set() and not self.agent.is_busy
                text = self.take()
                if text is not None:
                    taken.append(text)
                elif finished:
                    return taken
                else:
                    done.wait(0.0005)

        return run_in_thread(body)

    def flush(self) -> None:
        """Let everything that is still queued be delivered."""
        number = 0
        while self.agent.has_queued_messages:
            self.agent.run(f"z{number}", timeout=30)
            number += 1


def play_exactly_once(seed: int) -> None:
    storm, done = Storm(seed), threading.Event()
    with storm.agent:
        taker = storm.taker(done)
        prompts, follow_ups, more = storm.prompts(), storm.follow_ups(), storm.follow_ups()
        accepted = [outcome.get(30).texts for outcome in (prompts, follow_ups, more)]
        done.set()
        taken = taker.get(30)

        expected = Counter(f"re: {text}" for texts in accepted for text in texts)
        assert Counter(taken) == expected
        assert storm.asked() == Counter(text for texts in accepted for text in texts)
        assert storm.in_order("p") == sorted(storm.in_order("p"))
        answered = [m.text for m in storm.agent.messages if isinstance(m, AssistantMessage)]
        assert taken == answered


def test_prompts_and_follow_ups_are_each_answered_exactly_once_in_order() -> None:
    """F-14, F-17, T60, issue part 2: against the end of every run."""
    for seed in seeds(17):
        play_exactly_once(seed)


def play_steered(seed: int) -> None:
    storm, done = Storm(seed), threading.Event()
    with storm.agent:
        taker = storm.taker(done)
        prompts, follow_ups, steering = storm.prompts(), storm.follow_ups(), storm.steering()
        accepted = [outcome.get(30).texts for outcome in (prompts, follow_ups, steering)]
        storm.agent.wait_for_idle()
        done.set()
        taken = taker.get(30)
        storm.flush()

        asked = storm.asked()
        assert all(asked[text] == 1 for texts in accepted for text in texts)
        assert storm.in_order("s") == list(range(BATCH))
        assert storm.in_order("f") == list(range(BATCH))
        assert storm.in_order("p") == list(range(BATCH))
        assert len(taken) == len(accepted[0]) + len(accepted[1])


def test_steering_is_delivered_exactly_once_in_order_whatever_the_run_does() -> None:
    """F2, S8, X5, issue part 2: in this run or in the next."""
    for seed in seeds(17):
        play_steered(seed)


def play_aborted(seed: int) -> None:
    storm, done = Storm(seed), threading.Event()
    with storm.agent:
        taker = storm.taker(done)
        actors = [storm.prompts(), storm.follow_ups(), storm.steering(), storm.aborts()]
        accepted = [outcome.get(30).texts for outcome in actors[:3]]
        actors[3].get(30)
        while storm.agent.has_queued_messages:
            storm.agent.wait_for_idle()
            storm.agent.prompt("z")
            storm.agent.wait_for_idle()
            accepted[0].append("z")
        done.set()
        taken = taker.get(30)

        asked = storm.asked()
        assert all(asked[text] == 1 for texts in accepted for text in texts if text != "z")
        for kind in "pfs":
            assert storm.in_order(kind) == list(range(BATCH))
        assert len(taken) == len(accepted[0]) + len(accepted[1])
        assert storm.take() is None


def test_aborts_lose_nothing_and_answer_nothing_twice() -> None:
    """F-13, F-15, A2, A5, decision 4, issue part 2: what was not delivered stays queued."""
    for seed in seeds(22):
        play_aborted(seed)


def play_called(seed: int) -> None:
    storm, done = Storm(seed), threading.Event()
    with storm.agent:
        taker = storm.taker(done)
        calls, prompts, follow_ups = storm.calls(), storm.prompts(), storm.follow_ups()
        aborts = storm.aborts() if seed % 3 == 0 else None
        called, prompted, followed = (outcome.get(60) for outcome in (calls, prompts, follow_ups))
        if aborts is not None:
            aborts.get(30)
        flushed: list[str] = []
        while storm.agent.has_queued_messages:
            storm.agent.wait_for_idle()
            result = storm.agent.run("z", timeout=30)
            flushed.extend(response.text for response in result.responses[1:])
        storm.agent.wait_for_idle()
        done.set()
        taken = taker.get(30)

        for text, answer in zip(called.texts, called.answers, strict=True):
            assert answer in (f"re: {text}", "aborted")
        if aborts is None:
            assert called.answers == [f"re: {text}" for text in called.texts]
        everything = Counter(taken + called.extra + flushed)
        answered = Counter({text: n for text, n in everything.items() if text.startswith("re: f")})
        lost = Counter(f"re: {text}" for text in followed.texts) - answered
        assert sum(lost.values()) <= everything["aborted"] + everything[""]
        assert all(number == 1 for number in answered.values())
        assert len(taken) + len(called.extra) + len(flushed) == len(prompted.texts) + len(followed.texts)


def test_callers_get_their_own_answers_among_prompts_follow_ups_and_aborts() -> None:
    """D-07, decision 4, issue part 2: and every follow-up is answered somewhere, once."""
    for seed in seeds(17):
        play_called(seed)


def play_stopped(seed: int) -> None:
    storm = Storm(seed)
    actors = [storm.prompts(), storm.follow_ups(), storm.steering(), storm.calls()]
    futures: list[Any] = []

    def submits() -> None:
        try:
            for number in range(BATCH):
                futures.append(storm.agent.submit(f"u{number}"))
        except AgentStopped:
            pass

    submitter = run_in_thread(submits)
    for _ in range(storm.rng.randrange(40)):
        storm.pause(storm.rng)
    assert storm.agent.stop(30) is True

    accepted = [outcome.get(30) for outcome in actors]
    submitter.get(30)
    for future in futures:
        error = future.exception(WAIT)
        assert error is None or isinstance(error, (AgentStopped, RunAborted))
    for text, answer in zip(accepted[3].texts, accepted[3].answers, strict=True):
        # Steering that was waiting joins the call's own turn, and the echo is of the last message.
        assert answer in (f"re: {text}", "aborted") or answer.startswith("re: s")
    assert all(number == 1 for number in storm.asked().values())
    taken: list[str] = []
    with pytest.raises(AgentStopped):
        while True:
            taken.append(storm.take() or "never")
    assert len(taken) <= len(accepted[0].texts) + len(accepted[1].texts)
    assert "never" not in taken
    with pytest.raises(YiemAgentError):
        storm.agent.prompt("late")


def test_a_stop_at_any_moment_answers_or_refuses_everybody() -> None:
    """F-19, F-20, F-21, issue part 2: nobody hangs, nothing is done twice, no thread is left."""
    for seed in seeds(40):
        play_stopped(seed)


def test_the_number_of_random_moments() -> None:
    """Issue part 2: ten thousand."""
    moments = BATCH * (17 * 3 + 17 * 3 + 22 * 4 + 17 * 3 + 6 + 40 * 4)

    assert moments >= 10_000
