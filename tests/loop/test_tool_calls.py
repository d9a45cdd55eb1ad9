"""One tool call: found, prepared, validated, asked about, run, looked at again."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import RunAborted
from yiemagent.events import Log, ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from yiemagent.loop.config import AfterToolCallResult, BeforeToolCallResult
from yiemagent.messages import ImageContent, TextContent, ToolCall, Usage
from yiemagent.testing import WAIT, Gate, ScriptedLlm, calls
from yiemagent.tools.decorator import tool as tool_from
from yiemagent.tools.tool import ToolContext, ToolResult

Run = Callable[..., Any]

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "label": {"type": "string"}},
    "required": ["n"],
}


def t(number: int, name: str = "a", **arguments: Any) -> ToolCall:
    return ToolCall(f"t{number}", name, arguments)


def never(*args: Any) -> Any:
    raise AssertionError("this must not be called")


# -- before it runs ----------------------------------------------------------------------


def test_an_unknown_tool_is_an_error_result_and_no_hook_is_called(run: Run, tool: Any) -> None:
    """PI-31, TC-6, TC-9, FR-004: with its start event."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1, "gone")), "done"), tools=[tool("a")],
        before_tool_call=never, after_tool_call=never,
    )  # fmt: skip

    result = ran.results[0]
    assert result.content[0] == TextContent("Tool gone not found")
    assert "a" in result.text
    assert result.details["error_type"] == "unknown_tool"
    assert result.details["tool_name"] == "gone"
    assert "X+t1 X.t1! M+r1" in ran.trace


def test_without_any_tool_the_model_reads_that_there_are_none(run: Run) -> None:
    """PI-31."""
    ran = run("go", llm=ScriptedLlm(calls(t(1, "gone")), "done"))

    assert "There are no tools" in ran.results[0].text


