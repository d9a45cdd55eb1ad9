"""One kept connection to one origin, and the two ways to send over it.

The way out is ``HTTPAdapter.send`` of requests as soon as the program has loaded requests, so that
whatever patches it (``responses``, for one) sees our traffic. A program that has not loaded it
cannot have patched it: there urllib3, on which requests stands, is used alone, since loading
requests would be a quarter of all the time to a first answer. Proxies are always left to requests.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import Retry, Timeout

from yiemagent.net.connection import watch

if TYPE_CHECKING:
    from yiemagent.net.adapter import LaneAdapter
    from yiemagent.net.exchange import Exchange
    from yiemagent.net.target import Target

__all__ = ["Lane"]

_NO_RETRIES = Retry(0, read=False)


class Lane:
    """A pool of one connection. Used by one exchange at a time."""

    __slots__ = ("_adapter", "exchange", "idle_since", "key", "pool")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.exchange: Exchange | None = None
        self.idle_since = 0.0
        self.pool: Any = None
        """Made by whichever way is taken first; both use it."""
        self._adapter: LaneAdapter | None = None

    def send(
        self,
        target: Target,
        method: str,
        headers: dict[str, str],
        body: bytes | None,
        connect_timeout: float | None,
        read_timeout: float | None,
    ) -> Any:
        """Send and wait for the headers.

        Returns:
            The urllib3 response, its body unread.
        """
        timeout = _timeout(connect_timeout, read_timeout)
        if target.proxy is not None or _requests_is_loaded():
            return self._through_requests(target, method, headers, body, timeout)
        if self.pool is None:
            self.pool = watch(_direct_pool(target), self)
        return self.pool.urlopen(
            method,
            target.request_url,
            body=body,
            headers=headers,
            retries=_NO_RETRIES,
            redirect=False,
            assert_same_host=False,
            timeout=timeout,
            preload_content=False,
            decode_content=False,
        )

    def _through_requests(
        self, target: Target, method: str, headers: dict[str, str], body: bytes | None, timeout: Timeout
    ) -> Any:
        if self._adapter is None:
            from yiemagent.net.adapter import LaneAdapter

            self._adapter = LaneAdapter(self)
        return self._adapter.send_to(target, method, headers, body, timeout)

    def close(self) -> None:
        """Close the connection."""
        pool, self.pool = self.pool, None
        if pool is not None:
            pool.close()
        if self._adapter is not None:
            self._adapter.close()


def _requests_is_loaded() -> bool:
    return "requests" in sys.modules


def _direct_pool(target: Target) -> HTTPConnectionPool:
    if target.scheme == "http":
        return HTTPConnectionPool(target.host, target.port, maxsize=1)
    from yiemagent.net.tls import ssl_context

    return HTTPSConnectionPool(
        target.host,
        target.port,
        maxsize=1,
        ssl_context=ssl_context(target.verify, target.cert),
        cert_reqs="CERT_NONE" if target.verify is False else "CERT_REQUIRED",
    )


class _Timeout(Timeout):
    """urllib3 makes a new one of it twice for each request; its values were checked when it was made."""

    def clone(self) -> Timeout:
        made = _Timeout.__new__(_Timeout)
        made.__dict__.update(self.__dict__)
        return made


@functools.lru_cache(maxsize=64)
def _timeout(connect: float | None, read: float | None) -> Timeout:
    return _Timeout(connect=connect, read=read)
