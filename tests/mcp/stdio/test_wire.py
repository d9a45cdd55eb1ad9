"""Bytes between us and a server process."""

from __future__ import annotations

import logging
import os
import pathlib
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpProtocolError, McpTimeout, RunAborted
from yiemagent.mcp.lines import LineSplitter
from yiemagent.testing import WAIT, run_in_thread

pytestmark = pytest.mark.servers


def _split(splitter: LineSplitter, *chunks: bytes) -> list[bytes]:
    return [line for chunk in chunks for line in splitter.feed(chunk)]


def test_lines_are_found_wherever_the_chunks_end() -> None:
    """E-13: partial lines."""
    assert _split(LineSplitter(100), b"a", b"b\nc\n\n", b"d", b"\n", b"e") == [b"ab", b"c", b"d"]
    assert _split(LineSplitter(100), b"x\r\n \r\ny\n") == [b"x\r", b"y"]
    assert [line.strip() for line in _split(LineSplitter(100), b"one\n", b"\n", b"two\n")] == [b"one", b"two"]
    assert _split(LineSplitter(100), b"a", b"a", b"\n") == [b"aa"]


def test_what_comes_after_the_last_line_end_is_kept() -> None:
    """A server may end without a line end."""
    splitter = LineSplitter(100)
    assert _split(splitter, b"a\nb") == [b"a"]
    assert splitter.rest() == b"b"
    assert splitter.rest() == b""


@pytest.mark.parametrize("tail", [b"", b"d"])
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_chunk_that_is_fed_again_goes_on_with_the_line_that_was_out(taken: int, tail: bytes) -> None:
    """D-08: Ctrl-C may come before all lines were taken, and before it is known that they were."""
    splitter, chunk, both = LineSplitter(100), b"b\nc\n" + tail, [b"ab", b"c"]
    assert _split(splitter, b"a") == []
    lines = iter(splitter.feed(chunk))
    assert [next(lines) for _ in range(taken)] == both[:taken]
    assert _split(splitter, chunk) == both[max(0, taken - 1) :]
    assert _split(splitter, chunk) == []
    assert [line.strip() for line in _split(splitter, b"e\n")] == [tail + b"e"]


def test_a_line_over_the_limit_is_refused_by_name() -> None:
    """Field problem 35: a stated large limit with a clear error."""
    with pytest.raises(McpProtocolError, match=r"longer than 10 bytes; raise max_message_bytes"):
        _split(LineSplitter(10), b"x" * 6, b"y" * 6)
    assert _split(LineSplitter(10), b"x" * 10 + b"\n" + b"y" * 10 + b"\n") == [b"x" * 10, b"y" * 10]
    with pytest.raises(McpProtocolError):
        _split(LineSplitter(10), b"x" * 11 + b"\n")


def test_one_line_of_eight_megabytes_arrives_whole(spawn: Any) -> None:
    """E-13, field problem 35: no limit of 64 KiB."""
    client = spawn()
    assert client.call_tool("big", {"bytes": 8 << 20}).text == "x" * (8 << 20)
    assert client.call_tool("echo").text == "{}"


def test_eight_megabytes_can_be_sent(spawn: Any) -> None:
    """E-13: writing never waits for reading."""
    client = spawn()
    text = "y" * (8 << 20)
    assert client.call_tool("echo", {"t": text}).text == f'{{"t": "{text}"}}'


def test_large_messages_both_ways_at_once_do_not_block_each_other(spawn: Any) -> None:
    """E-13: deadlock by full pipes."""
    client = spawn()
    client.connect()
    outcomes = [run_in_thread(client.call_tool, "echo", {"t": str(n) * 1_000_000}) for n in range(6)]
    for number, outcome in enumerate(outcomes):
        assert outcome.get(timeout=20).text == f'{{"t": "{str(number) * 1_000_000}"}}'


def test_a_message_over_the_limit_gives_the_server_up(spawn: Any, gone: Any) -> None:
    """The error names the limit; the process is ended."""
    client = spawn(max_message_bytes=10_000)
    client.connect()
    pid = client.pid
    with pytest.raises(McpConnectionError, match=r"longer than 10,000 bytes; raise max_message_bytes"):
        client.call_tool("big", {"bytes": 20_000})
    gone(pid)


def test_an_answer_in_pieces_is_put_together(spawn: Any) -> None:
    """Byte by byte."""
    assert spawn().call_tool("pieces").text == "in pieces"


def test_a_batch_is_taken_apart(spawn: Any) -> None:
    """Protocol 2025-03-26: receiving batches is a MUST."""
    heard = threading.Event()
    client = spawn(era="2025-03-26", on_log=lambda log: heard.set())
    assert client.call_tool("batch").text == "in a batch"
    assert heard.wait(5)


def test_an_answer_without_a_line_end_is_read_when_the_server_ends(spawn: Any) -> None:
    """The last words count."""
    assert spawn().call_tool("half_line").content == ()


