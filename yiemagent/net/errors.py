"""What can go wrong on the wire, in words that know neither models nor MCP.

The rooms above map these to their own errors; users do not see them. No message holds a
header value, a query string or user information of a URL.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from yiemagent.errors import YiemAgentError

__all__ = [
    "ConnectionCause",
    "HttpAborted",
    "HttpBodyTooLarge",
    "HttpConnectionError",
    "HttpError",
    "HttpRedirect",
    "HttpTimeout",
    "TimeoutPhase",
]

TimeoutPhase: TypeAlias = Literal["connect", "first_byte", "idle", "total"]
ConnectionCause: TypeAlias = Literal["dns", "connect", "tls", "proxy", "closed", "truncated", "protocol"]


class HttpError(YiemAgentError):
    """Root of what an exchange can raise."""


class HttpAborted(HttpError):
    """The signal of the exchange was aborted; ``reason`` is its reason."""

    def __init__(self, message: str = "Operation aborted", *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class HttpTimeout(HttpError):
    """A limit passed; ``phase`` says which, ``limit`` is it in seconds (None for a deadline)."""

    def __init__(self, message: str, *, phase: TimeoutPhase = "total", limit: float | None = None) -> None:
        super().__init__(message)
        self.phase: TimeoutPhase = phase
        self.limit = limit


class HttpConnectionError(HttpError):
    """No connection, or it broke.

    Attributes:
        cause: ``dns``, ``connect`` (refused, unreachable), ``tls``, ``proxy``, ``closed`` (no
            answer), ``truncated`` (the body ended early) or ``protocol`` (not HTTP).
    """

    def __init__(self, message: str, *, cause: ConnectionCause = "protocol") -> None:
        super().__init__(message)
        self.cause: ConnectionCause = cause


class HttpRedirect(HttpError):
    """The server points elsewhere; nothing is followed, since a POST would become a GET (C-44)."""

    def __init__(self, message: str, *, status: int = 302, location: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.location = location


class HttpBodyTooLarge(HttpError):
    """The body is longer than the reader's ``limit`` in bytes."""

    def __init__(self, message: str, *, limit: int = 0) -> None:
        super().__init__(message)
        self.limit = limit
