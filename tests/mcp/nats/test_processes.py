"""Forked children and gevent, each in an interpreter of its own."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

pytestmark = pytest.mark.servers

FORK = """
import os, sys
from yiemagent.errors import McpConnectionError
from yiemagent.mcp.nats import McpNats
from yiemagent.mcp.serve_nats import serve_nats

def whoami() -> str:
    return str(os.getpid())

url = sys.argv[1]
serving = serve_nats([whoami], url, "yiemagent:tools")
mcp = McpNats(url, "yiemagent:tools")
first = mcp.call_tool("whoami").content[0]["text"]
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    # The child has a loop, a connection and a socket of its own; the parent serves.
    os.write(writer, mcp.call_tool("whoami").content[0]["text"].encode())
    mcp.close()
    serving.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
os.close(writer)
in_child = os.read(reader, 100).decode()
after = mcp.call_tool("whoami").content[0]["text"]
mcp.close()
serving.close()
print(first == in_child == after == str(os.getpid()))
"""

HALF_OPEN = """
import json, os, sys, urllib.request
from yiemagent.mcp.nats import McpNats
from yiemagent.mcp.serve_nats import serve_nats

url, monitor = sys.argv[1:]
serving = serve_nats([], url, "yiemagent:tools")
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.close(writer)
    os.read(reader, 1)  # keeps what it inherited until the parent is done
    os._exit(0)
serving.close()
for _ in range(200):  # the monitor may lag behind a little
    with urllib.request.urlopen(f"{monitor}/connz") as answer:
        left = json.load(answer)["num_connections"]
    if left == 0:
        break
print(left)
os.close(writer)
os.waitpid(child, 0)
"""

GEVENT = """
from gevent import monkey
monkey.patch_all()
import asyncio, os, sys, threading
import gevent
from yiemagent.abort import AbortSignal
from yiemagent.errors import McpTimeout, RunAborted
from yiemagent.mcp.nats import McpNats
from yiemagent.mcp.serve_nats import serve_nats

running = threading.Event()

def add(a: int, b: int) -> int:
    return a + b

def block() -> str:
    running.set()
    gevent.sleep(60)
    return "never"

url = sys.argv[1]
ticks = []

def tick():
    while True:
        ticks.append(asyncio._get_running_loop())
        gevent.sleep(0)

with serve_nats([add, block], url, "yiemagent:tools") as serving, McpNats(url, "yiemagent:tools") as mcp:
    ticker = gevent.spawn(tick)
    jobs = [gevent.spawn(mcp.call_tool, "add", {"a": n, "b": n}) for n in range(20)]
    gevent.joinall(jobs, raise_error=True)
    sums = [job.value.content[0]["text"] for job in jobs]
    before = len(ticks)
    try:
        mcp.call_tool("block", timeout=0.2)
    except McpTimeout:
        print("timeout", len(ticks) - before > 10)
    signal = AbortSignal()
    running.clear()
    waiting = gevent.spawn(mcp.call_tool, "block", signal=signal)
    running.wait(5)
    signal.abort()
    try:
        waiting.get(timeout=5)
    except RunAborted:
        print("aborted")
    ticker.kill()
    print("sums", sums == [str(2 * n) for n in range(20)])
    print("loops seen", set(ticks))
    serving.close(0.1)
os._exit(0)
"""


def test_a_forked_child_makes_a_connection_of_its_own(nats: Any, run_script: Any) -> None:
    """Cases D-09 and D-10, field problem 49: gunicorn --preload."""
    assert run_script(FORK, nats.url) == "True\n"


def test_a_child_does_not_hold_its_parents_connection_open(nats_server: Any, run_script: Any) -> None:
    """Case D-10: else a queue group goes on sending to a server that has closed."""
    server = nats_server("-m", "-1")

    assert run_script(HALF_OPEN, server.url, server.monitor) == "0\n"


def test_greenlets_use_it_and_see_no_loop(nats: Any, run_script: Any) -> None:
    """Case D-34: a native thread under gevent, calls that block one greenlet only."""
    if importlib.util.find_spec("gevent") is None:
        pytest.skip("needs gevent")

    said = run_script(GEVENT, nats.url)

    assert said.splitlines() == ["timeout True", "aborted", "sums True", "loops seen {None}"]
