"""A Responses request as bytes: each message is encoded once, a request is a join."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from yiemagent.llm.dialect import ModelDialect
from yiemagent.llm.replay import repair_history
from yiemagent.llm.responses_items import items_of
from yiemagent.llm.wire_json import message_to_wire, to_wire
from yiemagent.messages import LlmMessage
from yiemagent.model import LlmContext, StreamOptions, ToolSpec
from yiemagent.tools.wire_schema import to_wire_schema

__all__ = ["ResponsesRequests"]

_RESERVED = frozenset({"model", "input", "tools", "instructions"})
_keys: dict[ModelDialect, ModelDialect] = {}


class ResponsesRequests:
    """Makes the requests of one dialect. Any thread.

    Args:
        dialect: Provider, model and whether it sees images.
        cache_key: Whether the session id is sent, so that a session's requests meet one cache.
    """

    __slots__ = ("_cache_key", "_key", "_tools", "dialect")

    def __init__(self, dialect: ModelDialect, *, cache_key: bool) -> None:
        self.dialect = dialect
        self._key = _keys.setdefault(dialect, dialect)
        self._cache_key = cache_key
        self._tools: tuple[Sequence[ToolSpec], bytes] | None = None

    def body(
        self, context: LlmContext, options: StreamOptions, *, stream: bool, defaults: Mapping[str, Any]
    ) -> bytes:
        """The body of a request; *defaults* are sent unless *options* says otherwise."""
        params = self._params(context, options, stream, defaults)
        pieces = [b'{"model":', to_wire(self.dialect.model), b',"input":[', self._items(context), b"]"]
        if context.system_prompt:
            pieces += [b',"instructions":', to_wire(context.system_prompt)]
        if context.tools:
            pieces += [b',"tools":', self._encoded_tools(context.tools)]
        pieces += [b",", to_wire(params)[1:]]
        body = b"".join(pieces)
        if _RESERVED.isdisjoint(params):
            return body
        return to_wire({**json.loads(body), **params})

    def _items(self, context: LlmContext) -> bytes:
        key, parts = self._key, []
        for message in repair_history(context.messages):
            wire = message._wire
            if wire is None or wire[0] is not key:
                wire = self._encode(message)
            if wire[1]:
                parts.append(wire[1])
        return b",".join(parts)

    def _encode(self, message: LlmMessage) -> tuple[Any, bytes]:
        wire = (self._key, b",".join(message_to_wire(item) for item in items_of(message, self.dialect)))
        object.__setattr__(message, "_wire", wire)
        return wire

    def _encoded_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        held = self._tools
        if held is None or held[0] != tools:
            held = self._tools = (tuple(tools), to_wire([_tool(tool) for tool in tools]))
        return held[1]

    def _params(
        self, context: LlmContext, options: StreamOptions, stream: bool, defaults: Mapping[str, Any]
    ) -> dict[str, Any]:
        # Nothing is kept at the provider: the whole history goes along, reasoning encrypted.
        params: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
        if stream:
            params["stream"] = True
        max_tokens = options.max_tokens if options.max_tokens is not None else defaults.get("max_tokens")
        if max_tokens is not None:
            params["max_output_tokens"] = max_tokens
        temperature = options.temperature if options.temperature is not None else defaults.get("temperature")
        if temperature is not None:
            params["temperature"] = temperature
        if options.reasoning is not None:
            effort = "none" if options.reasoning == "off" else options.reasoning
            params["reasoning"] = {"effort": effort, "summary": "auto"}
        if options.tool_choice is not None and context.tools:
            params["tool_choice"] = _tool_choice(options.tool_choice)
        if options.session_id and self._cache_key:
            params["prompt_cache_key"] = options.session_id[:64]
        params.update(defaults.get("extra_body") or {})
        params.update(options.extra_body or {})
        return params


def _tool(tool: ToolSpec) -> dict[str, Any]:
    data: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description:
        data["description"] = tool.description
    data["parameters"] = to_wire_schema(tool.input_schema)
    # Without this the API closes every schema and demands every property.
    data["strict"] = False
    return data


def _tool_choice(choice: Any) -> Any:
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        return {"type": "function", "name": choice}
    return choice
