"""Who reads the pipe: the serving thread, or a caller while it waits."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from yiemagent.errors import McpConnectionError
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.intake import AT_ONCE, BRISK, QUIET, Intake
from yiemagent.mcp.outbox import Outbox
from yiemagent.testing import WAIT, run_in_thread

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs epoll")


SPINS_FOR_EVER = 10_000
"""Readings of the clock in one wait that only who does not sleep makes."""


class Pipe:
    """A pipe, what was read of it, and where its serving thread would wait."""

    def __init__(self, *, with_epoll: bool = True) -> None:
        self.read_end, self.write_end = os.pipe()
        self.epoll = select.epoll() if with_epoll else None
        if self.epoll is not None:
            self.epoll.register(self.read_end, select.EPOLLIN)
        self.got: list[bytes] = []
        self.ctrl_c = False
        self.woken: list[str] = []
        self.now = 100.0
        self.tick = 0.0
        self.readings = 0
        self.answer_at: int | None = None
        self.intake = Intake(
            self.read_end, self._take, self.epoll, lambda: self.woken.append("woken"), self.clock
        )

    def _take(self, chunk: bytes) -> None:
        if self.ctrl_c:
            self.ctrl_c = False
            raise KeyboardInterrupt
        self.got.append(chunk)

    def clock(self) -> float:
        """The time, *tick* later at each reading; the server may answer at a reading."""
        self.readings += 1
        assert self.readings < SPINS_FOR_EVER
        if self.readings == self.answer_at:
            self.write(b"answer")
        self.now += self.tick
        return self.now

    def write(self, data: bytes) -> None:
        os.write(self.write_end, data)

    def waits_for_data(self) -> bool:
        """Whether the serving thread is woken by what is in the pipe."""
        assert self.epoll is not None
        return bool(self.epoll.poll(0))

    def call(self, answer: bytes = b"answer", *, after: float = 0.0) -> None:
        """A caller asks, *after* so many seconds, and reads its answer."""
        self.now += after
        before = len(self.got)
        assert self.intake.begin("a call")
        self.write(answer)
        self.intake.read_while(lambda: len(self.got) == before, Deadline(WAIT))
        self.intake.end()

    def wait_in_vain(self, *, tick: float = 0.0) -> None:
        """A caller asks and is not answered in time; each reading of the clock takes *tick* seconds."""
        assert self.intake.begin("a call")
        self.readings, self.tick = 0, tick
        self.intake.read_while(_always, Deadline(0.0))
        self.tick = 0.0
        self.intake.end()

    def call_briskly(self) -> None:
        """Two calls in quick succession: from the second on the pipe is left unwatched."""
        self.call()
        self.call()

    def is_watched(self) -> bool:
        """Whether news would wake the serving thread. They are read."""
        self.write(b"news")
        watched = self.waits_for_data()
        self.intake.read()
        return watched

    def close(self) -> None:
        self.intake.close()
        os.close(self.write_end)
        if self.epoll is not None:
            self.epoll.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def _always() -> bool:
    return True


def test_a_caller_reads_until_it_has_what_it_wants(pipe: Pipe) -> None:
    """Issue 5, "Cost": the answer is not handed from thread to thread."""
    assert pipe.intake.begin("a call")
    pipe.write(b"one")
    assert not pipe.waits_for_data()  # the serving thread sleeps on
    pipe.intake.read_while(lambda: not pipe.got, Deadline(WAIT))
    pipe.intake.end()
    assert pipe.got == [b"one"]
    pipe.write(b"two")
    assert pipe.waits_for_data()


def test_only_one_thread_reads(pipe: Pipe) -> None:
    """Bytes stay in order."""
    assert pipe.intake.begin("a call")
    assert not pipe.intake.begin("a call")
    pipe.write(b"x")
    assert pipe.intake.read()  # not the end, but nothing taken
    assert pipe.got == []
    pipe.intake.end()
    assert pipe.intake.begin("a call")
    pipe.intake.end()


def test_a_reading_caller_can_be_interrupted(pipe: Pipe) -> None:
    """Abort and close wake it."""
    assert pipe.intake.begin("a call")
    outcome = run_in_thread(pipe.intake.read_while, _always, Deadline(None))
    pipe.intake.interrupt()
    outcome.get()
    pipe.intake.end()


def test_an_interruption_that_comes_too_late_costs_one_round_only(pipe: Pipe) -> None:
    """It must not be remembered for ever."""
    pipe.intake.interrupt()
    assert pipe.intake.begin("a call")
    pipe.intake.read_while(_always, Deadline(None))
    pipe.write(b"x")
    pipe.intake.read_while(lambda: not pipe.got, Deadline(WAIT))
    pipe.intake.end()
    assert pipe.got == [b"x"]


def test_a_reading_caller_stops_at_its_deadline(pipe: Pipe) -> None:
    """Every wait has one."""
    assert pipe.intake.begin("a call")
    pipe.intake.read_while(_always, Deadline(0.01))
    pipe.intake.end()


def test_the_end_of_the_stream_is_left_to_the_serving_thread() -> None:
    """It knows how the process ended."""
    pipe = Pipe()
    assert pipe.intake.begin("a call")
    os.close(pipe.write_end)
    pipe.intake.read_while(_always, Deadline(None))
    pipe.intake.end()
    assert pipe.waits_for_data()
    assert not pipe.intake.read()
    assert not pipe.intake.begin("a call")
    pipe.write_end = os.open(os.devnull, os.O_WRONLY)
    pipe.close()


def test_without_epoll_the_serving_thread_alone_reads() -> None:
    """Other systems, and gevent."""
    pipe = Pipe(with_epoll=False)
    assert not pipe.intake.begin("a call")
    pipe.write(b"x")
    assert pipe.intake.read()
    assert pipe.got == [b"x"]
    pipe.intake.interrupt()
    pipe.close()


def test_closing_waits_for_the_reading_caller() -> None:
    """Its descriptor must not be closed under it."""
    pipe = Pipe()
    assert pipe.intake.begin("a call")
    closing = run_in_thread(pipe.close)
    pipe.intake.read_while(_always, Deadline(None))
    assert closing.running
    pipe.intake.end()
    closing.get()
    pipe.intake.interrupt()
    assert not pipe.intake.begin("a call")


def test_everything_that_is_left_is_read_at_the_end(pipe: Pipe) -> None:
    """The last words count."""
    for _ in range(3):
        pipe.write(b"x" * 20_000)
    pipe.intake.drain(lambda: True)
    assert sum(map(len, pipe.got)) == 60_000


# --- between calls


def test_between_calls_that_follow_each_other_closely_the_pipe_is_left_alone(pipe: Pipe) -> None:
    """Issue 7, MCP over stdio: watching it again costs a tenth of a short call."""
    pipe.call()
    assert pipe.intake.patience is None
    assert pipe.woken == []
    pipe.call(after=BRISK / 2)
    assert pipe.woken == ["woken"]  # so that the serving thread looks after it
    assert pipe.intake.patience == QUIET
    assert not pipe.is_watched()
    pipe.call(after=1.0)
    assert pipe.woken == ["woken"]


def test_between_calls_that_are_far_apart_the_serving_thread_reads(pipe: Pipe) -> None:
    """What the server says unasked is read at once."""
    pipe.call()
    pipe.call(after=2 * BRISK)
    assert pipe.is_watched()
    assert pipe.intake.patience is None


def test_the_pipe_is_watched_again_when_no_call_came_for_a_moment(pipe: Pipe) -> None:
    """What the server says between calls must not wait for the next one."""
    pipe.call_briskly()
    pipe.intake.look()
    pipe.call()
    pipe.intake.look()
    assert pipe.intake.patience == QUIET
    pipe.write(b"news")
    pipe.intake.look()
    assert pipe.waits_for_data()
    assert pipe.intake.patience is None


def test_a_pipe_that_a_caller_reads_is_not_watched_by_a_look(pipe: Pipe) -> None:
    """The serving thread would be woken for every answer."""
    pipe.call_briskly()
    assert pipe.intake.begin("a call")
    pipe.intake.look()
    pipe.intake.look()
    pipe.write(b"x")
    assert not pipe.waits_for_data()
    pipe.intake.end()
    pipe.intake.look()
    pipe.intake.look()
    assert pipe.waits_for_data()


def test_a_slow_call_ends_the_looks(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that wakes fifty times a second for hours would be felt."""
    monkeypatch.setattr("yiemagent.mcp.intake.SLICE", 0.001)
    pipe.call_briskly()
    assert pipe.intake.begin("a call")
    pipe.tick = AT_ONCE
    silence = iter([True, True, True, False])  # three slices
    pipe.intake.read_while(lambda: next(silence), Deadline(WAIT))
    assert pipe.intake.patience is None
    pipe.intake.end()
    assert pipe.is_watched()


