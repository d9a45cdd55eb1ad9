"""Messages in Anthropic's dialect, each as the bytes of its content blocks. Pure.

All neighbouring user messages and tool results become one user message; thinking goes back,
signed and verbatim, only to the model that thought it (C-35, A-77).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from yiemagent.llm.arguments import arguments_text
from yiemagent.llm.dialect import ModelDialect
from yiemagent.llm.openai_messages import NO_IMAGES, NO_OUTPUT, NO_TOOL_IMAGES, SEE_IMAGE
from yiemagent.llm.replay import legal_id, legal_name
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    ImageContent,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

__all__ = ["API", "assistant_blocks", "result_blocks", "tool_names", "user_blocks"]

API = "anthropic-messages"


def user_blocks(message: UserMessage, dialect: ModelDialect) -> list[dict[str, Any]]:
    """A user message's blocks; none when there is nothing in it (C-09)."""
    blocks: list[dict[str, Any]] = []
    for block in message.content:
        made = _visible(block, dialect, NO_IMAGES)
        if made is not None and (dialect.images or made != (blocks[-1] if blocks else None)):
            blocks.append(made)
    return blocks


def assistant_blocks(message: AssistantMessage, dialect: ModelDialect) -> list[dict[str, Any]]:
    """An answer's blocks in their order; blank text is left out (A-76)."""
    own = dialect.owns(message)
    blocks = [made for block in message.content if (made := _said(block, own)) is not None]
    if not blocks and message.refusal:
        return [{"type": "text", "text": message.refusal}]
    return blocks


def result_blocks(
    message: ToolResultMessage, dialect: ModelDialect
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A tool result, and the images that have to follow all results: an error holds only text."""
    content = [
        made for block in message.content if (made := _visible(block, dialect, NO_TOOL_IMAGES)) is not None
    ]
    images = [block for block in content if block["type"] == "image"]
    if message.is_error:
        content = [block for block in content if block["type"] != "image"]
    if not content:
        content = [{"type": "text", "text": SEE_IMAGE if images else NO_OUTPUT}]
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": legal_id(message.tool_call_id, "anthropic"),
        "content": content,
    }
    if message.is_error:
        result["is_error"] = True
    return result, images if message.is_error else []


def _said(block: ContentBlock, own: bool) -> dict[str, Any] | None:
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text} if block.text.strip() else None
    if isinstance(block, ToolCall):
        return {
            "type": "tool_use",
            "id": legal_id(block.id, "anthropic"),
            "name": legal_name(block.name),
            "input": json.loads(arguments_text(block.arguments)),
        }
    if isinstance(block, ReasoningContent):
        if not own or not block.signature:
            return None
        if block.redacted:
            return {"type": "redacted_thinking", "data": block.signature}
        return {"type": "thinking", "thinking": block.text, "signature": block.signature}
    if isinstance(block, OpaqueContent):
        return dict(block.data) if own else None
    return None


def _visible(block: ContentBlock, dialect: ModelDialect, no_images: str) -> dict[str, Any] | None:
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text} if block.text.strip() else None
    if not isinstance(block, ImageContent):
        return None
    if not dialect.images:
        return {"type": "text", "text": no_images}
    if block.url is not None:
        return {"type": "image", "source": {"type": "url", "url": block.url}}
    source = {"type": "base64", "media_type": block.mime_type, "data": block.data or ""}
    return {"type": "image", "source": source}


def tool_names(messages: Sequence[Any]) -> list[str]:
    """Names of the tools that the history used, each once."""
    names: dict[str, None] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            names.update((call.name, None) for call in message.tool_calls)
    return list(names)
