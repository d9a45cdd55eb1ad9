"""What only requests knows: URLs that need work, and the proxies of the environment.

Loaded only where a URL or the environment asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from requests import PreparedRequest
from requests.auth import _basic_auth_str
from requests.exceptions import RequestException
from requests.utils import get_auth_from_url, get_environ_proxies, select_proxy, urldefragauth

from yiemagent.errors import ConfigurationError
from yiemagent.net.public_url import public_url

__all__ = ["path_for_proxy", "prepared_url", "proxies_for", "proxy_for"]


def prepared_url(url: str) -> tuple[str, str, str | None]:
    """*url* quoted and translated, its path and query, and Basic authorization for its user.

    Raises:
        ConfigurationError: It is no URL.
    """
    prepared = PreparedRequest()
    try:
        prepared.prepare_url(url, None)
    except RequestException as error:
        raise ConfigurationError(f"{public_url(url)!r} is not a usable URL: {error}") from None
    full = str(prepared.url)
    user, password = get_auth_from_url(full)
    return full, prepared.path_url, _basic_auth_str(user, password) if user or password else None


def proxies_for(url: str) -> Mapping[str, str]:
    """The proxies of the environment for *url*; empty when it goes without one."""
    return dict(get_environ_proxies(url))


def proxy_for(url: str, proxies: Mapping[str, str]) -> str | None:
    """The one of *proxies* that *url* goes through."""
    return select_proxy(url, dict(proxies))


def path_for_proxy(url: str, proxy: str | None) -> str | None:
    """The whole URL, which an HTTP proxy wants in the request line; None where it does not."""
    via_http_proxy = proxy is not None and url.startswith("http:") and not proxy.lower().startswith("socks")
    return urldefragauth(url) if via_http_proxy else None
