"""Waiting for a result within a deadline, ended by an abort, open to Ctrl-C."""

from __future__ import annotations

import queue
from concurrent.futures import Future
from typing import TypeVar

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpTimeout
from yiemagent.mcp.deadline import Deadline

__all__ = ["pause", "wait_for"]

T = TypeVar("T")


def pause(seconds: float, deadline: Deadline, signal: AbortSignal | None, doing: str) -> None:
    """Sleep for *seconds*, within a deadline and open to an abort.

    Raises:
        McpTimeout: The deadline passed.
        RunAborted: *signal* was aborted.
    """
    never: Future[None] = Future()
    try:
        wait_for(never, deadline.within(seconds), signal, doing)
    except McpTimeout:
        if deadline.expired:
            raise


def wait_for(future: Future[T], deadline: Deadline, signal: AbortSignal | None, doing: str) -> T:
    """The result of *future*, or what it failed with.

    Args:
        future: Not cancelled when the wait ends early.
        deadline: May be pushed back meanwhile.
        signal: Ends the wait when aborted.
        doing: For the message: ``connecting to x``.

    Raises:
        McpTimeout: The deadline passed.
        RunAborted: *signal* was aborted.
    """
    woken: queue.SimpleQueue[None] = queue.SimpleQueue()

    def wake(_: object = None) -> None:
        woken.put(None)

    withdraw = None if signal is None else signal.on_abort(wake)
    try:
        future.add_done_callback(wake)
        while not future.done():
            if signal is not None:
                signal.raise_if_aborted()
            if deadline.expired:
                waited = "in time" if deadline.timeout is None else f"within {deadline.timeout:g} s"
                raise McpTimeout(f"{doing} did not end {waited}")
            try:
                woken.get(timeout=deadline.remaining())
            except queue.Empty:
                continue
        return future.result(timeout=0)
    finally:
        if withdraw is not None:
            withdraw()
