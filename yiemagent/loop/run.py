"""The stateless loop: three ways in, one way through.

``run_agent_loop`` blocks and tells an ``emit`` callable; ``agent_loop`` and
``agent_loop_continue`` run it on a daemon thread and give an ``EventStream``. Nothing that goes
wrong inside a run is raised out of it: ``AgentEnd`` says how it ended, always and last
(decisions 7 and 23).
"""

from __future__ import annotations

import contextvars
import logging
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from yiemagent.abort import AbortSignal
from yiemagent.error_text import message_of
from yiemagent.errors import CannotContinue, LlmError, RunAborted, YiemAgentError
from yiemagent.events import AgentEnd, AgentStart, Event
from yiemagent.loop.config import AgentContext, AgentLoopConfig, StreamFn
from yiemagent.loop.limits import Budget
from yiemagent.loop.run_state import Emit, LoopRun, Outcome
from yiemagent.loop.scope import RunScope, current_scope, enclosing_scope
from yiemagent.loop.tool_batch import fail_tool_calls
from yiemagent.loop.tool_calls import aborted_result
from yiemagent.loop.turn import refresh_tools, run_turns, stop_aborted
from yiemagent.messages import AssistantMessage, Message, TextContent
from yiemagent.tools.pool import ToolThreads

if TYPE_CHECKING:
    from yiemagent.event_stream import EventStream

__all__ = [
    "agent_loop",
    "agent_loop_continue",
    "check_can_continue",
    "run_agent_loop",
    "run_agent_loop_continue",
]

logger = logging.getLogger(__name__)

_LOOK_UP = 0.5  # Seconds after which a run that waits for its reader sees whether there still is one.


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
        signal: Aborts the run; a child of it is what hooks and tools see. A run that a tool or
            hook of another run starts is aborted with that one too.
        stream_fn: Asked in place of ``config.model.stream``.
        threads: Tool threads to use and keep; by default the run has its own.

    Returns:
        The new messages: the prompts and everything produced. ``AgentEnd`` holds them too,
        with the status and the error.

    Raises:
        TypeError: One of *prompts* is no message.
        KeyboardInterrupt: Ctrl-C, when this is the main thread; the run was aborted first, and its
            ``AgentEnd`` emitted.

    Source: AgentCore runAgentLoop; PI-1 to PI-18.
    """
    given = _messages(prompts)
    own_threads = threads or ToolThreads()
    outer = enclosing_scope()
    budget = Budget(config.limits, outer.budget if outer is not None else None)
    run_signal, unlink = _run_signal(signal)
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
        offered=context.tools,
        lineage=config.lineage,
        notes={} if config.notes is None else config.notes,
    )
    scope = RunScope(config.owner, run_signal, budget, outer)
    token = current_scope.set(scope)
    try:
        return _drive(run, given)
    finally:
        scope.over = True
        current_scope.reset(token)
        unlink()
        if threads is None:
            own_threads.close()


def _messages(prompts: Iterable[Message]) -> list[Message]:
    given = list(prompts)
    for prompt in given:
        if not isinstance(prompt, Message):
            raise TypeError(f"prompts must be messages such as UserMessage, got {type(prompt).__name__}")
    return given


def _run_signal(signal: AbortSignal | None) -> tuple[AbortSignal, Callable[[], None]]:
    """A signal that follows the caller's and that of the run around this one; and how to stop that."""
    made = AbortSignal(signal)
    outer = enclosing_scope()
    if outer is None or outer.signal is signal:
        return made, made.detach
    around = outer.signal
    forget = around.on_abort(lambda: made.abort(around.reason))

    def unlink() -> None:
        made.detach()
        forget()

    return made, unlink


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
    return _start(_messages(prompts), context, config, signal, stream_fn, max_queue)


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
    from yiemagent.event_stream import EventStream
    from yiemagent.forking import Home

    run_signal, unlink = _run_signal(signal)
    stream: EventStream[Event] = EventStream(max_queue=max_queue, signal=run_signal)
    home = Home()

    def dropped(_: object) -> None:
        if home.here:
            run_signal.abort("the event stream was dropped")

    # Held weakly by the run: a caller who drops the stream ends the run (T179).
    weak = weakref.ref(stream, dropped)
    caller = contextvars.copy_context()

    def emit(event: Event) -> None:
        while (reader := weak()) is not None:
            if isinstance(event, AgentEnd):
                _complete(reader, event, run_signal)
                return
            if reader.push(event, timeout=_LOOK_UP) != "overflow":
                return
            del reader

    def body() -> None:
        try:
            caller.run(run_agent_loop, prompts, context, config, emit, run_signal, stream_fn)
        finally:
            unlink()

    stream.produce(body, name="loop")
    return stream


def _complete(stream: EventStream[Event], event: AgentEnd, signal: AbortSignal) -> None:
    if event.status in ("completed", "limit"):
        stream.complete(list(event.messages), event)
    elif event.status == "aborted":
        stream.fail(RunAborted("Operation aborted", reason=signal.reason), event)
    else:
        stream.fail(event.error or LlmError("the run failed"), event)


def _drive(run: LoopRun, prompts: Sequence[Message]) -> list[Message]:
    problem: BaseException | None = None
    try:
        run.emit(AgentStart())
        run.start_turn()
        for prompt in prompts:
            run.deliver(prompt)
        refresh_tools(run)
        outcome = run_turns(run)
    except YiemAgentError as error:
        outcome = _failed(run, error)
    except KeyboardInterrupt as error:
        run.interrupted(error)
        outcome = _failed(run, RunAborted("interrupted", reason=run.signal.reason))
    except BaseException as error:
        problem = error
        outcome = _failed(run, error)
    run.end(outcome)
    if problem is not None:
        with suppress(Exception):
            logger.error("the loop itself failed", exc_info=problem)
    if run.interrupt is not None:
        raise run.interrupt
    return list(run.new_messages)


def _failed(run: LoopRun, error: BaseException) -> Outcome:
    """A hook between turns raised: say so in the history, in a turn that is complete."""
    if not run.in_turn:
        run.start_turn()
    last = run.new_messages[-1] if run.new_messages else None
    if isinstance(last, AssistantMessage) and last is run.messages[-1] and last.tool_calls:
        # Only a defect of ours, or Ctrl-C between two lines, gets here with calls unanswered.
        fail_tool_calls(run, last.tool_calls, [aborted_result() for _ in last.tool_calls])
    aborted = run.signal.aborted
    message = AssistantMessage(
        (TextContent(""),), stop_reason="aborted" if aborted else "error", error_message=message_of(error)
    )
    run.deliver(message)
    run.end_turn(message)
    return stop_aborted(run) if aborted else Outcome("error", error)
