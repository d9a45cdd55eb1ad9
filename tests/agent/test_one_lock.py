"""One lock: the queues and flags of an agent change under it, and nothing foreign is called under it."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import yiemagent
from yiemagent import Agent
from yiemagent.abort import AbortSignal
from yiemagent.agent.leaving import _Leaving
from yiemagent.agent.queues import Channels
from yiemagent.agent.results import Response
from yiemagent.agent.subagents import SubagentPool
from yiemagent.agent.tickets import ActiveRun, RunHandle, Ticket
from yiemagent.errors import AgentBusy, RunAborted, WaitTimeout
from yiemagent.loop.redirect import Redirect
from yiemagent.messages import TextContent, UserMessage
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, run_in_thread, say

MESSAGE = UserMessage((TextContent("m"),))
GUARDED = (
    "input", "follow_ups", "steering", "output", "active", "stopping", "has_thread", "claim", "holding",
    "bell",
)  # fmt: skip


def free(lock: Any) -> bool:
    """Whether another thread can take *lock*."""

    def take() -> bool:
        if not lock.acquire(blocking=False):
            return False
        lock.release()
        return True

    return run_in_thread(take).get()


# -- under the lock ----------------------------------------------------------------------

CALLS: dict[str, Callable[[Channels, ActiveRun], object]] = {
    "accept_prompt": lambda c, run: c.accept_prompt(Ticket(()), deadline=None, timeout=None),
    "accept_follow_up": lambda c, run: c.accept_follow_up(Ticket(())),
    "accept_steering": lambda c, run: c.accept_steering([MESSAGE]),
    "steer_live": lambda c, run: c.steer_live(run, [MESSAGE]),
    "accept_continue": lambda c, run: c.accept_continue(lambda _: Ticket(())),
    "withdraw": lambda c, run: c.withdraw(c.input[0]),
    "next_run": lambda c, run: c.next_run(0.001),
    "claim_thread": lambda c, run: c.claim_thread(),
    "enter_thread": lambda c, run: c.enter_thread(c.claim or c.claim_thread()),
    "give_up_claim": lambda c, run: c.give_up_claim(c.claim or c.claim_thread()),
    "poll_steering": lambda c, run: c.poll_steering(run),
    "poll_follow_ups": lambda c, run: c.poll_follow_ups(run, lambda: Response("completed")),
    "try_finish": lambda c, run: c.try_finish(run),
    "close": lambda c, run: c.close(run),
    "put_back": lambda c, run: c.put_back(run, [MESSAGE]),
    "signal_to_abort": lambda c, run: c.signal_to_abort("enough"),
    "signal_of": lambda c, run: c.signal_of(run.ticket),
    "stop": lambda c, run: c.stop(),
    "has_queued": lambda c, run: c.has_queued,
    "clear": lambda c, run: c.clear(steering=True, follow_ups=True),
    "reset": lambda c, run: c.reset(lambda: None),
    "replace_history": lambda c, run: c.replace_history(lambda: None),
    "end_run": lambda c, run: c.end_run(run, Response("completed")),
    "thread_died": lambda c, run: c.thread_died(ValueError()),
    "take_output": lambda c, run: c.take_output(0, 0.0),
    "wait_idle": lambda c, run: c.wait_idle(0.0),
    "wait_without_thread": lambda c, run: c.wait_without_thread(0.0),
    "busy": lambda c, run: c.busy,
}
HELD_BY_THE_CALLER = {"take_steering"}
STATES = ("idle", "input", "running", "steered", "followed", "polled", "aborted", "answered")


def in_state(kind: type[Any], state: str) -> tuple[Channels, ActiveRun]:
    """Channels in that state, and the run in progress, or one that is none."""
    channels = kind()
    run: ActiveRun | None = ActiveRun(Ticket(()))
    if state != "idle":
        channels.accept_prompt(Ticket(()), deadline=None, timeout=None)
        channels.accept_prompt(Ticket(()), deadline=None, timeout=None)
    if state not in ("idle", "input"):
        run = channels.next_run(0)
        assert run is not None
    assert run is not None
    if state == "steered":
        channels.accept_steering([MESSAGE])
    if state in ("followed", "polled", "aborted"):
        channels.accept_follow_up(Ticket((MESSAGE,)))
    if state == "polled":
        channels.poll_follow_ups(run, lambda: Response("completed"))
    if state == "aborted":
        run.signal.abort()
    if state == "answered":
        channels.end_run(run, Response("completed"))
    return channels, run


@pytest.mark.parametrize("name", CALLS)
def test_queues_and_flags_are_touched_by_the_holder_of_the_lock_only(guard: Any, name: str) -> None:
    """F-14: what is looked at and what follows from it are one step, in every state."""
    watched = guard.watch(Channels, "lock", GUARDED)
    for state in STATES:
        channels, run = in_state(watched, state)
        # Refused, or nothing there: what was looked at for that counts too.
        with contextlib.suppress(AgentBusy, WaitTimeout, IndexError):
            CALLS[name](channels, run)


def test_every_method_of_the_channels_is_among_those() -> None:
    """A new one has to show that it keeps to the lock."""
    public = {name for name in dir(Channels) if not name.startswith("_")}

    assert public == set(CALLS) | HELD_BY_THE_CALLER


# -- nothing foreign under it ------------------------------------------------------------


@pytest.mark.parametrize("end", ["abort", "stop", "give_up"])
def test_an_abort_runs_its_callbacks_outside_the_lock(end: str) -> None:
    """A7: a tool closes its socket there, and that may take another thread that asks the agent."""
    gate = Gate()
    seen: list[bool] = []
    agent = Agent(ScriptedLlm(say("x", before=gate)))

    def listener(event: Any, signal: AbortSignal) -> None:
        if event.type == "agent_start":
            signal.on_abort(lambda: seen.append(free(agent._channels.lock)))

    agent.subscribe(listener)
    stream = agent.stream("go")
    gate.wait_entered()
    {"abort": agent.abort, "stop": agent.stop, "give_up": stream.close}[end]()

    assert seen == [True]
    gate.open()
    agent.stop()


@pytest.mark.parametrize("end", ["answered", "stopped", "died"])
def test_the_callbacks_of_a_future_run_outside_every_lock(end: str) -> None:
    """D-04: they are the application's."""
    gate = Gate()
    seen: list[list[bool]] = []
    agent = Agent(ScriptedLlm(say("x", before=gate), "y"))
    first = agent.submit("first")
    future = first if end != "stopped" else agent.submit("second")
    handle = RunHandle()
    locks = [agent._channels.lock]
    future.add_done_callback(lambda _: seen.append([free(lock) for lock in locks]))
    gate.wait_entered()
    if end == "answered":
        gate.open()
        first.result(WAIT)
    elif end == "stopped":
        agent.stop()
    else:
        agent._channels.thread_died(ValueError())
    assert agent.wait_for_idle(WAIT) if end == "answered" else True
    gate.open()
    agent.stop()

    assert seen == [[True]]
    handle.when_done(lambda done: seen.append([free(done._lock)]))
    handle.finish(None, ValueError())
    handle.when_done(lambda done: seen.append([free(done._lock)]))
    assert seen[1:] == [[True], [True]]


