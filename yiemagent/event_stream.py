"""EventStream: a bounded hand-over of events from one thread to an iterating caller.

A full stream holds its producer up (``when_full="block"``, the default: backpressure), refuses
the event (``"error"``), or drops the oldest or the newest. The terminal event is delivered
under every policy. Buffered events stay readable after a cancel.

Source: ES-1 to ES-17, T160 to T193.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from yiemagent.abort import AbortSignal
from yiemagent.data_class import dataclass
from yiemagent.errors import ConfigurationError, RunAborted, WaitTimeout, YiemAgentError
from yiemagent.value_checks import check_count, check_seconds, check_type

__all__ = ["EventStream", "PushOutcome", "StreamStats", "WhenFull"]

T = TypeVar("T")
PushOutcome: TypeAlias = Literal["ok", "overflow", "canceled"]
WhenFull: TypeAlias = Literal["block", "error", "drop_oldest", "drop_newest"]

_SLICE = 0.5  # Longest single wait, so that Ctrl-C gets through on every platform.


@dataclass(frozen=True, slots=True)
class StreamStats:
    """Events waiting, the bound, and how many were dropped or refused."""

    queue_size: int
    max_queue: int
    dropped: int


class EventStream(Generic[T]):
    """Bounded, closable, iterable; any number of threads may push, iterate and wait.

    Several consumers share the events: each event goes to exactly one of them, and exactly one
    sees the terminal event.

    Args:
        max_queue: Most events that wait to be read, at least 1.
        when_full: What a push into a full stream does.
        timeout: Seconds after which an unfinished stream is cancelled with reason "timeout", by
            whoever waits for it, pushes to it or looks at it then; None = never.
        signal: Aborted when the stream is cancelled, before anything else happens.

    Raises:
        ConfigurationError: A value is of no use or out of range.
    """

    def __init__(
        self,
        *,
        max_queue: int = 10_000,
        when_full: WhenFull = "block",
        timeout: float | None = None,
        signal: AbortSignal | None = None,
    ) -> None:
        check_count("max_queue", max_queue, none=False)
        check_seconds("timeout", timeout, zero=True)
        check_type("signal", signal, AbortSignal)
        if when_full not in ("block", "error", "drop_oldest", "drop_newest"):
            raise ConfigurationError(
                f"when_full must be block, error, drop_oldest or drop_newest, got {when_full!r}"
            )
        self._max_queue = max_queue
        self._when_full = when_full
        self._deadline = None if timeout is None else monotonic() + min(timeout, threading.TIMEOUT_MAX)
        self._signals = [signal] if signal is not None else []
        # Guards everything below; nothing foreign is called under it. Reentrant: the finalizer of
        # a dropped reader may release the stream while its own thread holds the lock.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._events: deque[T] = deque()
        self._dropped = 0
        self._finished = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._reason: str | None = None

    # -- producing ---------------------------------------------------------------------

    def push(self, event: T, *, timeout: float | None = None) -> PushOutcome:
        """Add *event*.

        Args:
            timeout: Most seconds to wait for room under ``"block"``; None = until there is some.

        Returns:
            ``"ok"``; ``"overflow"`` when it was refused; ``"canceled"`` when the stream is over.
        """
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            self._expire()
            with self._lock:
                outcome = self._offer(event, deadline)
                if outcome is not None:
                    return outcome
                self._changed.wait(_slice(_earlier(deadline, self._deadline)))

    def push_nowait(self, event: T) -> None:
        """Add *event* if there is room, count it as dropped if not; never blocks or reports."""
        if self.push(event, timeout=0) == "overflow" and self._when_full == "block":
            with self._lock:
                self._dropped += 1

    def complete(self, result: Any = None, event: T | None = None) -> bool:
        """End the stream well: *event* is its last one, ``result()`` gives *result*.

        Returns:
            Whether this call ended it; the first of ``complete``, ``fail`` and ``cancel`` wins.
        """
        self._expire()
        return self._finish(event, result=result)

    def fail(self, error: BaseException, event: T | None = None) -> bool:
        """End the stream badly: ``result()`` raises *error*. Returns whether this call ended it."""
        self._expire()
        return self._finish(event, error=error)

    def attach(self, signal: AbortSignal) -> None:
        """Abort *signal* too when the stream is cancelled; replaces the signals given before."""
        with self._lock:
            self._signals = [signal]

    def produce(self, body: Callable[[], object], *, name: str = "stream") -> threading.Thread:
        """Run *body* as the producer on a daemon thread of its own.

        The stream is ended when it dies: with what it raised, or with an error when it returns
        without having ended the stream. The thread itself holds the stream weakly.
        """
        weak = weakref.ref(self)

        def guarded() -> None:
            error: BaseException = YiemAgentError("the producer returned without ending its event stream")
            try:
                body()
            except BaseException as raised:
                error = raised
            stream = weak()
            if stream is not None:
                stream.fail(error)

        thread = threading.Thread(target=guarded, name=f"yiemagent-{name}", daemon=True)
        thread.start()
        return thread

    # -- consuming ---------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        """Yield events until the terminal one; blocks for more. Ends at once when all is read."""
        while True:
            self._expire()
            with self._lock:
                if not self._events:
                    if self._finished:
                        return
                    self._changed.wait(_slice(self._deadline))
                    continue
                event = self._events.popleft()
                self._changed.notify_all()
            yield event

    def batches(self) -> Iterator[Sequence[T]]:
        """As iterating, but everything that has arrived at a time; for a single consumer.

        One hand-over for many events: a consumer that is slower than its producer pays less
        for each.
        """
        while True:
            self._expire()
            with self._lock:
                if not self._events:
                    if self._finished:
                        return
                    self._changed.wait(_slice(self._deadline))
                    continue
                taken, self._events = self._events, deque()
                self._changed.notify_all()
            yield taken

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the end and give what ``complete`` was given. Consumes no event.

        Raises:
            WaitTimeout: *timeout* seconds passed; the stream goes on.
            RunAborted: The stream was cancelled; ``reason`` says why.
            BaseException: What ``fail`` was given.
        """
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            self._expire()
            with self._lock:
                if self._finished:
                    break
                if deadline is not None and monotonic() >= deadline:
                    raise WaitTimeout(f"the event stream did not end within {timeout} s")
                self._changed.wait(_slice(_earlier(deadline, self._deadline)))
        if self._error is not None:
            raise self._error
        return self._result

    def cancel(self, reason: str = "canceled") -> bool:
        """End the stream because nobody wants it: aborts the signals first, then wakes everybody.

        Events already buffered stay readable. Returns whether this call ended it.
        """
        with self._lock:
            if self._finished:
                return False
            signals = list(self._signals)
        try:
            for signal in signals:
                signal.abort(reason)
        finally:
            error = RunAborted(f"Stream canceled: {reason}", reason=reason)
            ended = self._finish(None, error=error, reason=reason)
        return ended

    def release(self) -> None:
        """Lift the bound: a producer that waits for room goes on, and none waits any more."""
        with self._lock:
            self._max_queue = sys.maxsize
            self._changed.notify_all()

    # -- looking -----------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the stream is over; events may still wait to be read."""
        self._expire()
        return self._finished

    @property
    def reason(self) -> str | None:
        """Why the stream was cancelled; None when it was not."""
        return self._reason

    @property
    def stats(self) -> StreamStats:
        """How full the stream is."""
        with self._lock:
            return StreamStats(len(self._events), self._max_queue, self._dropped)

    def __repr__(self) -> str:
        return f"<EventStream {'finished' if self._finished else 'open'} {self.stats}>"

    def _expire(self) -> None:
        """Cancel a stream whose time is up; without the lock, for the signals' callbacks are foreign."""
        if self._deadline is not None and not self._finished and monotonic() >= self._deadline:
            self.cancel("timeout")

    # -- under the lock ----------------------------------------------------------------

    def _offer(self, event: T, deadline: float | None) -> PushOutcome | None:
        """Take *event* or say why not; None when there may be room later."""
        if self._finished:
            return "canceled"
        if len(self._events) >= self._max_queue:
            if self._when_full == "drop_newest":
                self._dropped += 1
                return "ok"
            if self._when_full == "drop_oldest":
                self._events.popleft()
                self._dropped += 1
            elif self._when_full == "error":
                self._dropped += 1
                return "overflow"
            elif deadline is None or monotonic() < deadline:
                return None
            else:
                return "overflow"  # The producer still has it and may try again.
        self._events.append(event)
        self._changed.notify_all()
        return "ok"

    def _finish(
        self,
        event: T | None,
        *,
        result: Any = None,
        error: BaseException | None = None,
        reason: str | None = None,
    ) -> bool:
        with self._lock:
            if self._finished:
                return False
            self._finished = True
            self._result, self._error, self._reason = result, error, reason
            if event is not None:
                if len(self._events) >= self._max_queue and self._when_full != "block":
                    self._events.popleft()
                    self._dropped += 1
                self._events.append(event)
            self._changed.notify_all()
            return True


def _earlier(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def _slice(deadline: float | None) -> float:
    return _SLICE if deadline is None else max(0.0, min(_SLICE, deadline - monotonic()))
