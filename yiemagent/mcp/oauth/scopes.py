"""Which scopes to ask for.

Source: specification 2026-07-28 "Scope Selection Strategy", "Step-Up Authorization Flow" and
"Refresh Tokens".
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["OFFLINE_ACCESS", "select_scopes"]

OFFLINE_ACCESS = "offline_access"


def select_scopes(
    *,
    challenged: str | None,
    supported: Iterable[str] | None,
    before: Iterable[str],
    always: Iterable[str],
    offered: Iterable[str],
    offline: bool,
) -> tuple[str, ...] | None:
    """The scopes of an authorization request, in a stable order.

    Args:
        challenged: ``scope`` of the challenge; it speaks for the request at hand.
        supported: ``scopes_supported`` of the MCP server, used when the challenge names none.
        before: What was asked for earlier, so that nothing granted is lost.
        always: What the user wants in any case.
        offered: ``scopes_supported`` of the authorization server.
        offline: Ask for ``offline_access`` where the authorization server offers it.

    Returns:
        None when nobody named any: the parameter is left out.
    """
    needed = challenged.split() if challenged else list(supported or ())
    # Another authorization server may not know offline_access, so that one is chosen afresh.
    chosen = list(dict.fromkeys([*(s for s in before if s != OFFLINE_ACCESS), *needed, *always]))
    # Alone it would ask for less than the server's default.
    if chosen and offline and OFFLINE_ACCESS in offered and OFFLINE_ACCESS not in chosen:
        chosen.append(OFFLINE_ACCESS)
    return tuple(chosen) or None
