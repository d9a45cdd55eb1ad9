"""MCP ``tools/call`` over Streamable HTTP against requests on a kept connection, in one run.

Usage: python -m benchmarks.mcp_http [--rounds 40]

Both sides post to the same server, which is a process of its own. The floor is one requests
session and json.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.mcp_sdk import by_sdk
from benchmarks.mcp_sides import ANSWERS, ARGUMENTS, call_bytes, compare, report, set_beside, timed
from yiemagent.mcp.http import McpHttp

GOAL = 1.3

SERVER = (
    ANSWERS
    + """
import asyncio

class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.held = transport, b""

    def data_received(self, data):
        self.held += data
        while (end := self.held.find(b"\\r\\n\\r\\n")) >= 0:
            head = self.held[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15:].split(b"\\r\\n", 1)[0]) if at >= 0 else 0
            if len(self.held) < end + 4 + length:
                return
            body, self.held = self.held[end + 4:end + 4 + length], self.held[end + 4 + length:]
            self.handle(head, body)

    def handle(self, head, body):
        if not head.startswith(b"post"):
            self.reply("405 Method Not Allowed", "")
            return
        said = answer(json.loads(body))
        self.reply("202 Accepted" if said is None else "200 OK", said or "")

    def reply(self, status, text):
        self.transport.write((f"HTTP/1.1 {status}\\r\\nContent-Type: application/json\\r\\n"
                              f"Content-Length: {len(text)}\\r\\n\\r\\n{text}").encode())

async def serve():
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(serve())
"""
)


@contextlib.contextmanager
def running_server() -> Iterator[str]:
    """The server as a child process; its URL."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()


@contextlib.contextmanager
def by_hand(url: str) -> Iterator[Callable[[int], Any]]:
    """The floor: a session that keeps its connection."""
    import requests

    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with requests.Session() as session:

        def call(number: int) -> Any:
            answer = session.post(url, data=call_bytes(number), headers=headers, timeout=30)
            return answer.json()["result"]["content"]

        yield call


@contextlib.contextmanager
def by_us(url: str) -> Iterator[Callable[[int], Any]]:
    """A client of ours."""
    with McpHttp(url) as client:
        yield lambda number: client.call_tool("add", ARGUMENTS).content


def rows(rounds: int = 40) -> list[dict[str, Any]]:
    """The comparison."""
    with running_server() as url, by_hand(url) as hand:
        with by_us(url) as us:
            row = compare("mcp-http", "MCP tools/call over HTTP", GOAL, timed(hand), timed(us), rounds)
        with by_sdk(url) as sdk:
            set_beside(row, timed(hand), sdk, rounds)
        return [row]


def main() -> int:
    """Print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcp_http", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    return max(report(row) for row in rows(parser.parse_args().rounds))


if __name__ == "__main__":
    raise SystemExit(main())
