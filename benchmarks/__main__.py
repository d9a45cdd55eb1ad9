"""The driver: floor and us in turn, in one process, against one server; prints ratios."""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import floor, ours
from benchmarks.cold import cold_rows
from benchmarks.jobs import JOBS, Job
from benchmarks.server import running_server

RESULTS = pathlib.Path(__file__).with_name("results.json")


def measure(job: Job, url: str, rounds: int | None) -> dict[str, Any]:
    """Interleaved samples of one job; the first round is dropped."""
    sides = {side.NAME: job.prepare(side, url) for side in (floor, ours)}
    samples: dict[str, list[float]] = {name: [] for name in sides}
    clock: Callable[[], float] = time.process_time if job.cpu else time.perf_counter
    for number in range((rounds or job.rounds) + 1):
        for name, sample in sides.items():
            gc.collect()
            began = clock()
            sample()
            if number:
                samples[name].append((clock() - began) / job.per)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    ratio = medians[ours.NAME] / medians[floor.NAME]
    return {"job": job.name, "what": job.what, "goal": job.goal, "ratio": ratio, "seconds": medians}


def main() -> int:
    """Run the jobs that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("jobs", nargs="*", help="names of jobs; all by default")
    parser.add_argument("--rounds", type=int, help="rounds of each job, in place of its own number")
    options = parser.parse_args()
    known = {job.name for job in JOBS} | {"cold"}
    unknown = set(options.jobs) - known
    if unknown:
        parser.error(f"unknown jobs {sorted(unknown)}; known: {sorted(known)}")
    rows = []
    with running_server() as url:
        for job in JOBS:
            if not options.jobs or job.name in options.jobs:
                rows.append(measure(job, url, options.rounds))
                _print(rows[-1])
        if not options.jobs or "cold" in options.jobs:
            for row in cold_rows(url, options.rounds or 7):
                rows.append(row)
                _print(row)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _print(row: dict[str, Any]) -> None:
    verdict = "ok" if row["ratio"] <= row["goal"] else "above the goal"
    print(f"{row['job']:8} {row['what']:42} {row['ratio']:6.2f} x floor   goal {row['goal']:.2f}   {verdict}")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
