"""Turns: what comes when, what hooks see, what is polled, and when a run stops."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, HookFailed, InvalidTranscript, LlmError
from yiemagent.events import AgentEnd, TurnEnd
from yiemagent.loop.config import AgentContext, NextTurn, PrepareNextTurnContext
from yiemagent.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from yiemagent.testing import ScriptedLlm, calls, fail, say
from yiemagent.tools.registry import ToolRegistry
from yiemagent.tools.tool import ToolResult

Run = Callable[..., Any]
User = Callable[[str], UserMessage]


def t(number: int, name: str = "a", **arguments: Any) -> ToolCall:
    """Call t1, t2, ... as the traces name them."""
    return ToolCall(f"t{number}", name, arguments)


def queue(*batches: Sequence[Message]) -> Callable[[], Sequence[Message]]:
    """A getter that gives one batch a poll, then nothing."""
    left = [list(batch) for batch in batches]
    return lambda: left.pop(0) if left else []


# -- one turn ----------------------------------------------------------------------------


def test_a_tool_turn_and_the_answer_after_it(run: Run, tool: Any) -> None:
    """PI-11, LP-6, T101, T102, WT-012."""
    llm = ScriptedLlm(calls(t(1)), "done")
    ran = run("go", llm=llm, tools=[tool("a")])

    assert ran.trace == (
        "AS TS M+u M.u M+a M~ M.a X+t1 X.t1 M+r1 M.r1 TE[r1] TS M+a M~ M.a TE[] AE[u,a,r1,a]"
    )
    assert [message.role for message in llm.requests[1].messages] == ["user", "assistant", "tool_result"]


def test_calls_decide_and_not_the_stop_reason(run: Run, tool: Any) -> None:
    """Decision 16, PI-19, A-04."""
    ran = run("go", llm=ScriptedLlm(calls(t(1), stop_reason="stop"), "done"), tools=[tool("a")])

    assert ran.results[0].text == "a done"


def test_a_cut_off_text_ends_like_any_other(run: Run, user: User) -> None:
    """PI-20: follow-ups still run."""
    ran = run(
        "go", llm=ScriptedLlm(say("long", stop_reason="length"), "more"),
        get_follow_up_messages=queue([user("and?")]),
    )  # fmt: skip

    assert ran.trace == "AS TS M+u M.u M+a M~ M.a TE[] TS M+u M.u M+a M~ M.a TE[] AE[u,a,u,a]"


def test_calls_of_a_cut_off_answer_are_failed_and_not_run(run: Run, tool: Any) -> None:
    """Decision 15, PI-21, T119, A-66: no hook is called, and the model is asked again."""
    asked: list[Any] = []
    ran = run(
        "go",
        llm=ScriptedLlm(calls(t(1), t(2, "gone"), stop_reason="length"), "done"),
        tools=[tool("a", lambda *a: asked.append(a))],
        before_tool_call=lambda *a: asked.append(a),
    )

    assert ran.trace == (
        "AS TS M+u M.u M+a M~ M.a X+t1 X.t1! M+r1 M.r1 X+t2 X.t2! M+r2 M.r2 TE[r1,r2] "
        "TS M+a M~ M.a TE[] AE[u,a,r1,r2,a]"
    )
    assert ran.results[0].text == (
        'Tool call "a" was not executed: the response hit the output token limit, so its arguments may be '
        "truncated. Re-issue the tool call with complete arguments."
    )
    assert ran.results[0].details == {"error_type": "truncated"}
    assert asked == []


def test_three_cut_off_turns_in_a_row_end_the_run(run: Run, tool: Any) -> None:
    """Decision 15."""
    ran = run(
        "go", llm=ScriptedLlm(*[calls(t(n), stop_reason="length") for n in (1, 2, 3)]), tools=[tool("a")]
    )

    assert ran.end.status == "error"
    assert isinstance(ran.end.error, LlmError)
    assert ran.end.error.kind == "truncated"
    assert len(ran.results) == 3


def test_cut_off_turns_that_are_not_in_a_row_do_not(run: Run, tool: Any, user: User) -> None:
    """Decision 15: a good tool turn, or a text, starts the count again."""
    bad = [calls(t(n), stop_reason="length") for n in range(1, 5)]
    llm = ScriptedLlm(bad[0], bad[1], calls(t(9)), bad[2], "text", bad[3], "done")
    ran = run("go", llm=llm, tools=[tool("a")], get_follow_up_messages=queue([user("more")]))

    assert ran.end.status == "completed"


def test_calls_of_a_refused_answer_are_not_run(run: Run, tool: Any) -> None:
    """Decision 16: refusal is excepted."""
    ran = run("go", llm=ScriptedLlm(calls(t(1), stop_reason="refusal")), tools=[tool("a")])

    assert ran.results[0].details == {"error_type": "refused"}
    assert ran.end.status == "completed"


def test_a_failed_answer_ends_the_run_and_polls_nothing(run: Run, user: User) -> None:
    """PI-18, PI-60, LP-9, T110: neither queue nor hook is asked."""
    polled: list[str] = []

    def poll(name: str) -> Callable[..., Any]:
        return lambda *args: polled.append(name)

    ran = run(
        "go",
        llm=ScriptedLlm(fail(LlmError("no"))),
        get_steering_messages=poll("steering"),
        get_follow_up_messages=poll("follow-ups"),
        prepare_next_turn=poll("prepare"),
        should_stop_after_turn=poll("stop"),
    )

    assert ran.trace == "AS TS M+u M.u M+a M~ M.a(error) TE[] AE[u,a]:error"
    assert polled == ["steering"]  # Before the first turn.


# -- the order of hooks ------------------------------------------------------------------


def test_hooks_are_called_in_order_around_every_call(run: Run, tool: Any) -> None:
    """PI-12, PI-56, PI-59, ST-2: prepare_next_turn only when a turn follows."""
    order: list[str] = []

    def note(name: str, value: Any = None) -> Callable[..., Any]:
        def hook(*args: Any) -> Any:
            order.append(name)
            return args[0] if value is Ellipsis else value

        return hook

    class Noting(ScriptedLlm):
        def stream(self, context: Any, options: Any) -> Any:
            order.append("model")
            return super().stream(context, options)

    run(
        "go",
        llm=Noting(calls(t(1)), "done"),
        tools=[tool("a")],
        prepare_context=note("prepare_context"),
        transform_context=note("transform", ...),
        convert_to_llm=note("convert", ...),
        get_api_key=note("key"),
        get_steering_messages=note("poll steering"),
        get_follow_up_messages=note("poll follow-ups"),
        prepare_next_turn=note("prepare next"),
        should_stop_after_turn=note("should stop", False),
        refresh_tools=note("refresh tools"),
        emit=lambda event: order.append(event.type) if isinstance(event, (TurnEnd, AgentEnd)) else None,
    )

    call_hooks = ["prepare_context", "transform", "convert", "key", "model"]
    assert order == [
        *("refresh tools", "poll steering", *call_hooks, "turn_end", "should stop", "poll steering"),
        *("refresh tools", "prepare next", "poll steering", *call_hooks, "turn_end", "should stop"),
        *("poll steering", "poll follow-ups", "agent_end"),
    ]


def test_a_transformed_context_is_used_for_that_call_only(run: Run, tool: Any) -> None:
    """PI-13, T113: the stored history is not changed."""
    seen: list[int] = []

    def transform(messages: list[Message], signal: Any) -> list[Message]:
        seen.append(len(messages))
        return messages[-1:] if len(messages) == 1 else messages[-2:]

    llm = ScriptedLlm(calls(t(1)), "done")
    ran = run("go", llm=llm, tools=[tool("a")], transform_context=transform)

    assert seen == [1, 3]
    assert [len(request.messages) for request in llm.requests] == [1, 2]
    assert len(ran.messages) == 4


def test_a_transform_that_changes_its_list_in_place_changes_nothing_else(run: Run, tool: Any) -> None:
    """C-37: the loop owns its list."""

    def transform(messages: list[Message], signal: Any) -> list[Message]:
        messages.append(UserMessage((TextContent("only for this call"),)))
        return messages

    llm = ScriptedLlm(calls(t(1)), "done")
    ran = run("go", llm=llm, tools=[tool("a")], transform_context=transform)

    assert [message.role for message in ran.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert len(llm.requests[1].messages) == 4


def test_convert_sees_what_transform_made(run: Run, user: User) -> None:
    """PI-13: messages of ours become messages a model knows."""
    note = CustomMessage("note", "the user is in Rome")

    def convert(messages: Sequence[Message]) -> list[Message]:
        return [user(m.content) if isinstance(m, CustomMessage) else m for m in messages]  # type: ignore[misc]

    llm = ScriptedLlm("hi")
    run("go", llm=llm, transform_context=lambda m, s: [note, *m], convert_to_llm=convert)
    default = ScriptedLlm("hi")
    run("go", llm=default, history=[note])

    assert [message.text for message in llm.requests[0].messages] == ["the user is in Rome", "go"]
    assert [message.text for message in default.requests[0].messages] == ["go"]


def test_converting_to_nothing_still_asks(run: Run) -> None:
    """T109."""
    llm = ScriptedLlm("hi")
    run("go", llm=llm, convert_to_llm=lambda messages: [])

    assert llm.requests[0].messages == ()


def test_prepare_context_may_replace_everything_for_one_call(run: Run, tool: Any, user: User) -> None:
    """FR-003, runbook 2.6: prompt, messages and tools."""

    def prepare(context: AgentContext, event_sink: Any) -> AgentContext:
        event_sink("preparing")
        return AgentContext(context.system_prompt + "!", [*context.messages, user("now")], [tool("other")])

    llm = ScriptedLlm("hi")
    ran = run("go", llm=llm, tools=[tool("a")], system_prompt="base", prepare_context=prepare)

    request = llm.requests[0]
    assert request.system_prompt == "base!"
    assert [message.text for message in request.messages] == ["go", "now"]
    assert [spec.name for spec in request.tools] == ["other"]
    assert "L:preparing" in ran.trace
    assert len(ran.messages) == 2


def test_only_tools_that_were_offered_are_run(run: Run, tool: Any) -> None:
    """LP-17, T114, T115: one set of tools for the request and for what comes of it."""

    def prepare(context: AgentContext, event_sink: Any) -> AgentContext:
        return AgentContext("", context.messages, [tool("shown")])

    ran = run(
        "go",
        llm=ScriptedLlm(calls(t(1, "hidden"), t(2, "shown")), "done"),
        tools=[tool("hidden")],
        prepare_context=prepare,
    )

    assert ran.results[0].details["error_type"] == "unknown_tool"
    assert ran.results[1].text == "shown done"


# -- hooks that fail ---------------------------------------------------------------------

REQUEST_HOOKS = ["prepare_context", "transform_context", "convert_to_llm", "get_api_key"]


@pytest.mark.parametrize("name", REQUEST_HOOKS)
@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(2), GeneratorExit()])
def test_a_request_hook_that_raises_is_a_failed_answer(run: Run, name: str, raised: BaseException) -> None:
    """Decision 23, PI-72, LP-10, T106: the run's error names the hook; the model is not asked."""

    def hook(*args: Any) -> Any:
        raise raised

    llm = ScriptedLlm()
    ran = run("go", llm=llm, **{name: hook})

    assert ran.trace == "AS TS M+u M.u M+a M.a(error) TE[] AE[u,a]:error"
    assert isinstance(ran.end.error, HookFailed)
    assert ran.end.error.hook == name
    assert ran.end.error.__cause__ is raised
    assert name in str(ran.end.error)
    assert llm.requests == []


