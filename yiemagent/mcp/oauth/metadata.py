"""The two documents of OAuth discovery as data: what a resource says, what its server says.

Source: RFC 9728 section 2, RFC 8414 section 2, OpenID Connect Discovery 1.0 section 3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from yiemagent.errors import McpAuthorizationError
from yiemagent.mcp.http_auth import HttpAnswer
from yiemagent.mcp.origin import is_loopback, origin_of

__all__ = [
    "AuthorizationServer",
    "ProtectedResource",
    "canonical_resource",
    "covers",
    "json_object",
    "parse_resource",
    "require_secure",
]


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """What an MCP server says about itself (RFC 9728)."""

    resource: str
    """Sent as the resource indicator exactly as it was published."""
    authorization_servers: tuple[str, ...]
    """Issuers, in the server's order; at least one."""
    scopes_supported: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """What an authorization server says about itself (RFC 8414 or OpenID Connect)."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes_supported: tuple[str, ...] = ()
    auth_methods: tuple[str, ...] | None = None
    """``token_endpoint_auth_methods_supported``; None when it is not said (then: basic)."""
    signing_algorithms: tuple[str, ...] = ()
    """``token_endpoint_auth_signing_alg_values_supported``."""
    code_challenge_methods: tuple[str, ...] | None = None
    client_id_documents: bool = False
    """Whether a client id may be the URL of a metadata document (CIMD)."""
    sends_issuer: bool = False
    """Whether every authorization response carries ``iss`` (RFC 9207)."""
    dpop_algorithms: tuple[str, ...] = ()
    """``dpop_signing_alg_values_supported`` (RFC 9449 section 5.1); empty: tokens are bearer tokens."""
    guessed: bool = False
    """No document: the endpoints are the default paths of MCP 2025-03-26."""

    @classmethod
    def guess(cls, origin: str) -> AuthorizationServer:
        """The default endpoints that MCP 2025-03-26 gives to servers without metadata."""
        return cls(
            issuer=origin,
            token_endpoint=f"{origin}/token",
            authorization_endpoint=f"{origin}/authorize",
            registration_endpoint=f"{origin}/register",
            code_challenge_methods=("S256",),
            guessed=True,
        )

    @classmethod
    def parse(cls, document: Mapping[str, Any], *, url: str) -> AuthorizationServer:
        """Read the document fetched from *url*; its endpoints must be secure.

        Raises:
            McpAuthorizationError: A needed field is missing or wrong.
        """

        def endpoint(name: str) -> str | None:
            value = document.get(name)
            if value is None:
                return None
            if not isinstance(value, str):
                raise McpAuthorizationError(f"{name} in {url} is {value!r}, not a URL")
            return value

        token_endpoint, issuer = endpoint("token_endpoint"), document.get("issuer")
        if token_endpoint is None or not isinstance(issuer, str):
            missing = "issuer" if token_endpoint else "token_endpoint"
            raise McpAuthorizationError(f"the authorization server metadata at {url} has no {missing}")
        methods = "token_endpoint_auth_methods_supported"
        return cls(
            issuer=issuer,
            token_endpoint=token_endpoint,
            authorization_endpoint=endpoint("authorization_endpoint"),
            registration_endpoint=endpoint("registration_endpoint"),
            scopes_supported=_texts(document.get("scopes_supported")) or (),
            auth_methods=_texts(document.get(methods)),
            signing_algorithms=_texts(document.get("token_endpoint_auth_signing_alg_values_supported")) or (),
            code_challenge_methods=_texts(document.get("code_challenge_methods_supported")),
            client_id_documents=document.get("client_id_metadata_document_supported") is True,
            sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
            dpop_algorithms=_texts(document.get("dpop_signing_alg_values_supported")) or (),
        )


def _texts(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(member for member in value if isinstance(member, str))


def parse_resource(document: Mapping[str, Any], *, url: str) -> ProtectedResource:
    """Read the protected resource metadata fetched from *url*.

    Raises:
        McpAuthorizationError: It names no resource or no authorization server.
    """
    resource, servers = document.get("resource"), _texts(document.get("authorization_servers"))
    if not isinstance(resource, str) or not servers:
        missing = "authorization_servers" if isinstance(resource, str) else "resource"
        raise McpAuthorizationError(f"the protected resource metadata at {url} has no {missing}")
    return ProtectedResource(resource, servers, _texts(document.get("scopes_supported")))


def json_object(answer: HttpAnswer) -> dict[str, Any] | None:
    """The JSON object of an answer, or None when it is none."""
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def canonical_resource(url: str) -> str:
    """The resource identifier of an MCP server that publishes none: its URL without query, fragment
    and trailing slash (specification 2026-07-28, "Canonical Server URI")."""
    return origin_of(url) + urlsplit(url).path.rstrip("/")


def covers(resource: str, url: str) -> bool:
    """Whether *resource* identifies the MCP server at *url*: same origin, and its path or one above it."""
    asked = urlsplit(resource)
    if asked.fragment or origin_of(resource) != origin_of(url):
        return False
    above = asked.path.rstrip("/") + "/"
    return (urlsplit(url).path.rstrip("/") + "/").startswith(above)


def require_secure(url: str, what: str, *, insecure: bool = False) -> str:
    """Return *url* if tokens may travel to it: https, or http on this machine.

    Args:
        url: To check.
        what: What it is, for the message.
        insecure: Allow http to any host.

    Raises:
        McpAuthorizationError: It is neither (OAuth 2.1 section 1.5).
    """
    parts = urlsplit(url)
    if parts.hostname and (
        parts.scheme == "https" or (parts.scheme == "http" and (insecure or is_loopback(url)))
    ):
        return url
    raise McpAuthorizationError(
        f"{what} is {url!r}, which is not https; for a test network: OAuth(allow_insecure=True)"
    )
