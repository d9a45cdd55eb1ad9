"""Agents inside agents: what a run in a tool inherits, and what could never be answered."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.errors import AgentBusy, RunAborted
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.run import agent_loop, run_agent_loop
from yiemagent.messages import TextContent, Usage, UserMessage
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, run_in_thread, say


def asks(helper: Agent, **options: Any) -> Any:
    """The body of a tool that runs *helper*."""
    return lambda *args: helper.run("sub", **options).text


def test_a_tool_may_run_another_agent(tool: Any) -> None:
    """D-03 (1): it simply works, on its own thread."""
    helper = Agent(ScriptedLlm("sub answer"))
    llm = ScriptedLlm(call("helper"), "done")
    with helper, Agent(llm, tools=[tool("helper", asks(helper))]) as agent:
        assert agent.run("go").text == "done"

    assert llm.requests[1].messages[-1].text == "sub answer"


def test_a_tool_that_calls_its_own_agent_is_told_at_once(tool: Any) -> None:
    """D-03 (2): as an error result; the run goes on."""
    agent = Agent(ScriptedLlm(call("self"), "done"), tools=[tool("self", lambda *args: agent.run("sub"))])
    with agent:
        result = agent.run("go", timeout=WAIT)

    assert result.text == "done"
    error = result.new_messages[2]
    assert error.is_error  # type: ignore[union-attr]
    assert "run() inside a run of the same agent" in error.text  # type: ignore[union-attr]


def test_so_is_an_agent_that_calls_it_over_another_one(tool: Any) -> None:
    """D-03 (2): A's tool runs B, whose tool runs A."""
    helper = Agent(ScriptedLlm(call("back"), "sub"), tools=[tool("back", lambda *args: agent.run("sub"))])
    agent = Agent(ScriptedLlm(call("helper"), "done"), tools=[tool("helper", asks(helper))])
    with helper, agent:
        assert agent.run("go", timeout=WAIT).text == "done"

    assert "inside a run of the same agent" in helper.messages[2].text  # type: ignore[union-attr]


def test_an_abort_goes_down_to_the_run_in_the_tool(tool: Any) -> None:
    """Issue part 4: inherited, however silent the inner model is."""
    gate = Gate()
    ends: list[Any] = []
    helper = Agent(ScriptedLlm(say("late", before=gate)))
    helper.subscribe(lambda event: ends.append(event) if event.type == "agent_end" else None)
    with helper, Agent(ScriptedLlm(call("helper")), tools=[tool("helper", asks(helper))]) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        agent.abort("enough")

        with pytest.raises(RunAborted):
            outcome.get()
        assert helper.wait_for_idle(WAIT)
        gate.open()
    assert [end.status for end in ends] == ["aborted"]


def test_an_abort_goes_down_to_a_run_that_was_only_prompted(tool: Any) -> None:
    """Issue part 4: nobody waits for it, and it is part of the run all the same."""
    inner, outer = Gate(), Gate()
    helper = Agent(ScriptedLlm(say("late", before=inner)))

    def prompts(*args: Any) -> str:
        helper.prompt("sub")
        outer.block()
        return "prompted"

    with helper, Agent(ScriptedLlm(call("prompts")), tools=[tool("prompts", prompts)]) as agent:
        outcome = run_in_thread(agent.run, "go")
        inner.wait_entered()
        outer.wait_entered()
        agent.abort("enough")
        with pytest.raises(RunAborted) as raised:
            helper.take_response(WAIT)
        outer.open()
        inner.open()
        with pytest.raises(RunAborted):
            outcome.get()

    assert raised.value.reason == "enough"


