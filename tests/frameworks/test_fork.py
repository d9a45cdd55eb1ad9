"""Forking after an agent was used: the child works, and touches nothing of its parent."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import select
import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent import Agent, tool
from yiemagent.agent.leaving import _leaving
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.run import agent_loop
from yiemagent.messages import TextContent, UserMessage
from yiemagent.net.lanes import shared_lanes
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, calls, run_in_thread, say

pytestmark = [pytest.mark.servers, pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")]


def in_child(function: object) -> tuple[int, str]:
    """Run *function* in a forked child; exit code and what it returned as text."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(receive)
            os.write(send, str(function()).encode())  # type: ignore[operator]
            code = 0
        except BaseException as error:
            os.write(send, repr(error).encode())
        finally:
            os._exit(code)
    os.close(send)
    with os.fdopen(receive) as pipe:
        if not select.select([pipe], [], [], 20)[0]:
            os.kill(child, signal.SIGKILL)  # It may hang in fork() itself.
        text = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def test_a_used_agent_works_in_a_forked_child() -> None:
    """X7, D-09: its thread belongs to the parent; the child has the history and a thread of its own."""
    with Agent(ScriptedLlm("parent", "child")) as agent:
        agent.run("before")

        outcome = in_child(lambda: (agent.run("in the child", timeout=10).text, len(agent.messages)))

        assert outcome == (0, "('child', 4)")
        assert agent.run("after").text == "child"
        assert len(agent.messages) == 4


def test_a_fork_in_the_middle_of_a_run_leaves_the_child_idle_and_usable() -> None:
    """The run goes on in the parent only; no lock of its threads is waited for in the child."""
    gate = Gate()
    with Agent(ScriptedLlm(say("one", before=gate), "two")) as agent:
        outcome = run_in_thread(agent.run, "x")
        gate.wait_entered()
        agent.follow_up("queued in the parent")

        child = in_child(lambda: (agent.is_busy, agent.run("y", timeout=10).text, agent.has_queued_messages))

        assert child == (0, "(False, 'two', False)")
        gate.open()
        assert [response.text for response in outcome.get().responses] == ["one", "two"]


def test_a_stopped_agent_stays_stopped_in_the_child() -> None:
    """AgentStopped in the child too, at once."""
    agent = Agent(ScriptedLlm("x"))
    agent.run("x")
    agent.stop()

    code, text = in_child(lambda: agent.run("y"))

    assert code == 1
    assert "AgentStopped" in text


def test_a_child_of_multiprocessing_may_use_the_agent_of_its_parent() -> None:
    """The same through multiprocessing's fork context, whose child exits by its own rules."""
    context = multiprocessing.get_context("fork")
    with Agent(ScriptedLlm("parent", "child")) as agent:
        agent.run("before")
        queue = context.SimpleQueue()

        process = context.Process(target=lambda: queue.put(agent.run("x", timeout=10).text))
        process.start()

        assert queue.get() == "child"
        process.join(10)
        assert process.exitcode == 0
        queue.close()
        process.close()


def test_the_threads_of_the_parent_are_not_in_the_child() -> None:
    """Nothing is started by forking itself."""
    with Agent(ScriptedLlm("x")) as agent:
        agent.run("x")

        assert in_child(lambda: [thread.name for thread in threading.enumerate()])[1] == "['MainThread']"


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


LOCKS: dict[str, Callable[[Any, Any], Any]] = {
    "channels": lambda agent, stream: agent._channels.lock,
    "listeners": lambda agent, stream: agent._listeners._lock,
    "tool threads": lambda agent, stream: agent._threads._lock,
    "work of the tool thread": lambda agent, stream: agent._threads._sequential._line._lock,
    "work of a pool thread": lambda agent, stream: agent._threads._idle[0]._line._lock,
    "stream": lambda agent, stream: stream._stream._lock,
    "result": lambda agent, stream: stream._handle._lock,
    "signal": lambda agent, stream: agent._live.signal._lock,
    "all agents": lambda agent, stream: _leaving._lock,
    "connections": lambda agent, stream: shared_lanes()._lock,
}


