"""The two nested loops: turns with tools and steering inside, follow-ups outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from yiemagent.data_class import dataclass, replace
from yiemagent.errors import LlmError
from yiemagent.loop.assistant import Answer, stream_assistant_response
from yiemagent.loop.config import NextTurn, PrepareNextTurnContext
from yiemagent.loop.run_state import LoopRun, Outcome, call_hook
from yiemagent.loop.tool_batch import ExecutedToolCallBatch, execute_tool_calls, fail_tool_calls
from yiemagent.loop.tool_calls import aborted_result, truncated_result
from yiemagent.messages import AssistantMessage, Message, TextContent, ToolResultMessage
from yiemagent.tools.result import error_result

__all__ = ["refresh_tools", "run_turns", "stop_aborted"]

MAX_TRUNCATED_TURNS = 3  # In a row; then the run ends with an error (decision 15).

LIMIT_TEXTS = {
    "max_tool_turns": (
        "I stopped because the maximum tool-call turn budget was reached before a final answer."
    ),
    "max_tool_calls": "I stopped because the maximum number of tool calls was reached before a final answer.",
    "max_total_tokens": "I stopped because the token budget was used up before a final answer.",
    "max_cost": "I stopped because the cost budget was used up before a final answer.",
    "max_seconds": "I stopped because the time for this run was used up before a final answer.",
    "max_identical_calls": "I stopped because the same tool call was repeated too often.",
}


@dataclass(frozen=True, slots=True)
class _Turn:
    message: AssistantMessage
    results: tuple[ToolResultMessage, ...] = ()
    again: bool = False
    """The model has to be asked again: it has results to read, or was redirected."""
    outcome: Outcome | None = None
    """The run ends here, without polling."""


def run_turns(run: LoopRun) -> Outcome:
    """Take turns until nothing is pending; the first turn's start was emitted already.

    One rule for aborts: the signal is looked at before each new piece of work.
    """
    pending = _poll_steering(run)
    run.budget.begin_answer()
    while True:
        if not run.in_turn:
            run.start_turn()
        for message in pending:
            run.deliver(message)
        turn = _take_turn(run)
        if turn.outcome is not None:
            return turn.outcome
        if run.signal.aborted:
            return stop_aborted(run)
        if _should_stop(run, turn):
            return Outcome("completed")
        limit = run.budget.reached() if turn.again else None
        if limit is not None:
            return _stop_at_limit(run, limit)
        pending = _poll_steering(run)
        if not turn.again and not pending:
            pending = _poll_at_stop(run)
            if not pending and not run.signal.aborted:
                return Outcome("completed")
        if not run.stopped():  # Only now: an answer that came just in time is an answer.
            pending = _prepare_next(run, turn, pending)
        if run.stopped():
            _give_back(run, pending)
            return stop_aborted(run)


def _take_turn(run: LoopRun) -> _Turn:
    limit = run.budget.reached()
    if limit is not None:
        stopped = _stop_at_limit(run, limit)
        message = run.new_messages[-1]
        assert isinstance(message, AssistantMessage)
        run.end_turn(message)
        return _Turn(message, outcome=stopped)
    answer = stream_assistant_response(run)
    message = answer.message
    if message.stop_reason == "redirected":
        run.end_turn(message)
        return _Turn(message, again=True)
    if message.stop_reason in ("error", "aborted"):
        return _end_badly(run, answer)
    if not message.tool_calls:
        run.truncated_turns = 0
        run.end_turn(message)
        return _Turn(message)
    batch, outcome = _handle_calls(run, message)
    run.end_turn(message, batch.messages)
    run.budget.charge_tool_turn()
    if outcome is not None and outcome.limit is not None:
        outcome = _stop_at_limit(run, outcome.limit)
    return _Turn(message, batch.messages, again=not batch.terminate, outcome=outcome)


def _handle_calls(run: LoopRun, message: AssistantMessage) -> tuple[ExecutedToolCallBatch, Outcome | None]:
    calls = message.tool_calls
    if message.stop_reason == "length":
        run.truncated_turns += 1
        batch = fail_tool_calls(run, calls, [truncated_result(call.name) for call in calls])
        if run.truncated_turns < MAX_TRUNCATED_TURNS:
            return batch, None
        error = LlmError(
            f"the answer was cut off at the output token limit {MAX_TRUNCATED_TURNS} times in a row; "
            "raise max_tokens or ask for less at once",
            kind="truncated",
            partial=message,
        )
        return batch, Outcome("error", error)
    run.truncated_turns = 0
    if message.stop_reason == "refusal":
        text = "Tool call was not executed: the model's answer was refused or filtered."
        return fail_tool_calls(run, calls, [error_result(text, "refused") for _ in calls]), Outcome(
            "completed"
        )
    limit = run.budget.refuse_calls(calls)
    if limit is not None:
        text = f"Tool call was not executed: the limit {limit} was reached."
        batch = fail_tool_calls(run, calls, [error_result(text, "limit", limit=limit) for _ in calls])
        return batch, Outcome("limit", limit=limit)
    return execute_tool_calls(run, message, calls), None


def _end_badly(run: LoopRun, answer: Answer) -> _Turn:
    """An answer that failed or was aborted: complete calls in it get their result all the same."""
    message = answer.message
    calls = message.tool_calls
    results = fail_tool_calls(run, calls, [aborted_result() for _ in calls]).messages if calls else ()
    run.end_turn(message, results)
    if message.stop_reason == "aborted":
        return _Turn(message, results, outcome=stop_aborted(run))
    return _Turn(message, results, outcome=Outcome("error", answer.error))


def stop_aborted(run: LoopRun) -> Outcome:
    """The run is aborted; by its own time limit it ends like at any other limit, readably."""
    outcome = run.aborted_outcome()
    return outcome if outcome.limit is None else _stop_at_limit(run, outcome.limit)


def _stop_at_limit(run: LoopRun, limit: str) -> Outcome:
    run.diagnose("limit_reached", limit=limit, **run.budget.describe())
    run.deliver(
        AssistantMessage(
            (TextContent(LIMIT_TEXTS[limit]),),
            stop_reason="error",
            error_message=f"{limit}_exhausted",
            error_kind="limit",
        )
    )
    return Outcome("limit", limit=limit)


# -- between turns -----------------------------------------------------------------------


def _should_stop(run: LoopRun, turn: _Turn) -> bool:
    hook = run.config.should_stop_after_turn
    return hook is not None and bool(call_hook("should_stop_after_turn", hook, _turn_context(run, turn)))


def _prepare_next(run: LoopRun, turn: _Turn, pending: Sequence[Message]) -> Sequence[Message]:
    """Another turn follows: let hooks prepare it, and look for steering that came meanwhile."""
    hook = run.config.prepare_next_turn
    try:
        refresh_tools(run)
        if hook is None:
            return pending
        _apply(run, call_hook("prepare_next_turn", _checked_next_turn, hook, _turn_context(run, turn)))
    except BaseException:
        _give_back(run, pending)
        raise
    return pending or _poll_steering(run)


def refresh_tools(run: LoopRun) -> None:
    """Before the first turn and between turns: take the tools that were discovered or changed."""
    hook = run.config.refresh_tools
    if hook is None or run.signal.aborted:
        return
    tools = call_hook("refresh_tools", hook)
    if tools is not None:
        run.context = replace(run.context, tools=tools)


def _checked_next_turn(hook: Callable[..., Any], ctx: PrepareNextTurnContext) -> NextTurn | None:
    update = hook(ctx)
    if update is not None and not isinstance(update, NextTurn):
        raise TypeError(f"it must return a NextTurn or None, got {type(update).__name__}")
    return update


def _apply(run: LoopRun, update: NextTurn | None) -> None:
    if update is None:
        return
    if update.context is not None:
        run.context = update.context
        run.messages = list(update.context.messages)
        run.lineage = None
        run.validated = 0
        run.shortened = None
    if update.model is not None:
        run.config = replace(run.config, model=update.model)
        run.stream_fn = update.model.stream
        run.abortable = bool(getattr(update.model, "abortable", False))
    if update.thinking_level is not None:
        run.config = replace(run.config, reasoning=update.thinking_level)


def _turn_context(run: LoopRun, turn: _Turn) -> PrepareNextTurnContext:
    return PrepareNextTurnContext(turn.message, turn.results, run.visible_context(), tuple(run.new_messages))


def _poll_steering(run: LoopRun) -> Sequence[Message]:
    if run.config.redirect is not None:
        run.config.redirect.clear()
    return _poll(run, "get_steering_messages", run.config.get_steering_messages)


def _poll_at_stop(run: LoopRun) -> Sequence[Message]:
    """A natural stop: follow-ups go on in this run; else whoever owns the queues lets it end."""
    while not run.signal.aborted:
        follow_ups = _poll(run, "get_follow_up_messages", run.config.get_follow_up_messages)
        if follow_ups:
            run.budget.begin_answer()
            run.overflow_recovered = False
            return follow_ups
        if run.config.try_finish is None or call_hook("try_finish", run.config.try_finish):
            break
        steering = _poll_steering(run)
        if steering:
            return steering
    return ()


def _poll(run: LoopRun, name: str, getter: Callable[[], Any] | None) -> Sequence[Message]:
    if getter is None or run.signal.aborted:
        return ()
    messages = tuple(call_hook(name, getter) or ())
    if messages and run.signal.aborted:
        _give_back(run, messages)
        return ()
    return messages


def _give_back(run: LoopRun, messages: Sequence[Message]) -> None:
    """Messages that were polled and cannot be delivered any more: their owner keeps them."""
    if messages and run.config.put_back is not None:
        call_hook("put_back", run.config.put_back, messages)
