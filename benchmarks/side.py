"""One side of a job in a process of its own, as an application is: nothing that the other side did is warm.

Usage: python -m benchmarks.side floor|ours JOB URL; each line on stdin asks for one sample.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from benchmarks.jobs import JOBS, Job


@contextmanager
def running_side(side: str, job: Job, url: str) -> Iterator[Side]:
    """Start one; it is ready when this returns, and ends with the block."""
    command = [sys.executable, "-m", "benchmarks.side", side, job.name, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        made = Side(side, process)
        made.answer()
        try:
            yield made
        finally:
            process.kill()


class Side:
    """A process that measures when it is asked to."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name = name
        self._process = process

    def sample(self) -> float:
        """Seconds of one sample, for one of what the job counts.

        Raises:
            RuntimeError: The process has ended; it has said why on stderr.
        """
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self.answer())

    def answer(self) -> str:
        """The next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has failed")
        return line


def main() -> None:
    """Be one."""
    side, wanted, url = sys.argv[1:]
    [job] = [job for job in JOBS if job.name == wanted]
    sample = job.prepare(import_module(f"benchmarks.{side}"), url)
    clock = time.process_time if job.cpu else time.perf_counter
    print("ready", flush=True)
    for _ in sys.stdin:
        gc.collect()
        began = clock()
        sample()
        print((clock() - began) / job.per, flush=True)


if __name__ == "__main__":
    main()
