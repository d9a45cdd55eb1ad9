"""One MCP server over HTTP: requests with their authorization, and what goes wrong in our words.

Shared by everything that talks to the server's URLs: exchanges, the GET stream, the old
HTTP+SSE wire and the login ahead of time. Knows no JSON-RPC.

Source: issue 5 parts 3 and 6; field problems 19, 20, 25, 28.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from yiemagent.abort import AbortSignal
from yiemagent.errors import (
    McpAuthorizationError,
    McpConnectionError,
    McpProtocolError,
    McpTimeout,
    RunAborted,
)
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.http_auth import AuthCall, Challenge, Exchange, HttpAnswer, HttpAuth
from yiemagent.mcp.http_body import body_text
from yiemagent.mcp.origin import origin_of
from yiemagent.mcp.transport import RequestRefused
from yiemagent.net.errors import HttpAborted, HttpBodyTooLarge, HttpError, HttpRedirect, HttpTimeout
from yiemagent.net.http import HttpClient, Timeouts
from yiemagent.net.public_url import public_url

if TYPE_CHECKING:
    from yiemagent.net.response import HttpResponse

__all__ = ["HttpLink", "HttpOptions"]

_CONNECT_SECONDS = 10.0
_ANSWER_BYTES = 1 << 20
"""Of an authorization server's answer that are read at most."""
_MOST_REDIRECTS = 3
_MOST_CHALLENGES = 5
"""Of one request, whatever its authorization thinks of them."""
_FRESH_SECONDS = 4.0
"""Idle time of a connection that a call may still use: many servers close theirs after 5 s."""


