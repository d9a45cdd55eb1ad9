"""The ways to a token: a person who logs in, or a program with credentials of its own.

Source: OAuth 2.1 sections 4.1 and 4.2, issue 5 part 3, the extension oauth-client-credentials.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from yiemagent.errors import ConfigurationError, McpAuthorizationError, McpTimeout
from yiemagent.mcp.deadline import Deadline, check_seconds
from yiemagent.mcp.http_auth import AuthCall
from yiemagent.mcp.oauth.client import AuthMethod, OAuthClient
from yiemagent.mcp.oauth.code_flow import accept_response, begin_authorization
from yiemagent.mcp.oauth.metadata import AuthorizationServer
from yiemagent.mcp.oauth.redirect import BrowserRedirect, Redirect, RedirectListener
from yiemagent.mcp.oauth.registration import (
    ClientIdentity,
    GivenClient,
    check_metadata_url,
    known_client,
    obtain_client,
)
from yiemagent.mcp.oauth.store import StoreKey, TokenStore
from yiemagent.mcp.oauth.token import ProofOfKey, Token, refresh, request_token
from yiemagent.value_checks import check_switch, check_type

__all__ = ["AuthorizationCode", "ClientCredentials", "Grant", "Wanted"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A token that is wanted: from whom, for what."""

    server: AuthorizationServer
    resource: str
    """The MCP server, as it names itself."""
    scopes: tuple[str, ...] | None
    """None: the server's default."""
    store: TokenStore
    """For the registration; the token itself is kept by the caller."""
    proof: ProofOfKey | None = None
    insecure: bool = False
    """Whether http to other machines is allowed."""
    now: Callable[[], float] = time.time

    def form(self, grant_type: str, **fields: str) -> dict[str, str]:
        """The form of a token request with the resource and, when there are any, the scopes."""
        form = {"grant_type": grant_type, **fields, "resource": self.resource}
        if self.scopes:
            form["scope"] = " ".join(self.scopes)
        return form


class Grant(Protocol):
    """A way to tokens. Any thread may call it; one at a time does for each MCP server."""

    @property
    def account(self) -> str:
        """Whose tokens these are, for the store."""

    @property
    def offline(self) -> bool:
        """Whether ``offline_access`` is worth asking for."""

    @property
    def interactive(self) -> bool:
        """Whether ``obtain`` needs a person, so that it is not done before it must be."""

    @property
    def issuer(self) -> str | None:
        """The authorization server to take when the MCP server names several; None: its first."""

    def obtain(self, wanted: Wanted, call: AuthCall) -> Token:
        """Get a new token.

        Raises:
            McpAuthorizationError: It cannot be had.
            McpTimeout: The deadline of the call passed first.
            RunAborted: The call was aborted.
        """

    def renew(self, token: Token, wanted: Wanted, call: AuthCall) -> Token | None:
        """A new token by the old one's refresh token, without any person; None when that is over.

        Raises:
            McpAuthorizationError: The authorization server failed in another way.
            McpTimeout: The deadline of the call passed first.
            RunAborted: The call was aborted.
        """


