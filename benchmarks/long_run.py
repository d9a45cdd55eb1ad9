"""A conversation of a whole day in minutes: 20,000 turns, its history compacted as it grows.

Usage: python -m benchmarks.long_run [--turns 20000] [--json]

Each question takes two turns, one with a tool call and one with the answer. A ``Compactor`` sums
up what is old before requests get too long, and when the agent holds more than a few hundred
messages its history is replaced by the compacted one, which is what keeps memory flat: the
compactor alone shortens requests and leaves the history whole. Memory is what Python
objects hold, and the resident size of the process.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from yiemagent import Agent, tool
from yiemagent.assistant_events import AssistantEvent, Done
from yiemagent.context.compact import Compactor
from yiemagent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, Usage
from yiemagent.model import LlmContext, ModelInfo, StreamOptions

WINDOW = 12_000
MOST_MESSAGES = 400
SAMPLES = 20


class Echo:
    """A model in this process: a tool call for a question, an answer for a result."""

    abortable = True

    def __init__(self) -> None:
        self.info = ModelInfo(id="echo", provider="echo", api="echo", context_window=WINDOW)
        self.asked = 0
        self.longest = 0

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        """Answer at once."""
        self.asked += 1
        self.longest = max(self.longest, len(context.messages))
        usage = Usage(input_tokens=50 * len(context.messages), output_tokens=20)
        if context.tools and not isinstance(context.messages[-1], ToolResultMessage):
            call = ToolCall(f"call_{self.asked}", "add", {"a": self.asked, "b": 1})
            yield Done(AssistantMessage((call,), stop_reason="tool_calls", usage=usage))
        else:
            text = f"Answer {self.asked}: all that was said so far, in a sentence or two."
            yield Done(AssistantMessage((TextContent(text),), usage=usage))


@dataclass(frozen=True)
class Sample:
    """Where the conversation stood, and what it held."""

    turns: int
    objects_kib: float
    resident_kib: float
    messages: int
    threads: int


def converse(turns: int) -> list[Sample]:
    """Run the conversation; samples at even distances, the first after a twentieth of it."""
    model = Echo()
    compactor = Compactor(model, share=0.5)
    heard = 0

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def listen(event: object) -> None:
        nonlocal heard
        heard += 1

    samples: list[Sample] = []
    tracemalloc.start()
    with Agent(
        model,
        tools=[add],
        transform_context=compactor,
        recover_context=compactor.recover_from_overflow,
    ) as agent:
        agent.subscribe(listen)
        for number in range(1, turns // 2 + 1):
            agent.run(f"Question {number}: add one to what you had, please, and say how it went.")
            if len(agent.messages) > MOST_MESSAGES:
                shorter, report = compactor.compact(agent.messages)
                assert report.failed is None, report
                agent.messages = shorter
            if number % (turns // 2 // SAMPLES) == 0:
                samples.append(_sample(2 * number, len(agent.messages)))
    tracemalloc.stop()
    assert heard > 10 * turns // 2
    return samples


def _sample(turns: int, messages: int) -> Sample:
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1024
    objects = tracemalloc.get_traced_memory()[0] / 1024
    return Sample(turns, objects, resident, messages, threading.active_count())


def main() -> int:
    """Print the samples; memory of the last quarter against that of the second."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_run", description=__doc__)
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    began = time.perf_counter()
    samples = converse(options.turns)
    if options.json:
        print(json.dumps([asdict(sample) for sample in samples]))
        return 0
    for sample in samples:
        memory = f"{sample.objects_kib:9.0f} KiB in objects {sample.resident_kib:9.0f} KiB resident"
        print(f"{sample.turns:7d} turns {memory} {sample.messages:5d} messages {sample.threads:3d} threads")
    print(f"{time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
