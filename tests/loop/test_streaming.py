"""One model call: which events become what, and that it always ends in exactly one message."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from yiemagent.assistant_events import (
    Done,
    Failed,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RetryScheduled,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from yiemagent.errors import EmptyResponse, LlmError, LlmTimeout, RateLimited, StreamTruncated
from yiemagent.events import Log, MessageEnd, MessageStart, MessageUpdate
from yiemagent.loop.config import AgentLoopConfig
from yiemagent.messages import (
    AssistantMessage,
    ReasoningContent,
    StopReason,
    TextContent,
    ToolCall,
    Usage,
)
from yiemagent.model import LlmContext, ModelInfo, StreamOptions
from yiemagent.testing import ScriptedLlm, call, calls, cut, fail, run_in_thread, say

Run = Callable[..., Any]
START = StreamStart(AssistantMessage((), model="m"))


def text(content: str, **fields: Any) -> AssistantMessage:
    return AssistantMessage((TextContent(content),), **fields)


class Raw:
    """An ``Llm`` that yields exactly the given events; what is an exception is raised."""

    info = ModelInfo(id="raw", provider="raw")

    def __init__(self, *events: Any, abortable: bool = False, then: Any = "unexpected") -> None:
        self.events = [list(events), [then] if not isinstance(then, str) else []]
        self.abortable = abortable
        self.closed = 0

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[Any]:
        try:
            for event in self.events.pop(0):
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            self.closed += 1


@pytest.fixture(params=[False, True], ids=["left-on-abort", "abortable"])
def raw(request: pytest.FixtureRequest) -> Callable[..., Raw]:
    """A raw model, iterated on a helper thread and on the loop's own."""
    return lambda *events, **options: Raw(*events, abortable=request.param, **options)


# -- well-formed streams -----------------------------------------------------------------


def test_each_piece_is_an_update_and_the_last_one_the_message(run: Run, raw: Any) -> None:
    """PI-15, ST-5."""
    final = text("hello", usage=Usage(output_tokens=2))
    ran = run("x", llm=raw(START, TextStart(0), TextDelta(0, "hel"), TextDelta(0, "lo"), Done(final)))

    assert [update.message.text for update in ran.of(MessageUpdate)] == ["", "hel", "hello"]
    assert ran.of(MessageStart)[1].message == START.message
    assert ran.of(MessageEnd)[1].message == final
    assert ran.messages[-1] is ran.of(MessageEnd)[1].message


def test_an_earlier_update_never_changes(run: Run, raw: Any) -> None:
    """PI-89, T123."""
    seen: list[MessageUpdate] = []
    run(
        "x",
        llm=raw(START, TextStart(0), TextDelta(0, "a"), TextDelta(0, "b"), Done(text("ab"))),
        emit=lambda event: seen.append(event) if isinstance(event, MessageUpdate) else None,
    )

    assert [update.message.text for update in seen] == ["", "a", "ab"]


def test_without_a_start_pieces_are_dropped_and_the_message_still_has_both_events(run: Run, raw: Any) -> None:
    """PI-16, ST-6, T132."""
    ran = run("x", llm=raw(TextStart(0), TextDelta(0, "hi"), Done(text("hi"))))

    assert ran.trace == "AS TS M+u M.u M+a M.a TE[] AE[u,a]"


def test_reasoning_text_and_calls_all_become_updates(run: Run, raw: Any, tool: Any) -> None:
    """PI-89, ST-5."""
    made = ToolCall("t1", "a", {"path": "x"})
    message = AssistantMessage((ReasoningContent("hm"), TextContent("so"), made))
    events = [
        *(ReasoningStart(0), ReasoningDelta(0, "hm"), ReasoningEnd(0, ReasoningContent("hm"))),
        *(TextStart(1), TextDelta(1, "so"), TextEnd(1, TextContent("so"))),
        *(ToolCallStart(2, "t1", "a"), ToolCallDelta(2, '{"path":'), ToolCallEnd(2, made)),
    ]
    ran = run("x", llm=raw(START, *events, Done(message), then=Done(text("ok"))), tools=[tool("a")])

    updates = ran.of(MessageUpdate)
    assert [update.assistant_event for update in updates] == events
    assert updates[7].message.tool_calls == ()  # Half a call is no call.
    assert updates[8].message.tool_calls == (made,)