@pytest.mark.parametrize("name", REQUEST_HOOKS)
def test_an_error_of_ours_from_a_hook_is_passed_on_as_it_is(run: Run, name: str) -> None:
    """LP-10, ST-3, T106."""
    error = ConfigurationError("the index is gone")

    def hook(*args: Any) -> Any:
        raise error

    assert run("go", llm=ScriptedLlm(), **{name: hook}).end.error is error


@pytest.mark.parametrize("name", ["transform_context", "convert_to_llm", "prepare_context"])
@pytest.mark.parametrize("junk", [None, 42])
def test_a_request_hook_that_returns_junk_is_named(run: Run, name: str, junk: Any) -> None:
    """ST-3: None keeps the context where it may, and is an error where messages are needed."""
    ran = run("go", llm=ScriptedLlm("hi"), **{name: lambda *args: junk})

    if name == "prepare_context" and junk is None:
        assert ran.end.status == "completed"
    else:
        assert isinstance(ran.end.error, HookFailed)
        assert ran.end.error.hook == name
        assert type(junk).__name__ in str(ran.end.error)


def test_a_transform_may_give_any_iterable(run: Run) -> None:
    """ST-3."""
    llm = ScriptedLlm("hi")
    run("go", llm=llm, transform_context=lambda messages, signal: iter(messages))

    assert len(llm.requests[0].messages) == 1


