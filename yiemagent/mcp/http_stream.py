"""Server-sent events as JSON-RPC messages, and the stream that ends with an answer.

Source: E-08 to E-10 and E-14; protocol 2025-11-25 "Resumability and Redelivery" and SEP-1699
(a server may end a connection and be polled).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from yiemagent.errors import McpConnectionError, McpProtocolError
from yiemagent.mcp.http_body import MAX_MESSAGE_BYTES
from yiemagent.mcp.http_link import HttpLink
from yiemagent.mcp.http_run import HttpRun
from yiemagent.mcp.jsonrpc import Message, decode
from yiemagent.net.errors import HttpError
from yiemagent.net.sse import SseEvent, SseParser

if TYPE_CHECKING:
    from yiemagent.net.response import HttpResponse

__all__ = ["AnswerStream", "messages_of"]

logger = logging.getLogger(__name__)

_PAUSE = 1.0
"""Seconds between the end of a stream and the GET that takes it up, unless the server says."""
_MOST_FRUITLESS = 5
"""Resumptions in a row that bring no event."""


def messages_of(events: Iterable[SseEvent], label: str) -> Iterator[Message]:
    """The messages of *events*; priming events and those of other types have none.

    What is no JSON is left out with a warning: it must not cost the answer that follows.
    """
    for event in events:
        if event.event != "message" or not event.data.strip():
            continue
        try:
            yield from decode(event.data)
        except McpProtocolError as exc:
            logger.warning("server=%s | left out an event: %s", label, exc)


class AnswerStream:
    """Reads the stream that a request was answered with until the response comes.

    Args:
        link: The way to the server.
        run: The exchange.
        take: Gets each message and returns it when it is the response.
        resume: Opens the rest of the stream after an event id; None when streams end for good.
    """

    def __init__(
        self,
        link: HttpLink,
        run: HttpRun,
        take: Callable[[Message], Message | None],
        resume: Callable[[str], HttpResponse] | None,
    ) -> None:
        self._link = link
        self._run = run
        self._take = take
        self._resume = resume
        self._parser = SseParser(MAX_MESSAGE_BYTES)

    def read(self, response: HttpResponse) -> Message:
        """Read *response*, and what continues it, to the answer; all are closed at the end.

        Raises:
            McpTimeout: The deadline passed.
            RunAborted: The exchange was aborted.
            McpConnectionError: The stream ended, and nothing continues it.
        """
        fruitless = 0
        while True:
            before = self._parser.last_event_id
            broke: McpConnectionError | None = None
            try:
                answer = self._follow(response)
            except McpConnectionError as exc:
                answer, broke = None, exc
            finally:
                response.close()
            if answer is not None:
                return answer
            fruitless = fruitless + 1 if self._parser.last_event_id == before else 0
            if self._resume is None or not self._parser.last_event_id or fruitless > _MOST_FRUITLESS:
                raise broke or self._ended("without a response")
            response = self._taken_up(self._resume)

    def _follow(self, response: HttpResponse) -> Message | None:
        """Read one stream; its response, or None when it ended without."""
        run, parser = self._run, self._parser
        try:
            while data := response.read_some(run.until):
                if (answer := self._first(parser.feed(data))) is not None:
                    response.finish()
                    return answer
                run.check()
        except HttpError as exc:
            raise self._link.translated(exc, run.deadline, run.signal) from exc
        return self._first(parser.finish())

    def _first(self, events: Iterable[SseEvent]) -> Message | None:
        """Hand on all messages of *events*; the response, if it is among them."""
        answer: Message | None = None
        for message in messages_of(events, self._run.label):
            answer = self._take(message) or answer
        return answer

    def _taken_up(self, resume: Callable[[str], HttpResponse]) -> HttpResponse:
        """Wait as long as the server wants, then open the rest of the stream."""
        for _ in range(_MOST_FRUITLESS):
            self._run.sleep(_PAUSE if self._parser.retry is None else self._parser.retry)
            try:
                response = resume(self._parser.last_event_id)
            except McpConnectionError as exc:
                logger.debug("server=%s error=%s | could not resume yet", self._run.label, exc)
                continue
            if response.status == 200 and response.content_type == "text/event-stream":
                return response
            response.close()
            raise self._ended(f"and refused to go on with it ({response.status})")
        raise self._ended("and cannot be reached to take it up again")

    def _ended(self, how: str) -> McpConnectionError:
        return McpConnectionError(
            f"{self._run.label} ended the stream of {self._run.method} {how}; "
            "it is not known whether it was carried out"
        )
