"""The call style: run and submit, each with its own answer."""

from __future__ import annotations

import concurrent.futures
import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.agent.queues import INPUT_SIZE
from yiemagent.errors import (
    AgentBusy,
    AgentStopped,
    ChannelFull,
    HookFailed,
    LlmError,
    RunAborted,
    RunLimitReached,
    WaitTimeout,
)
from yiemagent.messages import AssistantMessage, TextContent, ToolResultMessage, Usage, UserMessage
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, calls, fail, run_in_thread, say

# -- results -----------------------------------------------------------------------------


def test_run_gives_the_result_of_its_own_prompt(tool: Any) -> None:
    """Decision 32, LP-8: messages, usage, text, status."""
    llm = ScriptedLlm(
        calls(call("a"), usage=Usage(input_tokens=1, output_tokens=2)),
        say("done", usage=Usage(input_tokens=3, output_tokens=4, cost=0.5)),
    )
    with Agent(llm, tools=[tool("a")]) as agent:
        agent.messages = [UserMessage((TextContent("before"),)), AssistantMessage((TextContent("old"),))]
        result = agent.run("go")

    assert (result.status, result.text, str(result)) == ("completed", "done", "done")
    assert result.message is result.new_messages[-1]
    assert result.stop_reason == "stop"
    assert [message.role for message in result.new_messages] == [
        "user", "assistant", "tool_result", "assistant",
    ]  # fmt: skip
    assert result.usage == Usage(input_tokens=4, output_tokens=6, cost=0.5)
    assert result._repr_markdown_() == "done"
    assert result.raise_for_status() is result
    assert result.failure() is None


def test_an_agent_can_be_called() -> None:
    """Architecture, section 1."""
    with Agent(ScriptedLlm("hello")) as agent:
        assert agent("hi").text == "hello"


def test_the_answer_of_a_call_never_enters_the_output_channel() -> None:
    """Decision 4: it belongs to its own caller."""
    with Agent(ScriptedLlm("1", "2")) as agent:
        agent.run("a")
        agent.prompt("b")

        assert agent.take_response(WAIT)["content"][0]["text"] == "2"
        with pytest.raises(WaitTimeout):
            agent.take_response(timeout=0)


def test_follow_ups_that_joined_are_in_the_result(tool: Any) -> None:
    """Decision 4, decision 32: own answer first, then theirs, in order."""
    gate = Gate()
    llm = ScriptedLlm(call("hangs"), "1", "2", "3")
    with Agent(llm, tools=[tool("hangs", lambda *args: gate.block())]) as agent:
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        agent.follow_up("b")
        agent.follow_up("c")
        gate.open()

        result = outcome.get()
        assert result.text == "1"
        assert [response.text for response in result.responses] == ["1", "2", "3"]
        with pytest.raises(WaitTimeout):
            agent.take_response(timeout=0)


def test_a_failed_run_raises_its_error_with_the_partial_result() -> None:
    """Decision 32, T20."""
    error = LlmError("überlastet <&>")
    with Agent(ScriptedLlm(fail(error, text="half"))) as agent:
        with pytest.raises(LlmError) as raised:
            agent.run("a")

    assert raised.value is error
    assert raised.value.result.status == "error"
    assert raised.value.result.text == "half"
    assert [message.role for message in raised.value.result.new_messages] == ["user", "assistant"]
    with pytest.raises(LlmError):
        raised.value.result.raise_for_status()


def test_a_hook_that_failed_is_the_runs_error() -> None:
    """Decision 23: HookFailed outside."""
    with Agent(ScriptedLlm(), transform_context=lambda messages, signal: 1 / 0) as agent:
        with pytest.raises(HookFailed, match="transform_context raised ZeroDivisionError") as raised:
            agent.run("a")

    assert raised.value.hook == "transform_context"
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert raised.value.result.status == "error"


