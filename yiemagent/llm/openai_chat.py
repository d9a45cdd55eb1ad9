"""``OpenAIChat``: models that speak Chat Completions, at OpenAI and everywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from yiemagent.data_class import replace
from yiemagent.errors import LlmError
from yiemagent.llm.direct_model import DirectModel
from yiemagent.llm.http_options import HttpKeywords, http_options
from yiemagent.llm.keys import key_headers
from yiemagent.llm.openai_decode import ChatDecoder
from yiemagent.llm.openai_messages import API, Dialect
from yiemagent.llm.openai_request import ChatRequests
from yiemagent.llm.quirks import Quirks, learned, quirks_for
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
from yiemagent.value_checks import check_switch

__all__ = ["OpenAIChat"]

_OPENAI = "https://api.openai.com/v1"
_PATH = "/chat/completions"


class OpenAIChat(DirectModel):
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

    _requests: ChatRequests

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
        base = base_url_of(base_url, "OPENAI_BASE_URL", _OPENAI)
        if think_tags is not None:
            check_switch("think_tags", think_tags)
        changes = quirks if think_tags is None else {**(quirks or {}), "think_tags": think_tags}
        wishes = quirks_for(base, model_name(model), changes)
        known = model_info(model, wishes.provider, API, info)
        super().__init__(
            known,
            endpoint(base, _PATH),
            find_key(api_key, wishes.key_envs),
            http_options(http, "OpenAIChat"),
            base_url=base,
            stream=stream_mode(stream),
            defaults=request_defaults(temperature, max_tokens, extra_body),
        )
        self._requests = ChatRequests(Dialect(wishes, model, known.supports_images is not False))

    @property
    def quirks(self) -> Quirks:
        """What the server wants differently, as its host says and as learned since."""
        return self._requests.dialect.quirks

    def _decoder(self, context: LlmContext, options: StreamOptions) -> ChatDecoder:
        return ChatDecoder(
            self._builder(context, options),
            self._source,
            self._info,
            think_tags=self.quirks.think_tags,
            max_tokens=self._most_tokens(options),
        )

    def _auth_headers(self, api_key: str) -> Mapping[str, str]:
        return key_headers(self.quirks, api_key, self._source)

    def _learn(self, error: LlmError) -> bool:
        if error.status not in (400, 422):
            return False
        dialect = self._requests.dialect
        wiser = learned(dialect.quirks, str(error))
        if wiser is None:
            return False
        self._requests = ChatRequests(replace(dialect, quirks=wiser))
        return True
