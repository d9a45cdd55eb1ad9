"""One live connection of nats-py: dialling it, what it says, hanging up.

Everything here runs on the private loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from yiemagent.errors import ConfigurationError, McpConnectionError
from yiemagent.mcp.nats_eventloop import Wire, opened_wire
from yiemagent.mcp.nats_options import NatsOptions, bare_url

__all__ = ["Line", "dial", "hang_up", "round_trip", "words"]

logger = logging.getLogger(__name__)

CLOSE_PATIENCE = 0.5
"""Seconds that nats-py may take to flush and close before the socket is dropped."""


@dataclass(slots=True, eq=False)
class Line:
    """One live connection of nats-py."""

    url: str
    client: Any
    wire: Wire
    lost: asyncio.Future[str]
    """Resolved with the reason when the connection has ended."""
    complaints: list[Exception] = field(default_factory=list)
    """The last few things that nats-py reported."""
    subscriptions: list[Any] = field(default_factory=list)
    """nats-py's own, of what is listened to."""

    @property
    def place(self) -> str:
        """The address without credentials."""
        return bare_url(self.url)

    def lose(self, reason: str) -> None:
        """Say that it has ended; the first reason counts."""
        if not self.lost.done():
            self.lost.set_result(reason)


async def dial(
    url: str, options: NatsOptions, patience: float, on_error: Callable[[Line, Exception], None]
) -> Line:
    """Connect to one server.

    Args:
        url: One of the options' servers.
        options: Credentials and TLS.
        patience: Seconds for everything together.
        on_error: Told what nats-py reports later; may come often.

    Raises:
        McpConnectionError: Not taken; names the server and the reason.
    """
    import nats.aio.client

    line = Line(url, nats.aio.client.Client(), Wire(), asyncio.get_running_loop().create_future())
    opened_wire.set(line.wire)
    line.wire.on_end = lambda error: line.lose("the connection ended" if error is None else words(error))
    try:
        async with asyncio.timeout(patience):
            await _greet(line, options, patience, on_error)
    except BaseException as exc:
        await hang_up(line)
        if isinstance(exc, Exception):
            raise McpConnectionError(f"{line.place}: {_reason(line, options, exc, patience)}") from exc
        raise
    return line


async def hang_up(line: Line) -> None:
    """Close politely within ``CLOSE_PATIENCE``, then drop the socket. Never raises for the server's sake."""
    try:
        async with asyncio.timeout(CLOSE_PATIENCE):
            await line.client.close()
    except Exception as exc:
        logger.debug("url=%s | closing: %s", line.place, words(exc))
    finally:
        line.wire.abort()


async def round_trip(line: Line, seconds: float) -> None:
    """Come back when the server has read, and answered, all that was said on *line* so far.

    Raises:
        Exception: nats-py's, when that took longer than *seconds*.
    """
    # nats-py writes a ping at once, but what was said before it a moment later: the first answer
    # overtakes a refusal of what came before. By then that is written, so the second one does not.
    for _ in range(2):
        await line.client.flush(seconds)


async def _greet(
    line: Line, options: NatsOptions, patience: float, on_error: Callable[[Line, Exception], None]
) -> None:
    async def error_cb(exc: Exception) -> None:
        line.complaints.append(exc)
        del line.complaints[:-3]
        on_error(line, exc)

    async def closed_cb() -> None:
        error = line.client.last_error or (line.complaints[-1] if line.complaints else None)
        line.lose("closed by the server" if error is None else words(error))

    await line.client.connect(
        servers=[line.place],
        name=options.name,
        error_cb=error_cb,
        closed_cb=closed_cb,
        # One round: a refused server is tried twice without a pause, then NoServersError.
        allow_reconnect=False,
        max_reconnect_attempts=1,
        reconnect_time_wait=0,
        connect_timeout=patience * 2,  # our own timeout comes first
        ping_interval=10**6,  # the link asks itself
        tls_hostname=options.tls_hostname,
        tls_handshake_first=options.tls_first,
        **_tls(options),
        **_secrets(line, options),
    )
    _check_encryption(line, options)


def _tls(options: NatsOptions) -> dict[str, ssl.SSLContext]:
    # Without one nats-py makes the default context, and only for a server that asks for TLS.
    return {} if options.tls is None or isinstance(options.tls, bool) else {"tls": options.tls_context()}


def _secrets(line: Line, options: NatsOptions) -> dict[str, Any]:
    """The credentials, as callables that nats-py asks at the last moment: never in the clear."""

    def reveal(value: str) -> Callable[[], str]:
        def ask() -> str:
            _check_encryption(line, options)
            return value

        return ask

    login = options.login(line.url)
    known = {"user": login.user, "password": login.password, "token": login.token}
    secrets: dict[str, Any] = {name: reveal(value) for name, value in known.items() if value is not None}
    if options.credentials is not None:
        secrets["user_credentials"] = str(options.credentials)
    if options.nkey_seed is not None:
        secrets["nkeys_seed"] = str(options.nkey_seed)
    return secrets


def _check_encryption(line: Line, options: NatsOptions) -> None:
    if options.must_encrypt(line.url) and not line.wire.encrypted:
        raise ConfigurationError("TLS was asked for, but this server offers none; no credentials were sent")


def _reason(line: Line, options: NatsOptions, exc: Exception, patience: float) -> str:
    from nats import errors

    if isinstance(exc, TimeoutError):
        return f"no answer within {patience:g} s"
    if isinstance(exc, ImportError):
        return f"these credentials need a package: pip install nkeys ({exc})"
    if isinstance(exc, errors.NoServersError) and line.complaints:
        return words(line.complaints[-1])
    text = words(exc)
    if "authorization" in text.lower():
        return f"{text}: the server refused {_login_words(line, options)}"
    return text


def _login_words(line: Line, options: NatsOptions) -> str:
    login = options.login(line.url)
    if login.user is not None:
        return f"user {login.user!r} with this password"
    if login.token is not None:
        return "this token"
    if options.credentials is not None or options.nkey_seed is not None:
        return "these credentials"
    return "a client without credentials; give user and password, token, credentials or nkey_seed"


def words(exc: Exception) -> str:
    """What an exception of nats-py or asyncio says, without quotes and prefixes."""
    text = str(exc).removeprefix("nats: ").strip("'\" \r\n")
    return text or type(exc).__name__
