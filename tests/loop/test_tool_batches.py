"""The calls of one answer: in turn, side by side, one result each, in call order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.events import ToolExecutionEnd, ToolExecutionStart
from yiemagent.kept_thread import KeptThread
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.run import run_agent_loop
from yiemagent.messages import AssistantMessage, TextContent, ToolCall, UserMessage
from yiemagent.testing import WAIT, Gate, ScriptedLlm, calls, run_in_thread
from yiemagent.tools.pool import ToolThreads
from yiemagent.tools.tool import Tool

Run = Callable[..., Any]


def t(number: int, name: str = "a", **arguments: Any) -> ToolCall:
    return ToolCall(f"t{number}", name, arguments)


class Counted:
    """A tool body that knows how many of it run at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.order: list[str] = []

    def __call__(self, tool_call_id: str, args: Any, signal: AbortSignal, on_update: Any) -> str:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.order.append(tool_call_id)
        try:
            return f"{tool_call_id} done"
        finally:
            with self._lock:
                self._now -= 1


# -- in turn -----------------------------------------------------------------------------


def test_calls_run_in_turn_by_default(run: Run, tool: Any) -> None:
    """Decision 18, PI-23: each is prepared after the result of the one before."""
    counted = Counted()
    ran = run("go", llm=ScriptedLlm(calls(t(1), t(2), t(3)), "done"), tools=[tool("a", counted)])

    assert ran.trace == (
        "AS TS M+u M.u M+a M~ M.a "
        "X+t1 X.t1 M+r1 M.r1 X+t2 X.t2 M+r2 M.r2 X+t3 X.t3 M+r3 M.r3 TE[r1,r2,r3] "
        "TS M+a M~ M.a TE[] AE[u,a,r1,r2,r3,a]"
    )
    assert counted.most == 1
    assert counted.order == ["t1", "t2", "t3"]


def test_calls_in_turn_share_one_thread_that_is_not_the_loops(run: Run, tool: Any) -> None:
    """Decision 19, D-15: sqlite3 connections work across calls."""
    threads: list[threading.Thread] = []
    body = lambda *args: threads.append(threading.current_thread())  # noqa: E731
    run("go", llm=ScriptedLlm(calls(t(1), t(2)), calls(t(3)), "done"), tools=[tool("a", body)])

    assert len(set(threads)) == 1
    assert threads[0].name == "yiemagent-tool"
    assert threads[0] is not threading.current_thread()


def test_one_sequential_tool_makes_its_batch_sequential(run: Run, tool: Any) -> None:
    """Decision 18, PI-22: an unknown tool does not count."""
    counted = Counted()
    tools = [tool("a", counted), tool("alone", counted, execution_mode="sequential")]
    run(
        "go", llm=ScriptedLlm(calls(t(1), t(2, "alone"), t(3, "gone")), "done"),
        tools=tools, tool_execution="parallel",
    )  # fmt: skip

    assert counted.most == 1
    assert counted.order == ["t1", "t2"]


def test_results_are_in_the_history_only_after_the_batch(run: Run, tool: Any) -> None:
    """PI-27: no hook of a batch sees a result of it."""
    seen: list[int] = []
    run(
        "go",
        llm=ScriptedLlm(calls(t(1), t(2)), "done"),
        tools=[tool("a")],
        before_tool_call=lambda ctx, signal, sink: seen.append(len(ctx.context.messages)),
        after_tool_call=lambda ctx, signal, sink: seen.append(len(ctx.context.messages)),
    )

    assert seen == [2, 2, 2, 2]


# -- side by side ------------------------------------------------------------------------


