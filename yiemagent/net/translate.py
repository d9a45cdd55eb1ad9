"""What urllib3, http.client, ssl and the socket raise, as errors of this room; requests wraps those."""

from __future__ import annotations

import http.client
import ssl

import urllib3.exceptions

from yiemagent.net.errors import ConnectionCause, HttpConnectionError

__all__ = ["died_while_idle", "is_connect_timeout", "is_timeout", "translate"]

_DEEPEST = 8
"""Links of a chain of causes that are followed."""

# First match along the chain of causes, from the outside in, table row by table row.
_CAUSES: tuple[tuple[type[BaseException], ConnectionCause], ...] = (
    (urllib3.exceptions.ProxyError, "proxy"),
    (ssl.SSLEOFError, "closed"),
    (ssl.SSLZeroReturnError, "closed"),
    (ssl.SSLError, "tls"),
    (urllib3.exceptions.SSLError, "tls"),
    (urllib3.exceptions.NameResolutionError, "dns"),
    (urllib3.exceptions.NewConnectionError, "connect"),
    (urllib3.exceptions.IncompleteRead, "truncated"),
    (urllib3.exceptions.InvalidChunkLength, "truncated"),
    (http.client.IncompleteRead, "truncated"),
    (http.client.RemoteDisconnected, "closed"),
    (ConnectionError, "closed"),
)
_WORDS: dict[ConnectionCause, str] = {
    "dns": "the host name cannot be resolved",
    "connect": "no connection could be made",
    "tls": "the TLS handshake or the certificate failed",
    "proxy": "the proxy could not be used",
    "closed": "the connection was closed",
    "truncated": "the body ended before its end",
    "protocol": "the answer is not HTTP as we know it",
}


def translate(error: BaseException, shown: str) -> HttpConnectionError:
    """The error of this room for *error*, met while talking to *shown*."""
    chain = _chain(error)
    cause: ConnectionCause = "protocol"
    for kind, name in _CAUSES:
        if any(isinstance(link, kind) for link in chain):
            cause = name
            break
    return HttpConnectionError(f"{shown}: {_WORDS[cause]} ({_innermost(chain)})", cause=cause)


def is_timeout(error: BaseException) -> bool:
    """Whether waiting for bytes took too long."""
    return any(
        isinstance(link, (TimeoutError, urllib3.exceptions.ReadTimeoutError)) for link in _chain(error)
    )


def is_connect_timeout(error: BaseException) -> bool:
    """Whether opening the connection took too long."""
    return any(
        isinstance(link, urllib3.exceptions.ConnectTimeoutError)
        and not isinstance(link, urllib3.exceptions.NewConnectionError)
        for link in _chain(error)
    )


def died_while_idle(error: BaseException) -> bool:
    """Whether the server closed the connection without a byte of an answer (F-27)."""
    ended = (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
    return any(isinstance(link, ended) for link in _chain(error))


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    todo: list[BaseException] = [error]
    while todo and len(chain) < _DEEPEST:
        link = todo.pop(0)
        if link in chain:
            continue
        chain.append(link)
        reason = getattr(link, "reason", None)
        nested = (reason, *link.args, link.__cause__, link.__context__)
        todo += [one for one in nested if isinstance(one, BaseException)]
    return chain


def _innermost(chain: list[BaseException]) -> str:
    last = chain[-1]
    text = str(last).strip()
    return f"{type(last).__name__}: {text}" if text else type(last).__name__
