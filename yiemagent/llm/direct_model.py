"""What models that are asked at their provider share, whatever dialect they speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.http_model import HttpModel, HttpOptions
from yiemagent.model import LlmContext, ModelInfo, StreamOptions

__all__ = ["DirectModel", "Requests"]


class Requests(Protocol):
    """Writes the requests of one dialect."""

    def body(
        self, context: LlmContext, options: StreamOptions, *, stream: bool, defaults: Mapping[str, Any]
    ) -> bytes: ...


class DirectModel(HttpModel):
    """An ``HttpModel`` with a base URL, a way to stream, and defaults for each request.

    Args:
        base_url: As given, for ``repr`` and messages.
        stream: ``auto`` (only when somebody listens to deltas), ``always`` or ``never``.
        defaults: Options of each request that does not say otherwise.
    """

    _requests: Requests

    def __init__(
        self,
        info: ModelInfo,
        url: str,
        api_key: str,
        http: HttpOptions,
        *,
        base_url: str,
        stream: str,
        defaults: Mapping[str, Any],
    ) -> None:
        super().__init__(info, url, api_key, http)
        self._base_url = base_url
        self._stream = stream
        self._defaults = defaults

    @property
    def base_url(self) -> str:
        """Where the model is, as given."""
        return self._base_url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._info.id!r}, provider={self._info.provider!r})"

    def _request_body(self, context: LlmContext, options: StreamOptions, stream: bool) -> bytes:
        return self._requests.body(context, options, stream=stream, defaults=self._defaults)

    def _wants_stream(self, options: StreamOptions) -> bool:
        return self._stream == "always" or (self._stream == "auto" and options.want_deltas)

    def _builder(self, context: LlmContext, options: StreamOptions) -> AnswerBuilder:
        return AnswerBuilder(self._base, context.tools, listening=options.want_deltas)

    def _most_tokens(self, options: StreamOptions) -> int | None:
        """What the request allows the answer, if it says so."""
        return options.max_tokens if options.max_tokens is not None else self._defaults["max_tokens"]
