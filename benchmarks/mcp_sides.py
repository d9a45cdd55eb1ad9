"""What the MCP benchmarks share: the server's answers, and two clients timed call by call in turn."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

ARGUMENTS = {"a": 20, "b": 22}

ANSWERS = '''
import json

def answer(request):
    """The answer to one JSON-RPC message, or None for a notification."""
    method, number = request.get("method"), request.get("id")
    if number is None:
        return None
    if method == "tools/call":
        result = {"content": [{"type": "text", "text": "42"}], "isError": False}
    elif method == "tools/list":
        result = {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
    elif method == "initialize":
        version = request["params"]["protocolVersion"]
        info = {"name": "bench", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    else:
        error = {"code": -32601, "message": "Method not found"}
        return json.dumps({"jsonrpc": "2.0", "id": number, "error": error})
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result})
'''
"""Source of ``answer``, put in front of each server's own."""


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
"""What protocol 2026-07-28 demands of each request."""

Batch = Callable[[int], list[float]]
"""Makes so many calls, one after the other, and gives the seconds of each."""


CALLS = 50
"""Of each side in a round."""


def call_bytes(number: int, *, modern: bool = False) -> bytes:
    """A ``tools/call`` as one writes it by hand, as old protocols or *modern* ones want it."""
    params: dict[str, Any] = {"name": "add", "arguments": ARGUMENTS}
    if modern:
        params["_meta"] = META
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def initialize_bytes() -> bytes:
    """An ``initialize`` as one writes it by hand."""
    client = {"name": "bench", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    return json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()


def timed(call: Callable[[int], Any]) -> Batch:
    """Calls in this process; each must give some content."""

    def batch(calls: int) -> list[float]:
        seconds = []
        for number in range(1, calls + 1):
            began = time.perf_counter()
            content = call(number)
            seconds.append(time.perf_counter() - began)
            assert content, content
        return seconds

    return batch


def compare(job: str, what: str, goal: float, floor: Batch, ours: Batch, rounds: int) -> dict[str, Any]:
    """Time 50 calls of each of the two in turn, *rounds* times; the first round is dropped.

    Args:
        job: Name of the row.
        what: For people.
        goal: Of ours against the floor.
        floor: Calls made by hand.
        ours: The same calls by a client of ours.
        rounds: How often.
    """
    medians = _medians({"floor": floor, "yiemagent": ours}, rounds)
    ratio = medians["yiemagent"] / medians["floor"]
    return {"job": job, "what": what, "goal": goal, "ratio": ratio, "seconds": medians, "others": {}}


def set_beside(row: dict[str, Any], floor: Batch, others: Mapping[str, Batch], rounds: int) -> None:
    """Add whoever else is there to *row*, timed against the floor of another run.

    Start them when the two have been compared: what runs beside a short call decides on which
    processor the system leaves the server.
    """
    if others:
        medians = _medians({"floor": floor, **others}, rounds)
        for name in others:
            row["others"][name] = medians[name] / medians["floor"]
            row["seconds"][name] = medians[name]


def _medians(sides: Mapping[str, Batch], rounds: int) -> dict[str, float]:
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, batch in sides.items():
            seconds = batch(CALLS)
            if number:
                samples[name] += seconds
    return {name: statistics.median(values) for name, values in samples.items()}


def report(row: dict[str, Any]) -> int:
    """Print one comparison; the exit status says whether the goal was reached."""
    for name, seconds in row["seconds"].items():
        print(f"{name:10s} median {1e3 * seconds:.3f} ms")
    beside = "".join(f", {name} {ratio:.2f}" for name, ratio in row["others"].items())
    print(f"{row['what']}: {row['ratio']:.2f} x floor (goal {row['goal']:.2f}){beside}")
    return 0 if row["ratio"] <= row["goal"] else 1
