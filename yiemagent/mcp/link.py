"""Requests over a session that is there when it is needed, and the server's own requests.

Knows nothing of tools and resources. A request is sent once; it is repeated only where the
server certainly did not carry it out (an unknown session, a refused version), or where it only
lists something.

Source: issue 5 part 6; E-08, E-19, E-23; field problems 17, 18, 20, 23, 31, 49.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpError, RunAborted
from yiemagent.forking import forget_parent_on_fork
from yiemagent.mcp.answers import Answers, asks_the_user
from yiemagent.mcp.call import Call
from yiemagent.mcp.connector import Connector
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.eras import default_client_info, wanted_eras
from yiemagent.mcp.handshake import Handshake
from yiemagent.mcp.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION, Message, error_of, kind_of, make_request
from yiemagent.mcp.notices import Notices
from yiemagent.mcp.options import ClientOptions
from yiemagent.mcp.session import Offer, Session, request_headers
from yiemagent.mcp.transport import Connection, OnMessage, RequestRefused, SessionLost, Transport
from yiemagent.mcp.workers import Workers

__all__ = ["ServerLink"]

logger = logging.getLogger(__name__)

_LISTING = frozenset(
    ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover")
)
"""Requests that change nothing, so they may be sent again."""

ANSWER_TIMEOUT = 30.0
"""Seconds to hand an answer of ours to the server."""
QUESTIONS_AT_ONCE = 8
"""Requests of the server's that are answered at the same time."""


class _Ear:
    """The ``Receiver`` of a connection; holds the link weakly, so that both can be collected."""

    def __init__(self, link: weakref.ref[ServerLink]) -> None:
        self._link = link

    def receive(self, connection: Connection, message: Message) -> None:
        """See ``Receiver.receive``."""
        link = self._link()
        if link is not None:
            link.take(connection, message)

    def lost(self, connection: Connection, error: McpConnectionError) -> None:
        """See ``Receiver.lost``."""
        link = self._link()
        if link is not None:
            link.connection_lost(connection, error)


