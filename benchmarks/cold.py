"""Fresh processes: what an import costs, and a process up to its first answer."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

_FIRST_ANSWER = (
    "from benchmarks import {side}; from benchmarks.jobs import add; {side}.Agent({url!r}, [add]).run('x')"
)


def cold_rows(url: str, rounds: int) -> list[dict[str, Any]]:
    """Import and import-to-first-answer, interleaved over fresh processes."""
    script = f"{url}/tools=1"
    return [
        _compare(
            "import",
            "import of the package",
            0.3,
            rounds,
            "import requests, json",
            "import yiemagent",
            "pass",
        ),
        _compare(
            "cold",
            "import to first answer, whole process",
            1.2,
            rounds,
            _FIRST_ANSWER.format(side="floor", url=script),
            _FIRST_ANSWER.format(side="ours", url=script),
            None,
        ),
    ]


def _compare(
    name: str, what: str, goal: float, rounds: int, theirs: str, ours: str, nothing: str | None
) -> dict[str, Any]:
    samples: dict[str, list[float]] = {"floor": [], "yiemagent": [], "nothing": []}
    for _ in range(rounds):
        samples["floor"].append(_seconds(theirs))
        samples["yiemagent"].append(_seconds(ours))
        if nothing is not None:
            samples["nothing"].append(_seconds(nothing))
    medians = {key: statistics.median(values) for key, values in samples.items() if values}
    # An import is compared by what it adds to the bare interpreter.
    base = medians.get("nothing", 0.0)
    ratio = (medians["yiemagent"] - base) / (medians["floor"] - base)
    return {"job": name, "what": what, "goal": goal, "ratio": ratio, "seconds": medians}


def _seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began