BETWEEN = ["should_stop_after_turn", "prepare_next_turn", "get_steering_messages", "refresh_tools"]


@pytest.mark.parametrize("name", BETWEEN)
def test_a_hook_between_turns_that_raises_ends_the_run_in_a_whole_turn(
    run: Run, tool: Any, name: str
) -> None:
    """PI-72, PI-73: every start has its end, and nothing that was produced is lost."""
    times = iter([None])

    def hook(*args: Any) -> Any:
        if name in ("get_steering_messages", "refresh_tools") and next(times, "again") is None:
            return None  # The first time is before the first turn.
        raise ValueError("no")

    ran = run("go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a")], **{name: hook})

    assert ran.trace.endswith("TE[r1] TS M+a M.a(error) TE[] AE[u,a,r1,a]:error")
    assert isinstance(ran.end.error, HookFailed)
    assert ran.end.error.hook == name


@pytest.mark.parametrize("name", ["get_steering_messages", "refresh_tools"])
def test_a_hook_before_the_first_turn_that_raises_ends_it(run: Run, name: str) -> None:
    """PI-72, PI-73."""

    def hook() -> Any:
        raise SystemExit(1)

    ran = run("go", llm=ScriptedLlm(), **{name: hook})

    assert ran.trace == "AS TS M+u M.u M+a M.a(error) TE[] AE[u,a]:error"