class HttpOptions:
    """How the connections of a link are made; ``HttpClient`` says what each means."""

    __slots__ = ("cert", "headers", "proxies", "verify")

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        verify: bool | str | None = None,
        cert: str | tuple[str, str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self.headers = dict(headers or {})
        self.verify = verify
        self.cert = cert
        self.proxies = proxies

    def client(self) -> HttpClient:
        """For the MCP server itself."""
        return HttpClient(headers=self.headers, verify=self.verify, cert=self.cert, proxies=self.proxies)

    def foreign_client(self) -> HttpClient:
        """For authorization servers: the user's headers and certificate are not for them."""
        return HttpClient(verify=self.verify, proxies=self.proxies)


@dataclass(frozen=True, slots=True)
class _Sending:
    method: str
    url: str | None
    body: bytes | None
    deadline: Deadline
    signal: AbortSignal
    watched: bool
    once: bool


class HttpLink:
    """The way to one MCP server. Any thread; many requests at once.

    Args:
        url: The server's URL.
        options: How connections are made.
        auth: Gives and mends the authorization; None sends none.
    """

    def __init__(self, url: str, options: HttpOptions, auth: HttpAuth | None) -> None:
        self.url = url
        self.label = public_url(url)
        self._endpoint = url
        self._client = options.client()
        self._foreign = options.foreign_client()
        self._auth = auth

    def open(
        self,
        method: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        deadline: Deadline,
        signal: AbortSignal,
        operation: str = "",
        url: str | None = None,
        may_ask: bool = True,
        watched: bool = False,
        once: bool = False,
    ) -> HttpResponse:
        """Send one request, again only when the server refused it for its authorization.

        Args:
            method: ``POST``, ``GET`` or ``DELETE``.
            headers: Beside the user's and the authorization's.
            body: What is posted.
            deadline: When to give up.
            signal: Ends it at once.
            operation: What is asked for, for the limit of step-ups.
            url: Another URL of the server than its first.
            may_ask: Whether a refusal may lead to a login; without it, the refusal is returned.
            watched: Whether somebody aborts *signal* at the deadline, so that waiting for the
                answer has no limit of its own.
            once: Whether the request must not arrive twice, not even when a kept connection turns
                out to be dead.

        Returns:
            The answer, whatever its status, its body unread; a 401 never.

        Raises:
            McpAuthorizationError: The server wants an authorization that cannot be had.
            McpTimeout: The deadline passed.
            RunAborted: *signal* was aborted.
            McpConnectionError: The server cannot be reached, or the connection broke.
        """
        call = AuthCall(self.exchange(deadline, signal), deadline, signal)
        sending = _Sending(method, url, body, deadline, signal, watched, once)
        for attempt in itertools.count():
            given: Mapping[str, str] = {}
            if self._auth is not None:
                given = self._auth.headers(method, self.url, call)
            response = self._send(sending, {**headers, **given})
            if response.status not in (401, 403) or not may_ask:
                return response
            if response.status == 403 and (self._auth is None or "www-authenticate" not in response.headers):
                return response
            self._mend(response, given, attempt, operation, call)
        raise AssertionError

    def _mend(
        self,
        response: HttpResponse,
        given: Mapping[str, str],
        attempt: int,
        operation: str,
        call: AuthCall,
    ) -> None:
        text = body_text(response, call.deadline.at)
        answer = HttpAnswer(response.status, text.encode(), _lower(response.headers))
        challenge = Challenge.of(answer, url=self.url, sent=given, attempt=attempt, operation=operation)
        auth = self._auth if attempt < _MOST_CHALLENGES else None
        if auth is not None and auth.challenged(challenge, call):
            return
        wanted = response.headers.get("www-authenticate") or "nothing about how"
        hint = "give McpHttp(auth=...) a bearer token or OAuth()" if self._auth is None else "check auth="
        raise McpAuthorizationError(
            f"{self.label} answered {response.status} and says {wanted!r}; {hint}",
            error=challenge.parameter("error") or "",
            status=response.status,
        )

    def _send(self, sending: _Sending, headers: Mapping[str, str]) -> HttpResponse:
        deadline, signal = sending.deadline, sending.signal
        left = None if deadline.at is None else deadline.at - time.monotonic()
        if left is not None and left <= 0:
            raise McpTimeout(f"{self.label} was not asked in time")
        connect = _CONNECT_SECONDS if left is None else min(left, _CONNECT_SECONDS)
        limits = Timeouts(connect=connect, first_byte=None if sending.watched else left, idle=None)
        target = sending.url or self._endpoint
        for _ in range(_MOST_REDIRECTS):
            try:
                response = self._client.request(
                    sending.method,
                    target,
                    headers=headers,
                    body=sending.body,
                    signal=signal,
                    timeouts=limits,
                    resend=not sending.once,
                    idle_limit=_FRESH_SECONDS if sending.once else None,
                )
            except HttpRedirect as exc:
                # 307 and 308 keep method and body; frameworks send them for a missing slash.
                followed = urljoin(target, exc.location)
                if exc.status not in (307, 308) or origin_of(followed) != origin_of(target):
                    raise RequestRefused(str(exc), status=exc.status) from None
                target = followed
            except HttpError as exc:
                raise self.translated(exc, deadline, signal) from exc
            else:
                if sending.url is None:
                    self._endpoint = target
                return response
        raise RequestRefused(f"{self.label} redirects in circles", status=307)

    def exchange(self, deadline: Deadline, signal: AbortSignal) -> Exchange:
        """The way out of an authorization, within the limits of the call that it serves."""

        def exchange(
            method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
        ) -> HttpAnswer:
            try:
                # A code or a refresh token is used up by its first use.
                with self._foreign.request(
                    method,
                    url,
                    headers=headers,
                    body=body,
                    signal=signal,
                    deadline=deadline.at,
                    resend=method == "GET",
                    idle_limit=_FRESH_SECONDS,
                ) as response:
                    return HttpAnswer(response.status, response.read(_ANSWER_BYTES), _lower(response.headers))
            except HttpRedirect as exc:
                return HttpAnswer(exc.status, b"", {"location": exc.location})
            except HttpError as exc:
                raise self.translated(exc, deadline, signal, public_url(url)) from exc

        return exchange

    def translated(
        self, error: HttpError, deadline: Deadline, signal: AbortSignal, label: str | None = None
    ) -> Exception:
        """What *error* means to somebody who called the server with this deadline and signal."""
        label = label or self.label
        if isinstance(error, HttpAborted):
            return RunAborted("Operation aborted", reason=signal.reason)
        if isinstance(error, HttpTimeout):
            if error.phase != "connect" or deadline.expired:
                waited = "in time" if deadline.timeout is None else f"within {deadline.timeout:g} s"
                return McpTimeout(f"{label} did not answer {waited}")
            return McpConnectionError(f"{label} cannot be reached: {error}")
        if isinstance(error, HttpBodyTooLarge):
            return McpProtocolError(f"{label}: {error}")
        return McpConnectionError(str(error))

    def close(self) -> None:
        """Close idle connections, and those in use once they are done."""
        self._client.close()
        self._foreign.close()


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
