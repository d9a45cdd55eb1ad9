"""A connection over Streamable HTTP, for both eras.

Each message of ours is a POST of its own; the answer is read in the thread that asked. A
session (2025-03-26 to 2025-11-25) adds an id, a GET stream, resumption and an end.

Source: issue 5 parts 1, 2 and 6; E-07 to E-14; field problems 17-21, 26-28; protocol versions
2025-03-26 to 2026-07-28, Streamable HTTP.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpError, McpProtocolError, McpTimeout, RunAborted
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.eras import era_of, is_modern
from yiemagent.mcp.http_body import body_text, read_body
from yiemagent.mcp.http_keeper import DeadlineKeeper
from yiemagent.mcp.http_link import HttpLink
from yiemagent.mcp.http_listener import Listener
from yiemagent.mcp.http_refusal import error_response, refused, says_session_lost
from yiemagent.mcp.http_run import HttpRun
from yiemagent.mcp.http_stream import AnswerStream
from yiemagent.mcp.jsonrpc import Message, decode, encode, id_key, kind_of, make_notification
from yiemagent.mcp.transport import OnMessage, Receiver, SessionLost
from yiemagent.net.errors import HttpError

if TYPE_CHECKING:
    from yiemagent.net.response import HttpResponse

__all__ = ["HttpConnection"]

logger = logging.getLogger(__name__)

_POST_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_SESSION_HEADER = "Mcp-Session-Id"
_ASKS_BACK = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests during which servers ask the client, some of them on the GET stream."""
_LISTEN_SECONDS = 0.5
"""How long such a request waits for the GET stream of a new session to stand."""
_CANCEL_SECONDS = 5.0


