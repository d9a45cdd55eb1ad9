"""Going on, resetting, and the state: snapshots, settings, and what a run is bound to."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest

from yiemagent import Agent, AgentState
from yiemagent.agent.queues import Channels
from yiemagent.errors import AgentBusy, CannotContinue, ConfigurationError, LlmError, WaitTimeout
from yiemagent.events import AgentEnd, MessageEnd, MessageStart, MessageUpdate
from yiemagent.message_formats import messages_from_json, messages_to_json
from yiemagent.messages import AssistantMessage, TextContent, ToolResultMessage, UserMessage
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, calls, fail, run_in_thread, say


def user(text: str) -> UserMessage:
    return UserMessage((TextContent(text),))


def answer(text: str, **fields: Any) -> AssistantMessage:
    return AssistantMessage((TextContent(text),), **fields)


# -- continue_ ---------------------------------------------------------------------------


def test_an_empty_history_cannot_be_continued() -> None:
    """AG-7, PI-81, T7."""
    with pytest.raises(CannotContinue, match="No messages to continue from"):
        Agent(ScriptedLlm()).continue_()


def test_a_history_that_ends_with_an_answer_cannot_be_continued() -> None:
    """AG-7, PI-81, T7."""
    agent = Agent(ScriptedLlm(), messages=[user("a"), answer("b")])

    with pytest.raises(CannotContinue, match="Cannot continue from message role: assistant"):
        agent.continue_()


@pytest.mark.parametrize("last", ["user", "tool_result", "error"])
def test_what_waits_for_an_answer_can_be_continued(last: str) -> None:
    """AG-7, T7, T9, PI-81: and a failed answer can be tried again."""
    asked = AssistantMessage((call("a"),), stop_reason="tool_calls")
    result = ToolResultMessage(asked.tool_calls[0].id, "a", (TextContent("r"),))
    tails: dict[str, list[Any]] = {
        "user": [],
        "tool_result": [asked, result],
        "error": [answer("half", stop_reason="error", error_message="no")],
    }
    events: list[Any] = []
    with Agent(ScriptedLlm("done"), messages=[user("go"), *tails[last]]) as agent:
        agent.subscribe(events.append)
        agent.continue_()

        assert agent.take_response(WAIT)["content"][0]["text"] == "done"
    assert sum(isinstance(event, MessageStart) for event in events) == 1
    assert [message.role for message in events[-1].messages] == ["assistant"]


def test_going_on_while_busy_is_refused_first() -> None:
    """Decision 2, AG-7, T8, PI-81: before anything else is looked at."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        agent.prompt("a")
        with pytest.raises(AgentBusy, match="already processing"):
            agent.continue_()
        gate.open()
        agent.take_response(WAIT)


@pytest.mark.parametrize("mode", ["one_at_a_time", "all"])
def test_going_on_from_an_answer_delivers_queued_steering_first(mode: Any) -> None:
    """PI-81: and one at a time stays one at a time."""
    llm = ScriptedLlm("1", "2", "3")
    with Agent(llm, messages=[user("a"), answer("b")], steering_mode=mode) as agent:
        agent.steer("s1")
        agent.steer("s2")
        agent.continue_()
        agent.take_response(WAIT)
        agent.wait_for_idle()

    first = [message.text for message in llm.requests[0].messages]
    assert first == (["a", "b", "s1"] if mode == "one_at_a_time" else ["a", "b", "s1", "s2"])
    assert len(llm.requests) == (2 if mode == "one_at_a_time" else 1)


def test_going_on_from_an_answer_else_delivers_a_held_follow_up() -> None:
    """PI-81: one that an abort left over."""
    gate = Gate()
    with Agent(ScriptedLlm(say("", chunks=["x"], before=gate), "2")) as agent:
        agent.prompt("a")
        gate.wait_entered()
        agent.follow_up("b")
        agent.abort()
        agent.wait_for_idle()
        agent.messages = [user("x"), answer("y")]
        agent._channels.output.clear()
        agent.continue_()

        assert agent.take_response(WAIT)["content"][0]["text"] == "2"
        gate.open()
    assert [message.text for message in agent.messages] == ["x", "y", "b", "2"]


# -- reset -------------------------------------------------------------------------------


