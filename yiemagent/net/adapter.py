"""The way through requests: settings are merged once a target, not once a request.

``HTTPAdapter.send`` makes look-ups on every call that are answered here from the ``Target``.
Everything that leans on the inside of requests does so here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from yiemagent.net.connection import watch
from yiemagent.net.tls import ssl_context

if TYPE_CHECKING:
    from yiemagent.net.lane import Lane
    from yiemagent.net.target import Target

__all__ = ["LaneAdapter"]


class _TargetRequest(PreparedRequest):
    """A prepared request that carries the settings of where it goes."""

    def __init__(self, target: Target, method: str, headers: dict[str, str], body: bytes | None) -> None:
        super().__init__()
        self.target = target
        self.method = method
        self.url = target.url
        self.headers = headers  # type: ignore[assignment]
        self.body = body


class LaneAdapter(HTTPAdapter):
    """Sends over the pool of *lane*, which it makes when there is none."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1)
        self._lane = lane

    def send_to(
        self, target: Target, method: str, headers: dict[str, str], body: bytes | None, timeout: Any
    ) -> Any:
        """See ``Lane.send``."""
        return self.send(_TargetRequest(target, method, headers, body), stream=True, timeout=timeout).raw

    def get_connection_with_tls_context(
        self, request: Any, verify: Any, proxies: Any = None, cert: Any = None
    ) -> Any:
        lane = self._lane
        if lane.pool is None:
            target: Target = request.target
            pool = super().get_connection_with_tls_context(
                request, target.verify, target.proxies, target.cert
            )
            lane.pool = watch(pool, lane)
        return lane.pool

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
