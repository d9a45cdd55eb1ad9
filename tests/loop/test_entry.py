"""The ways into the loop: what they emit, return and leave alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import CannotContinue, HookFailed, LlmError, RunAborted
from yiemagent.events import AgentStart, MessageStart
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.limits import Limits
from yiemagent.loop.run import agent_loop, agent_loop_continue, run_agent_loop, run_agent_loop_continue
from yiemagent.messages import AssistantMessage, CustomMessage, TextContent, ToolResultMessage, UserMessage
from yiemagent.testing import Gate, ScriptedLlm, call, calls, fail, run_in_thread, say

Run = Callable[..., Any]
User = Callable[[str], UserMessage]


def context(*messages: Any, tools: Any = ()) -> AgentContext:
    return AgentContext("", messages, tools)


# -- blocking ----------------------------------------------------------------------------


def test_one_prompt_and_one_answer(run: Run) -> None:
    """PI-2, LP-4, LP-5, T97, T98, T99."""
    ran = run("hi", llm=ScriptedLlm("hello"))

    assert ran.trace == "AS TS M+u M.u M+a M~ M.a TE[] AE[u,a]"
    assert [message.text for message in ran.messages] == ["hi", "hello"]
    assert ran.end.status == "completed"


def test_several_prompts_are_delivered_in_order_in_the_first_turn(run: Run) -> None:
    """PI-3, T6, T100."""
    llm = ScriptedLlm("hello")
    ran = run("one", "two", llm=llm)

    assert ran.trace == "AS TS M+u M.u M+u M.u M+a M~ M.a TE[] AE[u,u,a]"
    assert [message.text for message in llm.requests[0].messages] == ["one", "two"]


def test_no_prompt_at_all_still_asks_once(run: Run) -> None:
    """PI-5, LP-7."""
    assert run(llm=ScriptedLlm("hello")).trace == "AS TS M+a M~ M.a TE[] AE[a]"


def test_the_result_holds_what_is_new_in_order_and_nothing_old(run: Run, user: User, tool: Any) -> None:
    """LP-8, T101, PI-4."""
    history = [user("before"), AssistantMessage((TextContent("old"),))]
    ran = run("go", llm=ScriptedLlm(call("a"), "done"), tools=[tool("a")], history=history)

    assert [message.role for message in ran.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert list(ran.end.messages) == ran.messages


def test_the_callers_list_is_not_changed(run: Run, user: User) -> None:
    """PI-4, PI-8: neither by a prompt nor by going on."""
    history = [user("before")]
    run("hi", llm=ScriptedLlm("hello"), history=history)
    run(llm=ScriptedLlm("hello"), history=history, again=True)

    assert len(history) == 1


def test_the_end_event_and_the_result_are_not_one_list(run: Run) -> None:
    """PI-9."""
    ran = run("hi", llm=ScriptedLlm("hello"))
    ran.messages.clear()

    assert len(ran.end.messages) == 2


def test_prompts_may_be_any_iterable(run: Run, user: User) -> None:
    """LP-1."""
    prompts = (user(text) for text in ("one", "two"))
    messages = run_agent_loop(
        prompts, context(), AgentLoopConfig(model=ScriptedLlm("hello")), lambda event: None
    )

    assert len(messages) == 3


# -- going on ----------------------------------------------------------------------------


def test_going_on_tells_only_of_what_is_new(run: Run, user: User) -> None:
    """PI-7, T9."""
    ran = run(llm=ScriptedLlm("hello"), history=[user("hi")], again=True)

    assert ran.trace == "AS TS M+a M~ M.a TE[] AE[a]"


@pytest.mark.parametrize("last", ["user", "tool_result", "custom", "error", "aborted"])
def test_going_on_works_after_whatever_waits_for_an_answer(run: Run, user: User, last: str) -> None:
    """PI-7, T7: and after an answer that failed, for it is not sent again."""
    asked = AssistantMessage((call("a"),), stop_reason="tool_calls")
    tail: dict[str, list[Any]] = {
        "user": [],
        "tool_result": [asked, ToolResultMessage(asked.tool_calls[0].id, "a", (TextContent("r"),))],
        "custom": [CustomMessage("note", "x")],
        "error": [AssistantMessage((), stop_reason="error", error_message="no")],
        "aborted": [AssistantMessage((TextContent("ha"),), stop_reason="aborted")],
    }
    llm = ScriptedLlm("hello")

    ran = run(llm=llm, history=[user("hi"), *tail[last]], again=True)

    assert ran.answers[-1].text == "hello"
    assert all(message.role != "assistant" or message.tool_calls for message in llm.requests[0].messages)


@pytest.mark.parametrize(
    ("history", "text"),
    [
        ((), "Cannot continue: no messages in context"),
        ((AssistantMessage((TextContent("done"),)),), "Cannot continue from message role: assistant"),
    ],
)
def test_going_on_from_nothing_raises_in_the_callers_thread(history: Any, text: str) -> None:
    """PI-6, LP-3, T7, T10: before any event, thread or stream."""
    before = threading.active_count()
    config = AgentLoopConfig(model=ScriptedLlm())
    events: list[Any] = []

    with pytest.raises(CannotContinue, match=text):
        agent_loop_continue(context(*history), config)
    with pytest.raises(CannotContinue, match=text):
        run_agent_loop_continue(context(*history), config, events.append)
    assert events == []
    assert threading.active_count() == before


# -- in the background -------------------------------------------------------------------


def test_a_stream_gives_every_event_and_then_the_new_messages(trace: Any, user: User) -> None:
    """PI-1, LP-1."""
    stream = agent_loop([user("hi")], context(), AgentLoopConfig(model=ScriptedLlm("hello")))

    assert trace(stream) == "AS TS M+u M.u M+a M~ M.a TE[] AE[u,a]"
    assert [message.text for message in stream.result()] == ["hi", "hello"]


def test_a_stream_returns_before_the_model_has_answered(user: User) -> None:
    """PI-1, T1."""
    gate = Gate()
    stream = agent_loop([user("hi")], context(), AgentLoopConfig(model=ScriptedLlm(say("a", before=gate))))

    assert stream.finished is False
    gate.open()
    assert stream.result()


def test_a_stream_goes_on_from_a_history(trace: Any, user: User) -> None:
    """PI-7."""
    stream = agent_loop_continue(context(user("hi")), AgentLoopConfig(model=ScriptedLlm("hello")))

    assert trace(stream) == "AS TS M+a M~ M.a TE[] AE[a]"


def test_a_failed_run_ends_its_stream_with_the_error(trace: Any, user: User) -> None:
    """PI-10, LP-2: the stream is never left open."""
    error = LlmError("no", status=500)
    stream = agent_loop([user("hi")], context(), AgentLoopConfig(model=ScriptedLlm(fail(error))))

    assert trace(stream) == "AS TS M+u M.u M+a M~ M.a(error) TE[] AE[u,a]:error"
    with pytest.raises(LlmError) as raised:
        stream.result()
    assert raised.value is error


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_a_hook_that_raises_ends_its_stream(trace: Any, user: User, raised: BaseException) -> None:
    """PI-10, LP-2, T131: whatever it raises on the loop's own thread."""

    def hook(messages: Any, signal: Any) -> Any:
        raise raised

    config = AgentLoopConfig(model=ScriptedLlm(), transform_context=hook)
    stream = agent_loop([user("hi")], context(), config)

    assert trace(stream).endswith(
        "AE[u,a]:error" if not isinstance(raised, KeyboardInterrupt) else ":aborted"
    )
    with pytest.raises(HookFailed if not isinstance(raised, KeyboardInterrupt) else RunAborted):
        stream.result()