def test_invalid_arguments_are_an_error_result_and_no_hook_is_called(run: Run, tool: Any) -> None:
    """PI-33, TC-11, TC-21, T143: every error is listed; the tool is not run."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1, n="forty", label=[])), "done"),
        tools=[tool("a", never, input_schema=SCHEMA)], before_tool_call=never, after_tool_call=never,
    )  # fmt: skip

    result = ran.results[0]
    assert result.details["error_type"] == "invalid_tool_arguments"
    assert len(result.details["errors"]) == 2
    assert all(error.split(":")[0] in result.text for error in result.details["errors"])


def test_arguments_that_did_not_parse_are_shown_raw_and_never_run(run: Run, tool: Any) -> None:
    """PI-34, A-19, C-34, C-51: cut when they are long."""
    broken = ToolCall("t1", "a", {}, arguments_error="not JSON", raw_arguments="{" + "x" * 5000)
    ran = run("go", llm=ScriptedLlm(calls(broken), "done"), tools=[tool("a", never)])

    result = ran.results[0]
    assert result.text.startswith('Invalid arguments for tool "a": not JSON\n\nReceived arguments:\n{xxx')
    assert result.text.endswith("... (cut)")
    assert len(result.text) < 1200
    assert result.details["error_type"] == "invalid_tool_arguments"


def test_prepare_arguments_that_raises_is_an_error_result(run: Run, tool: Any) -> None:
    """PI-37."""
    made = tool("a", never, prepare_arguments=lambda args: 1 / 0)
    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[made])

    assert ran.results[0].is_error
    assert ran.end.status == "completed"


@pytest.mark.parametrize("raised", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_even_a_base_exception_while_preparing_is_an_error_result(
    run: Run, tool: Any, raised: BaseException
) -> None:
    """PI-37, D-28."""

    def exits(args: Any) -> Any:
        raise raised

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", never, prepare_arguments=exits)])

    assert ran.results[0].details["error_type"] == "tool_exception"


def test_events_and_history_keep_the_raw_arguments(run: Run, tool: Any) -> None:
    """PI-35, T149, T150: the tool gets the coerced copy."""
    got: list[Any] = []
    raw = t(1, n="42", label="x")
    ran = run(
        "go", llm=ScriptedLlm(calls(raw), "done"),
        tools=[tool("a", lambda i, args, s, u: got.append(args), input_schema=SCHEMA)],
    )  # fmt: skip

    assert got == [{"n": 42, "label": "x"}]
    assert ran.of(ToolExecutionStart)[0].arguments == {"n": "42", "label": "x"}
    assert ran.answers[0].tool_calls[0].arguments == {"n": "42", "label": "x"}


def test_the_order_of_the_steps(run: Run, tool: Any) -> None:
    """Decision 11, PI-30: prepare, coerce and validate, validate_arguments, before hook, run, after hook."""
    order: list[str] = []

    def note(name: str, value: Any = None) -> Callable[..., Any]:
        def step(*args: Any) -> Any:
            order.append(f"{name} {args[0]}" if name in ("prepare", "validate") else name)
            return value

        return step

    made = tool(
        "a", note("run", "ok"), input_schema=SCHEMA, prepare_arguments=note("prepare"),
        validate_arguments=note("validate"),
    )  # fmt: skip
    run(
        "go", llm=ScriptedLlm(calls(t(1, n="1")), "done"), tools=[made],
        before_tool_call=note("before"), after_tool_call=note("after"),
    )  # fmt: skip

    assert order == ["prepare {'n': '1'}", "validate {'n': 1}", "before", "run", "after"]


# -- the before hook ---------------------------------------------------------------------


def test_the_before_hook_sees_what_will_run(run: Run, tool: Any) -> None:
    """PI-36, FR-005."""
    seen: list[Any] = []
    made = tool("a", input_schema=SCHEMA, annotations={"destructiveHint": True})
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1, n="7")), "done"), tools=[made],
        before_tool_call=lambda *args: seen.append(args),
    )  # fmt: skip

    ctx, signal, event_sink = seen[0]
    assert ctx.assistant_message is ran.answers[0]
    assert (ctx.tool_call.arguments, ctx.args) == ({"n": "7"}, {"n": 7})
    assert ctx.tool is made
    assert ctx.context.tools.get("a") is made
    assert isinstance(signal, AbortSignal)
    assert callable(event_sink)


def test_the_before_hook_may_edit_the_arguments_in_place(run: Run, tool: Any) -> None:
    """Decision 11, PI-35: the tool gets them as they are then; the history does not."""
    got: list[Any] = []

    def before(ctx: Any, signal: Any, event_sink: Any) -> None:
        ctx.args["n"] = "edited"

    ran = run(
        "go", llm=ScriptedLlm(calls(t(1, n=1)), "done"), before_tool_call=before,
        tools=[tool("a", lambda i, args, s, u: got.append(args), input_schema=SCHEMA)],
    )  # fmt: skip

    assert got == [{"n": "edited"}]
    assert ran.answers[0].tool_calls[0].arguments == {"n": 1}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (BeforeToolCallResult(True, "User must approve"), "Tool execution was blocked: User must approve"),
        (BeforeToolCallResult(True), "Tool execution was blocked"),
        (BeforeToolCallResult(True, ""), "Tool execution was blocked"),
    ],
)
def test_a_blocked_call_does_not_run(run: Run, tool: Any, answer: Any, text: str) -> None:
    """PI-36, WT-032, FR-005, SP-021: the after hook is not called either."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", never)],
        before_tool_call=lambda *args: answer, after_tool_call=never,
    )  # fmt: skip

    assert ran.results[0].text == text
    assert ran.results[0].details["error_type"] == "blocked"
    assert ran.messages[-1].text == "done"


def test_block_false_lets_the_call_run(run: Run, tool: Any) -> None:
    """PI-36."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a")],
        before_tool_call=lambda *args: BeforeToolCallResult(False, "N/A"),
    )  # fmt: skip

    assert ran.results[0].text == "a done"


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(1), GeneratorExit()])
def test_a_before_hook_that_raises_blocks_the_call(run: Run, tool: Any, raised: BaseException) -> None:
    """Decision 12: it fails closed."""

    def before(*args: Any) -> Any:
        raise raised

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", never)], before_tool_call=before)

    assert ran.results[0].text.startswith("Tool execution was blocked: before_tool_call raised")
    assert ran.results[0].details["error_type"] == "blocked"


def test_a_before_hook_that_returns_junk_blocks_the_call(run: Run, tool: Any) -> None:
    """Decision 12: ``return True`` was meant to block, or to allow; who knows."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", never)],
        before_tool_call=lambda *args: True,
    )  # fmt: skip

    assert ran.results[0].details["error_type"] == "blocked"


