"""``OpenAIChat``: models that speak Chat Completions, at OpenAI and everywhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

from yiemagent.errors import ConfigurationError, LlmError
from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.http_model import HttpModel
from yiemagent.llm.http_options import HttpKeywords, http_options
from yiemagent.llm.keys import key_headers
from yiemagent.llm.openai_decode import ChatDecoder
from yiemagent.llm.openai_messages import API, Dialect
from yiemagent.llm.openai_request import ChatRequests
from yiemagent.llm.quirks import Quirks, learned, quirks_for
from yiemagent.llm.settings import endpoint, find_key, model_info
from yiemagent.model import LlmContext, StreamOptions

__all__ = ["OpenAIChat"]

_OPENAI = "https://api.openai.com/v1"
_PATH = "/chat/completions"
_MODES = {True: "always", False: "never", "auto": "auto", "always": "always", "never": "never"}


class OpenAIChat(HttpModel):
    """A model that speaks Chat Completions. Construction does no I/O; any thread may ask.

    Args:
        model: The provider's name for it, such as ``gpt-5-mini``.
        base_url: Including ``/v1`` where the server has it; a URL that ends with
            ``/chat/completions`` is taken as it is. None: ``OPENAI_BASE_URL``, else OpenAI's.
        api_key: None: ``OPENAI_API_KEY``, or the variable of the host's own (``MISTRAL_API_KEY``).
            Blank: none is sent. It shows in no message or ``repr``.
        stream: ``"auto"`` asks for server-sent events when somebody listens to deltas and for a
            plain answer otherwise; ``True``/``"always"`` and ``False``/``"never"`` do as told.
        temperature: None sends none.
        max_tokens: For the answer; None sends none.
        extra_body: Added to every request, over everything else.
        quirks: What this server wants differently: fields of ``Quirks``. None: by its host.
        info: What is known of the model, over the built-in table: fields of ``ModelInfo``.
        think_tags: Short for ``quirks={"think_tags": ...}``: move one leading ``<think>`` block
            of the text to the reasoning.
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
        think_tags: bool | None = None,
        **http: Unpack[HttpKeywords],
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ConfigurationError(f"model must be the name of a model, got {model!r}")
        if stream not in _MODES:
            raise ConfigurationError(f'stream must be "auto", "always", "never" or a bool, got {stream!r}')
        self._stream = _MODES[stream]
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI
        changes = dict(quirks or {})
        if think_tags is not None:
            changes["think_tags"] = think_tags
        wishes = quirks_for(self._base_url, model, changes)
        self._max_tokens = max_tokens
        self._defaults = {"temperature": temperature, "max_tokens": max_tokens, "extra_body": extra_body}
        known = model_info(model, wishes.provider, API, info)
        super().__init__(
            known,
            endpoint(self._base_url, _PATH),
            find_key(api_key, wishes.key_envs),
            http_options(http, "OpenAIChat"),
        )
        self._requests = ChatRequests(Dialect(wishes, model, known.supports_images is not False))

    @property
    def base_url(self) -> str:
        """Where the model is, as given."""
        return self._base_url

    @property
    def quirks(self) -> Quirks:
        """What the server wants differently, as its host says and as learned since."""
        return self._requests.dialect.quirks

    def __repr__(self) -> str:
        return f"OpenAIChat({self._info.id!r}, provider={self._info.provider!r})"

    def _request_body(self, context: LlmContext, options: StreamOptions, stream: bool) -> bytes:
        return self._requests.body(context, options, stream=stream, defaults=self._defaults)

    def _decoder(self, context: LlmContext, options: StreamOptions) -> ChatDecoder:
        quirks = self.quirks
        limit = options.max_tokens if options.max_tokens is not None else self._max_tokens
        builder = AnswerBuilder(self._base, context.tools, listening=options.want_deltas)
        return ChatDecoder(builder, self._source, self._info, think_tags=quirks.think_tags, max_tokens=limit)

    def _auth_headers(self, api_key: str) -> Mapping[str, str]:
        return key_headers(self.quirks, api_key, self._source)

    def _wants_stream(self, options: StreamOptions) -> bool:
        return self._stream == "always" or (self._stream == "auto" and options.want_deltas)

    def _learn(self, error: LlmError) -> bool:
        if error.status not in (400, 422):
            return False
        dialect = self._requests.dialect
        wiser = learned(dialect.quirks, str(error))
        if wiser is None:
            return False
        self._requests = ChatRequests(replace(dialect, quirks=wiser))
        return True
