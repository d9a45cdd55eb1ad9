"""Abort at every point of a run: nothing new begins, everything has its end, the next run is clean."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.events import MessageEnd, MessageStart, ToolExecutionUpdate
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.run import run_agent_loop
from yiemagent.messages import TextContent, ToolCall, UserMessage
from yiemagent.testing import WAIT, Gate, ScriptedLlm, calls, run_in_thread, say
from yiemagent.tools.pool import ToolThreads
from yiemagent.tools.tool import ToolResult

Run = Callable[..., Any]


def t(number: int, name: str = "a", **arguments: Any) -> ToolCall:
    return ToolCall(f"t{number}", name, arguments)


def never(*args: Any) -> Any:
    raise AssertionError("this must not be called")


def aborting(signal: AbortSignal, value: Any = None) -> Callable[..., Any]:
    def hook(*args: Any) -> Any:
        signal.abort("enough")
        return args[0] if value is Ellipsis else value

    return hook


# -- before the model --------------------------------------------------------------------


def test_a_run_aborted_before_it_began_asks_nobody(run: Run) -> None:
    """PI-62, LP-9, ST-1, T73, T74, T77, F-13: no hook, no model; the answer is an aborted one."""
    signal = AbortSignal()
    signal.abort()
    llm = ScriptedLlm()
    ran = run(
        "go", llm=llm, signal=signal, transform_context=never, prepare_context=never,
        convert_to_llm=never, get_api_key=never, get_steering_messages=never,
        get_follow_up_messages=never, refresh_tools=never,
    )  # fmt: skip

    assert ran.trace == "AS TS M+u M.u M+a M.a(aborted) TE[] AE[u,a]:aborted"
    assert ran.messages[-1].error_message == "Request was aborted"
    assert llm.requests == []


@pytest.mark.parametrize("hook", ["prepare_context", "transform_context", "convert_to_llm", "get_api_key"])
def test_an_abort_while_the_request_is_prepared_keeps_the_model_from_being_asked(run: Run, hook: str) -> None:
    """T87, decision 10: the signal is looked at before each new piece of work."""
    signal = AbortSignal()
    llm = ScriptedLlm()
    value = None if hook in ("prepare_context", "get_api_key") else Ellipsis
    ran = run("go", llm=llm, signal=signal, **{hook: aborting(signal, value)})

    assert ran.trace == "AS TS M+u M.u M+a M.a(aborted) TE[] AE[u,a]:aborted"
    assert llm.requests == []


def test_a_hook_that_fails_because_of_the_abort_is_an_abort(run: Run) -> None:
    """PI-70: not an error."""
    signal = AbortSignal()

    def hook(messages: Any, own: AbortSignal) -> Any:
        signal.abort()
        own.raise_if_aborted()

    ran = run("go", llm=ScriptedLlm(), signal=signal, transform_context=hook)

    assert ran.end.status == "aborted"
    assert ran.messages[-1].stop_reason == "aborted"


def test_hooks_see_the_abort_of_their_call(run: Run) -> None:
    """PI-12: transform_context gets a live signal."""
    seen: list[bool] = []
    signal = AbortSignal()

    def hook(messages: Any, own: AbortSignal) -> Any:
        seen.append(own.aborted)
        signal.abort()
        seen.append(own.aborted)
        return messages

    run("go", llm=ScriptedLlm(), signal=signal, transform_context=hook)

    assert seen == [False, True]


# -- the model ---------------------------------------------------------------------------


def test_an_abort_in_the_middle_of_an_answer_keeps_what_had_come(run: Run) -> None:
    """PI-63, T75, T76, T77, H2, F-05."""
    signal, gate = AbortSignal(), Gate()
    llm = ScriptedLlm(say("", chunks=["par", "tial"], midway=gate))
    outcome = run_in_thread(run, "go", llm=llm, signal=signal)
    gate.wait_entered()
    signal.abort()

    ran = outcome.get()  # The gate is still closed: the provider says nothing.
    assert ran.trace == "AS TS M+u M.u M+a M~ M.a(aborted) TE[] AE[u,a]:aborted"
    assert ran.messages[-1].text == "par"
    assert ran.messages[-1].error_message == "Request was aborted"
    assert ran.end.error is None
    gate.open()


def test_a_silent_model_is_left(run: Run) -> None:
    """H2, F-04, T26, A9: not one event has come."""
    signal, gate = AbortSignal(), Gate()
    outcome = run_in_thread(run, "go", llm=ScriptedLlm(say("late", before=gate)), signal=signal)
    gate.wait_entered()
    signal.abort()

    assert outcome.get().trace == "AS TS M+u M.u M+a M.a(aborted) TE[] AE[u,a]:aborted"
    gate.open()


def test_a_model_that_was_left_says_nothing_any_more(run: Run) -> None:
    """A8, T91: neither events nor log lines."""
    signal, gate, said = AbortSignal(), Gate(), threading.Event()

    class Saying(ScriptedLlm):
        def stream(self, context: Any, options: Any) -> Any:
            gate.block()
            options.event_sink("late")
            said.set()
            return super().stream(context, options)

    outcome = run_in_thread(run, "go", llm=Saying("late"), signal=signal)
    gate.wait_entered()
    signal.abort()
    ran = outcome.get()
    gate.open()
    assert said.wait(WAIT)

    assert ran.events[-1].type == "agent_end"


def test_an_answer_that_was_complete_is_kept_and_its_calls_are_not_run(run: Run, tool: Any) -> None:
    """F-10, decision 10: the abort came between the answer and its tools."""
    signal = AbortSignal()

    def emit(event: Any) -> None:
        if isinstance(event, MessageEnd) and event.message.role == "assistant":
            signal.abort()

    ran = run("go", llm=ScriptedLlm(calls(t(1), t(2))), tools=[tool("a", never)], signal=signal, emit=emit)

    assert ran.trace == (
        "AS TS M+u M.u M+a M~ M.a X+t1 X.t1! M+r1 M.r1 X+t2 X.t2! M+r2 M.r2 TE[r1,r2] AE[u,a,r1,r2]:aborted"
    )
    assert [result.text for result in ran.results] == ["Operation aborted"] * 2


def test_a_model_that_ends_by_itself_on_abort_is_told_and_heard(run: Run) -> None:
    """PI-63, decision 10: an abortable adapter stays on the loop's own thread."""
    signal, threads = AbortSignal(), []

    class Abortable(ScriptedLlm):
        abortable = True

        def stream(self, context: Any, options: Any) -> Any:
            threads.append(threading.current_thread())
            signal.abort()
            assert options.signal.wait(0)
            return super().stream(context, options)

    ran = run("go", llm=Abortable("late"), signal=signal)

    assert ran.end.status == "aborted"
    assert threads == [threading.current_thread()]


