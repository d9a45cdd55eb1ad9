"""The stateless loop: three ways in, one way through.

``run_agent_loop`` blocks and tells an ``emit`` callable; ``agent_loop`` and
``agent_loop_continue`` run it on a daemon thread and give an ``EventStream``. Nothing that goes
wrong inside a run is raised out of it: ``AgentEnd`` says how it ended, always and last
(decisions 7 and 23).
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Iterable, Sequence

from yiemagent.abort import AbortSignal
from yiemagent.errors import CannotContinue, LlmError, RunAborted, YiemAgentError
from yiemagent.event_stream import EventStream
from yiemagent.events import AgentEnd, AgentStart, Event, TurnEnd, TurnStart
from yiemagent.loop.config import AgentContext, AgentLoopConfig, StreamFn
from yiemagent.loop.limits import Budget
from yiemagent.loop.run_state import Emit, LoopRun, Outcome
from yiemagent.loop.scope import RunScope, current_scope
from yiemagent.loop.turn import refresh_tools, run_turns
from yiemagent.messages import AssistantMessage, Message, TextContent
from yiemagent.tools.pool import ToolThreads

__all__ = [
    "agent_loop",
    "agent_loop_continue",
    "check_can_continue",
    "run_agent_loop",
    "run_agent_loop_continue",
]

logger = logging.getLogger(__name__)


def run_agent_loop(
    prompts: Iterable[Message],
    context: AgentContext,
    config: AgentLoopConfig,
    emit: Emit,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
    *,
    threads: ToolThreads | None = None,
) -> list[Message]:
    """Run to the end, in this thread.

    Args:
        prompts: Appended to the context first; may be empty.
        context: Not changed; its message list is copied.
        config: How to run.
        emit: Called with each event, on this thread, in order; what it raises is logged and
            contained.
        signal: Aborts the run; a child of it is what hooks and tools see.
        stream_fn: Asked in place of ``config.model.stream``.
        threads: Tool threads to use and keep; by default the run has its own.

    Returns:
        The new messages: the prompts and everything produced. ``AgentEnd`` holds them too,
        with the status and the error.

    Source: AgentCore runAgentLoop; research facts 1 to 18.
    """
    own_threads = threads or ToolThreads()
    parent = current_scope.get()
    budget = Budget(config.limits, parent.budget if parent is not None else None)
    run_signal = AbortSignal(signal if signal is not None else parent.signal if parent is not None else None)
    run = LoopRun(
        config=config,
        context=context,
        messages=list(context.messages),
        emit_to=emit,
        signal=run_signal,
        stream_fn=stream_fn or config.model.stream,
        abortable=stream_fn is None and bool(getattr(config.model, "abortable", False)),
        budget=budget,
        threads=own_threads,
    )
    token = current_scope.set(RunScope(config.owner, run_signal, budget, parent))
    try:
        return _drive(run, list(prompts))
    finally:
        current_scope.reset(token)
        run_signal.detach()
        if threads is None:
            own_threads.close()


def run_agent_loop_continue(
    context: AgentContext,
    config: AgentLoopConfig,
    emit: Emit,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
    *,
    threads: ToolThreads | None = None,
) -> list[Message]:
    """Run on from a history that ends with a user message or a tool result, in this thread.

    Raises:
        CannotContinue: At once, before any event: the history is empty or ends with an answer.
    """
    check_can_continue(context.messages)
    return run_agent_loop((), context, config, emit, signal, stream_fn, threads=threads)


def agent_loop(
    prompts: Iterable[Message],
    context: AgentContext,
    config: AgentLoopConfig,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
    *,
    max_queue: int = 10_000,
) -> EventStream[Event]:
    """Run on a daemon thread; returns at once.

    Returns:
        A stream of the run's events, ``AgentEnd`` last. ``result()`` gives the new messages of
        a run that completed or reached a limit, and raises the run's error otherwise.
        Cancelling the stream aborts the run. A reader that falls *max_queue* events behind
        holds the run up.
    """
    return _start(list(prompts), context, config, signal, stream_fn, max_queue)


def agent_loop_continue(
    context: AgentContext,
    config: AgentLoopConfig,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
    *,
    max_queue: int = 10_000,
) -> EventStream[Event]:
    """As ``agent_loop``, from the history as it is.

    Raises:
        CannotContinue: In the caller's thread, before any thread is started.
    """
    check_can_continue(context.messages)
    return _start([], context, config, signal, stream_fn, max_queue)


def check_can_continue(messages: Sequence[Message]) -> None:
    """Raise ``CannotContinue`` unless the last message leaves something to answer.

    An answer that failed or was aborted does: it is not sent again, so this is the retry.
    """
    if not messages:
        raise CannotContinue("Cannot continue: no messages in context")
    last = messages[-1]
    if isinstance(last, AssistantMessage) and last.stop_reason not in ("error", "aborted"):
        raise CannotContinue("Cannot continue from message role: assistant")


def _start(
    prompts: Sequence[Message],
    context: AgentContext,
    config: AgentLoopConfig,
    signal: AbortSignal | None,
    stream_fn: StreamFn | None,
    max_queue: int,
) -> EventStream[Event]:
    run_signal = AbortSignal(signal)
    stream: EventStream[Event] = EventStream(max_queue=max_queue, signal=run_signal)
    caller = contextvars.copy_context()

    def emit(event: Event) -> None:
        if not isinstance(event, AgentEnd):
            stream.push(event)
        elif event.status in ("completed", "limit"):
            stream.complete(list(event.messages), event)
        elif event.status == "aborted":
            stream.fail(RunAborted("Operation aborted", reason=run_signal.reason), event)
        else:
            stream.fail(event.error or LlmError("the run failed"), event)

    def body() -> None:
        caller.run(run_agent_loop, prompts, context, config, emit, run_signal, stream_fn)

    stream.produce(body, name="loop")
    return stream


def _drive(run: LoopRun, prompts: Sequence[Message]) -> list[Message]:
    run.emit(AgentStart())
    run.emit(TurnStart())
    try:
        for prompt in prompts:
            run.deliver(prompt)
        refresh_tools(run)
        outcome = run_turns(run)
    except YiemAgentError as error:
        outcome = _failed(run, error)
    except KeyboardInterrupt:
        # Ctrl-C in the caller's own thread: the run ends in order, and the caller hears of it.
        run.signal.abort("interrupted")
        _end(run, _failed(run, RunAborted("interrupted", reason="interrupted")))
        raise
    except BaseException as error:
        logger.exception("the loop itself failed")
        outcome = _failed(run, error)
    _end(run, outcome)
    return list(run.new_messages)


def _end(run: LoopRun, outcome: Outcome) -> None:
    run.emit(AgentEnd(tuple(run.new_messages), outcome.status, outcome.error, outcome.limit))


def _failed(run: LoopRun, error: BaseException) -> Outcome:
    """A hook between turns raised: say so in the history, in a turn that is complete."""
    aborted = run.signal.aborted
    message = AssistantMessage(
        (TextContent(""),), stop_reason="aborted" if aborted else "error", error_message=str(error)
    )
    run.deliver(message)
    run.emit(TurnEnd(message))
    return run.aborted_outcome() if aborted else Outcome("error", error)
