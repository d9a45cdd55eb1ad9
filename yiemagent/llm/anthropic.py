"""``AnthropicMessages``: models that speak Anthropic's Messages dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from yiemagent.data_class import replace
from yiemagent.errors import ConfigurationError
from yiemagent.llm.anthropic_decode import AnthropicDecoder
from yiemagent.llm.anthropic_messages import API
from yiemagent.llm.anthropic_request import AnthropicRequests, CacheTime
from yiemagent.llm.dialect import ModelDialect
from yiemagent.llm.direct_model import DirectModel
from yiemagent.llm.errors import make_error
from yiemagent.llm.http_options import HttpKeywords, http_options
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
from yiemagent.value_checks import check_type

__all__ = ["AnthropicMessages"]

_ANTHROPIC = "https://api.anthropic.com"
_VERSION = "2023-06-01"


class AnthropicMessages(DirectModel):
    """A model that speaks the Messages dialect. Construction does no I/O; any thread may ask.

    Args:
        model: The provider's name for it, such as ``claude-sonnet-4-5``.
        base_url: With or without ``/v1``. None: ``ANTHROPIC_BASE_URL``, else Anthropic's own.
        api_key: None: ``ANTHROPIC_API_KEY``. Blank: none is sent. It shows in no message or ``repr``.
        stream: As for ``OpenAIChat``.
        temperature: None sends none; never sent together with thinking, which the API refuses.
        max_tokens: For the answer; the dialect demands one, so None sends 8,192.
        cache: Marks system prompt, tools and the last user message for the provider's prompt
            cache, for ``"5m"`` or ``"1h"``; None marks nothing.
        extra_body: Added to every request, over everything else.
        info: What is known of the model, over the built-in table: fields of ``ModelInfo``.
        provider: Its name in messages; answers are only replayed in full to the same one.
        beta: Names for the ``anthropic-beta`` header.
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
        cache: CacheTime | None = "5m",
        extra_body: Mapping[str, Any] | None = None,
        info: Mapping[str, Any] | None = None,
        provider: str = "anthropic",
        beta: tuple[str, ...] = (),
        **http: Unpack[HttpKeywords],
    ) -> None:
        if cache not in (None, "5m", "1h"):
            raise ConfigurationError(f'cache must be "5m", "1h" or None, got {cache!r}')
        check_type("provider", provider, str, none=False)
        if not isinstance(beta, (tuple, list)) or not all(isinstance(name, str) for name in beta):
            raise ConfigurationError(f"beta must be a tuple of names of features, got {beta!r}")
        base = base_url_of(base_url, "ANTHROPIC_BASE_URL", _ANTHROPIC)
        known = model_info(model_name(model), provider, API, info)
        fixed = {"anthropic-version": _VERSION, **({"anthropic-beta": ",".join(beta)} if beta else {})}
        options = http_options(http, "AnthropicMessages")
        super().__init__(
            known,
            endpoint(base.rstrip("/").removesuffix("/v1"), "/v1/messages"),
            find_key(api_key, ("ANTHROPIC_API_KEY",)),
            replace(options, headers={**fixed, **(options.headers or {})}),
            base_url=base,
            stream=stream_mode(stream),
            defaults=request_defaults(temperature, max_tokens, extra_body),
        )
        dialect = ModelDialect(API, provider, model, known.supports_images is not False)
        self._requests = AnthropicRequests(dialect, cache)

    def _decoder(self, context: LlmContext, options: StreamOptions) -> AnthropicDecoder:
        limit = self._most_tokens(options)
        return AnthropicDecoder(self._builder(context, options), self._source, self._info, max_tokens=limit)

    def _auth_headers(self, api_key: str) -> Mapping[str, str]:
        if api_key:
            return {"x-api-key": api_key}
        if self._base_url == _ANTHROPIC:
            text = f"{self._source} needs an API key: pass api_key= or set ANTHROPIC_API_KEY"
            raise make_error("authentication", text)
        return {}
