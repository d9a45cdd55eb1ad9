"""MCP ``tools/call`` over stdio against a raw echo through the same pipes, interleaved in one run.

Usage: python -m benchmarks.mcp_stdio [--rounds 40]

All sides talk to child processes of the same program: a real server of ours that checks arguments
and runs a tool, the same on the official SDK, and a bare echo that knows one answer. The floor
writes a line and reads a line. The SDK's client is timed against it afterwards, where the SDK is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import mcp_sdk
from benchmarks.mcp_sdk import by_sdk, sdk_python
from benchmarks.mcp_sides import (
    ANSWERS,
    ARGUMENTS,
    call_bytes,
    compare,
    initialize_bytes,
    report,
    set_beside,
    timed,
)
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


def servers() -> Iterator[tuple[str, str, list[str], bool]]:
    """Job, what it is, the server's command, and whether that speaks protocol 2026-07-28."""
    yield "mcp-stdio", "MCP tools/call over stdio, our server", [sys.executable, "-c", SERVER], True
    sdk = sdk_python()
    if sdk is not None:
        yield "mcp-sdk", "MCP tools/call over stdio, SDK's server", [sdk, "-c", mcp_sdk.SERVER], True
    yield "mcp-echo", "MCP tools/call over stdio, bare echo", [sys.executable, "-c", ECHO], False


@contextlib.contextmanager
def by_hand(command: list[str], *, modern: bool) -> Iterator[Callable[[int], Any]]:
    """The floor: two pipes, and the requests that the server's protocol wants."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        to, back = child.stdin, child.stdout

        def say(message: bytes) -> Any:
            to.write(message + b"\n")
            to.flush()
            return json.loads(back.readline())

        if not modern:
            say(initialize_bytes())
            to.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        yield lambda number: say(call_bytes(number, modern=modern))["result"]["content"]


@contextlib.contextmanager
def by_us(command: list[str]) -> Iterator[Callable[[int], Any]]:
    """A client of ours."""
    with McpStdio(command[0], command[1:], inherit_env=True) as client:
        yield lambda number: client.call_tool("add", ARGUMENTS).content


def rows(rounds: int = 40) -> list[dict[str, Any]]:
    """All comparisons; that with the SDK's server only where the SDK is."""
    made = []
    for job, what, command, modern in servers():
        with by_hand(command, modern=modern) as hand, by_us(command) as us:
            row = compare(job, what, GOAL, timed(hand), timed(us), rounds)
        with by_hand(command, modern=modern) as hand, by_sdk(command) as sdk:
            set_beside(row, timed(hand), sdk, rounds)
        made.append(row)
    return made


def main() -> int:
    """Print them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcp_stdio", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    return max(report(row) for row in rows(parser.parse_args().rounds))


if __name__ == "__main__":
    raise SystemExit(main())