def test_a_second_start_tells_nothing_twice(run: Run, raw: Any) -> None:
    """T99: starts and ends pair up, whatever an adapter does."""
    ran = run("x", llm=raw(START, StreamStart(AssistantMessage((), model="n")), Done(text("hi"))))

    assert ran.trace == "AS TS M+u M.u M+a M.a TE[] AE[u,a]"


def test_what_is_no_event_is_ignored(run: Run, raw: Any) -> None:
    """ST-5."""
    ran = run("x", llm=raw(START, "junk", {"type": "ping"}, None, Done(text("hi"))))

    assert ran.trace == "AS TS M+u M.u M+a M.a TE[] AE[u,a]"


def test_a_retry_is_a_diagnostic(run: Run, raw: Any) -> None:
    """F-25: nothing of the failed attempt was shown."""
    retry = RetryScheduled(1, 0.5, RateLimited("slow down"))
    ran = run("x", llm=raw(retry, START, Done(text("hi"))))

    assert ran.trace == "AS TS M+u M.u D:llm_retry M+a M.a TE[] AE[u,a]"


def test_what_the_model_says_is_logged_in_order(run: Run, raw: Any) -> None:
    """Decision 25, WT-010: llm_call's event_sink."""

    class Saying(Raw):
        def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[Any]:
            assert options.event_sink is not None
            options.event_sink("asking", publish=True)
            yield from super().stream(context, options)
            options.event_sink("too late")

    threads: list[threading.Thread] = []
    llm = Saying(START, Done(text("hi")), abortable=raw().abortable)
    ran = run(
        "x",
        llm=llm,
        emit=lambda event: threads.append(threading.current_thread()) if isinstance(event, Log) else None,
    )

    assert ran.trace == "AS TS M+u M.u L:asking M+a M.a TE[] AE[u,a]"
    assert ran.of(Log) == [Log("asking", True)]
    assert threads == [threading.current_thread()]


# -- final messages ----------------------------------------------------------------------


def test_an_empty_final_message_keeps_the_text_that_was_streamed(run: Run, raw: Any) -> None:
    """ST-7, T121."""
    ran = run("x", llm=raw(START, TextStart(0), TextDelta(0, "hello"), Done(AssistantMessage(()))))

    assert ran.messages[-1].text == "hello"
    assert ran.end.status == "completed"


def test_an_empty_final_message_keeps_the_call_that_was_streamed(run: Run, raw: Any, tool: Any) -> None:
    """ST-7, T122, T123: with its last arguments, and it is run."""
    made = ToolCall("t1", "a", {"path": "mix.exs"})
    events = (ToolCallStart(0, "t1", "a"), ToolCallDelta(0, "{"), ToolCallEnd(0, made))
    final = Done(AssistantMessage((), stop_reason="tool_calls"))
    ran = run("x", llm=raw(START, *events, final, then=Done(text("ok"))), tools=[tool("a")])

    assert ran.answers[0].tool_calls == (made,)
    assert ran.results[0].text == "a done"


@pytest.mark.parametrize("stop_reason", ["stop", "tool_calls"])
@pytest.mark.parametrize(
    "content", [(), (TextContent(""),), (TextContent(" \n "),), (ReasoningContent("only thoughts"),)]
)
def test_an_answer_without_text_and_calls_is_an_error(
    run: Run, content: Any, stop_reason: StopReason
) -> None:
    """Decision 17, ST-8, T124, T125, T126, PI-19: not silence."""
    llm = ScriptedLlm(AssistantMessage(content, stop_reason=stop_reason))
    ran = run("x", llm=llm)

    assert ran.trace.endswith("M.a(error) TE[] AE[u,a]:error")
    assert isinstance(ran.end.error, EmptyResponse)
    assert ran.end.error.retryable
    assert ran.messages[-1].error_kind == "empty_response"
    assert ran.messages[-1].content == content


@pytest.mark.parametrize("stop_reason", ["length", "refusal"])
def test_an_empty_answer_that_says_why_is_no_error(run: Run, stop_reason: StopReason) -> None:
    """ST-8, PI-20: it ends like any other."""
    ran = run("x", llm=ScriptedLlm(AssistantMessage((), stop_reason=stop_reason)))

    assert ran.end.status == "completed"


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
def test_a_final_message_that_calls_itself_failed_is_a_failed_answer(
    run: Run, raw: Any, stop_reason: StopReason
) -> None:
    """PI-71, ST-11: an adapter that has only Done still cannot pass it off."""
    ran = run("x", llm=raw(START, Done(text("ha", stop_reason=stop_reason, error_message="broke"))))

    assert ran.end.status == "error"
    assert str(ran.end.error) == "broke"
    assert ran.messages[-1].text == "ha"


