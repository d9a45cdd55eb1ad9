"""Do the headers of a request say what its body says? Demanded of servers since 2026-07-28."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from yiemagent.mcp.eras import VERSION_META
from yiemagent.mcp.headers import mirrored_headers, parameter_headers, read_parameter_headers
from yiemagent.mcp.jsonrpc import Message
from yiemagent.mcp.serve_protocol import MessageServer

__all__ = ["header_mismatch"]

_SENTINEL = ("=?base64?", "?=")


def header_mismatch(environ: Mapping[str, Any], request: Message, server: MessageServer) -> str | None:
    """What is wrong with the headers of a modern request, or None.

    Args:
        environ: The WSGI environment.
        request: The body.
        server: Knows which parameters of its tools are mirrored.
    """
    params = request.get("params")
    params = params if isinstance(params, Mapping) else {}
    meta = params.get("_meta")
    version = meta.get(VERSION_META) if isinstance(meta, Mapping) else None
    if version is None:
        return None  # refused by the session, for the missing _meta
    expected = mirrored_headers(str(version), request["method"], params)
    allowed = dict.fromkeys(("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", *_parameters(request, server)))
    expected |= _expected_parameters(request, params, server)
    for name in allowed:
        wanted = expected.get(name)
        sent = environ.get(f"HTTP_{name.upper().replace('-', '_')}")
        if not _same(sent, wanted, numbers=name.startswith("Mcp-Param-")):
            return f"Header mismatch: {name} is {sent!r}, but the body says {wanted!r}"
    return None


def _parameters(request: Message, server: MessageServer) -> dict[str, tuple[str, ...]]:
    if request["method"] != "tools/call":
        return {}
    name = (request.get("params") or {}).get("name")
    schema = server.schema_of(name) if isinstance(name, str) else None
    try:
        return {} if schema is None else read_parameter_headers(schema)
    except ValueError:
        return {}  # clients drop such a tool, and so never call it


def _expected_parameters(
    request: Message, params: Mapping[str, Any], server: MessageServer
) -> dict[str, str]:
    arguments = params.get("arguments")
    paths = _parameters(request, server)
    return parameter_headers(paths, arguments) if paths and isinstance(arguments, Mapping) else {}


def _same(sent: str | None, wanted: str | None, *, numbers: bool) -> bool:
    if sent is None or wanted is None:
        return sent is wanted
    if sent == wanted:
        return True
    decoded = _decoded(sent)
    if decoded is not None and decoded == _decoded(wanted):
        return True
    try:
        return numbers and float(sent) == float(wanted)
    except ValueError:
        return False


def _decoded(value: str) -> bytes | None:
    prefix, suffix = _SENTINEL
    if not (value.startswith(prefix) and value.endswith(suffix)):
        return value.encode()
    try:
        return base64.b64decode(value[len(prefix) : -len(suffix)], validate=True)
    except (binascii.Error, ValueError):
        return None
