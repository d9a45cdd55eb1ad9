"""Introspection records: what happened, in names, counts and sizes, never in content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["REDACTED", "Handler", "Provenance", "Record", "sanitized"]

Provenance: TypeAlias = Literal["direct", "inferred", "unavailable"]
"""Whether a record was seen happening, follows from what was seen, or could not be seen."""

REDACTED = "[redacted]"
MAX_STRING_BYTES = 4_096
_MAX_DEPTH = 8
_MAX_ITEMS = 200

# Compared without case, `_` and `-`; only whole names, so that `input_tokens` stays.
_SECRET_KEYS = frozenset(
    {
        "accesstoken",
        "apikey",
        "authorization",
        "clientsecret",
        "cookie",
        "credentials",
        "idtoken",
        "passwd",
        "password",
        "privatekey",
        "prompt",
        "refreshtoken",
        "response",
        "secret",
        "secrets",
        "setcookie",
        "stderr",
        "stdout",
        "token",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One thing that happened. Made of plain data, so it can be written as JSON (TL-2)."""

    event_id: str
    """Unique, 32 hexadecimal digits."""
    type: str
    """Stable name, such as ``agent_loop_started`` or ``tool_task.end``."""
    timestamp: float
    """Seconds since the epoch."""
    provenance: Provenance
    run_id: str | None
    """Shared by all records of one run; None for those of no run."""
    agent: str | None
    session_id: str | None
    payload: Mapping[str, Any]
    """Sanitised: see ``sanitized``."""


Handler: TypeAlias = Callable[[Record], object]
"""Takes a record. What it raises is logged once and contained."""


def sanitized(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of *payload* that may leave the process.

    Keys that hold secrets or content (``api_key``, ``authorization``, ``prompt``, ``response``,
    ``stdout``, ``token`` and the like) are left out at every depth. Strings are cut at 4,096
    bytes of UTF-8, lists and mappings at 200 items, and what is no plain data becomes the name
    of its type.

    Source: TL-2.
    """
    made = _sanitized(payload, _MAX_DEPTH)
    return made if isinstance(made, dict) else {}


def _sanitized(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return _cut(value)
    if depth > 0 and isinstance(value, Mapping):
        pairs = [(str(key), item) for key, item in value.items()]
        return {
            _cut(key): _sanitized(item, depth - 1) for key, item in pairs[:_MAX_ITEMS] if not _is_secret(key)
        }
    if depth > 0 and isinstance(value, (list, tuple, set, frozenset)):
        return [_sanitized(item, depth - 1) for item in list(value)[:_MAX_ITEMS]]
    return f"<{type(value).__name__}>"


def _is_secret(key: str) -> bool:
    return key.lower().replace("_", "").replace("-", "") in _SECRET_KEYS


def _cut(text: str) -> str:
    if len(text) * 4 <= MAX_STRING_BYTES and text.isascii():
        return text
    return text.encode(errors="replace")[:MAX_STRING_BYTES].decode(errors="ignore")
