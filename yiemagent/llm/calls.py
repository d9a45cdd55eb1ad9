"""Finished tool calls out of their slots: parsed, named, with ids that are unique."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from yiemagent.llm.arguments import parse_arguments
from yiemagent.llm.names import resolve_name
from yiemagent.llm.slots import CallSlot
from yiemagent.messages import ToolCall, new_call_id
from yiemagent.model import ToolSpec

__all__ = ["finish_calls"]

_CUT_OFF = "truncated: the answer was cut off at the token limit, so the call may be incomplete"
_PERHAPS_CUT_OFF = " (the answer used all of its tokens and was perhaps cut off)"


def finish_calls(
    slots: Sequence[CallSlot],
    tools: Sequence[ToolSpec],
    warn: Callable[[str], None],
    *,
    cut_off: bool = False,
    perhaps_cut_off: bool = False,
) -> list[ToolCall | None]:
    """The call of each slot, or None for a slot that is none.

    Args:
        warn: Takes the stable name of what was read past.
        cut_off: The answer reached its length limit: no call may run, whatever parses (A-66).
        perhaps_cut_off: It used as many tokens as it was allowed to (A-67).
    """
    seen: dict[str, ToolCall] = {}
    calls: list[ToolCall | None] = []
    for slot in slots:
        call = _parsed(slot, tools, warn, cut_off, perhaps_cut_off)
        if call is not None:
            first = seen.get(call.id)
            if first is not None and _same(first, call):
                warn("repeated_tool_call_ignored")
                call = None
            elif first is not None or not call.id:
                if first is not None:
                    warn("repeated_tool_call_id_replaced")
                call = _with_new_id(call, seen)
        if call is not None:
            seen[call.id] = call
        calls.append(call)
    return calls


def _parsed(
    slot: CallSlot,
    tools: Sequence[ToolSpec],
    warn: Callable[[str], None],
    cut_off: bool,
    perhaps_cut_off: bool,
) -> ToolCall | None:
    if not slot.name:
        if not slot.id and not slot.arguments:
            warn("empty_tool_call_ignored")
            return None
        warn("tool_call_without_name")
    name = resolve_name(slot.name, tools)
    if name != slot.name:
        warn("tool_name_resolved")
    parsed = parse_arguments(slot.arguments)
    for warning in parsed.warnings:
        warn(warning)
    error = parsed.error
    if cut_off:
        error = _CUT_OFF
    elif error is not None and perhaps_cut_off:
        error += _PERHAPS_CUT_OFF
    return ToolCall(
        slot.id,
        name,
        parsed.arguments,
        arguments_error=error,
        raw_arguments=parsed.raw,
        extra=slot.extra or None,
    )


def _with_new_id(call: ToolCall, seen: dict[str, ToolCall]) -> ToolCall:
    new = new_call_id()
    while new in seen:
        new = new_call_id()
    return ToolCall(
        new,
        call.name,
        call.arguments,
        arguments_error=call.arguments_error,
        raw_arguments=call.raw_arguments,
        extra=call.extra,
    )


def _same(a: ToolCall, b: ToolCall) -> bool:
    return a.name == b.name and a.arguments == b.arguments and a.raw_arguments == b.raw_arguments