class HttpConnection:
    """See ``Connection``; the threads that call ``exchange`` read their own answers.

    Args:
        link: The way to the server; not closed here.
        receiver: Gets the server's requests and what comes on the GET stream.
    """

    def __init__(self, link: HttpLink, receiver: Receiver) -> None:
        self._link = link
        self._receiver = receiver
        self._label = link.label
        # Guards _gone, _closed, _runs and _cancelling. Reentrant: a signal handler or a finalizer may close.
        self._lock = threading.RLock()
        self._gone: McpConnectionError | None = None
        self._closed = False
        self._runs: dict[str | None, HttpRun] = {}
        self._cancelling: set[threading.Thread] = set()
        self._session_id: str | None = None
        self._version = ""
        self._keeps_session = False
        """Whether a version of the session protocol is spoken."""
        self._listener: Listener | None = None
        self._keeper = DeadlineKeeper()

    @property
    def alive(self) -> bool:
        """Whether a new exchange may begin."""
        return self._gone is None

    def exchange(
        self,
        request: Message,
        *,
        headers: Mapping[str, str],
        deadline: Deadline,
        signal: AbortSignal | None,
        on_message: OnMessage,
    ) -> Message:
        """See ``Connection.exchange``."""
        run = HttpRun(request, deadline, signal, on_message, self._label)
        try:
            run.check()
            with self._lock:
                self._runs[run.key] = run  # First: a close by this very thread must find it.
                self._check_alive()
            return self._ask(run, headers)
        except RunAborted:
            if run.early is not None:
                return run.early
            if self._closed:
                raise McpConnectionError(f"the connection to {self._label} was closed") from None
            if run.late:
                raise self._too_late(run) from None
            self._cancel(run, run.signal.reason or "aborted")
            raise
        except McpTimeout:
            raise self._too_late(run) from None
        except McpError:
            raise
        except BaseException as exc:
            self._cancel(run, type(exc).__name__)
            raise
        finally:
            if run.watched:
                self._keeper.forget(run)
            with self._lock:
                if self._runs.get(run.key) is run:
                    del self._runs[run.key]
            run.signal.detach()

    def send(
        self,
        message: Message,
        *,
        headers: Mapping[str, str],
        deadline: Deadline,
        signal: AbortSignal | None = None,
    ) -> None:
        """See ``Connection.send``."""
        self._check_alive()
        self._post(message, headers, deadline, signal or AbortSignal())

    def established(self, version: str) -> None:
        """See ``Connection.established``: a session begins to listen."""
        self._version = version
        # The plain dialect has no version and no session.
        self._keeps_session = bool(version) and not is_modern(version)
        if self._keeps_session and self._gone is None:
            self._listener = Listener(self, self._link)
            self._listener.start()

    def close(self, timeout: float) -> None:
        """See ``Connection.close``: requests that were cancelled are told, then the session is deleted."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._gone = self._gone or McpConnectionError(f"the connection to {self._label} was closed")
            runs, cancelling = list(self._runs.values()), list(self._cancelling)
        deadline = Deadline(timeout)
        listener = self._listener
        if listener is not None:
            listener.stop()
        for run in runs:
            run.signal.abort("closed")
        self._keeper.close()
        for thread in cancelling:
            if thread is not threading.current_thread():
                thread.join(deadline.remaining())
        self._delete_session(deadline)
        if listener is not None:
            listener.join(deadline.remaining() or 0)

    def abandon(self) -> None:
        """See ``Connection.abandon``."""
        self._lock = threading.RLock()
        self._closed = True
        self._gone = McpConnectionError(
            f"the connection to {self._label} belongs to the process before the fork"
        )
        self._runs, self._cancelling, self._listener = {}, set(), None
        self._keeper = DeadlineKeeper()

    # --- one exchange

    def _ask(self, run: HttpRun, headers: Mapping[str, str]) -> Message:
        if self._keeps_session and run.method in _ASKS_BACK:
            run.watched = True
            self._keeper.watch(run)
            self._await_listener(run)
        response = self._link.open(
            "POST",
            headers=self._headers(_POST_HEADERS, headers),
            body=encode(run.request),
            deadline=run.deadline,
            signal=run.signal,
            operation=run.operation,
            watched=run.watched,
            once=run.method == "tools/call",
        )
        try:
            if response.status >= 300:
                return self._refusal(response, run.until, may_be_error=True)
            if run.method == "initialize":
                self._session_id = response.headers.get(_SESSION_HEADER)
            if response.content_type == "text/event-stream":
                stream = AnswerStream(self._link, run, lambda m: self._take(m, run), self._resumption(run))
                return stream.read(response)
            return self._read_json(response, run)
        except HttpError as exc:
            raise self._link.translated(exc, run.deadline, run.signal) from exc
        finally:
            response.close()

    def _await_listener(self, run: HttpRun) -> None:
        listener = self._listener
        if listener is None or listener.settled.done:
            return
        forget = run.signal.on_abort(partial(listener.settled.settle, None))
        left = run.deadline.remaining()
        listener.settled.wait(_LISTEN_SECONDS if left is None else min(left, _LISTEN_SECONDS))
        forget()
        listener.settled.settle(None)

    def _resumption(self, run: HttpRun) -> Callable[[str], HttpResponse] | None:
        if not self._keeps_session:
            return None

        def resume(last_event_id: str) -> HttpResponse:
            headers = self.stream_headers(last_event_id)
            return self._link.open(
                "GET", headers=headers, deadline=run.deadline, signal=run.signal, watched=run.watched
            )

        return resume

    def _read_json(self, response: HttpResponse, run: HttpRun) -> Message:
        body = read_body(response, run.until)
        if response.content_type not in ("application/json", "") or not body:
            label = f"{self._label} ({response.content_type or 'no content type'})"
            raise refused(label, response.status, body.decode("utf-8", "replace"))
        answer: Message | None = None
        for message in decode(body):
            answer = self._take(message, run) or answer
        if answer is None:
            raise McpProtocolError(f"{self._label} answered {run.method} without a response to it")
        return answer

    def _take(self, message: Message, run: HttpRun) -> Message | None:
        """Hand on one message of a stream of *run*'s; return it when it is the response."""
        kind = kind_of(message)
        if kind == "response":
            key = id_key(message.get("id"))
            if key == run.key or key is None:
                return message
            logger.debug("server=%s id=%s | dropped a response to something else", self._label, key)
        elif kind == "request":
            self._receiver.receive(self, message)
        elif kind == "notification":
            run.on_message(message)
        return None

    def _post(
        self, message: Message, headers: Mapping[str, str], deadline: Deadline, signal: AbortSignal
    ) -> None:
        with self._link.open(
            "POST",
            headers=self._headers(_POST_HEADERS, headers),
            body=encode(message),
            deadline=deadline,
            signal=signal,
            operation=str(message.get("method", "response")),
        ) as response:
            if response.status >= 300:
                self._refusal(response, deadline.at, may_be_error=False)
            response.finish()

    def _refusal(self, response: HttpResponse, until: float | None, *, may_be_error: bool) -> Message:
        """The JSON-RPC error that came as a 4xx or 5xx; all else is raised."""
        status, text = response.status, body_text(response, until)
        if self._session_id is not None and says_session_lost(status, text):
            raise self._lose_session(status, text)
        error = error_response(text) if may_be_error else None
        if error is None:
            raise refused(self._label, status, text)
        return error

    def _lose_session(self, status: int, text: str) -> SessionLost:
        lost = SessionLost(f"{self._label} no longer knows the session ({status})", status=status, body=text)
        with self._lock:
            # Other exchanges go on: each hears for itself whether it was carried out.
            self._gone = self._gone or lost
            self._session_id = None
        if self._listener is not None:
            self._listener.stop()
        return lost

    def _check_alive(self) -> None:
        gone = self._gone
        if isinstance(gone, SessionLost):
            raise SessionLost(str(gone), status=gone.status, body=gone.body)
        if gone is not None:
            raise McpConnectionError(str(gone))

    # --- cancelling and ending

    def _too_late(self, run: HttpRun) -> McpTimeout:
        self._cancel(run, "the client's timeout passed")
        return run.timeout()

    def _cancel(self, run: HttpRun, reason: str) -> None:
        """Tell a session that the answer is no longer wanted; without one, the closed stream says it."""
        if not self._keeps_session:
            return
        params = {"requestId": run.request["id"], "reason": reason}
        note = make_notification("notifications/cancelled", params)

        def tell() -> None:
            try:
                self._post(note, {}, Deadline(_CANCEL_SECONDS), AbortSignal())
            except (McpError, RunAborted) as exc:
                logger.debug("server=%s error=%s | could not cancel", self._label, exc)
            finally:
                with self._lock:
                    self._cancelling.discard(thread)

        # The caller was promised to be free at once.
        thread = threading.Thread(target=tell, name="yiemagent-mcp-cancel", daemon=True)
        with self._lock:
            self._cancelling.add(thread)
        thread.start()

    def _delete_session(self, deadline: Deadline) -> None:
        if self._session_id is None or deadline.expired:
            return
        try:
            self._link.open(
                "DELETE",
                headers=self._headers({}, {}),
                deadline=deadline,
                signal=AbortSignal(),
                may_ask=False,
            ).close()
        except (McpError, RunAborted) as exc:
            logger.debug("server=%s error=%s | could not delete the session", self._label, exc)

    # --- the GET stream

    def heard(self, message: Message) -> None:
        """See ``Ear``. A response here is not by the book, but it is somebody's answer."""
        kind = kind_of(message)
        if kind in ("request", "notification"):
            self._receiver.receive(self, message)
        elif kind == "response":
            with self._lock:
                run = self._runs.get(id_key(message.get("id")))
            if run is not None:
                run.early = message
                run.signal.abort("answered on the GET stream")

    def stream_headers(self, last_event_id: str) -> Mapping[str, str]:
        """See ``Ear``."""
        resumed = {"Last-Event-ID": last_event_id} if last_event_id else {}
        return self._headers({"Accept": "text/event-stream"}, resumed)

    def _headers(self, ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
        headers = dict(ours)
        if self._version and era_of(self._version).version_header:
            headers["MCP-Protocol-Version"] = self._version
        if self._session_id is not None:
            headers[_SESSION_HEADER] = self._session_id
        headers.update(given)
        return headers
