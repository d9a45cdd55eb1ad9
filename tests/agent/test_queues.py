"""Steering, follow-ups and redirect on an agent: modes, clearing, and what is left over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.agent.queues import Channels
from yiemagent.agent.results import Response
from yiemagent.agent.tickets import ActiveRun, Ticket
from yiemagent.errors import LlmError, RunAborted
from yiemagent.loop.redirect import Redirect
from yiemagent.messages import Message, TextContent, UserMessage
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, fail, run_in_thread, say


def asked(agent: Agent) -> list[str]:
    return [message.text for message in agent.messages if isinstance(message, UserMessage)]


# -- steering ----------------------------------------------------------------------------


def test_steering_while_idle_waits_for_the_next_prompt() -> None:
    """Decision 8, S9, T47, PI-50: in the same first turn, after the prompt."""
    events: list[str] = []
    llm = ScriptedLlm("1")
    with Agent(llm) as agent:
        agent.subscribe(lambda event: events.append(event.type))
        assert agent.steer("briefly") is False
        assert agent.is_busy is False
        agent.run("go")

    assert [message.text for message in llm.requests[0].messages] == ["go", "briefly"]
    assert events.count("turn_start") == 1


def test_steering_during_tools_skips_none_of_them(tool: Any) -> None:
    """Decision 8, PI-51, T49: it is delivered after all results of the batch."""
    gate = Gate()
    llm = ScriptedLlm(call("hangs"), "done")
    with Agent(llm, tools=[tool("hangs", lambda *args: gate.block())]) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        assert agent.steer("only red") is True
        assert agent.has_queued_messages
        gate.open()

        assert outcome.get().text == "done"
    assert [message.role for message in llm.requests[1].messages] == [
        "user", "assistant", "tool_result", "user",
    ]  # fmt: skip


def test_steering_that_comes_while_the_last_answer_is_given_is_still_delivered() -> None:
    """Decision 8, F2, S6: the run goes on for it."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate), "2")) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        agent.steer("and now?")
        gate.open()

        assert outcome.get().text == "2"
    assert asked(agent) == ["go", "and now?"]


def test_one_at_a_time_gives_each_steering_message_its_own_turn() -> None:
    """PI-55, S5, T44, AG-30: the default."""
    llm = ScriptedLlm("1", "2", "3")
    with Agent(llm) as agent:
        for text in ("s1", "s2", "s3"):
            agent.steer(text)
        agent.run("go")

        assert agent.has_queued_messages is False
    assert [len(request.messages) for request in llm.requests] == [2, 4, 6]


def test_all_gives_them_together() -> None:
    """PI-55, S5, T45, T46: and the mode may change between two polls."""
    llm = ScriptedLlm("1", "2")
    with Agent(llm, steering_mode="all") as agent:
        for text in ("s1", "s2"):
            agent.steer(text)
        agent.run("go")
        assert len(llm.requests[0].messages) == 3

        agent.steering_mode = "one_at_a_time"
        assert agent.steering_mode == "one_at_a_time"
        assert agent.follow_up_mode == "one_at_a_time"
        agent.follow_up_mode = "all"
        assert agent.follow_up_mode == "all"


def test_the_two_modes_are_independent(tool: Any) -> None:
    """T43, PI-55: steering one at a time, follow-ups all at once."""
    gate = Gate()
    llm = ScriptedLlm(call("hangs"), "1", "2", "3")
    with Agent(llm, tools=[tool("hangs", lambda *args: gate.block())], follow_up_mode="all") as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        for text in ("s1", "s2"):
            agent.steer(text)
        for text in ("f1", "f2"):
            agent.follow_up(text)
        gate.open()
        outcome.get()

    assert asked(agent) == ["go", "s1", "s2", "f1", "f2"]
    assert len(llm.requests) == 4


def test_a_hundred_steering_messages_are_delivered_in_order() -> None:
    """T41, T57: first in, first out, nothing lost; they wait until the model call has ended."""
    gate = Gate()
    llm = ScriptedLlm(say("1", before=gate), "2")
    texts = [f"s{number}" for number in range(100)]
    with Agent(llm, steering_mode="all") as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        for text in texts:
            agent.steer(text)
        gate.open()
        outcome.get()

    assert asked(agent) == ["go", *texts]


@pytest.mark.parametrize("content", ["x" * 100_000, "日本語 \x00 \udc97", "😀" * 1000])
def test_any_content_survives_the_queue(content: str) -> None:
    """T59."""
    with Agent(ScriptedLlm("1")) as agent:
        agent.steer(content)
        agent.run("go")

    assert asked(agent)[1] == content


