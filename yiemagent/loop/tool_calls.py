"""The steps of one tool call: prepare, execute, finalise (decision 11).

The drivers in ``tool_batch`` decide when each step happens; the steps are the same for both.
No step raises: whatever goes wrong becomes an error result that the model reads.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.data_class import dataclass, replace
from yiemagent.error_text import error_text, message_of
from yiemagent.errors import RunAborted
from yiemagent.events import ToolExecutionStart
from yiemagent.loop.config import (
    AfterToolCallContext,
    AfterToolCallResult,
    AgentContext,
    BeforeToolCallContext,
    EventSink,
)
from yiemagent.loop.run_state import LoopRun
from yiemagent.loop.scope import RunScope, current_scope
from yiemagent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage
from yiemagent.tools.arguments import InvalidArguments, prepare_call_arguments
from yiemagent.tools.result import as_tool_result, error_result
from yiemagent.tools.tool import OnUpdate, Tool, ToolContext, ToolResult, current_event_sink

__all__ = [
    "ExecutedOutcome",
    "FinalizedOutcome",
    "ImmediateOutcome",
    "PreparedToolCall",
    "aborted_result",
    "create_tool_result_message",
    "execute_prepared_tool_call",
    "finalize_executed_tool_call",
    "not_started_outcome",
    "prepare_tool_call",
    "timed_out_result",
    "truncated_result",
]

_SHOWN_RAW = 1000  # Most code points of raw arguments that an error result repeats (case C-51).


@dataclass(frozen=True, slots=True, eq=False)
class PreparedToolCall:
    """A call that may run: found, validated, let through."""

    call: ToolCall
    tool: Tool
    args: dict[str, Any]
    signal: AbortSignal
    """The call's own signal: a child of the run's, aborted too when the call times out."""
    scope: RunScope
    """What runs of other agents that the tool starts are part of."""


@dataclass(frozen=True, slots=True)
class ImmediateOutcome:
    """A call that has its result without running."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class ExecutedOutcome:
    """What the tool gave, before the after hook."""

    result: ToolResult
    is_error: bool
    left: bool = False
    """The tool was left while it ran, after an abort: no hook is called any more."""


@dataclass(frozen=True, slots=True)
class FinalizedOutcome:
    """The one result of a call."""

    call: ToolCall
    result: ToolResult
    is_error: bool


def prepare_tool_call(
    run: LoopRun, message: AssistantMessage, call: ToolCall, context: AgentContext
) -> PreparedToolCall | ImmediateOutcome:
    """Emit the start and take the call through lookup, arguments and the before hook."""
    run.emit(ToolExecutionStart(call.id, call.name, call.arguments))
    if run.stopped():
        return ImmediateOutcome(aborted_result())
    if call.arguments_error is not None:
        return ImmediateOutcome(_malformed_result(call))
    tool = context.tools.get(call.name)
    if tool is None:
        return ImmediateOutcome(_unknown_result(call.name, context.tools.names))
    try:
        args = prepare_call_arguments(tool, call.arguments)
    except InvalidArguments as error:
        return ImmediateOutcome(_invalid_result(error))
    except BaseException as error:
        return ImmediateOutcome(_exception_result(error))
    blocked = _ask_before_hook(run, BeforeToolCallContext(message, call, args, context, tool))
    if run.stopped():
        return ImmediateOutcome(aborted_result())
    if blocked is not None:
        return ImmediateOutcome(blocked)
    signal = AbortSignal(run.signal)
    scope = RunScope(run.config.owner, signal, run.budget, current_scope.get())
    return PreparedToolCall(call, tool, args, signal, scope)


