"""The tool calls of one answer: in turn or side by side, one result each, in call order."""

from __future__ import annotations

from collections.abc import Sequence

from yiemagent.data_class import dataclass
from yiemagent.events import MessageEnd, MessageStart, ToolExecutionEnd, ToolExecutionStart
from yiemagent.loop.config import AgentContext
from yiemagent.loop.run_state import LoopRun
from yiemagent.loop.tool_calls import (
    FinalizedOutcome,
    ImmediateOutcome,
    PreparedToolCall,
    aborted_result,
    create_tool_result_message,
    finalize_executed_tool_call,
    prepare_tool_call,
)
from yiemagent.loop.tool_flight import Flight
from yiemagent.messages import AssistantMessage, ToolCall, ToolResultMessage
from yiemagent.tools.tool import ToolResult

__all__ = ["ExecutedToolCallBatch", "execute_tool_calls", "fail_tool_calls"]


@dataclass(frozen=True, slots=True)
class ExecutedToolCallBatch:
    """All results of one answer, in call order."""

    messages: tuple[ToolResultMessage, ...]
    terminate: bool = False
    """Every result asked for the end of the run (decision 14)."""


def execute_tool_calls(
    run: LoopRun, message: AssistantMessage, calls: Sequence[ToolCall]
) -> ExecutedToolCallBatch:
    """Run *calls*, which are those of *message*; never raises for what a tool or hook does.

    One result message per call is delivered, in call order. They stand in the history only
    when the batch is over: no hook of the batch sees a result of it (PI-27).
    """
    context = run.offered_context()
    if len(calls) > 1 and _side_by_side(run, calls):
        finals = _execute_parallel(run, message, calls, context)
        messages = tuple(_emit_result(run, final) for final in finals)
    else:
        finals, results = [], []
        for call in calls:
            final = _execute_one(run, message, call, context)
            finals.append(final)
            results.append(_emit_result(run, final))
        messages = tuple(results)
    for result in messages:
        run.append(result)
    terminate = bool(finals) and all(final.result.terminate for final in finals)
    return ExecutedToolCallBatch(messages, terminate)


def fail_tool_calls(
    run: LoopRun, calls: Sequence[ToolCall], results: Sequence[ToolResult]
) -> ExecutedToolCallBatch:
    """Give each of *calls* its error result without running anything; no hook is called."""
    messages = []
    for call, result in zip(calls, results, strict=True):
        run.emit(ToolExecutionStart(call.id, call.name, call.arguments))
        messages.append(_emit_result(run, _end(run, FinalizedOutcome(call, result, True))))
    for message in messages:
        run.append(message)
    return ExecutedToolCallBatch(tuple(messages))


def _side_by_side(run: LoopRun, calls: Sequence[ToolCall]) -> bool:
    if run.config.tool_execution == "sequential":
        return False
    tools = (run.offered.get(call.name) for call in calls)
    return not any(tool is not None and tool.execution_mode == "sequential" for tool in tools)


def _execute_one(
    run: LoopRun, message: AssistantMessage, call: ToolCall, context: AgentContext
) -> FinalizedOutcome:
    prepared = prepare_tool_call(run, message, call, context)
    if isinstance(prepared, ImmediateOutcome):
        return _end(run, FinalizedOutcome(call, prepared.result, True))
    flight = Flight(run)
    try:
        flight.start(prepared, run.threads.sequential())
        _, executed = flight.next()
    finally:
        flight.close()
    return _end(run, finalize_executed_tool_call(run, message, prepared, executed, context))


def _execute_parallel(
    run: LoopRun, message: AssistantMessage, calls: Sequence[ToolCall], context: AgentContext
) -> list[FinalizedOutcome]:
    finals: dict[str, FinalizedOutcome] = {}
    waiting: list[PreparedToolCall] = []
    for call in calls:
        prepared = prepare_tool_call(run, message, call, context)
        if isinstance(prepared, ImmediateOutcome):
            finals[call.id] = _end(run, FinalizedOutcome(call, prepared.result, True))
        else:
            waiting.append(prepared)
    waiting.reverse()
    most = run.config.max_tool_concurrency or len(waiting)
    flight = Flight(run)
    running = 0
    try:
        while waiting or running:
            while waiting and running < most and not run.signal.aborted:
                flight.start(waiting.pop(), run.threads.take())
                running += 1
            if running:
                prepared, executed = flight.next()
                running -= 1
                final = finalize_executed_tool_call(run, message, prepared, executed, context)
            else:
                prepared = waiting.pop()
                final = FinalizedOutcome(prepared.call, aborted_result(), True)
            finals[prepared.call.id] = _end(run, final)
    finally:
        flight.close()
    return [finals[call.id] for call in calls]


def _end(run: LoopRun, final: FinalizedOutcome) -> FinalizedOutcome:
    run.emit(ToolExecutionEnd(final.call.id, final.call.name, final.result, final.is_error))
    return final


def _emit_result(run: LoopRun, final: FinalizedOutcome) -> ToolResultMessage:
    message = create_tool_result_message(final)
    run.emit(MessageStart(message))
    run.emit(MessageEnd(message))
    return message
