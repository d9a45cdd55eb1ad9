"""Answers that are no success: what a server means by them.

Source: field problems 17-19, real servers' habits 11 and 12; protocol 2025-11-25 "Session
Management" and 2026-07-28 "Backward Compatibility".
"""

from __future__ import annotations

from yiemagent.errors import McpProtocolError
from yiemagent.mcp.jsonrpc import Message, decode, kind_of
from yiemagent.mcp.transport import RequestRefused

__all__ = ["error_response", "refused", "says_session_lost"]

_KEPT = 2000
_SHOWN = 200

_LOST_SESSION_TEXTS = (
    "no valid session",
    "session not found",
    "invalid session",
    "unknown session",
    "session expired",
    "server not initialized",
)
"""What servers say with a 400 instead of the 404 that the specification wants."""


def refused(
    label: str, status: int, text: str, kind: type[RequestRefused] = RequestRefused
) -> RequestRefused:
    """The error for an answer that is no JSON-RPC message."""
    shown = " ".join(text.split())[:_SHOWN]
    message = f"{label} answered {status}" + (f": {shown}" if shown else "")
    return kind(message, status=status, body=text[:_KEPT])


def error_response(text: str) -> Message | None:
    """The JSON-RPC error that a refusal's body is, or None."""
    try:
        messages = decode(text)
    except McpProtocolError:
        return None
    for message in messages:
        error = message.get("error")
        # {"error": "not_found"} is some framework's own format.
        if kind_of(message) == "response" and isinstance(error, dict) and "code" in error:
            return message
    return None


def says_session_lost(status: int, text: str) -> bool:
    """Whether the refusal of a request with a session id means that the session is gone."""
    return status == 404 or (status == 400 and any(phrase in text.lower() for phrase in _LOST_SESSION_TEXTS))
