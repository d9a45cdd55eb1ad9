"""The event style: a blocking iterator that lives in the caller's thread."""

from __future__ import annotations

import contextlib
import gc
import threading
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.errors import LlmError, RunAborted, WaitTimeout
from yiemagent.events import AgentEnd, MessageUpdate
from yiemagent.testing import WAIT, Gate, ScriptedLlm, fail, run_in_thread, say

MANY = [str(number) for number in range(3000)]


class Watched(ScriptedLlm):
    """Says when the signal of its call is aborted."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.aborted = threading.Event()

    def stream(self, context: Any, options: Any) -> Any:
        options.signal.on_abort(self.aborted.set)
        return super().stream(context, options)


def test_events_come_in_order_in_the_callers_thread_and_then_the_result() -> None:
    """Architecture, section 1; D-35."""
    with Agent(ScriptedLlm(say("", chunks=["a", "b"]))) as agent:
        stream = agent.stream("hi")
        types = [event.type for event in stream]

        assert types[0] == "agent_start"
        assert types[-1] == "agent_end"
        assert types.count("message_update") == 4
        assert stream.result().text == "ab"
        assert list(stream) == []
        assert not agent.is_busy


def test_a_stream_wants_deltas_and_a_call_does_not() -> None:
    """StreamOptions.want_deltas: only somebody who listens pays for them."""
    llm = ScriptedLlm("1", "2", "3")
    with Agent(llm) as agent:
        list(agent.stream("a"))
        agent.run("b")
        agent.subscribe(lambda event: None, deltas=True)
        agent.run("c")

    assert [options.want_deltas for options in llm.options] == [True, False, True]


@pytest.mark.parametrize("leave", ["break", "close", "with", "drop", "exception"])
def test_leaving_early_aborts_the_run(leave: str) -> None:
    """F-26, T84: however it is left; the agent is usable at once."""
    gate = Gate()
    llm = Watched(say("", chunks=["a", "b"], midway=gate), "fine")
    with Agent(llm) as agent:
        if leave == "with":
            with agent.stream("x") as stream:
                gate.wait_entered()
            del stream
        elif leave == "close":
            stream = agent.stream("x")
            gate.wait_entered()
            stream.close()
            stream.close()
            with pytest.raises(RunAborted):
                stream.result(WAIT)
        elif leave == "drop":
            stream = agent.stream("x")
            gate.wait_entered()
            del stream
            gc.collect()
        else:
            with contextlib.suppress(ZeroDivisionError):
                for event in agent.stream("x"):
                    if isinstance(event, MessageUpdate) and event.message.text:
                        if leave == "break":
                            break
                        1 / 0

        assert llm.aborted.wait(WAIT)
        assert agent.wait_for_idle(WAIT)
        assert agent.run("again").text == "fine"
        gate.open()


def test_a_stream_left_before_its_run_began_is_withdrawn() -> None:
    """F-13: the run before it goes on."""
    gate = Gate()
    llm = ScriptedLlm(say("1", before=gate))
    with Agent(llm) as agent:
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        stream = agent.stream("b")
        stream.close()

        assert list(stream) == []
        with pytest.raises(RunAborted):
            stream.result(WAIT)
        gate.open()
        assert outcome.get().text == "1"
    assert len(llm.requests) == 1


def test_a_reader_that_falls_behind_holds_the_run_up_and_loses_nothing() -> None:
    """T193, H7: a thousand events; then it reads on."""
    with Agent(ScriptedLlm(say("", chunks=MANY))) as agent:
        stream = agent.stream("x")
        events = iter(stream)
        first = next(events)
        while agent._live is None or stream._stream.stats.queue_size < 1000:
            threading.Event().wait(0.001)

        assert agent.is_busy
        types = [first.type, *(event.type for event in events)]
        assert types.count("message_update") == len(MANY) + 2
        assert stream._stream.stats.dropped == 0


def test_a_run_held_up_by_its_reader_can_be_stopped() -> None:
    """D-21, F-20: abort lifts the bound."""
    agent = Agent(ScriptedLlm(say("", chunks=MANY)))
    stream = agent.stream("x")
    while stream._stream.stats.queue_size < 1000:
        threading.Event().wait(0.001)

    assert agent.stop() is True
    with pytest.raises(RunAborted):
        stream.result(WAIT)


def test_asking_for_the_result_without_reading_does_not_hold_the_run_up() -> None:
    """T193: the events that were not read stay readable."""
    with Agent(ScriptedLlm(say("", chunks=MANY))) as agent:
        stream = agent.stream("x")

        assert stream.result(WAIT).text == "".join(MANY)
        assert sum(isinstance(event, AgentEnd) for event in stream) == 1


def test_a_result_with_a_timeout_leaves_the_run_alone() -> None:
    """T176."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        stream = agent.stream("x")
        with pytest.raises(WaitTimeout, match="it goes on"):
            stream.result(timeout=0)
        gate.open()

        assert stream.result(WAIT).text == "1"


def test_a_failed_run_says_so_in_its_last_event_and_its_result() -> None:
    """Decision 7, T110."""
    with Agent(ScriptedLlm(fail(LlmError("no")))) as agent:
        stream = agent.stream("x")
        last = list(stream)[-1]

        assert isinstance(last, AgentEnd)
        assert last.status == "error"
        with pytest.raises(LlmError, match="no"):
            stream.result()


def test_stop_ends_every_stream(wait_spy: Any) -> None:
    """F-20, F-21: the one that runs and the ones that wait."""
    gate = Gate()
    agent = Agent(ScriptedLlm(say("1", before=gate)))
    running, waiting = agent.stream("a"), agent.stream("b")
    readers = [run_in_thread(list, running), run_in_thread(list, waiting)]
    gate.wait_entered()

    agent.stop()

    assert readers[0].get()[-1].status == "aborted"
    assert readers[1].get() == []
    gate.open()
