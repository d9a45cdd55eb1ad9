"""The client that we are to an authorization server, and how it proves it at the token endpoint.

Source: RFC 6749 section 2.3, RFC 7523 section 2.2, RFC 7591.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args
from urllib.parse import quote_plus

from yiemagent.errors import ConfigurationError, McpAuthorizationError
from yiemagent.mcp.oauth.jwt import ALGORITHMS, load_private_key, sign_jwt
from yiemagent.mcp.oauth.metadata import AuthorizationServer

__all__ = ["AuthMethod", "OAuthClient", "authenticate", "choose_method"]

AuthMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """A client that an authorization server knows, registered by hand or by us.

    Raises:
        ConfigurationError: A field does not fit the others; the message names it.
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    private_key: str | bytes | None = field(default=None, repr=False)
    """PEM text; the client then proves itself by signed tokens (needs ``yiemagent[jwt]``)."""
    key_id: str | None = None
    """``kid`` of the signed tokens, when the server needs it to find the public key."""
    algorithm: str | None = None
    """Of the signed tokens; None picks the first that the server and the key can do."""
    auth_method: AuthMethod | None = None
    """How it authenticates; None picks what the server offers and the client has."""
    issuer: str | None = None
    """The authorization server it is registered with; None binds it to the first one that is met."""
    redirect_uris: tuple[str, ...] = ()
    expires_at: float | None = None
    """Unix time at which the secret ends, or None."""

    def __post_init__(self) -> None:
        if not self.client_id:
            raise ConfigurationError("client_id must not be empty")
        if self.auth_method is not None and self.auth_method not in get_args(AuthMethod):
            raise ConfigurationError(
                f"auth_method must be one of {', '.join(get_args(AuthMethod))}, got {self.auth_method!r}"
            )
        if self.auth_method in ("client_secret_basic", "client_secret_post") and not self.client_secret:
            raise ConfigurationError(f"auth_method={self.auth_method!r} needs a client_secret")
        if self.auth_method == "private_key_jwt" and not self.private_key:
            raise ConfigurationError("auth_method='private_key_jwt' needs a private_key (PEM text)")
        if self.algorithm is not None and self.algorithm not in ALGORITHMS:
            raise ConfigurationError(
                f"algorithm must be one of {', '.join(ALGORITHMS)}, got {self.algorithm!r}"
            )

    def to_record(self) -> dict[str, Any]:
        """For a token store; only registrations made by us are stored, so there is no private key."""
        return {
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "auth_method": self.auth_method,
            "issuer": self.issuer,
            "redirect_uris": list(self.redirect_uris),
            "expires_at": self.expires_at,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> OAuthClient:
        """What ``to_record`` gave."""
        return cls(
            client_id=str(record["client_id"]),
            client_secret=record.get("client_secret"),
            auth_method=record.get("auth_method"),
            issuer=record.get("issuer"),
            redirect_uris=tuple(record.get("redirect_uris") or ()),
            expires_at=record.get("expires_at"),
        )


def choose_method(client: OAuthClient, server: AuthorizationServer) -> AuthMethod:
    """How *client* authenticates at *server*'s token endpoint.

    A server that does not say what it takes takes ``client_secret_basic`` (RFC 8414 section 2).
    """
    if client.auth_method is not None:
        return client.auth_method
    if client.private_key:
        return "private_key_jwt"
    if not client.client_secret:
        return "none"
    offered = server.auth_methods or ("client_secret_basic",)
    for method in ("client_secret_basic", "client_secret_post", "none"):
        if method in offered:
            return cast("AuthMethod", method)
    return "client_secret_basic"


def authenticate(
    client: OAuthClient,
    server: AuthorizationServer,
    *,
    now: Callable[[], float] = time.time,
) -> tuple[dict[str, str], dict[str, str]]:
    """The headers and the form fields by which *client* proves itself to *server*.

    Args:
        client: Ours.
        server: Whose token endpoint is asked.
        now: Unix time, for the claims of a signed token.

    Raises:
        ConfigurationError: The private key cannot be read or used.
        McpAuthorizationError: The secret expired, or no algorithm fits.
    """
    if client.expires_at is not None and client.expires_at <= now():
        raise McpAuthorizationError(
            f"the secret of the client {client.client_id!r} has expired; register anew"
        )
    method = choose_method(client, server)
    if method == "client_secret_basic":
        # Both halves are form-encoded before they are joined (RFC 6749 section 2.3.1).
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret or '')}"
        return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}, {}
    if method == "client_secret_post":
        return {}, {"client_id": client.client_id, "client_secret": client.client_secret or ""}
    if method == "private_key_jwt":
        assertion = _assertion(client, server, now())
        return {}, {
            "client_id": client.client_id,
            "client_assertion_type": _ASSERTION_TYPE,
            "client_assertion": assertion,
        }
    return {}, {"client_id": client.client_id}


def _assertion(client: OAuthClient, server: AuthorizationServer, now: float) -> str:
    key = load_private_key(client.private_key or "")
    header = {"typ": "JWT"} | ({"kid": client.key_id} if client.key_id else {})
    claims = {
        "iss": client.client_id,
        "sub": client.client_id,
        # The issuer, not the token endpoint: an assertion meant for one server must not pass at another.
        "aud": server.issuer,
        "iat": int(now),
        "exp": int(now) + _ASSERTION_SECONDS,
        "jti": secrets.token_urlsafe(24),
    }
    if client.algorithm is not None:
        return sign_jwt(claims, key, client.algorithm, header)
    candidates = [name for name in server.signing_algorithms or ALGORITHMS if name in ALGORITHMS]
    for name in candidates:
        try:
            return sign_jwt(claims, key, name, header)
        except ConfigurationError:
            continue
    raise McpAuthorizationError(
        f"the private key of {client.client_id!r} fits none of the algorithms that {server.issuer!r} takes: "
        f"{', '.join(server.signing_algorithms) or 'none named'}"
    )
