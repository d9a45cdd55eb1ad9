"""A model behind HTTP: one question, as many attempts as it takes, one terminal event.

What the dialects share. A dialect says how a request is written and an answer read; here is
what may happen in between: retries, timeouts, aborts, hooks.
"""

from __future__ import annotations

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from yiemagent.assistant_events import AssistantEvent, Failed, RetryScheduled
from yiemagent.data_class import replace
from yiemagent.error_text import error_text
from yiemagent.errors import ConfigurationError, LlmError
from yiemagent.llm.errors import http_error, make_error
from yiemagent.llm.http_options import HttpOptions
from yiemagent.llm.outcome import completed, failed
from yiemagent.llm.reading import Decoder, read_answer, transport_error
from yiemagent.llm.wire_json import to_wire
from yiemagent.messages import AssistantMessage
from yiemagent.model import LlmContext, ModelInfo, StreamOptions
from yiemagent.net.errors import HttpAborted, HttpError
from yiemagent.net.http import HttpClient, Timeouts
from yiemagent.net.lanes import shared_lanes

if TYPE_CHECKING:
    from yiemagent.net.response import HttpResponse

__all__ = ["HttpModel", "HttpOptions"]

logger = logging.getLogger(__name__)

_ERROR_BODY = 1_000_000
_LEAST_SECRET = 8  # Characters: local servers take keys such as "x", which also stand in other words.
_LESSONS = 3


