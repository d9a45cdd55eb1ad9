"""What a server of ours says about tools and their results, in the words of each version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from yiemagent.errors import McpProtocolError
from yiemagent.mcp.jsonrpc import INTERNAL_ERROR, Message, encode, make_error
from yiemagent.messages import ContentBlock, ImageContent, OpaqueContent, TextContent
from yiemagent.tools.json_text import json_text, scrub_surrogates
from yiemagent.tools.tool import Tool, ToolResult

__all__ = ["encode_answer", "has_output_schema", "tool_listing", "wire_result"]

STRUCTURED_SINCE = "2025-06-18"
ANNOTATIONS_SINCE = "2025-03-26"
ANY_STRUCTURE_SINCE = "2026-07-28"

BLOCK_SINCE = {
    "text": "",
    "image": "",
    "resource": "",
    "audio": "2025-03-26",
    "resource_link": "2025-06-18",
}
"""The first version that knows each kind of content block; others become text."""


def tool_listing(tool: Tool, version: str) -> dict[str, Any]:
    """One entry of ``tools/list``.

    Args:
        tool: A tool of ours.
        version: The protocol version spoken; empty in the Julia design's dialect, which says ``label``.
    """
    entry: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.wire_schema,
    }
    if not version:
        entry["label"] = tool.label or tool.name
        return entry
    if tool.annotations and version >= ANNOTATIONS_SINCE:
        entry["annotations"] = dict(tool.annotations)
    if version >= STRUCTURED_SINCE:
        if tool.label is not None:
            entry["title"] = tool.label
        if has_output_schema(tool, version):
            entry["outputSchema"] = tool.output_schema
    return entry


def has_output_schema(tool: Tool, version: str) -> bool:
    """Whether the tool's output schema may be told: before 2026-07-28 its root must be an object."""
    schema = tool.output_schema
    if schema is None or version < STRUCTURED_SINCE:
        return False
    return version >= ANY_STRUCTURE_SINCE or schema.get("type") == "object"


def wire_result(tool: Tool, returned: Any, result: ToolResult, version: str) -> dict[str, Any]:
    """The result of ``tools/call``.

    Args:
        tool: What was called.
        returned: What its ``execute`` gave, before it was made into *result*.
        result: What a model would read.
        version: The protocol version spoken.
    """
    wire: dict[str, Any] = {
        "content": [_wire_block(block, version) for block in result.content],
        "isError": result.is_error,
    }
    if not result.is_error and has_output_schema(tool, version):
        structured = _structured(returned, result)
        if structured is not None:
            wire["structuredContent"] = structured
    return wire


def _structured(returned: Any, result: ToolResult) -> Any:
    """The structured value of a tool with an output schema: what it returned, or kept in its details."""
    if isinstance(returned, ToolResult):
        details = result.details
        return details.get("structured_content") if isinstance(details, Mapping) else None
    return json.loads(json_text(returned))


def _wire_block(block: ContentBlock, version: str) -> dict[str, Any]:
    if isinstance(block, TextContent):
        return _text(block.text)
    if isinstance(block, ImageContent):
        if block.data is not None:
            return {"type": "image", "data": block.data, "mimeType": block.mime_type}
        link = {"type": "resource_link", "uri": block.url, "name": "image", "mimeType": block.mime_type}
        return link if _known("resource_link", version) else _text(str(block.url))
    if isinstance(block, OpaqueContent):
        data = dict(block.data)
        return data if _known(data.get("type"), version) else _text(json_text(data))
    return _text(json_text(block))


def _known(kind: Any, version: str) -> bool:
    return isinstance(kind, str) and kind in BLOCK_SINCE and version >= BLOCK_SINCE[kind]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": scrub_surrogates(text)}


def encode_answer(message: Message) -> bytes:
    """*message* as JSON; an error response in its place when a tool put something unsayable into it."""
    try:
        return encode(message)
    except McpProtocolError as exc:
        return encode(make_error(message.get("id"), INTERNAL_ERROR, str(exc)))