def in_child_while_held(lock: Any, function: Callable[[], object]) -> tuple[int, str]:
    """The same while another thread of the parent holds *lock*."""
    holding = Gate()

    def hold() -> None:
        with lock:
            holding.block(60)

    def crowded() -> object:
        # New threads of the child are given the ids of those that it lost, and with them their locks.
        for _ in range(20):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        return function()

    holder = run_in_thread(hold)
    holding.wait_entered()
    outcome = in_child(crowded)
    holding.open()
    holder.get()
    return outcome


@pytest.mark.parametrize("name", LOCKS)
def test_a_child_takes_no_lock_that_a_thread_of_its_parent_holds(name: str) -> None:
    """D-09: that thread is not in the child, so nobody would ever give the lock back."""
    answering = Gate()
    parallel = calls(call("add", a=1, b=2), call("add", a=3, b=4))
    late = say("late", before=answering)
    llm = ScriptedLlm(call("add", a=1, b=2), parallel, "parent", late, "child", "more")
    agent = Agent(llm, tools=[add], parallel_tool_execute=True)
    agent.run("x")
    stream = agent.stream("y")
    answering.wait_entered()
    lock = LOCKS[name](agent, stream)

    def use() -> str:
        nonlocal agent, stream
        unsubscribe = agent.subscribe(lambda event: None)
        text = agent.run("z", timeout=10).text
        unsubscribe()
        with contextlib.suppress(Exception):
            agent.run("add", timeout=10)
        shared_lanes().take("no such lane")
        stream.close()
        del agent, stream
        gc.collect()
        _leaving.leave()
        return text

    outcome = in_child_while_held(lock, use)
    answering.open()
    agent.stop()

    assert outcome == (0, "child")


@pytest.mark.parametrize("name", ["channels", "tool threads", "work of the tool thread"])
def test_an_idle_agent_that_a_child_drops_takes_no_lock_of_its_parent(name: str) -> None:
    """D-09, D-20: its finalizer is the parent's."""
    agent = Agent(ScriptedLlm(call("add", a=1, b=2), "parent"), tools=[add])
    agent.run("x")
    lock = LOCKS[name](agent, None)

    def drop() -> bool:
        nonlocal agent
        gone = weakref.ref(agent)
        del agent
        gc.collect()
        return gone() is None

    assert in_child_while_held(lock, drop) == (0, "True")
    agent.stop()


def test_a_child_has_the_settings_and_none_of_the_tools_that_its_parent_left() -> None:
    """D-09: what still runs there is not the child's."""
    gate = Gate()

    @tool(timeout=0.01)
    def hangs() -> str:
        """Hang."""
        gate.block(60)
        return "late"

    modes = {"steering_mode": "all", "follow_up_mode": "all"}
    with Agent(ScriptedLlm(call("hangs"), "x"), tools=[hangs], **modes) as agent:  # type: ignore[arg-type]
        agent.run("x")
        assert len(agent.abandoned_tools) == 1

        told = in_child(lambda: (agent.steering_mode, agent.follow_up_mode, agent.abandoned_tools))
        gate.open()

    assert told == (0, "('all', 'all', ())")


def test_a_stream_of_the_loop_that_a_child_drops_is_left_to_the_parent() -> None:
    """D-09, T179: the run that it would end is not in the child, and its lock may be held."""
    answering = Gate()
    config = AgentLoopConfig(model=ScriptedLlm(say("late", before=answering)))
    stream: Any = agent_loop([UserMessage((TextContent("x"),))], AgentContext(), config)
    answering.wait_entered()

    def drop() -> str:
        nonlocal stream
        del stream
        gc.collect()
        return "dropped"

    outcome = in_child_while_held(stream._signals[0]._lock, drop)
    answering.open()

    assert outcome == (0, "dropped")
    assert len(stream.result(WAIT)) == 2