@pytest.mark.parametrize("answering", ["end_run", "poll_follow_ups"])
def test_what_is_logged_of_a_full_output_is_logged_outside_the_lock(answering: str) -> None:
    """D-22: a handler may block, or log through an agent of its own."""
    channels, run = in_state(Channels, "followed")
    channels.output.extend([Response("completed")] * 16)
    seen: list[bool] = []

    class Looking(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(free(channels.lock))
            channels.output.clear()

    handler, logger = Looking(), logging.getLogger("yiemagent.agent.output")
    logger.addHandler(handler)
    try:
        CALLS[answering](channels, run)
    finally:
        logger.removeHandler(handler)

    assert seen == [True]


def test_a_response_is_made_outside_the_lock() -> None:
    """It is put together from the whole history of the run."""
    channels, run = in_state(Channels, "followed")
    seen: list[bool] = []

    def response() -> Response:
        seen.append(free(channels.lock))
        return Response("completed")

    channels.poll_follow_ups(run, response)

    assert seen == [True]


def test_stop_waits_for_the_thread_outside_the_lock() -> None:
    """F-20: everybody else is told meanwhile."""
    agent = Agent(ScriptedLlm())
    seen: list[bool] = []

    class Ended:
        ident = 1

        def join(self, timeout: float | None) -> None:
            seen.append(free(agent._channels.lock))

        def is_alive(self) -> bool:
            return False

    agent._thread = Ended()  # type: ignore[assignment]

    assert agent.stop() is True
    assert seen == [True]


def test_a_listener_may_have_another_thread_subscribe() -> None:
    """D-23: listeners are called outside their lock."""
    with Agent(ScriptedLlm("x")) as agent:
        done: list[object] = []

        def listener(event: Any) -> None:
            if event.type == "agent_start":
                done.append(run_in_thread(agent.subscribe, lambda later: None).get())

        agent.subscribe(listener)
        agent.run("go")

    assert len(done) == 1


@pytest.mark.parametrize("first", ["request", "begin_call"])
def test_a_redirected_call_is_aborted_outside_the_lock_of_the_request(first: str) -> None:
    """R1: its callbacks close sockets, and may wait for a thread that redirects too."""
    redirect, call_signal = Redirect(), AbortSignal()
    ran: list[object] = []
    call_signal.on_abort(lambda: ran.append(run_in_thread(redirect.clear).get()))
    if first == "request":
        redirect.request()
        redirect.begin_call(call_signal)
    else:
        redirect.begin_call(call_signal)
        redirect.request()

    assert ran == [None]


def test_a_pool_stops_its_agents_outside_its_lock() -> None:
    """SB-3: the end of a run may ask the pool."""
    pool, gate = SubagentPool(), Gate()
    told: list[str] = []
    counted: list[int] = []
    agent = pool.start(ScriptedLlm(say("x", before=gate)))

    def listener(event: Any) -> None:
        told.append(event.type)
        counted.append(run_in_thread(pool.count).get())

    agent.subscribe(listener)
    agent.prompt("go")
    gate.wait_entered()

    assert pool.stop_all()
    assert len(counted) == len(told)
    assert (counted[0], counted[-1]) == (1, 0)
    gate.open()


def test_the_exit_tells_the_agents_outside_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-19: what an agent is told may make somebody use a first one."""
    monkeypatch.setattr("atexit.register", lambda function: function)
    leaving, channels, handle = _Leaving(), Channels(), RunHandle()
    leaving.add(channels)
    channels.accept_prompt(Ticket((), handle=handle), deadline=None, timeout=None)
    ran: list[object] = []
    handle.when_done(lambda _: ran.append(run_in_thread(leaving.add, Channels()).get()))

    leaving.leave()

    assert ran == [None]


# -- taken directly ----------------------------------------------------------------------

PACKAGE = str(Path(yiemagent.__file__).parent)


@pytest.fixture
def through_conditions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where the package takes a lock through its condition, or an event's, which does so itself."""
    places: list[str] = []

    def note(depth: int) -> None:
        code = sys._getframe(depth).f_code
        if code.co_filename.startswith(PACKAGE):
            places.append(f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_name}")

    enter, wait = threading.Condition.__enter__, threading.Event.wait

    def noting_enter(self: Any) -> Any:
        note(2)
        return enter(self)

    def noting_wait(self: Any, timeout: float | None = None) -> bool:
        note(2)
        return wait(self, timeout)

    monkeypatch.setattr(threading.Condition, "__enter__", noting_enter)
    monkeypatch.setattr(threading.Event, "wait", noting_wait)
    return places


def test_locks_are_taken_directly_and_not_through_their_conditions(
    tool: Any, through_conditions: list[str]
) -> None:
    """D-08: Ctrl-C comes between two lines of Python, as the condition's, and the lock stays taken."""
    gate = Gate()
    with Agent(ScriptedLlm(call("a"), "1", "2", say("3", before=gate)), tools=[tool("a")]) as agent:
        agent.run("x")
        agent.prompt("y").take_response(WAIT)
        stream = agent.stream("z")
        gate.wait_entered()
        stream.close()
        with pytest.raises(RunAborted):
            stream.result(WAIT)
        agent.wait_for_idle(WAIT)
        assert AbortSignal().wait(0.001) is False
        gate.open()

    assert not [place for place in through_conditions if "/testing/" not in place]
