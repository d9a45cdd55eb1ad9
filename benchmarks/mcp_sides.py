"""What the MCP benchmarks share: the server's answers, and two clients timed call by call in turn."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
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


def call_bytes(number: int) -> bytes:
    """A ``tools/call`` as one writes it by hand."""
    params = {"name": "add", "arguments": ARGUMENTS}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def initialize_bytes() -> bytes:
    """An ``initialize`` as one writes it by hand."""
    client = {"name": "bench", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    return json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()


def compare(
    job: str,
    what: str,
    goal: float,
    floor: Callable[[int], Any],
    ours: Callable[[int], Any],
    rounds: int,
    calls: int = 50,
) -> dict[str, Any]:
    """Time *calls* calls of each side in turn, *rounds* times; the first round is dropped."""
    sides = {"floor": floor, "yiemagent": ours}
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, call in sides.items():
            for index in range(calls):
                began = time.perf_counter()
                content = call(index)
                if number:
                    samples[name].append(time.perf_counter() - began)
                assert content, content
    medians = {name: statistics.median(values) for name, values in samples.items()}
    return {
        "job": job,
        "what": what,
        "goal": goal,
        "ratio": medians["yiemagent"] / medians["floor"],
        "seconds": medians,
    }


def report(row: dict[str, Any]) -> int:
    """Print one comparison; the exit status says whether the goal was reached."""
    for name, seconds in row["seconds"].items():
        print(f"{name:10s} median {1e3 * seconds:.3f} ms")
    print(f"{row['what']}: {row['ratio']:.2f} x floor (goal {row['goal']:.2f})")
    return 0 if row["ratio"] <= row["goal"] else 1