def test_a_follow_up_poll_that_raises_ends_the_run(run: Run) -> None:
    """PI-72."""
    ran = run("go", llm=ScriptedLlm("hi"), get_follow_up_messages=lambda: 1 / 0)

    assert isinstance(ran.end.error, HookFailed)
    assert ran.trace.endswith("TE[] TS M+a M.a(error) TE[] AE[u,a,a]:error")


def test_prepare_next_turn_that_returns_junk_is_named(run: Run, tool: Any) -> None:
    """PI-57."""
    ran = run("go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a")], prepare_next_turn=lambda ctx: "junk")

    assert "prepare_next_turn" in str(ran.end.error)
    assert "str" in str(ran.end.error)


def test_messages_that_were_polled_go_back_when_a_hook_then_fails(run: Run, user: User) -> None:
    """S8, F-15: polled and not delivered is not lost."""
    back: list[Any] = []
    ran = run(
        "go",
        llm=ScriptedLlm("hi"),
        get_follow_up_messages=queue([user("and?")]),
        prepare_next_turn=lambda ctx: 1 / 0,
        put_back=back.extend,
    )

    assert [message.text for message in back] == ["and?"]
    assert ran.end.status == "error"


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(1)])
def test_a_listener_that_always_raises_changes_nothing(
    run: Run, raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Decision 23, D-22, PI-74, T37: it is logged once."""

    def emit(event: Any) -> None:
        raise raised

    ran = run("go", llm=ScriptedLlm("hi"), emit=emit)

    assert ran.trace == "AS TS M+u M.u M+a M~ M.a TE[] AE[u,a]"
    assert len([r for r in caplog.records if r.name == "yiemagent.loop.run_state"]) == 1


def test_a_defect_in_between_still_ends_the_run_in_order(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """LP-2, D-04: what nobody foresaw is the run's error, and is logged."""

    class NoInfo(ScriptedLlm):
        @property
        def info(self) -> Any:
            raise RuntimeError("no such model")

        @info.setter
        def info(self, value: Any) -> None: ...

    ran = run("go", llm=NoInfo(), get_api_key=lambda provider: "key")

    assert ran.trace == "AS TS M+u M.u M+a M.a(error) TE[] AE[u,a]:error"
    assert str(ran.end.error) == "no such model"
    assert [record.name for record in caplog.records] == ["yiemagent.loop.run"]


def test_a_log_handler_that_raises_changes_nothing(run: Run) -> None:
    """Decision 23: not even when there is something to log."""

    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("the disk is full")

    handler, log = Raising(), logging.getLogger("yiemagent")
    log.addHandler(handler)
    try:
        ran = run("go", llm=ScriptedLlm("hi"), emit=lambda event: 1 / 0)
    finally:
        log.removeHandler(handler)

    assert ran.end.status == "completed"


# -- should_stop_after_turn and prepare_next_turn ----------------------------------------


def test_should_stop_ends_the_run_without_polling(run: Run, tool: Any) -> None:
    """PI-58: even with results that wait for an answer."""
    polled: list[str] = []
    ran = run(
        "go",
        llm=ScriptedLlm(calls(t(1))),
        tools=[tool("a")],
        should_stop_after_turn=lambda ctx: bool(ctx.tool_results),
        get_follow_up_messages=lambda: polled.append("follow-ups"),
    )

    assert ran.trace.endswith("TE[r1] AE[u,a,r1]")
    assert polled == []


def test_hooks_between_turns_see_the_turn_that_ended(run: Run, tool: Any) -> None:
    """PI-56."""
    seen: list[PrepareNextTurnContext] = []
    ran = run("go", llm=ScriptedLlm(calls(t(1)), "done"), tools=[tool("a")], prepare_next_turn=seen.append)

    (ctx,) = seen
    assert ctx.message is ran.answers[0]
    assert ctx.tool_results == (ran.results[0],)
    assert list(ctx.context.messages) == list(ctx.new_messages) == ran.messages[:3]


def test_an_update_replaces_context_model_and_thinking_for_the_rest_of_the_run(run: Run, tool: Any) -> None:
    """PI-57, T51: None keeps."""
    other = ScriptedLlm(calls(t(2)), "done")
    updates = iter([NextTurn(model=other, thinking_level="high"), NextTurn()])

    def prepare(ctx: PrepareNextTurnContext) -> NextTurn:
        update = next(updates)
        if update.model is None:
            return update
        context = AgentContext("new prompt", ctx.context.messages[-2:], ctx.context.tools)
        return NextTurn(context=context, model=update.model, thinking_level=update.thinking_level)

    first = ScriptedLlm(calls(t(1)))
    ran = run(
        "go", llm=first, tools=[tool("a")], prepare_next_turn=prepare, reasoning="low", system_prompt="old"
    )

    assert [request.system_prompt for request in (*first.requests, *other.requests)] == [
        "old", "new prompt", "new prompt",
    ]  # fmt: skip
    assert [options.reasoning for options in (*first.options, *other.options)] == ["low", "high", "high"]
    assert [len(request.messages) for request in other.requests] == [2, 4]
    assert len(ran.messages) == 6


def test_turning_thinking_off_sends_none(run: Run, tool: Any) -> None:
    """PI-57, AG-10."""
    llm = ScriptedLlm(calls(t(1)), "done")
    run(
        "go", llm=llm, tools=[tool("a")], reasoning="high",
        prepare_next_turn=lambda ctx: NextTurn(thinking_level="off"),
    )  # fmt: skip

    assert [options.reasoning for options in llm.options] == ["high", None]


def test_tools_that_were_discovered_between_turns_are_offered(run: Run, tool: Any) -> None:
    """LP-17: by refresh_tools, between turns only."""
    found = iter([None, ToolRegistry([tool("b")]), None])
    llm = ScriptedLlm(calls(t(1)), calls(t(2, "b")), "done")
    ran = run("go", llm=llm, tools=[tool("a")], refresh_tools=lambda: next(found))

    assert [[spec.name for spec in request.tools] for request in llm.requests] == [["a"], ["b"], ["b"]]
    assert ran.results[1].text == "b done"


# -- terminate ---------------------------------------------------------------------------


def ends(text: str) -> Callable[..., ToolResult]:
    return lambda *args: ToolResult(text, terminate=True)  # type: ignore[arg-type]


def test_a_batch_ends_the_run_when_every_result_says_so(run: Run, tool: Any) -> None:
    """Decision 14, PI-48."""
    both = [tool("a", ends("x")), tool("b", ends("y"))]
    ran = run("go", llm=ScriptedLlm(calls(t(1), t(2, "b"))), tools=both)

    assert ran.trace.endswith("TE[r1,r2] AE[u,a,r1,r2]")


@pytest.mark.parametrize("other", [t(2, "b"), t(2, "unknown")])
def test_one_result_that_does_not_say_so_goes_on(run: Run, tool: Any, other: ToolCall) -> None:
    """Decision 14, PI-48: an error result says nothing of the kind."""
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1), other), "done"), tools=[tool("a", ends("x")), tool("b")]
    )  # fmt: skip

    assert ran.messages[-1].text == "done"


