"""How to reach a NATS cluster: addresses, credentials, TLS and patience."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict
from urllib.parse import SplitResult, unquote, urlsplit

from yiemagent.errors import ConfigurationError
from yiemagent.mcp.deadline import check_seconds
from yiemagent.value_checks import check_count, check_switch, check_type

__all__ = ["Login", "NatsKeywords", "NatsOptions", "Tls", "bare_url", "check_subject"]

Tls: TypeAlias = ssl.SSLContext | str | os.PathLike[str] | bool | None
"""A context, the file of the authorities to trust, True for the system's; None: if the server asks."""

DEFAULT_PORT = 4222
PENDING_BYTES_LIMIT = 128 * 1024 * 1024


class NatsKeywords(TypedDict, total=False):
    """The keywords that everything over NATS takes; see ``NatsOptions``."""

    user: str | None
    password: str | None
    token: str | None
    credentials: str | os.PathLike[str] | None
    nkey_seed: str | os.PathLike[str] | None
    tls: Tls
    tls_hostname: str | None
    tls_first: bool
    dial_timeout: float
    ping_interval: float
    pending_bytes_limit: int
    inbox_prefix: str


@dataclass(frozen=True, slots=True)
class Login:
    """What one server is told about us; taken from its URL, else from the options."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsOptions:
    """Checked on construction; nothing is opened.

    Raises:
        ConfigurationError: An address, credential or number cannot work.
    """

    servers: str | Sequence[str]
    """``nats://host:4222`` or ``tls://host``, one or several; may hold ``user:password@`` or ``token@``."""
    name: str = "yiemagent"
    """What the server's monitoring shows."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials: str | os.PathLike[str] | None = None
    """A ``.creds`` file (JWT and seed); needs the package ``nkeys``."""
    nkey_seed: str | os.PathLike[str] | None = None
    """A file with an nkey seed; needs the package ``nkeys``."""
    tls: Tls = None
    """Anything but None or False refuses a server that would speak in the clear."""
    tls_hostname: str | None = None
    """The name the certificate must carry; the URL's host when None."""
    tls_first: bool = False
    """The server expects the TLS handshake before its greeting (``handshake_first``)."""
    dial_timeout: float = 5.0
    """Seconds for reaching a server, all addresses together, and for waiting while it is away."""
    ping_interval: float = 20.0
    """Seconds of silence after which the server must answer a ping within ``dial_timeout``."""
    pending_bytes_limit: int = PENDING_BYTES_LIMIT
    """Replies that may wait for the loop's attention before they are dropped as a slow consumer's."""
    inbox_prefix: str = "_INBOX"
    """Under which replies are received, for accounts that may not use the usual one."""

    def __post_init__(self) -> None:
        servers: Any = self.servers
        several = isinstance(servers, Iterable) and not isinstance(servers, (str, bytes))
        listed = tuple(servers) if several else (servers,)
        if not all(isinstance(url, str) for url in listed):
            raise ConfigurationError(f"servers must be an address or a list of addresses, got {servers!r}")
        if not listed:
            raise ConfigurationError("servers is empty: give at least one, such as nats://127.0.0.1:4222")
        for url in listed:
            _address(url)
        object.__setattr__(self, "servers", listed)
        for name in ("dial_timeout", "ping_interval"):
            if not check_seconds(name, getattr(self, name)):
                raise ConfigurationError(f"{name} must be more than 0 seconds, got {getattr(self, name)!r}")
        if (self.user is None) != (self.password is None):
            raise ConfigurationError("user and password belong together: give both, or a token")
        for name in ("name", "user", "password", "token", "tls_hostname"):
            check_type(name, getattr(self, name), str, secret=name in ("password", "token"))
        check_type("credentials", self.credentials, str, os.PathLike)
        check_type("nkey_seed", self.nkey_seed, str, os.PathLike)
        check_type("tls", self.tls, ssl.SSLContext, str, os.PathLike, bool)
        check_switch("tls_first", self.tls_first)
        check_count("pending_bytes_limit", self.pending_bytes_limit, none=False)
        check_subject("inbox_prefix", self.inbox_prefix)

    @property
    def label(self) -> str:
        """The addresses, for messages, without what is secret in them."""
        return ", ".join(bare_url(url) for url in self.servers)

    def login(self, url: str) -> Login:
        """The credentials for one of the addresses."""
        parts = _address(url)
        if parts.username is None:
            return Login(self.user, self.password, self.token)
        if parts.password is None:
            return Login(token=unquote(parts.username))
        return Login(unquote(parts.username), unquote(parts.password))

    def must_encrypt(self, url: str) -> bool:
        """Whether that server must not be told anything in the clear."""
        return bool(self.tls) or self.tls_first or _address(url).scheme == "tls"

    def tls_context(self) -> ssl.SSLContext:
        """Make the TLS context; reads the file of authorities.

        Raises:
            OSError: The file cannot be read or holds no certificate.
        """
        if isinstance(self.tls, ssl.SSLContext):
            return self.tls
        if self.tls is None or isinstance(self.tls, bool):
            return ssl.create_default_context()
        return ssl.create_default_context(cafile=os.fspath(self.tls))


def _address(url: str) -> SplitResult:
    text = url if "://" in url else f"nats://{url}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise ConfigurationError(f"NATS server {bare_url(url)!r} has no usable port") from exc
    if parts.scheme not in ("nats", "tls"):
        raise ConfigurationError(f"NATS server {bare_url(url)!r} must begin with nats:// or tls://")
    if not parts.hostname or port == 0:
        raise ConfigurationError(f"NATS server {bare_url(url)!r} has no host or port")
    return parts


def bare_url(url: str) -> str:
    """The address with its port and without credentials, path or query."""
    scheme, _, rest = url.rpartition("://")
    host = rest.split("/")[0].rpartition("@")[2]
    if ":" not in host.rpartition("]")[2]:
        host = f"{host}:{DEFAULT_PORT}"
    return f"{scheme or 'nats'}://{host}"


def check_subject(keyword: str, subject: str) -> str:
    """Return *subject* when messages can be published to it.

    Raises:
        ConfigurationError: It is empty, has white space, a wildcard or an empty token. A colon is
            fine, as in the topics of the Julia design (``yiemagent:tools``).
    """
    tokens = subject.split(".") if isinstance(subject, str) else [""]
    if any(not token or token in "*>" or any(c.isspace() or ord(c) < 32 for c in token) for token in tokens):
        raise ConfigurationError(
            f"{keyword} {subject!r} is no NATS subject: it needs words joined by single dots, "
            "without spaces and wildcards"
        )
    return subject
