"""Listeners: called in order, on the agent's thread, and what they raise stays with them."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, LlmError, RunAborted
from yiemagent.events import Log
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, fail, run_in_thread, say


def test_listeners_are_called_one_after_the_other_before_the_loop_goes_on(tool: Any) -> None:
    """PI-78, AG-22, AG-23: in subscription order, on the agent's thread; a barrier for the loop."""
    order: list[str] = []
    threads: set[str] = set()

    def listener(name: str) -> Any:
        def hear(event: Any) -> None:
            threads.add(threading.current_thread().name)
            if event.type in ("message_end", "agent_end"):
                order.append(f"{name} {event.type}")

        return hear

    agent = Agent(
        ScriptedLlm(call("a"), "done"), tools=[tool("a")],
        before_tool_call=lambda *args: order.append(f"hook sees {len(agent.messages)}"),
    )  # fmt: skip
    agent.subscribe(listener("first"))
    agent.subscribe(listener("second"))
    with agent:
        agent.run("go")

    assert order[:5] == [
        "first message_end", "second message_end", "first message_end", "second message_end", "hook sees 2",
    ]  # fmt: skip
    assert order[-2:] == ["first agent_end", "second agent_end"]
    assert threads == {"yiemagent-agent"}


def test_a_listener_may_take_the_signal_too() -> None:
    """PI-78: (event) or (event, signal)."""
    one: list[Any] = []
    two: list[Any] = []
    star: list[Any] = []
    with Agent(ScriptedLlm("1")) as agent:
        agent.subscribe(one.append)
        agent.subscribe(lambda event, signal: two.append(signal))
        agent.subscribe(lambda *args: star.append(args))
        agent.run("x")

    assert len(one) == len(two) == len(star)
    assert all(isinstance(signal, AbortSignal) for signal in two)
    assert {len(args) for args in star} == {1}  # So that subscribe(print) prints events.


def test_a_listener_may_call_what_does_not_wait() -> None:
    """T38: state, steer, follow_up, abort, subscribe, prompt; no deadlock."""
    heard: list[str] = []

    def listener(event: Any) -> None:
        if event.type == "turn_start" and not heard:
            heard.append("once")
            agent.steer("steered")
            agent.follow_up("followed")
            agent.subscribe(lambda event: heard.append(event.type))
            assert agent.state.is_streaming
            assert agent.is_busy
            assert agent.has_queued_messages
            agent.prompt("prompted")

    agent = Agent(ScriptedLlm("1", "2", "3", "4"))
    agent.subscribe(listener)
    with agent:
        agent.run("go")
        agent.take_response(WAIT)
        agent.wait_for_idle(WAIT)

    asked = [message.text for message in agent.messages if message.role == "user"]
    assert asked == ["go", "steered", "followed", "prompted"]
    assert "turn_start" not in heard[:1]


