"""Settle the tool calls of an answer before anything runs: names, ids, repetitions.

The model may spell a tool's name a little wrong, repeat an id, or list one call twice
(decision 22, cases A-26, A-59, A-82, A-85). What goes on has resolved names and unique ids.
"""

from __future__ import annotations

from collections.abc import Callable

from yiemagent.data_class import replace
from yiemagent.messages import AssistantMessage, ContentBlock, ToolCall, new_call_id
from yiemagent.tools.registry import ToolRegistry

__all__ = ["settle_tool_calls"]


def settle_tool_calls(
    message: AssistantMessage, tools: ToolRegistry, diagnose: Callable[..., None]
) -> AssistantMessage:
    """The message with its calls settled; the same object when there was nothing to do."""
    changed = False
    seen: dict[str, ToolCall] = {}
    blocks: list[ContentBlock] = []
    for block in message.content:
        if not isinstance(block, ToolCall):
            blocks.append(block)
            continue
        call = _named(block, tools)
        first = seen.get(call.id)
        if first is not None and _same(first, call):
            changed = True
            diagnose("tool_call_repeated", tool=call.name)
            continue
        if first is not None or not call.id:
            call = replace(call, id=new_call_id())
            diagnose("tool_call_id_replaced", tool=call.name)
        seen[call.id] = call
        changed = changed or call is not block
        blocks.append(call)
    return replace(message, content=tuple(blocks)) if changed else message


def _named(call: ToolCall, tools: ToolRegistry) -> ToolCall:
    if tools.get(call.name) is not None:
        return call
    tool = tools.resolve(call.name)
    return call if tool is None else replace(call, name=tool.name)


def _same(a: ToolCall, b: ToolCall) -> bool:
    return a.name == b.name and a.arguments == b.arguments and a.raw_arguments == b.raw_arguments
