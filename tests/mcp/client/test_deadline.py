"""The clock of a call."""

from __future__ import annotations

import math

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.mcp.deadline import Deadline, check_seconds


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_deadline_ends_when_its_seconds_are_over() -> None:
    """Decision 26: seconds on the monotonic clock."""
    clock = Clock()
    deadline = Deadline(5, clock=clock)
    assert (deadline.remaining(), deadline.expired) == (5, False)
    clock.now += 5
    assert (deadline.remaining(), deadline.expired) == (0, True)


def test_none_never_ends_and_zero_has_ended_already() -> None:
    """Decision 26."""
    assert (Deadline(None).remaining(), Deadline(None).expired) == (None, False)
    assert Deadline(0).expired


def test_progress_gives_the_time_anew_but_never_past_the_hard_limit() -> None:
    """Field problem 29: progress resets the clock, with a hard maximum."""
    clock = Clock()
    deadline = Deadline(10, limit=25, clock=clock)
    clock.now += 8
    deadline.extend(10)
    assert deadline.remaining() == 10
    clock.now += 9
    deadline.extend(10)
    assert deadline.remaining() == 8
    clock.now += 8
    deadline.extend(10)
    assert deadline.expired


def test_extending_never_makes_it_earlier() -> None:
    """A late progress note must not cut a longer deadline short."""
    clock = Clock()
    deadline = Deadline(60, clock=clock)
    deadline.extend(1)
    assert deadline.remaining() == 60


def test_the_clock_stands_still_while_the_user_is_asked() -> None:
    """Elicitation takes as long as a person does."""
    clock = Clock()
    deadline = Deadline(10, clock=clock)
    clock.now += 4
    deadline.hold(seconds=600)
    clock.now += 300
    assert not deadline.expired
    assert deadline.remaining() == pytest.approx(0.5)
    deadline.release()
    assert deadline.remaining() == 6


def test_a_question_that_is_never_answered_ends_the_call_all_the_same() -> None:
    """Every wait has a deadline."""
    clock = Clock()
    deadline = Deadline(10, clock=clock)
    deadline.hold(seconds=600)
    clock.now += 611
    assert deadline.expired


def test_two_questions_at_once_hold_the_clock_until_both_are_answered() -> None:
    """The server may ask several things at the same time."""
    clock = Clock()
    deadline = Deadline(10, clock=clock)
    deadline.hold()
    deadline.hold()
    clock.now += 50
    deadline.release()
    clock.now += 50
    assert not deadline.expired
    deadline.release()
    assert deadline.remaining() == 10


def test_holding_a_call_without_a_deadline_changes_nothing() -> None:
    """None stays None."""
    deadline = Deadline(None)
    deadline.hold(seconds=1)
    deadline.release()
    assert deadline.remaining() is None


def test_a_part_of_a_call_ends_with_the_call_at_the_latest() -> None:
    """E-10: one deadline passed down through all layers."""
    clock = Clock()
    deadline = Deadline(10, clock=clock)
    assert deadline.within(3).remaining() == 3
    assert deadline.within(30).remaining() == 10
    assert deadline.within(None).remaining() == 10
    assert Deadline(None).within(None).remaining() is None


@pytest.mark.parametrize("value", [-1, math.nan, "5", True, [1]])
def test_what_is_no_time_is_refused_with_its_name(value: object) -> None:
    """Messages name the thing, the value and the way out."""
    with pytest.raises(ConfigurationError, match="connect_timeout must be seconds"):
        check_seconds("connect_timeout", value)  # type: ignore[arg-type]


def test_infinity_means_no_limit() -> None:
    """People write float("inf")."""
    assert check_seconds("timeout", math.inf) is None
    assert check_seconds("timeout", 3) == 3.0
