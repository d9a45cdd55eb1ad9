"""Following the pages of a list to the end, and only to the end.

Source: decision 31; E-01, E-02, E-03; mcp quirk 19; field problems 36, 37.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["MAX_PAGES", "collect_pages"]

logger = logging.getLogger(__name__)

MAX_PAGES = 1_000


def collect_pages(
    fetch: Callable[[Any], Mapping[str, Any]],
    *,
    items: str,
    identity: str,
    label: str,
    empty_cursor_ends: bool = False,
) -> list[Mapping[str, Any]]:
    """All members of a list, in the server's order, each once.

    The list ends at a missing or null ``nextCursor``. A cursor that was there before and the
    1,000th page end it too, with a warning. Members without their identity are left out with a
    warning, as are repeated ones.

    Args:
        fetch: Gives the result for a cursor (None: the first page). Keeps the caller's deadline.
        items: Key of the members: ``tools``.
        identity: Key that tells members apart: ``name``, ``uri``.
        label: What messages call the server.
        empty_cursor_ends: Whether ``""`` ends it too (the Julia design's dialect).
    """
    found: dict[str, Mapping[str, Any]] = {}
    repeated: list[str] = []
    cursors: set[str] = set()
    cursor: Any = None
    ended = ""
    for _ in range(MAX_PAGES):
        result = fetch(cursor)
        repeated += _add(found, result.get(items), identity, label, items)
        cursor = _next_cursor(result)
        if cursor is None or (cursor == "" and empty_cursor_ends):
            break
        if repr(cursor) in cursors:
            ended = f"the cursor {cursor!r} came twice"
            break
        cursors.add(repr(cursor))
    else:
        ended = f"it has more than {MAX_PAGES:,} pages"
    if ended:
        logger.warning("server=%s | %s ends here with %d members: %s", label, items, len(found), ended)
    elif repeated:
        logger.warning("server=%s | %s names more than once: %s", label, items, ", ".join(repeated[:10]))
    return list(found.values())


def _next_cursor(result: Mapping[str, Any]) -> Any:
    cursor = result.get("nextCursor")
    return result.get("next_cursor") if cursor is None else cursor


def _add(
    found: dict[str, Mapping[str, Any]], members: Any, identity: str, label: str, items: str
) -> list[str]:
    """Add new members; returns the keys that were there before."""
    repeated = []
    for member in members if isinstance(members, list) else ():
        key = member.get(identity) if isinstance(member, dict) else None
        if not isinstance(key, str) or not key:
            logger.warning("server=%s | left out a member of %s without %s", label, items, identity)
        elif key in found:
            repeated.append(key)
        else:
            found[key] = member
    return repeated
