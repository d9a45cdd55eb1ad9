"""Content blocks and messages: the frozen data that a conversation is made of.

Nothing here knows a provider. Blocks and messages never change; make a new one with
``dataclasses.replace``. Times are seconds since the epoch. Conversion to and from dicts,
JSON and the OpenAI shapes is in ``yiemagent.message_formats``.
"""

from __future__ import annotations

import string
import time
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, TypeAlias

from yiemagent.data_class import dataclass

__all__ = [
    "AssistantMessage",
    "ContentBlock",
    "CustomMessage",
    "ImageContent",
    "LlmMessage",
    "Message",
    "OpaqueContent",
    "ReasoningContent",
    "StopReason",
    "TextContent",
    "ToolCall",
    "ToolResultMessage",
    "Trust",
    "Usage",
    "UserMessage",
    "new_call_id",
]

_ID_ALPHABET = string.ascii_letters + string.digits

StopReason: TypeAlias = Literal["stop", "tool_calls", "length", "refusal", "error", "aborted", "redirected"]
"""Why an assistant message ended. Whether tools run is decided by the calls in it (decision 16)."""

Trust: TypeAlias = Literal["trusted", "untrusted"]
"""Whether a tool result's text may be believed; untrusted text is fenced before a model sees it."""


@dataclass(frozen=True, slots=True)
class TextContent:
    """Text, in code points; may be empty."""

    text: str
    extra: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """What the provider said beside the text; echoed to the same provider only."""

    type: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image: base64 ``data`` with its ``mime_type``, or a ``url``."""

    data: str | None = None
    mime_type: str = "image/png"
    url: str | None = None

    type: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        if isinstance(self.data, (bytes, bytearray)):
            raise TypeError("data of an image must be base64 text: base64.b64encode(data).decode()")


@dataclass(frozen=True, slots=True)
class ReasoningContent:
    """What the model thought; never part of the answer."""

    text: str
    signature: str | None = field(default=None, kw_only=True)
    """Opaque proof that the provider wants back verbatim."""
    redacted: bool = field(default=False, kw_only=True)
    """The text is withheld; ``signature`` holds the encrypted block."""
    extra: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """The provider's own form of this block; echoed to the same provider only."""

    type: ClassVar[str] = "reasoning"


def new_call_id() -> str:
    """A fresh id of a call that every provider accepts: nine letters and digits (C-33). Any thread."""
    import secrets

    return "".join(secrets.choice(_ID_ALPHABET) for _ in range(9))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asks for."""

    id: str
    """Non-empty and unique in its message."""
    name: str
    """The tool's name as registered here, once resolved."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The parsed arguments as sent; never changed by hooks or coercion. ``{}`` beside an error."""
    arguments_error: str | None = field(default=None, kw_only=True)
    """Why the arguments cannot be used; such a call is never run."""
    raw_arguments: str | None = field(default=None, kw_only=True)
    """The text that did not parse, for the error result and the log."""
    extra: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """Unknown keys of the call (thought signatures); echoed to the same provider only."""

    type: ClassVar[str] = "tool_call"


@dataclass(frozen=True, slots=True)
class OpaqueContent:
    """A block this library does not know, kept verbatim for the provider that sent it."""

    data: Mapping[str, Any]

    type: ClassVar[str] = "opaque"


