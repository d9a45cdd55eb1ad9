"""MCP ``tools/call`` over stdio against a raw echo through the same pipes, interleaved in one run.

Usage: python -m benchmarks.mcp_stdio [--rounds 40]

Both sides talk to a child process of the same program, twice: a bare echo that knows one answer,
and a real server, ours, that checks arguments and runs a tool. The floor writes a line and reads
a line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.mcp_sides import ANSWERS, ARGUMENTS, call_bytes, compare, initialize_bytes, report
from yiemagent.mcp.stdio import McpStdio

GOAL = 1.15

ECHO = (
    ANSWERS
    + """
import sys

for line in sys.stdin.buffer:
    said = answer(json.loads(line))
    if said is not None:
        sys.stdout.write(said + "\\n")
        sys.stdout.flush()
"""
)


SERVER = """
from yiemagent.mcp.serve import McpServer
from yiemagent.mcp.serve_stdio import serve_stdio

def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

serve_stdio(McpServer([add]))
"""


@contextlib.contextmanager
def by_hand(server: str) -> Iterator[Callable[[int], Any]]:
    """The floor: two pipes."""
    command = [sys.executable, "-c", server]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        to, back = child.stdin, child.stdout

        def say(message: bytes) -> Any:
            to.write(message + b"\n")
            to.flush()
            return json.loads(back.readline())

        say(initialize_bytes())
        to.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        yield lambda number: say(call_bytes(number))["result"]["content"]


@contextlib.contextmanager
def by_us(server: str) -> Iterator[Callable[[int], Any]]:
    """A client of ours."""
    with McpStdio(sys.executable, ["-c", server], inherit_env=True) as client:
        yield lambda number: client.call_tool("add", ARGUMENTS).content


def rows(rounds: int = 40) -> list[dict[str, Any]]:
    """Both comparisons."""
    made = []
    for job, what, server in (
        ("mcp-stdio", "MCP tools/call over stdio, real server", SERVER),
        ("mcp-echo", "MCP tools/call over stdio, bare echo", ECHO),
    ):
        with by_hand(server) as hand, by_us(server) as us:
            made.append(compare(job, what, GOAL, hand, us, rounds))
    return made


def main() -> int:
    """Print them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcp_stdio", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    return max(report(row) for row in rows(parser.parse_args().rounds))


if __name__ == "__main__":
    raise SystemExit(main())
