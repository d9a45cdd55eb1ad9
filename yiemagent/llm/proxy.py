"""``ProxyModel``: a model behind a proxy of one's own that holds the keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.http_model import HttpModel
from yiemagent.llm.http_options import HttpKeywords, http_options
from yiemagent.llm.proxy_wire import ProxyDecoder, context_to_proxy
from yiemagent.llm.replay import repair_history
from yiemagent.llm.settings import endpoint, model_info, model_name
from yiemagent.llm.wire_json import to_wire
from yiemagent.model import LlmContext, StreamOptions
from yiemagent.value_checks import check_count, check_number, check_type

__all__ = ["ProxyModel"]

API = "proxy"


class ProxyModel(HttpModel):
    """Asks ``<proxy_url>/api/stream`` and reads its server-sent events. Any thread may ask.

    Args:
        model: The name that the proxy is told.
        proxy_url: Of the proxy, without ``/api/stream``.
        token: Sent as ``Authorization: Bearer``; it shows in no message or ``repr``. Per call,
            ``get_api_key`` of the agent comes first.
        provider: What the proxy is told beside the model.
        temperature: None sends none; likewise *max_tokens*.
        info: What is known of the model: fields of ``ModelInfo``.
        http: Timeouts, retries, headers, TLS and proxies: the fields of ``HttpOptions`` (or
            ``max_retries``).

    Raises:
        ConfigurationError: A value cannot work; the message says which and why.

    Source: PX-1 to PX-7.
    """

    def __init__(
        self,
        model: str,
        proxy_url: str,
        token: str = "",
        *,
        provider: str = "",
        temperature: float | None = None,
        max_tokens: int | None = None,
        info: Mapping[str, Any] | None = None,
        **http: Unpack[HttpKeywords],
    ) -> None:
        check_type("token", token, str, none=False, secret=True)
        check_type("provider", provider, str, none=False)
        check_number("temperature", temperature)
        check_count("max_tokens", max_tokens)
        self._temperature = temperature
        self._max_tokens = max_tokens
        super().__init__(
            model_info(model_name(model), provider, API, info),
            endpoint(proxy_url, "/api/stream"),
            token.strip(),
            http_options(http, "ProxyModel"),
        )

    def __repr__(self) -> str:
        return f"ProxyModel({self._info.id!r})"

    def _request_body(self, context: LlmContext, options: StreamOptions, stream: bool) -> bytes:
        sent: dict[str, Any] = {
            "temperature": options.temperature if options.temperature is not None else self._temperature,
            "maxTokens": options.max_tokens if options.max_tokens is not None else self._max_tokens,
            "reasoning": options.reasoning,
            "sessionId": options.session_id,
        }
        return to_wire(
            {
                "model": {"id": self._info.id, "provider": self._info.provider},
                "context": context_to_proxy(context, repair_history(context.messages)),
                "options": {key: value for key, value in sent.items() if value is not None},
            }
        )

    def _decoder(self, context: LlmContext, options: StreamOptions) -> ProxyDecoder:
        builder = AnswerBuilder(self._base, context.tools, listening=options.want_deltas)
        return ProxyDecoder(builder, self._source, self._info)

    def _auth_headers(self, api_key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def _wants_stream(self, options: StreamOptions) -> bool:
        return True

    @property
    def _source(self) -> str:
        return f"Proxy ({self._info.id})"
