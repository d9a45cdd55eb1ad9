"""The HTTP+SSE wire of protocol 2024-11-05: one stream down, a POST for each message up.

Source: protocol 2024-11-05 "HTTP with SSE"; issue 5 part 2 ("old HTTP+SSE servers too").
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpError, McpProtocolError, RunAborted
from yiemagent.forking import Home
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.duplex import DuplexConnection
from yiemagent.mcp.eras import era_of
from yiemagent.mcp.http_body import MAX_MESSAGE_BYTES, body_text
from yiemagent.mcp.http_link import HttpLink
from yiemagent.mcp.http_refusal import refused
from yiemagent.mcp.http_stream import messages_of
from yiemagent.mcp.jsonrpc import Message, encode
from yiemagent.mcp.transport import Receiver
from yiemagent.mcp.waiting import Outcome, wait_for
from yiemagent.net.errors import HttpError
from yiemagent.net.sse import SseEvent, SseParser

if TYPE_CHECKING:
    from yiemagent.net.response import HttpResponse

__all__ = ["SseConnection"]

logger = logging.getLogger(__name__)

_POST_SECONDS = 30.0
"""For handing over a message whose caller does not wait for that."""


class SseConnection(DuplexConnection):
    """See ``Connection``. One thread reads the stream; it holds the connection weakly.

    Args:
        link: The way to the server; not closed here.
        receiver: Gets what belongs to no exchange.
    """

    def __init__(self, link: HttpLink, receiver: Receiver) -> None:
        super().__init__(receiver, link.label)
        self._link = link
        self._stop = AbortSignal()
        self._endpoint = ""
        self._version_headers: Mapping[str, str] = {}
        self._reader: threading.Thread | None = None
        weakref.finalize(self, _end, self._stop, Home()).atexit = False

    def open(self, deadline: Deadline, signal: AbortSignal | None) -> None:
        """Open the stream and wait until the server says where messages go.

        Raises:
            McpConnectionError: It does not; or as ``HttpLink.open``.
        """
        endpoint: Outcome[str] = Outcome()
        args = (weakref.ref(self), self._link, self._stop, deadline, endpoint)
        self._reader = threading.Thread(target=_read, args=args, name="yiemagent-mcp-sse", daemon=True)
        self._reader.start()
        location = wait_for(endpoint, deadline, signal, f"opening the stream of {self._label}")
        target = urljoin(self._link.url, location)
        if urlsplit(target)[:2] != urlsplit(self._link.url)[:2]:
            raise McpConnectionError(
                f"{self._label} wants messages at {target!r}, which is another server; nothing is sent there"
            )
        self._endpoint = target

    def established(self, version: str) -> None:
        """Send the version along from now on, where that version has a header for it."""
        self._version_headers = {"MCP-Protocol-Version": version} if era_of(version).version_header else {}

    def send(
        self,
        message: Message,
        *,
        headers: Mapping[str, str],
        deadline: Deadline,
        signal: AbortSignal | None = None,
    ) -> None:
        """See ``Connection.send``; posted in this thread, so that what follows comes after it."""
        if not self.alive:
            raise McpConnectionError(f"the connection to {self._label} has ended")
        self._hand_over(encode(message), deadline, signal or AbortSignal())

    def _post(self, message: Message) -> None:
        # Some servers answer the POST of a request only when they are done with it.
        body = encode(message)
        key = message.get("id")

        def hand_over() -> None:
            try:
                self._hand_over(body, Deadline(_POST_SECONDS), self._stop)
            except RunAborted:
                pass
            except McpError as exc:
                logger.debug("server=%s error=%s | a message was not taken", self._label, exc)
                self.fail(key, str(exc))

        threading.Thread(target=hand_over, name="yiemagent-mcp-post", daemon=True).start()

    def _hand_over(self, body: bytes, deadline: Deadline, signal: AbortSignal) -> None:
        headers = {"Content-Type": "application/json", **self._version_headers}
        with self._link.open(
            "POST", headers=headers, body=body, deadline=deadline, signal=signal, url=self._endpoint
        ) as response:
            if response.status >= 300:
                raise refused(self._label, response.status, body_text(response, deadline.at))
            response.finish()

    def _shut(self, timeout: float) -> None:
        self._stop.abort("closed")
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join(timeout)


def _end(stop: AbortSignal, home: Home) -> None:
    """End the stream of a connection that was collected; in a forked child it is the parent's."""
    if home.here:
        stop.abort("collected")


def _read(
    connection: weakref.ref[SseConnection],
    link: HttpLink,
    stop: AbortSignal,
    deadline: Deadline,
    endpoint: Outcome[str],
) -> None:
    """The reader's thread."""
    text = f"{link.label} ended its stream"
    try:
        response = link.open("GET", headers={"Accept": "text/event-stream"}, deadline=deadline, signal=stop)
        with response:
            if response.status != 200 or response.content_type != "text/event-stream":
                raise refused(link.label, response.status, body_text(response, deadline.at))
            _follow(response, connection, endpoint)
    except (McpError, RunAborted) as exc:
        text = str(exc)
        endpoint.fail(exc)
    except HttpError as exc:
        text = f"{link.label}: {exc}"
    endpoint.fail(McpConnectionError(f"{text} without an endpoint event"))
    lost = connection()
    if lost is not None:
        lost.lose(text)


def _follow(response: HttpResponse, connection: weakref.ref[SseConnection], endpoint: Outcome[str]) -> None:
    parser = SseParser(MAX_MESSAGE_BYTES)
    while data := response.read_some():
        events = parser.feed(data)
        if not endpoint.done:
            _take_endpoint(events, endpoint)
        alive = connection()
        if alive is None:
            return
        for message in messages_of(events, alive._label):
            alive.deliver(message)
        del alive


def _take_endpoint(events: list[SseEvent], endpoint: Outcome[str]) -> None:
    for event in events:
        if event.event == "endpoint":
            endpoint.settle(event.data.strip())
            return
        if event.data.strip():
            raise McpProtocolError(f"the stream began with {event.event!r} instead of an endpoint event")