def test_reset_forgets_the_conversation_and_keeps_the_settings(tool: Any) -> None:
    """AG-16, T23, PI-82: history, queues, responses, error."""
    made = tool("a")
    agent = Agent(ScriptedLlm(fail(LlmError("no")), "fine"), system_prompt="be kind", tools=[made])
    with agent:
        agent.prompt("a")
        agent.wait_for_idle(WAIT)
        assert agent.state.error_message == "no"
        agent.steer("s")
        agent.reset()

        assert agent.messages == ()
        assert agent.state.error_message is None
        assert agent.has_queued_messages is False
        with pytest.raises(WaitTimeout):
            agent.take_response(timeout=0)
        assert (agent.system_prompt, agent.tools.names) == ("be kind", ("a",))
        assert agent.run("b").text == "fine"


def test_reset_while_busy_is_refused() -> None:
    """Decision 2, H8, PI-82: it would corrupt the run."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        agent.prompt("a")
        with pytest.raises(AgentBusy, match="before resetting"):
            agent.reset()
        gate.open()
        agent.take_response(WAIT)
        agent.wait_for_idle()
        agent.reset()


@pytest.mark.parametrize("verb", ["reset", "replace_history"])
def test_the_history_is_changed_under_the_lock_that_starts_runs(verb: str) -> None:
    """H8: no run can begin between looking and changing."""
    channels = Channels()
    free: list[bool] = []
    getattr(channels, verb)(lambda: free.append(run_in_thread(channels.lock.acquire, blocking=False).get()))

    assert free == [False]


@pytest.mark.threads
def test_a_reset_against_a_prompt_never_loses_the_new_conversation() -> None:
    """H8: decided under the lock that starts runs."""
    for _ in range(50):
        agent = Agent(ScriptedLlm("1", "2"))
        agent.run("old")
        barrier = threading.Barrier(2)

        def reset(agent: Agent = agent, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait(WAIT)
            try:
                agent.reset()
            except AgentBusy:
                return False
            return True

        outcome = run_in_thread(reset)
        barrier.wait(WAIT)
        agent.run("new")
        done = outcome.get()
        history = [message.text for message in agent.messages]

        assert history in (["new", "2"], ["old", "1", "new", "2"], [])
        if history == []:
            assert done
        agent.stop()


# -- state -------------------------------------------------------------------------------


def test_the_state_is_a_snapshot(tool: Any) -> None:
    """AG-11, T39, PI-75."""
    agent = Agent(ScriptedLlm("1"), system_prompt="be kind", tools=[tool("a")], thinking_level="low")
    with agent:
        before = agent.state
        agent.run("x")
        after = agent.state

    assert isinstance(before, AgentState)
    assert (before.system_prompt, before.thinking_level) == ("be kind", "low")
    assert [spec.name for spec in before.tools] == ["a"]
    assert before.model is agent.model
    assert before.messages == ()
    assert [message.text for message in after.messages] == ["x", "1"]
    assert (after.is_streaming, after.streaming_message, after.error_message) == (False, None, None)
    assert after.pending_tool_calls == frozenset()
    with pytest.raises(AttributeError):
        after.messages = ()  # type: ignore[misc]


def test_the_state_is_reduced_before_listeners_hear(tool: Any) -> None:
    """AG-12, AG-13, AG-22, PI-76, T33: a listener sees at least what it was told."""
    seen: list[tuple[str, Any]] = []

    def listener(event: Any) -> None:
        state = agent.state
        if isinstance(event, (MessageStart, MessageUpdate)):
            seen.append((event.type, state.streaming_message == event.message))
        elif isinstance(event, MessageEnd):
            seen.append((event.type, state.messages[-1] is event.message and state.streaming_message is None))
        elif event.type in ("tool_execution_start", "tool_execution_end"):
            seen.append((event.type, state.pending_tool_calls))

    agent = Agent(ScriptedLlm(calls(call("a")), say("", chunks=["d", "one"])), tools=[tool("a")])
    agent.subscribe(listener)
    with agent:
        agent.run("go")
    call_id = agent.messages[1].tool_calls[0].id  # type: ignore[union-attr]

    assert all(right for kind, right in seen if not kind.startswith("tool"))
    assert [found for kind, found in seen if kind.startswith("tool")] == [frozenset({call_id}), frozenset()]


def test_results_stand_in_call_order_in_the_history(tool: Any) -> None:
    """H5, AG-12: however they completed."""
    second_done = threading.Event()

    def slow(*args: Any) -> str:
        second_done.wait(WAIT)
        return "slow"

    agent = Agent(
        ScriptedLlm(calls(call("slow"), call("fast")), "done"),
        tools=[tool("slow", slow), tool("fast")],
        parallel_tool_execute=True,
    )
    agent.subscribe(
        lambda event: (
            second_done.set() if event.type == "tool_execution_end" and event.tool_name == "fast" else None
        )
    )
    with agent:
        agent.run("go")

    names = [message.tool_name for message in agent.messages if isinstance(message, ToolResultMessage)]
    assert names == ["slow", "fast"]


def test_the_error_is_kept_until_the_next_run() -> None:
    """AG-14, AG-15, T18, T19, T21: three failures in a row leave the agent usable."""
    with Agent(ScriptedLlm(*[fail(LlmError(f"no {n}")) for n in range(3)], "fine")) as agent:
        for number in range(3):
            with pytest.raises(LlmError):
                agent.run("x")
            assert agent.state.error_message == f"no {number}"
            assert agent.is_busy is False
        agent.run("x")
        assert agent.state.error_message is None


def test_an_agent_is_busy_until_its_last_listener_is_done_and_idle_in_one_step() -> None:
    """H4, F6, PI-77, AG-15, T16: no window in which it looks idle and is not."""
    seen: list[tuple[bool, bool]] = []
    with Agent(ScriptedLlm("1")) as agent:
        agent.subscribe(lambda event: seen.append((agent.is_busy, agent.state.is_streaming)))
        agent.prompt("a")
        agent.wait_for_idle(WAIT)

        assert set(seen) == {(True, True)}
        assert agent.take_response(timeout=0)
        assert agent.state.is_streaming is False
        assert agent._live is None or agent.wait_for_idle(WAIT)


def test_a_tool_that_raises_is_no_error_of_the_agent(tool: Any) -> None:
    """T22."""
    with Agent(ScriptedLlm(call("a"), "done"), tools=[tool("a", lambda *args: 1 / 0)]) as agent:
        assert agent.run("go").text == "done"
        assert agent.state.error_message is None


def test_after_an_abort_nothing_is_pending(tool: Any, blocking: Any) -> None:
    """T16, T33, AG-15."""
    gate = Gate()
    with Agent(ScriptedLlm(call("hangs")), tools=[blocking(gate)], abort_grace=0.0) as agent:
        agent.prompt("a")
        gate.wait_entered()
        assert len(agent.state.pending_tool_calls) == 1
        agent.abort()
        agent.wait_for_idle(WAIT)

        assert agent.state.pending_tool_calls == frozenset()
        assert agent.state.streaming_message is None
        gate.open()


# -- settings ----------------------------------------------------------------------------


def test_settings_changed_during_a_run_act_on_the_next_one(tool: Any) -> None:
    """AG-9, AG-17, PI-84, T36, T115: a run is bound to what it began with."""
    gate = Gate()
    first, second = ScriptedLlm(call("hangs"), "1"), ScriptedLlm("2")
    agent = Agent(
        first, system_prompt="old", tools=[tool("hangs", lambda *args: gate.block())], session_id="s1"
    )
    with agent:
        agent.prompt("a")
        gate.wait_entered()
        agent.system_prompt = "new"
        agent.model = second
        agent.tools = [tool("other")]  # type: ignore[assignment]
        agent.thinking_level = "high"
        agent.session_id = "s2"
        gate.open()
        agent.take_response(WAIT)
        agent.run("b")

    assert [request.system_prompt for request in first.requests] == ["old", "old"]
    assert [spec.name for spec in first.requests[1].tools] == ["hangs"]
    assert [(o.reasoning, o.session_id) for o in first.options] == [(None, "s1")] * 2
    assert second.requests[0].system_prompt == "new"
    assert [spec.name for spec in second.requests[0].tools] == ["other"]
    assert (second.options[0].reasoning, second.options[0].session_id) == ("high", "s2")


def test_the_history_can_be_replaced_while_idle() -> None:
    """AG-17: by messages of ours and OpenAI's dicts."""
    llm = ScriptedLlm("1")
    with Agent(llm) as agent:
        given = [user("a"), {"role": "assistant", "content": "b"}]
        agent.messages = given  # type: ignore[assignment]
        given.clear()
        agent.run("c")

    assert [message.text for message in agent.messages] == ["a", "b", "c", "1"]


