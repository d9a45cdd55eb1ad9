"""Stopping an agent: abort and stop from outside, deadlines, tools that are left, agents that are dropped."""

from __future__ import annotations

import contextvars
import gc
import sys
import threading
import traceback
import weakref
from time import monotonic
from typing import Any

import pytest

from yiemagent import AbortSignal, Agent
from yiemagent.errors import LlmError, RunAborted, WaitTimeout
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, calls, fail, run_in_thread, say

# -- abort -------------------------------------------------------------------------------


def test_an_abort_while_idle_does_nothing_and_does_not_poison_the_next_run() -> None:
    """PI-69, T24."""
    with Agent(ScriptedLlm("1", "2")) as agent:
        agent.abort()
        assert agent.run("a").text == "1"
        agent.abort()
        assert agent.run("b").text == "2"


def test_ten_aborts_at_once_end_the_run_once() -> None:
    """A5, T25."""
    gate = Gate()
    ends: list[Any] = []
    with Agent(ScriptedLlm(say("1", before=gate), "2")) as agent:
        agent.subscribe(lambda event: ends.append(event) if event.type == "agent_end" else None)
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        for aborter in [run_in_thread(agent.abort) for _ in range(10)]:
            aborter.get()

        with pytest.raises(RunAborted):
            outcome.get()
        assert len(ends) == 1
        assert agent.run("b").text == "2"
        gate.open()


def test_an_abort_leaves_a_silent_model_and_the_agent_responsive() -> None:
    """H2, T26, decision 10."""
    gate = Gate()
    with Agent(ScriptedLlm(say("late", before=gate), "fine")) as agent:
        agent.prompt("a")
        gate.wait_entered()
        agent.abort()

        with pytest.raises(RunAborted):
            agent.take_response(WAIT)
        assert agent.run("b").text == "fine"
        gate.open()


@pytest.mark.parametrize("kind", ["prompt", "follow_up"])
def test_an_abort_of_a_run_that_is_about_to_begin_asks_nobody(kind: str) -> None:
    """F-13, T73: the message was accepted, its run had not begun."""
    ending = Gate()
    llm = ScriptedLlm("1" if kind == "prompt" else fail(LlmError("no")), "3")
    agent = Agent(llm)
    agent.subscribe(lambda event: ending.block() if event.type == "agent_end" else None)
    with agent:
        agent.prompt("a")
        ending.wait_entered()
        getattr(agent, kind)("b")
        channels = agent._channels
        with channels.lock:  # The next run cannot begin before the abort came.
            ending.open()
            active, channels.active = channels.active, None
            agent.abort("early")
            channels.active = active

        if kind == "prompt":
            agent.take_response(WAIT)
        else:
            with pytest.raises(LlmError):
                agent.take_response(WAIT)
        with pytest.raises(RunAborted) as raised:
            agent.take_response(WAIT)
        assert raised.value.reason == "early"
        assert agent.run("c").text == "3"
    assert len(llm.requests) == 2


def test_an_aborted_run_keeps_what_it_had_and_the_next_one_can_go_on(tool: Any, blocking: Any) -> None:
    """A1, T80, T95, H3, C-02, C-04: each call has its one result."""
    gate = Gate()
    llm = ScriptedLlm(calls(call("quick"), call("hangs"), call("quick")), "fine")
    with Agent(llm, tools=[tool("quick"), blocking(gate)], abort_grace=0.0) as agent:
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        agent.abort()
        with pytest.raises(RunAborted) as raised:
            outcome.get()

        results = [m for m in raised.value.result.new_messages if m.role == "tool_result"]
        assert [result.is_error for result in results] == [False, True, True]
        assert agent.run("b").text == "fine"
        assert len(agent.messages) == 7
        gate.open()


# -- tools that are left -----------------------------------------------------------------


