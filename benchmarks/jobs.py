"""The jobs: what each one does, how often, and the ratio that is aimed at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

PROMPT = "What is the sum? Use the tool if you need it."


def add(a: int, b: int) -> int:
    """Add two numbers and return the sum of them."""
    return a + b


def add_slowly(a: int, b: int) -> int:
    """Add two numbers and return the sum of them."""
    time.sleep(0.05)
    return a + b


add_slowly.__name__ = "add"


def history_text(number: int) -> str:
    """The text of one message of the history."""
    return f"message {number} of a long conversation, about a hundred characters of text, so that it weighs."


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to measure; ``prepare`` gives the function that is timed."""

    name: str
    what: str
    goal: float
    rounds: int
    prepare: Callable[[ModuleType, str], Callable[[], Any]]
    cpu: bool = False
    """Whether CPU time of the process is compared in place of wall time."""
    per: int = 1
    """What one sample is divided by: its conversations or deltas."""


def simple(
    script: str,
    *,
    function: Callable[..., Any] = add,
    parallel: bool = False,
    history: int = 0,
    times: int = 1,
) -> Any:
    """What prepares *times* conversations of a script after *history* messages."""

    def prepare(side: ModuleType, url: str) -> Callable[[], Any]:
        agent = side.Agent(f"{url}/{script}", [function], parallel=parallel)
        past = side.history(history)

        def sample() -> None:
            for _ in range(times):
                text = agent.run(PROMPT, past)
                assert "42" in text, text

        return sample

    return prepare


def _streamed(deltas: int) -> Any:
    def prepare(side: ModuleType, url: str) -> Callable[[], Any]:
        agent = side.Agent(f"{url}/deltas={deltas}", [add])

        def sample() -> None:
            assert agent.stream(PROMPT) == deltas

        return sample

    return prepare


def _threads(side: ModuleType, url: str) -> Callable[[], Any]:
    """200 conversations of two tool turns on 32 threads, 50 ms of latency each request."""
    agents = [side.Agent(f"{url}/tools=2,delay=50", [add]) for _ in range(32)]

    def sample(number: int = 200) -> None:
        left = iter(range(number))
        lock = threading.Lock()

        def work(agent: Any) -> None:
            while True:
                with lock:
                    if next(left, None) is None:
                        return
                assert "42" in agent.run(PROMPT)

        workers = [threading.Thread(target=work, args=(agent,)) for agent in agents]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    sample(64)  # Every agent connects before anything is timed.
    return sample


JOBS = (
    Job("a", "one prompt, one answer", 0.95, 60, simple("tools=0", times=5), per=5),
    Job("b", "11 turns with 10 tool calls", 0.85, 30, simple("tools=10", times=2), per=2),
    Job(
        "c",
        "8 parallel tools of 50 ms",
        1.05,
        15,
        simple("tools=1,parallel=8", function=add_slowly, parallel=True),
    ),
    Job("e", "200 conversations on 32 threads, wall", 1 / 0.97, 3, _threads),
    Job("e-cpu", "200 conversations on 32 threads, CPU", 1.2, 3, _threads, cpu=True),
    Job("g", "CPU per streamed delta, 2,000 deltas", 4.0, 15, _streamed(2000), cpu=True, per=2000),
    Job("g8000", "CPU per streamed delta, 8,000 deltas", 4.0, 5, _streamed(8000), cpu=True, per=8000),
    Job("h1000", "one turn at 1,000 messages", 0.6, 40, simple("tools=0", history=1000)),
    Job("h5000", "one turn at 5,000 messages", 0.5, 20, simple("tools=0", history=5000)),
    Job("t200", "200 tool turns in one run", 0.7, 5, simple("tools=200")),
)
