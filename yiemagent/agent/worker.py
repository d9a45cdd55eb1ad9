"""``_agent_loop``: the body of the agent's daemon thread, and one run from its ticket to its end.

The thread holds its agent weakly while it waits, so a dropped agent ends its thread, and it
ends by itself after a while of idleness; the next message starts a new one.
"""

from __future__ import annotations

import functools
import logging
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from yiemagent.agent.queues import Channels
from yiemagent.agent.results import Response, RunResult, stopped_error
from yiemagent.agent.tickets import ActiveRun
from yiemagent.errors import LlmError, RunAborted
from yiemagent.events import AgentEnd
from yiemagent.loop.redirect import Redirect
from yiemagent.messages import AssistantMessage, Message

if TYPE_CHECKING:
    from yiemagent.agent.agent import Agent

__all__ = ["LiveRun"]

logger = logging.getLogger(__name__)

IDLE_SECONDS = 30.0


class LiveRun:
    """One run as the agent sees it: its signal, its ticket, and how it ended."""

    __slots__ = ("active", "end", "new_messages", "redirect", "signal", "want_deltas")

    def __init__(self, active: ActiveRun) -> None:
        self.active = active
        self.signal = active.signal
        self.redirect = Redirect()
        self.end: AgentEnd | None = None
        self.new_messages: list[Message] = []
        self.want_deltas = active.ticket.stream is not None

    def response(self) -> Response:
        """The response to whoever is to be answered now."""
        answer = self._last_answer()
        if self.end is None:
            return Response("completed", answer)
        error = self.end.error
        if self.end.status == "aborted" and error is None:
            error = RunAborted("Operation aborted", reason=self.signal.reason)
        return Response(self.end.status, answer, error, self.end.limit)

    def result(self) -> RunResult:
        """The result of the run; its own prompt's response decides."""
        responses = tuple(self.active.responses)
        own = responses[0] if responses else self.response()
        return RunResult(own.status, own.message, tuple(self.new_messages), responses, own.limit, own.error)

    def _last_answer(self) -> AssistantMessage | None:
        for message in reversed(self.new_messages):
            if isinstance(message, AssistantMessage):
                return message
        return None


def _agent_loop(channels: Channels, agent_ref: weakref.ref[Agent], claim: object) -> None:
    """Take tickets and run them until stopped, idle for long, or the agent is gone."""
    if not channels.enter_thread(claim):
        return
    try:
        while (active := channels.next_run(IDLE_SECONDS)) is not None:
            _run_ticket(agent_ref, channels, active)
            del active
    except BaseException as error:
        channels.thread_died(error)
        raise
    agent = agent_ref()
    if agent is not None and channels.stopping:
        agent._threads.close()  # Whoever stopped it did not wait for this thread.


def _run_ticket(agent_ref: weakref.ref[Agent], channels: Channels, active: ActiveRun) -> None:
    live, ticket = LiveRun(active), active.ticket
    problem = _perform(agent_ref, live)
    if live.end is None:
        error = problem or LlmError("the run ended without a word")
        live.end = AgentEnd(tuple(live.new_messages), "error", error)
    # From here on the agent is not held: it may be dropped while its answer waits for room.
    channels.end_run(active, live.response())
    live.signal.detach()
    agent = agent_ref()
    if agent is not None:
        agent._ended(live)
    del agent
    if ticket.handle is not None:
        result = live.result()
        ticket.handle.finish(result, result.failure())
    if ticket.stream is not None:
        ticket.stream.complete(None)
    if problem is not None:
        with suppress(BaseException):  # Last, and contained: whoever waits has been answered.
            logger.error("the run ended in an unexpected way", exc_info=problem)


def _perform(agent_ref: weakref.ref[Agent], live: LiveRun) -> BaseException | None:
    """Run it; what should never be raised is returned."""
    agent = agent_ref()
    if agent is None:
        return stopped_error()
    try:
        agent._begin(live)
        live.active.ticket.context.run(agent._execute, live, functools.partial(agent._emit, live))
    except BaseException as error:
        return error
    return None
