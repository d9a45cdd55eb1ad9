"""Clients of a real child process that misbehaves on demand."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.mcp.stdio import McpStdio
from yiemagent.testing import WAIT

SERVER = pathlib.Path(__file__).with_name("child_server.py")

Spawn = Callable[..., McpStdio]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Makes a client of ``child_server.py``; ``server={...}`` are its arguments, the rest options."""
    clients: list[McpStdio] = []

    def make(server: dict[str, Any] | None = None, **options: Any) -> McpStdio:
        args = [str(SERVER), *(f"{name}={value}" for name, value in (server or {}).items())]
        clients.append(McpStdio(sys.executable, args, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close(timeout=0.05)


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until_gone(pid: int) -> None:
    """Wait, bounded, until a process that is not our child is over."""
    pause = threading.Event()
    for _ in range(int(WAIT / 0.01)):
        if not is_running(pid):
            return
        pause.wait(0.01)
    raise AssertionError(f"process {pid} is still running")


@pytest.fixture
def gone() -> Callable[[int], None]:
    """Asserts that a process ends in a bounded time."""
    return wait_until_gone


def _open_files() -> set[tuple[str, str]]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # The one that lists them is closed by now.
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


@pytest.fixture
def open_files() -> Callable[[], set[tuple[str, str]]]:
    """The open descriptors of this process, each with what it is open for."""
    return _open_files
