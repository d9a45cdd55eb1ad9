"""One request answered as server-sent events: progress as it comes, then the response."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Iterator
from typing import Any

from yiemagent.mcp.jsonrpc import Message
from yiemagent.mcp.serve_protocol import MessageServer
from yiemagent.mcp.serve_session import ServerSession
from yiemagent.mcp.serve_wire import encode_answer
from yiemagent.mcp.workers import Workers

__all__ = ["EventStream"]

logger = logging.getLogger(__name__)

KEEP_ALIVE = 5.0
"""Seconds of silence after which a comment is sent, which also finds out that nobody reads."""

HEADERS = [
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Accel-Buffering", "no"),
]


class EventStream:
    """Answers *request* on a worker and hands its messages to the web server as they come.

    Args:
        ends_with_stream: The client cancels by closing the stream (modern versions); else the call
            goes on without it.
    """

    def __init__(
        self,
        server: MessageServer,
        session: ServerSession,
        request: Message,
        workers: Workers,
        *,
        ends_with_stream: bool = False,
    ) -> None:
        self._server = server
        self._session = session
        self._request = request
        self._workers = workers
        self._ends_with_stream = ends_with_stream
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()

    def start(self, start_response: Callable[..., Any]) -> Iterator[bytes]:
        """Begin the call and the answer."""
        self._server.handle(self._session, self._request, self._messages.put, self._run)
        start_response("200 OK", list(HEADERS))
        return self._events()

    def _run(self, work: Callable[[], None]) -> bool:
        def body() -> None:
            try:
                work()
            finally:
                self._messages.put(None)  # a cancelled call ends without a response

        return self._workers.start(body)

    def _events(self) -> Iterator[bytes]:
        answered = False
        try:
            yield b": \n\n"
            while not answered:
                try:
                    message = self._messages.get(timeout=KEEP_ALIVE)
                except queue.Empty:
                    yield b": \n\n"
                    continue
                if message is None:
                    return
                answered = "method" not in message
                yield b"event: message\ndata: " + encode_answer(message) + b"\n\n"
        finally:
            if not answered and self._ends_with_stream:
                self._session.close("the client closed the stream")