# -- running -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ValueError("no such wine"), "no such wine"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)
def test_what_a_tool_raises_is_its_error_result(
    run: Run, tool: Any, raised: BaseException, text: str
) -> None:
    """PI-39, TC-23, TC-24, T137, D-28, WT-031, NFR-202."""

    def body(*args: Any) -> Any:
        raise raised

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", body)])

    result = ran.results[0]
    assert (result.text, result.is_error) == (text, True)
    assert result.details == {"error_type": "tool_exception", "exception": type(raised).__name__}
    assert ran.messages[-1].text == "done"


def test_an_exception_that_cannot_be_shown_is_still_a_result(run: Run, tool: Any) -> None:
    """D-29."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even that")

    def body(*args: Any) -> Any:
        raise Mute

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", body)])

    assert ran.results[0].text == "Mute"


def test_a_result_that_cannot_be_shown_is_an_error_result(run: Run, tool: Any) -> None:
    """D-29: the conversion is inside the guard."""

    class Raises:
        def __str__(self) -> str:
            raise RuntimeError("broken __str__")

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", lambda *args: Raises())])

    assert ran.results[0].is_error or "Raises" in ran.results[0].text
    assert ran.end.status == "completed"


def test_updates_come_before_the_end_and_carry_the_raw_arguments(run: Run, tool: Any) -> None:
    """PI-40, TC-31, T151: a text or a partial result."""

    def body(tool_call_id: str, args: Any, signal: Any, on_update: Any) -> str:
        on_update("one")
        on_update(ToolResult("two"))  # type: ignore[arg-type]
        on_update("three")
        return "ok"

    ran = run("go", llm=ScriptedLlm(calls(t(1, n="1")), "done"), tools=[tool("a", body, input_schema=SCHEMA)])

    assert "X+t1 X~t1 X~t1 X~t1 X.t1" in ran.trace
    updates = ran.of(ToolExecutionUpdate)
    assert [update.partial_result.text for update in updates] == ["one", "two", "three"]
    assert updates[0].arguments == {"n": "1"}


def test_updates_after_the_call_is_over_are_ignored(run: Run, tool: Any) -> None:
    """PI-40, T92."""
    kept: list[Any] = []

    def body(tool_call_id: str, args: Any, signal: Any, on_update: Any) -> str:
        kept.append(on_update)
        return "ok"

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", body)])
    kept[0]("late")

    assert ran.of(ToolExecutionUpdate) == []


def test_a_tool_says_things_through_its_event_sink(run: Run) -> None:
    """Decision 25: in order with everything else, on the loop's thread."""

    @tool_from
    def speaks(context: ToolContext) -> str:
        """Speak."""
        context.event_sink("working", publish=True)
        context.update("half")
        return context.tool_call_id

    threads: list[threading.Thread] = []
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1, "speaks")), "done"), tools=[speaks],
        emit=lambda event: threads.append(threading.current_thread()) if isinstance(event, Log) else None,
    )  # fmt: skip

    assert "X+t1 L:working X~t1 X.t1" in ran.trace
    assert ran.of(Log) == [Log("working", True)]
    assert threads == [threading.current_thread()]
    assert ran.results[0].text == "t1"


def test_hooks_say_things_through_their_event_sink(run: Run, tool: Any) -> None:
    """Decision 25; and nothing comes after the end of the run."""
    kept: list[Any] = []

    def hook(ctx: Any, signal: Any, event_sink: Any) -> None:
        event_sink("asked")
        kept.append(event_sink)

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a")], before_tool_call=hook)
    kept[0]("late")

    assert ran.of(Log) == [Log("asked")]
    assert ran.events[-1].type == "agent_end"


