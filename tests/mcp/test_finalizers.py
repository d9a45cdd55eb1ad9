"""Finalizers, signal handlers and Ctrl-C: they come at any line of the client's code."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpTimeout, RunAborted
from yiemagent.mcp import subscriptions
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.duplex import DuplexConnection
from yiemagent.mcp.http_keeper import DeadlineKeeper
from yiemagent.mcp.http_run import HttpRun
from yiemagent.mcp.intake import Intake
from yiemagent.mcp.jsonrpc import Message, decode, encode, make_request
from yiemagent.mcp.lines import LineSplitter
from yiemagent.mcp.waiting import Outcome
from yiemagent.mcp.workers import Workers
from yiemagent.testing import WAIT, run_in_thread
from yiemagent.testing.memory_mcp import ScriptedMcpServer

AtLine = Callable[..., Any]

needs_epoll = pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs epoll")


class Coming:
    """Does something once, and knows whether and when it came to that."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.at: float | None = None

    def __call__(self) -> None:
        self.at = time.monotonic()
        self._act()


def press_ctrl_c() -> None:
    """As Ctrl-C at the line; between a block and the release of its lock only a tracer comes."""
    line: Any = sys._getframe(2).f_locals["frame"]
    if not linecache.getline(line.f_code.co_filename, line.f_lineno).strip().startswith("with self._"):
        raise KeyboardInterrupt


