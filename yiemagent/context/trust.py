"""Which tool output may be believed, and what follows from that.

That a tool was called on purpose does not make its output trustworthy: files, search hits,
shell output, remote data and MCP results are written by others. Tools say so with
``untrusted``; ``untrusted_boundary`` fences such text on its way to the model, and
``approval_policy`` asks somebody before a model that has read it may act.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from yiemagent.abort import AbortSignal
from yiemagent.context.fence import is_fenced, wrap_external
from yiemagent.context.mapping import MessageMap
from yiemagent.data_class import replace
from yiemagent.errors import ConfigurationError
from yiemagent.messages import ContentBlock, Message, TextContent, ToolResultMessage
from yiemagent.tools.result import as_tool_result

__all__ = [
    "ApprovalDecision",
    "ApprovalRequest",
    "approval_policy",
    "skill",
    "untrusted",
    "untrusted_boundary",
    "untrusted_sources",
    "wrap_external",
]

_BOUNDARY_KEY: Final = "trust_boundary"
# Nobody outside this process can know it, so no tool can claim that its text is fenced already.
_TOKEN: Final = secrets.token_hex(16)


def untrusted(result: Any, source: str = "tool") -> Any:
    """Mark what a tool gives back as data that nobody vouches for.

    Args:
        result: A ``ToolResult`` or whatever a tool may return instead of one. An exception is
            given back as it is.
        source: Where the data is from, such as ``web page``; shown to the model by the fence.

    Returns:
        A ``ToolResult`` with ``trust="untrusted"`` and ``details["trust_boundary"]``. Details
        that are no mapping move to ``details["value"]``.

    Source: TR-2. A plain text or value is marked too; passing it on unmarked would make it trusted.
    """
    if isinstance(result, BaseException):
        return result
    made = as_tool_result(result)
    boundary = {"source": str(source), "wrapping_applied": False, "wrapped_fields": []}
    return replace(made, trust="untrusted", details={**_details(made.details), _BOUNDARY_KEY: boundary})


def skill(result: Any, entry: Mapping[str, Any], verified_builtin: bool = False) -> Any:
    """Keep the text of a built-in skill trusted, and mark every other skill's untrusted.

    Args:
        result: What the tool that loaded the skill gives back.
        entry: What is known of the skill: ``source_kind``, ``trust_level``, ``audit_status``.
        verified_builtin: Whether the caller has compared the skill with the released bundle.
            A lock file that names it is no such comparison.

    Returns:
        *result* as it is if the skill is verified, built in by kind and by trust level, and no
        audit warns of it or blocks it; otherwise ``untrusted(result)``.

    Source: TR-3.
    """
    audit = entry.get("audit_status")
    vouched = (
        verified_builtin is True
        and entry.get("source_kind") == "builtin"
        and entry.get("trust_level") == "builtin"
        and (audit is None or (isinstance(audit, str) and audit.strip().lower() not in ("warn", "block")))
    )
    return result if vouched else untrusted(result, f"skill ({entry.get('source_kind') or 'unknown'})")


def untrusted_boundary(
    *, max_bytes: int | None = 200_000, notice: bool = True, self_fencing: Collection[str] = ()
) -> MessageMap:
    """Make a ``transform_context`` that fences untrusted tool results on the way to the model.

    Put it last, behind whatever shortens the conversation. The history keeps the plain text.
    Only text is fenced; images stay. Fencing twice fences once, and what a tool says about
    fencing in its details is not believed.

    Args:
        max_bytes: Most UTF-8 bytes of the text of one result; None = no limit.
        notice: Whether each fence says that its text is no instructions.
        self_fencing: Names of tools whose own complete envelopes are left as they are.

    Raises:
        ConfigurationError: *max_bytes* is negative.

    Source: TR-4 to TR-6, T233.
    """
    if max_bytes is not None and max_bytes < 0:
        raise ConfigurationError(f"max_bytes must be 0 or more, or None for no limit, got {max_bytes}")
    trusted_fences = frozenset(self_fencing)

    def change(message: Message) -> Message:
        if type(message) is not ToolResultMessage or message.trust != "untrusted":
            return message
        boundary = _details(message.details).get(_BOUNDARY_KEY)
        if isinstance(boundary, Mapping) and boundary.get("token") == _TOKEN:
            return message
        return _fenced(message, max_bytes, notice, message.tool_name in trusted_fences)

    return MessageMap(change)


def untrusted_sources(messages: Iterable[Message]) -> tuple[str, ...]:
    """Names of the tools whose untrusted output is among *messages*, in order of appearance."""
    return tuple(
        dict.fromkeys(
            message.tool_name
            for message in messages
            if type(message) is ToolResultMessage and message.trust == "untrusted"
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that somebody has to approve, because the model has read untrusted text."""

    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    """The validated arguments the call would run with."""
    sources: tuple[str, ...]
    """The tools whose untrusted output the model has read."""
    signal: AbortSignal
    """Aborted when the answer is no longer wanted; whoever asks a person should watch it."""


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """What the policy says of a call, as the loop wants it from a ``before_tool_call`` hook."""

    block: bool
    reason: str


