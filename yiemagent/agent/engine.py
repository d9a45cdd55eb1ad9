"""The part of an agent that runs: its thread, its runs, and what a fork or the exit means to it."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from yiemagent.abort import AbortSignal
from yiemagent.agent.leaving import enroll, stop_channels
from yiemagent.agent.queues import Channels
from yiemagent.agent.results import RunResult
from yiemagent.agent.settings import AgentSettings
from yiemagent.agent.tickets import RunHandle, Ticket, deadline_of
from yiemagent.agent.worker import LiveRun, _agent_loop
from yiemagent.data_class import replace
from yiemagent.errors import AgentBusy, RunAborted, WaitTimeout
from yiemagent.events import AgentEnd, Event, MessageEnd
from yiemagent.forking import forget_parent_on_fork
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.run import run_agent_loop
from yiemagent.loop.scope import enclosing_scope, is_part_of_run
from yiemagent.messages import Message
from yiemagent.tools.pool import ToolThreads
from yiemagent.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from yiemagent.agent.mcp_tools import McpTools

__all__ = ["AgentEngine"]

_LEAVE_MARGIN = 0.25  # Seconds beyond the grace that a caller whose time is up waits for the result.


class AgentEngine(AgentSettings):
    """What ``Agent`` and its thread share; nothing of it is for users."""

    __slots__ = ("__weakref__", "_finalizer", "_live", "_mcp", "_thread", "_when_busy")

    _finalizer: weakref.finalize[..., AgentEngine] | None
    _live: LiveRun | None
    _mcp: McpTools | None
    _thread: threading.Thread | None
    _when_busy: str

    # -- accepting -----------------------------------------------------------------------

    def _accept(self, ticket: Ticket, timeout: float | None, deadline: float | None) -> None:
        """Queue *ticket*; *deadline* is *timeout* seconds away."""
        if is_part_of_run(self):
            timeout = deadline = 0.0  # A full channel is emptied only after this very run.
        self._prepare()
        exclusive = self._when_busy == "raise"
        try:
            if self._channels.accept_prompt(ticket, deadline=deadline, timeout=timeout, exclusive=exclusive):
                self._ensure_thread()
        except BaseException:
            # Refused, or Ctrl-C at the worst moment: then it must not be answered either.
            self._give_up(ticket, "interrupted")
            raise

    def _prepare(self) -> None:
        """Before the first message: nothing of this exists for an agent that is never used."""
        if self._finalizer is None:
            forget_parent_on_fork(self)
            self._finalizer = weakref.finalize(self, _let_go, self._channels, self._threads)
            self._finalizer.atexit = False
            enroll(self._channels)

    def _ensure_thread(self) -> None:
        channels = self._channels
        claim = channels.claim_thread()
        if claim is None:
            return
        try:
            thread = threading.Thread(
                target=_agent_loop,
                args=(channels, weakref.ref(self), claim),
                name="yiemagent-agent",
                daemon=True,
            )
            self._thread = thread
            thread.start()
        except BaseException:
            channels.give_up_claim(claim)
            raise

    def _refuse_own_run(self, verb: str) -> None:
        if is_part_of_run(self):
            raise AgentBusy(
                f"{verb}() inside a run of the same agent would wait for itself for ever; use follow_up() or "
                "steer() to queue a message, or another Agent"
            )

    # -- waiting -------------------------------------------------------------------------

    def _call(self, ticket: Ticket, timeout: float | None, signal: AbortSignal | None = None) -> RunResult:
        """Prompt and wait; the body of ``run``.

        Args:
            ticket: One with a handle.
            timeout: Most seconds for everything.
            signal: Gives up too when it is aborted; by default that of the run around this one.
        """
        deadline = deadline_of(timeout)
        handle = ticket.handle
        assert handle is not None
        outer = enclosing_scope()
        around = outer.signal if signal is None and outer is not None else signal
        forget = None
        try:
            self._accept(ticket, timeout, deadline)
            if around is not None:
                forget = around.on_abort(lambda: self._give_up(ticket, around.reason))
            done = handle.wait(deadline)
        except BaseException:
            # Ctrl-C, SystemExit of a signal handler, a soft time limit: nobody waits any more.
            self._give_up(ticket, "interrupted")
            raise
        finally:
            if forget is not None:
                forget()
        return handle.outcome() if done else self._timed_out(ticket, handle, timeout)

    def _timed_out(self, ticket: Ticket, handle: RunHandle, timeout: float | None) -> RunResult:
        self._give_up(ticket, f"timeout of {timeout} s")
        handle.wait(monotonic() + self._config.abort_grace + _LEAVE_MARGIN)
        if handle.result is not None and handle.result.status == "completed":
            return handle.outcome()
        raise WaitTimeout(
            f"the run did not finish within {timeout} s and was aborted",
            result=handle.result or self._snapshot(ticket),
        )

    def _give_up(self, ticket: Ticket, reason: str) -> None:
        """Nobody wants the result of *ticket*: withdraw it, or abort its run."""
        if self._channels.withdraw(ticket):
            ticket.withdrawn(RunAborted("Operation aborted", reason=reason))
            return
        signal = self._channels.signal_of(ticket)
        if signal is not None:
            signal.abort(reason)

    def _snapshot(self, ticket: Ticket) -> RunResult | None:
        live = self._live
        return live.result() if live is not None and live.active.ticket is ticket else None

    # -- the run, on the agent's thread --------------------------------------------------

    def _begin(self, live: LiveRun) -> None:
        self._live = live
        if live.active.ticket.stream is not None:
            # Once aborted, a reader that has gone away must not hold the run up.
            live.signal.on_abort(live.active.ticket.stream.release)

    def _execute(self, live: LiveRun, emit: Callable[[Event], None]) -> None:
        context = AgentContext(self._system_prompt, self._reducer.messages, self._tools)
        config = self._run_config(live)
        run_agent_loop(live.active.ticket.messages, context, config, emit, live.signal, threads=self._threads)

    def _run_config(self, live: LiveRun) -> AgentLoopConfig:
        channels, active = self._channels, live.active
        skip = active.ticket.skip_first_poll
        begins = True

        def get_steering_messages() -> Sequence[Message]:
            nonlocal skip
            wanted, skip = not skip, False
            return channels.poll_steering(active, wanted)

        def refresh_tools() -> ToolRegistry | None:
            nonlocal begins
            tools = self._mcp_tools(live, begins)
            begins = False
            return tools

        if self._reducer.notes is None:
            self._reducer.notes = {}
        return replace(
            self._config,
            lineage=self._reducer.lineage,
            notes=self._reducer.notes,
            get_steering_messages=get_steering_messages,
            get_follow_up_messages=lambda: channels.poll_follow_ups(active, live.response),
            try_finish=lambda: channels.try_finish(active),
            put_back=lambda messages: channels.put_back(active, messages),
            redirect=live.redirect,
            refresh_tools=None if self._mcp is None else refresh_tools,
            want_deltas=lambda: live.want_deltas or self._listeners.want_deltas,
            owner=self,
        )

    def _mcp_tools(self, live: LiveRun, begins: bool) -> ToolRegistry | None:
        assert self._mcp is not None
        emit = functools.partial(self._emit, live)
        return self._mcp.refresh(self._tools, live.signal, emit, begins=begins)

    def _emit(self, live: LiveRun, event: Event) -> None:
        """Reduce first, then tell listeners, then the run's own stream."""
        self._reducer.reduce(event)
        if type(event) is MessageEnd:
            live.new_messages.append(event.message)
        elif type(event) is AgentEnd:
            live.end = event
            self._channels.close(live.active)
        self._listeners.tell(event, live.signal)
        stream = live.active.ticket.stream
        if stream is not None:
            stream.push(event)

    def _ended(self, live: LiveRun) -> None:
        self._live = None

    # -- the end -------------------------------------------------------------------------

    def _stop(self, timeout: float | None) -> bool:
        deadline = deadline_of(timeout)
        stop_channels(self._channels, "stopped")
        thread = self._thread
        if is_part_of_run(self) or thread is threading.current_thread():
            return False
        ended = self._channels.wait_without_thread(deadline)
        if ended and thread is not None and thread.ident is not None:
            thread.join(None if deadline is None else max(0.0, deadline - monotonic()))
            ended = not thread.is_alive()
        if ended:
            self._threads.close()
        return ended

    def _after_fork_in_child(self) -> None:
        """The child has the history and the settings, but no thread, lock or message of its parent."""
        old = self._channels
        self._channels = Channels()
        self._channels.steering_mode = old.steering_mode
        self._channels.follow_up_mode = old.follow_up_mode
        self._channels.stopping = old.stopping
        self._threads.forget()
        self._listeners.forget_lock()
        self._thread = None
        self._live = None
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None


def _let_go(channels: Channels, threads: ToolThreads) -> None:
    """The agent was dropped."""
    stop_channels(channels, "dropped")
    threads.close()