def test_a_limited_run_gives_its_messages(user: User, tool: Any) -> None:
    """LP-14, T103: result() is well."""
    config = AgentLoopConfig(model=ScriptedLlm(call("a")), limits=Limits(max_tool_turns=1))
    stream = agent_loop([user("hi")], context(tools=[tool("a")]), config)

    assert stream.result()[-1].error_message == "max_tool_turns_exhausted"


def test_cancelling_the_stream_aborts_the_run_and_the_tool_that_runs(user: User, tool: Any) -> None:
    """T84, ES-8."""
    started, over = threading.Event(), threading.Event()
    seen: list[bool] = []

    def waits(tool_call_id: str, args: Any, signal: AbortSignal, on_update: Any) -> str:
        started.set()
        seen.append(signal.wait(5))
        over.set()
        return "stopped"

    stream = agent_loop(
        [user("hi")], context(tools=[tool("a", waits)]), AgentLoopConfig(model=ScriptedLlm(call("a")))
    )
    assert started.wait(5)
    stream.cancel("enough")

    with pytest.raises(RunAborted) as raised:
        stream.result()
    assert raised.value.reason == "enough"
    assert any(isinstance(event, AgentStart) for event in stream)
    assert over.wait(5)
    assert seen == [True]


def test_dropping_the_stream_aborts_the_run(user: User) -> None:
    """T179: leaving a for loop over it early is enough."""
    gate, aborted = Gate(), threading.Event()

    class Watched(ScriptedLlm):
        def stream(self, given: Any, options: Any) -> Any:
            options.signal.on_abort(aborted.set)
            return super().stream(given, options)

    for event in agent_loop([user("hi")], context(), AgentLoopConfig(model=Watched(say("a", before=gate)))):
        if isinstance(event, MessageStart):
            gate.wait_entered()
            break
    del event

    assert aborted.wait(5)
    gate.open()


