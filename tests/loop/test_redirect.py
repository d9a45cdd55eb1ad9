"""Redirect: the model call in progress is cancelled and the model is asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.assistant_events import StreamStart, TextDelta, TextStart, ToolCallEnd
from yiemagent.loop.redirect import REDIRECTED, Redirect
from yiemagent.messages import AssistantMessage, Message, TextContent, ToolCall, UserMessage
from yiemagent.testing import Gate, ScriptedLlm, calls, run_in_thread, say

Run = Callable[..., Any]


class Steering:
    """A steering queue and its redirect, as an agent owns them: queue first, then request."""

    def __init__(self) -> None:
        self.queue: list[Message] = []
        self.redirect = Redirect()

    def __call__(self) -> Sequence[Message]:
        taken, self.queue = self.queue, []
        return taken

    def correct(self, text: str) -> None:
        self.queue.append(UserMessage((TextContent(text),)))
        self.redirect.request()

    @property
    def config(self) -> dict[str, Any]:
        return {"redirect": self.redirect, "get_steering_messages": self}


def t(number: int, name: str = "a") -> ToolCall:
    return ToolCall(f"t{number}", name, {})


def test_a_redirect_cancels_the_call_in_progress_and_asks_again(run: Run) -> None:
    """T61, T62, R1, R3, decision 9: the partial stays in the history and out of the next request."""
    steering, gate = Steering(), Gate()
    llm = ScriptedLlm(say("", chunks=["par", "tial"], midway=gate), "corrected")
    outcome = run_in_thread(run, "go", llm=llm, **steering.config)
    gate.wait_entered()
    steering.correct("in French")

    ran = outcome.get()  # The first call is still silent.
    assert ran.trace == ("AS TS M+u M.u M+a M~ M.a(redirected) TE[] TS M+u M.u M+a M~ M.a TE[] AE[u,a,u,a]")
    assert ran.answers[0].error_message is None
    assert ran.answers[0].text == "par"
    assert [message.text for message in llm.requests[1].messages] == ["go", "in French"]
    assert llm.options[0].signal.reason == REDIRECTED
    gate.open()


def test_results_of_earlier_turns_survive_a_redirect(run: Run, tool: Any) -> None:
    """T63."""
    steering, gate = Steering(), Gate()
    llm = ScriptedLlm(calls(t(1)), say("late", before=gate), "done")
    outcome = run_in_thread(run, "go", llm=llm, tools=[tool("a")], **steering.config)
    gate.wait_entered()
    steering.correct("briefly")

    ran = outcome.get()
    assert ran.end.status == "completed"
    assert [message.role for message in llm.requests[2].messages] == [
        "user", "assistant", "tool_result", "user",
    ]  # fmt: skip
    gate.open()


def test_abort_beats_redirect(run: Run) -> None:
    """T64, ST-13, A4."""
    steering, gate, signal = Steering(), Gate(), AbortSignal()
    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(say("late", before=gate)), signal=signal, **steering.config
    )
    gate.wait_entered()
    signal.abort()
    steering.correct("too late")

    ran = outcome.get()
    assert ran.trace == "AS TS M+u M.u M+a M.a(aborted) TE[] AE[u,a]:aborted"
    gate.open()


def test_a_redirect_requested_before_the_run_is_cleared(run: Run) -> None:
    """T65."""
    steering = Steering()
    steering.redirect.request()

    assert run("go", llm=ScriptedLlm("hi"), **steering.config).trace.count("TS") == 1


def test_a_redirect_while_tools_run_cancels_nothing(run: Run, tool: Any) -> None:
    """T66, R4: the correction comes after the results, and no call is cancelled."""
    steering = Steering()
    ran = run(
        "go", llm=ScriptedLlm(calls(t(1)), "done"), **steering.config,
        tools=[tool("a", lambda *args: steering.correct("only red") or "ok")],
    )  # fmt: skip

    assert ran.trace.endswith("X+t1 X.t1 M+r1 M.r1 TE[r1] TS M+u M.u M+a M~ M.a TE[] AE[u,a,r1,u,a]")


def test_a_redirect_between_the_poll_and_the_call_cancels_that_call(run: Run) -> None:
    """T69, R2: cleared before each poll, and nowhere else; the model is not even asked."""
    steering = Steering()
    times = iter(["first"])

    def prepare(context: Any, event_sink: Any) -> None:
        if next(times, None):
            steering.correct("wait")

    llm = ScriptedLlm("done")
    ran = run("go", llm=llm, prepare_context=prepare, **steering.config)

    assert ran.trace == "AS TS M+u M.u M+a M.a(redirected) TE[] TS M+u M.u M+a M~ M.a TE[] AE[u,a,u,a]"
    assert len(llm.requests) == 1


def test_a_correction_that_comes_while_the_queue_is_polled_cancels_the_call_made_without_it(
    run: Run,
) -> None:
    """R2: cleared first and polled second, or it would be forgotten until the next turn."""

    class Late(Steering):
        def __call__(self) -> Sequence[Message]:
            taken = super().__call__()
            if times.pop():
                self.correct("wait")  # Another thread, right after the queue was emptied.
            return taken

    times = [False, False, True]
    llm = ScriptedLlm("done")
    ran = run("go", llm=llm, **Late().config)

    assert ran.trace == "AS TS M+u M.u M+a M.a(redirected) TE[] TS M+u M.u M+a M~ M.a TE[] AE[u,a,u,a]"
    assert [message.text for message in llm.requests[0].messages] == ["go", "wait"]


def test_a_redirect_requested_before_the_call_began_is_not_forgotten() -> None:
    """T69, R2: by the object itself."""
    redirect, call = Redirect(), AbortSignal()
    redirect.request()
    redirect.begin_call(call)

    assert call.reason == REDIRECTED


def test_nothing_is_cancelled_after_the_call_has_ended() -> None:
    """R2."""
    redirect, call = Redirect(), AbortSignal()
    redirect.begin_call(call)
    redirect.end_call()
    redirect.request()

    assert call.aborted is False


class Streaming:
    """A model whose first answer has a whole call and then says nothing more."""

    abortable = False
    info = ScriptedLlm().info

    def __init__(self, gate: Gate, *events: Any) -> None:
        self.gate, self.events, self.asked = gate, events, 0

    def stream(self, context: Any, options: Any) -> Any:
        self.asked += 1
        if self.asked > 1:
            yield from ScriptedLlm("again").stream(context, options)
            return
        yield StreamStart(AssistantMessage(()))
        yield from self.events
        self.gate.block()


@pytest.mark.parametrize(
    ("events", "kept"),
    [((TextStart(0), TextDelta(0, "so")), "so"), ((), "")],
)
def test_a_redirected_answer_loses_its_calls(run: Run, tool: Any, events: Any, kept: str) -> None:
    """T70, ST-12, R3: what is left is its text, or one empty text."""
    steering, gate = Steering(), Gate()
    llm = Streaming(gate, *events, ToolCallEnd(1, t(1)))
    outcome = run_in_thread(run, "go", llm=llm, tools=[tool("a")], **steering.config)
    gate.wait_entered()
    steering.correct("no")

    first = outcome.get().answers[0]
    assert first.content == (TextContent(kept),)
    gate.open()


def test_a_redirect_whose_message_was_cleared_asks_again_all_the_same(run: Run) -> None:
    """T72b, R7, H14."""
    steering, gate = Steering(), Gate()
    llm = ScriptedLlm(say("late", before=gate), "again")
    outcome = run_in_thread(run, "go", llm=llm, **steering.config)
    gate.wait_entered()
    steering.redirect.request()  # Its message was taken out of the queue in the meantime.

    assert outcome.get().messages[-1].text == "again"
    gate.open()


def test_one_redirect_after_the_other_is_taken(run: Run) -> None:
    """R5: as often as the caller asks; the limits of the run hold for them too."""
    steering, gates = Steering(), [Gate() for _ in range(5)]
    llm = ScriptedLlm(*(say("late", before=gate) for gate in gates), "done")
    outcome = run_in_thread(run, "go", llm=llm, **steering.config)
    for number, gate in enumerate(gates):
        gate.wait_entered()
        steering.correct(str(number))

    ran = outcome.get()
    assert ran.messages[-1].text == "done"
    assert [message.text for message in llm.requests[-1].messages] == ["go", "0", "1", "2", "3", "4"]
    for gate in gates:
        gate.open()


def test_a_redirect_is_no_abort(run: Run) -> None:
    """T71, T72: the run's own signal is not touched."""
    signal, steering, gate = AbortSignal(), Steering(), Gate()
    outcome = run_in_thread(
        run, "go", llm=ScriptedLlm(say("late", before=gate), "done"), signal=signal, **steering.config
    )
    gate.wait_entered()
    steering.correct("no")

    assert outcome.get().end.status == "completed"
    assert signal.aborted is False
    gate.open()
