"""The requests adapter behind a lane: settings are merged once a target, not once a request.

``HTTPAdapter.send`` stays the way out (so that tools which patch it see our traffic), but the
look-ups it makes on every call are answered from the ``Target``. Everything that leans on the
inside of requests and urllib3 does so here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from urllib3.util import Timeout

from yiemagent.net.chunked import BatchedResponse
from yiemagent.net.tls import ssl_context

if TYPE_CHECKING:
    from yiemagent.net.exchange import Exchange
    from yiemagent.net.target import Target

__all__ = ["Lane"]

_ONE_WRITE = 262_144
"""Bytes up to which head and body are joined, so that the server wakes once and not twice."""


class _TargetRequest(PreparedRequest):
    """A prepared request that carries the settings of where it goes."""

    def __init__(self, target: Target, method: str, headers: dict[str, str], body: bytes | None) -> None:
        super().__init__()
        self.target = target
        self.method = method
        self.url = target.url
        self.headers = headers  # type: ignore[assignment]
        self.body = body


class Lane:
    """One adapter with one connection, to one origin. Used by one exchange at a time."""

    __slots__ = ("_adapter", "exchange", "idle_since", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.exchange: Exchange | None = None
        self.idle_since = 0.0
        self._adapter = _LaneAdapter(self)

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
        request = _TargetRequest(target, method, headers, body)
        timeout: Any = _timeout(connect_timeout, read_timeout)
        return self._adapter.send(request, stream=True, timeout=timeout).raw

    def close(self) -> None:
        """Close the connection."""
        self._adapter.close()


class _LaneAdapter(HTTPAdapter):
    def __init__(self, lane: Lane) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1)
        self._lane = lane
        self._pool: Any = None

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        super().close()

    def get_connection_with_tls_context(
        self, request: Any, verify: Any, proxies: Any = None, cert: Any = None
    ) -> Any:
        if self._pool is None:
            target: Target = request.target
            pool: Any = super().get_connection_with_tls_context(
                request, target.verify, target.proxies, target.cert
            )
            pool.ConnectionCls = functools.partial(_watched(pool.ConnectionCls), self._lane)
            self._pool = pool
        return self._pool

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        host, tls = super().build_connection_pool_key_attributes(request, verify, cert)
        if host["scheme"] == "https":
            tls = {"ssl_context": ssl_context(verify, cert), "cert_reqs": tls["cert_reqs"]}
        return host, tls

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """The context of the pool has it all."""

    def request_url(self, request: Any, proxies: Any) -> str:
        target: Target = request.target
        return target.request_url

    def build_response(self, req: Any, resp: Any) -> Response:
        # Without the constructor, whose cookie jar costs more than all the rest.
        response = Response.__new__(Response)
        response.__dict__.update(
            status_code=resp.status,
            reason=resp.reason,
            headers=resp.headers,
            url=req.url,
            request=req,
            raw=resp,
            history=[],
            encoding=None,
            _content=False,
            _content_consumed=False,
        )
        return response


@functools.lru_cache(maxsize=64)
def _timeout(connect: float | None, read: float | None) -> Timeout:
    return Timeout(connect=connect, read=read)


@functools.lru_cache(maxsize=8)
def _watched(base: type) -> type:
    return type("Watched" + base.__name__, (_WatchedConnection, base), {})


class _WatchedConnection:
    """Tells the exchange of its lane which socket it uses; sends head and body in one go."""

    response_class = BatchedResponse

    def __init__(self, lane: Lane, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lane = lane
        self._opened_for: Exchange | None = None
        self._held: list[Any] | None = None

    def connect(self) -> None:
        # Read here: the lane may be another exchange's when a thread that was left goes on.
        exchange = self._opened_for = self._lane.exchange
        if exchange is None:
            super().connect()  # type: ignore[misc]
        else:
            exchange.connect(self, functools.partial(self._open, exchange, super().connect))  # type: ignore[misc]

    def _open(self, exchange: Exchange, connect: Callable[[], object]) -> None:
        # Who opens also closes: a caller that has left does not learn what comes after.
        self._opening: list[Any] = []
        try:
            connect()
        finally:
            for sock in self._opening:
                exchange.opened(sock)

    def _new_conn(self) -> Any:
        sock = super()._new_conn()  # type: ignore[misc]
        if self._opened_for is not None:
            self._opening.append(self._opened_for.opening(sock))
        return sock

    def request(self, *args: Any, **kwargs: Any) -> None:
        exchange = self._lane.exchange
        sock: Any = getattr(self, "sock", None)
        if exchange is not None and sock is not None:
            exchange.attach(sock)
        self._held = []
        try:
            super().request(*args, **kwargs)  # type: ignore[misc]
        finally:
            held, self._held = self._held, None
        if sum(map(len, held)) <= _ONE_WRITE:
            held = [b"".join(held)]
        for data in held:
            super().send(data)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        # The proxy's CONNECT is sent inside connect(), which is never reached while holding.
        if self._held is None:
            super().send(data)  # type: ignore[misc]
        else:
            self._held.append(data)
