"""An Anthropic Messages request as bytes: each message is encoded once, a request is a join."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from yiemagent.llm.anthropic_messages import (
    assistant_blocks,
    result_blocks,
    tool_names,
    user_blocks,
)
from yiemagent.llm.dialect import ModelDialect
from yiemagent.llm.replay import repair_history
from yiemagent.llm.wire_json import message_to_wire, to_wire
from yiemagent.messages import AssistantMessage, LlmMessage, ToolResultMessage
from yiemagent.model import LlmContext, StreamOptions, ThinkingLevel, ToolSpec
from yiemagent.tools.wire_schema import to_wire_schema

__all__ = ["AnthropicRequests", "CacheTime", "thinking_budget"]

CacheTime: TypeAlias = Literal["5m", "1h"]

DEFAULT_MAX_TOKENS = 8192
"""What the dialect demands and nobody gave."""
LEAST_ANSWER = 1024
"""Tokens that a thinking budget has to leave for the answer."""
BUDGETS: Mapping[str, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768}

_RESERVED = frozenset({"model", "messages", "tools", "system"})
_keys: dict[ModelDialect, ModelDialect] = {}


class AnthropicRequests:
    """Makes the requests of one dialect. Any thread.

    Args:
        dialect: Provider, model and whether it sees images.
        cache: How long the provider is asked to keep the prompt; None asks for nothing.
    """

    __slots__ = ("_cache", "_key", "_tools", "dialect")

    def __init__(self, dialect: ModelDialect, cache: CacheTime | None) -> None:
        self.dialect = dialect
        self._key = _keys.setdefault(dialect, dialect)
        self._cache = b"" if cache is None else b',"cache_control":' + to_wire(_cache_control(cache))
        self._tools: tuple[Sequence[ToolSpec], bytes] | None = None

    def body(
        self, context: LlmContext, options: StreamOptions, *, stream: bool, defaults: Mapping[str, Any]
    ) -> bytes:
        """The body of a request; *defaults* are sent unless *options* says otherwise."""
        params = self._params(context, options, stream, defaults)
        pieces = [b'{"model":', to_wire(self.dialect.model), b',"messages":[', self._messages(context), b"]"]
        if context.system_prompt:
            pieces += [b',"system":[', self._marked(to_wire(_text(context.system_prompt))), b"]"]
        tools = self._encoded_tools(context)
        if tools:
            pieces += [b',"tools":', tools]
        pieces += [b",", to_wire(params)[1:]]
        body = b"".join(pieces)
        if _RESERVED.isdisjoint(params):
            return body
        return to_wire({**json.loads(body), **params})

    # -- messages ------------------------------------------------------------------------

    def _messages(self, context: LlmContext) -> bytes:
        """The messages, neighbours of one role joined, the last block of a user marked for the cache."""
        turns: list[tuple[bytes, list[bytes]]] = []
        images: list[bytes] = []
        for message in repair_history(context.messages):
            wire = message._wire
            if wire is None or wire[0] is not self._key:
                wire = self._encode(message)
            is_result = type(message) is ToolResultMessage
            if images and not is_result:
                turns[-1][1].extend(images)
                images = []
            if wire[1] is None:
                continue
            role = b"assistant" if type(message) is AssistantMessage else b"user"
            if turns and turns[-1][0] == role:
                turns[-1][1].append(wire[1])
            else:
                turns.append((role, [wire[1]]))
            if is_result and wire[2]:
                images.append(wire[2])
        if images:
            turns[-1][1].extend(images)
        if turns and turns[-1][0] == b"user":
            turns[-1][1][-1] = self._marked(turns[-1][1][-1])
        return b",".join(
            b'{"role":"%s","content":[%s]}' % (role, b",".join(blocks)) for role, blocks in turns
        )

    def _marked(self, blocks: bytes) -> bytes:
        """The last of *blocks* with the cache mark: an object ends with its own brace."""
        return blocks[:-1] + self._cache + b"}" if self._cache else blocks

    def _encode(self, message: LlmMessage) -> tuple[Any, bytes | None, bytes]:
        images: list[dict[str, Any]] = []
        if isinstance(message, ToolResultMessage):
            result, images = result_blocks(message, self.dialect)
            blocks = [result]
        elif isinstance(message, AssistantMessage):
            blocks = assistant_blocks(message, self.dialect)
        else:
            blocks = user_blocks(message, self.dialect)
        wire = (self._key, _joined(blocks) if blocks else None, _joined(images))
        object.__setattr__(message, "_wire", wire)
        return wire

    # -- the rest ------------------------------------------------------------------------

    def _encoded_tools(self, context: LlmContext) -> bytes:
        if not context.tools:
            # The dialect wants tools as soon as the history has calls (C-14).
            names = tool_names(context.messages)
            return (
                to_wire([{"name": name, "input_schema": {"type": "object"}} for name in names])
                if names
                else b""
            )
        held = self._tools
        if held is None or held[0] != context.tools:
            encoded = [to_wire(_tool(tool)) for tool in context.tools]
            encoded[-1] = self._marked(encoded[-1])
            held = self._tools = (tuple(context.tools), b"[" + b",".join(encoded) + b"]")
        return held[1]

    def _params(
        self, context: LlmContext, options: StreamOptions, stream: bool, defaults: Mapping[str, Any]
    ) -> dict[str, Any]:
        max_tokens = options.max_tokens or defaults.get("max_tokens") or DEFAULT_MAX_TOKENS
        budget = thinking_budget(options.reasoning, options.thinking_budgets)
        if budget is not None:
            max_tokens = max(max_tokens, budget + LEAST_ANSWER)
        params: dict[str, Any] = {"max_tokens": max_tokens}
        if stream:
            params["stream"] = True
        if budget is not None:
            params["thinking"] = {"type": "enabled", "budget_tokens": budget}
        elif options.reasoning == "off":
            params["thinking"] = {"type": "disabled"}
        temperature = options.temperature if options.temperature is not None else defaults.get("temperature")
        if temperature is not None and budget is None:
            params["temperature"] = temperature  # The two together are refused.
        if not context.tools and tool_names(context.messages):
            params["tool_choice"] = {"type": "none"}
        elif options.tool_choice is not None and context.tools:
            params["tool_choice"] = _tool_choice(options.tool_choice)
        params.update(defaults.get("extra_body") or {})
        params.update(options.extra_body or {})
        return params


def thinking_budget(level: ThinkingLevel | None, budgets: Mapping[str, int] | None) -> int | None:
    """Tokens to think with at *level*; None for not at all (PI-87)."""
    if level is None or level == "off":
        return None
    return max(LEAST_ANSWER, (budgets or {}).get(level, BUDGETS[level]))


def _tool(tool: ToolSpec) -> dict[str, Any]:
    data: dict[str, Any] = {"name": tool.name}
    if tool.description:
        data["description"] = tool.description
    data["input_schema"] = to_wire_schema(tool.input_schema)
    return data


def _tool_choice(choice: Any) -> Any:
    if not isinstance(choice, str):
        return choice
    kinds = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
    return {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}


def _cache_control(cache: CacheTime) -> dict[str, str]:
    return {"type": "ephemeral"} if cache == "5m" else {"type": "ephemeral", "ttl": cache}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _joined(blocks: list[dict[str, Any]]) -> bytes:
    return b",".join(message_to_wire(block) for block in blocks)
