"""Where a request goes and how: what requests would merge from the environment on every call."""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable, Mapping
from urllib.parse import urlsplit

from requests import PreparedRequest
from requests.auth import _basic_auth_str
from requests.exceptions import RequestException
from requests.utils import get_auth_from_url, get_environ_proxies, select_proxy, urldefragauth

from yiemagent.data_class import dataclass
from yiemagent.errors import ConfigurationError
from yiemagent.net.public_url import public_url
from yiemagent.net.tls import ca_from_environment, ssl_context

__all__ = ["Target", "make_target"]


@dataclass(frozen=True, slots=True)
class Target:
    """One URL with everything that does not change between requests to it."""

    url: str
    request_url: str
    """What goes into the request line."""
    shown: str
    """The URL without user information and query, for messages."""
    authorization: str | None
    """Basic authorization made of the URL's user information."""
    proxy: str | None
    """The proxy that is used, without user information."""
    proxies: dict[str, str]
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
    prepared = PreparedRequest()
    try:
        prepared.prepare_url(url, None)
    except RequestException as error:
        raise ConfigurationError(f"{public_url(url)!r} is not a usable URL: {error}") from None
    full = str(prepared.url)
    parts = urlsplit(full)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{public_url(url)!r} is not an http or https URL")
    if proxies is None:
        chosen = {} if _is_loopback(parts.hostname) else dict(get_environ_proxies(full))
    else:
        chosen = dict(proxies)
    if verify is None:
        verify = ca_from_environment() or True
    if parts.scheme == "https":
        ssl_context(verify, cert)  # here, where a bad path is still an error of its own
    proxy = select_proxy(full, chosen)
    via_http_proxy = proxy is not None and parts.scheme == "http" and not proxy.lower().startswith("socks")
    user, password = get_auth_from_url(full)
    return Target(
        url=full,
        request_url=urldefragauth(full) if via_http_proxy else prepared.path_url,
        shown=public_url(full),
        authorization=_basic_auth_str(user, password) if user or password else None,
        proxy=public_url(proxy) if proxy else None,
        proxies=chosen,
        verify=verify,
        cert=cert,
        key=(parts.scheme, parts.hostname, parts.port, proxy, verify, cert),
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
