"""Replies in the Chat Completions dialect: whole, and as the chunks of a stream."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from yiemagent.demo.offline.reply import Reply

__all__ = ["MODEL", "chunks", "completion", "error_body", "models"]

MODEL = "offline-rules"
"""The name of the stand-in, whatever model a request asks for."""

_CHARACTERS_PER_TOKEN = 4
_PIECES = re.compile(r"\s*\S+|\s+$")
_ARGUMENT_PIECE = 24


def completion(reply: Reply, request: Mapping[str, Any]) -> dict[str, Any]:
    """The whole reply as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": _dump(arguments)}}
            for call_id, (name, arguments) in reply.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return {**_head(request, "chat.completion"), "choices": [choice], "usage": _usage(reply, request)}


def chunks(reply: Reply, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The reply piece by piece: words of the text, or fragments of the calls."""
    head = _head(request, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": "" if reply.text else None})
    for piece in _PIECES.findall(reply.text):
        yield chunk({"content": piece})
    for index, (call_id, (name, arguments)) in enumerate(reply.calls):
        function = {"name": name, "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
        )
        text = _dump(arguments)
        for start in range(0, len(text), _ARGUMENT_PIECE):
            fragment = {"arguments": text[start : start + _ARGUMENT_PIECE]}
            yield chunk({"tool_calls": [{"index": index, "function": fragment}]})
    yield chunk({}, _finish(reply))
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(reply, request)}


def error_body(message: str, param: str | None, status: int) -> dict[str, Any]:
    """An error as the dialect words it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


def models() -> dict[str, Any]:
    """The list of models: one."""
    return {
        "object": "list",
        "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "yiemagent"}],
    }


def _head(request: Mapping[str, Any], kind: str) -> dict[str, Any]:
    digest = hashlib.sha256(_dump(request["messages"]).encode()).hexdigest()[:24]
    return {"id": f"chatcmpl-{digest}", "object": kind, "created": int(time.time()), "model": MODEL}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _usage(reply: Reply, request: Mapping[str, Any]) -> dict[str, int]:
    """Sizes by the rule of thumb of four characters a token: there is no tokenizer here."""
    said = reply.text + "".join(f"{name}{_dump(arguments)}" for _, (name, arguments) in reply.calls)
    prompt = _tokens(_dump(request["messages"]) + _dump(request.get("tools") or ""))
    answer = _tokens(said)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _tokens(text: str) -> int:
    return max(1, -(-len(text) // _CHARACTERS_PER_TOKEN))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
