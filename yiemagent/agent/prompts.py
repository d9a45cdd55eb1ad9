"""What a caller may hand in as a prompt, made into user messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from yiemagent.errors import ConfigurationError
from yiemagent.messages import TextContent, UserMessage

__all__ = ["Prompt", "as_user_messages"]

Prompt: TypeAlias = "str | Mapping[str, Any] | UserMessage | Sequence[str | Mapping[str, Any] | UserMessage]"
"""A string, an OpenAI-format dict (text and images), a ``UserMessage``, or a list of these."""


def as_user_messages(prompt: Prompt) -> tuple[UserMessage, ...]:
    """The messages of *prompt*, in order.

    Raises:
        TypeError: It is none of the accepted types.
        ConfigurationError: It is empty, or a message of another role than ``user``.
    """
    if isinstance(prompt, (str, Mapping, UserMessage)):
        return (_one(prompt),)
    if not isinstance(prompt, Sequence) or isinstance(prompt, (bytes, bytearray)):
        raise TypeError(
            "a prompt must be a str, an OpenAI-format dict, a UserMessage, or a list of these; "
            f"got {type(prompt).__name__}"
        )
    if not prompt:
        raise ConfigurationError("the prompt is an empty list; give at least one message")
    return tuple(_one(item) for item in prompt)


def _one(item: Any) -> UserMessage:
    message = item
    if isinstance(item, str):
        message = UserMessage((TextContent(item),))
    elif isinstance(item, Mapping):
        from yiemagent.message_formats import message_from_openai

        message = message_from_openai(item)
    if not isinstance(message, UserMessage):
        if isinstance(item, Mapping):
            raise ConfigurationError(
                f"a prompt must have role 'user', got {item.get('role')!r}; a history goes into messages="
            )
        raise TypeError(
            "a prompt must be a str, an OpenAI-format dict, a UserMessage, or a list of these; "
            f"got {type(item).__name__}"
        )
    for block in message.content:
        if not hasattr(block, "type"):
            raise TypeError(
                f"the content of a prompt must be TextContent and ImageContent, got {type(block).__name__}"
            )
    if not any(not isinstance(block, TextContent) or block.text.strip() for block in message.content):
        raise ConfigurationError(
            "the prompt is empty; give it text or an image (providers refuse empty content)"
        )
    return message
