"""When the server wants a model to say something: the request and the answer.

Source: protocol 2024-11-05 to 2026-07-28 "Sampling" (deprecated in the last, but in use).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from yiemagent.errors import ConfigurationError
from yiemagent.messages import AssistantMessage

__all__ = ["SamplingRequest", "SamplingReturn", "answer_sampling"]

_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse"}


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """What a server wants a model to be asked."""

    server: str
    """The client's name for the server that asks."""
    messages: tuple[Mapping[str, Any], ...]
    """As MCP has them: ``role`` and ``content`` (a block or a list of blocks)."""
    system_prompt: str = ""
    max_tokens: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All the rest: ``modelPreferences``, ``temperature``, ``stopSequences``, ``tools``."""

    @classmethod
    def read(cls, server: str, params: Mapping[str, Any]) -> SamplingRequest:
        """Read the params of ``sampling/createMessage``."""
        messages = params.get("messages")
        limit = params.get("maxTokens")
        return cls(
            server=server,
            messages=tuple(m for m in messages if isinstance(m, dict)) if isinstance(messages, list) else (),
            system_prompt=str(params.get("systemPrompt") or ""),
            max_tokens=limit if isinstance(limit, int) else None,
            raw=params,
        )


SamplingReturn: TypeAlias = str | AssistantMessage | Mapping[str, Any]
"""What a callback may return: the text, an ``AssistantMessage``, or the result as MCP has it."""


def answer_sampling(returned: SamplingReturn) -> dict[str, Any]:
    """The result of ``sampling/createMessage``.

    Raises:
        ConfigurationError: The callback returned something else.
    """
    if isinstance(returned, AssistantMessage):
        return _result(
            returned.text, returned.model or "unknown", _STOP_REASONS.get(returned.stop_reason, "endTurn")
        )
    if isinstance(returned, str):
        return _result(returned, "unknown", "endTurn")
    if isinstance(returned, Mapping) and "content" in returned:
        return {"role": "assistant", "model": "unknown", **returned}
    raise ConfigurationError(
        f"on_sampling returned {returned!r}; return a text, an AssistantMessage, or a mapping with 'content'"
    )


def _result(text: str, model: str, stop_reason: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": model,
        "stopReason": stop_reason,
    }
