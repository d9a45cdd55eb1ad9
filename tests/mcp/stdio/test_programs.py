"""Whole programs: interrupted, under gevent, inside an event loop, without a real stderr."""

from __future__ import annotations

import importlib.util
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

pytestmark = pytest.mark.servers

SERVER = str(pathlib.Path(__file__).with_name("child_server.py"))


def _program(body: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(body).replace("SERVER", repr(SERVER))]


def _run(body: str) -> str:
    done = subprocess.run(_program(body), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_ctrl_c_leaves_a_call_and_ends_the_server(gone: Any, tmp_path: pathlib.Path) -> None:
    """Issue 5 part 6: Ctrl-C within 0.2 s, also where the caller reads the pipe itself."""
    log = tmp_path / "log"
    program = _program(
        f"""
        import sys
        from yiemagent.mcp.stdio import McpStdio
        client = McpStdio(sys.executable, [SERVER, "log={log}"])
        client.connect()
        print(client.pid, flush=True)
        try:
            client.call_tool("silent")
        except KeyboardInterrupt:
            print("interrupted", client.call_tool("echo").text, flush=True)
        """
    )
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    pause = threading.Event()
    for _ in range(500):
        if "silent" in log.read_text():
            break
        pause.wait(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("interrupted {}\n", "", 0)
    gone(pid)


@pytest.mark.skipif(importlib.util.find_spec("gevent") is None, reason="needs gevent")
@pytest.mark.parametrize("when", ["before", "after"])
def test_greenlets_share_one_server(when: str) -> None:
    """Cases D-34: gevent workers; monkey-patched before or after our import."""
    patch = "from gevent import monkey; monkey.patch_all()"
    first, second = (patch, "pass") if when == "before" else ("import yiemagent.mcp.stdio", patch)
    out = _run(
        f"""
        {first}
        import sys
        from yiemagent.mcp.stdio import McpStdio
        {second}
        import gevent
        client = McpStdio(sys.executable, [SERVER])
        ticks = []
        def tick():
            while True:
                ticks.append(1)
                gevent.sleep(0.01)
        ticker = gevent.spawn(tick)
        jobs = [gevent.spawn(client.call_tool, "echo", {{"n": n}}) for n in range(5)]
        gevent.joinall(jobs, timeout=20)
        print([job.value.text for job in jobs])
        def wait():
            try:
                client.call_tool("silent", timeout=0.3)
            except TimeoutError as exc:
                return type(exc).__name__
        before = len(ticks)
        print(gevent.spawn(wait).get(timeout=20), len(ticks) - before > 5)
        ticker.kill()
        client.close()
        """
    )
    texts = [f'{{"n": {n}}}' for n in range(5)]
    assert out == f"{texts}\nMcpTimeout True\n"


def test_a_client_works_inside_a_running_event_loop() -> None:
    """Field problems 1, 14, 15, 16: a notebook cell; no nest_asyncio, no loop of ours."""
    out = _run(
        """
        import asyncio, sys
        from yiemagent.mcp.stdio import McpStdio
        async def first_cell():
            global client
            client = McpStdio(sys.executable, [SERVER])
            client.connect()
        async def second_cell():
            print(client.call_tool("echo", {"a": 1}).text)
        async def third_cell():
            client.close()
        asyncio.run(first_cell())
        asyncio.run(second_cell())
        asyncio.run(third_cell())
        """
    )
    assert out == '{"a": 1}\n'


@pytest.mark.parametrize(
    "stderr", ["io.StringIO()", "None", "type('Log', (), {'write': lambda s, t: None})()"]
)
def test_stderr_may_be_anything(stderr: str) -> None:
    """Field problems 11, 12: Colab, Databricks: sys.stderr without fileno()."""
    out = _run(
        f"""
        import io, sys, threading
        from yiemagent.mcp.stdio import McpStdio
        real, sys.stderr = sys.stderr, {stderr}
        with McpStdio(sys.executable, [SERVER, "stderr=hello"]) as client:
            client.call_tool("echo")
            # A caller reads its answer itself, and may be faster than the thread that reads stderr.
            for _ in range(1000):
                if client.stderr_tail:
                    break
                threading.Event().wait(0.005)
            print(client.stderr_tail)
        sys.stderr = real
        """
    )
    assert out == "hello\n"