def test_queues_can_be_cleared_apart_and_together(tool: Any) -> None:
    """AG-29, T42, PI-83: cleared follow-ups get no response."""
    clears: list[tuple[Callable[[Agent], None], list[str]]] = [
        (Agent.clear_steering_queue, ["go", "f"]),
        (Agent.clear_follow_up_queue, ["go", "s"]),
        (Agent.clear_all_queues, ["go"]),
    ]
    for clear, expected in clears:
        gate = Gate()
        llm = ScriptedLlm(call("hangs"), *["x"] * 5)
        body = lambda *args, gate=gate: gate.block()  # noqa: E731
        with Agent(llm, tools=[tool("hangs", body)]) as agent:
            outcome = run_in_thread(agent.run, "go")
            gate.wait_entered()
            agent.steer("s")
            agent.follow_up("f")
            clear(agent)
            gate.open()
            result = outcome.get()

            assert asked(agent) == expected
            assert len(result.responses) == (2 if "f" in expected else 1)
            assert agent.has_queued_messages is False


def test_a_poll_of_a_run_that_is_over_takes_nothing() -> None:
    """AG-31, T56, F4: only the run in progress may take; the queue is left alone."""
    channels = Channels()
    old = ActiveRun(Ticket(()))
    channels.accept_steering([UserMessage((TextContent("s"),))])
    channels.accept_follow_up(Ticket(()))

    assert channels.poll_steering(old) == ()
    assert channels.poll_follow_ups(old, lambda: Response("completed")) == ()
    assert len(channels.steering) == len(channels.follow_ups) == 1


def test_whether_a_run_ends_and_whether_a_message_joins_it_is_one_decision() -> None:
    """F-14, X5: not while something is queued; and what comes afterwards does not join."""
    channels = Channels()
    channels.accept_prompt(Ticket(()), deadline=None, timeout=None)
    run = channels.next_run(0)
    assert run is not None
    message = UserMessage((TextContent("s"),))

    assert channels.accept_steering([message]) is True
    assert channels.try_finish(run) is False
    assert channels.poll_steering(run) == (message,)
    assert channels.accept_follow_up(Ticket((message,))) is True
    assert channels.try_finish(run) is False
    assert channels.poll_follow_ups(run, lambda: Response("completed")) == [message]
    assert channels.try_finish(run) is True
    assert channels.accept_follow_up(Ticket(())) is channels.accept_steering([message]) is False


def test_follow_ups_wait_until_no_steering_is_pending() -> None:
    """S6, T48: steering that came after the last poll goes first."""
    channels = Channels()
    channels.accept_prompt(Ticket(()), deadline=None, timeout=None)
    run = channels.next_run(0)
    assert run is not None
    channels.accept_follow_up(Ticket(()))
    channels.accept_steering([UserMessage((TextContent("s"),))])

    assert channels.poll_follow_ups(run, lambda: Response("completed")) == ()
    assert channels.output == []


def test_the_end_of_a_run_waits_for_nobody() -> None:
    """F1, F3, F5, T53, T54, T55: one lock decides; there is no poll to be late for."""
    with Agent(ScriptedLlm("1", "2")) as agent:
        agent.prompt("a")
        assert agent.wait_for_idle(WAIT)
        assert agent.follow_up("b") is False

        assert [agent.take_response(WAIT)["content"][0]["text"] for _ in range(2)] == ["1", "2"]


# -- left over ---------------------------------------------------------------------------


def test_an_abort_leaves_steering_queued_for_the_next_run() -> None:
    """Decision 8, decision 10, PI-69, T27, A2: and it comes after the next prompt."""
    gate = Gate()
    llm = ScriptedLlm(say("1", before=gate), "2")
    with Agent(llm) as agent:
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        agent.steer("s")
        agent.abort()
        with pytest.raises(RunAborted):
            outcome.get()

        assert agent.has_queued_messages
        agent.run("b")
        gate.open()
    assert [message.text for message in llm.requests[1].messages] == ["a", "b", "s"]


def test_a_failed_run_leaves_steering_queued_for_the_next_run() -> None:
    """PI-18: neither queue is polled."""
    gate = Gate()
    with Agent(ScriptedLlm(fail(LlmError("no"), before=gate), "2")) as agent:
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        agent.steer("s")
        gate.open()
        with pytest.raises(LlmError):
            outcome.get()

        assert agent.run("b").text == "2"
    assert asked(agent) == ["a", "b", "s"]


def test_a_follow_up_polled_as_the_abort_comes_goes_back() -> None:
    """F-15, S8: answered by the next message's run, exactly once."""
    aborted = threading.Event()

    def prepare(ctx: Any) -> None:
        if not aborted.is_set():
            aborted.set()
            agent.abort()

    agent = Agent(ScriptedLlm("1", "2", "3"), prepare_next_turn=prepare)
    with agent:
        agent.subscribe(
            lambda event: agent.follow_up("b") if event.type == "turn_end" and not aborted.is_set() else None
        )
        agent.prompt("a")
        assert agent.take_response(WAIT)["content"][0]["text"] == "1"
        assert agent.wait_for_idle(WAIT)
        assert agent.has_queued_messages
        agent.prompt("c")

        assert [agent.take_response(WAIT)["content"][0]["text"] for _ in range(2)] == ["2", "3"]
    assert asked(agent) == ["a", "c", "b"]