# -- failures ----------------------------------------------------------------------------


def test_a_failed_answer_keeps_its_text_and_its_error(run: Run, raw: Any) -> None:
    """PI-18, LP-9, T110, T111, T129, T20: the special characters of its text too."""
    error = RateLimited('slow "down" <&> \\ ü', retry_after=3)
    failed = Failed(text("half", stop_reason="error"), error)
    ran = run("x", llm=raw(START, TextStart(0), TextDelta(0, "half"), failed))

    assert ran.trace == "AS TS M+u M.u M+a M~ M.a(error) TE[] AE[u,a]:error"
    assert ran.end.error is error
    assert ran.messages[-1].error_message == str(error)
    assert ran.messages[-1].error_kind == "rate_limit"
    assert error.partial is ran.messages[-1]


def test_a_failure_without_an_error_object_gets_one(run: Run, raw: Any) -> None:
    """T111: with and without a text."""
    said = run("x", llm=raw(START, Failed(AssistantMessage((), stop_reason="error", error_message="no"))))
    mute = run("x", llm=raw(START, Failed(AssistantMessage((), stop_reason="error"))))

    assert (str(said.end.error), str(mute.end.error)) == ("no", "the model failed")


def test_what_was_streamed_is_kept_when_the_failure_has_no_content(run: Run, raw: Any) -> None:
    """T76, T129."""
    failed = Failed(AssistantMessage((), stop_reason="error"), LlmError("no"))
    ran = run("x", llm=raw(START, TextStart(0), TextDelta(0, "half"), failed))

    assert ran.messages[-1].text == "half"


@pytest.mark.parametrize(
    "raised", [ValueError("no"), SystemExit(1), GeneratorExit("no"), AssertionError("no")]
)
def test_a_model_that_raises_gives_a_failed_answer(run: Run, raw: Any, raised: BaseException) -> None:
    """PI-71, PI-72, T108, T131: BaseException included; the run ends in order."""
    ran = run("x", llm=raw(START, TextStart(0), TextDelta(0, "half"), raised))

    assert ran.trace == "AS TS M+u M.u M+a M~ M.a(error) TE[] AE[u,a]:error"
    assert isinstance(ran.end.error, LlmError)
    assert ran.end.error.kind == "model_exception"
    assert ran.end.error.__cause__ is raised
    assert type(raised).__name__ in str(ran.end.error)
    assert ran.messages[-1].text == "half"


def test_a_model_that_raises_one_of_our_errors_keeps_it(run: Run, raw: Any) -> None:
    """LP-10: passed through unwrapped."""
    error = LlmError("no", kind="quota")

    assert run("x", llm=raw(error)).end.error is error


def test_a_timeout_of_the_model_is_an_llm_timeout(run: Run, raw: Any) -> None:
    """Architecture, section 6."""
    ran = run("x", llm=raw(TimeoutError("slow")))

    assert isinstance(ran.end.error, LlmTimeout)
    assert ran.end.error.kind == ran.messages[-1].error_kind == "timeout"


def test_keyboard_interrupt_raised_by_a_model_is_a_failure_and_no_ctrl_c(run: Run) -> None:
    """D-28: the user's own goes to the main thread."""
    ran = run("x", llm=Raw(START, KeyboardInterrupt("by hand")))

    assert ran.end.status == "error"
    assert "KeyboardInterrupt" in str(ran.end.error)


@pytest.mark.parametrize("events", [(), (START, TextStart(0), TextDelta(0, "half"))])
def test_a_stream_that_just_ends_is_an_error(run: Run, raw: Any, events: Any) -> None:
    """PI-17, ST-9, T127, T128: overridden to an error by the decision on broken transcripts."""
    ran = run("x", llm=raw(*events))

    assert isinstance(ran.end.error, StreamTruncated)
    assert ran.end.error.retryable
    assert ran.messages[-1].text == ("half" if events else "")


def test_half_a_call_of_a_cut_stream_is_no_call(run: Run, raw: Any) -> None:
    """C-03."""
    ran = run("x", llm=raw(START, ToolCallStart(0, "t1", "a"), ToolCallDelta(0, '{"path": "x"')))

    assert ran.answers[0].tool_calls == ()
    assert ran.trace.endswith("M.a(error) TE[] AE[u,a]:error")