def test_a_history_that_goes_another_way_is_looked_at_from_there() -> None:
    """Issue 7: what was looked at once is known; what stands in its place is not."""
    llm = ScriptedLlm("1", "2")
    past = [user("a"), answer("b")]
    with Agent(llm, messages=past) as agent:
        agent.run("c")
        agent.messages = [*past, answer("half", stop_reason="error", error_message="no")]
        agent.run("d")

    assert [message.text for message in llm.requests[1].messages] == ["a", "b", "d"]


def test_a_history_that_becomes_shorter_can_be_continued() -> None:
    """Issue 7: more was looked at before than there is now."""
    llm = ScriptedLlm("1", "2")
    past = [user("a"), answer("b"), user("c")]
    with Agent(llm, messages=past) as agent:
        agent.run("d")
        agent.messages = past[:1]
        agent.continue_()
        assert agent.take_response(WAIT)["content"][0]["text"] == "2"

    assert [message.text for message in llm.requests[1].messages] == ["a"]


def test_the_history_cannot_be_replaced_during_a_run() -> None:
    """AG-17."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        agent.prompt("a")
        with pytest.raises(AgentBusy, match=r"wait_for_idle\(\) first"):
            agent.messages = ()
        gate.open()
        agent.take_response(WAIT)


@pytest.mark.parametrize(
    ("name", "value", "error", "named"),
    [
        ("system_prompt", None, TypeError, "system_prompt must be a str"),
        ("thinking_level", "maximal", ConfigurationError, "off, minimal, low, medium, high, xhigh"),
        ("steering_mode", "some", ConfigurationError, "one_at_a_time"),
        ("follow_up_mode", None, ConfigurationError, "one_at_a_time"),
        ("model", 42, ConfigurationError, "model must be"),
        ("tools", 42, ConfigurationError, "tools must be a list"),
        ("messages", ["text"], ConfigurationError, r"messages\[0\] is a str"),
        ("messages", [{"role": "narrator"}], ConfigurationError, "narrator"),
    ],
)
def test_a_setting_that_could_not_work_is_refused(
    name: str, value: Any, error: type[Exception], named: str
) -> None:
    """AG-18: and the old one stays."""
    agent = Agent(ScriptedLlm(), system_prompt="old")
    before = getattr(agent, name)
    with pytest.raises(error, match=named):
        setattr(agent, name, value)

    assert getattr(agent, name) == before


def test_hooks_and_callers_cannot_change_the_history(tool: Any) -> None:
    """C-37: what is handed out is frozen or a copy."""

    def transform(messages: Any, signal: Any) -> Any:
        messages.clear()
        return [user("instead")]

    with Agent(ScriptedLlm("1"), transform_context=transform) as agent:
        response = agent.prompt("a").take_response(WAIT)
        response["content"].clear()

        assert [message.text for message in agent.messages] == ["a", "1"]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"]
)
def test_an_agent_cannot_be_copied_and_says_what_to_do_instead(copied: Any) -> None:
    """D-32."""
    with pytest.raises(TypeError, match="messages_to_json"):
        copied(Agent(ScriptedLlm()))


def test_what_it_says_to_do_instead_works() -> None:
    """D-32: the history crosses, the agent is made again."""
    with Agent(ScriptedLlm("1")) as agent:
        agent.run("a")
        text = messages_to_json(agent.messages)
    llm = ScriptedLlm("2")
    with Agent(llm, messages=messages_from_json(text)) as other:
        other.run("b")

    assert [message.text for message in llm.requests[0].messages] == ["a", "1", "b"]


def test_a_broken_history_is_repaired_for_the_request_and_told_of() -> None:
    """C-01, C-02, TV-6: a conversation that can never be sent again is the worst outcome."""
    events: list[Any] = []
    broken = [user("a"), AssistantMessage((call("x"),), stop_reason="tool_calls")]
    with Agent(ScriptedLlm("fine"), messages=broken) as agent:
        agent.subscribe(events.append)
        assert agent.run("b").text == "fine"

        assert [event.name for event in events if event.type == "diagnostic"] == ["transcript_repaired"]
        assert len(agent.messages) == 4


def test_an_agent_shows_what_it_is(tool: Any) -> None:
    """Names the model, never the conversation."""
    gate = Gate()
    agent = Agent(ScriptedLlm(say("1", before=gate)), tools=[tool("a")])
    assert repr(agent) == "<Agent 'scripted' idle, 0 messages, 1 tools>"
    agent.prompt("secret")
    gate.wait_entered()
    assert repr(agent) == "<Agent 'scripted' busy, 1 messages, 1 tools>"
    gate.open()
    agent.wait_for_idle(WAIT)
    agent.stop()
    assert repr(agent) == "<Agent 'scripted' stopped, 2 messages, 1 tools>"


def test_the_last_event_holds_the_new_messages_only() -> None:
    """LP-8, T9."""
    ends: list[AgentEnd] = []
    with Agent(ScriptedLlm("1", "2")) as agent:
        agent.subscribe(lambda event: ends.append(event) if isinstance(event, AgentEnd) else None)
        agent.run("a")
        agent.run("b")

    assert [[message.text for message in end.messages] for end in ends] == [["a", "1"], ["b", "2"]]