class HttpModel(ABC):
    """Implements ``Llm`` over a dialect. Any thread; aborts end it within 0.1 s in every phase."""

    abortable = True

    def __init__(self, info: ModelInfo, url: str, api_key: str, http: HttpOptions) -> None:
        self._info = info
        self._url = url
        self._api_key = api_key
        self._http = http
        self._timeouts = Timeouts(
            connect=http.connect_timeout, first_byte=http.first_byte_timeout, idle=http.idle_timeout
        )
        self._client = HttpClient(
            headers={"Content-Type": "application/json", **(http.headers or {})},
            timeouts=self._timeouts,
            verify=http.verify,
            cert=http.cert,
            proxies=http.proxies,
            lanes=shared_lanes(),
        )
        self._base = AssistantMessage((), api=info.api, provider=info.provider, model=info.id)

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        return self._info

    def warm_up(self) -> None:
        """Load now what the first request would load, about 0.1 s; nothing is sent. Any thread.

        For the start of a web worker, so that no user waits for it. Where gevent patches, it must have
        done so before: what has loaded ssl cannot be patched any more.

        Raises:
            ConfigurationError: The model's URL cannot be used.
        """
        self._client.warm_up(self._url)

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        """Ask and yield the answer's events; the last one is ``Done`` or ``Failed``.

        A failed attempt is made again as ``HttpOptions.retry`` says, each time with a
        ``RetryScheduled``, unless something of the answer was shown already.
        """
        attempt, lessons = 0, 0
        while True:
            message, error, shown = yield from self._attempt(context, options)
            if error is None:
                yield from completed(message, announce=options.want_deltas and not shown)
                return
            if options.signal.aborted or isinstance(error, _Aborted):
                yield Failed(_aborted(message))
                return
            if not shown and lessons < _LESSONS and self._learn(error):
                lessons += 1
                yield RetryScheduled(attempt + lessons, 0.0, error)
                continue
            attempt += 1
            delay = None if shown else self._delay(error, attempt, options)
            if delay is None:
                yield failed(message, error)
                return
            yield RetryScheduled(attempt + lessons, delay, error)
            if options.signal.wait(delay):
                yield Failed(_aborted(message))
                return

    # -- what a dialect says -------------------------------------------------------------

    @abstractmethod
    def _request_body(self, context: LlmContext, options: StreamOptions, stream: bool) -> bytes:
        """The request as JSON bytes."""

    @abstractmethod
    def _decoder(self, context: LlmContext, options: StreamOptions) -> Decoder:
        """A fresh decoder whose builder is listening as *options* want."""

    @abstractmethod
    def _auth_headers(self, api_key: str) -> Mapping[str, str]:
        """The headers that carry *api_key*; it may be empty.

        Raises:
            LlmError: Asking without a key is pointless.
        """

    @abstractmethod
    def _wants_stream(self, options: StreamOptions) -> bool:
        """Whether to ask for server-sent events."""

    def _learn(self, error: LlmError) -> bool:
        """Whether the next request will be written differently after *error*."""
        return False

    # -- one attempt ---------------------------------------------------------------------

    def _attempt(
        self, context: LlmContext, options: StreamOptions
    ) -> Generator[AssistantEvent, None, tuple[AssistantMessage, LlmError | None, bool]]:
        """Ask once; returns the message, the error if it failed, and whether anything was shown."""
        try:
            response = self._send(context, options)
        except LlmError as error:
            return self._base, error, False
        decoder = self._decoder(context, options)
        builder = decoder.builder
        try:
            yield from read_answer(response, decoder, self._http.idle_timeout, self._source)
        except HttpAborted:
            message, _ = decoder.finish()
            return message, _Aborted("Operation aborted"), builder.started
        message, failure = decoder.finish()
        if builder.events:
            yield from builder.drain()
        return message, failure, builder.started

    @property
    def _source(self) -> str:
        return f"{self._info.provider or 'the provider'} ({self._info.id})"

    def _send(self, context: LlmContext, options: StreamOptions) -> HttpResponse:
        """The response with a status below 400.

        Raises:
            LlmError: Everything else.
        """
        key = (options.api_key or "").strip() or self._api_key
        response = self._exchange(context, options, key)
        if options.on_response is not None:
            try:
                _call_hook("on_response", options.on_response, response.status, dict(response.headers))
            except BaseException:
                response.close()
                raise
        if response.status < 400:
            return response
        try:
            body = response.read(limit=_ERROR_BODY)
        except HttpAborted:
            raise _Aborted("Operation aborted") from None
        except HttpError:
            body = b""  # the status says enough
        raise self._refused(response, body, key)

    def _exchange(self, context: LlmContext, options: StreamOptions, key: str) -> HttpResponse:
        try:
            body = self._request_body(context, options, self._wants_stream(options))
            if options.on_payload is not None:
                changed = _call_hook("on_payload", options.on_payload, json.loads(body))
                body = body if changed is None else to_wire(_as_payload(changed))
            return self._client.request(
                "POST",
                self._url,
                headers=self._auth_headers(key),
                body=body,
                signal=options.signal,
                deadline=self._deadline(options),
            )
        except HttpAborted:
            raise _Aborted("Operation aborted") from None
        except HttpError as error:
            raise transport_error(error, self._source, begun=False) from error
        except LlmError:
            raise
        except ConfigurationError as error:
            raise make_error("configuration", f"{self._source}: {error}") from error
        except Exception as error:
            text = f"the request cannot be written: {type(error).__name__}: {error}"
            raise make_error("bad_request", text) from error

    def _refused(self, response: HttpResponse, body: bytes, key: str) -> LlmError:
        error = http_error(response.status, response.headers, body, self._source)
        hints = []
        if response.status == 404:
            hints.append(f"asked at {response.url}")
        if response.status in (401, 403):
            hints.append("check api_key")
        if response.proxy and response.status in (407, 502, 503, 504):
            hints.append(f"through the proxy {response.proxy}")
        text = f"{error} ({'; '.join(hints)})" if hints else str(error)
        if len(key) >= _LEAST_SECRET:
            text = text.replace(key, "***")
        error.args = (text,)
        return error

    def _deadline(self, options: StreamOptions) -> float | None:
        if self._http.timeout is None:
            return options.deadline
        own = time.monotonic() + self._http.timeout
        return own if options.deadline is None else min(own, options.deadline)

    def _delay(self, error: LlmError, attempt: int, options: StreamOptions) -> float | None:
        if not error.retryable:
            return None
        delay = self._http.retry.delay(attempt, error.retry_after, options.max_retry_delay)
        if delay is None or options.deadline is None or time.monotonic() + delay < options.deadline:
            return delay
        return None


class _Aborted(LlmError):
    kind = "aborted"


def _call_hook(name: str, hook: Any, *args: Any) -> Any:
    try:
        return hook(*args)
    except Exception as error:
        raise make_error("hook_failed", f"{name} raised {error_text(error)}") from error


def _as_payload(changed: Any) -> Mapping[str, Any]:
    if not isinstance(changed, Mapping):
        text = f"on_payload must return the payload as a mapping or None, got {type(changed).__name__}"
        raise make_error("hook_failed", text)
    return changed


def _aborted(message: AssistantMessage) -> AssistantMessage:
    return replace(message, stop_reason="aborted", error_message="Operation aborted", error_kind=None)
