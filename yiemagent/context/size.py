"""How long a conversation is: characters, counted once per message, and what that is in tokens.

Characters are code points (decision 27); other implementations of the same rules count
graphemes and get smaller numbers for emoji and combining marks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from yiemagent.context.observation import observe
from yiemagent.errors import ConfigurationError
from yiemagent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

__all__ = [
    "CRITICAL_CHARS",
    "IMAGE_CHARS",
    "UNKNOWN_JSON_CHARS",
    "WARNING_CHARS",
    "ContextStats",
    "SizeLevel",
    "block_size",
    "check_size",
    "estimate_size",
    "estimate_tokens",
    "json_size",
    "json_text",
    "large_context",
    "message_size",
    "stats",
]

SizeLevel: TypeAlias = Literal["ok", "warning", "critical"]

WARNING_CHARS = 200_000
CRITICAL_CHARS = 400_000
IMAGE_CHARS = 100
"""What an image counts, whatever its bytes (CX-1)."""
UNKNOWN_JSON_CHARS = 50
"""What arguments count that JSON cannot say (CX-1)."""

_SIZED = (UserMessage, AssistantMessage, ToolResultMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextStats:
    """A conversation in numbers (CX-10)."""

    message_count: int
    char_count: int
    """System prompt and messages: the same as ``estimate_size``."""
    estimated_tokens: int
    by_role: Mapping[str, int]
    """Messages by role; ``unknown`` where there is none."""
    system_prompt_chars: int


def estimate_size(messages: Sequence[Message], system_prompt: str | None = None) -> int:
    """Count the characters that a model would be sent.

    Text, reasoning, the JSON of tool-call arguments, and 100 for each image; what it does not
    know counts 0. Never negative, and additive over messages. Each message is counted once and
    remembers its size.

    Source: CX-1.
    """
    size = _size(messages, system_prompt)
    observe("context.size", {"char_count": size, "message_count": len(messages)})
    return size


def estimate_tokens(size_chars: int) -> int:
    """Tokens by rule of thumb: four characters each, rounded down (CX-2).

    ``TokenCounter`` learns a better number from what providers report.
    """
    return size_chars // 4


def large_context(
    messages: Sequence[Message], system_prompt: str | None = None, *, threshold: int = WARNING_CHARS
) -> bool:
    """Whether the conversation is longer than *threshold* characters (CX-3)."""
    if threshold < 0:
        raise ConfigurationError(f"threshold must be 0 or more characters, got {threshold}")
    return estimate_size(messages, system_prompt) > threshold


def check_size(
    messages: Sequence[Message],
    system_prompt: str | None = None,
    *,
    warning: int = WARNING_CHARS,
    critical: int = CRITICAL_CHARS,
) -> SizeLevel:
    """Say whether a conversation is getting too long.

    Args:
        messages: The conversation.
        system_prompt: Counted too.
        warning: More characters than this is ``warning``.
        critical: More characters than this is ``critical``.

    Raises:
        ConfigurationError: A limit is negative, or *critical* is below *warning*.

    Source: CX-4.
    """
    if not 0 <= warning <= critical:
        raise ConfigurationError(
            f"limits must be 0 <= warning <= critical, got warning={warning}, critical={critical}"
        )
    size = estimate_size(messages, system_prompt)
    level: SizeLevel = "critical" if size > critical else "warning" if size > warning else "ok"
    if level != "ok":
        limit = critical if level == "critical" else warning
        observe("context.warning", {"level": level, "char_count": size, "threshold": limit})
    return level


def stats(messages: Sequence[Message], system_prompt: str | None = None) -> ContextStats:
    """Put a conversation in numbers (CX-10)."""
    size = estimate_size(messages, system_prompt)
    by_role: dict[str, int] = {}
    for message in messages:
        role = getattr(message, "role", None)
        name = role if isinstance(role, str) else "unknown"
        by_role[name] = by_role.get(name, 0) + 1
    return ContextStats(
        message_count=len(messages),
        char_count=size,
        estimated_tokens=estimate_tokens(size),
        by_role=by_role,
        system_prompt_chars=len(system_prompt or ""),
    )


def message_size(message: Message) -> int:
    """Count the characters of one message; the frozen ones remember it."""
    if not isinstance(message, _SIZED):
        return _content_size(getattr(message, "content", None))
    known = message._size
    if known is None:
        known = _content_size(message.content)
        object.__setattr__(message, "_size", known)
    return known


def _size(messages: Sequence[Message], system_prompt: str | None) -> int:
    return len(system_prompt or "") + sum(map(message_size, messages))


def _content_size(content: object) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(map(block_size, content)) if isinstance(content, (tuple, list)) else 0


def block_size(block: object) -> int:
    """Count the characters of one content block; 0 for what is none (CX-1)."""
    if isinstance(block, (TextContent, ReasoningContent)):
        return len(block.text)
    if isinstance(block, ToolCall):
        return json_size(block.arguments) + len(block.raw_arguments or "")
    if isinstance(block, ImageContent):
        return IMAGE_CHARS
    return json_size(block.data) if isinstance(block, OpaqueContent) else 0


def json_size(value: object) -> int:
    """Length of *value* as compact JSON; 0 for None, 50 for what JSON cannot say (T216)."""
    if value is None:
        return 0
    text = json_text(value)
    return UNKNOWN_JSON_CHARS if text is None else len(text)


def json_text(value: object) -> str | None:
    """Compact JSON of *value*, or None when JSON cannot say it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain_mapping)
    except (TypeError, ValueError, RecursionError):
        return None


def _plain_mapping(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
