"""Limits and budgets: a readable last message, and nothing new begins beyond them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, ContextOverflow
from yiemagent.events import Diagnostic
from yiemagent.loop.config import AgentContext, AgentLoopConfig, NextTurn
from yiemagent.loop.limits import Budget, Limits
from yiemagent.loop.run import run_agent_loop
from yiemagent.messages import TextContent, ToolCall, Usage, UserMessage
from yiemagent.testing import Gate, ScriptedLlm, call, calls, fail, say

Run = Callable[..., Any]
BUDGET_TEXT = "I stopped because the maximum tool-call turn budget was reached before a final answer."


def t(number: int, name: str = "a", **arguments: Any) -> ToolCall:
    return ToolCall(f"t{number}", name, arguments)


def endless(**arguments: Any) -> Callable[[Any], Any]:
    return lambda context: calls(call("a", **arguments), usage=Usage(output_tokens=10, cost=0.5))


def test_the_tool_turn_budget_ends_the_run_with_a_readable_message(run: Run, tool: Any) -> None:
    """Decision 21, LP-14, LP-15, T103, C-39."""
    ran = run("go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a")], limits={"max_tool_turns": 1})

    assert ran.trace == (
        "AS TS M+u M.u M+a M~ M.a X+t1 X.t1 M+r1 M.r1 TE[r1] "
        "D:limit_reached M+a M.a(error) AE[u,a,r1,a]:limit"
    )
    last = ran.messages[-1]
    assert (last.text, last.stop_reason, last.error_message) == (
        BUDGET_TEXT, "error", "max_tool_turns_exhausted",
    )  # fmt: skip
    assert last.error_kind == ran.end.status == "limit"
    assert ran.end.limit == "max_tool_turns"
    assert ran.of(Diagnostic)[0].data["tool_turns"] == 1


def test_twenty_five_turns_by_default(run: Run, tool: Any) -> None:
    """Decision 21, T104."""
    ran = run("go", llm=ScriptedLlm(*[endless()] * 25), tools=[tool("a")])

    assert ran.end.limit == "max_tool_turns"
    assert len(ran.results) == 25


def test_none_is_unlimited(run: Run, tool: Any) -> None:
    """Decision 26, T104."""
    llm = ScriptedLlm(*[endless()] * 30, "done")
    ran = run("go", llm=llm, tools=[tool("a")], limits={"max_tool_turns": None})

    assert ran.end.status == "completed"
    assert len(ran.results) == 30


@pytest.mark.parametrize("name", ["max_tool_turns", "max_tool_calls", "max_total_tokens", "max_seconds"])
@pytest.mark.parametrize("value", [0, -1, "5", True, float("nan")])
def test_a_limit_that_could_not_work_is_refused(name: str, value: Any) -> None:
    """T104: named, with the way out."""
    with pytest.raises(ConfigurationError, match=name):
        Limits(**{name: value})


def test_a_follow_up_has_its_own_tool_turns(run: Run, tool: Any) -> None:
    """Decision 21, LP-13, T105, F-16."""
    follow_ups = iter([[UserMessage((TextContent("and?"),))], []])
    llm = ScriptedLlm(calls(t(1)), "one", calls(t(2)), "two")
    ran = run(
        "go", llm=llm, tools=[tool("a")], limits={"max_tool_turns": 2},
        get_follow_up_messages=lambda: next(follow_ups),
    )  # fmt: skip

    assert ran.end.status == "completed"
    assert len(ran.results) == 2


def test_a_limit_polls_no_queue(run: Run, tool: Any) -> None:
    """LP-14, S7: what is queued stays queued."""
    polled: list[str] = []
    run(
        "go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a")], limits={"max_tool_turns": 1},
        get_steering_messages=lambda: polled.append("steering"),
        get_follow_up_messages=lambda: polled.append("follow-ups"),
    )  # fmt: skip

    assert polled == ["steering"]  # Before the first turn.


@pytest.mark.parametrize(
    ("limits", "name", "results"),
    [({"max_total_tokens": 15}, "max_total_tokens", 2), ({"max_cost": 1.2}, "max_cost", 3)],
)
def test_tokens_and_cost_end_the_run(run: Run, tool: Any, limits: Any, name: str, results: int) -> None:
    """Decision 21: looked at before each model call."""
    ran = run("go", llm=ScriptedLlm(*[endless()] * 5), tools=[tool("a")], limits=limits)

    assert ran.end.limit == name
    assert len(ran.results) == results
    assert ran.messages[-1].text.startswith("I stopped because")


def test_more_calls_than_allowed_are_refused_together(run: Run, tool: Any) -> None:
    """Decision 21: the transcript stays valid."""
    llm = ScriptedLlm(calls(t(1), t(2)), calls(t(3), t(4)))
    ran = run("go", llm=llm, tools=[tool("a")], limits={"max_tool_calls": 3})

    assert [result.is_error for result in ran.results] == [False, False, True, True]
    assert ran.results[2].details == {"error_type": "limit", "limit": "max_tool_calls"}
    assert ran.end.limit == "max_tool_calls"
    assert ran.trace.endswith("TE[r3,r4] D:limit_reached M+a M.a(error) AE[u,a,r1,r2,a,r3,r4,a]:limit")


def test_the_same_call_again_and_again_ends_the_run(run: Run, tool: Any) -> None:
    """C-39: the loop guard users ask for; other arguments are another call."""
    llm = ScriptedLlm(calls(t(1, x=1)), calls(t(2, x=2)), calls(t(3, x=1)), calls(t(4, x=1)))
    ran = run("go", llm=llm, tools=[tool("a")], limits={"max_identical_calls": 2})

    assert [result.is_error for result in ran.results] == [False, False, False, True]
    assert ran.end.limit == "max_identical_calls"


# -- time --------------------------------------------------------------------------------


def test_a_run_out_of_time_leaves_a_silent_model(run: Run) -> None:
    """Decision 21, F-07: and says so readably."""
    gate = Gate()
    ran = run("go", llm=ScriptedLlm(say("late", before=gate)), limits={"max_seconds": 0.3})
    gate.open()

    assert ran.trace == ("AS TS M+u M.u M+a M.a(aborted) TE[] D:limit_reached M+a M.a(error) AE[u,a,a]:limit")
    assert ran.end.limit == "max_seconds"
    assert ran.messages[-1].text.startswith("I stopped because the time")


def test_a_run_out_of_time_leaves_a_tool(run: Run, tool: Any) -> None:
    """Decision 21: every call has its result, and the last message is readable."""
    gate = Gate()
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1), t(2))), tools=[tool("a", lambda *args: gate.block())],
        limits={"max_seconds": 0.3}, abort_grace=0.0,
    )  # fmt: skip
    gate.open()

    assert [result.details["error_type"] for result in ran.results] == ["aborted", "aborted"]
    assert ran.end.limit == "max_seconds"
    assert ran.trace.endswith("TE[r1,r2] D:limit_reached M+a M.a(error) AE[u,a,r1,r2,a]:limit")


def test_no_tool_begins_when_the_time_is_up(run: Run, tool: Any) -> None:
    """Decision 10: looked at before each new piece of work."""
    began: list[str] = []

    def before(ctx: Any, signal: Any, sink: Any) -> None:
        while not signal.wait(0.001) and monotonic() < deadline:
            pass

    deadline = monotonic() + 0.05
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a", lambda *args: began.append("a"))],
        before_tool_call=before, limits={"max_seconds": 0.02},
    )  # fmt: skip

    assert began == []
    assert ran.end.limit == "max_seconds"


def test_an_answer_that_came_just_in_time_is_an_answer(run: Run) -> None:
    """F-10: what has finished is kept, however late its listeners are done with it."""
    llm = ScriptedLlm("hi")

    def slow_listener(event: Any) -> None:
        while event.type == "turn_end" and monotonic() < llm.options[0].deadline:  # type: ignore[operator]
            pass

    assert run("go", llm=llm, limits={"max_seconds": 0.3}, emit=slow_listener).end.status == "completed"


def test_the_deadline_reaches_the_model(run: Run) -> None:
    """One deadline from time.monotonic(), passed down."""
    llm = ScriptedLlm("hi")
    run("go", llm=llm, limits={"max_seconds": 60})

    assert llm.options[0].deadline is not None
    assert 0 < llm.options[0].deadline - monotonic() < 60


# -- budgets inside budgets --------------------------------------------------------------


def test_what_a_run_in_a_tool_takes_is_charged_to_the_run_around_it(run: Run, tool: Any) -> None:
    """Decision 21: the budget holds for the whole tree."""

    def inner(*args: Any) -> str:
        messages = run_agent_loop(
            [UserMessage((TextContent("sub"),))],
            AgentContext(),
            AgentLoopConfig(model=ScriptedLlm(say("sub answer", usage=Usage(output_tokens=100)))),
            lambda event: None,
        )
        return messages[-1].text  # type: ignore[union-attr]

    ran = run(
        "go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a", inner)], limits={"max_total_tokens": 50}
    )  # fmt: skip

    assert ran.results[0].text == "sub answer"
    assert ran.end.limit == "max_total_tokens"


def test_a_budget_that_is_used_up_around_it_stops_an_inner_run(run: Run, tool: Any) -> None:
    """Decision 21."""
    inner_llm = ScriptedLlm("never asked")

    def inner(*args: Any) -> str:
        messages = run_agent_loop(
            [UserMessage((TextContent("sub"),))], AgentContext(), AgentLoopConfig(model=inner_llm),
            lambda event: None,
        )  # fmt: skip
        return messages[-1].text  # type: ignore[union-attr]

    expensive = calls(t(1), usage=Usage(output_tokens=100))
    ran = run("go", llm=ScriptedLlm(expensive), tools=[tool("a", inner)], limits={"max_total_tokens": 50})

    assert inner_llm.requests == []
    assert ran.results[0].text.startswith("I stopped because the token budget")


def test_an_inner_run_has_no_later_deadline_than_the_one_around_it() -> None:
    """Decision 21: the earlier deadline holds."""
    outer = Budget(Limits(max_seconds=1))
    assert Budget(Limits(max_seconds=60), outer).deadline == outer.deadline
    assert Budget(Limits(), outer).deadline == outer.deadline
    sooner = Budget(Limits(max_seconds=0.5), outer)
    assert sooner.deadline is not None
    assert outer.deadline is not None
    assert sooner.deadline < outer.deadline


def test_calls_and_cost_of_an_inner_budget_count_in_all_those_around_it() -> None:
    """Decision 21."""
    top = Budget(Limits(max_tool_calls=2, max_cost=1.0))
    middle = Budget(Limits(), top)
    inner = Budget(Limits(), middle)

    assert inner.refuse_calls((t(1), t(2))) is None
    assert inner.refuse_calls((t(3),)) == "max_tool_calls"
    inner.charge_usage(None)
    inner.charge_usage(Usage(cost=2.0))
    assert inner.reached() == middle.reached() == top.reached() == "max_cost"


# -- context overflow --------------------------------------------------------------------


def test_after_an_overflow_the_model_is_asked_again_with_less(run: Run) -> None:
    """C-38: once; the shorter form is kept for the rest of the run."""
    history = [UserMessage((TextContent(f"old {n}"),)) for n in range(5)]
    llm = ScriptedLlm(fail(ContextOverflow("too long")), calls(t(1)), "done")
    given: list[int] = []

    def recover(messages: Any) -> Any:
        given.append(len(messages))
        return messages[-2:]

    ran = run("go", llm=llm, history=history, recover_context=recover)

    assert given == [6]
    assert [len(request.messages) for request in llm.requests] == [6, 2, 4]
    assert ran.end.status == "completed"
    assert "M.a(error) D:context_overflow_recovered M+a" in ran.trace


def test_a_second_overflow_or_none_to_shorten_is_the_error(run: Run) -> None:
    """C-38: never retried unchanged."""
    twice = [fail(ContextOverflow("too long")), fail(ContextOverflow("still too long"))]
    again = run("go", llm=ScriptedLlm(*twice), recover_context=lambda messages: messages)
    cannot = run("go", llm=ScriptedLlm(twice[0]), recover_context=lambda messages: None)

    assert str(again.end.error) == "still too long"
    assert str(cannot.end.error) == "too long"


def test_a_new_context_after_a_recovery_is_taken_as_it_is(run: Run, tool: Any) -> None:
    """PI-57: what prepare_next_turn gives replaces the shorter form too."""
    llm = ScriptedLlm(fail(ContextOverflow("too long")), calls(t(1)), "done")
    run(
        "go", llm=llm, tools=[tool("a")], history=[UserMessage((TextContent("old"),))],
        recover_context=lambda messages: messages[-1:],
        prepare_next_turn=lambda ctx: NextTurn(context=ctx.context),
    )  # fmt: skip

    assert [message.text for message in llm.requests[2].messages][:2] == ["old", "go"]
