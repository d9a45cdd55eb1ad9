"""Finalizers and signal handlers: they come at any line, also of the code that holds the lock they want."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import Any

from yiemagent.agent.tickets import RunHandle
from yiemagent.kept_thread import KeptThread
from yiemagent.tools.pool import AbandonedTool, ToolThreads


def test_a_finalizer_may_settle_a_result_wherever_its_thread_is_in_it(at_line: Callable[..., Any]) -> None:
    """D-20: a dropped stream withdraws its prompt from a collection; the first outcome counts."""
    for number in count(1):
        handle, first, late = RunHandle(), ValueError("first"), ValueError("late")
        told: list[Any] = []
        came: list[bool] = []

        def body(handle: RunHandle = handle, told: list[Any] = told, first: Any = first) -> None:
            handle.when_done(lambda done: told.append(done.error))
            handle.wait(monotonic())
            handle.finish(None, first)

        def act(handle: RunHandle = handle, came: list[bool] = came, late: Any = late) -> None:
            came.append(True)
            handle.finish(None, late)

        assert at_line(number, "agent/tickets.py", act, body) is None
        assert told in ([first], [late])
        if not came:
            break

    assert number > 10


def test_a_result_is_whole_as_soon_as_it_is_there(at_line: Callable[..., Any]) -> None:
    """Rule 5: who waits looks from another thread, at any line of the one that sets it."""
    for number in count(1):
        handle, seen = RunHandle(), []

        def body(handle: RunHandle = handle) -> None:
            handle.finish(None, ValueError("over"))

        def act(handle: RunHandle = handle, seen: list[Any] = seen) -> None:
            seen.append((handle.done, handle.error is not None))

        assert at_line(number, "agent/tickets.py", act, body) is None
        if not seen:
            break
        assert seen in ([(False, False)], [(True, True)])

    assert number > 5


def test_a_finalizer_may_close_the_tool_threads_wherever_its_thread_is_in_them(
    at_line: Callable[..., Any],
) -> None:
    """D-20: a dropped agent ends its threads from a collection."""
    for number in count(1):
        threads, came = ToolThreads(), []

        def body(threads: ToolThreads = threads) -> None:
            threads.give_back(KeptThread("pool"))
            kept, left = threads.take(), AbandonedTool("t1", "a")
            threads.abandon(kept, left)
            threads.came_back(left)
            threads.close()

        def act(threads: ToolThreads = threads, came: list[bool] = came) -> None:
            came.append(True)
            threads.close()

        assert at_line(number, "tools/pool.py", act, body) is None
        assert threads.abandoned == ()
        if not came:
            break

    assert number > 10