def test_a_caller_hands_over_to_the_serving_thread(pipe: Pipe) -> None:
    """Others may wait for what is still to come."""
    pipe.call_briskly()
    pipe.intake.hand_over()
    assert pipe.is_watched()
    assert pipe.intake.patience is None


def test_a_caller_hands_nothing_over_while_another_reads(pipe: Pipe) -> None:
    """That one reads for all."""
    pipe.call_briskly()
    assert pipe.intake.begin("another")
    run_in_thread(pipe.intake.hand_over).get()
    assert not pipe.is_watched()
    pipe.intake.end()


def test_ctrl_c_between_brisk_calls_leaves_the_pipe_watched(pipe: Pipe) -> None:
    """It may have come before the caller could hand over."""
    pipe.call_briskly()
    pipe.intake.recover("a call")
    assert pipe.is_watched()


def test_the_end_of_the_stream_wakes_the_serving_thread_between_brisk_calls() -> None:
    """A server that died is known at once."""
    pipe = Pipe()
    pipe.call_briskly()
    os.close(pipe.write_end)
    assert pipe.waits_for_data()
    assert not pipe.intake.read()
    assert pipe.epoll is not None
    pipe.epoll.unregister(pipe.read_end)  # as its owner does
    pipe.intake.look()
    pipe.intake.look()
    assert pipe.intake.patience is None
    pipe.write_end = os.open(os.devnull, os.O_WRONLY)
    pipe.close()


