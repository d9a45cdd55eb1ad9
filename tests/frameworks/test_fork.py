"""Forking after an agent was used: the child works, and touches nothing of its parent."""

from __future__ import annotations

import multiprocessing
import os
import threading

import pytest

from yiemagent import Agent
from yiemagent.testing import Gate, ScriptedLlm, run_in_thread, say

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
