"""How we come to a client id: given by the user, a metadata document, or dynamic registration.

Source: specification 2026-07-28 "Client Registration", RFC 7591, OpenID Connect Registration 1.0.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from yiemagent.errors import ConfigurationError, McpAuthorizationError
from yiemagent.forking import forget_parent_on_fork
from yiemagent.mcp.http_auth import AuthCall
from yiemagent.mcp.oauth.client import OAuthClient
from yiemagent.mcp.oauth.metadata import AuthorizationServer, json_object
from yiemagent.mcp.oauth.store import StoreKey, TokenStore
from yiemagent.mcp.oauth.token import oauth_error
from yiemagent.mcp.origin import is_loopback

__all__ = ["ClientIdentity", "GivenClient", "check_metadata_url", "known_client", "obtain_client", "register"]

logger = logging.getLogger(__name__)

_AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")
"""For a registration, best first: a program on somebody's machine cannot keep a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """Who we say we are, in the order in which it is used."""

    client: GivenClient | None = None
    """Registered by hand."""
    metadata_url: str | None = None
    """The https URL of our client metadata document, which is then our client id (CIMD)."""
    name: str = "yiemagent"
    """What people read on the consent page after a dynamic registration."""


def check_metadata_url(url: str) -> str:
    """Return *url* if it can be a client id.

    Raises:
        ConfigurationError: It is not https, or has no path.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/") or parts.fragment:
        raise ConfigurationError(
            f"client_metadata_url must be an https URL with a path, such as https://example.com/client.json, "
            f"got {url!r}"
        )
    return url


class GivenClient:
    """A client that the user registered by hand: it belongs to one authorization server.

    Without an issuer it is bound to the first one that it is used with, for the life of the
    process, so that no other server ever sees its credentials. Any thread.
    """

    def __init__(self, client: OAuthClient) -> None:
        self._client = client
        # Guards _client.
        self._lock = threading.Lock()
        forget_parent_on_fork(self)

    def at(self, issuer: str) -> OAuthClient:
        """The client, if it belongs to *issuer*.

        Raises:
            McpAuthorizationError: It belongs to another authorization server.
        """
        with self._lock:
            if self._client.issuer is None:
                self._client = replace(self._client, issuer=issuer)
            client = self._client
        if client.issuer != issuer:
            raise McpAuthorizationError(
                f"the client {client.client_id!r} belongs to {client.issuer!r}, but the MCP server names the "
                f"authorization server {issuer!r}; register a client there and give it as OAuthClient"
            )
        return client

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()


def known_client(
    identity: ClientIdentity, server: AuthorizationServer, store: TokenStore, now: float
) -> OAuthClient | None:
    """The client that we are to *server* without asking it; None when we are none yet."""
    if identity.client is not None:
        return identity.client.at(server.issuer)
    if identity.metadata_url is not None and server.client_id_documents:
        return OAuthClient(client_id=identity.metadata_url, issuer=server.issuer, auth_method="none")
    record = store.load(StoreKey(server.issuer))
    if record is None:
        return None
    try:
        client = OAuthClient.from_record(record)
    except (KeyError, TypeError, ValueError) as exc:
        logger.warning("issuer=%s error=%r | a stored registration cannot be read", server.issuer, exc)
        return None
    return None if client.expires_at is not None and client.expires_at <= now else client


def obtain_client(
    identity: ClientIdentity,
    server: AuthorizationServer,
    store: TokenStore,
    redirect_uri: str,
    call: AuthCall,
    now: float,
) -> OAuthClient:
    """The client that we are to *server*; registers us if that is needed and possible.

    Raises:
        McpAuthorizationError: There is no way to become a client; says what to do.
    """
    client = known_client(identity, server, store, now)
    if client is not None and (not client.redirect_uris or redirect_uri in client.redirect_uris):
        return client
    if server.registration_endpoint is None:
        raise McpAuthorizationError(
            f"the authorization server {server.issuer!r} registers no clients by itself; register one there "
            f"with the redirect URI {redirect_uri}, then pass AuthorizationCode(client=OAuthClient(...))"
        )
    client = register(identity.name, server, redirect_uri, call)
    store.save(StoreKey(server.issuer), client.to_record())
    return client


def register(name: str, server: AuthorizationServer, redirect_uri: str, call: AuthCall) -> OAuthClient:
    """Register us with *server* (RFC 7591).

    Raises:
        McpAuthorizationError: It refused; its reason and the redirect URI are in the message.
    """
    offered = server.auth_methods or ("client_secret_basic",)
    method = next((one for one in _AUTH_METHODS if one in offered), None)
    wanted: dict[str, Any] = {
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        # Left out, OpenID servers take "web" and then refuse a redirect to this machine.
        "application_type": "native" if is_loopback(redirect_uri) else "web",
    }
    wanted |= {"token_endpoint_auth_method": method} if method else {}
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    url = server.registration_endpoint or ""
    answer = call.exchange("POST", url, headers=headers, body=json.dumps(wanted).encode())
    document = json_object(answer)
    if not 200 <= answer.status < 300 or document is None:
        error = oauth_error(answer, f"the registration at {url} (redirect URI {redirect_uri})")
        raise error
    return _registered(document, server, redirect_uri, url)


def _registered(
    document: Mapping[str, Any], server: AuthorizationServer, redirect_uri: str, url: str
) -> OAuthClient:
    client_id, secret = document.get("client_id"), document.get("client_secret")
    if not isinstance(client_id, str) or not client_id:
        raise McpAuthorizationError(f"the registration at {url} gave no client_id")
    method, expires = document.get("token_endpoint_auth_method"), document.get("client_secret_expires_at")
    secret = secret if isinstance(secret, str) and secret else None
    usable = method == "none" or (method in _AUTH_METHODS and secret is not None)
    return OAuthClient(
        client_id=client_id,
        client_secret=secret,
        auth_method=method if usable else None,
        issuer=server.issuer,
        redirect_uris=(redirect_uri,),
        # 0 means that the secret does not expire.
        expires_at=float(expires) if isinstance(expires, int | float) and expires > 0 else None,
    )