class AuthorizationCode:
    """A person logs in and agrees: the authorization code flow with PKCE.

    Args:
        redirect: How the login page reaches the person; by default the browser of this machine.
        client: A client registered by hand with the authorization server.
        client_metadata_url: The https URL of a client metadata document of yours; it is the client
            id wherever the authorization server supports that.
        client_name: What the consent page shows after a dynamic registration.
        offline: Ask for ``offline_access``, and so for a refresh token, where it is offered.
        account: Whose tokens these are, when one store serves several people.
        login_timeout: Seconds that the person gets; meanwhile the clock of the call stands still.
            None waits for ever.

    Raises:
        ConfigurationError: ``client_metadata_url`` cannot be a client id, or ``login_timeout`` is
            no number of seconds.
    """

    interactive = True

    def __init__(
        self,
        redirect: Redirect | None = None,
        *,
        client: OAuthClient | None = None,
        client_metadata_url: str | None = None,
        client_name: str = "yiemagent",
        offline: bool = True,
        account: str = "",
        login_timeout: float | None = 300.0,
    ) -> None:
        if redirect is not None and not hasattr(redirect, "listen"):
            raise ConfigurationError(f"redirect must be one such as BrowserRedirect(), got {redirect!r}")
        check_type("client", client, OAuthClient, secret=True)
        check_type("client_metadata_url", client_metadata_url, str)
        check_type("client_name", client_name, str, none=False)
        check_type("account", account, str, none=False)
        check_switch("offline", offline)
        if client_metadata_url is not None:
            check_metadata_url(client_metadata_url)
        self._redirect = BrowserRedirect() if redirect is None else redirect
        given = GivenClient(client) if client is not None else None
        self._identity = ClientIdentity(client=given, metadata_url=client_metadata_url, name=client_name)
        self._login_timeout = check_seconds("login_timeout", login_timeout)
        self.offline = offline
        self.account = account
        self.issuer = client.issuer if client is not None else None

    def obtain(self, wanted: Wanted, call: AuthCall) -> Token:
        """Send the person to the login page and trade the code for a token."""
        now = wanted.now()
        before = known_client(self._identity, wanted.server, wanted.store, now)
        listener = self._redirect.listen(before.redirect_uris if before is not None else ())
        try:
            client = obtain_client(
                self._identity, wanted.server, wanted.store, listener.redirect_uri, call, now
            )
            pending = begin_authorization(
                wanted.server,
                client,
                redirect_uri=listener.redirect_uri,
                resource=wanted.resource,
                scopes=wanted.scopes,
            )
            response = self._ask(listener, pending.url, call)
        except McpTimeout:
            # A login page that no longer knows us never redirects: next time with a new registration.
            wanted.store.delete(StoreKey(wanted.server.issuer))
            raise
        finally:
            listener.close()
        form = {
            "grant_type": "authorization_code",
            "code": accept_response(pending, response),
            "redirect_uri": pending.redirect_uri,
            "code_verifier": pending.verifier,
            "resource": wanted.resource,
        }
        try:
            return request_token(call, wanted.server, client, form, now=wanted.now, proof=wanted.proof)
        except McpAuthorizationError as exc:
            self._forget_if_unknown(exc, wanted)
            raise

    def _ask(self, listener: RedirectListener, url: str, call: AuthCall) -> str:
        """Let the person log in, who has time of their own."""
        own = AuthCall(call.exchange, Deadline(self._login_timeout), call.signal)
        call.deadline.hold(self._login_timeout)
        try:
            return listener.obtain(url, own)
        finally:
            call.deadline.release()

    def renew(self, token: Token, wanted: Wanted, call: AuthCall) -> Token | None:
        """Use the refresh token; None when there is none or it is used up."""
        client = known_client(self._identity, wanted.server, wanted.store, wanted.now())
        if token.refresh_token is None or client is None:
            return None
        try:
            return refresh(
                call, wanted.server, client, token, wanted.resource, now=wanted.now, proof=wanted.proof
            )
        except McpAuthorizationError as exc:
            self._forget_if_unknown(exc, wanted)
            if exc.status is None or exc.status >= 500:
                raise
            logger.info("issuer=%s error=%s | the refresh token is over", wanted.server.issuer, exc.error)
            return None

    def _forget_if_unknown(self, error: McpAuthorizationError, wanted: Wanted) -> None:
        if error.error == "invalid_client":
            # The server forgot our registration; the next attempt makes a new one.
            wanted.store.delete(StoreKey(wanted.server.issuer))


class ClientCredentials:
    """A program acts for itself: no person, no browser (servers, scripts, schedules).

    Args:
        client_id: As registered with the authorization server.
        client_secret: Its secret; or
        private_key: its private key as PEM text (needs ``yiemagent[jwt]``).
        key_id: ``kid`` of the signed tokens.
        algorithm: Of the signed tokens, such as ``ES256``; None picks one that fits.
        auth_method: None picks what the server offers.
        issuer: The authorization server it is registered with; others are refused. None takes
            the one that the MCP server names.

    Raises:
        ConfigurationError: There is neither a secret nor a key, or they do not fit.
    """

    offline = False
    interactive = False

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: str | bytes | None = None,
        key_id: str | None = None,
        algorithm: str | None = None,
        auth_method: AuthMethod | None = None,
        issuer: str | None = None,
    ) -> None:
        check_type("client_id", client_id, str, none=False)
        check_type("client_secret", client_secret, str, secret=True)
        check_type("private_key", private_key, str, bytes, secret=True)
        check_type("key_id", key_id, str)
        check_type("issuer", issuer, str)
        self._client = GivenClient(
            OAuthClient(
                client_id=client_id,
                client_secret=client_secret,
                private_key=private_key,
                key_id=key_id,
                algorithm=algorithm,
                auth_method=auth_method,
                issuer=issuer,
            )
        )
        self.account = client_id
        self.issuer = issuer

    def obtain(self, wanted: Wanted, call: AuthCall) -> Token:
        """Ask the token endpoint."""
        client = self._client.at(wanted.server.issuer)
        form = wanted.form("client_credentials")
        return request_token(call, wanted.server, client, form, now=wanted.now, proof=wanted.proof)

    def renew(self, token: Token, wanted: Wanted, call: AuthCall) -> Token | None:
        """There is nothing to refresh with: a new token costs nobody anything."""
        return None
