"""Reading whole bodies under a deadline that the HTTP client does not know."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from yiemagent.net.errors import HttpBodyTooLarge, HttpError

if TYPE_CHECKING:
    from yiemagent.net.response import HttpResponse

__all__ = ["MAX_MESSAGE_BYTES", "body_text", "read_body"]

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 256 << 20
"""Longest message a server may send, as on stdio."""
_REFUSAL_BYTES = 1 << 20


def read_body(response: HttpResponse, until: float | None, limit: int = MAX_MESSAGE_BYTES) -> bytes:
    """The whole body.

    Args:
        response: Read to its end.
        until: ``time.monotonic()`` value by which that must be done; None: no limit.
        limit: Bytes that are accepted at most.

    Raises:
        HttpBodyTooLarge: It is longer than *limit* bytes.
        HttpError: As ``HttpResponse.read_some``.
    """
    pieces = []
    size = 0
    while data := response.read_some(until):
        pieces.append(data)
        size += len(data)
        if size > limit:
            response.close()
            raise HttpBodyTooLarge(f"the answer is longer than {limit} bytes", limit=limit)
    return b"".join(pieces)


def body_text(response: HttpResponse, until: float | None) -> str:
    """The body of a refusal, as much of it as can be had; the response is closed."""
    try:
        data = read_body(response, until, _REFUSAL_BYTES)
    except HttpError as exc:
        logger.debug("status=%d error=%s | the body of a refusal cannot be read", response.status, exc)
        data = b""
    finally:
        response.close()
    return data.decode("utf-8", "replace")
