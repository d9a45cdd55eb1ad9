"""Reading whole bodies under a deadline.

The deadline of an exchange may move while its stream is read, so it is not the HTTP client's:
each read is told anew how long it may take.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from yiemagent.mcp.deadline import Deadline
from yiemagent.net.errors import HttpBodyTooLarge, HttpError

if TYPE_CHECKING:
    from yiemagent.net.response import HttpResponse

__all__ = ["MAX_MESSAGE_BYTES", "body_text", "read_body"]

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 256 << 20
"""Longest message a server may send, as on stdio."""
_REFUSAL_BYTES = 1 << 20


def read_body(response: HttpResponse, deadline: Deadline, limit: int = MAX_MESSAGE_BYTES) -> bytes:
    """The whole body.

    Raises:
        HttpBodyTooLarge: It is longer than *limit* bytes.
        HttpError: As ``HttpResponse.read_some``.
    """
    pieces = []
    size = 0
    while data := response.read_some(deadline.at):
        pieces.append(data)
        size += len(data)
        if size > limit:
            response.close()
            raise HttpBodyTooLarge(f"the answer is longer than {limit} bytes", limit=limit)
    return b"".join(pieces)


def body_text(response: HttpResponse, deadline: Deadline) -> str:
    """The body of a refusal, as much of it as can be had; the response is closed."""
    try:
        data = read_body(response, deadline, _REFUSAL_BYTES)
    except HttpError as exc:
        logger.debug("status=%d error=%s | the body of a refusal cannot be read", response.status, exc)
        data = b""
    finally:
        response.close()
    return data.decode("utf-8", "replace")
