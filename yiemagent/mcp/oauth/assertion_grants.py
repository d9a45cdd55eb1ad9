"""Tokens for an assertion that somebody else signed: a company's identity provider, a platform.

Source: RFC 7523 section 2.1, RFC 8693, the extensions enterprise-managed-authorization (SEP-990)
and workload identity federation (SEP-1933).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from yiemagent.errors import ConfigurationError, McpAuthorizationError
from yiemagent.mcp.http_auth import AuthCall
from yiemagent.mcp.oauth.client import AuthMethod, OAuthClient, authenticate
from yiemagent.mcp.oauth.discovery import discover_server
from yiemagent.mcp.oauth.grants import Wanted
from yiemagent.mcp.oauth.metadata import AuthorizationServer, json_object
from yiemagent.mcp.oauth.registration import GivenClient
from yiemagent.mcp.oauth.token import Token, oauth_error, post_form, request_token

__all__ = ["EnterpriseManaged", "WorkloadIdentity"]

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"

Assertion: TypeAlias = str | Callable[[], str]
"""A signed token, or a function that gives a fresh one; it may block for a moment."""


def _current(assertion: Assertion) -> str:
    return assertion if isinstance(assertion, str) else assertion()


class WorkloadIdentity:
    """A program whose platform vouches for it: its signed token is traded for an access token.

    A refusal is final: the assertion is not sent again, and no other way is tried.

    Args:
        client_id: As registered with the authorization server.
        assertion: The platform's token for the authorization server, or a function that gives it.
        client_secret: Where the server wants one beside the assertion.
        auth_method: None picks what the server offers.
        issuer: The authorization server it is registered with; None takes the one that is named.
    """

    offline = False
    interactive = False

    def __init__(
        self,
        client_id: str,
        assertion: Assertion,
        *,
        client_secret: str | None = None,
        auth_method: AuthMethod | None = None,
        issuer: str | None = None,
    ) -> None:
        self._client = GivenClient(
            OAuthClient(
                client_id=client_id, client_secret=client_secret, auth_method=auth_method, issuer=issuer
            )
        )
        self._assertion = assertion
        self.account = client_id
        self.issuer = issuer

    def obtain(self, wanted: Wanted, call: AuthCall) -> Token:
        """Trade the assertion."""
        client = self._client.at(wanted.server.issuer)
        form = wanted.form(_JWT_BEARER, assertion=_current(self._assertion))
        return request_token(call, wanted.server, client, form, now=wanted.now, proof=wanted.proof)

    def renew(self, token: Token, wanted: Wanted, call: AuthCall) -> Token | None:
        """There is nothing to refresh with."""
        return None


class EnterpriseManaged:
    """The company's identity provider decides: its id token of the person opens the MCP server.

    The id token is exchanged at the identity provider for a grant to this MCP server (ID-JAG),
    and that for an access token; nobody sees a login page.

    Args:
        client_id: As registered with the MCP server's authorization server.
        client_secret: Its secret there.
        id_token: What the person's login at the company gave, or a function that gives it.
        idp_issuer: The identity provider, whose metadata names its token endpoint.
        idp_client_id: As registered with the identity provider.
        idp_client_secret: Its secret there, if it has one.
        issuer: The MCP server's authorization server; None takes the one that is named.
        account: Whose tokens these are, when one store serves several people.

    Raises:
        ConfigurationError: A value is empty.
    """

    offline = False
    interactive = False

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        id_token: Assertion,
        idp_issuer: str,
        idp_client_id: str,
        idp_client_secret: str | None = None,
        issuer: str | None = None,
        account: str = "",
    ) -> None:
        if not idp_issuer or not id_token:
            raise ConfigurationError("EnterpriseManaged needs idp_issuer and id_token")
        self._client = GivenClient(
            OAuthClient(client_id=client_id, client_secret=client_secret, issuer=issuer)
        )
        self._id_token = id_token
        self._idp_issuer = idp_issuer
        self._idp_client = OAuthClient(
            client_id=idp_client_id, client_secret=idp_client_secret, issuer=idp_issuer
        )
        self.account = account
        self.issuer = issuer

    def obtain(self, wanted: Wanted, call: AuthCall) -> Token:
        """Exchange the id token for a grant, and the grant for a token."""
        client = self._client.at(wanted.server.issuer)
        provider = discover_server(self._idp_issuer, call, insecure=wanted.insecure)
        form = wanted.form(_JWT_BEARER, assertion=self._grant(provider, wanted, call))
        return request_token(call, wanted.server, client, form, now=wanted.now, proof=wanted.proof)

    def _grant(self, provider: AuthorizationServer, wanted: Wanted, call: AuthCall) -> str:
        form = wanted.form(
            _TOKEN_EXCHANGE,
            requested_token_type=_ID_JAG,
            audience=wanted.server.issuer,
            subject_token=_current(self._id_token),
            subject_token_type=_ID_TOKEN,
        )
        headers, fields = authenticate(self._idp_client, provider, now=wanted.now)
        answer = post_form(call, provider.token_endpoint, {**form, **fields}, headers)
        what = f"the token exchange at {provider.token_endpoint}"
        document = json_object(answer)
        if not 200 <= answer.status < 300 or document is None:
            raise oauth_error(answer, what)
        grant, kind = document.get("access_token"), document.get("issued_token_type")
        if not isinstance(grant, str) or kind != _ID_JAG:
            raise McpAuthorizationError(f"{what} gave {kind!r} instead of an ID-JAG")
        return grant

    def renew(self, token: Token, wanted: Wanted, call: AuthCall) -> Token | None:
        """There is nothing to refresh with: the id token opens it again."""
        return None
