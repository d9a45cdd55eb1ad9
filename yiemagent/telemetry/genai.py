"""The GenAI semantic conventions as data: names, units and how our messages are written in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    ImageContent,
    Message,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
)

__all__ = [
    "DURATION",
    "SCHEMA_URL",
    "SEMCONV_VERSION",
    "TOKEN_USAGE",
    "Attributes",
    "answer_attributes",
    "messages_as_json",
    "prompt_tokens",
    "provider_name",
    "to_json",
    "usage_attributes",
]

SEMCONV_VERSION: Final = "1.41.1"
"""Version of the OpenTelemetry semantic conventions that spans and metrics follow."""
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{SEMCONV_VERSION}"

Attributes: TypeAlias = dict[str, Any]

DURATION: Final[Mapping[str, Any]] = {
    "name": "gen_ai.client.operation.duration",
    "unit": "s",
    "description": "GenAI operation duration.",
    "explicit_bucket_boundaries_advisory": [0.01 * 2**power for power in range(14)],
}
TOKEN_USAGE: Final[Mapping[str, Any]] = {
    "name": "gen_ai.client.token.usage",
    "unit": "{token}",
    "description": "Number of input and output tokens used.",
    "explicit_bucket_boundaries_advisory": [4**power for power in range(14)],
}

# Our provider names where the conventions have another word for them.
_PROVIDERS: Final[Mapping[str, str]] = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}

_FINISH_REASONS: Final[Mapping[str, str]] = {
    "tool_calls": "tool_call",
    "refusal": "content_filter",
    "aborted": "error",
    "redirected": "error",
}


def provider_name(provider: str) -> str:
    """The conventions' word for a provider; ``unknown`` when we do not know ours either."""
    return _PROVIDERS.get(provider, provider) or "unknown"


def usage_attributes(usage: Usage | None) -> Attributes:
    """Tokens of an answer; those the provider did not report are left out."""
    if usage is None:
        return {}
    found = {
        "gen_ai.usage.input_tokens": prompt_tokens(usage),
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "yiemagent.cost": usage.cost,
    }
    return {name: value for name, value in found.items() if value is not None}


def prompt_tokens(usage: Usage) -> int | None:
    """All tokens of the prompt: the conventions count cached ones in, ``Usage`` does not."""
    parts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def answer_attributes(message: AssistantMessage) -> Attributes:
    """What is known of an answer without its content."""
    made: Attributes = {
        "gen_ai.response.finish_reasons": [message.finish_reason or message.stop_reason],
        **usage_attributes(message.usage),
    }
    if message.model:
        made["gen_ai.response.model"] = message.model
    if message.response_id:
        made["gen_ai.response.id"] = message.response_id
    return made


def messages_as_json(messages: Iterable[Message]) -> str:
    """Messages in the conventions' form. Only for those who asked for content."""
    return to_json([_message(message) for message in messages])


def to_json(value: Any) -> str:
    """JSON text of anything; what JSON cannot say is written as its ``str``."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolResultMessage):
        part = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.text}
        return {"role": "tool", "parts": [part]}
    content = message.content if isinstance(message.content, tuple) else (TextContent(str(message.content)),)
    made: dict[str, Any] = {"role": message.role, "parts": [_part(block) for block in content]}
    if isinstance(message, AssistantMessage):
        made["finish_reason"] = _FINISH_REASONS.get(message.stop_reason, message.stop_reason)
    return made


def _part(block: ContentBlock) -> dict[str, Any]:
    if isinstance(block, TextContent):
        return {"type": "text", "content": block.text}
    if isinstance(block, ReasoningContent):
        return {"type": "reasoning", "content": block.text}
    if isinstance(block, ToolCall):
        return {
            "type": "tool_call",
            "id": block.id,
            "name": block.name,
            "arguments": dict(block.arguments),
        }
    if isinstance(block, ImageContent):
        if block.url:
            return {"type": "uri", "modality": "image", "mime_type": block.mime_type, "uri": block.url}
        return {
            "type": "blob",
            "modality": "image",
            "mime_type": block.mime_type,
            "content": block.data or "",
        }
    return {"type": "opaque"} if isinstance(block, OpaqueContent) else {"type": type(block).__name__}
