"""Authorization for MCP over HTTP: OAuth 2.1 for people, servers and scripts.

::

    McpHttp(url, auth="a bearer token")                          # somebody else takes care of it
    McpHttp(url, auth=OAuth())                                   # a person logs in, in the browser
    McpHttp(url, auth=OAuth(AuthorizationCode(PasteRedirect()))) # ... in a browser somewhere else
    McpHttp(url, auth=OAuth(ClientCredentials("id", "secret")))  # a server or script acts for itself
    McpHttp(url, auth=OAuth(store=FileTokenStore()))             # tokens outlive the process

Names load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yiemagent.mcp.oauth.assertion_grants import EnterpriseManaged as EnterpriseManaged
    from yiemagent.mcp.oauth.assertion_grants import WorkloadIdentity as WorkloadIdentity
    from yiemagent.mcp.oauth.authorizer import OAuth as OAuth
    from yiemagent.mcp.oauth.client import OAuthClient as OAuthClient
    from yiemagent.mcp.oauth.grants import AuthorizationCode as AuthorizationCode
    from yiemagent.mcp.oauth.grants import ClientCredentials as ClientCredentials
    from yiemagent.mcp.oauth.grants import Grant as Grant
    from yiemagent.mcp.oauth.redirect import BrowserRedirect as BrowserRedirect
    from yiemagent.mcp.oauth.redirect import PasteRedirect as PasteRedirect
    from yiemagent.mcp.oauth.redirect import Redirect as Redirect
    from yiemagent.mcp.oauth.redirect import RedirectListener as RedirectListener
    from yiemagent.mcp.oauth.store import FileTokenStore as FileTokenStore
    from yiemagent.mcp.oauth.store import KeyringTokenStore as KeyringTokenStore
    from yiemagent.mcp.oauth.store import MemoryTokenStore as MemoryTokenStore
    from yiemagent.mcp.oauth.store import StoreKey as StoreKey
    from yiemagent.mcp.oauth.store import TokenStore as TokenStore
    from yiemagent.mcp.oauth.token import Token as Token

_HOMES = {
    "assertion_grants": ("EnterpriseManaged", "WorkloadIdentity"),
    "authorizer": ("OAuth",),
    "client": ("OAuthClient",),
    "grants": ("AuthorizationCode", "ClientCredentials", "Grant"),
    "redirect": ("BrowserRedirect", "PasteRedirect", "Redirect", "RedirectListener"),
    "store": ("FileTokenStore", "KeyringTokenStore", "MemoryTokenStore", "StoreKey", "TokenStore"),
    "token": ("Token",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