def test_queued_messages_get_their_turn_after_terminate(run: Run, tool: Any, user: User) -> None:
    """Decision 14, PI-49."""
    llm = ScriptedLlm(calls(t(1)), "answer")
    ran = run("go", llm=llm, tools=[tool("a", ends("x"))], get_follow_up_messages=queue([user("and?")]))

    assert ran.trace.endswith("TE[r1] TS M+u M.u M+a M~ M.a TE[] AE[u,a,r1,u,a]")


# -- steering and follow-ups -------------------------------------------------------------


def test_steering_at_the_start_joins_the_first_turn(run: Run, user: User) -> None:
    """PI-50, LP-11, S2, T47: after the prompts, one turn start."""
    llm = ScriptedLlm("hi")
    ran = run("go", llm=llm, get_steering_messages=queue([user("briefly")]))

    assert ran.trace == "AS TS M+u M.u M+u M.u M+a M~ M.a TE[] AE[u,u,a]"
    assert [message.text for message in llm.requests[0].messages] == ["go", "briefly"]


def test_steering_comes_after_all_results_of_the_batch(run: Run, user: User, tool: Any) -> None:
    """PI-50, PI-51, PI-52, S1, S4, T49: no call is skipped."""
    llm = ScriptedLlm(calls(t(1), t(2)), "done")
    ran = run("go", llm=llm, tools=[tool("a")], get_steering_messages=queue([], [user("only red")]))

    assert ran.trace == (
        "AS TS M+u M.u M+a M~ M.a X+t1 X.t1 M+r1 M.r1 X+t2 X.t2 M+r2 M.r2 TE[r1,r2] "
        "TS M+u M.u M+a M~ M.a TE[] AE[u,a,r1,r2,u,a]"
    )
    assert [message.role for message in llm.requests[1].messages][-3:] == ["tool_result"] * 2 + ["user"]