# -- tools -------------------------------------------------------------------------------


def test_a_tool_that_ignores_the_abort_is_left_after_the_grace(run: Run, tool: Any) -> None:
    """Decision 10, F-01, F-11, T78, A7: what it does is unknown, and the result says so."""
    signal, gate = AbortSignal(), Gate()
    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a", lambda *args: gate.block())],
        signal=signal, abort_grace=0.01, after_tool_call=never,
    )  # fmt: skip
    gate.wait_entered()
    signal.abort()

    ran = outcome.get()
    assert ran.trace == ("AS TS M+u M.u M+a M~ M.a X+t1 X.t1! M+r1 M.r1 TE[r1] AE[u,a,r1]:aborted")
    assert ran.results[0].text == (
        "Operation aborted: the tool was still running; what it did or may still do is unknown"
    )
    assert ran.results[0].details == {"error_type": "aborted", "started": True}
    gate.open()


def test_a_tool_that_heeds_the_abort_keeps_its_own_result(run: Run, tool: Any) -> None:
    """PI-64, PI-43, A6: and the after hook sees it."""
    signal, gate = AbortSignal(), Gate()
    hooked: list[str] = []

    def heeds(tool_call_id: str, args: Any, own: AbortSignal, on_update: Any) -> str:
        gate._entered.set()
        own.wait(WAIT)
        return f"stopped at 5 of 10: {own.reason}"

    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a", heeds)], signal=signal,
        abort_grace=WAIT, after_tool_call=lambda ctx, s, e: hooked.append(ctx.tool_call.id),
    )  # fmt: skip
    gate.wait_entered()
    signal.abort("enough")

    ran = outcome.get()
    assert ran.results[0].text == "stopped at 5 of 10: enough"
    assert ran.results[0].is_error is False
    assert hooked == ["t1"]


