"""Tickets: one accepted message each, and where its response goes."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from yiemagent.abort import AbortSignal
from yiemagent.agent.results import Response, RunResult, stopped_error
from yiemagent.events import Event
from yiemagent.loop.scope import enclosing_scope
from yiemagent.messages import Message

if TYPE_CHECKING:
    from yiemagent.event_stream import EventStream

__all__ = ["SLICE", "ActiveRun", "RunHandle", "Ticket", "deadline_of"]

SLICE = 0.5
"""Longest single wait of a public call, so that Ctrl-C and signal handlers get through everywhere."""


def deadline_of(timeout: float | None) -> float | None:
    """``time.monotonic()`` value at which *timeout* seconds have passed; below 0 counts as 0.

    Raises:
        TypeError: It is neither a number nor None.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout != timeout:
        raise TypeError(f"timeout must be a number of seconds or None, got {timeout!r}")
    return monotonic() + min(max(0.0, timeout), threading.TIMEOUT_MAX)  # A longer one cannot be waited for.


class RunHandle:
    """Where ``run``, ``submit`` and ``stream`` get their result: set once, by the agent's thread."""

    __slots__ = ("_callbacks", "_gate", "_lock", "_outcome")

    def __init__(self) -> None:
        # Reentrant: the finalizer of a dropped stream may give up while its own thread is in here.
        # No threading.Event: it takes its lock through its condition, where Ctrl-C leaves it taken.
        self._lock = threading.RLock()
        self._gate = threading.Lock()
        """Held until there is an outcome: opening it is the one step that wakes who waits."""
        self._gate.acquire()
        # The first entry counts. Every access is one step of the list: a finalizer may finish it in the very
        # thread that does, and who waits looks at any moment.
        self._outcome: list[tuple[RunResult | None, BaseException | None]] = []
        self._callbacks: list[Callable[[RunHandle], object]] = []

    @property
    def done(self) -> bool:
        """Whether there is an outcome."""
        return bool(self._outcome)

    @property
    def result(self) -> RunResult | None:
        """The result of the run; None as long as there is none, or there is an error."""
        return self._outcome[0][0] if self._outcome else None

    @property
    def error(self) -> BaseException | None:
        """What went wrong; None as long as nothing did."""
        return self._outcome[0][1] if self._outcome else None

    def finish(self, result: RunResult | None, error: BaseException | None = None) -> None:
        """Set the outcome; the first one counts. Callbacks run in this thread."""
        mine = (result, error)
        with self._lock:
            self._outcome.append(mine)
            if self._outcome[0] is not mine:
                return
            callbacks, self._callbacks = self._callbacks, []
        self._gate.release()
        for callback in callbacks:
            callback(self)

    def when_done(self, callback: Callable[[RunHandle], object]) -> None:
        """Call *callback* with this handle once there is an outcome."""
        with self._lock:
            self._callbacks.append(callback)
            if not self._outcome:
                return
            callbacks, self._callbacks = self._callbacks, []
        for each in callbacks:
            each(self)

    def wait(self, deadline: float | None) -> bool:
        """Wait for the outcome until ``monotonic()`` reaches *deadline*; whether there is one."""
        while not self._outcome:
            left = SLICE if deadline is None else min(SLICE, deadline - monotonic())
            if left <= 0:
                return False
            if self._gate.acquire(timeout=left):
                self._gate.release()  # For the next one. Ctrl-C before it costs that one a slice.
        return True

    def outcome(self) -> RunResult:
        """The result of a run that completed or reached a limit; raises the error otherwise."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


class Ticket:
    """One accepted prompt, follow-up or continue."""

    __slots__ = ("abort_reason", "context", "handle", "messages", "skip_first_poll", "stream")

    def __init__(
        self,
        messages: tuple[Message, ...],
        *,
        handle: RunHandle | None = None,
        stream: EventStream[Event] | None = None,
        skip_first_poll: bool = False,
    ) -> None:
        self.messages = messages
        self.handle = handle
        """None: the response goes to the output channel."""
        self.stream = stream
        self.skip_first_poll = skip_first_poll
        self.abort_reason: str | None = None
        """Set when the run was aborted before it began."""
        self.context = contextvars.copy_context()
        """The caller's context variables; the run happens in them."""

    def withdrawn(self, error: BaseException) -> None:
        """No run will take it: tell whoever waits for its result."""
        if self.handle is not None:
            self.handle.finish(None, error)
        if self.stream is not None:
            self.stream.complete(None)

    def refuse(self) -> None:
        """No run will take it, because the agent was stopped."""
        self.withdrawn(stopped_error())


class ActiveRun:
    """The run in progress; its fields are guarded by the lock of the channels."""

    __slots__ = ("accepting", "current", "followed", "polled", "responses", "signal", "ticket")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        outer = enclosing_scope(ticket.context)
        self.signal = AbortSignal(outer.signal if outer is not None else None)
        """The run's signal: aborted too with the run whose tool or hook prompted this one."""
        if ticket.abort_reason is not None:
            self.signal.abort(ticket.abort_reason)
        self.current: tuple[Ticket, ...] = (ticket,)
        """Those whose response comes next; several only for follow-ups taken all at once."""
        self.accepting = True
        """Whether a message accepted now still joins this run."""
        self.followed = False
        """Whether a message was accepted after the run's abort."""
        self.responses: list[Response] = []
        self.polled: tuple[Ticket, ...] = ()
        """Follow-ups handed to the loop and not yet known to be delivered."""
