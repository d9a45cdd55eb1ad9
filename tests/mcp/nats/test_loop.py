"""The private loop: one thread for all its users, calls that can be left, gone with the last."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import subprocess
import sys
import threading
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import RunAborted
from yiemagent.mcp.nats_loop import PrivateLoop, _shared, lease_loop
from yiemagent.testing import WAIT, run_in_thread


@pytest.fixture
def loop() -> Any:
    """The loop, leased for the test; the guard sees its thread end."""
    leased = lease_loop()
    yield leased
    leased.release()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "yiemagent-nats-loop"]


def test_all_users_share_one_daemon_thread_that_ends_with_the_last() -> None:
    """Issue 5 part 4: one loop thread per process."""
    one, two = lease_loop(), lease_loop()

    assert one is two
    assert threads() == ["yiemagent-nats-loop"]
    one.release()
    assert threads() == ["yiemagent-nats-loop"]
    two.release()
    assert threads() == []
    again = lease_loop()
    assert again is not one
    again.release()


def test_a_call_gives_what_the_coroutine_returns_or_raises(loop: PrivateLoop) -> None:
    """Case E-22."""

    async def work(value: int) -> int:
        await asyncio.sleep(0)
        return 10 // value

    assert loop.call(lambda: work(5), WAIT) == 2
    with pytest.raises(ZeroDivisionError):
        loop.call(lambda: work(0), WAIT)


def test_a_call_that_is_left_cancels_its_coroutine(loop: PrivateLoop) -> None:
    """Section 7: run_coroutine_threadsafe alone would let it go on."""
    cancelled = threading.Semaphore(0)
    began = threading.Event()

    async def hang() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.release()

    with pytest.raises(TimeoutError):
        loop.call(hang, 0.05)
    assert cancelled.acquire(timeout=WAIT)

    signal = AbortSignal()
    began.clear()
    waiting = run_in_thread(loop.call, hang, None, signal)
    assert began.wait(WAIT)
    signal.abort()
    with pytest.raises(RunAborted):
        waiting.get()
    assert cancelled.acquire(timeout=WAIT)


def test_what_still_runs_is_cancelled_when_the_last_user_goes() -> None:
    """No task is destroyed while it is pending."""
    leased = lease_loop()
    cancelled, began = threading.Event(), threading.Event()

    async def hang() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    leased.post(lambda: leased.start(hang()))
    assert began.wait(WAIT)

    leased.release()

    assert cancelled.is_set()


def test_the_callers_context_does_not_live_on_in_the_loop(loop: PrivateLoop) -> None:
    """A connection outlives the request that made it, and must not keep what belongs to that."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nothing")
    variable.set("the caller's")

    async def look() -> str:
        return variable.get()

    assert loop.call(look, WAIT) == "nothing"


def test_names_are_resolved_without_holding_up_the_loop(loop: PrivateLoop) -> None:
    """Decision 20: a name server that hangs keeps nothing alive; numbers need no thread at all."""

    async def resolve(host: str) -> Any:
        return (await asyncio.get_running_loop().getaddrinfo(host, 80, type=1))[0][4]

    assert loop.call(lambda: resolve("127.0.0.1"), WAIT) == ("127.0.0.1", 80)
    assert loop.call(lambda: resolve("localhost"), WAIT)[1] == 80
    with pytest.raises(OSError, match=r"."):
        loop.call(lambda: resolve("no-such-host.invalid"), WAIT)


def test_leasing_and_releasing_from_many_threads_leaves_nothing_behind() -> None:
    """The first two users make one loop between them."""
    start = threading.Barrier(8)

    def churn() -> None:
        start.wait(WAIT)
        for _ in range(30):
            leased = lease_loop()
            try:
                leased.call(lambda: asyncio.sleep(0), WAIT)
            finally:
                leased.release()

    for outcome in [run_in_thread(churn) for _ in range(8)]:
        outcome.get()
    assert threads() == []


@pytest.mark.servers
def test_importing_the_client_loads_neither_nats_nor_asyncio() -> None:
    """Issue 5: nothing is loaded until a transport needs it."""
    script = (
        "import sys, yiemagent, yiemagent.mcp; "
        "print([m for m in ('nats', 'asyncio', 'requests', 'gevent') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.servers
def test_a_process_ends_while_a_loop_is_busy() -> None:
    """Decision 20: nothing of ours keeps the interpreter alive, and nothing is written at exit."""
    script = (
        "import asyncio; from yiemagent.mcp.nats_loop import lease_loop; "
        "loop = lease_loop(); loop.post(lambda: loop.start(asyncio.sleep(3600)))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_signal_handler_may_give_the_loop_back_wherever_its_thread_leases_it(at_line: Any) -> None:
    """D-20: closing a client in a signal handler."""
    for number in itertools.count(1):
        came: list[bool] = []

        def act(came: list[bool] = came) -> None:
            came.append(True)
            lease_loop().release()

        assert at_line(number, "mcp/nats_loop.py", act, lambda: lease_loop().release()) is None
        assert _shared._owners == 0
        if not came:
            break
    assert number > 10