@pytest.mark.parametrize("how", ["abort", "timeout"])
def test_a_tool_that_was_left_is_visible_until_it_ends(how: str, blocking: Any, tool: Any) -> None:
    """F-01, F-03, issue part 1: agent.abandoned_tools; it blocks neither others nor the next run."""
    gate = Gate()
    llm = ScriptedLlm(call("hangs"), *(["done"] if how == "timeout" else []), call("a"), "fine")
    agent = Agent(
        llm,
        tools=[blocking(gate), tool("a")],
        abort_grace=0.0,
        tool_timeout=0.01 if how == "timeout" else None,
    )
    with agent:
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        if how == "abort":
            agent.abort()
            with pytest.raises(RunAborted):
                outcome.get()
        else:
            assert outcome.get().text == "done"

        (left,) = agent.abandoned_tools
        assert left.tool_name == "hangs"
        assert left.since > 0
        assert agent.run("b").text == "fine"
        gate.open()
        while agent.abandoned_tools:
            threading.Event().wait(0.001)


def test_what_a_left_tool_brings_changes_nothing_of_the_next_run(tool: Any) -> None:
    """C-04, A8, T91, T92, T93: no event, no message; its signal reads aborted during the next run."""
    gate, over = Gate(), threading.Event()
    seen: list[bool] = []
    events: list[Any] = []

    def body(tool_call_id: str, args: Any, signal: AbortSignal, on_update: Any) -> str:
        gate.block()
        seen.append(signal.aborted)
        on_update("late")
        over.set()
        return "late"

    second = Gate()
    llm = ScriptedLlm(call("slow"), say("fine", before=second))
    with Agent(llm, tools=[tool("slow", body)], abort_grace=0.0) as agent:
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        agent.abort()
        with pytest.raises(RunAborted):
            outcome.get()
        agent.subscribe(events.append)
        agent.prompt("b")
        second.wait_entered()
        gate.open()
        assert over.wait(WAIT)
        second.open()
        agent.take_response(WAIT)

    assert seen == [True]
    assert not any(event.type.startswith("tool_execution") for event in events)
    assert [message.role for message in agent.messages] == [
        "user", "assistant", "tool_result", "user", "assistant",
    ]  # fmt: skip


def test_sequential_calls_of_all_runs_share_a_thread(tool: Any) -> None:
    """Decision 19, D-15."""
    threads: list[threading.Thread] = []
    body = lambda *args: threads.append(threading.current_thread())  # noqa: E731
    with Agent(ScriptedLlm(call("a"), "1", call("a"), "2"), tools=[tool("a", body)]) as agent:
        agent.run("x")
        agent.run("y")

    assert len(set(threads)) == 1


# -- deadlines ---------------------------------------------------------------------------


def test_max_seconds_ends_a_run_at_a_limit_with_a_silent_model() -> None:
    """Decision 21, issue part 1: run() returns; the next run is clean."""
    gate = Gate()
    with Agent(ScriptedLlm(say("late", before=gate), "fine"), max_seconds=0.05) as agent:
        result = agent.run("a")

        assert (result.status, result.limit) == ("limit", "max_seconds")
        assert result.text.startswith("I stopped because the time")
        gate.open()
        assert agent.wait_for_idle(WAIT)


@pytest.mark.parametrize("own", [True, False])
def test_a_tool_timeout_of_the_agent_or_of_the_tool(own: bool, tool: Any) -> None:
    """Issue part 1: tool_timeout, per tool too."""
    gate = Gate()
    made = tool("hangs", lambda *args: gate.block(60), timeout=0.01 if own else None)
    with Agent(ScriptedLlm(call("hangs"), "done"), tools=[made], tool_timeout=60 if own else 0.01) as agent:
        result = agent.run("a")
        gate.open()

    assert result.new_messages[2].details["error_type"] == "tool_timeout"  # type: ignore[union-attr]


def test_a_timeout_of_run_leaves_the_tool_that_hangs(blocking: Any) -> None:
    """Decision 32, F-02: the partial result has the call answered."""
    gate = Gate()
    with Agent(ScriptedLlm(call("hangs"), "fine"), tools=[blocking(gate)], abort_grace=0.0) as agent:
        with pytest.raises(WaitTimeout) as raised:
            agent.run("a", timeout=0.3)

        assert [message.role for message in raised.value.result.new_messages] == [
            "user", "assistant", "tool_result",
        ]  # fmt: skip
        assert agent.run("b").text == "fine"
        gate.open()