def test_side_by_side_means_at_the_same_time(run: Run, tool: Any) -> None:
    """PI-25, T117, T134: ten calls inside at once; results in call order, each id once."""
    barrier = threading.Barrier(10)

    def body(tool_call_id: str, args: Any, signal: AbortSignal, on_update: Any) -> str:
        barrier.wait(WAIT)
        return tool_call_id

    ran = run(
        "go",
        llm=ScriptedLlm(calls(*(t(n) for n in range(1, 11))), "done"),
        tools=[tool("a", body)],
        tool_execution="parallel",
        max_tool_concurrency=None,
    )

    ids = [f"t{n}" for n in range(1, 11)]
    assert [result.tool_call_id for result in ran.results] == [r.text for r in ran.results] == ids
    assert sorted(event.tool_call_id for event in ran.of(ToolExecutionEnd)) == sorted(ids)


def test_ends_come_as_calls_complete_and_results_in_call_order(run: Run, tool: Any) -> None:
    """PI-24, PI-25, PI-26, TC-5, C-05, T134: slow t1, fast t2, unknown t3."""
    second_done = threading.Event()

    def body(tool_call_id: str, args: Any, signal: AbortSignal, on_update: Any) -> str:
        if tool_call_id == "t1":
            second_done.wait(WAIT)
        return tool_call_id

    def emit(event: Any) -> None:
        if isinstance(event, ToolExecutionEnd) and event.tool_call_id == "t2":
            second_done.set()

    ran = run(
        "go",
        llm=ScriptedLlm(calls(t(1), t(2), t(3, "gone")), "done"),
        tools=[tool("a", body)],
        tool_execution="parallel",
        emit=emit,
    )

    assert "X+t1 X+t2 X+t3 X.t3! X.t2 X.t1 M+r1 M.r1 M+r2 M.r2 M+r3 M.r3 TE[r1,r2,r3]" in ran.trace


def test_all_calls_are_prepared_before_any_runs(run: Run, tool: Any) -> None:
    """Decision 18, PI-24: hooks are asked in order, one at a time."""
    order: list[str] = []

    def before(ctx: Any, signal: Any, sink: Any) -> None:
        order.append(f"hook {ctx.tool_call.id}")

    def body(tool_call_id: str, *args: Any) -> str:
        order.append(f"run {tool_call_id}")
        return "ok"

    run(
        "go",
        llm=ScriptedLlm(calls(t(1), t(2), t(3)), "done"),
        tools=[tool("a", body)],
        tool_execution="parallel",
        before_tool_call=before,
    )

    assert order[:3] == ["hook t1", "hook t2", "hook t3"]
    assert sorted(order[3:]) == ["run t1", "run t2", "run t3"]


@pytest.mark.parametrize("most", [1, 2])
def test_at_most_so_many_run_at_once(run: Run, tool: Any, most: int) -> None:
    """TC-1, TC-2, T133: and a slot that is free is filled."""
    inside = threading.Barrier(most)
    counted = Counted()

    def body(*args: Any) -> str:
        inside.wait(WAIT)  # Passes only when so many are in here together.
        return counted(*args)

    counted_most = Counted()

    def outer(tool_call_id: str, args: Any, signal: Any, on_update: Any) -> str:
        with counted_most._lock:
            counted_most._now += 1
            counted_most.most = max(counted_most.most, counted_most._now)
        result = body(tool_call_id, args, signal, on_update)
        with counted_most._lock:
            counted_most._now -= 1
        return result

    ran = run(
        "go",
        llm=ScriptedLlm(calls(*(t(n) for n in range(1, 5))), "done"),
        tools=[tool("a", outer)],
        tool_execution="parallel",
        max_tool_concurrency=most,
    )

    assert counted_most.most == most
    assert [result.text for result in ran.results] == ["t1 done", "t2 done", "t3 done", "t4 done"]