def test_a_banner_is_skipped_with_one_warning(spawn: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Field problem 38: skip the line, warn once with its text; quirk 18."""
    client = spawn({"banner": 1})
    banner = "*** Welcome to the server! ***"
    with caplog.at_level(logging.WARNING):
        assert client.call_tool("noise", {"lines": 50}).text == "ok"
    assert [record.getMessage() for record in caplog.records] == [
        f"server={client.label} | skipped a line on stdout that is no JSON-RPC message: {banner!r}"
    ]


def test_a_flood_on_stderr_does_not_block_the_server(spawn: Any) -> None:
    """Quirk 17: it must be drained or the pipe fills."""
    assert spawn().call_tool("stderr_flood", {"lines": 200_000}).text == "ok"


def test_a_silent_server_is_left_in_time_and_told(spawn: Any, tmp_path: Any) -> None:
    """E-09; field problems 26, 27: notifications/cancelled."""
    log = tmp_path / "log"
    client = spawn({"log": log, "stderr": "busy"})
    client.connect()
    with pytest.raises(McpTimeout, match=r"did not answer tools/call within 0.1 s; the last lines .*: busy"):
        client.call_tool("silent", timeout=0.1)
    assert client.call_tool("echo").text == "{}"
    assert "notifications/cancelled" in log.read_text()


def test_an_abort_does_not_wait_for_a_server_that_does_not_read(spawn: Any) -> None:
    """Issue 5 part 6: abort within 0.2 s, also while the pipe is full."""
    client = spawn()
    client.connect()
    signal = AbortSignal()
    run_in_thread(client.call_tool, "stop_reading", {"seconds": 60}, signal=signal)
    outcome = run_in_thread(client.call_tool, "echo", {"x": "y" * 4_000_000}, signal=signal)
    signal.abort()
    with pytest.raises(RunAborted):
        outcome.get()
    client.close(timeout=0.05)


def test_a_question_in_the_middle_of_a_call_is_answered(spawn: Any) -> None:
    """Quirk 8, over a real pipe."""
    client = spawn(era="legacy", on_elicitation=lambda question: {"name": question.message})
    params = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
    assert '"name": "who?"' in client.call_tool("ask", params).text


@pytest.fixture
def fifo(tmp_path: pathlib.Path) -> Callable[[str], pathlib.Path]:
    """Makes named pipes; opening one for writing waits until the server has it open."""

    def make(name: str) -> pathlib.Path:
        os.mkfifo(tmp_path / name)
        return tmp_path / name

    return make


def test_what_the_server_says_after_calls_in_quick_succession_is_heard(
    spawn: Any, fifo: Callable[[str], pathlib.Path]
) -> None:
    """Issue 7: nobody watches the pipe between such calls, but only for a moment."""
    heard: queue.Queue[Any] = queue.Queue()
    client = spawn(on_notification=heard.put)
    path = fifo("go")
    for _ in range(3):
        client.call_tool("echo")
    assert client.call_tool("afterwards", {"fifo": str(path)}).text == "answered"
    path.write_text("")
    assert heard.get(timeout=WAIT)["method"] == "notifications/tools/list_changed"


def test_a_caller_that_reads_for_others_hands_over_when_it_has_its_answer(
    spawn: Any, fifo: Callable[[str], pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 7: nothing else would wake those that wait, but for their deadlines."""
    monkeypatch.setattr("yiemagent.mcp.duplex._SLICE", 2 * WAIT)
    monkeypatch.setattr("yiemagent.mcp.intake.QUIET", 2 * WAIT)
    monkeypatch.setattr("yiemagent.mcp.intake.BRISK", WAIT)
    client = spawn()
    first, second = fifo("first"), fifo("second")
    for _ in range(3):
        client.call_tool("echo")
    reading = run_in_thread(client.call_tool, "hold", {"fifo": str(first)})
    with first.open("w"):  # The first is with the server.
        waiting = run_in_thread(client.call_tool, "hold", {"fifo": str(second)})
        _until(lambda: len(client._connection._inboxes) == 2)
    assert reading.get().text == "let go"
    second.write_text("")
    assert waiting.get().text == "let go"


def _until(met: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(WAIT / 0.001)):
        if met():
            return
        pause.wait(0.001)
    raise AssertionError("it never came so far")


def test_many_threads_share_one_process(spawn: Any) -> None:
    """Field problems 1, 49: any thread."""
    client = spawn()

    def work(number: int) -> list[str]:
        return [client.call_tool("echo", {"n": number * 100 + i}).text for i in range(50)]

    outcomes = [run_in_thread(work, number) for number in range(8)]
    for number, outcome in enumerate(outcomes):
        assert outcome.get(timeout=30) == [f'{{"n": {number * 100 + i}}}' for i in range(50)]
