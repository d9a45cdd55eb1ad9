"""The output side of an agent's channels: who is answered, when, and who waits for it.

It holds the one condition that all channels share, and what everybody under it looks at.
"""

from __future__ import annotations

import logging
import queue
import threading
from contextlib import suppress
from time import monotonic

from yiemagent.abort import AbortSignal
from yiemagent.agent.results import Response, stopped_error
from yiemagent.agent.tickets import SLICE, ActiveRun, Ticket
from yiemagent.errors import WaitTimeout

__all__ = ["OUTPUT_SIZE", "OutputSide"]

logger = logging.getLogger(__name__)

OUTPUT_SIZE = 16


class OutputSide:
    """Responses on their way to ``take_response``, and waiting. Any thread may call any method."""

    def __init__(self) -> None:
        # Guards everything here and in Channels; nothing foreign is called under it. Reentrant: a
        # dropped agent's finalizer may run while its own thread holds the lock.
        # Taken directly, not through the condition: Ctrl-C cannot come between taking it and the block.
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.bell: queue.SimpleQueue[None] | None = None
        """Wakes the agent's own thread from its wait for a ticket: made anew for each, after whatever
        gevent has patched. It wakes in one step, a condition in two. What it is about, the lock says."""
        self.input: list[Ticket] = []
        self.follow_ups: list[Ticket] = []
        self.output: list[Response] = []
        self.active: ActiveRun | None = None
        self.stopping = False
        self.has_thread = False
        """Whether a thread takes tickets, or is about to; it gives that up under the lock."""
        self.claim: object | None = None
        """Of whoever starts a thread, until that thread has entered."""
        self.holding = False
        """Follow-ups left over by an abort wait for the next message that is accepted."""
        self._warned_full = False

    # -- answering, on the agent's thread ------------------------------------------------

    def end_run(self, run: ActiveRun, response: Response) -> None:
        """The run is over and told of everywhere: answer it, and be idle, in one locked step.

        Waits first while the output channel is full; abort and stop end that wait.
        """
        self._answer(run, response, last=True)

    def thread_died(self, error: BaseException) -> None:
        """A defect of ours ended the agent's thread in the middle of something: nobody waits for it."""
        with self.lock:
            active, self.active = self.active, None
            self.has_thread = False
            if active is not None and active.ticket.handle is None:
                self.output.extend(Response("error", error=error) for _ in active.current)
            self.changed.notify_all()
        if active is not None:
            active.ticket.withdrawn(error)

    def _answer(self, run: ActiveRun, response: Response, *, last: bool = False) -> None:
        forget = run.signal.on_abort(self._wake)
        try:
            if run.ticket.handle is None:
                for _ in run.current[1:] if last else run.current:
                    self._put_output(response, run.signal)
            self._finish_answer(run, response, last)
        finally:
            forget()

    def _finish_answer(self, run: ActiveRun, response: Response, last: bool) -> None:
        if last and run.current and run.ticket.handle is None:
            self._wait_for_room(run.signal)
        with self.lock:
            run.responses.extend(response for _ in run.current)
            if last:
                if run.current and run.ticket.handle is None:
                    self.output.append(response)
                run.accepting = False
                self.active = None
                # A message that was accepted after the abort is the one that the others wait for.
                self.holding = run.signal.aborted and not run.followed and bool(self.follow_ups)
            run.current = run.polled = ()
            self.changed.notify_all()

    def _put_output(self, response: Response, signal: AbortSignal) -> None:
        self._wait_for_room(signal)
        with self.lock:
            self.output.append(response)
            self.changed.notify_all()

    def _wait_for_room(self, signal: AbortSignal) -> None:
        """Only the loop adds to the output, so room that was seen is still there afterwards.

        Abort and stop end the wait: the response then goes over the bound, and is not lost.
        """
        with self.lock:
            if not self._output_full(signal):
                return
            warn, self._warned_full = not self._warned_full, True
        if warn:
            with suppress(Exception):  # A log handler that raises must not cost anybody the answer.
                logger.warning(
                    "output=%d | the output channel is full; the agent waits until take_response() is called",
                    OUTPUT_SIZE,
                )
        with self.lock:
            while self._output_full(signal):
                self.changed.wait(SLICE)

    def _output_full(self, signal: AbortSignal) -> bool:
        return len(self.output) >= OUTPUT_SIZE and not self.stopping and not signal.aborted

    # -- taking and waiting --------------------------------------------------------------

    def take_output(self, timeout: float | None, deadline: float | None) -> Response:
        """The next response; waits until *deadline*, which is *timeout* seconds away.

        Raises:
            AgentStopped, WaitTimeout.
        """
        with self.lock:
            while not self.output:
                self._refuse_stopped()
                left = SLICE if deadline is None else min(SLICE, deadline - monotonic())
                if left <= 0:
                    state = "the run continues" if self._busy() else "the agent is idle, nothing is pending"
                    raise WaitTimeout(f"no response within {timeout} s ({state})")
                self.changed.wait(left)
            response = self.output.pop(0)
            self.changed.notify_all()
            return response

    def wait_idle(self, deadline: float | None) -> bool:
        """Wait until no run is in progress and none would start; whether that came in time."""
        with self.lock:
            while self._busy():
                left = SLICE if deadline is None else min(SLICE, deadline - monotonic())
                if left <= 0:
                    return False
                self.changed.wait(left)
            return True

    def wait_without_thread(self, deadline: float | None) -> bool:
        """Wait until no thread takes tickets any more; whether that came in time."""
        with self.lock:
            while self.has_thread:
                left = SLICE if deadline is None else min(SLICE, deadline - monotonic())
                if left <= 0:
                    return False
                self.changed.wait(left)
            return True

    @property
    def busy(self) -> bool:
        """Whether a run is in progress or about to start."""
        with self.lock:
            return self._busy()

    # -- under the lock ------------------------------------------------------------------

    def _startable(self) -> bool:
        return bool(self.input) or (bool(self.follow_ups) and not self.holding)

    def _busy(self) -> bool:
        return self.active is not None or self._startable()

    def _refuse_stopped(self) -> None:
        if self.stopping:
            raise stopped_error()

    def _wake(self) -> None:
        with self.lock:
            self.changed.notify_all()
