"""How the time of a turn grows with the history, and that of a run with its turns: numbers and a picture.

Usage: python -m benchmarks.growth [--rounds 15] [--harness results.json] [--svg docs/growth.svg]

Measures the floor and us, interleaved. With ``--harness`` it takes the samples of a comparison
of several libraries in place of measuring (see ``contender.py``): a JSON object that holds, for
``h_<messages>`` and ``h_loop_<turns>``, the wall times of each contender.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import statistics
import time
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, TypeAlias

from benchmarks import floor, ours
from benchmarks.jobs import simple
from benchmarks.server import running_server

Curves: TypeAlias = dict[str, dict[int, float]]
"""Milliseconds by size, for each contender."""

MESSAGES = (1, 10, 100, 1000, 5000)
TURNS = (10, 50, 200)
COLOURS = ("#1f6fb4", "#444444", "#c8532b", "#2c8a57", "#8a4fa3", "#b08a1e", "#5b7f95")
LEFT, TOP, WIDTH, HEIGHT, GAP = 56, 46, 330, 300, 90


def measured(rounds: int) -> tuple[Curves, Curves]:
    """Curves of the floor and of us."""
    with running_server() as url:
        history = _curves(url, rounds, {size: simple("tools=0", history=size) for size in MESSAGES})
        turns = _curves(url, max(3, rounds // 4), {size: simple(f"tools={size}") for size in TURNS})
    return history, turns


def _curves(url: str, rounds: int, jobs: Mapping[int, Any]) -> Curves:
    curves: Curves = {"yiemagent": {}, "floor": {}}
    for size, prepare in jobs.items():
        sides = {side.NAME: prepare(side, url) for side in (floor, ours)}
        samples: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(rounds + 1):
            for name, sample in sides.items():
                began = time.perf_counter()
                sample()
                if number:
                    samples[name].append(1e3 * (time.perf_counter() - began))
        for name, values in samples.items():
            curves[name][size] = statistics.median(values)
    return curves


def from_harness(path: pathlib.Path) -> tuple[Curves, Curves]:
    """Curves of all contenders of a comparison, ours first and the floor second."""
    results: dict[str, Any] = json.loads(path.read_text())

    def curves(prefix: str, sizes: Iterable[int]) -> Curves:
        made: Curves = {}
        for size in sizes:
            for name, samples in results.get(f"{prefix}{size}", {}).items():
                if samples.get("wall"):
                    shown = name.removesuffix("_agent") if name.startswith("yiemagent") else name
                    median = 1e3 * statistics.median(samples["wall"])
                    made.setdefault(shown.replace("floor_requests", "floor"), {})[size] = median
        order = sorted(made, key=lambda name: ({"yiemagent": 0, "floor": 1}.get(name, 2), name))
        return {name: made[name] for name in order}

    return curves("h_", MESSAGES), curves("h_loop_", TURNS)


def picture(history: Curves, turns: Curves) -> str:
    """Both sets of curves side by side, on logarithmic scales."""
    width = LEFT + 2 * WIDTH + GAP + 20
    height = TOP + HEIGHT + 46 + 20 * len(history)
    box = f'viewBox="0 0 {width} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_panel(LEFT, "one turn, by messages of history (ms)", history),
        *_panel(LEFT + WIDTH + GAP, "one run, by turns with a tool call (ms)", turns),
    ]
    for index, name in enumerate(history):
        y, colour = TOP + HEIGHT + 52 + 20 * index, COLOURS[index % len(COLOURS)]
        lines.append(f'<path d="M{LEFT} {y - 4}h30" stroke="{colour}" stroke-width="{_weight(name)}"/>')
        lines.append(f'<text x="{LEFT + 40}" y="{y}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(left: int, title: str, curves: Curves) -> Iterable[str]:
    sizes = sorted({size for curve in curves.values() for size in curve})
    times = [value for curve in curves.values() for value in curve.values()]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(size: float) -> float:
        return left + WIDTH * (math.log10(size) - first) / (last - first)

    def y(value: float) -> float:
        return TOP + HEIGHT * (high - math.log10(value)) / (high - low)

    yield f'<text x="{left}" y="{TOP - 18}" font-weight="bold">{escape(title)}</text>'
    for power in range(low, high + 1):
        at = y(10**power)
        yield f'<path d="M{left} {at:.1f}h{WIDTH}" stroke="#dddddd"/>'
        yield f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
    for size in sizes:
        yield f'<path d="M{x(size):.1f} {TOP}v{HEIGHT}" stroke="#eeeeee"/>'
        yield f'<text x="{x(size):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{size}</text>'
    for index, (name, curve) in enumerate(curves.items()):
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in sorted(curve.items()))
        colour = COLOURS[index % len(COLOURS)]
        yield (
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{_weight(name)}">'
            f"<title>{escape(name)}</title></polyline>"
        )


def _weight(name: str) -> float:
    return 3 if name == "yiemagent" else 1.5


def main() -> int:
    """Print the numbers and write the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--harness", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    options = parser.parse_args()
    sets = from_harness(options.harness) if options.harness else measured(options.rounds)
    for title, curves in zip(("messages of history", "turns with a tool call"), sets, strict=True):
        print(title)
        for name, curve in curves.items():
            print(f"  {name:20}" + "".join(f"{size:>8}: {value:9.2f} ms" for size, value in curve.items()))
    if options.svg:
        options.svg.write_text(picture(*sets))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
