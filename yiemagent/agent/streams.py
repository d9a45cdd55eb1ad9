"""RunStream: the events of one run, iterated in the caller's own thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from types import TracebackType

from yiemagent.agent.results import RunResult
from yiemagent.agent.tickets import RunHandle
from yiemagent.errors import WaitTimeout
from yiemagent.event_stream import EventStream
from yiemagent.events import Event
from yiemagent.forking import Home

__all__ = ["RunStream"]


class RunStream:
    """Iterate it for the run's events, ``AgentEnd`` last; it belongs to one caller.

    Leaving it early (``close``, the end of a ``with`` block, or dropping it) aborts the run.
    A reader that falls 1,000 events behind holds the run up until it reads on or leaves.
    """

    def __init__(self, stream: EventStream[Event], handle: RunHandle, give_up: Callable[[str], None]) -> None:
        self._stream = stream
        self._handle = handle
        self._give_up = give_up
        self._home = Home()

    def __iter__(self) -> Iterator[Event]:
        """Yield events until the run is over; blocks the caller's thread, Ctrl-C gets through.

        Raises:
            BaseException: What ended the waiting (``KeyboardInterrupt``); the run is aborted then.
        """
        try:
            for batch in self._stream.batches():
                yield from batch
        except BaseException:
            self.close()
            raise

    def result(self, timeout: float | None = None) -> RunResult:
        """Wait for the end of the run; events not read are dropped.

        Raises:
            WaitTimeout: *timeout* seconds passed; the run goes on.
            LlmError, RunAborted: As for ``Agent.run``.
        """
        self._stream.release()
        try:
            done = self._handle.wait(None if timeout is None else monotonic() + timeout)
        except BaseException:
            self.close()
            raise
        if not done:
            raise WaitTimeout(f"the run did not end within {timeout} s; it goes on")
        return self._handle.outcome()

    def close(self) -> None:
        """Abort the run if it is not over. Idempotent; does nothing in a forked child, nor as the
        interpreter goes down."""
        if not self._home.here:
            return
        if not self._handle.done:
            self._give_up("the event stream was closed")
        self._stream.release()

    def __enter__(self) -> RunStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._handle.done:
            self.close()
