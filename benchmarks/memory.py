"""Construction, idle agents, and a thousand agents that all wait for a slow model at once."""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from benchmarks.jobs import add
from yiemagent import Agent, OpenAIChat, RunResult, tool

AGENTS = 1000
NOWHERE = "http://127.0.0.1:9/v1"


def construct_rows() -> list[dict[str, Any]]:
    """What it costs to make an agent; the fastest tenth of many rounds, since the goals are absolute."""
    model = OpenAIChat("mock", base_url=NOWHERE, api_key="sk-bench")
    functions = [_numbered(number) for number in range(50)]
    prepared = [tool(function) for function in functions]
    for one in prepared:
        one.wire_schema  # noqa: B018  (worked out once, when the tool is first sent)
    return [
        _row(
            "make50",
            "agent with 50 prepared tools",
            60,
            "us",
            _fast(lambda: Agent(model, tools=prepared)),
        ),
        _row(
            "make50f",
            "agent with 50 functions",
            2000,
            "us",
            _fast(lambda: Agent(model, tools=functions)),
        ),
    ]


def idle_rows() -> list[dict[str, Any]]:
    """Resident memory of agents that were made and not used, in a process of their own."""
    said = _in_child("idle", "")
    return [
        _row("idle", f"memory of {AGENTS} idle agents, each", 4.0, "KiB", said["kib"]),
        _row("idle-t", f"threads of {AGENTS} idle agents", 0, "threads", said["threads"]),
    ]


def waiting_rows(url: str) -> list[dict[str, Any]]:
    """Resident memory of agents that all wait for the model, and whether all of them finish."""
    said = _in_child("waiting", f"{url}/tools=0,delay=20000/v1")
    return [
        _row("wait", f"memory of {AGENTS} waiting agents, each", 100.0, "KiB", said["kib"]),
        _row("wait-t", "threads of each waiting agent", 1.0, "threads", said["threads"]),
        _row("wait-n", f"of {AGENTS} waiting agents did not finish", 0, "agents", said["unfinished"]),
    ]


def _in_child(what: str, url: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.memory", what, url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def _idle() -> dict[str, Any]:
    model = OpenAIChat("mock", base_url=NOWHERE, api_key="sk-bench")
    shared = [tool(add)]
    agents = [Agent(model, tools=shared) for _ in range(20)]
    gc.collect()
    before, threads = _resident(), threading.active_count()
    agents += [Agent(model, tools=shared) for _ in range(AGENTS)]
    gc.collect()
    return {"kib": (_resident() - before) / AGENTS, "threads": threading.active_count() - threads}


def _waiting(url: str) -> dict[str, Any]:
    model = OpenAIChat("mock", base_url=url, api_key="sk-bench", first_byte_timeout=120.0)
    shared = [tool(add)]
    agents = [Agent(model, tools=shared) for _ in range(AGENTS + 1)]
    quick = OpenAIChat("mock", base_url=url.replace("delay=20000", "delay=0"), api_key="sk-bench")
    Agent(quick, tools=shared).run("hello")  # Loads what the first request loads.
    gc.collect()
    before, threads = _resident(), threading.active_count()
    futures: list[Future[RunResult]] = [agent.submit("hello") for agent in agents[:AGENTS]]
    # The first of them is answered after 20 s, and until then all of them have asked.
    while _sockets() < AGENTS and not any(future.done() for future in futures):
        threading.Event().wait(0.2)
    grown, running = _resident() - before, threading.active_count() - threads
    done, _ = wait(futures, timeout=120)
    finished = sum(1 for future in done if future.exception() is None and "42" in future.result().text)
    return {"kib": grown / AGENTS, "threads": running / AGENTS, "unfinished": AGENTS - finished}


def _sockets() -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return count


def _resident() -> float:
    """Resident memory of this process in KiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1024


def _numbered(number: int) -> Callable[[int, int], int]:
    def function(a: int, b: int) -> int:
        """Add two numbers and return the sum of them.

        Args:
            a: The first number.
            b: The second number.
        """
        return a + b

    function.__name__ = function.__qualname__ = f"add_{number}"
    return function


def _fast(make: Callable[[], object]) -> float:
    samples = []
    for _ in range(300):
        began = time.perf_counter()
        make()
        samples.append(time.perf_counter() - began)
    return 1e6 * statistics.quantiles(samples, n=10)[0]


def _row(job: str, what: str, goal: float, unit: str, value: float) -> dict[str, Any]:
    return {"job": job, "what": what, "goal": goal, "unit": unit, "value": value}


if __name__ == "__main__":
    print(json.dumps(_idle() if sys.argv[1] == "idle" else _waiting(sys.argv[2])))
