"""Where a request goes and how: what requests would merge from the environment on every call."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Hashable, Mapping
from urllib.parse import urlsplit

from yiemagent.data_class import dataclass
from yiemagent.errors import ConfigurationError
from yiemagent.net.public_url import public_url

__all__ = ["Target", "make_target"]

_PLAIN = re.compile(
    r"https?://[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
    r"(?:/[\w~!$&'()*+,;=:@-][\w.~!$&'()*+,;=:@-]*)*/?",
    re.ASCII,
)
"""A URL that requests would send as it stands: no user, no query, nothing to quote, to fold or to
translate. Ports over 59999 are left to its checks."""


@dataclass(frozen=True, slots=True)
class Target:
    """One URL with everything that does not change between requests to it."""

    url: str
    scheme: str
    host: str
    port: int | None
    """None for that of the scheme."""
    request_url: str
    """What goes into the request line."""
    shown: str
    """The URL without user information and query, for messages."""
    authorization: str | None
    """Basic authorization made of the URL's user information."""
    proxy: str | None
    """The proxy that is used, without user information."""
    proxies: Mapping[str, str]
    verify: bool | str
    cert: str | tuple[str, str] | None
    key: Hashable
    """Equal for targets that may use the same connection."""


def make_target(
    url: str,
    *,
    verify: bool | str | None,
    cert: str | tuple[str, str] | None,
    proxies: Mapping[str, str] | None,
) -> Target:
    """Resolve *url* and settings as requests does, netrc excepted.

    Args:
        verify: None for the environment's bundle or certifi's.
        proxies: None for the environment's, but none for a loopback address (C-47).

    Raises:
        ConfigurationError: The URL is not an absolute http or https URL, or a CA bundle or
            client certificate cannot be used.
    """
    full, path, authorization = _read(url)
    parts = urlsplit(full)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{public_url(url)!r} is not an http or https URL")
    chosen = _proxies(full, parts.hostname) if proxies is None else dict(proxies)
    proxy = None
    if chosen:
        from yiemagent.net.environment import path_for_proxy, proxy_for

        proxy = proxy_for(full, chosen)
        path = path_for_proxy(full, proxy) or path
    if verify is None:
        verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
    if parts.scheme == "https":
        from yiemagent.net.tls import ssl_context

        ssl_context(verify, cert)  # here, where a bad path is still an error of its own
    return Target(
        url=full,
        scheme=parts.scheme,
        host=parts.hostname,
        port=parts.port,
        request_url=path,
        shown=public_url(full),
        authorization=authorization,
        proxy=public_url(proxy) if proxy else None,
        proxies=chosen,
        verify=verify,
        cert=cert,
        key=(parts.scheme, parts.hostname, parts.port, proxy, verify, cert),
    )


def _read(url: str) -> tuple[str, str, str | None]:
    """The URL as it is sent, its path and query, and the authorization that is in it."""
    if _PLAIN.fullmatch(url):
        # Nearly always; spares loading requests.
        path = urlsplit(url).path
        return (url, path, None) if path else (url + "/", "/", None)
    from yiemagent.net.environment import prepared_url

    return prepared_url(url)


def _proxies(url: str, host: str) -> Mapping[str, str]:
    if _is_loopback(host) or not _may_have_proxies():
        return {}
    from yiemagent.net.environment import proxies_for

    return proxies_for(url)


def _may_have_proxies() -> bool:
    """False when no proxy is set anywhere; macOS and Windows have settings of their own."""
    if sys.platform in ("darwin", "win32"):
        return True
    names = map(str.lower, os.environ)
    return any(name.endswith("_proxy") and name != "no_proxy" for name in names)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