def test_calls_behind_the_one_that_runs_get_their_result_and_never_start(run: Run, tool: Any) -> None:
    """PI-64, PI-65, LP-9, T81, T82, F-09, decision 10: with start and end events, without a hook."""
    signal, gate = AbortSignal(), Gate()
    asked: list[str] = []
    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(calls(t(1), t(2), t(3))),
        tools=[tool("a", lambda *args: gate.block())], signal=signal, abort_grace=0.0,
        before_tool_call=lambda ctx, s, e: asked.append(ctx.tool_call.id),
    )  # fmt: skip
    gate.wait_entered()
    signal.abort()

    ran = outcome.get()
    assert ran.trace.endswith(
        "X+t1 X.t1! M+r1 M.r1 X+t2 X.t2! M+r2 M.r2 X+t3 X.t3! M+r3 M.r3 TE[r1,r2,r3] AE[u,a,r1,r2,r3]:aborted"
    )
    assert [result.details["started"] for result in ran.results] == [True, False, False]
    assert asked == ["t1"]
    gate.open()


def test_a_fast_result_is_kept_while_a_slow_call_is_aborted(run: Run, tool: Any) -> None:
    """T80, F-10, A6: side by side."""
    signal, gate, fast_done = AbortSignal(), Gate(), threading.Event()

    def emit(event: Any) -> None:
        if event.type == "tool_execution_end":
            fast_done.set()

    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(calls(t(1, "slow"), t(2, "fast"))),
        tools=[tool("slow", lambda *args: gate.block()), tool("fast")],
        tool_execution="parallel", signal=signal, abort_grace=0.0, emit=emit,
    )  # fmt: skip
    gate.wait_entered()
    assert fast_done.wait(WAIT)
    signal.abort()

    assert [result.is_error for result in outcome.get().results] == [True, False]
    gate.open()


def test_three_tools_side_by_side_are_all_left(run: Run, tool: Any) -> None:
    """T79."""
    signal, gate = AbortSignal(), Gate()
    inside = threading.Barrier(4)

    def body(*args: Any) -> None:
        inside.wait(WAIT)
        gate.block()

    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(calls(t(1), t(2), t(3))), tools=[tool("a", body)],
        tool_execution="parallel", signal=signal, abort_grace=0.0,
    )  # fmt: skip
    inside.wait(WAIT)
    signal.abort()

    ran = outcome.get()
    assert [result.details["started"] for result in ran.results] == [True] * 3
    gate.open()


def test_calls_that_wait_for_a_free_slot_never_start(run: Run, tool: Any) -> None:
    """PI-65, T81: prepared, and aborted before it ran."""
    signal, gate = AbortSignal(), Gate()
    began: list[str] = []

    def body(tool_call_id: str, *args: Any) -> None:
        began.append(tool_call_id)
        gate.block()

    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(calls(t(1), t(2), t(3))), tools=[tool("a", body)],
        tool_execution="parallel", max_tool_concurrency=1, signal=signal, abort_grace=0.0,
        after_tool_call=never,
    )  # fmt: skip
    gate.wait_entered()
    signal.abort()

    assert [result.details["started"] for result in outcome.get().results] == [True, False, False]
    assert began == ["t1"]
    gate.open()


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_an_abort_in_the_before_hook_runs_nothing(run: Run, tool: Any, mode: str) -> None:
    """PI-38, PI-65: aborted wins over blocked; every call has its result."""
    signal = AbortSignal()

    def before(ctx: Any, own: Any, sink: Any) -> None:
        if ctx.tool_call.id == "t2":
            signal.abort()

    began: list[str] = []
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1), t(2), t(3))), signal=signal, tool_execution=mode,
        tools=[tool("a", lambda i, *args: began.append(i))], before_tool_call=before,
    )  # fmt: skip

    assert [result.tool_call_id for result in ran.results] == ["t1", "t2", "t3"]
    assert [result.is_error for result in ran.results] == [mode == "parallel", True, True]
    assert began == ([] if mode == "parallel" else ["t1"])


def test_an_abort_that_comes_first_leaves_a_whole_batch_unstarted(run: Run, tool: Any) -> None:
    """T83: and steering is not taken (it would be lost)."""
    signal = AbortSignal()
    polled: list[int] = []
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1), t(2))), tools=[tool("a", never)], signal=signal,
        emit=lambda event: signal.abort() if event.type == "tool_execution_start" else None,
        get_steering_messages=lambda: polled.append(1),
    )  # fmt: skip

    assert [result.details["error_type"] for result in ran.results] == ["aborted"] * 2
    assert polled == [1]  # Before the first turn.


