"""A connection with its handshake done: what each request to this server looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yiemagent.mcp.eras import CAPABILITIES_META, CLIENT_INFO_META, LOG_LEVEL_META, VERSION_META, Era
from yiemagent.mcp.headers import mirrored_headers
from yiemagent.mcp.results import ServerInfo
from yiemagent.mcp.transport import Connection

__all__ = ["Offer", "Session"]


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
    _meta: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_meta", request_meta(self.era, self.offer))

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
        if not self._meta and progress_token is None and not meta:
            return params
        full = {**self._meta, **(meta or {})}
        if progress_token is not None:
            full["progressToken"] = progress_token
        if log_level is not None and self.era.request_meta:
            full[LOG_LEVEL_META] = log_level
        if params is not None and isinstance(params.get("_meta"), Mapping):
            full = {**full, **params["_meta"]}
        return {**(params or {}), "_meta": full}

    def headers(self, method: str, params: Mapping[str, Any] | None) -> dict[str, str]:
        """What wires with headers send along; see ``request_headers``."""
        return request_headers(self.era, method, params)


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