@pytest.mark.parametrize("next_reader", ["the serving thread", "a caller"])
def test_what_was_read_when_ctrl_c_came_is_given_to_whoever_reads_next(pipe: Pipe, next_reader: str) -> None:
    """It may hold the answers of others."""
    pipe.ctrl_c = True
    assert pipe.intake.begin("a call")
    pipe.write(b"x")
    with pytest.raises(KeyboardInterrupt):
        pipe.intake.read_while(_always, Deadline(WAIT))
    pipe.intake.recover("a call")
    assert pipe.woken == ["woken"]
    assert pipe.intake.interrupted
    if next_reader == "a caller":
        assert pipe.intake.begin("another")
        pipe.intake.read_while(lambda: not pipe.got, Deadline(WAIT))
        pipe.intake.end()
    else:
        assert pipe.intake.read()
    assert pipe.got == [b"x"]
    assert not pipe.intake.interrupted


# --- before a caller sleeps


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("two_processors")
def test_in_a_series_of_quick_answers_a_caller_spins_before_it_sleeps(pipe: Pipe) -> None:
    """Issue 7, MCP over stdio: to be woken takes longer than such an answer."""
    pipe.call_briskly()
    assert pipe.intake.begin("a call")
    pipe.got.clear()
    pipe.answer_at = pipe.readings + 100  # who sleeps does not get there
    pipe.intake.read_while(lambda: not pipe.got, Deadline(WAIT))
    pipe.intake.end()
    assert pipe.got == [b"answer"]