def test_a_limited_run_gives_a_result_that_can_be_made_to_raise(tool: Any) -> None:
    """Decision 32, decision 21."""
    with Agent(ScriptedLlm(call("a")), tools=[tool("a")], max_tool_turns=1) as agent:
        result = agent.run("go")

    assert (result.status, result.limit) == ("limit", "max_tool_turns")
    assert result.text.startswith("I stopped because")
    with pytest.raises(RunLimitReached, match="max_tool_turns") as raised:
        result.raise_for_status()
    assert (raised.value.limit, raised.value.result) == ("max_tool_turns", result)


def test_an_aborted_run_raises_with_reason_and_partial_result() -> None:
    """Decision 32, T76."""
    gate = Gate()
    with Agent(ScriptedLlm(say("", chunks=["par", "tial"], midway=gate))) as agent:
        outcome = run_in_thread(agent.run, "a")
        gate.wait_entered()
        agent.abort("closed the page")

        with pytest.raises(RunAborted) as raised:
            outcome.get()
        gate.open()
    assert raised.value.reason == "closed the page"
    assert raised.value.result.text == "par"


def test_errors_that_carry_results_can_be_pickled(tool: Any) -> None:
    """D-32: from a worker process to its parent."""
    with Agent(ScriptedLlm(call("a"), fail(LlmError("no"))), tools=[tool("a")]) as agent:
        with pytest.raises(LlmError) as raised:
            agent.run("go")
    other = pickle.loads(pickle.dumps(raised.value))

    assert other.result.new_messages == raised.value.result.new_messages
    assert isinstance(other.result.new_messages[2], ToolResultMessage)
    assert copy.deepcopy(raised.value).result.status == "error"


# -- several callers ---------------------------------------------------------------------


@pytest.mark.threads
def test_eight_threads_that_share_an_agent_each_get_their_own_answer() -> None:
    """D-07, X8: five prompts each, one run after the other, no interleaving."""
    llm = ScriptedLlm(*[lambda context: f"answer to {context.messages[-1].text}"] * 40)
    with Agent(llm) as agent:

        def caller(name: int) -> list[bool]:
            return [
                agent.run(f"{name}-{number}", timeout=30).text == f"answer to {name}-{number}"
                for number in range(5)
            ]

        outcomes = [run_in_thread(caller, name) for name in range(8)]

        assert all(all(outcome.get(30)) for outcome in outcomes)
        history = agent.messages
    assert len(history) == 80
    assert all(history[n + 1].text == f"answer to {history[n].text}" for n in range(0, 80, 2))


def test_calls_beyond_the_input_channel_wait_in_line() -> None:
    """Decision 6: a caller that waits for its own answer need not fear a full output."""
    gate = Gate()
    number = INPUT_SIZE + 4
    llm = ScriptedLlm(say("0", before=gate), *map(str, range(1, number)))
    with Agent(llm) as agent:
        outcomes = [run_in_thread(agent.run, str(each)) for each in range(number)]
        gate.wait_entered()
        gate.open()

        assert sorted(int(outcome.get(30).text) for outcome in outcomes) == list(range(number))


# -- time --------------------------------------------------------------------------------


def test_a_run_that_takes_too_long_is_aborted() -> None:
    """Decision 32, F-23, T12: WaitTimeout with what there was; the agent is usable."""
    gate = Gate()
    with Agent(ScriptedLlm(say("", chunks=["par", "tial"], midway=gate), "fine")) as agent:
        with pytest.raises(WaitTimeout, match=r"within 0.5 s and was aborted") as raised:
            agent.run("a", timeout=0.5)

        assert raised.value.result.status == "aborted"
        assert raised.value.result.text == "par"
        assert agent.wait_for_idle(WAIT)
        assert agent.run("b").text == "fine"
        gate.open()


