"""Request metadata mirrored into headers: ``Mcp-Method``, ``Mcp-Name`` and ``x-mcp-header`` parameters.

Wires with headers (HTTP, NATS) send them so that proxies can route without reading the body.

Source: protocol 2026-07-28, Streamable HTTP, "Request Metadata".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["encode_header_value", "mirrored_headers", "parameter_headers", "read_parameter_headers"]

_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that ``Mcp-Name`` mirrors."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_MAX_SAFE_INTEGER = 2**53 - 1
_PRIMITIVES = ("string", "integer", "boolean")
_MAX_DEPTH = 64


def encode_header_value(value: str) -> str:
    """*value* as a header value: itself when that is safe, else in the Base64 sentinel."""
    sentinel = value.startswith("=?base64?") and value.endswith("?=")
    if not sentinel and (value == "" or _PLAIN.fullmatch(value)):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode()}?="


def mirrored_headers(version: str, method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """``MCP-Protocol-Version``, ``Mcp-Method`` and, where it has one, ``Mcp-Name`` of a request."""
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    source = _NAMED.get(method)
    if source is not None and isinstance(params.get(source), str):
        headers["Mcp-Name"] = encode_header_value(params[source])
    return headers


def read_parameter_headers(schema: Any) -> dict[str, tuple[str, ...]]:
    """Where the ``x-mcp-header`` parameters of a tool are: header name to path in the arguments.

    Raises:
        ValueError: An annotation breaks the rules, so the tool must not be offered; says which.
    """
    found: dict[str, tuple[str, ...]] = {}
    for path, node, reachable in _annotated(schema, (), True, 0):
        name = node["x-mcp-header"]
        if not reachable:
            raise ValueError(f"x-mcp-header {name!r} is not reachable through properties alone")
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError(f"x-mcp-header {name!r} is no header name")
        if node.get("type") not in _PRIMITIVES:
            raise ValueError(f"x-mcp-header {name!r} is on a parameter of type {node.get('type')!r}")
        header = f"Mcp-Param-{name}"
        if header.lower() in (known.lower() for known in found):
            raise ValueError(f"x-mcp-header {name!r} is used twice")
        found[header] = path
    return found


def _annotated(
    node: Any, path: tuple[str, ...], reachable: bool, depth: int
) -> Iterator[tuple[tuple[str, ...], dict[str, Any], bool]]:
    """Every schema with an annotation, its path, and whether only ``properties`` lead to it."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"the input schema is nested more than {_MAX_DEPTH} deep")
    if isinstance(node, list):
        for member in node:
            yield from _annotated(member, path, False, depth + 1)
    if not isinstance(node, dict):
        return
    if "x-mcp-header" in node:
        yield path, node, reachable and bool(path)
    for key, value in node.items():
        if key == "properties" and isinstance(value, dict):
            for name, member in value.items():
                yield from _annotated(member, (*path, name), reachable, depth + 1)
        elif key not in ("enum", "const", "default", "examples"):
            yield from _annotated(value, path, False, depth + 1)


def parameter_headers(paths: Mapping[str, tuple[str, ...]], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The ``Mcp-Param-*`` headers of one call; absent and null arguments have none."""
    headers = {}
    for header, path in paths.items():
        value: Any = arguments
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        text = _header_text(value)
        if text is not None:
            headers[header] = encode_header_value(text)
    return headers


def _header_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) <= _MAX_SAFE_INTEGER else None
    if isinstance(value, float) and value.is_integer():
        return _header_text(int(value))
    return value if isinstance(value, str) else None
