"""What a server offers and answers, as frozen data. ``raw`` is always the dict as it came.

Read leniently (fields may be missing or of an older name), because servers of five protocol
versions and three languages are read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from yiemagent.data_class import dataclass

__all__ = [
    "Completion",
    "McpPrompt",
    "McpResource",
    "McpResourceTemplate",
    "McpTool",
    "Progress",
    "PromptMessages",
    "ResourceContents",
    "ServerInfo",
    "ServerLog",
    "ToolCallResult",
]

_EMPTY: Mapping[str, Any] = {}


def _text(raw: Mapping[str, Any], *names: str) -> str:
    """The first of the fields that is a non-empty text."""
    return next((raw[name] for name in names if isinstance(raw.get(name), str) and raw[name]), "")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _EMPTY


def _dicts(value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, list):
        return ()
    if len(value) == 1 and isinstance(value[0], dict):
        return (value[0],)
    return tuple([member for member in value if isinstance(member, dict)])


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Who answered; for display and logs only, since servers may say anything."""

    name: str
    version: str
    protocol_version: str
    """Empty in the plain dialect."""
    capabilities: Mapping[str, Any]
    instructions: str = ""
    """What the server wants a model to know about it; empty when it says nothing."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool as the server describes it."""

    name: str
    title: str = ""
    """For people: ``title``, else ``label`` (the Julia design), else ``annotations.title``."""
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict, repr=False)
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> McpTool:
        """Read a tool definition; its ``name`` must be there."""
        annotations = _mapping(raw.get("annotations"))
        output = raw.get("outputSchema")
        return cls(
            name=raw["name"],
            title=_text(raw, "title", "label") or _text(annotations, "title"),
            description=_text(raw, "description"),
            input_schema=_mapping(raw.get("inputSchema") or raw.get("input_schema")),
            output_schema=output if isinstance(output, dict) else None,
            annotations=annotations,
            raw=raw,
        )

    @property
    def needs_task(self) -> bool:
        """Whether it can only be called as a task (protocol 2025-11-25)."""
        return _mapping(self.raw.get("execution")).get("taskSupport") == "required"


@dataclass(frozen=True, slots=True)
class McpResource:
    """A resource as the server lists it."""

    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None
    """Bytes, where the server says so."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> McpResource:
        """Read a resource; its ``uri`` must be there."""
        size = raw.get("size")
        return cls(
            uri=raw["uri"],
            name=_text(raw, "name"),
            title=_text(raw, "title", "name"),
            description=_text(raw, "description"),
            mime_type=_text(raw, "mimeType"),
            size=size if isinstance(size, int) else None,
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class McpResourceTemplate:
    """A family of resources, by a URI template (RFC 6570)."""

    uri_template: str
    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> McpResourceTemplate:
        """Read a template; its ``uriTemplate`` must be there."""
        return cls(
            uri_template=raw["uriTemplate"],
            name=_text(raw, "name"),
            title=_text(raw, "title", "name"),
            description=_text(raw, "description"),
            mime_type=_text(raw, "mimeType"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class ResourceContents:
    """One part of what a resource holds: ``text``, or ``blob`` in base64."""

    uri: str
    mime_type: str = ""
    text: str | None = None
    blob: str | None = field(default=None, repr=False)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read_all(cls, result: Mapping[str, Any]) -> tuple[ResourceContents, ...]:
        """Read the result of ``resources/read``."""
        return tuple(
            cls(
                uri=_text(raw, "uri"),
                mime_type=_text(raw, "mimeType"),
                text=raw["text"] if isinstance(raw.get("text"), str) else None,
                blob=raw["blob"] if isinstance(raw.get("blob"), str) else None,
                raw=raw,
            )
            for raw in _dicts(result.get("contents"))
        )


@dataclass(frozen=True, slots=True)
class McpPrompt:
    """A prompt as the server lists it."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[Mapping[str, Any], ...] = ()
    """Each with ``name``, and maybe ``description`` and ``required``."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> McpPrompt:
        """Read a prompt definition; its ``name`` must be there."""
        return cls(
            name=raw["name"],
            title=_text(raw, "title"),
            description=_text(raw, "description"),
            arguments=_dicts(raw.get("arguments")),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class PromptMessages:
    """A prompt with its arguments filled in."""

    messages: tuple[Mapping[str, Any], ...]
    """Each with ``role`` and one ``content`` block, as MCP has them."""
    description: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, result: Mapping[str, Any]) -> PromptMessages:
        """Read the result of ``prompts/get``."""
        return cls(_dicts(result.get("messages")), _text(result, "description"), result)


@dataclass(frozen=True, slots=True)
class Completion:
    """What the server suggests for an argument."""

    values: tuple[str, ...]
    total: int | None = None
    has_more: bool = False
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, result: Mapping[str, Any]) -> Completion:
        """Read the result of ``completion/complete``."""
        raw = _mapping(result.get("completion"))
        values = raw.get("values")
        total = raw.get("total")
        return cls(
            values=tuple(map(str, values)) if isinstance(values, list) else (),
            total=total if isinstance(total, int) else None,
            has_more=raw.get("hasMore") is True,
            raw=result,
        )


@dataclass(frozen=True, slots=True)
class ToolCallResult:
    """What a tool gave back. ``is_error`` is the tool's own failure, readable for a model."""

    content: tuple[Mapping[str, Any], ...]
    """MCP content blocks, all of them, as they came."""
    structured: Any = None
    """``structuredContent``: any JSON value; None when there is none (look into ``raw`` to tell)."""
    is_error: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict, repr=False)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    """What was read past: an answer that does not fit its ``outputSchema``."""

    @classmethod
    def read(cls, result: Mapping[str, Any], warnings: tuple[str, ...] = ()) -> ToolCallResult:
        """Read the result of ``tools/call``; a missing ``isError`` means success."""
        get = result.get
        return cls(
            _dicts(get("content")),
            get("structuredContent"),
            get("isError") is True,
            _mapping(get("_meta")),
            result,
            warnings,
        )

    @property
    def text(self) -> str:
        """The text blocks, joined by line ends."""
        return "\n".join(
            block["text"]
            for block in self.content
            if block.get("type") == "text" and isinstance(block.get("text"), str)
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call has come. ``str()`` is a readable line."""

    progress: float
    total: float | None = None
    message: str = ""

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> Progress:
        """Read a ``notifications/progress``."""
        params = _mapping(message.get("params"))
        progress, total = params.get("progress"), params.get("total")
        return cls(
            progress=float(progress) if isinstance(progress, int | float) else 0.0,
            total=float(total) if isinstance(total, int | float) else None,
            message=_text(params, "message"),
        )

    def __str__(self) -> str:
        amount = f"{self.progress:g}" if self.total is None else f"{self.progress:g}/{self.total:g}"
        return f"{amount}: {self.message}" if self.message else amount


@dataclass(frozen=True, slots=True)
class ServerLog:
    """A log message of the server's. ``str()`` is a readable line."""

    level: str
    data: Any
    logger: str = ""

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> ServerLog:
        """Read a ``notifications/message``."""
        params = _mapping(message.get("params"))
        return cls(_text(params, "level") or "info", params.get("data"), _text(params, "logger"))

    def __str__(self) -> str:
        source = f"{self.level} {self.logger}" if self.logger else self.level
        return f"{source}: {self.data}"
