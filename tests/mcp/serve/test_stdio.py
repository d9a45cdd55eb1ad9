"""Serving on stdin and stdout: whole lines, nothing else on stdout, an end that comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from yiemagent.mcp.serve_stdio import serve_stdio
from yiemagent.testing import WAIT, Gate, run_in_thread

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    },
}


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def run(command: list[str], *messages: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
    return subprocess.run(
        command, input=b"\n".join([*lines, b""]), capture_output=True, timeout=30, check=False, **options
    )


def answers(done: subprocess.CompletedProcess[bytes]) -> dict[Any, Any]:
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return {message.get("id"): message for message in said}


@pytest.mark.servers
def test_what_tools_print_does_not_reach_the_protocol(stdio_command: list[str]) -> None:
    """Quirk 18, field problem 38: prints of tools and of their children go to stderr."""
    done = run(stdio_command, INITIALIZE, call(1, "noisy"))

    assert answers(done)[1]["result"]["content"][0]["text"] == "ok"
    assert b"a line that is no JSON" in done.stderr
    assert b"nor is this" in done.stderr
    assert done.returncode == 0


@pytest.mark.servers
def test_answers_are_given_before_the_end_of_a_pipe(stdio_command: list[str]) -> None:
    """A script that pipes requests in gets all its answers."""
    done = run(stdio_command, INITIALIZE, *(call(n, "add", a=n, b=n) for n in range(1, 30)))

    said = answers(done)
    assert [said[n]["result"]["content"][0]["text"] for n in range(1, 30)] == [
        str(2 * n) for n in range(1, 30)
    ]


@pytest.mark.servers
def test_lines_that_are_no_json_are_answered_and_passed_over(stdio_command: list[str]) -> None:
    """JSON-RPC -32700; blank lines are nothing."""
    done = run(stdio_command, b"{", b"", b"  ", INITIALIZE, call(1, "add", a=1, b=1))

    said = answers(done)
    assert said[None]["error"]["code"] == -32700
    assert said[1]["result"]["content"][0]["text"] == "2"


@pytest.mark.servers
def test_a_batch_of_the_2025_03_26_version_is_answered(stdio_command: list[str]) -> None:
    """2025-03-26: receiving batches is a must."""
    batch = [
        call(1, "add", a=1, b=1),
        {"jsonrpc": "2.0", "method": "notifications/x"},
        call(2, "add", a=2, b=2),
    ]

    said = answers(run(stdio_command, INITIALIZE, batch))

    assert {1, 2} <= said.keys()


@pytest.mark.servers
def test_a_closed_stdout_ends_nothing_but_the_answers(stdio_command: list[str]) -> None:
    """A client that has gone leaves no traceback behind."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as broken:
        done = subprocess.run(
            stdio_command,
            input=json.dumps(INITIALIZE).encode() + b"\n",
            stdout=broken,
            stderr=subprocess.PIPE,
            timeout=30,
            check=False,
        )

    assert b"Traceback" not in done.stderr


@pytest.mark.servers
def test_a_tool_that_hangs_does_not_keep_the_process(stdio_command: list[str]) -> None:
    """Decision 20: stdin's end is the end, and the call is aborted."""
    done = run(stdio_command, INITIALIZE, call(1, "sleep"))

    assert done.returncode == 0
    assert 1 not in answers(done)


def test_cancellations_and_pings_get_through_while_every_worker_is_busy() -> None:
    """Issue 5 part 5: each call runs on a worker."""
    gate = Gate()

    def block() -> str:
        gate.block()
        return "opened"

    with Pipes() as pipes:
        serving = run_in_thread(serve_stdio, [block], stdin=pipes.stdin, stdout=pipes.stdout, concurrency=1)
        pipes.say(INITIALIZE)
        pipes.say(call(1, "block"))
        pipes.say(call(2, "block"))
        assert pipes.hear()["id"] == 0
        gate.wait_entered()
        pipes.say({"jsonrpc": "2.0", "id": 3, "method": "ping"})
        assert pipes.hear() == {"jsonrpc": "2.0", "id": 3, "result": {}}
        pipes.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        pipes.say({"jsonrpc": "2.0", "id": 4, "method": "ping"})
        assert pipes.hear()["id"] == 4
        gate.open()
        assert pipes.hear()["id"] == 1
        pipes.say({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        assert pipes.hear()["id"] == 5
        pipes.hang_up()
        serving.get()


def test_many_calls_at_once_never_mix_their_lines() -> None:
    """One message a line, whoever writes it."""
    together = threading.Barrier(8)

    def large(size: int) -> str:
        together.wait(WAIT)
        return "é" * size

    with Pipes() as pipes:
        serving = run_in_thread(serve_stdio, [large], stdin=pipes.stdin, stdout=pipes.stdout, concurrency=8)
        pipes.say(INITIALIZE)
        pipes.hear()
        for number in range(1, 9):
            pipes.say(call(number, "large", size=100_000 + number))
        sizes = {}
        for _ in range(8):
            message = pipes.hear()
            sizes[message["id"]] = len(message["result"]["content"][0]["text"])
        pipes.hang_up()
        serving.get()

    assert sizes == {number: 100_000 + number for number in range(1, 9)}


def test_a_result_that_json_cannot_say_is_an_error_answer() -> None:
    """The client is answered, whatever a tool returns."""
    from yiemagent.mcp.serve import McpServer
    from yiemagent.mcp.serve_offers import ServedPrompt

    prompt = ServedPrompt(name="p", render=lambda: [{"role": "user", "content": float("nan")}])
    with Pipes() as pipes:
        serving = run_in_thread(
            serve_stdio, McpServer([], prompts=[prompt]), stdin=pipes.stdin, stdout=pipes.stdout
        )
        pipes.say(INITIALIZE)
        pipes.say({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "p"}})
        pipes.hear()
        assert pipes.hear()["error"]["code"] == -32603
        pipes.hang_up()
        serving.get()


class Pipes:
    """Two pipes and what a client does with them."""

    def __enter__(self) -> Pipes:
        reader, writer = os.pipe()
        self.stdin, self._to_server = open(reader, "rb"), open(writer, "wb", buffering=0)
        reader, writer = os.pipe()
        self._from_server, self.stdout = open(reader, "rb"), open(writer, "wb")
        return self

    def __exit__(self, *exc_info: object) -> None:
        for end in (self._to_server, self.stdin, self.stdout, self._from_server):
            end.close()

    def say(self, message: Any) -> None:
        self._to_server.write(json.dumps(message).encode() + b"\n")

    def hear(self) -> Any:
        return json.loads(self._from_server.readline())

    def hang_up(self) -> None:
        self._to_server.close()


@pytest.mark.servers
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_ctrl_c_ends_it_without_a_traceback(stdio_command: list[str]) -> None:
    """A server that is tried out in a terminal ends like a program."""
    import signal

    with subprocess.Popen(
        stdio_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=WAIT)

    assert process.returncode == 0
    assert stderr == b""
