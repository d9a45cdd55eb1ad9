"""Messages in the Chat Completions dialect, each as a dict. Pure.

What belongs to another model stays out: its reasoning, its signatures, its own forms (C-35).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yiemagent.data_class import dataclass
from yiemagent.llm.arguments import arguments_text
from yiemagent.llm.quirks import Quirks
from yiemagent.llm.replay import legal_id, legal_name
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    ImageContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

__all__ = ["API", "Dialect", "assistant_dict", "image_parts", "merged_content", "result_dict", "user_dict"]

API = "openai-chat"

NO_IMAGES = "(image omitted: model does not support images)"
NO_TOOL_IMAGES = "(tool image omitted: model does not support images)"
NO_OUTPUT = "(no output)"
SEE_IMAGE = "(see attached image)"

_REASONING_FIELDS = frozenset({"reasoning_content", "reasoning", "reasoning_text"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """Everything that the form of a message depends on; equal ones share encoded messages."""

    quirks: Quirks
    model: str
    images: bool
    """Whether the model can see; images are replaced by a line of text otherwise."""
    api: str = API
    any_model: bool = False
    """Whether all answers of this ``api`` are the model's own, whatever they say of their origin."""

    def owns(self, message: AssistantMessage) -> bool:
        """Whether *message* came from this very model, so that it gets back what is private."""
        if message.api != self.api:
            return False
        return self.any_model or (message.provider, message.model) == (self.quirks.provider, self.model)


def user_dict(message: UserMessage, dialect: Dialect) -> dict[str, Any] | None:
    """A user message; None when there is nothing in it (C-09)."""
    content = _user_content(message.content, dialect)
    return None if not content else {"role": "user", "content": content}


def assistant_dict(message: AssistantMessage, dialect: Dialect) -> dict[str, Any] | None:
    """An answer: text as a plain string, calls, and to the same model its own reasoning."""
    quirks = dialect.quirks
    text = "".join(
        block.text for block in message.content if type(block) is TextContent and block.text.strip()
    )
    calls = message.tool_calls
    text = text or (message.refusal or "" if not calls else "")
    if not text and not calls:
        return None
    own = dialect.owns(message)
    extra = message.extra if own and message.extra else {}
    data: dict[str, Any] = {"role": "assistant"}
    if "content" in extra:
        data["content"] = extra["content"]
    elif text or quirks.empty_content != "omit":
        data["content"] = text or (None if quirks.empty_content == "null" else "")
    if own:
        data.update(_own_reasoning(message, quirks, bool(calls)))
    if calls:
        data["tool_calls"] = [_call_dict(call, quirks, own) for call in calls]
    return data


def result_dict(message: ToolResultMessage, dialect: Dialect) -> dict[str, Any]:
    """A tool result as a string that is never empty (C-10, C-46); its images go elsewhere (C-31)."""
    texts = _texts(message.content)
    has_images = any(type(block) is ImageContent for block in message.content)
    if has_images and not dialect.images:
        texts.append(NO_TOOL_IMAGES)
    text = "\n".join(texts) or (SEE_IMAGE if has_images else NO_OUTPUT)
    data = {
        "role": "tool",
        "tool_call_id": legal_id(message.tool_call_id, dialect.quirks.call_ids),
        "content": text,
    }
    if dialect.quirks.result_name and message.tool_name:
        data["name"] = message.tool_name
    return data


def image_parts(message: ToolResultMessage, dialect: Dialect) -> list[dict[str, Any]]:
    """The images of a tool result, for the user message that follows the results."""
    if not dialect.images:
        return []
    return [_image_part(block) for block in message.content if type(block) is ImageContent]


def merged_content(contents: Sequence[Any]) -> Any:
    """The contents of several user messages as one: a string if all of them are (C-07)."""
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(contents)
    parts: list[Any] = []
    for content in contents:
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return parts


def _texts(blocks: Sequence[ContentBlock]) -> list[str]:
    return [block.text for block in blocks if type(block) is TextContent and block.text.strip()]


def _user_content(blocks: Sequence[ContentBlock], dialect: Dialect) -> Any:
    parts: list[dict[str, Any]] = []
    for block in blocks:
        part: dict[str, Any] | None = None
        if type(block) is TextContent:
            part = {"type": "text", "text": block.text} if block.text.strip() else None
        elif type(block) is ImageContent:
            part = _image_part(block) if dialect.images else {"type": "text", "text": NO_IMAGES}
            if part == (parts[-1] if parts else None) and not dialect.images:
                continue  # one line for a run of images
        if part is not None:
            parts.append(part)
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts


def _image_part(block: ImageContent) -> dict[str, Any]:
    url = block.url or f"data:{block.mime_type};base64,{block.data or ''}"
    return {"type": "image_url", "image_url": {"url": url}}


def _call_dict(call: ToolCall, quirks: Quirks, own: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": legal_name(call.name), "arguments": arguments_text(call.arguments)}
    data = {"id": legal_id(call.id, quirks.call_ids), "type": "function", "function": function}
    if own and call.extra:
        for key, value in call.extra.items():
            if key == "function" and isinstance(value, dict):
                function.update(value)
            else:
                data[key] = value
    return data


def _own_reasoning(message: AssistantMessage, quirks: Quirks, has_calls: bool) -> dict[str, Any]:
    if quirks.replay_reasoning == "never" or (quirks.replay_reasoning == "tool_calls" and not has_calls):
        return {}
    data: dict[str, Any] = {}
    details = (message.extra or {}).get("reasoning_details")
    if details:
        data["reasoning_details"] = details
    blocks = [block for block in message.content if type(block) is ReasoningContent]
    text = "".join(block.text for block in blocks)
    came_in = next((block.extra["field"] for block in blocks if block.extra and "field" in block.extra), "")
    field = quirks.reasoning_field or (came_in if came_in in _REASONING_FIELDS else "")
    if field and (text or quirks.empty_reasoning):
        data[field] = text
    return data