@pytest.mark.usefixtures("two_processors")
def test_a_caller_who_spun_in_vain_sleeps(pipe: Pipe) -> None:
    """The processor is not burnt for a slow server."""
    pipe.call_briskly()
    pipe.wait_in_vain(tick=AT_ONCE / 10)
    assert pipe.readings < 20


def spins_in_vain(pipe: Pipe, calls: int) -> list[int]:
    """Which of so many calls that are not answered spin before they sleep."""
    spun = []
    for number in range(calls):
        pipe.wait_in_vain(tick=AT_ONCE / 10)
        if pipe.readings > 5:
            spun.append(number)
    return spun


@pytest.mark.usefixtures("two_processors")
def test_where_spinning_is_in_vain_it_is_tried_ever_more_seldom(pipe: Pipe) -> None:
    """The server may stand in line for the very processor on which its caller spins."""
    pipe.call_briskly()
    assert spins_in_vain(pipe, 20) == [0, 3, 8, 17]


@pytest.mark.usefixtures("two_processors")
def test_one_answer_that_came_while_spinning_makes_up_for_all_in_vain(pipe: Pipe) -> None:
    """The system may have moved the server to another processor."""
    pipe.call_briskly()
    spins_in_vain(pipe, 18)
    for _ in range(17):
        pipe.call()
    assert spins_in_vain(pipe, 4) == [0, 3]


@pytest.mark.usefixtures("two_processors")
def test_after_a_slower_answer_the_next_caller_sleeps(pipe: Pipe) -> None:
    """That one will most likely be slow, too."""
    pipe.call_briskly()
    pipe.call(after=AT_ONCE)
    pipe.wait_in_vain()


def test_with_one_processor_a_caller_always_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server needs it to answer."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    pipe = Pipe()
    pipe.call_briskly()
    pipe.wait_in_vain()
    pipe.close()


# --- the other direction


@pytest.fixture
def outbox() -> Iterator[tuple[Outbox, int, list[str]]]:
    read_end, write_end = os.pipe()
    woken: list[str] = []
    made = Outbox(write_end, lambda: woken.append("woken"))
    yield made, read_end, woken
    made.close()
    os.close(read_end)


def test_what_fits_is_written_at_once(outbox: tuple[Outbox, int, list[str]]) -> None:
    """Nearly always."""
    box, read_end, woken = outbox
    box.write(b"hello")
    assert os.read(read_end, 100) == b"hello"
    assert (box.waiting, woken) == (False, [])


def test_what_does_not_fit_waits_in_order_and_never_blocks(outbox: tuple[Outbox, int, list[str]]) -> None:
    """E-13: a server that does not read must not hold a caller up."""
    box, read_end, woken = outbox
    box.write(b"a" * 1_000_000)
    box.write(b"b" * 10)
    assert box.waiting
    assert woken
    got = b""
    while box.waiting or len(got) < 1_000_010:
        got += os.read(read_end, 1 << 20)
        box.flush()
    assert got == b"a" * 1_000_000 + b"b" * 10


def test_a_reader_that_never_reads_is_named_at_last(outbox: tuple[Outbox, int, list[str]]) -> None:
    """Memory is not filled without end."""
    box, _, _ = outbox
    chunk = b"x" * (64 << 20)
    with pytest.raises(McpConnectionError, match="does not read its input"):
        for _ in range(6):
            box.write(chunk)


def test_a_closed_outbox_takes_nothing(outbox: tuple[Outbox, int, list[str]]) -> None:
    """The error says so."""
    box, _, _ = outbox
    box.close()
    box.close()
    assert box.fd is None
    with pytest.raises(McpConnectionError, match="its input is closed"):
        box.write(b"x")


def test_a_broken_pipe_is_noticed_and_the_thread_told() -> None:
    """The reader is gone; the serving thread finds out why."""
    read_end, write_end = os.pipe()
    woken: list[str] = []
    box = Outbox(write_end, lambda: woken.append("woken"))
    os.close(read_end)
    box.write(b"x")
    assert (box.broken, woken) == (True, ["woken"])
    box.close()