def test_steering_keeps_a_run_going_and_comes_before_follow_ups(run: Run, user: User) -> None:
    """PI-53, S6, T48: follow-ups only when nothing else is pending."""
    llm = ScriptedLlm("1", "2", "3")
    ran = run(
        "go",
        llm=llm,
        get_steering_messages=queue([], [user("steer")]),
        get_follow_up_messages=queue([user("follow")]),
    )

    assert [message.text for message in ran.messages] == ["go", "1", "steer", "2", "follow", "3"]
    assert ran.trace.count("AS") == ran.trace.count("AE") == 1


def test_two_follow_ups_make_three_turns(run: Run, user: User) -> None:
    """PI-53, LP-13, T50."""
    ran = run("go", llm=ScriptedLlm("1", "2", "3"), get_follow_up_messages=queue([user("f1")], [user("f2")]))

    assert ran.trace.count("TS") == 3


def test_steering_that_came_while_a_turn_was_prepared_joins_it(run: Run, user: User, tool: Any) -> None:
    """PI-54: polled once more, only if the poll before gave nothing."""
    llm = ScriptedLlm(calls(t(1)), "done")
    steering = queue([], [], [user("late")])
    run("go", llm=llm, tools=[tool("a")], get_steering_messages=steering, prepare_next_turn=lambda ctx: None)
    early = ScriptedLlm(calls(t(1)), "done", "more")
    run(
        "go", llm=early, tools=[tool("a")], prepare_next_turn=lambda ctx: None,
        get_steering_messages=queue([], [user("s1")], [user("s2")]),
    )  # fmt: skip

    assert llm.requests[1].messages[-1].text == "late"
    assert early.requests[1].messages[-1].text == "s1"


