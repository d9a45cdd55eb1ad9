"""Agent: the public verbs. Channels, futures and events are three ways to talk to it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from yiemagent.agent.construction import ConstructedAgent
from yiemagent.agent.listeners import Listener
from yiemagent.agent.prompts import Prompt, as_user_messages
from yiemagent.agent.queues import Channels
from yiemagent.agent.results import RunResult, response_error
from yiemagent.agent.tickets import RunHandle, Ticket, deadline_of
from yiemagent.errors import CannotContinue
from yiemagent.loop.run import check_can_continue
from yiemagent.tools.tool import Tool

if TYPE_CHECKING:
    from concurrent.futures import Future

    from yiemagent.agent.streams import RunStream

__all__ = ["Agent"]

_STREAM_QUEUE = 1000


class Agent(ConstructedAgent):
    """An agent that owns its conversation and runs on a daemon thread of its own.

    Nothing is started, connected or imported at construction; the thread starts with the first
    message, is gone after a while of idleness, and never keeps the process alive. Any thread
    may call any method; prompts are answered one after the other, each caller gets its own
    answer (docs/threading.md). Use it as a context manager, or call ``stop``; a dropped agent
    stops by itself. The keywords are listed at ``__init__``.

    Raises:
        ConfigurationError: A keyword or value cannot work; it names it and the way out.

    Source: yiemAgent of the Julia design, LemonAgent AG-1 to AG-32; FR-001 to FR-006, US-001.
    """

    __slots__ = ()

    # -- channels ------------------------------------------------------------------------

    def prompt(self, message: Prompt, *, timeout: float | None = None) -> Agent:
        """Put *message* into the input channel (16) and return at once.

        Args:
            message: A string, an OpenAI-format dict, a ``UserMessage``, or a list of these.
            timeout: Most seconds to wait for room when the input channel is full; None = until
                there is some, 0 = not at all.

        Returns:
            This agent, for chaining. The one response comes out of ``take_response``.

        Raises:
            AgentStopped: The agent was stopped.
            AgentBusy: A run is on and ``when_busy="raise"``.
            ChannelFull: No room in time, or the output channel is full too.
            ConfigurationError, TypeError: The message is empty or none.

        Source: promptAgent, WT-002.
        """
        self._accept(Ticket(as_user_messages(message)), timeout, deadline_of(timeout))
        return self

    def take_response(self, timeout: float | None = None) -> dict[str, Any]:
        """The next response of the output channel, in order: one per prompt and per follow-up.

        Args:
            timeout: Most seconds to wait; None = until there is one, 0 = not at all.

        Returns:
            The answer in OpenAI's shape without reasoning:
            ``{"role": "assistant", "content": [{"type": "text", "text": str}]}``.

        Raises:
            LlmError, RunAborted, HookFailed: The run that was to answer failed or was aborted.
            AgentStopped: The agent was stopped and nothing is left to take.
            WaitTimeout: *timeout* passed; a run that is on goes on.
            AgentBusy: Called inside a run of this agent.

        Source: takeResponse, WT-003, WT-030.
        """
        self._refuse_own_run("take_response")
        self._ensure_thread()
        response = self._channels.take_output(timeout, deadline_of(timeout))
        error = response_error(response)
        if error is not None:
            raise error
        return response.to_openai()

    def follow_up(self, message: Prompt) -> bool:
        """Queue *message* (32) for after the natural stop of the run in progress, in the same run.

        While idle it starts a run. Its response follows the one before it, to the same receiver.

        Returns:
            Whether it joined the run in progress.

        Raises:
            AgentStopped, ChannelFull, ConfigurationError, TypeError: As for ``prompt``.

        Source: followUp, WT-004; decision 3.
        """
        self._prepare()
        joined = self._channels.accept_follow_up(Ticket(as_user_messages(message)))
        self._ensure_thread()
        return joined

    def steer(self, message: Prompt) -> bool:
        """Inject *message* between the turns of the run in progress; it skips and cancels nothing.

        While idle it waits for the next run. An abort leaves it queued.

        Returns:
            Whether it joined the run in progress.

        Raises:
            AgentStopped, ConfigurationError, TypeError: As for ``prompt``.

        Source: decision 8; PI-50 to PI-55.
        """
        return self._channels.accept_steering(as_user_messages(message))

    def redirect(self, message: Prompt) -> bool:
        """``steer``, and cancel the model call in progress so that the model is asked again at once.

        Tools are not cancelled. Without a live run it is a follow-up.

        Returns:
            Whether it joined the run in progress.

        Source: decision 9; R1 to R8.
        """
        messages = as_user_messages(message)
        live = self._live
        if live is None or live.signal.aborted or not self._channels.steer_live(live.active, messages):
            return self.follow_up(messages)
        live.redirect.request()
        return True

    # -- calls ---------------------------------------------------------------------------

    def run(self, message: Prompt, *, timeout: float | None = None) -> RunResult:
        """Prompt and wait for this prompt's own result; safe from several threads at once.

        Args:
            timeout: Most seconds for everything, waiting in line included; then the run is aborted.

        Returns:
            The result of a run that completed or reached a limit (``status="limit"``).

        Raises:
            LlmError, HookFailed: The run failed; ``.result`` holds what there was.
            RunAborted: It was aborted; ``.result`` likewise.
            WaitTimeout: *timeout* passed; the run was aborted, ``.result`` likewise.
            AgentBusy: Called inside a run of this agent, or busy with ``when_busy="raise"``.
            AgentStopped, ChannelFull, ConfigurationError, TypeError: As for ``prompt``.

        Any exception that leaves it, Ctrl-C included, aborts its run.
        """
        self._refuse_own_run("run")
        return self._call(Ticket(as_user_messages(message), handle=RunHandle()), timeout)

    __call__ = run

    def submit(self, message: Prompt, *, timeout: float | None = None) -> Future[RunResult]:
        """Prompt and return a future of this prompt's own result.

        Args:
            timeout: Most seconds to wait for room in the input channel.

        Returns:
            A ``concurrent.futures.Future``; it gives or raises what ``run`` does. Cancelling it
            works until the run begins.

        Raises:
            As for ``prompt``.
        """
        self._refuse_own_run("submit")
        from yiemagent.agent.futures import RunFuture

        handle = RunHandle()
        ticket = Ticket(as_user_messages(message), handle=handle)
        self._accept(ticket, timeout, deadline_of(timeout))
        return RunFuture(handle, lambda: self._channels.withdraw(ticket))

    def stream(self, message: Prompt, *, timeout: float | None = None) -> RunStream:
        """Prompt and iterate the events of this prompt's run in the caller's own thread.

        Args:
            timeout: Most seconds to wait for room in the input channel.

        Returns:
            A ``RunStream``: iterate it, then ask ``.result()``. Leaving it early aborts the run.

        Raises:
            As for ``prompt``; what goes wrong in the run is in its ``AgentEnd`` and ``result()``.
        """
        from yiemagent.agent.streams import RunStream
        from yiemagent.event_stream import EventStream

        self._refuse_own_run("stream")
        handle = RunHandle()
        events: EventStream[Any] = EventStream(max_queue=_STREAM_QUEUE)
        ticket = Ticket(as_user_messages(message), handle=handle, stream=events)
        self._accept(ticket, timeout, deadline_of(timeout))
        return RunStream(events, handle, lambda reason: self._give_up(ticket, reason))

    def continue_(self) -> Agent:
        """Run on from the history as it is: after a tool result, or to try a failed answer again.

        When the history ends with an answer, queued steering or else a follow-up is delivered.

        Returns:
            This agent; the response comes out of ``take_response``.

        Raises:
            AgentBusy: A run is on.
            CannotContinue: There is nothing to answer.
            AgentStopped: The agent was stopped.
        """
        self._prepare()
        self._channels.accept_continue(self._continuation)
        self._ensure_thread()
        return self

    def _continuation(self, channels: Channels) -> Ticket:
        if not self._reducer.messages:
            raise CannotContinue("No messages to continue from")
        try:
            check_can_continue(self._reducer.messages)
        except CannotContinue:
            steering = channels.take_steering()
            if steering:
                return Ticket(steering, skip_first_poll=True)
            if channels.follow_ups:
                return channels.follow_ups.pop(0)
            raise
        return Ticket(())

    # -- control -------------------------------------------------------------------------

    def abort(self, reason: str = "aborted") -> None:
        """Abort the run in progress, or the next one that is already waiting; returns at once.

        Queued messages stay queued. While idle it does nothing.
        """
        signal = self._channels.signal_to_abort(reason)
        if signal is not None:
            signal.abort(reason)

    def wait_for_idle(self, timeout: float | None = None) -> bool:
        """Wait until no run is in progress and none is about to start.

        Every event of the runs before has been delivered, and their responses are there.

        Returns:
            True when idle; False when *timeout* seconds passed before.

        Raises:
            AgentBusy: Called inside a run of this agent.
        """
        self._refuse_own_run("wait_for_idle")
        self._ensure_thread()
        return self._channels.wait_idle(deadline_of(timeout))

    def reset(self) -> None:
        """Forget the conversation: history, error, every queued message and response.

        Raises:
            AgentBusy: A run is on.
        """
        self._channels.reset(self._reducer.reset)

    def stop(self, timeout: float | None = 5.0) -> bool:
        """Abort, take nothing more, wake everybody who waits with ``AgentStopped``. Idempotent.

        Whoever waits for the run in progress gets its ``RunAborted`` with what there was.

        Args:
            timeout: Most seconds to wait for the agent's thread (None = as long as it takes); a tool
                that hangs is left.

        Returns:
            Whether the thread has ended. False inside the agent's own run, which ends afterwards.

        Source: stopAgent, WT-005.
        """
        return self._stop(timeout)

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def subscribe(self, listener: Listener, *, deltas: bool = True) -> Callable[[], None]:
        """Have *listener* called with every event, on the agent's thread, before the loop goes on.

        Args:
            listener: ``listener(event)`` or ``listener(event, signal)``. It may call any method that
                does not wait for the run. What it raises is logged once and contained.
            deltas: Whether it wants message updates; without any such listener the model may be
                asked for a plain answer.

        Returns:
            A function that unsubscribes; calling it twice is harmless.
        """
        return self._listeners.add(listener, deltas=deltas)

    def clear_steering_queue(self) -> None:
        """Drop queued steering."""
        self._channels.clear(steering=True)

    def clear_follow_up_queue(self) -> None:
        """Drop queued follow-ups; they get no response."""
        self._channels.clear(follow_ups=True)

    def clear_all_queues(self) -> None:
        """Drop queued steering and follow-ups."""
        self._channels.clear(steering=True, follow_ups=True)

    @property
    def has_queued_messages(self) -> bool:
        """Whether steering or follow-ups are queued."""
        return self._channels.has_queued

    # -- several agents ------------------------------------------------------------------

    def as_tool(self, name: str, description: str, *, keep_history: bool = False) -> Tool:
        """This agent as a tool for another one: it takes a prompt and gives the answer's text.

        Args:
            name: Of the tool; letters, digits, ``_`` and ``-``, at most 64.
            description: When the other model should use it.
            keep_history: Let this agent itself answer every call, one after the other, and
                remember; by default each call is answered by a clone that starts afresh.

        The call inherits abort, deadline and budget of the run it is part of, and its tokens
        are in the result's ``usage``.
        """
        from yiemagent.agent.delegation import agent_tool

        return agent_tool(self, name, description, keep_history=keep_history)

    def __repr__(self) -> str:
        model = self._config.model.info.id
        state = "stopped" if self._channels.stopping else "busy" if self.is_busy else "idle"
        return f"<Agent {model!r} {state}, {len(self._reducer.messages)} messages, {len(self._tools)} tools>"