def execute_prepared_tool_call(
    run: LoopRun, prepared: PreparedToolCall, on_update: OnUpdate, event_sink: EventSink
) -> Callable[[], ExecutedOutcome]:
    """The work of one call, to be done on a tool thread in a copy of this thread's context.

    Args:
        on_update: Takes progress from any thread, as long as the call is not over.
        event_sink: Likewise for log lines.
    """
    around = run.config.around_tool_call
    context = contextvars.copy_context()
    call, tool = prepared.call, prepared.tool

    def body() -> ExecutedOutcome:
        current_event_sink.set(event_sink)
        current_scope.set(prepared.scope)
        result = error_result("around_tool_call swallowed what the tool raised", "tool_exception")
        try:
            with nullcontext() if around is None else around(_tool_context(prepared, on_update, event_sink)):
                value = _execute(tool, call.id, prepared.args, prepared.signal, on_update)
                result = as_tool_result(value)
        except RunAborted:  # It ended by itself, as asked: nothing of it goes on.
            return ExecutedOutcome(error_result("Operation aborted", "aborted", started=True), True)
        except InvalidArguments as error:  # A value that the function's own types refuse.
            return ExecutedOutcome(_invalid_result(error), True)
        except BaseException as error:
            return ExecutedOutcome(_exception_result(error), True)
        return ExecutedOutcome(result, result.is_error)

    return lambda: context.run(body)


def finalize_executed_tool_call(
    run: LoopRun,
    message: AssistantMessage,
    prepared: PreparedToolCall,
    executed: ExecutedOutcome,
    context: AgentContext,
) -> FinalizedOutcome:
    """Let the after hook see and change the result (decision 13)."""
    prepared.signal.detach()
    prepared.scope.over = True
    result, is_error = executed.result, executed.is_error
    hook = run.config.after_tool_call
    if hook is not None and not executed.left:
        ctx = AfterToolCallContext(
            message, prepared.call, prepared.args, result, is_error, context, prepared.tool
        )
        try:
            result, is_error = _merge(hook(ctx, prepared.signal, run.event_sink), result, is_error)
        except KeyboardInterrupt as error:
            run.interrupted(error)  # Ctrl-C during the hook: the tool did run, and its result is kept.
        except BaseException as error:
            result, is_error = _exception_result(error, "hook_exception"), True
    return FinalizedOutcome(prepared.call, _capped(result, run.config.max_tool_result_chars), is_error)


def create_tool_result_message(final: FinalizedOutcome) -> ToolResultMessage:
    """The message that goes into the history."""
    result = final.result
    return ToolResultMessage(
        final.call.id,
        final.call.name,
        result.content,
        details=result.details,
        usage=result.usage,
        is_error=final.is_error,
        trust=result.trust,
        added_tool_names=result.added_tool_names,
    )


# -- results written for the model -------------------------------------------------------


def aborted_result(*, started: bool = False) -> ToolResult:
    """Of a call that was not run, or that was left while it ran (case F-11)."""
    text = "Operation aborted"
    if started:
        text += ": the tool was still running; what it did or may still do is unknown"
    return error_result(text, "aborted", started=started)


def timed_out_result(name: str, seconds: float) -> ToolResult:
    """Of a call that took longer than it may."""
    return error_result(
        f'Tool "{name}" timed out after {seconds:g} s; it may still be running',
        "tool_timeout",
        timeout=seconds,
    )


def not_started_outcome(error: BaseException) -> ExecutedOutcome:
    """Of a call for which no thread could be had (TC-28)."""
    return ExecutedOutcome(error_result(f"Tool failed to start: {error}", "tool_start_failed"), True)


def truncated_result(name: str) -> ToolResult:
    """Of a call in an answer that was cut off (decision 15)."""
    return error_result(
        f'Tool call "{name}" was not executed: the response hit the output token limit, so its arguments '
        "may be truncated. Re-issue the tool call with complete arguments.",
        "truncated",
    )


def _invalid_result(error: InvalidArguments) -> ToolResult:
    return error_result(error.text, "invalid_tool_arguments", errors=[str(e) for e in error.errors])


def _malformed_result(call: ToolCall) -> ToolResult:
    raw = call.raw_arguments if call.raw_arguments is not None else ""
    shown = raw if len(raw) <= _SHOWN_RAW else raw[:_SHOWN_RAW] + " ... (cut)"
    return error_result(
        f'Invalid arguments for tool "{call.name}": {call.arguments_error}\n\nReceived arguments:\n{shown}',
        "invalid_tool_arguments",
        errors=[call.arguments_error],
    )


