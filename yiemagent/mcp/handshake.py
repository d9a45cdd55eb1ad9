"""Finding out what a server speaks, and opening the conversation in it.

A server is first asked with ``server/discover``, as the specification says. A list of versions
or a modern error means modern; every other answer, and silence, means that it is older.

Source: protocol 2026-07-28 "Versioning"; mcp quirks 12, 13; E-26; field problem 30.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpError, McpProtocolError, McpTimeout
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.eras import (
    LATEST,
    LEGACY_VERSIONS,
    MODERN_VERSIONS,
    PLAIN,
    SERVER_INFO_META,
    Era,
    era_of,
    newest_common,
)
from yiemagent.mcp.jsonrpc import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    Message,
    RpcError,
    error_of,
    make_notification,
    make_request,
    result_of,
)
from yiemagent.mcp.results import ServerInfo
from yiemagent.mcp.session import Offer, Session, request_headers, request_meta
from yiemagent.mcp.transport import Connection, FallbackEra, RequestRefused

__all__ = ["Handshake"]

logger = logging.getLogger(__name__)

_MODERN_ERRORS = (UNSUPPORTED_PROTOCOL_VERSION, MISSING_CLIENT_CAPABILITY, HEADER_MISMATCH)
_AUTHORIZATION = (401, 403)
"""Refusals that say nothing about the era."""


@dataclass(frozen=True)
class _Discovered:
    """A modern server's answer."""

    era: Era
    result: Mapping[str, Any]


