"""The GET stream of an HTTP session: what the server says without being asked.

One daemon thread for each session reads it. It holds its connection weakly, so that a client
that nobody uses any more is collected, and it answers nothing itself.

Source: protocol 2025-03-26 to 2025-11-25, "Listening for Messages from the Server"; E-10, E-11.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpError, RunAborted
from yiemagent.forking import Home
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.http_body import MAX_MESSAGE_BYTES
from yiemagent.mcp.http_link import HttpLink
from yiemagent.mcp.http_stream import messages_of
from yiemagent.mcp.jsonrpc import Message
from yiemagent.mcp.waiting import Outcome
from yiemagent.net.errors import HttpError
from yiemagent.net.sse import SseParser

if TYPE_CHECKING:
    from yiemagent.net.response import HttpResponse

__all__ = ["Ear", "Listener"]

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


class Ear(Protocol):
    """What a listener needs of its connection."""

    def heard(self, message: Message) -> None:
        """Take one message of the stream; returns at once."""

    def stream_headers(self, last_event_id: str) -> Mapping[str, str]:
        """The headers of a GET."""


class Listener:
    """Reads the GET stream until it is stopped or its connection is gone.

    Args:
        ear: Held weakly.
        link: The way to the server.
    """

    def __init__(self, ear: Ear, link: HttpLink) -> None:
        self.settled: Outcome[None] = Outcome()
        """Settled once the server has answered the first GET, or will not."""
        self._home = Home()
        self._stop = AbortSignal()
        self._heard = 0
        self._link = link
        self._ear = weakref.ref(ear, lambda _: self.stop())
        self._thread = threading.Thread(target=self._run, name="yiemagent-mcp-listen", daemon=True)

    def start(self) -> None:
        """Begin to read; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the stream, from any thread; returns at once."""
        if self._home.here:
            self._stop.abort("closed")

    def join(self, timeout: float) -> None:
        """Wait until the thread is over; harmless from that thread itself."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._listen()
        except RunAborted:
            pass
        except Exception:
            logger.exception("server=%s | the reader of the GET stream failed", self._link.label)
        finally:
            self.settled.settle(None)

    def _listen(self) -> None:
        parser = SseParser(MAX_MESSAGE_BYTES)
        pause = _FIRST_PAUSE
        while not self._stop.aborted:
            before = self._heard, parser.last_event_id
            if not self._read_once(parser):
                return
            if (self._heard, parser.last_event_id) != before:
                wait, pause = _FIRST_PAUSE if parser.retry is None else parser.retry, _FIRST_PAUSE
            else:
                # A server that has nothing to say is not asked all the time, whatever it wishes.
                wait, pause = max(pause, parser.retry or 0), min(2 * pause, _LONGEST_PAUSE)
            if self._stop.wait(wait):
                return

    def _read_once(self, parser: SseParser) -> bool:
        """Read one stream to its end; whether another one is worth a try."""
        ear = self._ear()
        if ear is None:
            return False
        headers = ear.stream_headers(parser.last_event_id)
        del ear
        try:
            response = self._link.open(
                "GET", headers=headers, deadline=Deadline(None), signal=self._stop, may_ask=False
            )
            with response:
                if response.status != 200 or response.content_type != "text/event-stream":
                    logger.debug(
                        "server=%s status=%d | offers no GET stream", self._link.label, response.status
                    )
                    # An authorization may be renewed by a call; all else is a no.
                    return response.status in (401, 403, 429) or response.status >= 500
                self.settled.settle(None)
                self._read(response, parser)
        except RunAborted:
            return False
        except (McpError, HttpError) as exc:
            logger.debug("server=%s error=%s | the GET stream broke", self._link.label, exc)
        finally:
            self.settled.settle(None)
        return True

    def _read(self, response: HttpResponse, parser: SseParser) -> None:
        while data := response.read_some():
            for message in messages_of(parser.feed(data), self._link.label):
                ear = self._ear()
                if ear is None:
                    return
                self._heard += 1
                ear.heard(message)
                del ear
