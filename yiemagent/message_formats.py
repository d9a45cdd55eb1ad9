"""Messages as dicts, as JSON, and in the shapes of the OpenAI API.

``message_to_dict`` and ``message_from_dict`` round-trip everything. The OpenAI shapes are those
that users write and read: a prompt with text and images, an answer without its reasoning. What
goes over the wire to a provider is the business of ``yiemagent.llm``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from yiemagent.errors import ConfigurationError
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    CustomMessage,
    ImageContent,
    Message,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

__all__ = [
    "block_from_dict",
    "block_to_dict",
    "message_from_dict",
    "message_from_openai",
    "message_to_dict",
    "message_to_openai",
    "messages_from_json",
    "messages_to_json",
]

_BLOCKS: dict[str, type[Any]] = {
    cls.type: cls for cls in (TextContent, ImageContent, ReasoningContent, ToolCall, OpaqueContent)
}
_MESSAGES: dict[str, type[Any]] = {
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool_result": ToolResultMessage,
}
_ROLE_ALIASES = {"toolResult": "tool_result", "tool": "tool_result"}


def message_to_dict(message: Message) -> dict[str, Any]:
    """A plain dict of *message*; fields at their default are left out.

    Raises:
        TypeError: It is no message.
    """
    if not isinstance(message, Message):
        raise TypeError(f"a message is wanted, got {type(message).__name__}")
    if isinstance(message, CustomMessage):
        return {
            "role": message.role,
            "custom": True,
            "content": message.content,
            "timestamp": message.timestamp,
        }
    data: dict[str, Any] = {"role": message.role}
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name == "_wire" or field.name == "_size" or _is_default(value, field.default):
            continue
        data[field.name] = _plain(value)
    return data


def _is_default(value: Any, default: Any) -> bool:
    # Not ``==`` alone: details may hold anything, and arrays compare as arrays.
    return value is default or (type(value) is type(default) and bool(value == default))


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """The message that ``message_to_dict`` made *data* of.

    Raises:
        ConfigurationError: The role is unknown, or a field is.
    """
    values = dict(data)
    role = values.pop("role", None)
    if values.pop("custom", False):
        return CustomMessage(str(role), values.get("content"), timestamp=values.get("timestamp", 0.0))
    cls = _MESSAGES.get(_ROLE_ALIASES.get(str(role), str(role)))
    if cls is None:
        raise ConfigurationError(f"unknown message role {role!r}; known: {', '.join(_MESSAGES)}")
    values["content"] = _blocks_of(role, values.get("content", ()))
    usage = values.get("usage")
    if usage is not None and not isinstance(usage, Mapping):
        raise ConfigurationError(f"usage of a message must be an object, got {type(usage).__name__}")
    for name in ("added_tool_names", "warnings"):
        if name in values:
            if not isinstance(values[name], (list, tuple)):
                raise ConfigurationError(f"{name} of a message must be a list, got {values[name]!r}")
            values[name] = tuple(values[name])
    try:
        if usage is not None:
            values["usage"] = Usage(**usage)
        return cls(**values)  # type: ignore[no-any-return]
    except TypeError as error:
        raise ConfigurationError(f"not a message of role {role!r}: {error}") from error


def _blocks_of(role: Any, content: Any) -> tuple[ContentBlock, ...]:
    if isinstance(content, str):
        return (TextContent(content),)
    if not isinstance(content, (list, tuple)):
        raise ConfigurationError(
            f"content of a message of role {role!r} must be a list of blocks, got {type(content).__name__}"
        )
    return tuple(_block(block) for block in content)


def messages_to_json(messages: Iterable[Message]) -> str:
    """JSON text of a transcript; pure ASCII, so that lone surrogates survive any encoding.

    Raises:
        TypeError: ``details`` of a tool result holds something JSON has no form for.
    """
    return json.dumps([message_to_dict(message) for message in messages])


def messages_from_json(text: str) -> list[Message]:
    """The transcript that ``messages_to_json`` wrote.

    Raises:
        ConfigurationError: The text is no such transcript.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"not a transcript in JSON: {error}") from error
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise ConfigurationError("not a transcript in JSON: it must be a list of objects")
    return [message_from_dict(item) for item in data]


def block_to_dict(block: ContentBlock) -> dict[str, Any]:
    """A plain dict of one content block; fields at their default are left out."""
    data: dict[str, Any] = _plain(block)
    return data


def block_from_dict(data: Mapping[str, Any]) -> ContentBlock:
    """The block that ``block_to_dict`` made *data* of.

    Raises:
        ConfigurationError: The type is unknown, or a field is.
    """
    return _block(data)


# -- the OpenAI shapes -------------------------------------------------------------------