def test_a_run_that_is_still_in_line_when_its_time_is_up_is_withdrawn() -> None:
    """Decision 32: it never begins; the one before it is not touched."""
    gate = Gate()
    llm = ScriptedLlm(say("1", before=gate))
    with Agent(llm) as agent:
        first = run_in_thread(agent.run, "a")
        gate.wait_entered()
        with pytest.raises(WaitTimeout) as raised:
            agent.run("b", timeout=0)
        assert raised.value.result is None
        gate.open()

        assert first.get().text == "1"
        agent.wait_for_idle()
        assert len(llm.requests) == 1


def test_waiting_in_line_and_running_share_one_deadline() -> None:
    """Decision 26: a full input channel takes its time from the run."""
    gate = Gate()
    llm = ScriptedLlm(say("0", before=gate), *["x"] * INPUT_SIZE)
    with Agent(llm) as agent:
        agent.prompt("first")
        gate.wait_entered()
        for number in range(INPUT_SIZE):
            agent.submit(str(number))
        with pytest.raises(ChannelFull, match=r"within 0.01 s"):
            agent.run("late", timeout=0.01)
        gate.open()
        agent.wait_for_idle()


def test_a_result_that_comes_in_the_last_moment_is_a_result() -> None:
    """F-10: completed is completed, although the time was up."""
    gate, late = Gate(), Gate()
    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        agent.subscribe(lambda event: late.block() if event.type == "agent_end" else None)
        outcome = run_in_thread(agent.run, "a", timeout=1)
        gate.wait_entered()
        signal = agent._live.signal  # type: ignore[union-attr]
        gate.open()
        late.wait_entered()
        assert signal.wait(WAIT)  # The caller's time is up.
        late.open()

        assert outcome.get().text == "1"


@pytest.mark.parametrize("verb", ["run", "prompt", "submit", "stream"])
@pytest.mark.parametrize("timeout", ["5", float("nan"), True, [1]])
def test_a_timeout_of_the_wrong_type_is_refused(verb: str, timeout: Any) -> None:
    """Bad input: before anything is queued."""
    agent = Agent(ScriptedLlm())

    with pytest.raises(TypeError, match="timeout must be a number of seconds or None"):
        getattr(agent, verb)("x", timeout=timeout)
    assert agent.is_busy is False


@pytest.mark.parametrize("verb", ["take_response", "wait_for_idle", "stop"])
def test_waits_refuse_a_timeout_of_the_wrong_type(verb: str) -> None:
    """Bad input."""
    with pytest.raises(TypeError, match="timeout must be a number"):
        getattr(Agent(ScriptedLlm()), verb)(timeout="5")


def test_a_negative_timeout_does_not_wait() -> None:
    """Decision 26: time that has already passed."""
    with pytest.raises(WaitTimeout):
        Agent(ScriptedLlm()).take_response(timeout=-1)


# -- futures -----------------------------------------------------------------------------