def test_whole_calls_of_a_failed_answer_are_answered_and_not_run(run: Run, raw: Any, tool: Any) -> None:
    """Decision 24, C-02, F-25, H3: the transcript stays valid."""
    ran_tools: list[str] = []
    made = ToolCall("t1", "a", {})
    events = (ToolCallStart(0, "t1", "a"), ToolCallEnd(0, made))
    ran = run(
        "x", llm=raw(START, *events, ValueError("broke")), tools=[tool("a", lambda *a: ran_tools.append("a"))]
    )

    assert ran.trace == "AS TS M+u M.u M+a M~ M.a(error) X+t1 X.t1! M+r1 M.r1 TE[r1] AE[u,a,r1]:error"
    assert ran.results[0].details == {"error_type": "aborted", "started": False}
    assert ran_tools == []


def test_repeated_ids_of_a_failed_answer_are_settled_too(run: Run, raw: Any) -> None:
    """Decision 22: a broken answer must not break the transcript for ever."""
    events = [ToolCallEnd(n, ToolCall("t1", "a", {"n": n})) for n in range(2)]
    ran = run("x", llm=raw(START, *events, ValueError("broke")))

    assert len({call.id for call in ran.answers[0].tool_calls}) == 2
    assert [result.tool_call_id for result in ran.results] == [c.id for c in ran.answers[0].tool_calls]


@pytest.mark.parametrize("junk", [None, 42])
def test_a_stream_function_that_returns_no_stream_is_an_error(run: Run, junk: Any) -> None:
    """T108, ST-4."""
    ran = run("x", llm=ScriptedLlm(), stream_fn=lambda context, options: junk)

    assert ran.end.status == "error"
    assert "must return an iterator of events" in str(ran.end.error)
    assert type(junk).__name__ in str(ran.end.error)


def test_a_stream_function_takes_the_models_place(run: Run) -> None:
    """ST-4, T108: a bare iterator works."""
    ran = run("x", llm=ScriptedLlm(), stream_fn=lambda context, options: [START, Done(text("mine"))])

    assert ran.messages[-1].text == "mine"


def test_events_behind_the_final_one_are_not_waited_for(run: Run, raw: Any) -> None:
    """PI-17: the answer is there; cleaning up may fail as it likes."""
    llm = raw(START, Done(text("hi")), ValueError("late"))
    ran = run("x", llm=llm)

    assert ran.end.status == "completed"


def test_a_model_that_fails_while_it_cleans_up_has_answered(run: Run, raw: Any) -> None:
    """PI-17."""

    class Fails(Raw):
        def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[Any]:
            try:
                yield from super().stream(context, options)
            finally:
                raise ValueError("cannot close")

    ran = run("x", llm=Fails(START, Done(text("hi")), "more", abortable=raw().abortable))

    assert ran.end.status == "completed"


def test_the_helper_thread_is_used_again(run: Run, tool: Any) -> None:
    """Decision 10: a run's calls share one thread as long as none of them is left."""
    threads: list[str] = []

    class Noting(ScriptedLlm):
        def stream(self, context: LlmContext, options: StreamOptions) -> Any:
            threads.append(f"{threading.current_thread().name}-{threading.get_ident()}")
            return super().stream(context, options)

    llm = Noting(call("a"), call("a"), "done")
    run("x", llm=llm, tools=[tool("a")])

    assert len(threads) == 3
    assert len(set(threads)) == 1
    assert threads[0].startswith("yiemagent-pool")


def test_a_model_that_still_cleans_up_does_not_hold_up_the_next_call(run: Run, tool: Any) -> None:
    """Decision 10: the next call has another thread."""
    cleaning, go = threading.Event(), threading.Event()

    class Slow(ScriptedLlm):
        def stream(self, context: LlmContext, options: StreamOptions) -> Any:
            first = not self.requests
            inner = super().stream(context, options)

            def events() -> Iterator[Any]:
                try:
                    yield from inner
                finally:
                    if first:
                        cleaning.set()
                        go.wait(60)

            return events()

    outcome = run_in_thread(run, "x", llm=Slow(call("a"), "done"), tools=[tool("a")])

    assert outcome.get().messages[-1].text == "done"
    assert cleaning.is_set()
    go.set()