def approval_policy(
    *, tools: Collection[str], approve: Callable[[ApprovalRequest], bool | str | None] | None = None
) -> Callable[[Any, AbortSignal, Any], ApprovalDecision | None]:
    """Make a ``before_tool_call`` hook: after untrusted output, the named tools need approval.

    Args:
        tools: Names of the tools that may do harm. Others are never asked about.
        approve: Asked on the loop's thread, which it may block. True lets the call run; a text
            refuses it for that reason; anything else refuses it. What it raises blocks the
            call too. None refuses every such call.

    Returns:
        ``hook(ctx, signal, event_sink)``, which gives None for a call that may run.

    Raises:
        ConfigurationError: *tools* is a text instead of a collection of names, or *approve* cannot
            be called.
    """
    if isinstance(tools, str):
        raise ConfigurationError(f"tools must be a collection of tool names, got the text {tools!r}")
    if not isinstance(tools, Collection):
        raise ConfigurationError(f"tools must be a collection of tool names, got {tools!r}")
    if approve is not None and not callable(approve):
        raise ConfigurationError(f"approve must be callable or None, got {approve!r}")
    guarded = frozenset(tools)

    def hook(ctx: Any, signal: AbortSignal, event_sink: Any = None) -> ApprovalDecision | None:
        call = ctx.tool_call
        if call.name not in guarded:
            return None
        sources = untrusted_sources(ctx.context.messages)
        if not sources:
            return None
        reason = (
            f"{call.name} needs approval, because untrusted output of {', '.join(sources)} is in the context"
        )
        if approve is None:
            return ApprovalDecision(True, reason)
        answer = approve(
            ApprovalRequest(
                tool_call_id=call.id,
                tool_name=call.name,
                arguments=dict(ctx.args),
                sources=sources,
                signal=signal,
            )
        )
        if answer is True:
            return None
        return ApprovalDecision(True, answer if isinstance(answer, str) and answer.strip() else reason)

    return hook


def _details(details: Any) -> dict[str, Any]:
    if details is None:
        return {}
    return dict(details) if isinstance(details, Mapping) else {"value": details}


def _fenced(
    message: ToolResultMessage, max_bytes: int | None, notice: bool, may_fence_itself: bool
) -> ToolResultMessage:
    details = _details(message.details)
    given = details.get(_BOUNDARY_KEY)
    label = given.get("source") if isinstance(given, Mapping) else None
    source = f"{message.tool_name} ({label})" if isinstance(label, str) and label else message.tool_name
    left = max_bytes
    content: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, TextContent) and block.text:
            text = block.text
            if not (may_fence_itself and is_fenced(text) and (left is None or len(text.encode()) <= left)):
                block = TextContent(wrap_external(text, source=source, notice=notice, max_bytes=left))
            if left is not None:
                left = max(0, left - len(text.encode(errors="replace")))
        content.append(block)
    boundary = {
        "source": source,
        "wrapping_applied": True,
        "wrapped_fields": ["content"],
        "token": _TOKEN,
    }
    return replace(message, content=tuple(content), details={**details, _BOUNDARY_KEY: boundary})