def test_what_a_tool_brings_after_it_was_left_is_ignored(run: Run, tool: Any) -> None:
    """T91, T92, T93, C-04, A8, H6: no event, no message; its signal still reads aborted."""
    signal, gate, over = AbortSignal(), Gate(), threading.Event()
    seen: list[Any] = []

    def body(tool_call_id: str, args: Any, own: AbortSignal, on_update: Any) -> str:
        gate.block()
        on_update("late")
        seen.append((own.aborted, own.reason))
        over.set()
        return "late"

    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a", body)], signal=signal, abort_grace=0.0
    )
    gate.wait_entered()
    signal.abort("enough")
    ran = outcome.get()
    gate.open()
    assert over.wait(WAIT)

    assert seen == [(True, "enough")]
    assert ran.of(ToolExecutionUpdate) == []
    assert ran.events[-1].type == "agent_end"
    assert [message.role for message in ran.messages] == ["user", "assistant", "tool_result"]


def test_the_signal_of_a_finished_run_is_never_lowered(run: Run, tool: Any) -> None:
    """H6, T90, T93: and an abort afterwards changes nothing of a tool that was well."""
    signals: list[AbortSignal] = []
    outer = AbortSignal()
    run("go", llm=ScriptedLlm(calls(t(1)), "done"), signal=outer,
        tools=[tool("a", lambda i, a, own, u: signals.append(own))])  # fmt: skip
    outer.abort()

    assert [own.aborted for own in signals] == [False]
    assert all(outer.aborted for _ in range(100))


def test_tools_that_were_left_are_counted_until_they_end(tool: Any) -> None:
    """F-01, A8: visible to whoever owns the threads."""
    threads, gate = ToolThreads(), Gate()
    config = AgentLoopConfig(model=ScriptedLlm(calls(t(1)), "done"), tool_timeout=0.01)
    context = AgentContext(tools=[tool("a", lambda *args: gate.block())])  # type: ignore[arg-type]
    run_agent_loop([UserMessage((TextContent("go"),))], context, config, lambda event: None, threads=threads)

    assert [(each.tool_call_id, each.tool_name) for each in threads.abandoned] == [("t1", "a")]
    gate.open()
    while threads.abandoned:
        threading.Event().wait(0.001)
    threads.close()


def test_a_tool_that_asks_for_the_end_during_the_abort_ends_the_run_once(run: Run, tool: Any) -> None:
    """PI-67, PI-61: the abort itself kills nothing; the status is that of the abort."""
    signal = AbortSignal()

    def ends(*args: Any) -> ToolResult:
        signal.abort()
        return ToolResult("x", terminate=True)  # type: ignore[arg-type]

    ran = run("go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a", ends)], signal=signal)

    assert ran.trace.endswith("X+t1 X.t1 M+r1 M.r1 TE[r1] AE[u,a,r1]:aborted")
    assert ran.results[0].is_error is False


def test_a_tool_that_ends_as_it_is_left_is_not_listed_for_ever(tool: Any) -> None:
    """X3: it may report back before it is listed."""
    gate, back = Gate(), threading.Event()

    class Slow(ToolThreads):
        def abandon(self, thread: Any, left: Any) -> None:
            gate.open()
            assert back.wait(WAIT)
            super().abandon(thread, left)

        def came_back(self, left: Any) -> None:
            super().came_back(left)
            back.set()

    threads = Slow()
    config = AgentLoopConfig(model=ScriptedLlm(calls(t(1)), "done"), tool_timeout=0.01)
    context = AgentContext(tools=[tool("a", lambda *args: gate.block())])  # type: ignore[arg-type]
    run_agent_loop([UserMessage((TextContent("go"),))], context, config, lambda event: None, threads=threads)

    assert threads.abandoned == ()
    threads.close()


# -- between turns -----------------------------------------------------------------------


def test_after_an_aborted_batch_no_other_turn_begins(run: Run, tool: Any) -> None:
    """PI-66, C-04: no poll, no extra aborted answer."""
    signal = AbortSignal()
    polled: list[str] = []
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a")], signal=signal,
        after_tool_call=aborting(signal),
        get_steering_messages=lambda: polled.append("s"), get_follow_up_messages=lambda: polled.append("f"),
    )  # fmt: skip

    assert ran.trace.endswith("X.t1 M+r1 M.r1 TE[r1] AE[u,a,r1]:aborted")
    assert polled == ["s"]


def test_an_abort_at_the_end_of_a_turn_takes_no_follow_up(run: Run) -> None:
    """PI-68, LP-12, T85."""
    signal = AbortSignal()
    ran = run(
        "go", llm=ScriptedLlm("hi"), signal=signal, get_follow_up_messages=never,
        emit=lambda event: signal.abort() if event.type == "turn_end" else None,
    )  # fmt: skip

    assert ran.trace.endswith("TE[] AE[u,a]:aborted")


