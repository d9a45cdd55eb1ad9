"""Finalizers and signal handlers: they come at any line, also of the code that holds the lock they want."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.net.errors import HttpAborted, HttpTimeout
from yiemagent.net.exchange import Exchange
from yiemagent.net.lanes import Lanes


def test_an_abort_wherever_its_own_thread_is_in_the_connecting_ends_it(at_line: Callable[..., Any]) -> None:
    """D-20, F-04: a dropped stream aborts its run from a collection in the very thread that connects."""
    never = threading.Event()
    for number in count(1):
        signal = AbortSignal()
        exchange = Exchange(signal, monotonic() + 0.05, 0.05, None)
        connect = lambda: exchange.connect(SimpleNamespace(close=lambda: None), never.wait)  # noqa: B023, E731
        ended = at_line(number, "exchange.py", signal.abort, connect)
        if not signal.aborted:
            break
        # Behind its last look the time was up, or it came too late for anything.
        assert isinstance(ended, HttpAborted) or number > 10
    never.set()

    assert number > 10
    assert isinstance(ended, HttpTimeout)


@pytest.mark.parametrize("step", ["attach", "end"])
def test_an_abort_wherever_its_own_thread_is_in_an_exchange_cuts_it_or_comes_too_late(
    step: str, at_line: Callable[..., Any]
) -> None:
    """F-05: a socket that was given to the exchange is shut down, one that it let go of is not."""
    for number in count(1):
        signal, shut = AbortSignal(), []
        sock = SimpleNamespace(shutdown=shut.append)
        exchange = Exchange(signal, None, None, None)
        exchange.attach(sock) if step == "end" else None
        act = lambda: exchange.attach(sock) if step == "attach" else exchange.end()  # noqa: B023, E731
        ended = at_line(number, "exchange.py", signal.abort, act)
        if not signal.aborted:
            break
        if step == "attach":
            assert isinstance(ended, HttpAborted) or shut
    assert number > 3


class IdleLane:
    key = "key"
    exchange = None
    idle_since = 0.0
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("step", ["take", "give", "sweep", "close"])
def test_a_lane_may_come_back_wherever_its_thread_is_among_the_lanes(
    step: str, at_line: Callable[..., Any]
) -> None:
    """D-20: an answer that was dropped half read gives its connection back from a collection."""
    for number in count(1):
        lanes, first, second, late = Lanes(), IdleLane(), IdleLane(), IdleLane()
        lanes.give(first)  # type: ignore[arg-type]
        came: list[bool] = []
        taken: list[Any] = []
        if step == "sweep":
            lanes._swept = -1000.0

        def comes(lanes: Any = lanes, late: Any = late, came: list[bool] = came) -> None:
            came.append(True)
            lanes.give(late)

        act = {
            "take": lambda: taken.append(lanes.take("key", 60)),  # noqa: B023
            "give": lambda: lanes.give(second),  # type: ignore[arg-type]  # noqa: B023
            "sweep": lambda: lanes.give(second),  # type: ignore[arg-type]  # noqa: B023
            "close": lanes.close,
        }[step]
        at_line(number, "lanes.py", comes, act)
        if not came:
            break
        while (lane := lanes.take("key")) is not None:
            taken.append(lane)
        given = {first, late} if step in ("take", "close") else {first, second, late}
        assert {lane for lane in given if lane in taken or lane.closed} == given
        assert len(taken) == len(set(taken))
    assert number > 3
