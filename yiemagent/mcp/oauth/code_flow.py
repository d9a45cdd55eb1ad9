"""The authorization request and its response: PKCE, state, issuer and resource.

Source: OAuth 2.1 section 4.1, RFC 7636, RFC 9207 section 2.4, RFC 8707, specification 2026-07-28
"Authorization Response Validation".
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

from yiemagent.errors import McpAuthorizationError
from yiemagent.mcp.oauth.client import OAuthClient
from yiemagent.mcp.oauth.jwt import base64url
from yiemagent.mcp.oauth.metadata import AuthorizationServer

__all__ = ["PendingAuthorization", "accept_response", "begin_authorization"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAuthorization:
    """One authorization request on its way; everything its response is checked against."""

    url: str = field(repr=False)
    """Where the person is sent."""
    redirect_uri: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    issuer: str
    """Recorded from checked metadata before the person is sent away."""
    sends_issuer: bool


def begin_authorization(
    server: AuthorizationServer,
    client: OAuthClient,
    *,
    redirect_uri: str,
    resource: str,
    scopes: Sequence[str] | None,
) -> PendingAuthorization:
    """Make an authorization request with fresh secrets.

    Args:
        server: Its metadata, checked.
        client: Who asks.
        redirect_uri: Where the response is expected.
        resource: The MCP server, as it names itself.
        scopes: To ask for; None leaves the choice to the server.

    Raises:
        McpAuthorizationError: The server has no authorization endpoint, or no PKCE with S256.
    """
    if server.authorization_endpoint is None:
        raise McpAuthorizationError(
            f"the authorization server {server.issuer!r} has no authorization_endpoint; "
            "for a program without a person use OAuth(ClientCredentials(...))"
        )
    if "S256" not in (server.code_challenge_methods or ()):
        raise McpAuthorizationError(
            f"the authorization server {server.issuer!r} does not say that it supports PKCE with S256 "
            f"(code_challenge_methods_supported: {server.code_challenge_methods}); the specification forbids "
            "to go on"
        )
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
    parameters = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": base64url(hashlib.sha256(verifier.encode()).digest()),
        "code_challenge_method": "S256",
        "resource": resource,
    }
    if scopes:
        parameters["scope"] = " ".join(scopes)
    if scopes and "offline_access" in scopes:
        # OpenID servers ignore offline_access unless the person is asked (OpenID Core section 11).
        parameters["prompt"] = "consent"
    joint = "&" if urlsplit(server.authorization_endpoint).query else "?"
    return PendingAuthorization(
        url=server.authorization_endpoint + joint + urlencode(parameters),
        redirect_uri=redirect_uri,
        state=state,
        verifier=verifier,
        issuer=server.issuer,
        sends_issuer=server.sends_issuer,
    )


def accept_response(pending: PendingAuthorization, response: str) -> str:
    """Check an authorization response and return its code.

    Args:
        pending: The request.
        response: The URL that the person was redirected to, or only its query.

    Raises:
        McpAuthorizationError: It is not the answer to this request, comes from another issuer, or
            says no. What another issuer says is not repeated.
    """
    text = response.strip()
    query = urlsplit(text).query if "?" in text or "://" in text else text
    values = parse_qs(query, keep_blank_values=True)
    given = {name: found[0] for name, found in values.items()}
    repeated = [name for name in ("code", "state", "iss") if len(values.get(name, ())) > 1]
    if repeated:
        raise McpAuthorizationError(f"the authorization response repeats {repeated[0]!r} and is not used")
    if not hmac.compare_digest(given.get("state", "").encode(), pending.state.encode()):
        raise McpAuthorizationError(
            "the authorization response does not carry the state of this request; it is not used. "
            "Start again, and use the newest login page"
        )
    issuer = given.get("iss")
    if issuer is None and pending.sends_issuer:
        raise McpAuthorizationError(
            f"the authorization response lacks iss, which {pending.issuer!r} says it always sends (RFC 9207)"
        )
    if issuer is not None and issuer != pending.issuer:
        raise McpAuthorizationError(
            f"the authorization response is not from {pending.issuer!r} (RFC 9207); it is not used"
        )
    if error := given.get("error"):
        description = given.get("error_description", "")
        reason = f"{error}: {description}" if description else error
        raise McpAuthorizationError(f"the authorization was refused: {reason}", error=error)
    code = given.get("code")
    if not code:
        raise McpAuthorizationError("the authorization response holds neither a code nor an error")
    return code