@pytest.mark.parametrize("hook", ["should_stop_after_turn", "prepare_next_turn", "refresh_tools"])
def test_an_abort_in_a_hook_between_turns_begins_no_turn(run: Run, tool: Any, hook: str) -> None:
    """Decision 10, LP-12."""
    signal = AbortSignal()
    times = iter([None])

    def aborts(*args: Any) -> Any:
        if hook != "refresh_tools" or next(times, "again") == "again":
            signal.abort()

    ran = run("go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a")], signal=signal, **{hook: aborts})

    assert ran.trace.endswith("TE[r1] AE[u,a,r1]:aborted")


@pytest.mark.parametrize("getter", ["get_steering_messages", "get_follow_up_messages"])
def test_messages_that_were_fetched_across_an_abort_go_back(run: Run, getter: str) -> None:
    """T85, T86, S8, F-15, LP-12, decision 8: not injected, not lost; the getter is called once."""
    signal, back = AbortSignal(), []
    message = UserMessage((TextContent("late"),))
    fetched: list[str] = []

    def get() -> Any:
        fetched.append("fetched")
        if getter == "get_steering_messages" and len(fetched) == 1:
            return []  # Before the first turn.
        signal.abort()
        return [message]

    ran = run("go", llm=ScriptedLlm("hi"), signal=signal, put_back=back.extend, **{getter: get})

    assert ran.trace.endswith("TE[] AE[u,a]:aborted")
    assert back == [message]
    assert len(fetched) == (2 if getter == "get_steering_messages" else 1)


def test_messages_polled_before_the_abort_go_back_when_the_turn_is_not_begun(run: Run) -> None:
    """F-15, A2."""
    signal, back = AbortSignal(), []
    message = UserMessage((TextContent("and?"),))
    ran = run(
        "go", llm=ScriptedLlm("hi"), signal=signal, put_back=back.extend,
        get_follow_up_messages=lambda: [message], prepare_next_turn=aborting(signal),
    )  # fmt: skip

    assert back == [message]
    assert ran.end.status == "aborted"


def test_after_an_abort_the_next_run_is_clean(run: Run, tool: Any) -> None:
    """T95, H3, C-02, A1: the history can be sent again as it is."""
    signal, gate = AbortSignal(), Gate()
    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(calls(t(1), t(2))), tools=[tool("a", lambda *args: gate.block())],
        signal=signal, abort_grace=0.0,
    )  # fmt: skip
    gate.wait_entered()
    signal.abort()
    history = outcome.get().messages
    gate.open()

    ran = run("again", llm=ScriptedLlm("fine"), history=history)

    assert ran.end.status == "completed"


def test_starts_and_ends_pair_up_wherever_a_run_is_aborted(run: Run, tool: Any) -> None:
    """T77, T98, T99, C-02: swept over every event of a run with tools, steering and follow-ups."""
    steering = [[], [UserMessage((TextContent("steer"),))], [], [], [], []]
    follow_ups = [[UserMessage((TextContent("follow"),))], []]

    def script(at: int) -> Any:
        signal, left, count = AbortSignal(), iter(steering), iter(range(1000))
        later = iter(follow_ups)
        return run(
            "go",
            llm=ScriptedLlm(calls(t(1), t(2)), "one", "two"),
            tools=[tool("a", lambda i, a, s, on_update: on_update("half") or "ok")],
            signal=signal,
            emit=lambda event: signal.abort() if next(count) == at else None,
            get_steering_messages=lambda: next(left),
            get_follow_up_messages=lambda: next(later),
            before_tool_call=lambda *args: None,
        )

    whole = script(-1)
    assert whole.end.status == "completed"
    for at in range(len(whole.events)):
        ran = script(at)
        words = ran.trace.split()
        assert words.count("AS") == 1
        assert words[-1].startswith("AE")
        assert len(ran.of(MessageStart)) == len(ran.of(MessageEnd))
        assert sum(w == "TS" for w in words) == sum(w.startswith("TE") for w in words)
        assert sum(w.startswith("X+") for w in words) == sum(w.startswith("X.") for w in words)
        answered = [result.tool_call_id for result in ran.results]
        asked = [call.id for answer in ran.answers for call in answer.tool_calls]
        assert answered == asked
        again = run("again", llm=ScriptedLlm("fine"), history=ran.messages)
        assert again.end.status == "completed"
