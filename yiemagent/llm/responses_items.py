"""Messages as input items of OpenAI's Responses dialect. Pure.

Reasoning goes back as the item it was, encrypted, and only to the model that made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yiemagent.llm.arguments import arguments_text
from yiemagent.llm.dialect import ModelDialect
from yiemagent.llm.openai_messages import NO_IMAGES, NO_OUTPUT, NO_TOOL_IMAGES
from yiemagent.llm.replay import legal_id, legal_name
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    ImageContent,
    LlmMessage,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
)

__all__ = ["API", "items_of"]

API = "openai-responses"


def items_of(message: LlmMessage, dialect: ModelDialect) -> list[dict[str, Any]]:
    """The items that *message* becomes; none when there is nothing in it."""
    if isinstance(message, AssistantMessage):
        own = dialect.owns(message)
        items = [item for block in message.content if (item := _said(block, own)) is not None]
        if not items and message.refusal:
            return [_message_item(message.refusal)]
        return items
    if isinstance(message, ToolResultMessage):
        return [_result_item(message, dialect)]
    parts = _parts(message.content, dialect, NO_IMAGES)
    return [{"role": "user", "content": parts}] if parts else []


def _said(block: ContentBlock, own: bool) -> dict[str, Any] | None:
    if isinstance(block, TextContent):
        return _message_item(block.text) if block.text.strip() else None
    if isinstance(block, ToolCall):
        item: dict[str, Any] = {
            "type": "function_call",
            "call_id": legal_id(block.id, "anthropic"),
            "name": legal_name(block.name),
            "arguments": arguments_text(block.arguments),
        }
        return {**item, **block.extra} if own and block.extra else item
    if isinstance(block, ReasoningContent):
        return _item_as_it_was(block.extra) if own else None
    if isinstance(block, OpaqueContent):
        return _item_as_it_was(block.data) if own else None
    return None


def _item_as_it_was(item: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {key: value for key, value in item.items() if key != "status"} if item else None


def _message_item(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _result_item(message: ToolResultMessage, dialect: ModelDialect) -> dict[str, Any]:
    parts = _parts(message.content, dialect, NO_TOOL_IMAGES)
    output: Any = parts
    if all(part["type"] == "input_text" for part in parts):
        output = "\n".join(part["text"] for part in parts) or NO_OUTPUT
    call_id = legal_id(message.tool_call_id, "anthropic")
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _parts(blocks: tuple[ContentBlock, ...], dialect: ModelDialect, no_images: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextContent) and block.text.strip():
            parts.append({"type": "input_text", "text": block.text})
        elif isinstance(block, ImageContent) and dialect.images:
            url = block.url or f"data:{block.mime_type};base64,{block.data or ''}"
            parts.append({"type": "input_image", "image_url": url})
        elif isinstance(block, ImageContent):
            line = {"type": "input_text", "text": no_images}
            if line not in parts[-1:]:
                parts.append(line)
    return parts
