"""MCP content blocks as blocks that a model reads; what it cannot read becomes a line that says so.

Source: E-05, E-25; mcp quirks 3-6; field problem 41.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from yiemagent.messages import ContentBlock, ImageContent, TextContent, Trust
from yiemagent.tools.json_text import json_text, scrub_surrogates
from yiemagent.tools.result import NO_OUTPUT
from yiemagent.tools.tool import ToolResult

__all__ = ["content_blocks", "tool_result"]

_SHOWN_CHARS = 2_000
"""What is shown of a block of an unknown type."""


def tool_result(
    result: Any,
    *,
    server: str = "",
    tool: str = "",
    trust: Trust = "untrusted",
    warnings: Iterable[str] = (),
) -> ToolResult:
    """The result of ``tools/call`` as the result of a tool.

    The model reads every block, and the structured value where no text says it already. Everything
    as it came is in ``details``: ``server``, ``tool``, ``content``, ``structured_content`` (if there
    is one), ``meta``, ``warnings``.

    Args:
        result: As the server sent it; anything but an object is shown as JSON.
        server: Name of the server, for ``details``.
        tool: Name of the tool there, for ``details``.
        trust: Whether its text may be believed.
        warnings: What was read past, for ``details``.
    """
    if not isinstance(result, Mapping):
        return ToolResult((_text(result if isinstance(result, str) else json_text(result)),), trust=trust)
    content = result.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    raw = tuple(content) if isinstance(content, list | tuple) else ()
    blocks = content_blocks(raw)
    details: dict[str, Any] = {"server": server, "tool": tool, "content": raw}
    if "structuredContent" in result:
        details["structured_content"] = result["structuredContent"]
        if not _is_said(result["structuredContent"], blocks):
            blocks = (*blocks, _text(json_text(result["structuredContent"])))
    if isinstance(result.get("_meta"), Mapping):
        details["meta"] = result["_meta"]
    if warnings:
        details["warnings"] = tuple(warnings)
    is_error = result.get("isError") is True
    if is_error:
        details["error_type"] = "mcp_tool_error"
    if not any(not isinstance(block, TextContent) or block.text.strip() for block in blocks):
        blocks = (TextContent(NO_OUTPUT),)
    return ToolResult(blocks, details, is_error=is_error, trust=trust)


def content_blocks(content: Iterable[Any]) -> tuple[ContentBlock, ...]:
    """Every MCP block as one of ours, in order: texts and images as such, the rest as a line of text.

    Embedded resources show their text, or their picture; audio, links and blocks of a type that is
    not known yet are named with what describes them.
    """
    return tuple(_block(block) for block in content)


def _block(block: Any) -> ContentBlock:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return _text(block["text"])
    if kind == "image" and isinstance(block.get("data"), str):
        return ImageContent(block["data"], str(block.get("mimeType") or "image/png"))
    if kind == "audio":
        return _text(f"[audio, {_kind_and_size(block.get('mimeType'), block.get('data'))}]")
    if kind == "resource" and isinstance(block.get("resource"), Mapping):
        return _resource(block["resource"])
    if kind == "resource_link":
        return _text(_link(block))
    shown = scrub_surrogates(json_text(block))
    more = f"... ({len(shown):,} characters)" if len(shown) > _SHOWN_CHARS else ""
    return _text(f"[content of type {kind!r}: {shown[:_SHOWN_CHARS]}{more}]")


def _text(text: str) -> TextContent:
    return TextContent(scrub_surrogates(text))


def _resource(resource: Mapping[str, Any]) -> ContentBlock:
    uri, mime_type = str(resource.get("uri", "")), resource.get("mimeType")
    if isinstance(resource.get("text"), str):
        return _text(f"[resource {uri}]\n{resource['text']}")
    blob = resource.get("blob")
    if isinstance(blob, str) and isinstance(mime_type, str) and mime_type.startswith("image/"):
        return ImageContent(blob, mime_type)
    return _text(f"[resource {uri}, {_kind_and_size(mime_type, blob)}]")


def _kind_and_size(mime_type: Any, data: Any) -> str:
    kind = mime_type if isinstance(mime_type, str) and mime_type else "unknown type"
    if not isinstance(data, str):
        return f"{kind}, without data"
    return f"{kind}, {len(data) * 3 // 4:,} bytes, not readable here"


def _link(block: Mapping[str, Any]) -> str:
    described = [str(block[key]) for key in ("title", "name", "mimeType", "description") if block.get(key)]
    size = block.get("size")
    if isinstance(size, int):
        described.append(f"{size:,} bytes")
    uri = str(block.get("uri", "an unnamed resource"))
    return f"[link to {': '.join((uri, ', '.join(described))) if described else uri}]"


def _is_said(value: Any, blocks: tuple[ContentBlock, ...]) -> bool:
    """Whether the texts already say the structured value, as servers repeat it for older clients.

    Also where it was wrapped in ``{"result": value}`` because it is no object, and where each
    member of a list has its own text.
    """
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    values = [value]
    if isinstance(value, Mapping) and list(value) == ["result"]:
        values.append(value["result"])
    parsed = [_parsed(text) for text in texts]
    return any(
        candidate in parsed or candidate in texts or (isinstance(candidate, list) and candidate == parsed)
        for candidate in values
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