def test_a_caller_whose_time_is_up_gets_what_there_is_when_even_the_abort_takes_long(tool: Any) -> None:
    """Decision 32: a hook that hangs cannot be left, but the caller is not kept."""
    gate = Gate()
    with Agent(
        ScriptedLlm("x"), transform_context=lambda m, s: gate.block(60) or m, abort_grace=0.0
    ) as agent:
        with pytest.raises(WaitTimeout) as raised:
            agent.run("a", timeout=0.3)

        assert [message.text for message in raised.value.result.new_messages] == ["a"]
        gate.open()


# -- stop --------------------------------------------------------------------------------


def test_stop_ends_the_thread_and_may_be_called_again() -> None:
    """F-20, WT-005: idempotent; True when the thread has ended."""
    before = set(threading.enumerate())
    agent = Agent(ScriptedLlm("1"))
    agent.run("a")
    assert agent.stop() is True
    assert agent.stop() is True

    assert not [t for t in threading.enumerate() if t not in before and t.name == "yiemagent-agent"]


def test_a_context_manager_stops_the_agent() -> None:
    """D-20."""
    with Agent(ScriptedLlm("1")) as agent:
        agent.run("a")

    assert agent.stop(0) is True


def test_stop_leaves_a_tool_that_hangs(blocking: Any) -> None:
    """F-20: bounded; the tool's thread ends when its tool does."""
    gate = Gate()
    agent = Agent(ScriptedLlm(call("hangs")), tools=[blocking(gate)], abort_grace=0.0)
    agent.prompt("a")
    gate.wait_entered()

    assert agent.stop() is True
    assert len(agent.abandoned_tools) == 1
    gate.open()


def test_stop_says_when_the_thread_could_not_end_in_time() -> None:
    """F-20: a hook that hangs cannot be left."""
    gate = Gate()
    agent = Agent(ScriptedLlm("x"), transform_context=lambda m, s: gate.block(60) or m)
    agent.prompt("a")
    gate.wait_entered()

    assert agent.stop(timeout=0.01) is False
    gate.open()
    assert agent.stop() is True


def test_stop_from_inside_the_run_returns_at_once_and_the_run_ends(tool: Any) -> None:
    """D-03, F-20: from a tool."""
    answered: list[bool] = []
    agent = Agent(ScriptedLlm(call("a")), tools=[tool("a", lambda *args: answered.append(agent.stop()))])
    future = agent.submit("x")

    with pytest.raises(RunAborted) as raised:
        future.result(WAIT)
    assert raised.value.reason == "stopped"
    assert answered == [False]
    assert agent.stop() is True


def test_an_agent_stopped_from_inside_closes_its_tool_threads_itself(tool: Any) -> None:
    """D-20: whoever stopped it could not wait."""
    before = set(threading.enumerate())
    agent = Agent(ScriptedLlm(call("a")), tools=[tool("a", lambda *args: agent.stop())])
    with pytest.raises(RunAborted):
        agent.run("x")

    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT)
    assert not set(threading.enumerate()) - before


def test_stop_wakes_whoever_waits_for_it(wait_spy: Any) -> None:
    """F-20: a taker that waits is woken, not timed out."""
    agent = Agent(ScriptedLlm("1"))
    agent.run("x")
    spy = wait_spy(agent._channels, "changed")
    taker = run_in_thread(agent.take_response)
    spy.wait_for_waiter()
    agent.stop()

    with pytest.raises(Exception, match="stopped"):
        taker.get()
    assert True in spy.notified


# -- dropped -----------------------------------------------------------------------------


def is_collected(gone: weakref.ref[Agent]) -> bool:
    """Whether nothing keeps it. A thread holds its last work for a moment after it has handed it over."""
    deadline = monotonic() + WAIT
    while gone() is not None and monotonic() < deadline:
        threading.Event().wait(0.001)
        gc.collect()
    return gone() is None


def test_a_dropped_agent_ends_its_threads(tool: Any) -> None:
    """X6, D-20, T35: without stop, although it was used."""
    before = set(threading.enumerate())
    agent = Agent(ScriptedLlm(call("a"), "1"), tools=[tool("a")])
    agent.run("x")
    gone = weakref.ref(agent)
    del agent
    gc.collect()

    assert is_collected(gone)
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT)
    assert not set(threading.enumerate()) - before