def _unknown_result(name: str, known: tuple[str, ...]) -> ToolResult:
    result = error_result(f"Tool {name} not found", "unknown_tool", tool_name=name, known_tools=list(known))
    listing = f"\nAvailable tools: {', '.join(known)}" if known else "\nThere are no tools."
    return replace(result, content=(*result.content, TextContent(listing)))


def _exception_result(error: BaseException, error_type: str = "tool_exception") -> ToolResult:
    text = "" if isinstance(error, SystemExit) else message_of(error)
    return error_result(text or error_text(error), error_type, exception=type(error).__name__)


# -- hooks -------------------------------------------------------------------------------


def _ask_before_hook(run: LoopRun, ctx: BeforeToolCallContext) -> ToolResult | None:
    hook = run.config.before_tool_call
    if hook is None:
        return None
    try:
        answer: Any = hook(ctx, run.signal, run.event_sink)
        if answer is not None and not hasattr(answer, "block"):
            raise TypeError(f"it must return a BeforeToolCallResult or None, got {type(answer).__name__}")
        block = None if answer is None else answer.block
        reason = None if answer is None else answer.reason
    except KeyboardInterrupt as error:
        run.interrupted(error)
        return aborted_result()
    except BaseException as error:
        return _blocked_result(f"before_tool_call raised {error_text(error)}")
    return _blocked_result(reason) if block else None


def _blocked_result(reason: str | None) -> ToolResult:
    text = f"Tool execution was blocked: {reason}" if reason else "Tool execution was blocked"
    return error_result(text, "blocked", reason=reason)


def _merge(answer: Any, result: ToolResult, is_error: bool) -> tuple[ToolResult, bool]:
    if answer is None:
        return result, is_error
    if isinstance(answer, ToolResult):
        return answer, answer.is_error
    if not isinstance(answer, AfterToolCallResult):
        raise TypeError(
            "after_tool_call must return None, an AfterToolCallResult or a ToolResult, "
            f"got {type(answer).__name__}"
        )
    changes: dict[str, Any] = {
        name: value
        for name in ("details", "usage", "terminate")
        if (value := getattr(answer, name)) is not None
    }
    if answer.content is not None:
        changes["content"] = ToolResult(answer.content).content  # type: ignore[arg-type]
    if answer.is_error is not None:
        is_error = answer.is_error
    return replace(result, **changes), is_error


# -- execution ---------------------------------------------------------------------------


def _execute(tool: Tool, call_id: str, args: dict[str, Any], signal: AbortSignal, on_update: OnUpdate) -> Any:
    if tool.isolation == "process":
        from yiemagent.tools.process import run_in_process

        return run_in_process(tool, call_id, args, signal, on_update)
    return tool.execute(call_id, args, signal, on_update)


def _tool_context(prepared: PreparedToolCall, on_update: OnUpdate, event_sink: EventSink) -> ToolContext:
    return ToolContext(
        tool_call_id=prepared.call.id,
        tool_name=prepared.call.name,
        signal=prepared.signal,
        on_update=on_update,
        event_sink=event_sink,
    )


def _capped(result: ToolResult, most: int | None) -> ToolResult:
    if most is None or sum(len(b.text) for b in result.content if isinstance(b, TextContent)) <= most:
        return result
    left = most
    blocks: list[Any] = []
    for block in result.content:
        if not isinstance(block, TextContent):
            blocks.append(block)
        elif left > 0:
            blocks.append(replace(block, text=block.text[:left]))
            left -= len(block.text)
    total = len(result.text)
    blocks.append(TextContent(f"\n[cut: the first {most} of {total} characters are shown]"))
    details = result.details
    if details is None or isinstance(details, Mapping):
        details = {**(details or {}), "full_text": result.text}
    return replace(result, content=tuple(blocks), details=details)
