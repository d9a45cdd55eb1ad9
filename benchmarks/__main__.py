"""The driver: floor and us in turn, each in a process of its own, against one server; prints ratios."""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import cold, mcp_http, mcp_nats, mcp_stdio, memory
from benchmarks.jobs import JOBS, Job
from benchmarks.server import running_server
from benchmarks.side import running_side

RESULTS = pathlib.Path(__file__).with_name("results.json")

GROUPS: dict[str, Callable[[str, int | None], list[dict[str, Any]]]] = {
    "import": lambda url, rounds: cold.import_rows(rounds or 10),
    "cold": lambda url, rounds: cold.first_answer_rows(url, rounds or 10),
    "construct": lambda url, rounds: memory.construct_rows(),
    "idle": lambda url, rounds: memory.idle_rows(),
    "waiting": lambda url, rounds: memory.waiting_rows(url),
    "install": lambda url, rounds: cold.install_rows(),
    "mcp-stdio": lambda url, rounds: mcp_stdio.rows(rounds or 40),
    "mcp-http": lambda url, rounds: mcp_http.rows(rounds or 40),
    "mcp-nats": lambda url, rounds: mcp_nats.rows(rounds or 40),
}
"""What is not a job of floor and us in turn: each gives its own rows."""


def measure(job: Job, url: str, rounds: int | None) -> dict[str, Any]:
    """Interleaved samples of one job; the first round is dropped."""
    with running_side("floor", job, url) as floor, running_side("ours", job, url) as ours:
        samples: dict[str, list[float]] = {floor.name: [], ours.name: []}
        for number in range((rounds or job.rounds) + 1):
            for side in (floor, ours):
                seconds = side.sample()
                if number:
                    samples[side.name].append(seconds)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    ratio = medians["ours"] / medians["floor"]
    return {"job": job.name, "what": job.what, "goal": job.goal, "ratio": ratio, "seconds": medians}


def main() -> int:
    """Run the jobs that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("jobs", nargs="*", help="names of jobs; all by default")
    parser.add_argument("--rounds", type=int, help="rounds of each job, in place of its own number")
    parser.add_argument("--json", type=pathlib.Path, default=RESULTS, help="where the results go")
    options = parser.parse_args()
    known = {job.name for job in JOBS} | set(GROUPS)
    unknown = set(options.jobs) - known
    if unknown:
        parser.error(f"unknown jobs {sorted(unknown)}; known: {sorted(known)}")
    rows = []
    for row in _rows(options.jobs or known, options.rounds):
        rows.append(row)
        _print(row)
    options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _rows(wanted: set[str] | list[str], rounds: int | None) -> Iterator[dict[str, Any]]:
    with running_server() as url:
        for job in JOBS:
            if job.name in wanted:
                yield measure(job, url, rounds)
        for name, rows_of in GROUPS.items():
            if name in wanted:
                yield from rows_of(url, rounds)


def _print(row: dict[str, Any]) -> None:
    value, unit = (row["ratio"], "x floor") if "ratio" in row else (row["value"], row["unit"])
    verdict = "ok" if value <= row["goal"] else "above the goal"
    beside = "".join(f"   {name} {ratio:.2f}" for name, ratio in row.get("others", {}).items())
    print(f"{row['job']:10}{row['what']:42}{value:9.2f} {unit:8} goal {row['goal']:7.2f}   {verdict}{beside}")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