def test_the_callers_context_variables_reach_hooks_tools_and_model(run: Run, tool: Any) -> None:
    """D-14: each call has a copy of its own."""
    request_id = contextvars.ContextVar("request_id", default="none")
    seen: list[str] = []

    def body(*args: Any) -> str:
        seen.append(request_id.get())
        request_id.set("changed in a tool")
        return "ok"

    class Noting(ScriptedLlm):
        def stream(self, context: Any, options: Any) -> Any:
            seen.append(request_id.get())
            return super().stream(context, options)

    request_id.set("r1")
    run(
        "go", llm=Noting(calls(t(1), t(2)), "done"), tools=[tool("a", body)], tool_execution="parallel",
        before_tool_call=lambda *args: seen.append(request_id.get()),
    )  # fmt: skip

    assert seen == ["r1"] * 6


def test_around_each_call_on_the_tools_own_thread(run: Run, tool: Any) -> None:
    """D-15, D-33: where Django's old connections are closed."""
    order: list[tuple[str, int]] = []

    @contextmanager
    def around(context: ToolContext) -> Iterator[None]:
        order.append((f"enter {context.tool_name}", threading.get_ident()))
        yield
        order.append(("leave", threading.get_ident()))

    body = lambda *args: order.append(("run", threading.get_ident()))  # noqa: E731
    run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", body)], around_tool_call=around)

    assert [name for name, _ in order] == ["enter a", "run", "leave"]
    assert len({thread for _, thread in order}) == 1
    assert order[0][1] != threading.get_ident()


def test_a_context_manager_around_that_fails_is_the_calls_error(run: Run, tool: Any) -> None:
    """Decision 23."""

    @contextmanager
    def around(context: ToolContext) -> Iterator[None]:
        raise OSError("no connection")
        yield

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", never)], around_tool_call=around)

    assert ran.results[0].text == "no connection"


def test_a_context_manager_around_that_swallows_the_error_leaves_an_error_result(run: Run, tool: Any) -> None:
    """TC-4: exactly one result, whatever happens."""

    @contextmanager
    def around(context: ToolContext) -> Iterator[None]:
        try:
            yield
        except ZeroDivisionError:
            return

    ran = run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", lambda *args: 1 / 0)],
        around_tool_call=around,
    )  # fmt: skip

    assert ran.results[0].is_error
    assert "swallowed" in ran.results[0].text


def test_a_tool_that_raises_run_aborted_is_an_aborted_call(run: Run, tool: Any) -> None:
    """AS-5: signal.raise_if_aborted() in a tool."""

    def body(*args: Any) -> Any:
        raise RunAborted("Operation aborted")

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", body)])

    assert ran.results[0].text == "Operation aborted"
    assert ran.results[0].details["error_type"] == "aborted"


# -- time --------------------------------------------------------------------------------


def test_a_tool_that_takes_too_long_is_left_and_the_run_goes_on(run: Run, tool: Any) -> None:
    """TC-27, T135, T136, F-02, F-03: its siblings are not touched, its signal is aborted."""
    gate, seen = Gate(), []

    def slow(tool_call_id: str, args: Any, signal: AbortSignal, on_update: Any) -> str:
        gate.block()
        seen.append(signal.reason)
        on_update("late")
        return "late"

    tools = [tool("slow", slow, timeout=0.01), tool("quick")]
    ran = run("go", llm=ScriptedLlm(calls(t(1, "slow"), t(2, "quick")), "done"), tools=tools)
    gate.open()

    assert ran.results[0].text == 'Tool "slow" timed out after 0.01 s; it may still be running'
    assert ran.results[0].details == {"error_type": "tool_timeout", "timeout": 0.01}
    assert ran.results[1].text == "quick done"
    assert ran.messages[-1].text == "done"
    while not seen:
        threading.Event().wait(0.001)
    assert seen == ["tool_timeout"]
    assert ran.of(ToolExecutionUpdate) == []


def test_the_tools_own_timeout_goes_before_the_general_one(run: Run, tool: Any) -> None:
    """TC-3: and it is counted from the call's start."""
    gate = Gate()
    slow = lambda *args: gate.block()  # noqa: E731
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1, "slow")), "done"), tools=[tool("slow", slow, timeout=0.01)],
        tool_timeout=60,
    )  # fmt: skip
    gate.open()

    assert ran.results[0].details["timeout"] == 0.01


