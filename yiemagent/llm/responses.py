"""``OpenAIResponses``: models that speak OpenAI's Responses dialect.

Newer reasoning models take tools only here. Nothing is stored at the provider: every request
carries the whole history, and the model's own reasoning in its encrypted form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from yiemagent.llm.dialect import ModelDialect
from yiemagent.llm.direct_model import DirectModel
from yiemagent.llm.http_options import HttpKeywords, http_options
from yiemagent.llm.keys import key_headers
from yiemagent.llm.quirks import quirks_for
from yiemagent.llm.responses_decode import ResponsesDecoder
from yiemagent.llm.responses_items import API
from yiemagent.llm.responses_request import ResponsesRequests
from yiemagent.llm.settings import (
    base_url_of,
    endpoint,
    find_key,
    model_info,
    model_name,
    request_defaults,
    stream_mode,
)
from yiemagent.model import LlmContext, StreamOptions

__all__ = ["OpenAIResponses"]

_OPENAI = "https://api.openai.com/v1"


class OpenAIResponses(DirectModel):
    """A model that speaks the Responses dialect. Construction does no I/O; any thread may ask.

    Args:
        model: The provider's name for it, such as ``gpt-5``.
        base_url: Including ``/v1``. None: ``OPENAI_BASE_URL``, else OpenAI's.
        api_key: None: ``OPENAI_API_KEY``. Blank: none is sent. It shows in no message or ``repr``.
        stream: As for ``OpenAIChat``.
        temperature: None sends none.
        max_tokens: For the answer, reasoning included; None sends none.
        extra_body: Added to every request, over everything else.
        quirks: Fields of ``Quirks`` for the server's key and provider name. None: by its host.
        info: What is known of the model, over the built-in table: fields of ``ModelInfo``.
        http: Timeouts, retries, headers, TLS and proxies: the fields of ``HttpOptions`` (or
            ``max_retries``), such as ``timeout``, ``verify``, ``proxies``.

    Raises:
        ConfigurationError: A value cannot work; the message says which and why.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool | Literal["auto", "always", "never"] = "auto",
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        quirks: Mapping[str, Any] | None = None,
        info: Mapping[str, Any] | None = None,
        **http: Unpack[HttpKeywords],
    ) -> None:
        base = base_url_of(base_url, "OPENAI_BASE_URL", _OPENAI)
        self._quirks = quirks_for(base, model_name(model), quirks or {})
        known = model_info(model, self._quirks.provider, API, info)
        super().__init__(
            known,
            endpoint(base, "/responses"),
            find_key(api_key, self._quirks.key_envs),
            http_options(http, "OpenAIResponses"),
            base_url=base,
            stream=stream_mode(stream),
            defaults=request_defaults(temperature, max_tokens, extra_body),
        )
        dialect = ModelDialect(API, known.provider, model, known.supports_images is not False)
        self._requests = ResponsesRequests(dialect, cache_key=self._quirks.cache_key_field is not None)

    def _decoder(self, context: LlmContext, options: StreamOptions) -> ResponsesDecoder:
        limit = self._most_tokens(options)
        return ResponsesDecoder(self._builder(context, options), self._source, self._info, max_tokens=limit)

    def _auth_headers(self, api_key: str) -> Mapping[str, str]:
        return key_headers(self._quirks, api_key, self._source)