ContentBlock: TypeAlias = TextContent | ImageContent | ReasoningContent | ToolCall | OpaqueContent


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and cost of one answer; None where the provider did not say."""

    input_tokens: int | None = None
    """Prompt tokens that were not read from a cache."""
    output_tokens: int | None = None
    """Generated tokens, reasoning included."""
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    """The part of ``output_tokens`` spent on reasoning."""
    cost: float | None = None
    """US dollars, by the price table; None without a price."""

    @property
    def total_tokens(self) -> int | None:
        """Input, output and cache tokens together; None when nothing is known."""
        parts = (self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens)
        known = [part for part in parts if part is not None]
        return sum(known) if known else None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=_plus(self.input_tokens, other.input_tokens),
            output_tokens=_plus(self.output_tokens, other.output_tokens),
            cache_read_tokens=_plus(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens=_plus(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens=_plus(self.reasoning_tokens, other.reasoning_tokens),
            cost=_plus(self.cost, other.cost),
        )


def _plus(a: Any, b: Any) -> Any:
    if a is None:
        return b
    return a if b is None else a + b


def _blocks(content: str | Iterable[ContentBlock] | None) -> tuple[ContentBlock, ...]:
    if isinstance(content, str):
        return (TextContent(content),)
    if content is not None and (isinstance(content, Mapping) or not isinstance(content, Iterable)):
        raise TypeError(f"content must be a str or content blocks, got {type(content).__name__}")
    blocks = tuple(content or ())
    for block in blocks:
        if not hasattr(block, "type"):
            raise TypeError(
                f"content must be made of content blocks such as TextContent, got {type(block).__name__}; "
                "message_from_openai (yiemagent.message_formats) reads OpenAI-format dicts"
            )
    return blocks


def _text_of(content: Iterable[ContentBlock]) -> str:
    return "".join(block.text for block in content if isinstance(block, TextContent))


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says. ``UserMessage("hi")`` makes one text block."""

    content: tuple[ContentBlock, ...]
    timestamp: float = field(default_factory=time.time, kw_only=True)
    _wire: Any = field(default=None, init=False, repr=False, compare=False)
    _size: int | None = field(default=None, init=False, repr=False, compare=False)

    role: ClassVar[str] = "user"

    def __post_init__(self) -> None:
        if type(self.content) is not tuple:
            object.__setattr__(self, "content", _blocks(self.content))

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return _text_of(self.content)


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model says: reasoning, text and tool calls, in the order they came."""

    content: tuple[ContentBlock, ...]
    stop_reason: StopReason = field(default="stop", kw_only=True)
    usage: Usage | None = field(default=None, kw_only=True)
    api: str = field(default="", kw_only=True)
    """The dialect that produced it, such as ``openai-chat``."""
    provider: str = field(default="", kw_only=True)
    model: str = field(default="", kw_only=True)
    response_id: str | None = field(default=None, kw_only=True)
    error_message: str | None = field(default=None, kw_only=True)
    error_kind: str | None = field(default=None, kw_only=True)
    """``LlmError.kind`` of the failure; None for an answer."""
    refusal: str | None = field(default=None, kw_only=True)
    """What the provider said when it refused."""
    finish_reason: str | None = field(default=None, kw_only=True)
    """The provider's own word, kept raw."""
    warnings: tuple[str, ...] = field(default=(), kw_only=True)
    """Oddities that were read past; stable names."""
    extra: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """What the same provider wants echoed with this message."""
    timestamp: float = field(default_factory=time.time, kw_only=True)
    _wire: Any = field(default=None, init=False, repr=False, compare=False)
    _size: int | None = field(default=None, init=False, repr=False, compare=False)

    role: ClassVar[str] = "assistant"

    def __post_init__(self) -> None:
        if type(self.content) is not tuple:
            object.__setattr__(self, "content", _blocks(self.content))

    @property
    def text(self) -> str:
        """The text blocks, joined: the answer without the reasoning."""
        return _text_of(self.content)

    @property
    def reasoning(self) -> str:
        """The reasoning blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, ReasoningContent))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    """The one result of one tool call (decision 30: role ``tool_result``)."""

    tool_call_id: str
    tool_name: str
    content: tuple[ContentBlock, ...]
    details: Any = field(default=None, kw_only=True)
    """For the application, never sent to a model; ``error_type`` in it is stable."""
    usage: Usage | None = field(default=None, kw_only=True)
    """What the tool itself spent (a subagent); never counted as this conversation's context."""
    is_error: bool = field(default=False, kw_only=True)
    trust: Trust = field(default="trusted", kw_only=True)
    added_tool_names: tuple[str, ...] = field(default=(), kw_only=True)
    timestamp: float = field(default_factory=time.time, kw_only=True)
    _wire: Any = field(default=None, init=False, repr=False, compare=False)
    _size: int | None = field(default=None, init=False, repr=False, compare=False)

    role: ClassVar[str] = "tool_result"

    def __post_init__(self) -> None:
        if type(self.content) is not tuple:
            object.__setattr__(self, "content", _blocks(self.content))

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return _text_of(self.content)


@dataclass(frozen=True, slots=True)
class CustomMessage:
    """A message of the application's own; no model sees it unless ``convert_to_llm`` translates it."""

    role: str
    content: Any
    timestamp: float = field(default_factory=time.time, kw_only=True)


LlmMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage
Message: TypeAlias = LlmMessage | CustomMessage