@dataclass(frozen=True)
class Handshake:
    """Opens a conversation on a fresh connection.

    Args:
        wanted: Versions that may be spoken; empty for the plain dialect.
        fallback: What a server speaks that does not know ``server/discover``.
        offer: What we say about ourselves.
        next_id: Gives the ids of requests.
        label: What messages call the server.
        probe_timeout: Seconds for ``server/discover`` where something older may follow.
    """

    wanted: tuple[str, ...]
    fallback: FallbackEra
    offer: Offer
    next_id: Callable[[], int]
    label: str
    probe_timeout: float

    def open(
        self, connection: Connection, deadline: Deadline, signal: AbortSignal | None, known: str | None = None
    ) -> Session:
        """Shake hands.

        Args:
            connection: Fresh; not closed here when this fails.
            deadline: For the whole handshake.
            signal: Ends it when aborted.
            known: The version that this server spoke before; it is not asked again.

        Raises:
            McpTimeout, RunAborted, McpConnectionError: As of ``Connection.exchange``.
            McpProtocolError: There is no version that both speak.
            McpError: The server refused to shake hands.
        """
        modern = tuple(version for version in self.wanted if version in MODERN_VERSIONS)
        legacy = tuple(version for version in self.wanted if version in LEGACY_VERSIONS)
        if not self.wanted or known == PLAIN.version:
            return self._session(connection, PLAIN, {})
        if not modern or known in LEGACY_VERSIONS:
            return self._initialize(connection, legacy, deadline, signal)
        if not legacy:
            found = self._discover(connection, modern, deadline, signal)
            if isinstance(found, _Discovered):
                return self._session(connection, found.era, found.result)
            raise McpProtocolError(f"{self.label} does not speak {' or '.join(modern)}: {found}")
        return self._probe(connection, modern, legacy, deadline, signal)

    def _probe(
        self,
        connection: Connection,
        modern: tuple[str, ...],
        legacy: tuple[str, ...],
        deadline: Deadline,
        signal: AbortSignal | None,
    ) -> Session:
        silent = False
        try:
            found = self._discover(connection, self.wanted, deadline.within(self.probe_timeout), signal)
        except McpTimeout:
            if deadline.expired:
                raise
            silent, found = True, "it did not answer server/discover"
        if isinstance(found, _Discovered):
            if found.era.handshake:
                return self._initialize(connection, (found.era.version,), deadline, signal)
            return self._session(connection, found.era, found.result)
        logger.debug("server=%s | speaks an older protocol: %s", self.label, found)
        if self.fallback == "plain":
            return self._session(connection, PLAIN, {})
        try:
            return self._initialize(connection, legacy, deadline, signal)
        except McpError as exc:
            if not silent or isinstance(exc, McpConnectionError | McpTimeout):
                raise
            # It was only slow to start, and is too new to know initialize.
            found = self._discover(connection, modern, deadline, signal)
            if isinstance(found, _Discovered):
                return self._session(connection, found.era, found.result)
            raise

    # --- modern

    def _discover(
        self, connection: Connection, wanted: tuple[str, ...], deadline: Deadline, signal: AbortSignal | None
    ) -> _Discovered | str:
        """What the server said of itself, or why it is no modern server."""
        version = LATEST if LATEST in wanted else wanted[-1]
        for _ in range(2):
            response = self._ask(connection, era_of(version), deadline, signal)
            if isinstance(response, str):
                return response
            error = error_of(response)
            if error is None:
                result = result_of(response)
                supported = result.get("supportedVersions")
                if not isinstance(supported, list) and any(one in LEGACY_VERSIONS for one in wanted):
                    # Some old servers answer whatever they do not know with an empty result.
                    return "its answer to server/discover names no versions"
                return self._choose(wanted, supported, result, version)
            if error.code == UNSUPPORTED_PROTOCOL_VERSION:
                supported = error.data.get("supported") if isinstance(error.data, Mapping) else None
                chosen = self._choose(wanted, supported, {}, None)
                if chosen.era.handshake:
                    return chosen
                version = chosen.era.version
                continue
            if error.code in _MODERN_ERRORS:
                raise error.exception()
            return _reason(error)
        raise McpProtocolError(f"{self.label} refuses {version}, the version it asked for")

    def _ask(
        self, connection: Connection, era: Era, deadline: Deadline, signal: AbortSignal | None
    ) -> Message | str:
        params = {"_meta": request_meta(era, self.offer)}
        request = make_request(self.next_id(), "server/discover", params)
        try:
            return connection.exchange(
                request,
                headers=request_headers(era, "server/discover", params),
                deadline=deadline,
                signal=signal,
                on_message=_ignore,
            )
        except RequestRefused as exc:
            if exc.status in _AUTHORIZATION:
                raise
            return str(exc)

    def _choose(
        self, wanted: tuple[str, ...], supported: Any, result: Mapping[str, Any], spoken: str | None
    ) -> _Discovered:
        if spoken is not None and (not isinstance(supported, list) or spoken in supported):
            return _Discovered(era_of(spoken), result)
        version = newest_common(wanted, supported)
        if version is None:
            raise McpProtocolError(
                f"{self.label} speaks {supported!r} and this client may speak {list(wanted)!r}: "
                "there is no common version"
            )
        return _Discovered(era_of(version), result)

    def _session(self, connection: Connection, era: Era, result: Mapping[str, Any]) -> Session:
        meta = result.get("_meta")
        info = meta.get(SERVER_INFO_META) if isinstance(meta, Mapping) else None
        connection.established(era.version)
        return Session(connection, era, self.offer, _server_info(info, era.version, result))

    # --- legacy

    def _initialize(
        self,
        connection: Connection,
        versions: tuple[str, ...],
        deadline: Deadline,
        signal: AbortSignal | None,
    ) -> Session:
        params = {
            "protocolVersion": versions[-1],
            "capabilities": dict(self.offer.capabilities),
            "clientInfo": dict(self.offer.client_info),
        }
        response = connection.exchange(
            make_request(self.next_id(), "initialize", params),
            headers={},
            deadline=deadline,
            signal=signal,
            on_message=_ignore,
        )
        error = error_of(response)
        if error is not None:
            raise McpError(
                f"{self.label} refused to initialize: {error.message}", code=error.code, data=error.data
            )
        result = result_of(response)
        version = result.get("protocolVersion")
        if version not in LEGACY_VERSIONS:
            raise McpProtocolError(
                f"{self.label} wants to speak version {version!r}, this client speaks {list(versions)!r}"
            )
        era = era_of(version)
        connection.established(version)
        connection.send(
            make_notification("notifications/initialized"),
            headers=request_headers(era, "notifications/initialized", None),
            deadline=deadline,
            signal=signal,
        )
        return Session(connection, era, self.offer, _server_info(result.get("serverInfo"), version, result))


def _ignore(message: Message) -> None:
    logger.debug("method=%s | ignored during the handshake", message.get("method"))


def _reason(error: RpcError) -> str:
    return error.message if error.code is None else f"{error.message} ({error.code})"


def _server_info(info: Any, version: str, result: Mapping[str, Any]) -> ServerInfo:
    info = info if isinstance(info, Mapping) else {}
    capabilities = result.get("capabilities")
    instructions = result.get("instructions")
    return ServerInfo(
        name=str(info.get("title") or info.get("name") or ""),
        version=str(info.get("version") or ""),
        protocol_version=version,
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=instructions if isinstance(instructions, str) else "",
        raw=result,
    )
