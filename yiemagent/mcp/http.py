"""MCP servers at a URL: Streamable HTTP in both eras, and HTTP+SSE of 2024-11-05.

Source: issue 5 parts 1 to 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Unpack, get_args
from urllib.parse import urlsplit

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.http_auth import Auth, make_auth
from yiemagent.mcp.http_link import HttpLink, HttpOptions
from yiemagent.mcp.http_wire import HttpWire, WireConnection
from yiemagent.mcp.options import ClientKeywords
from yiemagent.mcp.origin import origin_of
from yiemagent.mcp.transport import Connection, FallbackEra, Receiver
from yiemagent.net.http import checked_headers
from yiemagent.net.public_url import public_url
from yiemagent.value_checks import check_type

__all__ = ["HttpTransport", "HttpWire", "McpHttp"]

PROBE_TIMEOUT = 60.0
"""``probe_timeout`` of a client over HTTP: as long as connecting may take."""


@dataclass(frozen=True)
class HttpTransport:
    """How to reach a server at a URL.

    Raises:
        ConfigurationError: The URL is not http or https, or a header cannot be sent.
    """

    url: str
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    """Sent with every request to the server (not to its authorization server)."""
    auth: Auth | None = field(default=None, repr=False)
    """A bearer token, a function that gives one, or ``OAuth(...)``; wins over ``headers``."""
    wire: HttpWire = "auto"
    """``"auto"`` tries Streamable HTTP and then HTTP+SSE (``/sse``); the others only one of them."""
    verify: bool | str | None = None
    """True or None checks TLS with the environment's CA bundle, a path names another, False does not."""
    cert: str | tuple[str, str] | None = field(default=None, repr=False)
    """Client certificate: a path, or the paths of certificate and key."""
    proxies: Mapping[str, str] | None = field(default=None, repr=False)
    """As requests takes them; None for the environment's."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except (ValueError, AttributeError, TypeError):
            usable = False
        if not usable:
            shown = public_url(self.url) if isinstance(self.url, str) else repr(self.url)
            raise ConfigurationError(
                f"an MCP server's URL must begin with http:// or https://, got {shown!r}"
            )
        if self.wire not in get_args(HttpWire):
            raise ConfigurationError(f"wire must be 'auto', 'streamable' or 'sse', got {self.wire!r}")
        checked_headers({} if self.headers is None else self.headers)
        check_type("verify", self.verify, bool, str)
        check_type("cert", self.cert, str, tuple)
        check_type("proxies", self.proxies, Mapping)
        object.__setattr__(self, "auth", make_auth(self.auth))

    def __repr__(self) -> str:
        return f"HttpTransport({self.label!r})"

    @property
    def label(self) -> str:
        """The URL without user information and query."""
        return public_url(self.url)

    @property
    def era_key(self) -> str | None:
        """Origin and path: behind one origin a gateway may have servers of both eras."""
        return origin_of(self.url) + urlsplit(self.url).path

    @property
    def fallback_era(self) -> FallbackEra:
        """Old servers want ``initialize``."""
        return "legacy"

    def connect(self, receiver: Receiver, *, deadline: Deadline, signal: AbortSignal | None) -> Connection:
        """Nothing is sent yet; see ``Transport.connect``."""
        options = HttpOptions(headers=self.headers, verify=self.verify, cert=self.cert, proxies=self.proxies)
        return WireConnection(HttpLink(self.url, options, make_auth(self.auth)), receiver, self.wire)


class McpHttp(McpClient):
    """An MCP server at a URL: ``McpHttp("https://host/mcp", auth="a token")``.

    Speaks Streamable HTTP in both eras, and HTTP+SSE of 2024-11-05 where a server knows nothing
    else. A session that the server has forgotten is made again once, and the call repeated.

    Args:
        url: Of the MCP endpoint.
        headers: Sent with every request to the server, but not to its authorization server.
        auth: A bearer token, a function that gives the one to use now, or ``OAuth(...)``.
        wire: ``"auto"`` tries Streamable HTTP and then HTTP+SSE; ``"streamable"`` and ``"sse"``
            only the one.
        verify: True or None checks TLS with the environment's CA bundle; a path names another
            bundle, False checks nothing.
        cert: Client certificate: a path, or the paths of certificate and key.
        proxies: As requests takes them; None for the environment's.
        **options: The fields of ``ClientOptions``.

    Raises:
        ConfigurationError: A value cannot be used.

    Source: issue 5 parts 1 to 3.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: Auth | None = None,
        wire: HttpWire = "auto",
        verify: bool | str | None = None,
        cert: str | tuple[str, str] | None = None,
        proxies: Mapping[str, str] | None = None,
        **options: Unpack[ClientKeywords],
    ) -> None:
        transport = HttpTransport(
            url, headers=headers, auth=auth, wire=wire, verify=verify, cert=cert, proxies=proxies
        )
        # Over HTTP an old server refuses what it does not know; silence only means that it is slow.
        options.setdefault("probe_timeout", PROBE_TIMEOUT)
        super().__init__(transport, **options)
