"""Authorization for MCP over HTTP: OAuth 2.1 for people, servers and scripts.

::

    McpHttp(url, auth="a bearer token")                          # somebody else takes care of it
    McpHttp(url, auth=OAuth())                                   # a person logs in, in the browser
    McpHttp(url, auth=OAuth(AuthorizationCode(PasteRedirect()))) # ... in a browser somewhere else
    McpHttp(url, auth=OAuth(ClientCredentials("id", "secret")))  # a server or script acts for itself
    McpHttp(url, auth=OAuth(store=FileTokenStore()))             # tokens outlive the process
"""

from __future__ import annotations

from yiemagent.mcp.oauth.assertion_grants import EnterpriseManaged, WorkloadIdentity
from yiemagent.mcp.oauth.authorizer import OAuth
from yiemagent.mcp.oauth.client import OAuthClient
from yiemagent.mcp.oauth.grants import AuthorizationCode, ClientCredentials, Grant
from yiemagent.mcp.oauth.redirect import BrowserRedirect, PasteRedirect, Redirect, RedirectListener
from yiemagent.mcp.oauth.store import (
    FileTokenStore,
    KeyringTokenStore,
    MemoryTokenStore,
    StoreKey,
    TokenStore,
)
from yiemagent.mcp.oauth.token import Token

__all__ = [
    "AuthorizationCode",
    "BrowserRedirect",
    "ClientCredentials",
    "EnterpriseManaged",
    "FileTokenStore",
    "Grant",
    "KeyringTokenStore",
    "MemoryTokenStore",
    "OAuth",
    "OAuthClient",
    "PasteRedirect",
    "Redirect",
    "RedirectListener",
    "StoreKey",
    "Token",
    "TokenStore",
    "WorkloadIdentity",
]
