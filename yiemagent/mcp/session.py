"""A connection with its handshake done: what each request to this server looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yiemagent.mcp.eras import CAPABILITIES_META, CLIENT_INFO_META, LOG_LEVEL_META, VERSION_META, Era
from yiemagent.mcp.headers import mirrored_headers
from yiemagent.mcp.results import ServerInfo
from yiemagent.mcp.transport import Connection

__all__ = ["Offer", "Session", "request_headers", "request_meta"]

_NO_HEADERS: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Offer:
    """What the client says about itself."""

    capabilities: Mapping[str, Any]
    client_info: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """One connection and how it is spoken on. Made anew with each connection."""

    connection: Connection
    era: Era
    offer: Offer
    server: ServerInfo
    has_tasks: bool = field(init=False)
    """Whether the server takes tool calls as tasks (protocol 2025-11-25)."""
    _meta: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    _mirrors: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "has_tasks", self.era.tasks and _takes_tasks(self.server.capabilities))
        object.__setattr__(self, "_meta", request_meta(self.era, self.offer))
        object.__setattr__(self, "_mirrors", getattr(self.connection, "mirrors_headers", True))

    def params(
        self,
        params: Mapping[str, Any] | None,
        *,
        progress_token: int | None,
        log_level: str | None,
        meta: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any] | None:
        """*params* with the ``_meta`` that this era wants on every request.

        Args:
            params: The method's own.
            progress_token: Asks for progress notifications when given.
            log_level: Asks for log messages, in eras where each request does.
            meta: The user's own keys.
        """
        if progress_token is None and not meta and (log_level is None or not self.era.request_meta):
            if not self._meta:
                return params
            if params is None or "_meta" not in params:
                return {**(params or {}), "_meta": self._meta}
        full = {**self._meta, **(meta or {})}
        if progress_token is not None:
            full["progressToken"] = progress_token
        if log_level is not None and self.era.request_meta:
            full[LOG_LEVEL_META] = log_level
        if params is not None and isinstance(params.get("_meta"), Mapping):
            full = {**full, **params["_meta"]}
        return {**(params or {}), "_meta": full}

    def headers(self, method: str, params: Mapping[str, Any] | None) -> dict[str, str]:
        """What wires with headers send along; see ``request_headers``. Others get none."""
        return request_headers(self.era, method, params) if self._mirrors else _NO_HEADERS


def _takes_tasks(capabilities: Mapping[str, Any]) -> bool:
    place: Any = capabilities
    for key in ("tasks", "requests", "tools", "call"):
        place = place.get(key) if isinstance(place, Mapping) else None
    return place is not None


def request_meta(era: Era, offer: Offer) -> dict[str, Any]:
    """The ``_meta`` of every request of an era; empty where it wants none."""
    if not era.request_meta:
        return {}
    return {
        VERSION_META: era.version,
        CAPABILITIES_META: dict(offer.capabilities),
        CLIENT_INFO_META: dict(offer.client_info),
    }


def request_headers(era: Era, method: str, params: Mapping[str, Any] | None) -> dict[str, str]:
    """What wires with headers send along with a message of an era."""
    if era.handshake:
        return {"MCP-Protocol-Version": era.version} if era.version_header else {}
    headers = mirrored_headers(era.version, method, params or {})
    if not era.version:
        del headers["MCP-Protocol-Version"]
    return headers
