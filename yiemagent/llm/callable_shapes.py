"""The shapes in which an ``llm_call`` may answer, as a Chat Completions body (SP-017, SP-018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from yiemagent.messages import Usage

__all__ = ["as_completion"]

_CALL_TYPES = frozenset({"tool_calls", "tool_call", "function_call", "tool_use", "function"})


def as_completion(response: Any) -> Any:
    """*response* as a body with ``choices``; what has no known shape is left as it is.

    Known are a full body, ``{"message": {...}}``, ``{"content": [...]}`` with calls among its
    items, a bare message, and a text.
    """
    if isinstance(response, str):
        return _body({"content": response}, {})
    if not isinstance(response, Mapping) or response.get("choices") or response.get("error"):
        return dict(response) if isinstance(response, Mapping) else response
    message = response.get("message")
    if isinstance(message, str):
        return _body({"content": message}, response)
    if not isinstance(message, Mapping):
        if "content" not in response and "tool_calls" not in response:
            return dict(response)
        message = response
    return _body(_with_calls_apart(message), response)


def _body(message: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    usage = response.get("usage")
    if isinstance(usage, Usage):
        usage = _as_openai_usage(usage)
    choice = {"index": 0, "message": message, "finish_reason": response.get("finish_reason")}
    return {"id": response.get("id"), "choices": [choice], "usage": usage}


def _with_calls_apart(message: Mapping[str, Any]) -> dict[str, Any]:
    """Calls that stand among the content items are moved to ``tool_calls``."""
    content = message.get("content")
    if not isinstance(content, list):
        return dict(message)
    calls: list[Any] = list(message.get("tool_calls") or ())
    rest: list[Any] = []
    for item in content:
        if isinstance(item, Mapping) and item.get("type") in _CALL_TYPES:
            held = item.get("tool_calls") or item.get("content") or [item]
            calls += [_as_call(one) for one in (held if isinstance(held, list) else [held])]
        else:
            rest.append(item)
    return {**message, "content": rest, "tool_calls": calls}


def _as_call(item: Any) -> Any:
    if not isinstance(item, Mapping) or isinstance(item.get("function"), Mapping):
        return {**item, "type": "function"} if isinstance(item, Mapping) else item
    arguments = next((item[key] for key in ("arguments", "args", "input") if key in item), None)
    return {"id": item.get("id"), "function": {"name": item.get("name"), "arguments": arguments}}


def _as_openai_usage(usage: Usage) -> dict[str, Any]:
    counts = asdict(usage)
    cached, written = counts["cache_read_tokens"], counts["cache_write_tokens"]
    prompt = counts["input_tokens"]
    return {
        "prompt_tokens": None if prompt is None else prompt + (cached or 0) + (written or 0),
        "completion_tokens": counts["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": counts["reasoning_tokens"]},
    }