def message_to_openai(message: Message) -> dict[str, Any]:
    """*message* in OpenAI's shape, without reasoning: what ``take_response`` gives.

    Shape: ``{"role": "assistant", "content": [{"type": "text", "text": str}, ...],
    "tool_calls"?: [...]}``; a tool result has role ``tool`` and ``tool_call_id``.
    """
    if isinstance(message, CustomMessage):
        return {"role": message.role, "content": message.content}
    content = [part for block in message.content if (part := _part(block)) is not None]
    if isinstance(message, UserMessage):
        return {"role": "user", "content": content}
    if isinstance(message, ToolResultMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}
    data: dict[str, Any] = {"role": "assistant", "content": content or [{"type": "text", "text": ""}]}
    if message.refusal is not None:
        data["refusal"] = message.refusal
    if message.tool_calls:
        data["tool_calls"] = [_openai_call(call) for call in message.tool_calls]
    return data


def message_from_openai(data: Mapping[str, Any]) -> Message:
    """A message of ours from OpenAI's shape: user, assistant, or tool.

    Raises:
        ConfigurationError: Another role, or content of an unknown shape; it says which.
    """
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"a message must be a dict with role and content, got {type(data).__name__}")
    role = data.get("role")
    reader = _READERS.get(_ROLE_ALIASES.get(str(role), str(role)))
    if reader is None:
        hint = " (pass system_prompt= instead)" if role in ("system", "developer") else ""
        raise ConfigurationError(f"unknown message role {role!r}{hint}; known: {', '.join(_READERS)}, tool")
    return reader(data)


def _user(data: Mapping[str, Any]) -> Message:
    return UserMessage(_content(data.get("content")))


def _assistant(data: Mapping[str, Any]) -> Message:
    blocks = list(_content(data.get("content")))
    calls = data.get("tool_calls") or ()
    if not isinstance(calls, (list, tuple)):
        raise ConfigurationError(f"tool_calls of a message must be a list, got {calls!r}")
    blocks += [_call(call) for call in calls]
    return AssistantMessage(tuple(blocks), refusal=data.get("refusal"))


def _call(call: Any) -> ToolCall:
    if not isinstance(call, Mapping):
        raise ConfigurationError(f"a tool call must be an object, got {call!r}")
    function = call.get("function") or {}
    if not isinstance(function, Mapping):
        raise ConfigurationError(f"function of a tool call must be an object, got {function!r}")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            raise ConfigurationError(f"tool call arguments are no JSON: {error}") from error
    if not isinstance(arguments, Mapping):
        raise ConfigurationError(f"tool call arguments must be an object, got {type(arguments).__name__}")
    return ToolCall(str(call.get("id") or ""), str(function.get("name") or ""), arguments)


def _tool_result(data: Mapping[str, Any]) -> Message:
    return ToolResultMessage(
        str(data.get("tool_call_id") or ""), str(data.get("name") or ""), _content(data.get("content"))
    )


_READERS: dict[str, Callable[[Mapping[str, Any]], Message]] = {
    "user": _user,
    "assistant": _assistant,
    "tool_result": _tool_result,
}


def _content(content: Any) -> tuple[ContentBlock, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextContent(content),)
    if isinstance(content, Mapping) or not isinstance(content, Iterable):
        raise ConfigurationError(
            f"message content must be a str or a list of parts, got {type(content).__name__}"
        )
    return tuple(_block_from_part(part) for part in content)


def _block_from_part(part: Any) -> ContentBlock:
    if isinstance(part, (TextContent, ImageContent)):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
        return TextContent(part["text"])
    if kind in ("image_url", "input_image"):
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, Mapping) else image
        if isinstance(url, str) and url:
            return _image(url)
    raise ConfigurationError(
        f'content part {kind!r} is not understood; use {{"type": "text", "text": ...}} or '
        '{"type": "image_url", "image_url": {"url": ...}}'
    )


def _image(url: str) -> ImageContent:
    head, _, data = url.partition(",")
    if head.startswith("data:") and head.endswith(";base64"):
        return ImageContent(data, head[len("data:") : -len(";base64")] or "image/png")
    return ImageContent(url=url)


def _part(block: ContentBlock) -> dict[str, Any] | None:
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageContent):
        url = block.url or f"data:{block.mime_type};base64,{block.data or ''}"
        return {"type": "image_url", "image_url": {"url": url}}
    return None


def _openai_call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


# -- dicts -------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Usage):
        return {f.name: v for f in fields(value) if (v := getattr(value, f.name)) is not None}
    if type(value) in _BLOCKS.values():
        data = {"type": value.type}
        data.update((f.name, _plain(v)) for f in fields(value) if (v := getattr(value, f.name)) != f.default)
        return data
    return dict(value) if isinstance(value, Mapping) else value


def _block(data: Any) -> ContentBlock:
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"a content block must be an object, got {data!r}")
    values = dict(data)
    kind = values.pop("type", None)
    cls = _BLOCKS.get(str(kind))
    if cls is None:
        raise ConfigurationError(f"unknown content block {kind!r}; known: {', '.join(_BLOCKS)}")
    if not isinstance(values.get("text", ""), str):
        raise ConfigurationError(f"text of a content block must be a text, got {values['text']!r}")
    try:
        return cls(**values)  # type: ignore[no-any-return]
    except TypeError as error:
        raise ConfigurationError(f"not a content block of type {kind!r}: {error}") from error