def test_a_getter_may_give_none(run: Run) -> None:
    """S11."""
    ran = run(
        "go", llm=ScriptedLlm("hi"), get_steering_messages=lambda: None, get_follow_up_messages=lambda: None
    )

    assert ran.end.status == "completed"


def test_a_run_ends_only_when_whoever_owns_the_queues_says_so(run: Run, user: User) -> None:
    """F-14: asked again until nothing was accepted meanwhile."""
    answers = iter([False, True])
    ran = run(
        "go",
        llm=ScriptedLlm("1", "2"),
        get_steering_messages=queue([], [], [user("came late")]),
        try_finish=lambda: next(answers),
    )

    assert [message.text for message in ran.messages] == ["go", "1", "came late", "2"]


# -- transcripts -------------------------------------------------------------------------

BROKEN = [
    UserMessage((TextContent("x"),)),
    AssistantMessage((ToolCall("c1", "a", {}),), stop_reason="tool_calls"),
    UserMessage((TextContent("y"),)),
]


def test_a_broken_transcript_is_an_error_and_the_model_is_not_asked(run: Run) -> None:
    """TV-5, T107, C-02."""
    llm = ScriptedLlm()
    ran = run("go", llm=llm, history=BROKEN)

    assert isinstance(ran.end.error, InvalidTranscript)
    assert ran.end.error.violations[0]["type"] == "missing_tool_result"
    assert llm.requests == []


def test_a_broken_transcript_is_repaired_when_that_is_asked_for(run: Run) -> None:
    """C-01, C-02: for the request; the history stays, and a diagnostic tells of it."""
    llm = ScriptedLlm("hi")
    ran = run("go", llm=llm, history=BROKEN, invalid_transcript="repair")

    assert "D:transcript_repaired" in ran.trace
    assert [message.role for message in llm.requests[0].messages] == [
        "user", "assistant", "tool_result", "user", "user",
    ]  # fmt: skip


def test_the_transcript_is_checked_before_every_call(run: Run, tool: Any) -> None:
    """TV-5: a hook that cuts a call from its result is found out."""

    def cuts(messages: list[Message], signal: Any) -> list[Message]:
        return [message for message in messages if not isinstance(message, AssistantMessage)]

    ran = run("go", llm=ScriptedLlm(calls(t(1))), tools=[tool("a")], transform_context=cuts)

    assert isinstance(ran.end.error, InvalidTranscript)
    assert ran.end.error.violations[0]["type"] == "orphan_tool_result"


def test_the_same_id_in_two_answers_is_fine(run: Run, tool: Any) -> None:
    """T158."""
    ran = run("go", llm=ScriptedLlm(calls(t(1)), calls(t(1)), "done"), tools=[tool("a")])

    assert ran.end.status == "completed"


def test_results_that_failed_count_as_results(run: Run) -> None:
    """T159."""
    result = ToolResultMessage("c1", "a", (TextContent("no"),), is_error=True)

    assert run("go", llm=ScriptedLlm("hi"), history=[*BROKEN[:2], result]).end.status == "completed"
