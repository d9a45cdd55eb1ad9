"""What the HTTP transport asks an authorization for, and the plain bearer token.

An ``HttpAuth`` gives the headers of a request and is told when the server was not content with
them. It does its own traffic (discovery, tokens) through the ``AuthCall`` it is handed, so that
it knows no HTTP library and is bound to the deadline and the abort of the call it serves.

Source: issue 5 part 3; RFC 6750, RFC 9728 section 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.mcp.challenge import AuthScheme, parse_www_authenticate
from yiemagent.mcp.deadline import Deadline

__all__ = [
    "Auth",
    "AuthCall",
    "BearerToken",
    "Challenge",
    "Exchange",
    "HttpAnswer",
    "HttpAuth",
    "make_auth",
]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole HTTP answer, as an authorization needs it."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case; the values of a repeated name joined by a comma."""


class Exchange(Protocol):
    """One HTTP request of an authorization, within the limits of the call that it serves."""

    def __call__(
        self, method: str, url: str, *, headers: Mapping[str, str] = ..., body: bytes | None = None
    ) -> HttpAnswer:
        """Send and read the whole answer; whatever the status, it is returned.

        Raises:
            McpTimeout: The deadline of the call passed.
            RunAborted: The call was aborted.
            McpConnectionError: The host cannot be reached, or the connection broke.
        """


@dataclass(frozen=True, slots=True)
class AuthCall:
    """The call that an authorization serves: its way out and its limits."""

    exchange: Exchange
    deadline: Deadline
    signal: AbortSignal | None = None


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server was not content with the authorization of a request."""

    url: str
    """The MCP server's URL."""
    status: int
    """401 or 403."""
    schemes: tuple[AuthScheme, ...]
    """What ``WWW-Authenticate`` said, in its order; empty without the header."""
    sent: Mapping[str, str]
    """The headers that the authorization had given for the refused request."""
    attempt: int
    """How often this request has been challenged before; 0 at first."""
    operation: str
    """What was asked for, such as ``tools/call search``: step-ups are limited per operation."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers of the answer, names in lower case."""

    @classmethod
    def of(
        cls, answer: HttpAnswer, *, url: str, sent: Mapping[str, str], attempt: int, operation: str
    ) -> Challenge:
        """The challenge that *answer* (401 or 403) is."""
        schemes = parse_www_authenticate(answer.headers.get("www-authenticate", ""))
        return cls(url, answer.status, schemes, sent, attempt, operation, answer.headers)

    def parameter(self, name: str) -> str | None:
        """A parameter of the Bearer (or DPoP) challenge, such as ``resource_metadata``."""
        for scheme in self.schemes:
            if scheme.name in ("bearer", "dpop") and name in scheme.parameters:
                return scheme.parameters[name]
        return None


class HttpAuth(Protocol):
    """An authorization for one or several MCP servers. Any thread may call it."""

    def headers(self, method: str, url: str, call: AuthCall) -> Mapping[str, str]:
        """The headers of a request to the MCP server, usually ``Authorization``; may be none.

        May renew a token that is about to expire, so it raises as ``Exchange`` does.
        """

    def challenged(self, challenge: Challenge, call: AuthCall) -> bool:
        """Get a better authorization after a 401 or 403.

        Returns:
            Whether to ask ``headers`` again and repeat the request; False leaves the refusal as it is.

        Raises:
            McpAuthorizationError: No authorization can be had; says why and what to do.
            McpTimeout: The deadline of the call passed first.
            RunAborted: The call was aborted.
        """


class BearerToken:
    """A token that somebody else takes care of.

    Args:
        token: The token, or a function that gives the one to use now; it is called for every
            request, on the thread that makes it, and may block only for a moment.

    Raises:
        ConfigurationError: The token is empty or holds a line break.
    """

    __slots__ = ("_token",)

    def __init__(self, token: str | Callable[[], str]) -> None:
        if isinstance(token, str):
            _checked(token)
        self._token = token

    def headers(self, method: str, url: str, call: AuthCall) -> Mapping[str, str]:
        """The token as an ``Authorization`` header (RFC 6750 section 2.1)."""
        token = self._token if isinstance(self._token, str) else _checked(self._token())
        return {"Authorization": f"Bearer {token}"}

    def challenged(self, challenge: Challenge, call: AuthCall) -> bool:
        """Repeat the request once if the function now gives another token than was refused."""
        if isinstance(self._token, str) or challenge.attempt > 0:
            return False
        return dict(self.headers("POST", challenge.url, call)) != dict(challenge.sent)

    def __repr__(self) -> str:
        return "BearerToken(...)"


def _checked(token: str) -> str:
    if not isinstance(token, str) or not token.strip() or any(ord(char) < 0x21 for char in token):
        raise ConfigurationError(
            "a bearer token must be a str without spaces or line breaks, such as one read with .strip()"
        )
    return token


Auth: TypeAlias = HttpAuth | str | Callable[[], str]
"""What ``auth=`` takes: a bearer token, a function that gives the one to use now, or ``OAuth(...)``."""


def make_auth(auth: Auth | None) -> HttpAuth | None:
    """What ``McpHttp(auth=)`` takes, as an ``HttpAuth``: a token or a function is a bearer token.

    Raises:
        ConfigurationError: It is none of these.
    """
    if auth is None or (hasattr(auth, "headers") and hasattr(auth, "challenged")):
        return auth
    if isinstance(auth, str) or callable(auth):
        return BearerToken(auth)
    raise ConfigurationError(
        f"auth must be a bearer token, a function giving one, or an HttpAuth such as OAuth(), got {auth!r}"
    )