def test_a_call_side_by_side_that_takes_too_long_leaves_the_others_alone(run: Run, tool: Any) -> None:
    """T136."""
    gate = Gate()
    tools = [tool("slow", lambda *args: gate.block(), timeout=0.01), tool("quick")]
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1, "slow"), t(2, "quick")), "done"), tools=tools,
        tool_execution="parallel",
    )  # fmt: skip
    gate.open()

    assert [result.is_error for result in ran.results] == [True, False]


def test_the_thread_of_calls_in_turn_is_replaced_after_a_timeout(run: Run, tool: Any) -> None:
    """Decision 19, F-03."""
    gate = Gate()
    threads: list[threading.Thread] = []

    def note(*args: Any) -> str:
        threads.append(threading.current_thread())
        return "ok"

    def slow(*args: Any) -> None:
        threads.append(threading.current_thread())
        gate.block()

    llm = ScriptedLlm(calls(t(1), t(2, "slow"), t(3)), calls(t(4)), "done")
    run("go", llm=llm, tools=[tool("a", note), tool("slow", slow, timeout=0.01)])
    gate.open()

    first, left, second, third = threads
    assert first is left
    assert second is third is not left


# -- the after hook ----------------------------------------------------------------------


def test_the_after_hook_sees_successes_and_exceptions(run: Run, tool: Any) -> None:
    """PI-43, FR-005."""
    seen: list[Any] = []
    tools = [tool("a"), tool("bad", lambda *args: 1 / 0)]
    run(
        "go", llm=ScriptedLlm(calls(t(1), t(2, "bad")), "done"), tools=tools,
        after_tool_call=lambda ctx, signal, sink: seen.append((ctx.tool.name, ctx.result.text, ctx.is_error)),
    )  # fmt: skip

    assert seen == [("a", "a done", False), ("bad", "division by zero", True)]


def test_the_after_hook_merges_field_by_field(run: Run, tool: Any) -> None:
    """Decision 13, PI-44: None keeps, a value replaces the whole field; an error can be cleared."""
    answers = {
        "t1": AfterToolCallResult(content=[TextContent("masked")]),
        "t2": AfterToolCallResult(is_error=False, details={"seen": 1}, usage=Usage(output_tokens=1)),
        "t3": AfterToolCallResult(is_error=True),
        "t4": None,
    }
    tools = [tool("a", lambda *args: ToolResult("x", {"kept": 1})), tool("bad", lambda *args: 1 / 0)]  # type: ignore[arg-type]
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1), t(2, "bad"), t(3), t(4)), "done"), tools=tools,
        after_tool_call=lambda ctx, signal, sink: answers[ctx.tool_call.id],
    )  # fmt: skip

    one, two, three, four = ran.results
    assert (one.text, one.details, one.is_error) == ("masked", {"kept": 1}, False)
    assert (two.text, two.details, two.is_error) == ("division by zero", {"seen": 1}, False)
    assert two.usage == Usage(output_tokens=1)
    assert (three.text, three.is_error) == ("x", True)
    assert (four.text, four.details) == ("x", {"kept": 1})


def test_the_after_hook_may_end_the_run(run: Run, tool: Any) -> None:
    """PI-44, PI-48."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a")],
        after_tool_call=lambda *args: AfterToolCallResult(terminate=True),
    )  # fmt: skip

    assert ran.trace.endswith("TE[r1] AE[u,a,r1]")


def test_a_tool_result_from_the_after_hook_replaces_everything(run: Run, tool: Any) -> None:
    """Decision 13, runbook 3.4."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"),
        tools=[tool("a", lambda *args: ToolResult("x", {"secret": 1}))],  # type: ignore[arg-type]
        after_tool_call=lambda *args: ToolResult("clean", is_error=True),  # type: ignore[arg-type]
    )  # fmt: skip

    assert (ran.results[0].text, ran.results[0].details, ran.results[0].is_error) == ("clean", None, True)


@pytest.mark.parametrize("raised", [ValueError("broke"), SystemExit(1), GeneratorExit()])
def test_an_after_hook_that_raises_is_that_calls_error(run: Run, tool: Any, raised: BaseException) -> None:
    """Decision 13, PI-45: the other calls go on, and terminate is lost."""

    def after(ctx: Any, *args: Any) -> Any:
        if ctx.tool_call.id == "t1":
            raise raised

    ends = tool("a", lambda *args: ToolResult("x", terminate=True))  # type: ignore[arg-type]
    ran = run("go", llm=ScriptedLlm(calls(t(1), t(2)), "done"), tools=[ends], after_tool_call=after)

    assert [result.is_error for result in ran.results] == [True, False]
    assert ran.results[0].details["error_type"] == "hook_exception"
    assert ran.messages[-1].text == "done"


