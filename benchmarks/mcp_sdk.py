"""The official SDK beside us: its client for timing, and a server of it for both.

It lives in an environment of its own, never in ours: the one that `make test` makes for the tests
against other people's servers, or the interpreter named by ``YIEMAGENT_SDK_PYTHON``.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

from benchmarks.mcp_sides import ARGUMENTS, Batch

_MADE_BY_THE_TESTS = pathlib.Path(__file__).parents[1] / ".cache" / "mcp-peers" / "bin" / "python"

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("bench")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run(transport="stdio")
"""

CLIENT = """
import asyncio, json, sys, time, warnings
from mcp import Client, StdioServerParameters

warnings.simplefilter("ignore")
target, arguments = json.loads(sys.argv[1]), json.loads(sys.argv[2])
if not isinstance(target, str):
    target = StdioServerParameters(command=target[0], args=target[1:])

async def main():
    async with Client(target) as client:
        for line in sys.stdin:
            seconds = []
            for _ in range(int(line)):
                began = time.perf_counter()
                answer = await client.call_tool("add", arguments)
                seconds.append(time.perf_counter() - began)
                assert answer.content, answer
            print(json.dumps(seconds), flush=True)

asyncio.run(main())
"""


def sdk_python() -> str | None:
    """An interpreter that has the official SDK, or None."""
    named = os.environ.get("YIEMAGENT_SDK_PYTHON")
    return named or (str(_MADE_BY_THE_TESTS) if _MADE_BY_THE_TESTS.exists() else None)


@contextlib.contextmanager
def by_sdk(target: str | list[str]) -> Iterator[dict[str, Batch]]:
    """The SDK's client of *target* (a URL or a command), in a process of its own; empty without one."""
    python = sdk_python()
    if python is None:
        yield {}
        return
    command = [python, "-c", CLIENT, json.dumps(target), json.dumps(ARGUMENTS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        to, back = child.stdin, child.stdout

        def batch(calls: int) -> list[float]:
            to.write(f"{calls}\n")
            to.flush()
            seconds: Any = json.loads(back.readline())
            return [float(each) for each in seconds]

        try:
            yield {"official SDK": batch}
            to.close()
        finally:
            child.kill()
