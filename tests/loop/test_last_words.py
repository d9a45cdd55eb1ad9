"""The moment in which a call is over: what was there counts, and what comes behind it does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent import ToolContext
from yiemagent import tool as tool_from
from yiemagent.abort import AbortSignal
from yiemagent.assistant_events import Done
from yiemagent.events import Log, ToolExecutionEnd, ToolExecutionUpdate
from yiemagent.kept_thread import Mailbox
from yiemagent.loop.tool_calls import timed_out_result
from yiemagent.messages import ToolCall
from yiemagent.testing import WAIT, Gate, ScriptedLlm, calls, run_in_thread

Run = Callable[..., Any]


def test_what_a_tool_says_as_it_is_left_and_afterwards_is_read_by_nobody(run: Run) -> None:
    """A8, T91: although the box is still read for the call beside it."""
    left, spoken = Gate(), threading.Event()

    @tool_from(timeout=0.01)
    def leaves(context: ToolContext) -> str:
        """Speak too late."""

        def speak() -> None:
            context.update("late")
            context.event_sink("late")

        context.signal.on_abort(speak)  # It runs as the call is left: the last mail before its end.
        left.block()
        speak()
        spoken.set()
        return "late"

    @tool_from
    def stays() -> str:
        """End behind the last word."""
        return f"stayed {spoken.wait(WAIT)}"

    def emit(event: Any) -> None:
        if isinstance(event, ToolExecutionEnd) and event.tool_name == "leaves":
            left.open()

    both = calls(ToolCall("t1", "leaves", {}), ToolCall("t2", "stays", {}))
    ran = run(
        "go", llm=ScriptedLlm(both, "done"), tools=[leaves, stays], emit=emit, tool_execution="parallel"
    )  # fmt: skip

    assert ran.results[1].text == "stayed True"
    assert (ran.of(ToolExecutionUpdate), ran.of(Log)) == ([], [])


def test_a_result_that_comes_as_the_time_is_found_to_be_up_is_too_late(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-10: the decision stands, and the call has one result."""
    running, posted, left = Gate(), threading.Event(), threading.Event()

    class Posting(Mailbox[Any]):
        def put(self, item: Any) -> None:
            super().put(item)
            posted.set()

    def timed_out(*args: Any) -> Any:
        running.open()  # Only now does it end: the loop has looked, and leaves it.
        assert posted.wait(WAIT)
        return timed_out_result(*args)

    @tool_from(timeout=0.01)
    def ends() -> str:
        """End a moment too late."""
        running.block()
        return "late"

    @tool_from
    def stays() -> str:
        """End behind it."""
        return f"stayed {left.wait(WAIT)}"

    monkeypatch.setattr("yiemagent.loop.tool_flight.Mailbox", Posting)
    monkeypatch.setattr("yiemagent.loop.tool_flight.timed_out_result", timed_out)
    both = calls(ToolCall("t1", "ends", {}), ToolCall("t2", "stays", {}))
    ran = run(
        "go", llm=ScriptedLlm(both, "done"), tools=[ends, stays], tool_execution="parallel",
        emit=lambda event: left.set() if isinstance(event, ToolExecutionEnd) else None,
    )  # fmt: skip

    assert [result.is_error for result in ran.results] == [True, False]
    assert ran.end.status == "completed"


def test_a_result_whose_mail_is_on_the_way_as_the_grace_passes_is_taken(
    run: Run, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-10: it had ended, and the loop knows."""
    signal, posting, looked = AbortSignal(), Gate(), threading.Semaphore(0)

    class Slow(Mailbox[Any]):
        """The tool's outcome is known before its mail is there."""

        def put(self, item: Any) -> None:
            posting.block()
            super().put(item)

        def take(self, deadline: float | None = None) -> Any:
            looked.release()
            return super().take(deadline)

    monkeypatch.setattr("yiemagent.loop.tool_flight.Mailbox", Slow)
    llm = ScriptedLlm(calls(ToolCall("t1", "a", {})))
    outcome = run_in_thread(run, "go", llm=llm, tools=[tool("a")], signal=signal, abort_grace=0.0)
    posting.wait_entered()
    assert looked.acquire(timeout=WAIT)
    signal.abort()
    for _ in range(2):  # It was woken, the grace is over, and it looks again instead of leaving.
        assert looked.acquire(timeout=WAIT)
    posting.open()

    assert outcome.get().results[0].text == "a done"


def test_a_result_is_there_before_its_mail(run: Run, tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-10: the loop may read it at once."""
    posted = Gate()

    class Posting(Mailbox[Any]):
        def put(self, item: Any) -> None:
            super().put(item)
            posted.block()

    monkeypatch.setattr("yiemagent.loop.tool_flight.Mailbox", Posting)
    llm = ScriptedLlm(calls(ToolCall("t1", "a", {})), "done")
    ran = run_in_thread(run, "go", llm=llm, tools=[tool("a")]).get()
    posted.open()

    assert (ran.results[0].text, ran.end.status) == ("a done", "completed")


def test_a_result_whose_mail_is_lost_to_ctrl_c_is_taken(
    run: Run, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-08, F-10: in the loop on the caller's own thread it may come as the mail is in its hands."""
    events: list[Any] = []

    class Interrupted(Mailbox[Any]):
        def take(self, deadline: float | None = None) -> Any:
            taken = super().take(deadline)
            if taken is not None:
                raise KeyboardInterrupt
            return taken

    monkeypatch.setattr("yiemagent.loop.tool_flight.Mailbox", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(
            "go", llm=ScriptedLlm(calls(ToolCall("t1", "a", {}))), tools=[tool("a")], emit=events.append,
            abort_grace=60.0,
        )  # fmt: skip

    assert (events[-1].status, events[-1].messages[-1].text) == ("aborted", "a done")


def test_the_answer_that_an_abortable_model_had_ready_as_the_abort_came_is_kept(run: Run) -> None:
    """F-10, decision 10: pieces that are there are taken before the abort is looked at."""
    signal = AbortSignal()

    class Abortable(ScriptedLlm):
        abortable = True

        def stream(self, context: Any, options: Any) -> Any:
            for event in super().stream(context, options):
                if isinstance(event, Done):
                    signal.abort()
                yield event

    ran = run("go", llm=Abortable("all of it"), signal=signal)

    assert (ran.messages[-1].text, ran.messages[-1].stop_reason) == ("all of it", "stop")
