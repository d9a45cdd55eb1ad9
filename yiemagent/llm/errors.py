"""What providers say when they fail, as one of our errors: kind, retryable, how long to wait.

Tables, looked at in order: quota, overflow, HTTP status, code, words. Status comes before the
body (A-49), and quota and overflow before retry (A-54, C-38).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from yiemagent.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    EmptyResponse,
    InvalidResponse,
    LlmError,
    LlmTimeout,
    RateLimited,
    StreamTruncated,
)
from yiemagent.llm.retry import retry_after

__all__ = ["body_error", "excerpt", "http_error", "invalid_answer", "make_error", "truncated_answer"]

_CLASSES: dict[str, type[LlmError]] = {
    "rate_limit": RateLimited,
    "quota": RateLimited,
    "authentication": AuthenticationFailed,
    "context_overflow": ContextOverflow,
    "invalid_response": InvalidResponse,
    "stream_truncated": StreamTruncated,
    "empty_response": EmptyResponse,
    "connection_failed": ConnectionFailed,
    "timeout": LlmTimeout,
}

_EXCERPT = 500
_TAGS = r"(?is)<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>"


def make_error(kind: str, message: str, **details: Any) -> LlmError:
    """The error of the class that belongs to *kind*."""
    return _CLASSES.get(kind, LlmError)(message, kind=kind, **details)


def invalid_answer(source: str, what: str, *, retryable: bool = True) -> LlmError:
    """The error for an answer that is none: *source* sent *what* instead."""
    return make_error("invalid_response", f"{source} sent {what}", retryable=retryable)


def truncated_answer(source: str) -> LlmError:
    """The error for a stream that ended in good order but did not announce its end (B-61)."""
    text = f"{source} ended the stream before the answer was complete"
    return make_error("stream_truncated", text, retryable=True)


def http_error(status: int, headers: Mapping[str, str], body: bytes, source: str) -> LlmError:
    """The error for an answer with *status* 400 or above.

    Args:
        source: Who answered, for the message; holds no secret.
    """
    payload = _parsed(body)
    error = _error_object(payload)
    said = _message(payload) or excerpt(body)
    wait = retry_after(headers, f"{said} {_details(error)}")
    kind, retryable = _classify(status, error, said, wait is not None)
    text = f"{source} answered {status}: {said or 'no explanation'}"
    verdict = headers.get("x-should-retry")
    if verdict in ("true", "false") and kind not in ("quota", "context_overflow"):
        retryable = verdict == "true"
    return make_error(kind, text, status=status, retryable=retryable, retry_after=wait)


def body_error(payload: Any, source: str) -> LlmError:
    """The error that an answer with status 200 carries in its body or one of its events.

    Args:
        payload: The error object or text, or the object that holds it.
    """
    error = _error_object(payload)
    said = _message(payload) or "no explanation"
    wait = retry_after({}, f"{said} {_details(error)}")
    status = next((code for code in _codes(error) if code.isdigit() and 400 <= int(code) <= 599), None)
    number = int(status) if status is not None else None
    # A 400 inside a 200 is not our malformed request but a provider behind the provider.
    by_status = number if number != 400 else None
    kind, retryable = _classify(by_status, error, said, wait is not None)
    return make_error(
        kind,
        f"{source} failed: {said}",
        status=number,
        retryable=retryable and number != 400,
        retry_after=wait,
    )


def excerpt(body: bytes, limit: int = _EXCERPT) -> str:
    """The beginning of *body* as one readable line; markup is left out."""
    text = body[: limit * 20].decode("utf-8", "replace")
    if "<" in text[:200]:
        text = re.sub(_TAGS, " ", text)
    return _short(" ".join(text.split()), limit)


def _classify(
    status: int | None, error: Mapping[str, Any], said: str, told_to_wait: bool
) -> tuple[str, bool]:
    from yiemagent.llm.error_tables import CODES, PASSING, QUOTA, STATUSES
    from yiemagent.llm.overflow import is_overflow

    codes = _codes(error)
    known = next((CODES[code] for code in codes if code in CODES), None)
    if known is not None and known[0] == "quota":
        return known
    if re.search(QUOTA, said, re.I) and not told_to_wait:
        return "quota", False
    if is_overflow(" ".join((said, *codes))):
        return "context_overflow", False
    if status is not None:
        if known is not None and known[0] in ("content_filter", "rate_limit", "context_overflow"):
            return known
        return STATUSES.get(status) or (("server_error", True) if status >= 500 else ("bad_request", False))
    if known is not None:
        return known
    return "provider_error", re.search(PASSING, said, re.I) is not None


def _parsed(body: bytes) -> Any:
    text = body.decode("utf-8", "replace").strip()
    if text.startswith("data:"):
        text = text[5:].strip()
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _error_object(payload: Any) -> Mapping[str, Any]:
    """The mapping that holds code, type and message."""
    if isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, Mapping):
        return {}
    inner = payload.get("error")
    return inner if isinstance(inner, Mapping) else payload


def _message(payload: Any) -> str:
    """What is said, in the order of A-72: error.message, error, message, detail, first list item."""
    if isinstance(payload, str):
        return _short(payload)
    if isinstance(payload, list):
        return _message(payload[0]) if payload else ""
    if not isinstance(payload, Mapping):
        return ""
    for key in ("error", "message", "detail", "msg", "errors", "error_message"):
        value = payload.get(key)
        text = _message(value) if isinstance(value, (str, list, Mapping)) else ""
        if text:
            return text
    return ""


def _codes(error: Mapping[str, Any]) -> list[str]:
    values = (error.get(key) for key in ("code", "type", "status"))
    return [str(value).strip().lower() for value in values if isinstance(value, (str, int))]


def _details(error: Mapping[str, Any]) -> str:
    details = error.get("details") or error.get("metadata")
    try:
        return json.dumps(details)[:2000] if details else ""
    except (TypeError, ValueError):
        return ""


def _short(text: str, limit: int = _EXCERPT) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
