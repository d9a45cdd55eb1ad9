"""Who reads the pipe: the serving thread, or a caller while it waits."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator

import pytest

from yiemagent.errors import McpConnectionError
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.intake import Intake
from yiemagent.mcp.outbox import Outbox
from yiemagent.testing import WAIT, run_in_thread

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs epoll")


class Pipe:
    """A pipe, what was read of it, and where its serving thread would wait."""

    def __init__(self, *, with_epoll: bool = True) -> None:
        self.read_end, self.write_end = os.pipe()
        self.epoll = select.epoll() if with_epoll else None
        if self.epoll is not None:
            self.epoll.register(self.read_end, select.EPOLLIN)
        self.got: list[bytes] = []
        self.news = threading.Event()
        self.intake = Intake(self.read_end, self._consume, self.epoll)

    def _consume(self, chunk: bytes) -> None:
        self.got.append(chunk)
        self.news.set()

    def write(self, data: bytes) -> None:
        os.write(self.write_end, data)

    def waits_for_data(self) -> bool:
        """Whether the serving thread is woken by what is in the pipe."""
        assert self.epoll is not None
        return bool(self.epoll.poll(0))

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


def _never() -> bool:
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
    outcome = run_in_thread(pipe.intake.read_while, _never, Deadline(None))
    pipe.intake.interrupt()
    outcome.get()
    pipe.intake.end()


def test_an_interruption_that_comes_too_late_costs_one_round_only(pipe: Pipe) -> None:
    """It must not be remembered for ever."""
    pipe.intake.interrupt()
    assert pipe.intake.begin("a call")
    pipe.intake.read_while(_never, Deadline(None))
    pipe.write(b"x")
    pipe.intake.read_while(lambda: not pipe.got, Deadline(WAIT))
    pipe.intake.end()
    assert pipe.got == [b"x"]


def test_a_reading_caller_stops_at_its_deadline(pipe: Pipe) -> None:
    """Every wait has one."""
    assert pipe.intake.begin("a call")
    pipe.intake.read_while(_never, Deadline(0.01))
    pipe.intake.end()


def test_the_end_of_the_stream_is_left_to_the_serving_thread() -> None:
    """It knows how the process ended."""
    pipe = Pipe()
    assert pipe.intake.begin("a call")
    os.close(pipe.write_end)
    pipe.intake.read_while(_never, Deadline(None))
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
    pipe.intake.read_while(_never, Deadline(None))
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