# -- the request -------------------------------------------------------------------------


def test_failed_answers_and_their_results_stay_out_of_the_next_request(run: Run) -> None:
    """Decision 24, PI-91, C-50: they stay in the history."""
    failed = run("x", llm=ScriptedLlm(fail(LlmError("no"), text="half")))
    cut_off = run("y", llm=ScriptedLlm(cut("half")), history=failed.messages)
    llm = ScriptedLlm("fine")
    run("z", llm=llm, history=[*failed.messages, *cut_off.messages])

    assert [message.text for message in llm.requests[0].messages] == ["x", "y", "z"]


def test_results_of_a_failed_answer_stay_out_with_it(run: Run, raw: Any) -> None:
    """Decision 24, C-03: never a result without its call."""
    broken = raw(START, ToolCallEnd(0, ToolCall("t1", "a", {})), ValueError("broke"))
    history = run("x", llm=broken).messages
    llm = ScriptedLlm("fine")
    run("y", llm=llm, history=history)

    assert [message.role for message in llm.requests[0].messages] == ["user", "user"]


def test_options_reach_the_model_and_hooks_do_not(run: Run) -> None:
    """PI-85, AG-10, T29: a clean options object."""
    llm = ScriptedLlm("hi")
    sentinel = object()
    run(
        "x",
        llm=llm,
        reasoning="high",
        session_id="s",
        thinking_budgets={"high": 9},
        transport="sse",
        max_retry_delay=7.0,
        temperature=0.5,
        max_tokens=11,
        tool_choice="auto",
        extra_body={"k": 1},
        on_payload=sentinel,
        on_response=sentinel,
        api_key="key",
        want_deltas=False,
        system_prompt="be kind",
    )

    options = llm.options[0]
    assert (options.reasoning, options.session_id, options.thinking_budgets) == ("high", "s", {"high": 9})
    assert (options.transport, options.max_retry_delay, options.temperature) == ("sse", 7.0, 0.5)
    assert (options.max_tokens, options.tool_choice, options.extra_body) == (11, "auto", {"k": 1})
    assert options.on_payload is options.on_response is sentinel
    assert (options.api_key, options.want_deltas) == ("key", False)
    assert llm.requests[0].system_prompt == "be kind"
    assert not hasattr(options, "convert_to_llm")


def test_nothing_is_sent_that_was_not_asked_for(run: Run) -> None:
    """Decision 29, C-43, C-49; AG-10: thinking off is None."""
    llm = ScriptedLlm("hi")
    run("x", llm=llm, reasoning="off")

    options = llm.options[0]
    assert options.reasoning is options.temperature is options.max_tokens is options.tool_choice is None
    assert options.want_deltas is True


def test_the_api_key_is_asked_for_before_every_call(run: Run, tool: Any) -> None:
    """PI-14, LP-20, T112: an empty answer falls back to the static key."""
    keys = iter(["fresh", "", None])
    asked: list[str] = []

    def get_api_key(provider: str) -> str | None:
        asked.append(provider)
        return next(keys)

    llm = ScriptedLlm(call("a"), call("a"), "done")
    run("x", llm=llm, tools=[tool("a")], get_api_key=get_api_key, api_key="static")
    bare = ScriptedLlm("hi")
    run("x", llm=bare, api_key="")

    assert asked == ["scripted"] * 3
    assert [options.api_key for options in llm.options] == ["fresh", "static", "static"]
    assert bare.options[0].api_key is None


def test_want_deltas_may_be_a_question(run: Run) -> None:
    """Decision 25: asked before each call, as listeners come and go."""
    llm = ScriptedLlm("hi")
    run("x", llm=llm, want_deltas=lambda: False)

    assert llm.options[0].want_deltas is False


def test_a_config_is_data(run: Run) -> None:
    """AG-9: what a run began with cannot be changed under it."""
    config = AgentLoopConfig(model=ScriptedLlm())

    assert replace(config, tool_timeout=1.0).tool_timeout == 1.0
    with pytest.raises(AttributeError):
        config.tool_timeout = 2.0  # type: ignore[misc]


def test_steps_say_what_they_are() -> None:
    """ScriptedLlm is strict: an unused step and an unexpected call both fail."""
    llm = ScriptedLlm(say("one"), calls(call("a")))
    with pytest.raises(AssertionError, match="2 steps"):
        llm.assert_complete()
