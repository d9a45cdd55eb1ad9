"""What tests of agents share: tools, events as words, and agents in a process of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.testing import Gate
from yiemagent.tools.tool import Tool

PREAMBLE = """
import json, logging, os, signal, sys, threading, time
from yiemagent import Agent
from yiemagent.testing import Gate, ScriptedLlm, call, calls, say
from yiemagent.tools.tool import Tool

silent = Gate()

def main_waits(inside):
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None:
        if f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_code.co_name}" == inside:
            return True
        frame = frame.f_back
    return False

def ready(inside):
    # On the model's or tool's thread: go on when the main thread is in the call that blocks.
    while not main_waits(inside):
        time.sleep(0.001)
    print("ready", flush=True)
    threading.Event().wait(3600)

asleep = threading.Semaphore(0)

def sleeps(*args):
    asleep.release()
    time.sleep(3600)

def silence(context):
    asleep.release()
    threading.Event().wait(3600)

def hang(*args):
    return Tool(name="hangs", description="Hangs.", execute=sleeps)
"""


@pytest.fixture
def tool() -> Callable[..., Tool]:
    """``tool("name", execute, **fields)``: a tool that takes anything and by default says ``name done``."""

    def make(name: str, execute: Callable[..., Any] | None = None, **fields: Any) -> Tool:
        return Tool(
            name=name,
            description="A tool.",
            execute=execute or (lambda tool_call_id, args, signal, on_update: f"{name} done"),
            **fields,
        )

    return make


@pytest.fixture
def blocking(tool: Any) -> Callable[[Gate], Tool]:
    """A tool ``hangs`` that does not look at its signal and waits at *gate*."""
    return lambda gate: tool("hangs", lambda *args: gate.block(60))


class Child:
    """A Python process that tells what it has to say in lines."""

    def __init__(self, code: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Wait for its end; exit code and what it said on stderr. Long before what hangs in it ends."""
        _, errors = self.process.communicate(timeout=20)
        return self.process.returncode, errors


@pytest.fixture
def child() -> Iterator[Callable[[str], Child]]:
    """Start a child; it is killed at the end of the test."""
    children: list[Child] = []

    def start(code: str) -> Child:
        children.append(Child(code))
        return children[-1]

    yield start
    for each in children:
        each.process.kill()
        each.process.wait()
        for pipe in (each.process.stdout, each.process.stderr):
            if pipe is not None:
                pipe.close()