def each_line(at_line: AtLine, file: str, make: Callable[[], tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """What became of the body, and what acted, for each line of *file* that the body runs through.

    *make* gives what is to come at the line, and the body.
    """
    for number in count(1):
        act, body = make()
        coming = Coming(act)
        try:
            ended = at_line(number, file, coming, body)
        except KeyboardInterrupt as interrupt:
            ended = interrupt
        if coming.at is None:
            break
        yield ended, coming
    assert number > 2


class PipeConnection(DuplexConnection):
    """A wire that answers itself, through a pipe that its callers read."""

    def __init__(self, *, answers: bool = True) -> None:
        super().__init__(SimpleNamespace(receive=print, lost=print), "a pipe")
        self._answers = answers
        read_end, self._write_end = os.pipe()
        self._epoll = select.epoll()
        self._epoll.register(read_end, select.EPOLLIN)
        self.woken = False
        self.intake = Intake(read_end, self._consume, self._epoll, self._wake)
        self._lead = self.intake
        self._lines = LineSplitter(1_000)

    def ask(self, deadline: Deadline | None = None, signal: AbortSignal | None = None) -> Message:
        limit = Deadline(WAIT) if deadline is None else deadline
        request = make_request(1, "tools/call", {})
        return self.exchange(request, headers={}, deadline=limit, signal=signal, on_message=print)

    def hears(self) -> bool:
        """Whether its serving thread would be woken by what comes now, if need be after some looks."""
        self.intake.look()
        self.intake.look()
        os.write(self._write_end, b"news")
        return bool(self._epoll.poll(0))

    def answer_another(self) -> queue.SimpleQueue[Any]:
        """Where another caller waits, whose answer was read in part; the rest of it is in the pipe."""
        self._inboxes["2"] = inbox = queue.SimpleQueue[Any]()
        answer = self._answer(2)
        os.write(self._write_end, answer[:9])
        self.intake.read()
        os.write(self._write_end, answer[9:])
        return inbox

    def serve(self) -> None:
        """What its serving thread does when it is woken."""
        if self._epoll.poll(0) or (self.woken and self.intake.interrupted):
            self.intake.read()

    def _wake(self) -> None:
        self.woken = True

    def _consume(self, chunk: bytes) -> None:
        for line in self._lines.feed(chunk):
            for message in decode(line):
                self.deliver(message)

    def _answer(self, number: int) -> bytes:
        return encode({"jsonrpc": "2.0", "id": number, "result": {}}) + b"\n"

    def _post(self, message: Message) -> None:
        if self._answers and "id" in message:
            os.write(self._write_end, self._answer(message["id"]))

    def _shut(self, timeout: float) -> None:
        """The test does it."""

    def end(self) -> None:
        self.intake.close()
        self._epoll.close()
        os.close(self._write_end)


@needs_epoll
@pytest.mark.parametrize("file", ["mcp/intake.py", "mcp/duplex.py"])
def test_ctrl_c_wherever_a_call_is_leaves_the_pipe_to_others(file: str, at_line: AtLine) -> None:
    """D-08: the turn to read must not stay taken by a thread that reads no more."""
    made: list[PipeConnection] = []

    def make() -> tuple[Any, Any]:
        made.append(PipeConnection())
        return press_ctrl_c, made[-1].ask

    for _ in each_line(at_line, file, make):
        assert made[-1].intake.begin("somebody else")
        made[-1].intake.end()
    for connection in made:
        connection.end()


@needs_epoll
@pytest.mark.parametrize("file", ["mcp/intake.py", "mcp/duplex.py", "mcp/lines.py"])
def test_ctrl_c_wherever_a_caller_reads_loses_no_answer_of_others(file: str, at_line: AtLine) -> None:
    """D-08: who reads for all may have the answer of another in hand."""
    made: list[PipeConnection] = []
    others: list[queue.SimpleQueue[Any]] = []

    def make() -> tuple[Any, Any]:
        made.append(PipeConnection())
        others.append(made[-1].answer_another())
        return press_ctrl_c, made[-1].ask

    for _ in each_line(at_line, file, make):
        made[-1].serve()
        assert others[-1].get_nowait()["id"] == 2
    for connection in made:
        connection.end()


@needs_epoll
@pytest.mark.parametrize("brisk", [False, True])
@pytest.mark.parametrize("file", ["mcp/intake.py", "mcp/duplex.py"])
def test_ctrl_c_wherever_a_call_is_leaves_the_pipe_watched(
    file: str, brisk: bool, at_line: AtLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-08, issue 7: what the server says later is read, also after calls in quick succession."""
    monkeypatch.setattr("yiemagent.mcp.intake.BRISK", WAIT if brisk else 0)
    made: list[PipeConnection] = []

    def make() -> tuple[Any, Any]:
        made.append(PipeConnection())
        made[-1].ask()
        return press_ctrl_c, made[-1].ask

    for _ in each_line(at_line, file, make):
        assert made[-1].hears()
    for connection in made:
        connection.end()


@needs_epoll
@pytest.mark.parametrize("file", ["mcp/intake.py", "mcp/duplex.py"])
def test_an_abort_wherever_its_own_thread_is_in_a_call_ends_it(file: str, at_line: AtLine) -> None:
    """D-20, E-07: a signal handler aborts the call of the very thread that waits for it."""
    made: list[PipeConnection] = []
    deadlines: list[Deadline] = []

    def make() -> tuple[Any, Any]:
        signal, deadline = AbortSignal(), Deadline(0.2)
        made.append(PipeConnection(answers=False))
        deadlines.append(deadline)
        return signal.abort, lambda: made[-1].ask(deadline, signal)

    for ended, coming in each_line(at_line, file, make):
        assert isinstance(ended, RunAborted) or (
            isinstance(ended, McpTimeout) and coming.at > (deadlines[-1].at or 0)
        )
    for connection in made:
        connection.end()


@needs_epoll
@pytest.mark.parametrize("file", ["mcp/intake.py", "mcp/duplex.py"])
def test_a_close_wherever_its_own_thread_is_in_a_call_ends_it(file: str, at_line: AtLine) -> None:
    """D-20, E-08: a signal handler or the finalizer of what owned the client closes it."""
    made: list[PipeConnection] = []
    limits: list[float] = []

    def make() -> tuple[Any, Any]:
        connection, deadline = PipeConnection(answers=False), Deadline(0.2)
        made.append(connection)
        limits.append(deadline.at or 0)

        def close() -> None:
            if not deadline.expired:  # else it is too late for the question of this test
                connection.close(0)

        return close, lambda: connection.ask(deadline)

    for ended, coming in each_line(at_line, file, make):
        assert isinstance(ended, McpConnectionError) or coming.at > limits[-1]
    for connection in made:
        connection.end()


@needs_epoll
def test_a_reader_may_be_interrupted_wherever_its_thread_interrupts_one(at_line: AtLine) -> None:
    """D-20: a signal handler aborts while its thread closes."""
    connection = PipeConnection()
    interrupt = connection.intake.interrupt

    for ended, _ in each_line(at_line, "mcp/intake.py", lambda: (interrupt, interrupt)):
        assert ended is None
    connection.end()


def test_an_outcome_that_the_very_thread_settles_that_begins_to_wait_is_seen(at_line: AtLine) -> None:
    """D-20: in a finalizer or a signal handler."""

    def make() -> tuple[Any, Any]:
        outcome: Outcome[int] = Outcome()
        return lambda: outcome.settle(7), lambda: (outcome.wait(0.05), outcome.done and outcome.result())

    for ended, _ in each_line(at_line, "mcp/waiting.py", make):
        assert ended in ((True, 7), (False, 7))


def test_the_first_end_of_an_outcome_counts() -> None:
    """Two threads may both believe that they end it."""
    outcome: Outcome[int] = Outcome()
    assert not outcome.wait(0)
    outcome.settle(1)
    outcome.fail(ValueError("late"))

    assert outcome.wait(0)
    assert outcome.result() == 1


def test_a_finalizer_may_start_work_wherever_its_thread_is_among_the_workers(at_line: AtLine) -> None:
    """D-20: a collected client has its server told that nobody watches its resources any more."""
    gate, done = threading.Event(), queue.SimpleQueue[str]()

    def work(name: str) -> Any:
        return lambda: (gate.wait(WAIT), done.put(name))

    def make() -> tuple[Any, Any]:
        gate.clear()
        workers = Workers("of-the-test", threads=1)
        return lambda: workers.start(work("late")), lambda: workers.start(work("first"))

    for ended, _ in each_line(at_line, "mcp/workers.py", make):
        assert ended is True
        assert [thread.name for thread in threading.enumerate()].count("yiemagent-of-the-test") == 1
        gate.set()
        assert {done.get(timeout=WAIT) for _ in range(2)} == {"first", "late"}
        for thread in threading.enumerate():
            if thread.name == "yiemagent-of-the-test":
                thread.join(WAIT)
    gate.set()


def test_ctrl_c_while_a_worker_is_started_leaves_none_missing(at_line: AtLine) -> None:
    """D-08: what is given to them later is done all the same."""
    made: list[Workers] = []

    def make() -> tuple[Any, Any]:
        made.append(Workers("test", threads=1))
        return press_ctrl_c, lambda: made[-1].start(lambda: None)

    for _ in each_line(at_line, "mcp/workers.py", make):
        done = threading.Event()
        assert made[-1].start(done.set)
        assert done.wait(WAIT)


def test_a_worker_whose_start_was_interrupted_and_that_came_up_all_the_same_leaves_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else two would work where one keeps the order."""
    late: list[Any] = []

    class Slow(threading.Thread):
        def start(self) -> None:
            late.append(self)
            monkeypatch.undo()
            raise KeyboardInterrupt

    monkeypatch.setattr("yiemagent.mcp.workers.threading.Thread", Slow)
    workers, names = Workers("test", threads=1), queue.SimpleQueue[str]()
    with pytest.raises(KeyboardInterrupt):
        workers.start(lambda: names.put("queued"))
    threading.Thread.start(late[0])
    late[0].join(WAIT)
    assert names.empty()

    workers.start(lambda: names.put("next"))

    assert [names.get(timeout=WAIT) for _ in range(2)] == ["queued", "next"]


def test_ctrl_c_wherever_a_client_connects_leaves_it_to_others_to_connect(at_line: AtLine) -> None:
    """D-08: nobody may wait for an attempt that nobody makes."""
    made: list[McpClient] = []
    servers: list[ScriptedMcpServer] = []

    def make() -> tuple[Any, Any]:
        servers.append(ScriptedMcpServer())
        made.append(McpClient(servers[-1].transport()))
        return press_ctrl_c, made[-1].connect

    for _ in each_line(at_line, "mcp/connector.py", make):
        assert made[-1].call_tool("echo", timeout=WAIT).text == "{}"
        made[-1].close()
    made[-1].close()
    for end in itertools.chain.from_iterable(server.ends for server in servers):
        end.hang_up()  # On a real wire, a connection that was lost on the way is ended when collected.


def test_a_client_may_be_closed_wherever_its_own_thread_connects(at_line: AtLine) -> None:
    """D-20: by a signal handler; the attempt ends, and no connection is left."""
    servers: list[ScriptedMcpServer] = []

    def make() -> tuple[Any, Any]:
        servers.append(ScriptedMcpServer())
        client = McpClient(servers[-1].transport())
        return client.close, client.connect

    for ended, _ in each_line(at_line, "mcp/connector.py", make):
        assert isinstance(ended, McpConnectionError) or ended.name == "scripted"
        assert all(end.closed.wait(WAIT) for end in servers[-1].ends)
    for end in servers[-1].ends:
        end.hang_up()


@pytest.mark.parametrize("file", ["mcp/subscriptions.py", "mcp/notices.py"])
def test_a_client_may_end_its_subscriptions_wherever_its_thread_is_in_them(
    file: str, at_line: AtLine
) -> None:
    """D-20: the finalizer of a collected client does, and the one of what held a subscription."""
    version, clients = "2025-11-25", []

    def make() -> tuple[Any, Any]:
        server = ScriptedMcpServer(
            versions=[version],
            capabilities={"resources": {"subscribe": True}},
            on={"resources/subscribe": lambda *_: {}, "resources/unsubscribe": lambda *_: {}},
        )
        client = McpClient(server.transport())
        clients.append(client)
        older = client.subscribe("file:///older", print)

        def end() -> None:
            older.close()
            client._subscriptions.close()

        return end, lambda: client.subscribe("file:///a", print).close()

    for ended, _ in each_line(at_line, file, make):
        assert ended is None
    for client in clients:
        client.close()


def test_a_subscription_that_waits_for_the_next_connection_ends_wherever_its_thread_is(
    at_line: AtLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-20: its client may be collected in the very thread that listens."""

    def lost(*_: object) -> None:
        raise McpConnectionError("lost")

    link = SimpleNamespace(closed=False, current=None, stream=lost)
    idle = SimpleNamespace(start=lambda: None)
    monkeypatch.setattr(subscriptions, "weakref", SimpleNamespace(ref=lambda thing: lambda: thing))

    def make() -> tuple[Any, Any]:
        with monkeypatch.context() as patch:
            patch.setattr(threading, "Thread", lambda **_: idle)
            listening = subscriptions._Listening(link, SimpleNamespace(suspect=lambda: None), {})  # type: ignore[arg-type]
        ends = threading.Timer(0.2, listening.stop)  # for the lines that come when all else is over
        ends.daemon = True

        def stop() -> None:
            ends.cancel()
            listening.stop()

        def body() -> None:
            ends.start()
            listening._run()
            ends.cancel()

        return stop, body

    for ended, _ in each_line(at_line, "mcp/subscriptions.py", make):
        assert ended is None


def test_ctrl_c_while_a_deadline_is_given_to_its_keeper_leaves_the_next_ones_kept(at_line: AtLine) -> None:
    """D-08: calls over HTTP must end in time afterwards, too."""
    made: list[DeadlineKeeper] = []

    def run(seconds: float) -> HttpRun:
        return HttpRun(make_request(1, "tools/call", {}), Deadline(seconds), None, print, "a server")

    def make() -> tuple[Any, Any]:
        made.append(DeadlineKeeper())
        return press_ctrl_c, lambda: made[-1].watch(run(WAIT))

    for _ in each_line(at_line, "mcp/http_keeper.py", make):
        late = run(0)
        with contextlib.suppress(KeyboardInterrupt):
            made[-1].watch(late)
        assert late.signal.wait(WAIT)
        made[-1].close()
        made[-1]._runs.clear()
    made[-1]._runs.clear()
    made[-1].close()


def test_a_keeper_may_be_closed_wherever_its_thread_is_in_it(at_line: AtLine) -> None:
    """D-20: a signal handler closes the client."""

    def make() -> tuple[Any, Any]:
        keeper = DeadlineKeeper()
        run = HttpRun(make_request(1, "tools/call", {}), Deadline(0), None, print, "a server")
        return keeper.close, lambda: (keeper.watch(run), run_in_thread(run.signal.wait, WAIT).get())

    for ended, _ in each_line(at_line, "mcp/http_keeper.py", make):
        assert ended == (None, True)
