"""Tool calls in flight: started on tool threads, waited for as long as the run wants to.

Only the loop's thread uses a ``Flight``. Tools speak to it through one mailbox, so events stay
in one order and on one thread. A call is over for the run when its outcome was taken, its time
was up, or the run was aborted and the grace passed; whatever it brings later is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from time import monotonic

from yiemagent.data_class import dataclass
from yiemagent.events import Event, Log, ToolExecutionUpdate
from yiemagent.kept_thread import KeptThread, Mailbox
from yiemagent.loop.run_state import LoopRun
from yiemagent.loop.tool_calls import (
    ExecutedOutcome,
    PreparedToolCall,
    aborted_result,
    execute_prepared_tool_call,
    not_started_outcome,
    timed_out_result,
)
from yiemagent.tools.pool import AbandonedTool
from yiemagent.tools.tool import ToolResult

__all__ = ["Flight"]


@dataclass(slots=True, eq=False)
class _Entry:
    prepared: PreparedToolCall
    thread: KeptThread
    deadline: float | None
    timeout: float | None
    over: bool = False
    outcome: ExecutedOutcome | None = None
    abandoned: AbandonedTool | None = field(default=None)


class Flight:
    """The calls of one batch that are running."""

    __slots__ = ("_deadline", "_left_at", "_mail", "_run", "_running", "_stop_listening")

    def __init__(self, run: LoopRun) -> None:
        self._run = run
        # What a call has to tell, or None: that it is done, which its entry says.
        self._mail: Mailbox[tuple[_Entry, Event | None]] = Mailbox()
        self._running: list[_Entry] = []
        self._left_at: float | None = None
        self._deadline: float | None = None
        """When ``next`` looks round at the latest; None: only when woken."""
        self._stop_listening = run.signal.on_abort(self._mail.wake)

    def start(self, prepared: PreparedToolCall, thread: KeptThread) -> None:
        """Run *prepared* on *thread*, in a copy of this thread's context variables."""
        timeout = (
            prepared.tool.timeout if prepared.tool.timeout is not None else self._run.config.tool_timeout
        )
        deadline = None if timeout is None else monotonic() + timeout
        entry = _Entry(prepared, thread, deadline, timeout)
        work = execute_prepared_tool_call(self._run, prepared, self._updater(entry), self._logger(entry))
        self._running.append(entry)
        self._deadline = self._nearest()
        try:
            # From here on as little as possible: the thread that wakes wants the interpreter.
            thread.start(lambda: self._finish(entry, work))
        except RuntimeError as error:  # The system has no room for another thread.
            entry.outcome = not_started_outcome(error)
            self._mail.put((entry, None))
        except KeyboardInterrupt as error:  # It may run or not: it is left like one that does.
            self._run.interrupted(error)

    def next(self) -> tuple[PreparedToolCall, ExecutedOutcome]:
        """Wait for the next call to be over. Events of running calls are emitted meanwhile."""
        while True:
            try:
                mail = self._mail.take(self._deadline)
            except KeyboardInterrupt as error:
                self._run.interrupted(error)
                mail = None
            if mail is None:
                over = self._look_round()
                if over is not None:
                    return over
                continue
            entry, event = mail
            if entry.over:
                continue
            if event is not None:
                self._run.emit(event)
            elif entry.outcome is not None:
                return self._done(entry, entry.outcome)

    def _look_round(self) -> tuple[PreparedToolCall, ExecutedOutcome] | None:
        """Woken, or somebody's time is up: leave who is to be left."""
        run = self._run
        run.expire()
        now = monotonic()
        if run.signal.aborted and self._left_at is None:
            self._left_at = now + run.config.abort_grace
        self._deadline = self._nearest()
        for entry in self._running:
            if entry.outcome is not None:
                if run.interrupt is not None:  # Which may have come as its mail was taken.
                    return self._done(entry, entry.outcome)
                continue  # Finished results are kept: its mail is on the way (case F-10).
            if self._left_at is not None and now >= self._left_at:
                return self._leave(entry, aborted_result(started=True), "aborted")
            if entry.deadline is not None and now >= entry.deadline:
                assert entry.timeout is not None
                name = entry.prepared.call.name
                return self._leave(entry, timed_out_result(name, entry.timeout), "tool_timeout")
        return None

    def close(self) -> None:
        """Nothing is in flight any more."""
        self._stop_listening()

    def _nearest(self) -> float | None:
        deadlines = [entry.deadline for entry in self._running if entry.deadline is not None]
        if self._left_at is not None:
            deadlines.append(self._left_at)
        elif self._run.budget.deadline is not None:
            deadlines.append(self._run.budget.deadline)
        return min(deadlines, default=None)

    def _done(self, entry: _Entry, outcome: ExecutedOutcome) -> tuple[PreparedToolCall, ExecutedOutcome]:
        self._run.threads.give_back(entry.thread)
        return self._take(entry, outcome)

    def _take(self, entry: _Entry, outcome: ExecutedOutcome) -> tuple[PreparedToolCall, ExecutedOutcome]:
        entry.over = True
        self._running.remove(entry)
        return entry.prepared, outcome

    def _leave(
        self, entry: _Entry, result: ToolResult, reason: str
    ) -> tuple[PreparedToolCall, ExecutedOutcome]:
        call = entry.prepared.call
        entry.abandoned = AbandonedTool(call.id, call.name)
        self._run.threads.abandon(entry.thread, entry.abandoned)
        entry.prepared.signal.abort(reason)
        if entry.outcome is not None:
            # It ended in this very moment: nothing is left running, but the decision stands.
            self._run.threads.came_back(entry.abandoned)
        return self._take(entry, ExecutedOutcome(result, True, left=reason == "aborted"))

    # -- on the tool's thread ------------------------------------------------------------

    def _finish(self, entry: _Entry, work: Callable[[], ExecutedOutcome]) -> None:
        entry.outcome = work()
        if entry.abandoned is not None:
            self._run.threads.came_back(entry.abandoned)
        else:
            self._mail.put((entry, None))

    def _updater(self, entry: _Entry) -> Callable[[ToolResult | str], None]:
        call = entry.prepared.call

        def on_update(partial: ToolResult | str, /) -> None:
            if entry.over:
                return
            result = ToolResult(partial) if isinstance(partial, str) else partial  # type: ignore[arg-type]
            self._mail.put((entry, ToolExecutionUpdate(call.id, call.name, call.arguments, result)))

        return on_update

    def _logger(self, entry: _Entry) -> Callable[..., None]:
        def event_sink(text: str, publish: bool = False) -> None:
            if not entry.over:
                self._mail.put((entry, Log(str(text), publish)))

        return event_sink
