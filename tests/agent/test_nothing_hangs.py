"""Nothing hangs: each blocking call against the nastiest ways to kill a run, and what the caller gets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.agent.queues import Channels
from yiemagent.agent.tickets import RunHandle, Ticket
from yiemagent.errors import (
    AgentStopped,
    HookFailed,
    LlmError,
    RunAborted,
    WaitTimeout,
)
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, run_in_thread, say


class Killer(BaseException):
    """No Exception: what slips through ``except Exception``."""


def raising(error: BaseException) -> Callable[..., Any]:
    def hook(*args: Any, **kwargs: Any) -> Any:
        raise error

    return hook


class Dying(ScriptedLlm):
    """A model that dies of *error*, at once or in the middle of its stream."""

    def __init__(self, error: BaseException, *, midway: bool = False) -> None:
        super().__init__("half")
        self.error = error
        self.midway = midway

    def stream(self, context: Any, options: Any) -> Iterator[Any]:
        if not self.midway:
            raise self.error
        for event in super().stream(context, options):
            yield event
            raise self.error


class Mute(logging.Handler):
    """A log handler that dies."""

    def emit(self, record: logging.LogRecord) -> None:
        raise Killer("log handler")


def exits(*args: Any) -> Any:
    raise SystemExit(3)


Agents = Callable[[Any], Agent]


def hooked(name: str, error: BaseException, *script: Any) -> Agents:
    """An agent with a hook that raises; its script calls tool a first if it is a hook of tool calls."""
    return lambda t: Agent(ScriptedLlm(*script), tools=[t("a")], **{name: raising(error)})


# What kills the run, and what a caller gets: an error, or None for an answer.
WAYS: dict[str, tuple[Agents, type[BaseException] | None]] = {
    "transform hook raises": (hooked("transform_context", ValueError("no")), HookFailed),
    "context hook exits": (hooked("prepare_context", SystemExit(1)), HookFailed),
    "convert hook kills": (hooked("convert_to_llm", Killer()), HookFailed),
    "key hook is interrupted": (hooked("get_api_key", KeyboardInterrupt()), RunAborted),
    "stop hook kills": (hooked("should_stop_after_turn", Killer(), "x"), HookFailed),
    "next hook kills": (hooked("prepare_next_turn", Killer(), call("a")), HookFailed),
    "before hook kills": (hooked("before_tool_call", Killer(), call("a"), "x"), None),
    "after hook kills": (hooked("after_tool_call", Killer(), call("a"), "x"), None),
    "around hook kills": (hooked("around_tool_call", Killer(), call("a"), "x"), None),
    "sink kills": (hooked("event_sink", Killer(), "x"), None),
    "tool exits": (lambda t: Agent(ScriptedLlm(call("a"), "x"), tools=[t("a", exits)]), None),
    "tool kills": (lambda t: Agent(ScriptedLlm(call("a"), "x"), tools=[t("a", raising(Killer()))]), None),
    "model raises": (lambda t: Agent(Dying(ValueError("no"))), LlmError),
    "model exits": (lambda t: Agent(Dying(SystemExit(1))), LlmError),
    "model kills": (lambda t: Agent(Dying(Killer())), LlmError),
    "model is interrupted": (lambda t: Agent(Dying(KeyboardInterrupt())), LlmError),
    "model dies midway": (lambda t: Agent(Dying(Killer(), midway=True)), LlmError),
    "model memory": (lambda t: Agent(Dying(MemoryError())), LlmError),
    "llm_call kills": (lambda t: Agent(raising(Killer())), LlmError),
}


@pytest.fixture(params=list(WAYS))
def dying(request: pytest.FixtureRequest, tool: Any) -> Iterator[tuple[Agent, type[BaseException] | None]]:
    """An agent whose next run is killed, and what its caller gets."""
    make, error = WAYS[request.param]
    agent = make(tool)
    yield agent, error
    agent.stop()


def outcome_of(wait: Callable[[], Any]) -> type[BaseException] | None:
    """The class of what a blocking call raised, from the second it is over; None for a value."""
    outcome = run_in_thread(wait)
    try:
        outcome.get()
    except AssertionError:
        raise
    except BaseException as error:
        return type(error)
    return None


def is_a(raised: type[BaseException] | None, expected: type[BaseException] | None) -> bool:
    return raised is expected is None or (
        raised is not None and expected is not None and issubclass(raised, expected)
    )


def test_run_gets_the_error(dying: Any) -> None:
    """D-04, D-28, PI-73, T108, T131: and the agent is idle afterwards."""
    agent, expected = dying

    assert is_a(outcome_of(lambda: agent.run("go")), expected)
    assert agent.wait_for_idle(WAIT)


def test_take_response_gets_the_error(dying: Any) -> None:
    """D-04, WT-030."""
    agent, expected = dying
    agent.prompt("go")

    assert is_a(outcome_of(agent.take_response), expected)


def test_a_future_gets_the_error(dying: Any) -> None:
    """D-04."""
    agent, expected = dying
    future = agent.submit("go")

    assert is_a(outcome_of(future.result), expected)


def test_a_stream_ends_and_its_result_is_the_error(dying: Any) -> None:
    """PI-10, D-04: with its one terminal event."""
    agent, expected = dying
    stream = agent.stream("go")
    types = run_in_thread(lambda: [event.type for event in stream]).get()

    assert types[-1] == "agent_end"
    assert types.count("agent_end") == 1
    assert is_a(outcome_of(stream.result), expected)


def test_wait_for_idle_returns(dying: Any) -> None:
    """AG-26: whoever waits for idle is released."""
    agent, _ = dying
    agent.prompt("go")

    assert run_in_thread(agent.wait_for_idle).get() is True


def test_stop_returns(dying: Any) -> None:
    """F-20: whatever state the run is in."""
    agent, _ = dying
    agent.prompt("go")

    assert run_in_thread(agent.stop).get() is True


def test_the_next_prompt_is_answered(tool: Any) -> None:
    """D-28, T19: the thread survives, or is replaced."""
    script = iter([Killer(), SystemExit(1), None])

    def transform(messages: Any, signal: Any) -> Any:
        error = next(script)
        if error is not None:
            raise error
        return messages

    with Agent(ScriptedLlm("fine"), transform_context=transform) as agent:
        for _ in range(2):
            with pytest.raises(HookFailed):
                agent.run("go", timeout=WAIT)

        assert agent.run("go", timeout=WAIT).text == "fine"


@pytest.mark.parametrize("name", ["yiemagent", "yiemagent.agent.listeners"])
def test_a_listener_and_a_log_handler_that_both_die_cost_nobody_the_answer(name: str) -> None:
    """D-04, D-22: the worst place to fail is where failures are told of."""
    handler, log = Mute(), logging.getLogger(name)
    log.addHandler(handler)
    try:
        agent = Agent(ScriptedLlm("x"))
        agent.subscribe(raising(Killer()))
        assert outcome_of(lambda: agent.run("go")) is None
        assert agent.wait_for_idle(WAIT)
        assert agent.stop() is True
    finally:
        log.removeHandler(handler)


# -- silence -----------------------------------------------------------------------------


def waits(agent: Agent) -> dict[str, Callable[[], Any]]:
    """Every public call that blocks, begun while a run hangs."""
    stream = agent.stream("later")
    return {
        "run": lambda: agent.run("x"),
        "take_response": agent.take_response,
        "future": agent.submit("y").result,
        "stream": lambda: list(stream),
        "stream.result": stream.result,
        "wait_for_idle": agent.wait_for_idle,
    }


EXPECTED: dict[str, type[BaseException] | None] = {
    "run": AgentStopped,
    "take_response": AgentStopped,
    "future": AgentStopped,
    "stream": None,
    "stream.result": AgentStopped,
    "wait_for_idle": None,
}


@pytest.mark.parametrize("where", ["model", "tool"])
def test_stop_from_another_thread_wakes_every_call_that_blocks(where: str, blocking: Any) -> None:
    """F-20, F-21, D-04, D-05: while the provider, or the tool, still hangs."""
    gate = Gate()
    script = [say("x", before=gate)] if where == "model" else [call("hangs")]
    agent = Agent(ScriptedLlm(*script), tools=[blocking(gate)], abort_grace=0.0)
    running = agent.submit("go")
    gate.wait_entered()
    outcomes = {name: run_in_thread(wait) for name, wait in waits(agent).items()}
    while len(agent._channels.input) < 3:
        threading.Event().wait(0.001)

    assert agent.stop() is True
    for name, outcome in outcomes.items():
        raised = outcome_of(outcome.get)
        assert is_a(raised, EXPECTED[name]), name
    with pytest.raises(RunAborted):
        running.result(0)
    gate.open()


def test_stop_while_the_loop_waits_for_room_and_a_caller_for_input() -> None:
    """D-21, F-20: no put into a full channel is ever waited for."""
    agent = Agent(ScriptedLlm(*["x"] * 40))
    for number in range(33):
        agent.prompt(str(number))
    blocked = run_in_thread(agent.run, "last")
    while len(agent._channels.input) < 16:
        threading.Event().wait(0.001)

    assert agent.stop() is True
    with pytest.raises(AgentStopped):
        blocked.get()


def test_a_silent_provider_is_left_by_a_timeout() -> None:
    """H2, F-04: run(timeout=) needs no word from the provider."""
    gate = Gate()
    with Agent(ScriptedLlm(say("x", before=gate))) as agent:
        with pytest.raises(WaitTimeout):
            agent.run("go", timeout=0.05)
        assert agent.wait_for_idle(WAIT)
        gate.open()


def test_a_thread_that_cannot_be_started_leaves_nothing_queued() -> None:
    """D-04: the prompt was refused, so it must not be answered later."""

    class NoThread(Agent):
        __slots__ = ("fails",)

        def _ensure_thread(self) -> None:
            if self.fails and (claim := self._channels.claim_thread()):
                self._channels.give_up_claim(claim)
                raise RuntimeError("can't start new thread")
            super()._ensure_thread()

    agent = NoThread(ScriptedLlm("2"))
    agent.fails = True
    with pytest.raises(RuntimeError, match="can't start new thread"):
        agent.prompt("refused")
    assert agent.is_busy is False
    agent.fails = False

    assert agent.run("taken", timeout=WAIT).text == "2"
    assert [message.text for message in agent.messages] == ["taken", "2"]
    agent.stop()


def test_a_prompt_whose_thread_was_not_started_is_answered_by_the_next_wait() -> None:
    """D-08: Ctrl-C between accepting the message and starting the thread."""
    agent = Agent(ScriptedLlm("1"))
    agent._prepare()
    agent._channels.accept_prompt(Ticket(()), deadline=None, timeout=None)

    assert agent.take_response(WAIT)["content"][0]["text"] == "1"
    agent.stop()


def test_a_thread_whose_start_was_interrupted_and_that_came_up_all_the_same_is_the_only_one() -> None:
    """D-08: Ctrl-C in Thread.start(); two threads must never take tickets of one agent."""
    channels = Channels()
    channels.accept_prompt(Ticket(()), deadline=None, timeout=None)
    late = channels.claim_thread()
    assert late is not None
    channels.give_up_claim(late)
    second = channels.claim_thread()
    assert second is not None

    assert channels.enter_thread(late) is False
    assert channels.enter_thread(second) is True
    channels.give_up_claim(second)  # Interrupted after the thread had entered: it goes on.
    assert channels.has_thread
    assert channels.claim_thread() is None


# -- the last net ------------------------------------------------------------------------


def test_everybody_who_waits_for_one_result_is_woken_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 5: by the result itself; the slices, too long here, would hide that a wake-up is missing."""
    monkeypatch.setattr("yiemagent.agent.tickets.SLICE", 60.0)
    handle, waits = RunHandle(), threading.Semaphore(0)
    gate = handle._gate

    class Spy:
        release = gate.release

        def acquire(self, timeout: float) -> bool:
            waits.release()
            return gate.acquire(timeout=timeout)

    handle._gate = Spy()  # type: ignore[assignment]
    waiters = [run_in_thread(handle.wait, None) for _ in range(3)]
    for _ in waiters:
        assert waits.acquire(timeout=WAIT)

    handle.finish(None, ValueError("over"))

    assert [waiter.get() for waiter in waiters] == [True] * 3


def test_whoever_waits_is_told_when_the_agents_thread_itself_dies() -> None:
    """D-04: a defect of ours in the one place where nothing should fail."""
    error = MemoryError("no room")
    channels = Channels()
    handle = RunHandle()
    channels.accept_prompt(Ticket((), handle=handle), deadline=None, timeout=None)
    channels.accept_prompt(Ticket(()), deadline=None, timeout=None)
    assert channels.claim_thread()
    for _ in range(2):
        assert channels.next_run(0) is not None
        taker = run_in_thread(channels.wait_idle, None)
        channels.thread_died(error)
        assert channels.active is None
        assert channels.has_thread is False
    assert taker.get() is True

    with pytest.raises(MemoryError):
        handle.outcome()
    assert channels.take_output(0, 0.0).error is error
    assert channels.claim_thread() is None
