"""The agent's channels: input, follow-up, steering and output, under one condition.

What may come next and that nothing is pending are decided under the same lock that accepts
messages, so that an accepted message is either in the run or starts one, never stranded
(case F-14).
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Literal, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.agent.output import OUTPUT_SIZE, OutputSide
from yiemagent.agent.results import Response
from yiemagent.agent.tickets import SLICE, ActiveRun, Ticket
from yiemagent.errors import AgentBusy, ChannelFull
from yiemagent.messages import Message

__all__ = ["FOLLOW_UP_SIZE", "INPUT_SIZE", "OUTPUT_SIZE", "Channels", "QueueMode"]

INPUT_SIZE = 16
FOLLOW_UP_SIZE = 32

QueueMode: TypeAlias = Literal["one_at_a_time", "all"]


class Channels(OutputSide):
    """Every message on its way into or out of one agent. Any thread may call any method."""

    def __init__(self) -> None:
        super().__init__()
        self.steering: list[Message] = []
        self.steering_mode: QueueMode = "one_at_a_time"
        self.follow_up_mode: QueueMode = "one_at_a_time"

    # -- accepting -----------------------------------------------------------------------

    def accept_prompt(
        self, ticket: Ticket, *, deadline: float | None, timeout: float | None, exclusive: bool = False
    ) -> bool:
        """Queue *ticket* as input; waits for room until *deadline*, which is *timeout* seconds away.

        Returns:
            Whether a thread that takes it has to be started.

        Raises:
            AgentStopped, AgentBusy (*exclusive* and busy), ChannelFull.
        """
        with self.lock:
            while True:
                self._refuse_stopped()
                if exclusive and self._busy():
                    raise AgentBusy(
                        "the agent is busy; wait for it, or use steer() or follow_up() to queue a message"
                    )
                if len(self.input) < INPUT_SIZE:
                    break
                # Between two runs the loop is about to take one: then there will be room.
                if ticket.handle is None and self.active is not None and len(self.output) >= OUTPUT_SIZE:
                    raise ChannelFull(
                        f"the input channel ({INPUT_SIZE}) and the output channel ({OUTPUT_SIZE}) are full; "
                        "call take_response() before prompting again"
                    )
                left = SLICE if deadline is None else min(SLICE, deadline - monotonic())
                if left <= 0:
                    raise ChannelFull(
                        f"the input channel ({INPUT_SIZE}) had no room within {timeout} s; wait longer, or "
                        "wait for some of the prompts before it"
                    )
                self.changed.wait(left)
            self.input.append(ticket)
            return self._accepted()

    def accept_follow_up(self, ticket: Ticket) -> bool:
        """Queue *ticket* as a follow-up; whether it joined the run in progress.

        Raises:
            AgentStopped, ChannelFull.
        """
        with self.lock:
            self._refuse_stopped()
            if len(self.follow_ups) >= FOLLOW_UP_SIZE:
                raise ChannelFull(
                    f"the follow-up channel ({FOLLOW_UP_SIZE}) is full; wait until the agent has taken one"
                )
            self.follow_ups.append(ticket)
            self._accepted()
            return self._joins(self.active)

    def accept_steering(self, messages: Sequence[Message]) -> bool:
        """Queue steering; whether it joined the run in progress (else it waits for the next)."""
        with self.lock:
            self._refuse_stopped()
            self.steering.extend(messages)
            return self._joins(self.active)

    def steer_live(self, run: ActiveRun, messages: Sequence[Message]) -> bool:
        """Queue steering only if *run* is in progress and still takes it; whether it does."""
        with self.lock:
            self._refuse_stopped()
            if self.active is not run or not self._joins(run):
                return False
            self.steering.extend(messages)
            return True

    def accept_continue(self, make: Callable[[Channels], Ticket]) -> None:
        """Queue what *make* makes of the idle channels; it may raise. It runs under the lock.

        Raises:
            AgentStopped, AgentBusy.
        """
        with self.lock:
            self._refuse_stopped()
            if self._busy():
                raise AgentBusy("Agent is already processing. Wait for completion before continuing.")
            self.input.append(make(self))
            self._accepted()

    def withdraw(self, ticket: Ticket) -> bool:
        """Take a ticket back that no run has taken yet; whether it was still there."""
        with self.lock:
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
        while True:
            with self.lock:
                if self._startable() and not self.stopping:
                    self.active = ActiveRun((self.input or self.follow_ups).pop(0))
                    self.changed.notify_all()
                    return self.active
                left = deadline - monotonic()
                if self.stopping or left <= 0:
                    self._leave_thread()
                    return None
                bell = self.bell = queue.SimpleQueue()
            try:
                bell.get(timeout=left)
            except queue.Empty:
                continue

    def claim_thread(self) -> object | None:
        """The claim of a caller who has to start the thread that takes tickets; None when it need not."""
        with self.lock:
            if self.has_thread or self.stopping or not self._startable():
                return None
            self.has_thread = True
            self.claim = object()
            return self.claim

    def enter_thread(self, claim: object) -> bool:
        """The first act of that thread: whether it is still wanted."""
        with self.lock:
            if self.claim is not claim:
                return False
            self.claim = None
            return True

    def give_up_claim(self, claim: object) -> None:
        """Starting the thread failed or was interrupted. One that has entered all the same goes on."""
        with self.lock:
            if self.claim is claim:
                self.claim = None
                self._leave_thread()

    def poll_steering(self, run: ActiveRun, wanted: bool = True) -> Sequence[Message]:
        """Steering for the next turn, by mode; nothing once aborted (decision 8)."""
        with self.lock:
            if run.signal.aborted or self.active is not run:
                return ()
            run.polled = ()
            return self._take(self.steering, self.steering_mode) if wanted else ()

    def poll_follow_ups(self, run: ActiveRun, response: Callable[[], Response]) -> Sequence[Message]:
        """Follow-ups for the run at its natural stop; the message before them is answered now."""
        with self.lock:
            if run.signal.aborted or self.active is not run or self.steering or not self.follow_ups:
                return ()
        self._answer(run, response())
        with self.lock:
            if run.signal.aborted:
                return ()
            run.current = run.polled = self._take(self.follow_ups, self.follow_up_mode)
            self.changed.notify_all()
            return [message for ticket in run.polled for message in ticket.messages]

    def try_finish(self, run: ActiveRun) -> bool:
        """Nothing is pending: let the run end, unless something was accepted meanwhile."""
        with self.lock:
            if self.steering or self.follow_ups:
                return False
            run.accepting = False
            return True

    def close(self, run: ActiveRun) -> None:
        """The run ends, however: what is accepted from now on does not join it."""
        with self.lock:
            run.accepting = False

    def put_back(self, run: ActiveRun, messages: Sequence[Message]) -> None:
        """What was polled cannot be delivered any more: it is queued again, in front."""
        with self.lock:
            if run.polled:
                self.follow_ups[:0] = run.polled
                run.current = run.polled = ()
            else:
                self.steering[:0] = messages

    # -- stopping ------------------------------------------------------------------------

    def signal_to_abort(self, reason: str) -> AbortSignal | None:
        """The signal of the run in progress. One that is about to start is marked instead."""
        with self.lock:
            if self.active is not None:
                return self.active.signal
            if self._startable():
                (self.input or self.follow_ups)[0].abort_reason = reason
            return None

    def signal_of(self, ticket: Ticket) -> AbortSignal | None:
        """The signal of the run in progress, if it is that of *ticket*."""
        with self.lock:
            active = self.active
            return active.signal if active is not None and active.ticket is ticket else None

    def stop(self) -> list[Ticket]:
        """Take nothing more; returns the tickets that no run will take. Idempotent."""
        with self.lock:
            self.stopping = True
            left = [*self.input, *self.follow_ups]
            self.input.clear()
            self.follow_ups.clear()
            self.changed.notify_all()
            self._ring()
            return left

    # -- what is queued ------------------------------------------------------------------

    @property
    def has_queued(self) -> bool:
        """Whether steering or follow-ups are queued."""
        with self.lock:
            return bool(self.steering or self.follow_ups)

    def take_steering(self) -> tuple[Message, ...]:
        """One poll's worth of steering; the caller holds the lock."""
        return self._take(self.steering, self.steering_mode)

    def clear(self, *, steering: bool = False, follow_ups: bool = False) -> None:
        """Drop what is queued."""
        with self.lock:
            if steering:
                self.steering.clear()
            if follow_ups:
                self.follow_ups.clear()
            self.changed.notify_all()

    def reset(self, forget: Callable[[], object]) -> None:
        """Drop everything queued and call *forget*, under the lock, so that no run begins meanwhile.

        Raises:
            AgentBusy: A run is in progress or about to start.
        """
        with self.lock:
            if self._busy():
                raise AgentBusy("Agent is already processing. Wait for completion before resetting.")
            self.clear(steering=True, follow_ups=True)
            self.output.clear()
            forget()

    def replace_history(self, put: Callable[[], object]) -> None:
        """Call *put*, under the lock, while no run is in progress or about to start.

        Raises:
            AgentBusy: One is.
        """
        with self.lock:
            if self._busy():
                raise AgentBusy(
                    "the history cannot be replaced while a run is in progress; wait_for_idle() first"
                )
            put()

    # -- under the lock ------------------------------------------------------------------

    def _leave_thread(self) -> None:
        self.has_thread = False
        self.changed.notify_all()

    def _accepted(self) -> bool:
        self.holding = False
        if self.active is not None and self.active.signal.aborted:
            self.active.followed = True
        self._ring()
        return not self.has_thread

    def _ring(self) -> None:
        if self.bell is not None:
            self.bell.put(None)

    @staticmethod
    def _joins(run: ActiveRun | None) -> bool:
        return run is not None and run.accepting and not run.signal.aborted

    @staticmethod
    def _take(queue: list, mode: QueueMode) -> tuple:  # type: ignore[type-arg]
        number = 1 if mode == "one_at_a_time" else len(queue)
        taken = tuple(queue[:number])
        del queue[:number]
        return taken
