"""Access tokens, and the one request that every grant ends in.

Source: RFC 6749 sections 5 and 6, RFC 8707 section 2.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import urlencode

from yiemagent.errors import McpAuthorizationError
from yiemagent.mcp.http_auth import AuthCall, HttpAnswer
from yiemagent.mcp.oauth.client import OAuthClient, authenticate
from yiemagent.mcp.oauth.metadata import AuthorizationServer, json_object

__all__ = ["ProofOfKey", "Token", "oauth_error", "post_form", "refresh", "request_token"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What an authorization server gave."""

    access_token: str = field(repr=False)
    token_type: str = "Bearer"
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Unix time, or None when it is not said."""
    scopes: tuple[str, ...] | None = None
    """What was granted, or None when it is not said (then: what was asked for)."""

    def expires_within(self, seconds: float, now: float) -> bool:
        """Whether it is over in *seconds* from *now* (unix time)."""
        return self.expires_at is not None and self.expires_at - seconds <= now

    def to_record(self) -> dict[str, Any]:
        """For a token store."""
        return {
            "access_token": self.access_token,
            "token_type": self.token_type,
            "refresh_token": self.refresh_token,
            "expires_at": self.expires_at,
            "scopes": None if self.scopes is None else list(self.scopes),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Token:
        """What ``to_record`` gave."""
        scopes = record.get("scopes")
        return cls(
            access_token=str(record["access_token"]),
            token_type=str(record.get("token_type") or "Bearer"),
            refresh_token=record.get("refresh_token"),
            expires_at=record.get("expires_at"),
            scopes=None if scopes is None else tuple(scopes),
        )


class ProofOfKey(Protocol):
    """Binds tokens to a key of ours (RFC 9449); ``DPoP`` is one."""

    def headers(self, method: str, url: str, access_token: str | None = None) -> dict[str, str]:
        """The proof for one request; with the token, for a request to the MCP server."""

    def learn(self, url: str, answer_headers: Mapping[str, str]) -> bool:
        """Keep the nonce that a server wants; whether it is a new one."""


def oauth_error(answer: HttpAnswer, what: str) -> McpAuthorizationError:
    """The error that an OAuth endpoint answered with, without anything secret."""
    document = json_object(answer) or {}
    error = str(document.get("error") or "")
    description = str(document.get("error_description") or "")
    reason = ": ".join(part for part in (error, description) if part) or f"HTTP {answer.status}"
    return McpAuthorizationError(f"{what} failed: {reason}", error=error, status=answer.status)


def post_form(
    call: AuthCall,
    url: str,
    form: Mapping[str, str],
    headers: Mapping[str, str],
    proof: ProofOfKey | None = None,
) -> HttpAnswer:
    """Post a form to an OAuth endpoint, again with the nonce if the server wants one."""
    sent = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", **headers}
    body = urlencode(form).encode()
    answer = _send(call, url, sent, body, proof)
    if proof is None or not proof.learn(url, answer.headers) or answer.status not in (400, 401):
        return answer
    if oauth_error(answer, "").error != "use_dpop_nonce":
        return answer
    return _send(call, url, sent, body, proof)


def _send(
    call: AuthCall, url: str, headers: Mapping[str, str], body: bytes, proof: ProofOfKey | None
) -> HttpAnswer:
    extra = proof.headers("POST", url) if proof is not None else {}
    return call.exchange("POST", url, headers={**headers, **extra}, body=body)


def request_token(
    call: AuthCall,
    server: AuthorizationServer,
    client: OAuthClient,
    form: Mapping[str, str],
    *,
    now: Callable[[], float] = time.time,
    proof: ProofOfKey | None = None,
) -> Token:
    """Ask the token endpoint once.

    Args:
        call: The call that this serves.
        server: Whose token endpoint is asked.
        client: Who asks.
        form: ``grant_type`` and what belongs to it.
        now: Unix time.
        proof: Binds the token to a key.

    Raises:
        McpAuthorizationError: It said no (``error`` is its code), or gave nothing usable.
    """
    headers, fields = authenticate(client, server, now=now)
    answer = post_form(call, server.token_endpoint, {**form, **fields}, headers, proof)
    what = f"the {form['grant_type']} request to {server.token_endpoint}"
    document = json_object(answer)
    if not 200 <= answer.status < 300 or document is None or "error" in document:
        raise oauth_error(answer, what)
    access_token, token_type = document.get("access_token"), document.get("token_type") or "Bearer"
    if not isinstance(access_token, str) or not access_token:
        raise McpAuthorizationError(f"{what} gave no access_token", status=answer.status)
    if str(token_type).lower() not in ("bearer", "dpop"):
        raise McpAuthorizationError(f"{what} gave a token of the unknown type {token_type!r}")
    return _read(document, access_token, str(token_type), now())


def _read(document: Mapping[str, Any], access_token: str, token_type: str, now: float) -> Token:
    expires_in, scope, refresh_token = (
        document.get("expires_in"),
        document.get("scope"),
        document.get("refresh_token"),
    )
    try:
        # Some servers send the seconds as a text.
        seconds = None if expires_in is None else float(expires_in)
    except (TypeError, ValueError):
        seconds = None
    return Token(
        access_token=access_token,
        token_type="DPoP" if token_type.lower() == "dpop" else "Bearer",
        refresh_token=refresh_token if isinstance(refresh_token, str) and refresh_token else None,
        expires_at=None if seconds is None else now + seconds,
        scopes=tuple(scope.split()) if isinstance(scope, str) and scope.strip() else None,
    )


def refresh(
    call: AuthCall,
    server: AuthorizationServer,
    client: OAuthClient,
    token: Token,
    resource: str,
    *,
    now: Callable[[], float] = time.time,
    proof: ProofOfKey | None = None,
) -> Token:
    """A new token for the refresh token of an old one; keeps what the server does not send anew.

    Raises:
        McpAuthorizationError: The server refused; ``invalid_grant`` means that it is used up.
    """
    if token.refresh_token is None:
        raise McpAuthorizationError("there is no refresh token")
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token, "resource": resource}
    fresh = request_token(call, server, client, form, now=now, proof=proof)
    return replace(
        fresh,
        refresh_token=fresh.refresh_token or token.refresh_token,
        scopes=fresh.scopes if fresh.scopes is not None else token.scopes,
    )