def test_a_reader_that_falls_behind_holds_the_run_up(user: User) -> None:
    """H7: nothing is lost, and dropping the stream then lets the run go."""
    llm = ScriptedLlm(say("", chunks=[str(number) for number in range(50)]))
    stream = agent_loop([user("hi")], context(), AgentLoopConfig(model=llm), max_queue=3)
    events = list(stream)

    assert sum(event.type == "message_update" for event in events) == 52
    assert stream.stats.dropped == 0


def test_a_run_held_up_by_a_reader_that_has_gone_ends(user: User) -> None:
    """T179, T193."""
    before = set(threading.enumerate())
    llm = ScriptedLlm(say("", chunks=[str(number) for number in range(50)]))
    stream = agent_loop([user("hi")], context(), AgentLoopConfig(model=llm), max_queue=2)
    next(iter(stream))
    (thread,) = [t for t in threading.enumerate() if t not in before and t.name == "yiemagent-loop"]
    del stream

    thread.join(5)
    assert not thread.is_alive()


# -- side by side ------------------------------------------------------------------------


def test_five_loops_run_independently_and_may_share_a_tool(run: Run, tool: Any) -> None:
    """T116, T40."""
    shared = tool("a")
    outcomes = [
        run_in_thread(run, f"p{n}", llm=ScriptedLlm(call("a"), f"answer {n}"), tools=[shared])
        for n in range(5)
    ]

    assert [outcome.get().messages[-1].text for outcome in outcomes] == [f"answer {n}" for n in range(5)]


def test_two_loops_with_two_signals_do_not_touch_each_other(run: Run) -> None:
    """T89."""
    first, second = AbortSignal(), AbortSignal()
    gates = Gate(), Gate()
    outcomes = [
        run_in_thread(run, "x", llm=ScriptedLlm(say("answer", before=gate)), signal=signal)
        for gate, signal in zip(gates, (first, second), strict=True)
    ]
    for gate in gates:
        gate.wait_entered()
    first.abort()
    gates[1].open()

    assert [outcome.get().end.status for outcome in outcomes] == ["aborted", "completed"]
    gates[0].open()


def test_a_long_lived_signal_keeps_nothing_of_the_runs_it_was_given_to(run: Run, user: User) -> None:
    """T196."""
    signal = AbortSignal()
    run("hi", llm=ScriptedLlm(calls(call("x")), "hello"), signal=signal)
    agent_loop([user("hi")], context(), AgentLoopConfig(model=ScriptedLlm("hello")), signal).result()

    for thread in threading.enumerate():
        if thread.name == "yiemagent-loop":
            thread.join(5)
    assert not signal._callbacks
