"""Counting what a piece of work does, in place of timing it: the same on every machine."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent import data_class

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The server of the benchmarks, in a process of its own; the script of an answer is in the URL."""
    command = [sys.executable, "-m", "benchmarks.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


class Counter:
    """Counts events of the interpreter in every thread that is started while it is open."""

    def __init__(self, kind: str) -> None:
        self.count = 0
        self._kind = kind
        self._on = False

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if self._on and event == self._kind:
            self.count += 1
        return self

    def least(self, work: Callable[[], object], rounds: int = 5) -> int:
        """The smallest count of several rounds: a wait that was woken twice is no regression."""
        counts = []
        for _ in range(rounds):
            self.count, self._on = 0, True
            work()
            self._on = False
            counts.append(self.count)
        return min(counts)


@pytest.fixture
def python_calls() -> Iterator[Counter]:
    """Counts calls of Python functions."""
    before, before_threads = sys.getprofile(), threading.getprofile()
    counter = Counter("call")
    threading.setprofile(counter)
    sys.setprofile(counter)
    yield counter
    sys.setprofile(before)
    threading.setprofile(before_threads)  # type: ignore[arg-type]


@pytest.fixture
def python_lines() -> Iterator[Counter]:
    """Counts lines: unlike calls they tell of loops."""
    before, before_threads = sys.gettrace(), threading.gettrace()
    counter = Counter("line")
    threading.settrace(counter)
    sys.settrace(counter)
    yield counter
    sys.settrace(before)
    threading.settrace(before_threads)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _constructors_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what a process does that runs for a while, whatever the tests before have made."""
    monkeypatch.setattr(data_class, "CALLS_BEFORE_COMPILING", 0)
