"""A history that every provider accepts, made of the history as it was. Knows no dialect.

Left out: answers that failed or were aborted, together with results for their calls (C-03,
decision 24), results without a call (C-01). Added: an error result for each call without one
(C-02). Changed: ids that an earlier call of the history has already (A-26). A sound history,
the usual case, is only looked at.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from yiemagent.context.transcript import repair_transcript
from yiemagent.data_class import replace
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    LlmMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

__all__ = ["IdRule", "is_sound", "legal_id", "legal_name", "repair_history"]

IdRule: TypeAlias = Literal["any", "openai", "anthropic", "mistral"]
"""What ids of tool calls a provider accepts: anything; 40 or 64 characters; nine letters and digits."""

_LEFT_OUT = frozenset({"error", "aborted"})
_LONGEST_NAME = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LENGTHS = {"openai": 40, "anthropic": 64}
_MISTRAL = r"[a-zA-Z0-9]{9}"
_BASE62 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def repair_history(messages: Sequence[LlmMessage]) -> Sequence[LlmMessage]:
    """*messages* as they can be sent; the same object when nothing had to be done."""
    if is_sound(messages, set()):
        return messages
    kept = _without_failed(messages)
    repaired, _ = repair_transcript(kept)
    return _with_unique_ids([message for message in repaired if isinstance(message, LlmMessage)])


def legal_id(call_id: str, rule: IdRule) -> str:
    """The id that stands for *call_id* at a provider; the same for the same one, different for others.

    Source: PI-92, case C-33.
    """
    if rule == "any":
        return call_id
    if rule == "mistral":
        if re.fullmatch(_MISTRAL, call_id):
            return call_id
        number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "replace")).digest()[:16], "big")
        return "".join(_BASE62[number // 62**place % 62] for place in range(9))
    longest = _LENGTHS[rule]
    if len(call_id) <= longest and not _ILLEGAL.search(call_id):
        return call_id
    if rule == "openai" and len(call_id) <= longest and "|" not in call_id and call_id.isascii():
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{_ILLEGAL.sub('_', call_id)[: longest - 9]}_{digest}"


def legal_name(name: str) -> str:
    """A name of a call that providers take: models invent tools whose names are refused when replayed.

    Source: case C-15; tools of ours have legal names, so only invented ones change.
    """
    legal = _ILLEGAL.sub("_", name)[:_LONGEST_NAME]
    return legal or "unknown_tool"


def is_sound(messages: Sequence[LlmMessage], seen: set[str], before: LlmMessage | None = None) -> bool:
    """Whether *messages* can be sent as they are: one tight look at each of them.

    Args:
        seen: Ids of calls in the history before them; theirs are added.
        before: The message in front of them; its calls wait for their results.
    """
    waiting = {block.id for block in before.content if type(block) is ToolCall} if before else set()
    for message in messages:
        kind = type(message)
        if kind is ToolResultMessage:
            try:
                waiting.remove(message.tool_call_id)  # type: ignore[union-attr]
            except KeyError:
                return False
            continue
        if waiting:
            return False
        if kind is AssistantMessage:
            if message.stop_reason in _LEFT_OUT:  # type: ignore[union-attr]
                return False
            for block in message.content:
                if type(block) is ToolCall:
                    call_id = block.id
                    if call_id in seen or not call_id:
                        return False
                    seen.add(call_id)
                    waiting.add(call_id)
        elif kind is not UserMessage:
            return False
    return not waiting


def _without_failed(messages: Sequence[LlmMessage]) -> list[LlmMessage]:
    kept: list[LlmMessage] = []
    orphaned = False
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if not orphaned:
                kept.append(message)
            continue
        orphaned = isinstance(message, AssistantMessage) and message.stop_reason in _LEFT_OUT
        if not orphaned:
            kept.append(message)
    return kept


def _with_unique_ids(messages: Sequence[LlmMessage]) -> Sequence[LlmMessage]:
    """Rename ids that an earlier call has, in the call and in its result."""
    seen: set[str] = set()
    renamed: dict[str, str] = {}
    out: list[LlmMessage] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            renamed = {}
            for block in message.content:
                if isinstance(block, ToolCall):
                    if block.id in seen:
                        renamed[block.id] = _fresh(block.id, seen)
                    seen.add(renamed.get(block.id, block.id))
            if renamed:
                message = replace(
                    message, content=tuple(_renamed(block, renamed) for block in message.content)
                )
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in renamed:
            message = replace(message, tool_call_id=renamed[message.tool_call_id])
        out.append(message)
    return out


def _renamed(block: ContentBlock, renamed: dict[str, str]) -> ContentBlock:
    if isinstance(block, ToolCall) and block.id in renamed:
        return replace(block, id=renamed[block.id])
    return block


def _fresh(call_id: str, seen: set[str]) -> str:
    number = 2
    while f"{call_id}_{number}" in seen:
        number += 1
    return f"{call_id}_{number}"