class ServerLink:
    """Sends requests over a session that is there when it is needed.

    Any thread may call any method. After a fork the child makes a session of its own.

    Args:
        transport: How to reach the server.
        options: How to behave.
        answers: What can be done for the server.
        notices: Where its notifications go.
    """

    def __init__(
        self, transport: Transport, options: ClientOptions, answers: Answers, notices: Notices
    ) -> None:
        self._options = options
        self._answers = answers
        self._notices = notices
        ids = itertools.count(1)
        self._next_id = ids.__next__
        self._running: dict[int, Deadline] = {}
        self._questions = Workers("mcp-question", threads=QUESTIONS_AT_ONCE, limit=1_000)
        self.label = options.name or transport.label
        """What messages call the server."""
        self.log_level = options.wanted_log_level
        """Least severe log message wanted, or None."""
        handshake = Handshake(
            wanted=wanted_eras(options.era),
            fallback=transport.fallback_era,
            offer=Offer(answers.capabilities(), options.client_info or default_client_info()),
            next_id=self._next_id,
            label=self.label,
            probe_timeout=options.probe_timeout,
        )
        self._on_session: weakref.WeakMethod[Callable[[], object]] | None = None
        this = weakref.ref(self)
        self._connector = Connector(
            transport,
            handshake,
            receiver=lambda: _Ear(this),
            owner=this,
            max_restarts=options.max_restarts,
            close_timeout=options.close_timeout,
        )
        forget_parent_on_fork(self)

    @property
    def current(self) -> Session | None:
        """The session that is there now, without making one."""
        return self._connector.current

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._connector.closed

    def session(self, deadline: Deadline, signal: AbortSignal | None) -> Session:
        """The session, made now if there is none; see ``Connector.session``."""
        return self._connector.current or self._connector.session(deadline, signal)

    def session_of(self, call: Call) -> Session:
        """The session that *call* had last if it is still there, else one within its limits."""
        session = call.session
        if session is None or not session.connection.alive:
            within = call.deadline.within(self._options.connect_timeout)
            session = call.session = self.session(within, call.signal)
        return session

    def on_session(self, callback: Callable[[], object]) -> None:
        """Call *callback*, a method, whenever a new session is there. It must return at once.

        Held weakly: what it belongs to holds this link.
        """
        self._on_session = weakref.WeakMethod(callback)

    def announce(self) -> None:
        """Tell whoever waits for a new session."""
        callback = None if self._on_session is None else self._on_session()
        if callback is not None:
            callback()

    def prepare(self, session: Session, deadline: Deadline, signal: AbortSignal) -> None:
        """Repeat the wish for logs, which a session forgets when it ends."""
        self._notices.suspect()
        if self.log_level is None or not session.era.handshake:
            return
        if "logging" in session.server.capabilities:
            params = {"level": self.log_level}
            call = Call(deadline, signal)
            response = self._send_once(session, "logging/setLevel", params, call, _ignore)
            error = error_of(response)
            if error is not None:
                logger.warning("server=%s | refused the log level: %s", self.label, error.message)

    # --- requests

    def exchange(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        call: Call,
        on_message: OnMessage,
        *,
        progress: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Session, Message]:
        """Send a request and return its response, and the session that carried it.

        Args:
            method: Of the request.
            params: Without the ``_meta`` that the era adds.
            call: Its session is tried first, if it is still there; it has the last one afterwards.
            on_message: As of ``Connection.exchange``.
            progress: Whether to ask for progress notifications.
            headers: More headers, where the wire has any.

        Raises:
            McpTimeout, RunAborted, McpConnectionError, McpProtocolError: As of
                ``Connection.exchange`` and ``session``.
        """
        repeated = False
        while True:
            session = self.session_of(call)
            try:
                response = self._send_once(session, method, params, call, on_message, progress, headers)
            except SessionLost as exc:
                logger.info("server=%s | the session is lost: %s", self.label, exc)
                self._connector.drop(session)
                if repeated:
                    raise
            except RequestRefused:
                raise
            except McpConnectionError as exc:
                self._connector.failed(exc, session.connection)
                if repeated or method not in _LISTING or session.connection.alive:
                    raise
            else:
                if repeated or not self._refuses_version(session, response):
                    if method not in _LISTING:
                        self._connector.succeeded()
                    return session, response
                self._connector.drop(session)
            repeated, call.session = True, None

    def _send_once(
        self,
        session: Session,
        method: str,
        params: Mapping[str, Any] | None,
        call: Call,
        on_message: OnMessage,
        progress: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        request_id = self._next_id()
        token = request_id if progress else None
        full = session.params(params, progress_token=token, log_level=self.log_level, meta=call.meta)
        own_headers = session.headers(method, full)
        self._running[request_id] = call.deadline
        try:
            return session.connection.exchange(
                make_request(request_id, method, full),
                headers={**own_headers, **headers} if headers else own_headers,
                deadline=call.deadline,
                signal=call.signal,
                on_message=on_message,
            )
        finally:
            self._running.pop(request_id, None)

    def _refuses_version(self, session: Session, response: Message) -> bool:
        """Whether the server turned out to speak another version than it said."""
        if "error" not in response:
            return False
        error = error_of(response)
        if error is None or error.code != UNSUPPORTED_PROTOCOL_VERSION or not session.era.request_meta:
            return False
        self._connector.forget_version()
        return True

    def stream(
        self,
        method: str,
        params: Mapping[str, Any],
        signal: AbortSignal,
        on_message: OnMessage,
    ) -> Message:
        """Send a request that is answered when its stream ends, over the session that is there.

        Raises:
            McpConnectionError: There is no session, or it was lost.
        """
        session = self.current
        if session is None:
            raise McpConnectionError(f"there is no connection to {self.label}")
        return self._send_once(session, method, params, Call(Deadline(None), signal), on_message)

    def notify(self, message: Message, deadline: Deadline) -> None:
        """Send a notification over the session that is there; without one it does nothing."""
        session = self.current
        if session is not None:
            headers = request_headers(session.era, message["method"], message.get("params"))
            session.connection.send(message, headers=headers, deadline=deadline)

    # --- what the connection tells

    def take(self, connection: Connection, message: Message) -> None:
        """Take what belongs to no exchange. Reader's thread."""
        if kind_of(message) == "request":
            if not self._questions.start(lambda: self._answer(connection, message)):
                logger.warning("server=%s | asks too much at once; dropped a request", self.label)
        else:
            self._notices.take(message)

    def _answer(self, connection: Connection, request: Message) -> None:
        method = str(request.get("method"))
        with self.clocks_held(asks_the_user(method)):
            response = self._answers.respond(request)
        deadline = Deadline(ANSWER_TIMEOUT)
        try:
            headers = {} if method == "ping" else self._answer_headers(connection, deadline)
            connection.send(response, headers=headers, deadline=deadline)
        except (McpError, RunAborted) as exc:
            level = logging.DEBUG if self.closed else logging.WARNING
            logger.log(level, "server=%s method=%s | could not answer: %s", self.label, method, exc)

    def _answer_headers(self, connection: Connection, deadline: Deadline) -> dict[str, str]:
        """The headers of an answer; a server may ask before our handshake is quite over."""
        session = self._connector.upcoming(connection, deadline)
        return {} if session is None else request_headers(session.era, "", None)

    @contextlib.contextmanager
    def clocks_held(self, held: bool) -> Iterator[None]:
        """Let the clocks of the calls in flight stand still while the user is asked."""
        deadlines = list(self._running.values()) if held else []
        for deadline in deadlines:
            deadline.hold(self._options.input_timeout)
        try:
            yield
        finally:
            for deadline in deadlines:
                deadline.release()

    def connection_lost(self, connection: Connection, error: McpConnectionError) -> None:
        """Forget a connection that ended by itself. Reader's thread."""
        if self._connector.failed(error, connection):
            logger.info("server=%s | the connection is lost: %s", self.label, error)
            self._notices.say(f"connection lost: {error}")

    # --- the end

    def close(self, timeout: float) -> None:
        """Close for good. Idempotent, from any thread; calls in flight fail at once."""
        self._questions.clear()
        self._connector.close(timeout)

    def _after_fork_in_child(self) -> None:
        self._running = {}
        self._questions.forget()
        self._notices.forget()
        self._connector.forget()


def _ignore(message: Message) -> None:
    logger.debug("method=%s | ignored", message.get("method"))