def test_an_abort_goes_down_to_a_run_that_waits_in_line(tool: Any) -> None:
    """Decision 10: it is withdrawn; the run before it is somebody else's."""
    first, second = Gate(), threading.Event()
    helper = Agent(ScriptedLlm(say("theirs", before=first)))
    agent = Agent(ScriptedLlm(call("helper")), tools=[tool("helper", asks(helper))])
    with helper, agent:
        theirs = run_in_thread(helper.run, "theirs")
        first.wait_entered()
        ours = run_in_thread(agent.run, "ours")
        while not helper._channels.input:
            second.wait(0.001)
        agent.abort()
        with pytest.raises(RunAborted):
            ours.get()
        while helper._channels.input:
            second.wait(0.001)
        first.open()

        assert theirs.get().text == "theirs"
        assert len(helper.messages) == 2


def test_a_tool_whose_time_is_up_takes_its_run_along(tool: Any) -> None:
    """Issue part 4: the call's own signal, not only the run's."""
    gate = Gate()
    helper = Agent(ScriptedLlm(say("late", before=gate)))
    made = tool("helper", asks(helper), timeout=0.2)
    with helper, Agent(ScriptedLlm(call("helper"), "done"), tools=[made]) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()

        assert outcome.get().text == "done"
        assert helper.wait_for_idle(WAIT)
        gate.open()
    assert helper.messages[-1].stop_reason == "aborted"  # type: ignore[union-attr]


def test_what_the_inner_run_takes_is_charged_to_the_outer_one(tool: Any) -> None:
    """Decision 21, issue part 4: the budget is inherited."""
    helper = Agent(ScriptedLlm(say("expensive", usage=Usage(output_tokens=100))))
    with (
        helper,
        Agent(
            ScriptedLlm(call("helper")), tools=[tool("helper", asks(helper))], max_total_tokens=50
        ) as agent,
    ):
        result = agent.run("go")

    assert (result.status, result.limit) == ("limit", "max_total_tokens")


def test_the_deadline_of_the_outer_run_holds_for_the_inner_one(tool: Any) -> None:
    """Issue part 4: the deadline is inherited, down to the model."""
    seen: list[Any] = []

    class Noting(ScriptedLlm):
        def stream(self, context: Any, options: Any) -> Any:
            seen.append(options.deadline)
            return super().stream(context, options)

    helper = Agent(Noting("sub"))
    with (
        helper,
        Agent(Noting(call("helper"), "done"), tools=[tool("helper", asks(helper))], max_seconds=60) as agent,
    ):
        agent.run("go")

    assert seen[0] is not None
    assert seen == [seen[0]] * 3


def test_the_stateless_loop_inherits_too(tool: Any) -> None:
    """D-03, decision 21: with a signal of its own, and in the background."""
    gate, second = Gate(), Gate()
    statuses: list[str] = []

    def inner(*args: Any) -> str:
        config = AgentLoopConfig(model=ScriptedLlm(say("late", before=gate)))
        prompts = [UserMessage((TextContent("sub"),))]
        stream = agent_loop(
            prompts, AgentContext(), AgentLoopConfig(model=ScriptedLlm(say("x", before=second)))
        )
        second.wait_entered()
        run_agent_loop(
            prompts, AgentContext(), config,
            lambda event: statuses.append(event.status) if event.type == "agent_end" else None,  # type: ignore[union-attr]
        )  # fmt: skip
        statuses.append(list(stream)[-1].status)  # type: ignore[union-attr]
        done.set()
        return "ok"

    done = threading.Event()
    with Agent(ScriptedLlm(call("inner")), tools=[tool("inner", inner)]) as agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        agent.abort()
        with pytest.raises(RunAborted):
            outcome.get()
        assert done.wait(WAIT)
        gate.open()
        second.open()

    assert statuses == ["aborted", "aborted"]


def test_a_run_that_is_over_binds_nothing_that_it_started(tool: Any) -> None:
    """D-03: a prompt that a tool left with another agent is answered after the run, unbound."""
    gate = Gate()
    helper = Agent(ScriptedLlm(say("first", before=gate), "second"))
    agent = Agent(
        ScriptedLlm(call("leaves"), "done", "again"),
        tools=[tool("leaves", lambda *args: str(helper.prompt("later").is_busy))],
        max_seconds=60,
    )
    with helper, agent:
        helper.prompt("before")
        gate.wait_entered()
        agent.run("go")
        agent.abort()
        gate.open()

        assert [helper.take_response(WAIT)["content"][0]["text"] for _ in range(2)] == ["first", "second"]


