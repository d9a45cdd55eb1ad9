"""Blocking HTTP that can be stopped: the one client under models and MCP.

It knows nothing of either. Redirects are not followed (C-44), netrc is not read (C-40), a
loopback address never goes through a proxy (C-47); CA bundles and proxies are otherwise taken
from the environment as requests takes them.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from yiemagent.abort import AbortSignal
from yiemagent.data_class import dataclass
from yiemagent.errors import ConfigurationError
from yiemagent.net.errors import HttpError, HttpRedirect, HttpTimeout
from yiemagent.net.lanes import Lanes
from yiemagent.net.public_url import public_url
from yiemagent.value_checks import check_type

if TYPE_CHECKING:
    from yiemagent.net.exchange import Exchange
    from yiemagent.net.response import HttpResponse
    from yiemagent.net.target import Target

__all__ = ["HttpClient", "Timeouts", "checked_headers"]

_TARGETS = 256
"""URLs whose settings are remembered at most."""
_LOADED_LATE = (
    "yiemagent.net.lane",
    "yiemagent.net.exchange",
    "yiemagent.net.response",
    "encodings.idna",
)
"""What the first request loads, here and in what it calls: by then gevent has patched ssl, if it is to."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits in seconds; None is no limit."""

    connect: float | None = 10.0
    """From the name to the end of the TLS handshake."""
    first_byte: float | None = 60.0
    """From the request to the headers of the answer."""
    idle: float | None = 60.0
    """Between two pieces of the body."""


class HttpClient:
    """Sends requests and hands out answers as they arrive. Any thread; construction does no I/O.

    Args:
        headers: Sent with every request.
        auth: Called for every request; the headers it returns (``Authorization``, ...) are
            added last. Its values never show in a message or ``repr``.
        timeouts: Defaults for every request.
        verify: True or None for verified TLS with the environment's CA bundle or certifi's, a
            path for another bundle (it wins over the environment), False for none.
        cert: Client certificate: a path, or the paths of certificate and key.
        proxies: As requests takes them (``{"https": "http://..."}``); None for the environment.
        lanes: Where connections are kept: ``shared_lanes()`` for those of the process. None
            keeps them with this client and closes them with it.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        auth: Callable[[], Mapping[str, str]] | None = None,
        timeouts: Timeouts | None = None,
        verify: bool | str | None = None,
        cert: str | tuple[str, str] | None = None,
        proxies: Mapping[str, str] | None = None,
        lanes: Lanes | None = None,
    ) -> None:
        self._headers = {"User-Agent": "yiemagent", **checked_headers(headers or {})}
        self._auth = auth
        self.timeouts = timeouts or Timeouts()
        self._verify = None if verify is True else verify
        self._cert = cert
        self._proxies = proxies
        self._own_lanes = lanes is None
        self._lanes = lanes or Lanes()
        self._targets: dict[str, Target] = {}

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        signal: AbortSignal | None = None,
        deadline: float | None = None,
        timeouts: Timeouts | None = None,
        resend: bool = True,
        idle_limit: float | None = None,
    ) -> HttpResponse:
        """Send one request and wait for the headers of the answer.

        Args:
            headers: Added to the client's; a None value is not allowed.
            body: Sent with its length.
            signal: Ends the exchange within 0.1 s of its abort, in every phase, until the
                response is closed.
            deadline: ``time.monotonic()`` value by which the body must be complete.
            timeouts: In place of the client's.
            resend: Whether the request is sent once more, on a new connection, when a kept
                connection turns out to be dead before a byte of the answer (F-27). False for
                requests that must not arrive twice.
            idle_limit: Seconds that a kept connection may have been idle to be used; None: any. For
                requests that are not sent again, since servers close idle connections, some
                after 5 s, and a request that meets that is lost.

        Returns:
            The response, whatever its status; its body is still to be read.

        Raises:
            HttpAborted: *signal* was aborted.
            HttpTimeout: Phase ``connect``, ``first_byte`` or ``total``.
            HttpConnectionError: No connection, or it broke before the headers.
            HttpRedirect: The server points elsewhere.
            ConfigurationError: The URL or a header cannot be sent.
        """
        target = self._target(url)
        merged = dict(self._headers)
        if target.authorization is not None:
            merged["Authorization"] = target.authorization
        if headers:
            merged.update(checked_headers(headers))
        if self._auth is not None:
            merged.update(checked_headers(self._auth()))
        if body is not None:
            merged["Content-Length"] = str(len(body))
        limits = timeouts or self.timeouts
        call = _Call(target, method, merged, body, signal, deadline, limits, idle_limit)
        try:
            response = self._attempt(call, resend)
        except _DiedWhileIdle:
            response = self._attempt(call, False)
        if response.status in _REDIRECTS:
            raise _redirected(response, method, target)
        return response

    def warm_up(self, url: str) -> None:
        """Load what a request to *url* needs, about 0.1 s that the first one would take. Nothing is sent.

        Any thread; where gevent patches, after that.

        Raises:
            ConfigurationError: The URL cannot be used.
        """
        for name in _LOADED_LATE:
            importlib.import_module(name)
        self._target(url)

    def close(self) -> None:
        """Close the client's own idle connections, and those in use once they are done."""
        if self._own_lanes:
            self._lanes.close()

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _target(self, url: str) -> Target:
        target = self._targets.get(url)
        if target is None:
            from yiemagent.net.target import make_target

            target = make_target(url, verify=self._verify, cert=self._cert, proxies=self._proxies)
            if len(self._targets) >= _TARGETS:
                self._targets.clear()
            self._targets[url] = target
        return target

    def _attempt(self, call: _Call, may_resend: bool) -> HttpResponse:
        # With the first request and not before: what has loaded ssl cannot be patched by gevent any more.
        from yiemagent.net.lane import Lane
        from yiemagent.net.response import HttpResponse

        exchange = call.exchange()
        target, limits = call.target, call.limits
        lane = self._lanes.take(target.key, call.idle_limit) or Lane(target.key)
        lane.exchange = exchange
        try:
            if exchange.cut:
                raise exchange.aborted()
            read_timeout = call.seconds_left(limits.first_byte)
            raw = lane.send(target, call.method, call.headers, call.body, limits.connect, read_timeout)
            if exchange.cut:
                # The connection in use is not among those that the lane closes.
                raw.close()
                raise exchange.aborted()
        except BaseException as error:
            exchange.end()
            # A helper thread may still be opening its connection: this lane is not used again.
            lane.close()
            if not isinstance(error, Exception):
                raise
            raise _failure(error, exchange, call, may_resend) from None
        return HttpResponse(raw, exchange, limits.idle, target, lane, self._lanes)


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """*headers*, after a look at each.

    Raises:
        ConfigurationError: A name or value that HTTP does not allow; the value is not shown.
    """
    check_type("headers", headers, Mapping, none=False)
    for name, value in headers.items():
        if not isinstance(name, str) or _HEADER_NAME.fullmatch(name) is None:
            raise ConfigurationError(f"{name!r} is not a header name")
        if not isinstance(value, str) or _HEADER_VALUE.fullmatch(value) is None:
            raise ConfigurationError(
                f"the value of header {name!r} is no text or has a character that a header cannot hold"
            )
    return headers