def test_an_abort_from_a_listener_ends_the_run(tool: Any) -> None:
    """T38."""
    agent = Agent(ScriptedLlm(call("a")), tools=[tool("a")])
    agent.subscribe(lambda event: agent.abort("seen enough") if event.type == "message_end" else None)
    with agent, pytest.raises(RunAborted) as raised:
        agent.run("go", timeout=WAIT)

    assert raised.value.reason == "seen enough"


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_a_listener_that_raises_is_logged_once_and_the_others_hear(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Decision 23, D-22, T37, PI-74: the run goes on, for ever if need be."""
    heard: list[str] = []

    def bad(event: Any) -> None:
        raise raised

    with Agent(ScriptedLlm("1", "2")) as agent:
        agent.subscribe(bad)
        agent.subscribe(lambda event: heard.append(event.type))
        with caplog.at_level(logging.ERROR, "yiemagent"):
            assert agent.run("a", timeout=WAIT).text == "1"
            assert agent.run("b", timeout=WAIT).text == "2"

    assert heard.count("agent_end") == 2
    assert [record.name for record in caplog.records] == ["yiemagent.agent.listeners"]


def test_unsubscribing_ends_the_delivery_and_may_be_done_twice() -> None:
    """AG-19, AG-20, T31, T32."""
    heard: list[Any] = []
    with Agent(ScriptedLlm("1", "2")) as agent:
        unsubscribe = agent.subscribe(heard.append)
        agent.run("a")
        number = len(heard)
        unsubscribe()
        unsubscribe()
        agent.run("b")

    assert len(heard) == number > 0


def test_a_listener_may_unsubscribe_itself() -> None:
    """X4: inside its own call."""
    heard: list[str] = []
    others: list[str] = []

    def once(event: Any) -> None:
        heard.append(event.type)
        unsubscribe()

    with Agent(ScriptedLlm("1")) as agent:
        unsubscribe = agent.subscribe(once)
        agent.subscribe(lambda event: others.append(event.type))
        agent.run("a")

    assert heard == ["agent_start"]
    assert others[0] == "agent_start"


def test_subscribing_twice_delivers_twice_and_unsubscribing_takes_one_back() -> None:
    """AG-21."""
    heard: list[Any] = []
    with Agent(ScriptedLlm("1", "2")) as agent:
        agent.subscribe(heard.append)
        unsubscribe = agent.subscribe(heard.append)
        agent.run("a")
        doubled = len(heard)
        unsubscribe()
        heard.clear()
        agent.run("b")

    assert doubled == 2 * len(heard)


def test_a_listener_added_during_a_dispatch_hears_the_next_event() -> None:
    """PI-78: overridden, see the decisions; a dispatch goes over the listeners it began with."""
    heard: list[str] = []

    def adds(event: Any) -> None:
        if event.type == "agent_start":
            agent.subscribe(lambda event: heard.append(event.type))

    agent = Agent(ScriptedLlm("1"))
    agent.subscribe(adds)
    with agent:
        agent.run("a")

    assert heard[0] == "turn_start"


def test_what_cannot_be_called_is_refused() -> None:
    """Bad input."""
    with pytest.raises(ConfigurationError, match="must be callable"):
        Agent(ScriptedLlm()).subscribe("print")  # type: ignore[arg-type]


def test_every_event_was_delivered_before_idle(wait_spy: Any) -> None:
    """AG-23, AG-24, T17, T13, T14, T16: three waiters, all released by one end, after the last event."""
    gate, ending = Gate(), Gate()
    heard: list[str] = []

    def listener(event: Any) -> None:
        if event.type == "agent_end":
            ending.block()
        heard.append(event.type)

    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        agent.subscribe(listener)
        agent.prompt("a")
        gate.wait_entered()
        spy = wait_spy(agent._channels, "changed")
        waiters = []
        for _ in range(3):
            waiters.append(run_in_thread(agent.wait_for_idle, WAIT))
            spy.wait_for_waiter()
        gate.open()
        ending.wait_entered()
        assert all(waiter.running for waiter in waiters)  # Not idle before the listeners are done.
        ending.open()

        assert [waiter.get() for waiter in waiters] == [True] * 3
        assert heard[-1] == "agent_end"
        assert agent.take_response(timeout=0)["content"][0]["text"] == "1"
        assert spy.notified[-3:] == [True] * 3


def test_waiting_for_an_idle_agent_returns_at_once() -> None:
    """AG-25, T11, T12, T15: and a timeout is an answer, not an error."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        assert agent.wait_for_idle() is True
        agent.prompt("a")
        assert agent.wait_for_idle(0.001) is False
        assert agent.wait_for_idle(timeout=0) is False
        gate.open()
        assert agent.wait_for_idle(5) is True
        agent.take_response(WAIT)


def test_a_prompt_from_the_last_listener_is_a_clean_new_run() -> None:
    """X5, pi 0.77: never lost, whichever verb it is."""
    asked = iter([lambda: agent.prompt("b"), lambda: agent.follow_up("c")])

    def listener(event: Any) -> None:
        if event.type == "agent_end":
            next(asked, lambda: None)()

    agent = Agent(ScriptedLlm("1", "2", "3"))
    agent.subscribe(listener)
    with agent:
        agent.prompt("a")

        assert [agent.take_response(WAIT)["content"][0]["text"] for _ in range(3)] == ["1", "2", "3"]


@pytest.mark.parametrize("script", [("1", "2"), (fail(LlmError("no")), "2")], ids=["completed", "failed"])
def test_a_message_accepted_as_the_run_ends_does_not_claim_to_have_joined(script: Any) -> None:
    """Issue: follow_up and steer say whether the message joined the run, however it ended."""
    joined: list[bool] = []

    def listener(event: Any) -> None:
        if event.type == "agent_end" and not joined:
            joined.extend((agent.follow_up("b"), agent.steer("s")))

    agent = Agent(ScriptedLlm(*script))
    agent.subscribe(listener)
    with agent:
        agent.submit("a").exception(WAIT)
        agent.take_response(WAIT)

    assert joined == [False, False]


def test_an_event_sink_gets_readable_lines_without_deltas() -> None:
    """Decision 25, FR-005: the Julia design's eventSink."""
    lines: list[tuple[str, bool]] = []

    def event_sink(text: str, publish: bool = False) -> None:
        lines.append((text, publish))

    def prepare(context: Any, sink: Any) -> None:
        sink("preparing", publish=True)

    llm = ScriptedLlm(say("", chunks=["a", "b"]))
    with Agent(llm, event_sink=event_sink, prepare_context=prepare) as agent:
        agent.run("x")

    assert lines[0] == ("agent start", False)
    assert ("preparing", True) in lines
    assert lines[-1][0].startswith("agent end (completed)")
    assert not any("message update" in text for text, _ in lines)
    assert llm.options[0].want_deltas is False
    assert Log("preparing", True).publish


def test_the_library_prints_nothing_and_configures_no_logging(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tool: Any
) -> None:
    """Decision 28, D-31: no prompt, answer or tool output above DEBUG either."""
    before = list(logging.getLogger().handlers)
    with caplog.at_level(logging.INFO):
        agent = Agent(ScriptedLlm(call("a"), "the secret answer"), tools=[tool("a", lambda *args: 1 / 0)])
        with agent:
            agent.run("the secret prompt")

    assert capsys.readouterr() == ("", "")
    assert logging.getLogger().handlers == before
    assert "secret" not in caplog.text
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("yiemagent").handlers)


def test_a_slow_listener_holds_the_run_up_and_a_slow_reader_does_not_need_to(tool: Any) -> None:
    """D-23, D-35: listeners are on the agent's thread; ``stream`` is for those who take their time."""
    gate = Gate()
    with Agent(ScriptedLlm("1")) as agent:
        unsubscribe = agent.subscribe(lambda event: gate.block() if event.type == "turn_start" else None)
        agent.prompt("a")
        gate.wait_entered()
        assert agent.is_busy
        assert agent._channels.output == []
        gate.open()
        agent.take_response(WAIT)
        unsubscribe()


def test_a_sink_that_raises_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    """D-22, runbook 2.1."""

    def event_sink(text: str, publish: bool = False) -> None:
        raise OSError("closed file")

    with Agent(ScriptedLlm("1"), event_sink=event_sink) as agent:
        assert agent.run("x", timeout=WAIT).text == "1"
    assert len(caplog.records) == 1