def test_submit_gives_a_future_of_the_result() -> None:
    """Architecture, section 1."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        future = agent.submit("a")
        assert isinstance(future, concurrent.futures.Future)
        assert not future.done()
        assert future.running()
        gate.open()

        assert future.result(WAIT).text == "1"
        assert future.done()
        assert future.cancel() is False


def test_a_future_raises_what_run_would() -> None:
    """Decision 32."""
    with Agent(ScriptedLlm(fail(LlmError("no")))) as agent:
        error = agent.submit("a").exception(WAIT)

    assert isinstance(error, LlmError)
    assert error.result.status == "error"


def test_a_future_can_be_cancelled_until_its_run_begins() -> None:
    """D-07: and concurrent.futures.wait() hears of it."""
    gate = Gate()
    llm = ScriptedLlm(say("1", before=gate))
    with Agent(llm) as agent:
        first, second = agent.submit("a"), agent.submit("b")
        gate.wait_entered()
        waiter = run_in_thread(concurrent.futures.wait, [second])

        assert first.cancel() is False
        assert second.cancel() is True
        assert second.cancel() is True
        assert second.cancelled()
        assert waiter.get().done == {second}
        gate.open()
        assert first.result(WAIT).text == "1"
        agent.wait_for_idle()
    assert len(llm.requests) == 1


def test_futures_work_with_as_completed() -> None:
    """Architecture, section 1."""
    with Agent(ScriptedLlm("1", "2", "3")) as agent:
        futures = [agent.submit(str(number)) for number in range(3)]
        done = [future.result().text for future in concurrent.futures.as_completed(futures, WAIT)]

    assert done == ["1", "2", "3"]


def test_futures_of_a_stopped_agent_are_answered() -> None:
    """F-21, F-20: those that wait with AgentStopped, the one that runs with its abort."""
    gate = Gate()
    agent = Agent(ScriptedLlm(say("1", before=gate)))
    running, waiting = agent.submit("a"), agent.submit("b")
    gate.wait_entered()
    agent.stop()

    with pytest.raises(RunAborted) as raised:
        running.result(WAIT)
    assert raised.value.reason == "stopped"
    with pytest.raises(AgentStopped):
        waiting.result(WAIT)
    gate.open()


def test_a_callback_of_a_future_may_use_the_agent() -> None:
    """D-03: it comes after the run, on the agent's thread."""
    seen: list[Any] = []
    done, gate = threading.Event(), Gate()
    with Agent(ScriptedLlm(say("1", before=gate), "2")) as agent:

        def callback(future: Any) -> None:
            seen.extend((future.result().text, agent.is_busy, agent.wait_for_idle(0)))
            agent.prompt("b")
            seen.append(agent.stop is not None)
            done.set()

        agent.submit("a").add_done_callback(callback)
        gate.open()
        assert done.wait(WAIT)
        assert agent.take_response(WAIT)["content"][0]["text"] == "2"

    assert seen == ["1", False, True, True]


def test_stopping_from_a_callback_does_not_wait_for_itself() -> None:
    """D-03: stop() on the agent's own thread returns False at once."""
    answered: list[bool] = []
    done, gate = threading.Event(), Gate()
    agent = Agent(ScriptedLlm(say("1", before=gate)))

    def callback(future: Any) -> None:
        answered.append(agent.stop())
        done.set()

    agent.submit("a").add_done_callback(callback)
    gate.open()
    assert done.wait(WAIT)

    assert answered == [False]
    assert agent.stop() is True


# -- inside the run ----------------------------------------------------------------------

WAITING: dict[str, Callable[[Agent], Any]] = {
    "run": lambda agent: agent.run("x"),
    "submit": lambda agent: agent.submit("x"),
    "stream": lambda agent: agent.stream("x"),
    "take_response": lambda agent: agent.take_response(),
    "wait_for_idle": lambda agent: agent.wait_for_idle(),
}


@pytest.mark.parametrize("verb", list(WAITING))
@pytest.mark.parametrize("place", ["tool", "hook", "listener", "model"])
def test_waiting_for_ones_own_run_is_an_error_at_once(tool: Any, verb: str, place: str) -> None:
    """D-03, PI-79, T38: from wherever in the run it is called."""
    errors: list[BaseException] = []

    def waits(*args: Any) -> Any:
        if not errors:
            try:
                WAITING[verb](agent)
            except BaseException as error:
                errors.append(error)

    class Model(ScriptedLlm):
        def stream(self, context: Any, options: Any) -> Any:
            if place == "model":
                waits()
            return super().stream(context, options)

    agent = Agent(
        Model(call("a"), "done"),
        tools=[tool("a", waits if place == "tool" else None)],
        before_tool_call=waits if place == "hook" else None,
    )
    if place == "listener":
        agent.subscribe(waits)
    with agent:
        assert agent.run("go", timeout=WAIT).text == "done"

    assert [type(error) for error in errors] == [AgentBusy]
    assert f"{verb}() inside a run of the same agent" in str(errors[0])