def test_a_dropped_agent_whose_output_is_full_ends_too() -> None:
    """D-20, D-21: its last answer waits for room that nobody will make."""
    agent = Agent(ScriptedLlm(*["x"] * 17))
    for number in range(17):
        agent.prompt(str(number))
    while not agent._channels._warned_full:
        threading.Event().wait(0.001)
    channels, gone = agent._channels, weakref.ref(agent)
    while channels.active is None or len(channels.output) < 16:
        threading.Event().wait(0.001)
    del agent
    gc.collect()

    assert is_collected(gone)
    assert channels.wait_without_thread(None)


def test_an_agent_is_held_by_the_run_in_progress() -> None:
    """X6: what was prompted and never waited for is done all the same."""
    gate, ends = Gate(), []
    agent = Agent(ScriptedLlm(say("1", before=gate)))
    agent.subscribe(lambda event: ends.append(event) if event.type == "agent_end" else None)
    agent.prompt("x")
    gate.wait_entered()
    thread, held = agent._thread, weakref.ref(agent)
    del agent
    gc.collect()
    assert held() is not None
    gate.open()
    assert thread is not None
    while not ends:
        thread.join(0.001)
    gc.collect()
    thread.join(WAIT)

    assert [end.status for end in ends] == ["completed"]
    assert not thread.is_alive()


def test_nothing_is_kept_of_a_dropped_agent() -> None:
    """D-20: not its channels, for the exit of the interpreter either."""
    agent = Agent(ScriptedLlm("1"))
    agent.run("x")
    channels, thread = weakref.ref(agent._channels), agent._thread
    del agent
    gc.collect()
    assert thread is not None
    thread.join(WAIT)
    gc.collect()

    assert channels() is None


def test_an_idle_thread_keeps_nothing_of_its_last_run() -> None:
    """D-20: not the context of whoever sent the message, in which the agent itself may be."""
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("agent")
    context = contextvars.Context()
    agent = Agent(ScriptedLlm("1"))
    context.run(variable.set, agent)
    context.run(agent.run, "x")
    thread, frames = agent._thread, sys._current_frames
    assert thread is not None
    assert thread.ident is not None
    while not any(frame.name == "next_run" for frame in traceback.extract_stack(frames()[thread.ident])):
        threading.Event().wait(0.001)  # It has answered, and is on its way to its next wait.
    gone = weakref.ref(agent)
    del agent, context
    gc.collect()

    assert is_collected(gone)


@pytest.mark.parametrize("verb", ["submit", "stream"])
def test_who_holds_a_future_or_a_stream_holds_the_agent(verb: str) -> None:
    """X6: also before its run has begun, when no thread does."""

    class NotStarted(Agent):
        __slots__ = ()

        def _ensure_thread(self) -> None:
            pass

    agent = NotStarted(ScriptedLlm("1"))
    gone, held = weakref.ref(agent), getattr(agent, verb)("x")
    del agent
    gc.collect()
    agent = gone()

    assert agent is not None
    assert held
    agent.stop()


def test_an_agent_is_not_dropped_while_somebody_waits_for_it() -> None:
    """X6: a future, a stream, a call in progress hold it."""
    gate = Gate()
    future = Agent(ScriptedLlm(say("1", before=gate))).submit("x")
    gate.wait_entered()
    gc.collect()
    gate.open()

    assert future.result(WAIT).text == "1"


def test_an_idle_thread_ends_after_a_while_and_the_next_prompt_starts_another() -> None:
    """D-20: decided under the lock that accepts messages."""
    with Agent(ScriptedLlm("1", "2")) as agent:
        agent.run("a")
        first = agent._thread
        assert first is not None
        channels = agent._channels
        # What the thread does when nothing came for its idle time.
        other = Agent(ScriptedLlm())._channels
        assert other.next_run(0) is None
        assert other.has_thread is False
        assert channels.has_thread
        assert agent.run("b").text == "2"
        assert agent._thread is first
