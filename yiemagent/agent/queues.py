"""The agent's channels: input, follow-up, steering and output, under one condition.

The condition guards everything in ``Channels`` and nothing foreign is called under it. What may
come next and that nothing is pending are decided under the same lock that accepts messages, so
that an accepted message is either in the run or starts one, never stranded (case F-14).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Literal, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.agent.results import Response, stopped_error
from yiemagent.agent.tickets import SLICE, ActiveRun, Ticket
from yiemagent.errors import AgentBusy, ChannelFull, WaitTimeout
from yiemagent.messages import Message

__all__ = ["FOLLOW_UP_SIZE", "INPUT_SIZE", "OUTPUT_SIZE", "Channels", "QueueMode"]

logger = logging.getLogger(__name__)

INPUT_SIZE = 16
FOLLOW_UP_SIZE = 32
OUTPUT_SIZE = 16

QueueMode: TypeAlias = Literal["one_at_a_time", "all"]


class Channels:
    """Every message on its way into or out of one agent. Any thread may call any method."""

    def __init__(self) -> None:
        # Reentrant: a dropped agent's finalizer may run while its own thread holds the lock.
        self.changed = threading.Condition()
        self.input: list[Ticket] = []
        self.follow_ups: list[Ticket] = []
        self.steering: list[Message] = []
        self.output: list[Response] = []
        self.steering_mode: QueueMode = "one_at_a_time"
        self.follow_up_mode: QueueMode = "one_at_a_time"
        self.active: ActiveRun | None = None
        self.stopping = False
        self.has_thread = False
        """Whether a thread takes tickets; it gives that up under the lock before it ends."""
        self.holding = False
        """Follow-ups left over by an abort wait for the next message that is accepted."""
        self._warned_full = False

    # -- accepting -----------------------------------------------------------------------

    def accept_prompt(
        self, ticket: Ticket, *, deadline: float | None, timeout: float | None, exclusive: bool = False
    ) -> None:
        """Queue *ticket* as input; waits for room until *deadline*.

        Raises:
            AgentStopped, AgentBusy (*exclusive* and busy), ChannelFull.
        """
        with self.changed:
            while True:
                self._refuse_stopped()
                if exclusive and self._busy():
                    raise AgentBusy(
                        "the agent is busy; wait for it, or use steer() or follow_up() to queue a message"
                    )
                if len(self.input) < INPUT_SIZE:
                    break
                if ticket.handle is None and len(self.output) >= OUTPUT_SIZE:
                    raise ChannelFull(
                        f"the input channel ({INPUT_SIZE}) and the output channel ({OUTPUT_SIZE}) are full; "
                        "call take_response() before prompting again"
                    )
                left = SLICE if deadline is None else min(SLICE, deadline - monotonic())
                if left <= 0:
                    raise ChannelFull(
                        f"the input channel ({INPUT_SIZE}) stayed full for {timeout} s; wait longer"
                    )
                self.changed.wait(left)
            self.holding = False
            self.input.append(ticket)
            self.changed.notify_all()

    def accept_follow_up(self, ticket: Ticket) -> bool:
        """Queue *ticket* as a follow-up; whether it joined the run in progress.

        Raises:
            AgentStopped, ChannelFull.
        """
        with self.changed:
            self._refuse_stopped()
            if len(self.follow_ups) >= FOLLOW_UP_SIZE:
                raise ChannelFull(
                    f"the follow-up channel ({FOLLOW_UP_SIZE}) is full; wait until the agent has taken one"
                )
            self.holding = False
            self.follow_ups.append(ticket)
            self.changed.notify_all()
            return self.active is not None and self.active.accepting

    def accept_steering(self, messages: Sequence[Message]) -> bool:
        """Queue steering; whether it joined the run in progress (else it waits for the next)."""
        with self.changed:
            self._refuse_stopped()
            self.steering.extend(messages)
            return self.active is not None and self.active.accepting

    def steer_live(self, run: ActiveRun, messages: Sequence[Message]) -> bool:
        """Queue steering only if *run* is in progress and still takes it; whether it does."""
        with self.changed:
            self._refuse_stopped()
            if self.active is not run or not run.accepting:
                return False
            self.steering.extend(messages)
            return True

    def accept_continue(self, make: Callable[[Channels], Ticket]) -> None:
        """Queue what *make* makes of the idle channels; it may raise. It runs under the lock.

        Raises:
            AgentStopped, AgentBusy.
        """
        with self.changed:
            self._refuse_stopped()
            if self._busy():
                raise AgentBusy("Agent is already processing. Wait for completion before continuing.")
            self.input.append(make(self))
            self.holding = False
            self.changed.notify_all()

    def withdraw(self, ticket: Ticket) -> bool:
        """Take a ticket back that no run has taken yet; whether it was still there."""
        with self.changed:
            if ticket not in self.input:
                return False
            self.input.remove(ticket)
            self.changed.notify_all()
            return True

    # -- the loop's side -----------------------------------------------------------------

    def next_run(self, idle: float) -> ActiveRun | None:
        """Wait for the next ticket and make it the run in progress.

        None when stopped, or when nothing came for *idle* seconds: then the caller's thread has
        to end, which was decided under the lock.
        """
        deadline = monotonic() + idle
        with self.changed:
            while not self.stopping:
                if self._startable():
                    queue = self.input or self.follow_ups
                    self.active = ActiveRun(queue.pop(0))
                    self.changed.notify_all()
                    return self.active
                left = deadline - monotonic()
                if left <= 0:
                    break
                self.changed.wait(left)
            self.has_thread = False
            return None

    def claim_thread(self) -> bool:
        """Whether the caller has to start the thread that takes tickets."""
        with self.changed:
            if self.has_thread or self.stopping or not self._startable():
                return False
            self.has_thread = True
            return True

    def lost_thread(self) -> None:
        """The thread ended without having given up its task, or could not be started."""
        with self.changed:
            self.has_thread = False

    def poll_steering(self, run: ActiveRun, wanted: bool = True) -> Sequence[Message]:
        """Steering for the next turn, by mode; nothing once aborted (decision 8)."""
        with self.changed:
            if run.signal.aborted or self.active is not run:
                return ()
            run.polled = ()
            return self._take(self.steering, self.steering_mode) if wanted else ()

    def poll_follow_ups(self, run: ActiveRun, response: Callable[[], Response]) -> Sequence[Message]:
        """Follow-ups for the run at its natural stop; the message before them is answered now."""
        with self.changed:
            if run.signal.aborted or self.active is not run or self.steering or not self.follow_ups:
                return ()
        self._answer(run, response())
        with self.changed:
            if run.signal.aborted:
                return ()
            run.current = run.polled = self._take(self.follow_ups, self.follow_up_mode)
            self.changed.notify_all()
            return [message for ticket in run.polled for message in ticket.messages]

    def try_finish(self, run: ActiveRun) -> bool:
        """Nothing is pending: let the run end, unless something was accepted meanwhile."""
        with self.changed:
            if self.steering or self.follow_ups:
                return False
            run.accepting = False
            return True

    def put_back(self, run: ActiveRun, messages: Sequence[Message]) -> None:
        """What was polled cannot be delivered any more: it is queued again, in front."""
        with self.changed:
            if run.polled:
                self.follow_ups[:0] = run.polled
                run.current = run.polled = ()
            else:
                self.steering[:0] = messages

    def end_run(self, run: ActiveRun, response: Response) -> None:
        """The run is over and told of everywhere: answer it, and be idle, in one locked step.

        Waits first while the output channel is full; abort and stop end that wait.
        """
        self._answer(run, response, last=True)

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
        with self.changed:
            run.responses.extend(response for _ in run.current)
            if last:
                if run.current and run.ticket.handle is None:
                    self.output.append(response)
                run.accepting = False
                self.active = None
                self.holding = response.status == "aborted" and bool(self.follow_ups)
            run.current = run.polled = ()
            self.changed.notify_all()

    def _put_output(self, response: Response, signal: AbortSignal) -> None:
        self._wait_for_room(signal)
        with self.changed:
            self.output.append(response)
            self.changed.notify_all()

    def _wait_for_room(self, signal: AbortSignal) -> None:
        """Only the loop adds to the output, so room that was seen is still there afterwards.

        Abort and stop end the wait: the response then goes over the bound, and is not lost.
        """
        with self.changed:
            if not self._output_full(signal):
                return
            warn, self._warned_full = not self._warned_full, True
        if warn:
            logger.warning(
                "output=%d | the output channel is full; the agent waits until take_response() is called",
                OUTPUT_SIZE,
            )
        with self.changed:
            while self._output_full(signal):
                self.changed.wait(SLICE)

    def _output_full(self, signal: AbortSignal) -> bool:
        return len(self.output) >= OUTPUT_SIZE and not self.stopping and not signal.aborted

    # -- stopping ------------------------------------------------------------------------

    def signal_to_abort(self, reason: str) -> AbortSignal | None:
        """The signal of the run in progress. One that is about to start is marked instead."""
        with self.changed:
            if self.active is not None:
                return self.active.signal
            if self.input:
                self.input[0].abort_reason = reason
            return None

    def signal_of(self, ticket: Ticket) -> AbortSignal | None:
        """The signal of the run in progress, if it is that of *ticket*."""
        with self.changed:
            active = self.active
            return active.signal if active is not None and active.ticket is ticket else None

    # -- taking and waiting --------------------------------------------------------------

    def take_output(self, timeout: float | None) -> Response:
        """The next response; waits for *timeout* seconds.

        Raises:
            AgentStopped, WaitTimeout.
        """
        deadline = None if timeout is None else monotonic() + timeout
        with self.changed:
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

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until no run is in progress and none would start; whether that came in time."""
        deadline = None if timeout is None else monotonic() + timeout
        with self.changed:
            while self._busy():
                left = SLICE if deadline is None else min(SLICE, deadline - monotonic())
                if left <= 0:
                    return False
                self.changed.wait(left)
            return True

    @property
    def busy(self) -> bool:
        """Whether a run is in progress or about to start."""
        with self.changed:
            return self._busy()

    @property
    def has_queued(self) -> bool:
        """Whether steering or follow-ups are queued."""
        with self.changed:
            return bool(self.steering or self.follow_ups)

    def take_steering(self) -> tuple[Message, ...]:
        """One poll's worth of steering; the caller holds the lock."""
        return self._take(self.steering, self.steering_mode)

    def clear(
        self,
        *,
        steering: bool = False,
        follow_ups: bool = False,
        output: bool = False,
        only_idle: bool = False,
    ) -> None:
        """Drop what is queued.

        Raises:
            AgentBusy: *only_idle*, and a run is in progress or about to start.
        """
        with self.changed:
            if only_idle and self._busy():
                raise AgentBusy("Agent is already processing. Wait for completion before resetting.")
            if steering:
                self.steering.clear()
            if follow_ups:
                self.follow_ups.clear()
            if output:
                self.output.clear()
            self.changed.notify_all()

    def stop(self) -> list[Ticket]:
        """Take nothing more; returns the tickets that no run will take. Idempotent."""
        with self.changed:
            self.stopping = True
            left = [*self.input, *self.follow_ups]
            self.input.clear()
            self.follow_ups.clear()
            self.changed.notify_all()
            return left

    # -- under the lock ------------------------------------------------------------------

    def _startable(self) -> bool:
        return bool(self.input) or (bool(self.follow_ups) and not self.holding)

    def _busy(self) -> bool:
        return self.active is not None or self._startable()

    def _refuse_stopped(self) -> None:
        if self.stopping:
            raise stopped_error()

    @staticmethod
    def _take(queue: list, mode: QueueMode) -> tuple:  # type: ignore[type-arg]
        number = 1 if mode == "one_at_a_time" else len(queue)
        taken = tuple(queue[:number])
        del queue[:number]
        return taken

    def _wake(self) -> None:
        with self.changed:
            self.changed.notify_all()
