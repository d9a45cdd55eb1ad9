"""Fresh processes: what an import costs, and a process up to its first answer."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from importlib.metadata import requires
from typing import Any

_FIRST_ANSWER = (
    "from benchmarks import {side}; from benchmarks.jobs import add; {side}.Agent({url!r}, [add]).run('x')"
)


def import_rows(rounds: int) -> list[dict[str, Any]]:
    """What the import adds to the bare interpreter, against that of requests."""
    theirs, ours = "import requests, json", "import yiemagent"
    return [_compare("import", "import of the package", 0.3, rounds, theirs, ours, "pass")]


def first_answer_rows(url: str, rounds: int) -> list[dict[str, Any]]:
    """A whole process: import, agent, a conversation with one tool call."""
    script = f"{url}/tools=1"
    theirs, ours = (_FIRST_ANSWER.format(side=side, url=script) for side in ("floor", "ours"))
    return [_compare("cold", "import to first answer, whole process", 1.2, rounds, theirs, ours)]


def install_rows() -> list[dict[str, Any]]:
    """Distributions that come with the core, extras aside."""
    seen: set[str] = set()
    left = ["yiemagent"]
    while left:
        for line in requires(left.pop()) or ():
            name, _, condition = line.partition(";")
            found = re.match(r"[A-Za-z0-9._-]+", name)
            if "extra ==" in condition or found is None or not _applies(condition):
                continue
            key = re.sub(r"[-_.]+", "-", found[0]).lower()
            if key not in seen:
                seen.add(key)
                left.append(key)
    value = len(seen)
    return [
        {
            "job": "install",
            "what": "distributions installed with the core",
            "goal": 12,
            "unit": "dists",
            "value": value,
        }
    ]


def _applies(condition: str) -> bool:
    """Whether a requirement with this environment marker is installed here."""
    found = re.search(r'python_version\s*<\s*"(\d+)\.(\d+)"', condition)
    return found is None or sys.version_info < (int(found[1]), int(found[2]))


def _compare(
    name: str, what: str, goal: float, rounds: int, theirs: str, ours: str, nothing: str | None = None
) -> dict[str, Any]:
    sides = {"floor": theirs, "yiemagent": ours} | ({} if nothing is None else {"nothing": nothing})
    samples: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, code in sides.items():
            seconds = _seconds(code)
            if number:  # The first round writes bytecode that an installed package has.
                samples[side].append(seconds)
    medians = {key: statistics.median(values) for key, values in samples.items()}
    # An import is compared by what it adds to the bare interpreter.
    base = medians.get("nothing", 0.0)
    ratio = (medians["yiemagent"] - base) / (medians["floor"] - base)
    return {"job": name, "what": what, "goal": goal, "ratio": ratio, "seconds": medians}


def _seconds(code: str) -> float:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return time.perf_counter() - began
