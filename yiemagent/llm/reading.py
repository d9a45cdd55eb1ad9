"""From the bytes of a response to a decoder, whatever kind of body it turned out to be.

A body that begins with a JSON value is read as JSON even if it claims to be an event stream,
and the other way round (decoding rule 2).
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from yiemagent.assistant_events import AssistantEvent
from yiemagent.errors import LlmError
from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.errors import body_error, excerpt, invalid_answer, make_error
from yiemagent.llm.wire_json import raw_decode
from yiemagent.messages import AssistantMessage
from yiemagent.net.errors import HttpAborted, HttpBodyTooLarge, HttpConnectionError, HttpError, HttpTimeout

if TYPE_CHECKING:
    from yiemagent.net.response import HttpResponse

__all__ = ["Decoder", "read_answer", "transport_error"]

_AFTER_END = 2.0
"""Seconds to wait for what may follow an announced end: usage, and the end of the body."""
_MARGIN = b" \t\r\n\xef\xbb\xbf"
_JSON = b"{["
_SSE = b"deir:"
"""First bytes of a line of server-sent events: data, event, id, retry, a comment."""


class Decoder(Protocol):
    """Turns one answer into a message; see ``ChatDecoder``."""

    builder: AnswerBuilder

    @property
    def is_finished(self) -> bool: ...
    def feed(self, data: str, event: str = ..., /) -> bool: ...
    def take_body(self, body: Any, /) -> None: ...
    def lost(self, error: LlmError, /) -> None: ...
    def finish(self) -> tuple[AssistantMessage, LlmError | None]: ...


def read_answer(
    response: HttpResponse, decoder: Decoder, idle: float | None, source: str
) -> Iterator[AssistantEvent]:
    """Feed the body of *response* to *decoder*, yielding its events as they come.

    The response is closed in the end, its connection kept if the body was read to its end.

    Raises:
        HttpAborted: The signal was aborted.
    """
    try:
        first = _first_bytes(response)
        begin = first.lstrip(_MARGIN)[:1]
        if begin and begin in _JSON:
            _read_json(first + response.read(), decoder, source)
        elif begin and begin in _SSE:
            yield from _read_events(response, decoder, idle, first, source)
        elif begin or response.content_type != "text/event-stream":
            said = excerpt(first) or "an empty body"
            decoder.lost(invalid_answer(source, f"neither JSON nor server-sent events: {said}"))
    except HttpAborted:
        raise
    except HttpError as error:
        decoder.lost(transport_error(error, source, begun=True))
    finally:
        response.close()
    yield from decoder.builder.drain()


def transport_error(error: HttpError, source: str, *, begun: bool) -> LlmError:
    """The error for what went wrong between us and the provider.

    Args:
        begun: Whether the answer had begun, so that breaking it off truncates it.
    """
    text = f"{source}: {error}"
    if isinstance(error, HttpTimeout):
        return make_error("timeout", text, retryable=error.phase != "total")
    if isinstance(error, HttpConnectionError):
        if begun:
            return make_error("stream_truncated", text, retryable=True)
        return make_error("connection_failed", text, retryable=error.cause != "tls")
    if isinstance(error, HttpBodyTooLarge):
        return invalid_answer(source, str(error), retryable=False)
    return make_error("bad_request", text, status=getattr(error, "status", None))


def _first_bytes(response: HttpResponse) -> bytes:
    first = response.read_some()
    while first and not first.lstrip(_MARGIN):
        more = response.read_some()
        if not more:
            break
        first += more
    return first


def _read_json(data: bytes, decoder: Decoder, source: str) -> None:
    try:
        body, _ = raw_decode(data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").lstrip())
    except (ValueError, RecursionError) as error:
        decoder.lost(invalid_answer(source, f"JSON that ends early or is broken ({error}): {excerpt(data)}"))
        return
    decoder.take_body(body)


def _read_events(
    response: HttpResponse, decoder: Decoder, idle: float | None, first: bytes, source: str
) -> Iterator[AssistantEvent]:
    def patience() -> float | None:
        if decoder.is_finished:
            return _AFTER_END if idle is None else min(idle, _AFTER_END)
        return idle

    from yiemagent.net.sse import SseParser, read_event_batches

    builder = decoder.builder
    for batch in read_event_batches(response, SseParser(), patience, first):
        for event in batch:
            if event.event == "error" and _is_prose(event.data):
                decoder.lost(body_error(event.data, source))
                return
            if decoder.feed(event.data, event.event):
                response.finish()
                return
        if builder.events:
            yield from builder.drain()


def _is_prose(data: str) -> bool:
    """Whether gateways said what went wrong in words: no dialect has an object for that."""
    text = data.strip()
    return bool(text) and text[0] not in "{["