@pytest.mark.parametrize("names", [("gone", "a"), ("a", "bad", "a"), ("gone", "gone", "a", "gone")])
def test_a_call_that_fails_before_it_starts_uses_no_slot(run: Run, tool: Any, names: Any) -> None:
    """H1, T152: nothing waits for ever."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    ran = run(
        "go",
        llm=ScriptedLlm(calls(*(t(n, name) for n, name in enumerate(names, 1))), "done"),
        tools=[tool("a"), tool("bad", input_schema=schema)],
        tool_execution="parallel",
        max_tool_concurrency=1,
    )

    assert [result.is_error for result in ran.results] == [name != "a" for name in names]


def test_threads_of_the_pool_are_used_again(run: Run, tool: Any) -> None:
    """Decision 18: at most so many threads, however many calls."""
    threads: set[int] = set()
    body = lambda *args: threads.add(threading.get_ident())  # noqa: E731
    run(
        "go",
        llm=ScriptedLlm(*(calls(t(1), t(2)) for _ in range(5)), "done"),
        tools=[tool("a", body)],
        tool_execution="parallel",
        max_tool_concurrency=2,
    )

    assert len(threads) <= 3  # Two for tools; the model's helper thread may lend a hand.


def test_a_mixed_batch_has_an_outcome_for_each_call(run: Run, tool: Any) -> None:
    """T140, T154, TC-4, D-28: raise, exit, odd return, good."""

    def exits(*args: Any) -> None:
        raise SystemExit(3)

    tools = [
        tool("good"),
        tool("raises", lambda *args: 1 / 0),
        tool("exits", exits),
        tool("odd", lambda *args: (x for x in "x")),
    ]
    ran = run(
        "go",
        llm=ScriptedLlm(calls(*(t(n, each.name) for n, each in enumerate(tools, 1))), "done"),
        tools=tools,
        tool_execution="parallel",
    )

    assert [result.is_error for result in ran.results] == [False, True, True, True]
    assert [result.details and result.details["error_type"] for result in ran.results] == [
        None, "tool_exception", "tool_exception", "unexpected_tool_result",
    ]  # fmt: skip
    assert ran.messages[-1].text == "done"


def test_three_tools_that_crash_in_a_row_leave_a_thread_that_works(run: Run, tool: Any) -> None:
    """T139, T22: the run goes on, and so does the sequential thread."""

    def exits(*args: Any) -> None:
        raise GeneratorExit

    llm = ScriptedLlm(*(calls(t(n)) for n in (1, 2, 3)), calls(t(4, "good")), "done")
    ran = run("go", llm=llm, tools=[tool("a", exits), tool("good")])

    assert [result.is_error for result in ran.results] == [True, True, True, False]
    assert ran.end.status == "completed"


# -- ids and names -----------------------------------------------------------------------


def test_a_repeated_id_gets_a_new_one_before_anything_runs(run: Run, tool: Any) -> None:
    """Decision 22, PI-28, H11, T153, A-26, C-33."""
    ran = run("go", llm=ScriptedLlm(calls(t(1, x=1), t(1, x=2)), "done"), tools=[tool("a")])

    first, second = ran.answers[0].tool_calls
    assert first.id == "t1"
    assert second.id != "t1"
    assert len(second.id) == 9
    assert second.id.isalnum()
    assert [result.tool_call_id for result in ran.results] == ["t1", second.id]
    assert "D:tool_call_id_replaced" in ran.trace


def test_the_same_call_twice_is_one_call(run: Run, tool: Any) -> None:
    """Decision 22: id, name and arguments all equal."""
    counted = Counted()
    ran = run("go", llm=ScriptedLlm(calls(t(1, x=1), t(1, x=1)), "done"), tools=[tool("a", counted)])

    assert counted.order == ["t1"]
    assert len(ran.results) == 1
    assert "D:tool_call_repeated" in ran.trace


def test_equal_calls_with_two_ids_are_two_calls(run: Run, tool: Any) -> None:
    """A-84."""
    counted = Counted()
    run("go", llm=ScriptedLlm(calls(t(1, x=1), t(2, x=1)), "done"), tools=[tool("a", counted)])

    assert counted.order == ["t1", "t2"]


def test_calls_without_an_id_get_one(run: Run, tool: Any) -> None:
    """A-24."""
    empty = [ToolCall("", "a", {"n": n}) for n in range(2)]
    ran = run("go", llm=ScriptedLlm(calls(*empty), "done"), tools=[tool("a")])

    assert len({call.id for call in ran.answers[0].tool_calls}) == 2
    assert "" not in {result.tool_call_id for result in ran.results}


@pytest.mark.parametrize("written", ["  read_file  ", "functions.read_file", "READ_FILE", "read file"])
def test_a_name_spelt_a_little_wrong_finds_its_tool(run: Run, tool: Any, written: str) -> None:
    """TC-8, T141, A-59, A-82: and the history holds the real name."""
    ran = run("go", llm=ScriptedLlm(calls(ToolCall("t1", written, {})), "done"), tools=[tool("read_file")])

    assert ran.results[0].text == "read_file done"
    assert ran.answers[0].tool_calls[0].name == ran.results[0].tool_name == "read_file"


# -- threads that cannot be had ----------------------------------------------------------


class NoThreads(ToolThreads):
    """The system has no room for another thread."""

    def sequential(self) -> KeptThread:
        return _Refusing("tool")

    def take(self) -> KeptThread:
        return _Refusing("tool")


class _Refusing(KeptThread):
    def start(self, work: Callable[[], object]) -> None:
        raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_thread_that_cannot_be_started_is_an_error_result(tool: Any, mode: Any) -> None:
    """TC-28, T137."""

    class InPlace(ScriptedLlm):
        abortable = True

    tools: list[Tool] = [tool("a")]
    messages = run_agent_loop(
        [UserMessage((TextContent("go"),))],
        AgentContext(tools=tools),  # type: ignore[arg-type]
        AgentLoopConfig(model=InPlace(calls(t(1), t(2)), "done"), tool_execution=mode),
        lambda event: None,
        threads=NoThreads(),
    )

    results = messages[2:4]
    assert [result.details["error_type"] for result in results] == ["tool_start_failed"] * 2  # type: ignore[union-attr]
    assert "can't start new thread" in results[0].text
    assert isinstance(messages[-1], AssistantMessage)
    assert messages[-1].text == "done"


# -- races -------------------------------------------------------------------------------


@pytest.mark.threads
def test_a_tool_that_ends_as_its_time_is_up_has_exactly_one_result(run: Run, tool: Any) -> None:
    """X3, T91: whichever comes first."""
    threads = ToolThreads()
    outcomes: set[bool] = set()
    for number in range(150):
        pause = 0.0005 + 0.00005 * (number % 20)
        body = lambda i, a, signal, u, pause=pause: f"{signal.wait(pause)}"  # noqa: E731
        ran = run(
            "go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", body)], tool_timeout=0.001,
        )  # fmt: skip

        assert len(ran.results) == len(ran.of(ToolExecutionEnd)) == len(ran.of(ToolExecutionStart)) == 1
        outcomes.add(ran.results[0].is_error)
        assert ran.end.status == "completed"
    threads.close()


@pytest.mark.threads
def test_a_tool_that_ends_as_the_run_is_aborted_has_exactly_one_result(run: Run, tool: Any) -> None:
    """X3, T79, T80: and the run ends once."""
    for number in range(100):
        signal, gate = AbortSignal(), Gate()

        def body(tool_call_id: str, args: Any, own: Any, u: Any, gate: Gate = gate) -> str:
            gate.block()
            return "finished"

        outcome = run_in_thread(
            run, "go", llm=ScriptedLlm(calls(t(1), t(2)), "done"), tools=[tool("a", body)], signal=signal,
            tool_execution="parallel", abort_grace=0.0005 * (number % 3),
        )  # fmt: skip
        gate.wait_entered()
        opener = run_in_thread(gate.open)
        signal.abort()
        opener.get()

        ran = outcome.get()
        assert [result.tool_call_id for result in ran.results] == ["t1", "t2"]
        assert ran.end.status in ("aborted", "completed")  # Both tools may have been the faster ones.
        assert len(ran.of(ToolExecutionStart)) == len(ran.of(ToolExecutionEnd)) == 2