def test_an_after_hook_that_returns_junk_is_an_error_result(run: Run, tool: Any) -> None:
    """Decision 13."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a")],
        after_tool_call=lambda *args: {"content": "x"},
    )  # fmt: skip

    assert "must return None, an AfterToolCallResult or a ToolResult, got dict" in ran.results[0].text


# -- the result --------------------------------------------------------------------------


def test_the_result_message_carries_everything(run: Run, tool: Any) -> None:
    """PI-46, TC-32, decision 30."""
    given = ToolResult(
        (TextContent("x"), ImageContent("aGk=")),
        {"n": 1},
        Usage(output_tokens=3),
        is_error=True,
        trust="untrusted",
        added_tool_names=("more",),
    )
    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", lambda *args: given)])

    result = ran.results[0]
    assert result.role == "tool_result"
    assert (result.tool_call_id, result.tool_name) == ("t1", "a")
    assert (result.content, result.details, result.usage) == (given.content, {"n": 1}, given.usage)
    assert (result.is_error, result.trust, result.added_tool_names) == (True, "untrusted", ("more",))
    assert ran.of(ToolExecutionEnd)[0].result is given


def test_an_error_a_tool_returns_is_an_error(run: Run, tool: Any) -> None:
    """PI-42, TC-22."""
    bad = tool("a", lambda *args: ToolResult("no", is_error=True))  # type: ignore[arg-type]
    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[bad])

    assert ran.results[0].is_error


@pytest.mark.parametrize("value", [None, "", "  ", []])
def test_nothing_is_never_an_empty_result(run: Run, tool: Any, value: Any) -> None:
    """PI-41, TC-30, T118, C-10."""
    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", lambda *args: value)])

    assert ran.results[0].text == "(no output)"


def test_a_huge_result_is_cut_for_the_model_and_kept_for_the_application(run: Run, tool: Any) -> None:
    """C-29: a central cap; decision 27: in code points."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", lambda *args: "ü" * 50)],
        max_tool_result_chars=10,
    )  # fmt: skip

    assert ran.results[0].text == "ü" * 10 + "\n[cut: the first 10 of 50 characters are shown]"
    assert ran.results[0].details == {"full_text": "ü" * 50}


def test_a_cut_result_keeps_its_images_and_details(run: Run, tool: Any) -> None:
    """C-29, C-31."""
    image = ImageContent("aGk=")
    given = ToolResult((TextContent("abcdef"), image, TextContent("ghi")), {"n": 1})
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", lambda *args: given)],
        max_tool_result_chars=4,
    )  # fmt: skip

    assert ran.results[0].content[:2] == (TextContent("abcd"), image)
    assert ran.results[0].details == {"n": 1, "full_text": "abcdefghi"}


def test_fifty_thousand_characters_pass_by_default(run: Run, tool: Any) -> None:
    """T118."""
    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", lambda *args: "x" * 50_000)])

    assert len(ran.results[0].text) == 50_000


def test_a_tool_that_waits_sees_a_live_signal(run: Run, tool: Any) -> None:
    """T34, SP-022."""
    seen: list[AbortSignal] = []
    run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"),
        tools=[tool("a", lambda i, a, signal, u: seen.append(signal))],
    )  # fmt: skip

    assert seen[0].aborted is False
    assert seen[0].wait(0) is False
    assert WAIT > 0


def test_a_tool_that_ends_itself_on_abort_is_told_as_one_that_had_started(run: Run, tool: Any) -> None:
    """F-11: ``raise_if_aborted`` in a tool; nothing of it goes on, so the text says no more."""

    def gives_up(*args: Any) -> Any:
        raise RunAborted("Operation aborted")

    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a", gives_up)])

    assert ran.results[0].text == "Operation aborted"
    assert ran.results[0].details == {"error_type": "aborted", "started": True}
