"""Agents that use agents: the registry, the pool, and an agent as a tool."""

from __future__ import annotations

import gc
import threading

import pytest

from yiemagent import AbortSignal, Agent
from yiemagent.agent.registry import AgentRegistry
from yiemagent.agent.subagents import SubagentPool
from yiemagent.errors import ConfigurationError, RunAborted
from yiemagent.messages import Usage
from yiemagent.testing import Gate, ScriptedLlm, call, calls, run_in_thread, say

KEY = ("session", "research", 0)


def test_one_of_ten_racing_registrations_wins() -> None:
    """RG-4, T217."""
    registry = AgentRegistry()
    agents = [Agent(ScriptedLlm()) for _ in range(10)]
    barrier = threading.Barrier(10)

    def register(agent: Agent) -> bool:
        barrier.wait(5)
        try:
            registry.register(KEY, agent)
        except ConfigurationError:
            return False
        return True

    outcomes = [run_in_thread(register, agent) for agent in agents]
    won = [agent for agent, outcome in zip(agents, outcomes, strict=True) if outcome.get()]

    assert len(won) == 1
    assert registry.lookup(KEY) is won[0]


def test_registering_the_same_agent_twice_is_an_error() -> None:
    """RG-1, T218."""
    registry, agent = AgentRegistry(), Agent(ScriptedLlm())
    registry.register(KEY, agent)

    with pytest.raises(ConfigurationError, match="registered as"):
        registry.register(KEY, agent)


def test_unregistering_by_somebody_else_has_no_effect() -> None:
    """RG-2, T219."""
    registry, owner = AgentRegistry(), Agent(ScriptedLlm())
    registry.register(KEY, owner)

    assert registry.unregister(KEY, Agent(ScriptedLlm())) is False
    assert registry.unregister(("other", "role", 1), owner) is False
    assert registry.lookup(KEY) is owner
    assert registry.unregister(KEY, owner) is True
    assert registry.lookup(KEY) is None


def test_a_stopped_agent_frees_its_key() -> None:
    """RG-2, T220."""
    registry, agent = AgentRegistry(), Agent(ScriptedLlm())
    registry.register(KEY, agent)

    agent.stop()

    assert registry.lookup(KEY) is None
    registry.register(KEY, Agent(ScriptedLlm()))


def test_a_dropped_agent_frees_its_key() -> None:
    """T220: nobody keeps an agent alive by having registered it."""
    registry = AgentRegistry()
    registry.register(KEY, Agent(ScriptedLlm()))
    gc.collect()

    assert registry.lookup(KEY) is None
    assert registry.count() == 0


def test_lists_are_filtered_by_session_and_by_role() -> None:
    """RG-3, T221, T222."""
    registry = AgentRegistry()
    odd = "s" * 10_000 + "/ü\x00"
    first, second, third = (Agent(ScriptedLlm()) for _ in range(3))
    registry.register(("one", "research", 0), first, metadata={"n": 1})
    registry.register(("one", "writer", 999_999_999), second)
    registry.register((odd, "research", 0), third)

    assert registry.list_by_session("one") == [("research", 0, first), ("writer", 999_999_999, second)]
    assert registry.list_by_role("research") == [("one", 0, first), (odd, 0, third)]
    assert registry.list_by_session("") == []
    assert registry.list_by_role("nobody") == []
    assert (registry.count(), registry.count("one")) == (3, 2)
    found = registry.lookup_with_metadata(("one", "research", 0))
    assert found is not None
    assert found.metadata == {"n": 1}


@pytest.mark.parametrize("key", ["session", ("a", "b"), ("a", "b", "c"), (1, "b", 0)])
def test_a_key_of_the_wrong_shape_is_refused_in_words(key: object) -> None:
    """The message names the shape and the value."""
    with pytest.raises(ConfigurationError, match="session_id"):
        AgentRegistry().register(key, Agent(ScriptedLlm()))  # type: ignore[arg-type]


def test_stopping_a_subagent_twice_says_that_it_is_not_there() -> None:
    """SB-2, T223."""
    with SubagentPool() as pool:
        agent = pool.start(ScriptedLlm("hi"), registry_key=KEY)
        assert agent.run("x").text == "hi"

        assert pool.stop(agent) is True
        assert pool.stop(agent) is False
        assert pool.stop_by_key(KEY) is False
        assert pool.registry.count() == 0