def test_code_that_outlives_its_run_may_use_the_agent_again(tool: Any) -> None:
    """D-03: the context of a run that is over is no reason to refuse."""
    kept: list[contextvars.Context] = []
    agent = Agent(
        ScriptedLlm(call("keeps"), "done", "again"),
        tools=[tool("keeps", lambda *args: kept.append(contextvars.copy_context()))],
    )
    with agent:
        agent.run("go")

        assert kept[0].run(agent.run, "later", timeout=WAIT).text == "again"


def test_a_tool_that_was_left_can_begin_no_run(tool: Any) -> None:
    """Decision 10: nothing new begins after the abort, not even behind its back."""
    gate, over = Gate(), threading.Event()
    raised: list[BaseException] = []
    helper_llm = ScriptedLlm()
    helper = Agent(helper_llm)

    def body(*args: Any) -> None:
        gate.block()
        for wait in (lambda: helper.run("sub", timeout=WAIT), lambda: agent.run("sub")):
            try:
                wait()
            except BaseException as error:
                raised.append(error)
        over.set()

    agent = Agent(ScriptedLlm(call("left"), "fine"), tools=[tool("left", body)], abort_grace=0.0)
    with helper, agent:
        outcome = run_in_thread(agent.run, "go")
        gate.wait_entered()
        agent.abort()
        with pytest.raises(RunAborted):
            outcome.get()
        gate.open()
        assert over.wait(WAIT)

        assert agent.run("next").text == "fine"
    assert [type(error) for error in raised] == [RunAborted, AgentBusy]
    assert helper_llm.requests == []


def test_context_variables_go_down_to_the_inner_tools(tool: Any) -> None:
    """D-14, D-33: from the caller through both agents."""
    request_id = contextvars.ContextVar("request_id", default="none")
    seen: list[str] = []
    helper = Agent(
        ScriptedLlm(call("inner"), "sub"),
        tools=[tool("inner", lambda *args: seen.append(request_id.get()))],
        before_tool_call=lambda *args: seen.append(request_id.get()),
    )
    with helper, Agent(ScriptedLlm(call("helper"), "done"), tools=[tool("helper", asks(helper))]) as agent:
        request_id.set("r1")
        agent.run("go")

    assert seen == ["r1", "r1"]


def test_a_shared_agent_as_a_tool_gives_up_its_own_call_only(tool: Any) -> None:
    """as_tool(keep_history=True): the abort of one caller is none of another's business."""
    theirs_gate = Gate()
    shared = Agent(ScriptedLlm(say("theirs", before=theirs_gate)))
    ask = shared.as_tool("ask", "Ask it.", keep_history=True)
    agent = Agent(ScriptedLlm(call("ask", prompt="ours")), tools=[ask])
    with shared, agent:
        theirs = run_in_thread(shared.run, "theirs")
        theirs_gate.wait_entered()
        ours = run_in_thread(agent.run, "go")
        while not shared._channels.input:
            threading.Event().wait(0.001)
        agent.abort()
        with pytest.raises(RunAborted):
            ours.get()
        theirs_gate.open()

        assert theirs.get().text == "theirs"


def test_an_agent_cannot_be_its_own_tool(tool: Any) -> None:
    """D-03 (2): as_tool of itself with its history."""
    agent = Agent(ScriptedLlm(call("me", prompt="sub"), "done"))
    agent.tools = [agent.as_tool("me", "Me.", keep_history=True)]  # type: ignore[assignment]
    with agent:
        result = agent.run("go", timeout=WAIT)

    assert "inside a run of the same agent" in result.new_messages[2].text  # type: ignore[union-attr]