def test_steering_polled_as_the_abort_comes_goes_back(tool: Any) -> None:
    """T86, S8."""
    agent = Agent(ScriptedLlm(call("a")), tools=[tool("a")], prepare_next_turn=lambda ctx: agent.abort())
    agent.subscribe(lambda event: agent.steer("s") if event.type == "tool_execution_end" else None)
    with agent:
        with pytest.raises(RunAborted):
            agent.run("go")

        assert agent.has_queued_messages
    assert asked(agent) == ["go"]


# -- redirect ----------------------------------------------------------------------------


def test_a_redirect_cancels_the_model_call_and_asks_again() -> None:
    """Decision 9, T61, T62, R1, AG-27: while the provider is still silent."""
    gate = Gate()
    llm = ScriptedLlm(say("", chunks=["par", "tial"], midway=gate), "corrected")
    with Agent(llm) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        assert agent.redirect("in French") is True

        result = outcome.get()
        gate.open()
        assert (result.text, result.status) == ("corrected", "completed")
        assert agent.state.error_message is None
    assert [message.text for message in llm.requests[1].messages] == ["go", "in French"]


def test_a_redirect_queues_its_message_before_it_cancels_the_call() -> None:
    """R1: the other way round, the model could be asked again without it."""
    gate = Gate()
    queued: list[int] = []

    class Spy(Redirect):
        def request(self) -> None:
            queued.append(len(agent._channels.steering))

    with Agent(ScriptedLlm(say("1", before=gate), "2")) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        agent._live.redirect = Spy()  # type: ignore[union-attr]
        agent.redirect("correction")
        gate.open()
        outcome.get()

    assert queued == [1]


def test_a_redirect_while_idle_is_a_follow_up() -> None:
    """Decision 9, R1, T67."""
    with Agent(ScriptedLlm("1")) as agent:
        assert agent.redirect("go") is False

        assert agent.take_response(WAIT)["content"][0]["text"] == "1"


def test_a_redirect_after_the_abort_is_a_follow_up() -> None:
    """Decision 9, A4, R1, T68: and it is answered."""
    gate, ending = Gate(), Gate()
    agent = Agent(ScriptedLlm(say("1", before=gate), "2"))
    agent.subscribe(lambda event: ending.block() if event.type == "agent_end" else None)
    with agent:
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        agent.abort()
        ending.wait_entered()
        assert agent.redirect("b") is False
        ending.open()
        with pytest.raises(RunAborted):
            outcome.get()

        assert agent.take_response(WAIT)["content"][0]["text"] == "2"
        gate.open()


def test_a_redirect_during_tools_cancels_none_of_them(tool: Any) -> None:
    """R4, T66."""
    gate = Gate()
    llm = ScriptedLlm(call("hangs"), "done")
    with Agent(llm, tools=[tool("hangs", lambda *args: gate.block())]) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        assert agent.redirect("only red") is True
        gate.open()

        result = outcome.get()
    assert [message.role for message in result.new_messages] == [
        "user", "assistant", "tool_result", "user", "assistant",
    ]  # fmt: skip
    assert result.new_messages[2].is_error is False  # type: ignore[union-attr]


def test_a_correction_queued_behind_other_steering_is_delivered_in_order() -> None:
    """R6: first in, first out; the call made without it is cancelled, and no message is lost."""
    gate = Gate()
    llm = ScriptedLlm(say("1", before=gate), "2", "3")
    with Agent(llm) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        agent.steer("earlier")
        agent.redirect("correction")
        outcome.get()
        gate.open()

    assert asked(agent) == ["go", "earlier", "correction"]


@pytest.mark.threads
def test_a_redirect_at_any_moment_is_delivered_exactly_once() -> None:
    """R2, R8, T69: swept against a short run."""
    for number in range(120):
        llm = ScriptedLlm(*["x"] * 4)
        agent = Agent(llm)
        barrier = threading.Barrier(2)

        def redirects(
            agent: Agent = agent, barrier: threading.Barrier = barrier, number: int = number
        ) -> bool:
            barrier.wait(WAIT)
            threading.Event().wait(0.00002 * (number % 40))
            return agent.redirect("correction")

        outcome = run_in_thread(redirects)
        barrier.wait(WAIT)
        result = agent.run("go", timeout=WAIT)
        joined = outcome.get()
        agent.wait_for_idle(WAIT)

        assert asked(agent).count("correction") == 1
        if not joined and len(result.responses) == 1:  # Neither steering nor a follow-up of that run.
            assert agent.take_response(WAIT)
        assert result.status == "completed"
        agent.stop()


def test_messages_are_what_is_queued() -> None:
    """AG-5, PI-83: every form of a prompt may be steered or followed up."""
    both: list[Message] = [UserMessage((TextContent("a"),)), UserMessage((TextContent("b"),))]
    with Agent(ScriptedLlm("1", "2")) as agent:
        agent.steer(both)  # type: ignore[arg-type]
        agent.steer({"role": "user", "content": "c"})
        agent.steering_mode = "all"
        agent.run("go")

    assert asked(agent) == ["go", "a", "b", "c"]