def test_a_failing_child_does_not_touch_its_siblings() -> None:
    """T224."""
    with SubagentPool() as pool:
        broken = pool.start(ScriptedLlm(MemoryError("no memory")))
        healthy = pool.start(ScriptedLlm("fine"))

        with pytest.raises(Exception, match="no memory"):
            broken.run("x")

        assert healthy.run("x").text == "fine"
        assert pool.count() == 2


def test_stop_all_leaves_a_pool_that_can_be_used_again() -> None:
    """SB-2, T225."""
    gate = Gate()
    pool = SubagentPool()
    busy = pool.start(ScriptedLlm(say("late", before=gate)), registry_key=KEY)
    outcome = run_in_thread(busy.run, "x")
    gate.wait_entered()

    assert pool.stop_all(timeout=5) is True

    with pytest.raises(RunAborted):
        outcome.get()
    gate.open()
    assert pool.count() == 0
    assert pool.registry.count() == 0
    assert pool.start(ScriptedLlm("again"), registry_key=KEY).run("x").text == "again"
    pool.stop_all()


def test_a_taken_key_starts_nothing() -> None:
    """SB-1."""
    with SubagentPool() as pool:
        pool.start(ScriptedLlm(), registry_key=KEY)

        with pytest.raises(ConfigurationError, match="registered"):
            pool.start(ScriptedLlm(), registry_key=KEY)

        assert pool.count() == 1


def test_an_agent_as_a_tool_answers_each_call_afresh() -> None:
    """Each call has a clone: the second call knows nothing of the first."""
    model = ScriptedLlm(say("one", usage=Usage(output_tokens=3)), say("two", usage=Usage(output_tokens=4)))
    helper = Agent(model, system_prompt="help")
    steps = (calls(call("ask", prompt="first")), calls(call("ask", prompt="second")), "done")
    with Agent(ScriptedLlm(*steps), tools=[helper.as_tool("ask", "Ask the helper.")]) as agent:
        result = agent.run("go")

    results = [message for message in result.new_messages if message.role == "tool_result"]
    assert [message.text for message in results] == ["one", "two"]
    assert [len(request.messages) for request in model.requests] == [1, 1]
    assert results[1].usage == Usage(output_tokens=4)
    assert helper.messages == ()


def test_an_agent_as_a_tool_may_keep_its_history() -> None:
    """With keep_history the agent itself answers, and remembers."""
    model = ScriptedLlm("one", "two")
    steps = (calls(call("ask", prompt="first")), calls(call("ask", prompt="second")), "done")
    with Agent(model) as helper:
        tool = helper.as_tool("ask", "Ask the helper.", keep_history=True)
        with Agent(ScriptedLlm(*steps), tools=[tool]) as agent:
            agent.run("go")

        assert [len(request.messages) for request in model.requests] == [1, 3]


def test_aborting_a_run_aborts_the_run_of_its_subagent() -> None:
    """Part 4: a tool that runs another agent inherits the abort."""
    gate = Gate()
    seen: list[AbortSignal] = []

    def silent(request: object, *, event_sink: object) -> dict[str, object]:
        gate.block()
        return {"message": {"content": "late"}}

    helper = Agent(silent)
    helper_tool = helper.as_tool("ask", "Ask.", keep_history=True)
    helper.subscribe(lambda event, signal: seen.append(signal))
    with Agent(ScriptedLlm(calls(call("ask", prompt="x")), "never"), tools=[helper_tool]) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()

        agent.abort("enough")

        with pytest.raises(RunAborted):
            outcome.get()
    assert helper.wait_for_idle(5)
    assert seen[-1].aborted
    gate.open()
    helper.stop()


def test_a_clone_has_the_settings_and_not_the_conversation() -> None:
    """Construction is cheap, so an agent per request is normal."""
    original = Agent(ScriptedLlm("a", "b"), system_prompt="p", steering_mode="all")
    original.run("x")

    copy = original.clone()

    assert copy.messages == ()
    assert (copy.system_prompt, copy.steering_mode) == ("p", "all")
    assert copy.run("y").text == "b"
    assert len(original.messages) == 2
    copy.stop()
    original.stop()