class _DiedWhileIdle(Exception):
    """A kept connection was dead; the request may be sent once more."""


@dataclass(frozen=True, slots=True)
class _Call:
    target: Target
    method: str
    headers: dict[str, str]
    body: bytes | None
    signal: AbortSignal | None
    deadline: float | None
    limits: Timeouts
    idle_limit: float | None

    def exchange(self) -> Exchange:
        from yiemagent.net.exchange import Exchange

        limit, seconds = self.deadline, self.limits.connect
        if seconds is not None:
            until = time.monotonic() + seconds
            limit = until if limit is None else min(limit, until)
        return Exchange(self.signal, limit, seconds, self.deadline)

    def seconds_left(self, limit: float | None) -> float | None:
        """*limit*, or what is left until the deadline if that is less."""
        if self.deadline is None:
            return limit
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise HttpTimeout(f"{self.target.shown}: no time left before the request", phase="total")
        return left if limit is None else min(limit, left)


def _failure(error: Exception, exchange: Exchange, call: _Call, may_resend: bool) -> Exception:
    from yiemagent.net.translate import died_while_idle, is_connect_timeout, is_timeout, translate

    shown, limits = call.target.shown, call.limits
    if exchange.cut:
        return exchange.aborted()
    if isinstance(error, (HttpError, ConfigurationError)):
        return error
    if may_resend and not exchange.fresh and died_while_idle(error):
        return _DiedWhileIdle()
    connecting = is_connect_timeout(error)
    if connecting or is_timeout(error):
        if call.deadline is not None and time.monotonic() >= call.deadline - 0.001:
            return HttpTimeout(f"{shown} did not answer before the deadline", phase="total")
        if connecting:
            return HttpTimeout(
                f"{shown}: no connection within {limits.connect} s", phase="connect", limit=limits.connect
            )
        return HttpTimeout(
            f"{shown} sent no answer for {limits.first_byte} s", phase="first_byte", limit=limits.first_byte
        )
    return translate(error, shown)


def _redirected(response: HttpResponse, method: str, target: Target) -> HttpRedirect:
    location: Any = response.headers.get("location") or ""
    response.close()
    return HttpRedirect(
        f"{method} {target.shown} answered {response.status} and points to {public_url(location)!r}; "
        "redirects are not followed, set the final URL",
        status=response.status,
        location=location,
    )
