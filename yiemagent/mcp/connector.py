"""Making the session with one server: once for all threads, again when it was lost, anew after a fork.

Source: issue 5 part 6; field problems 2-4, 23, 24, 30, 31, 49.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
from collections.abc import Callable
from typing import Protocol

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpError, McpProtocolError, McpTimeout, RunAborted
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.eras import LATEST_LEGACY, MODERN_VERSIONS
from yiemagent.mcp.handshake import Handshake
from yiemagent.mcp.session import Session
from yiemagent.mcp.transport import Connection, Receiver, RequestRefused, Transport
from yiemagent.mcp.waiting import Outcome, wait_for
from yiemagent.mcp.workers import Workers

__all__ = ["Connector", "SessionOwner"]

logger = logging.getLogger(__name__)

_NO_GUESS = "no guess"
"""Instead of a version: the failure stands."""

_known_eras: dict[str, str] = {}
"""The version that each ``Transport.era_key`` speaks, for this process."""


class SessionOwner(Protocol):
    """Who the sessions are for."""

    def prepare(self, session: Session, deadline: Deadline, signal: AbortSignal) -> None:
        """Ready a new session before anybody gets it; may talk to the server."""

    def announce(self) -> None:
        """A new session is there; returns at once."""


class _Retry(Exception):
    """The thread that connected gave up for reasons of its own: its deadline, abort or Ctrl-C."""


class _Attempt:
    """One thread's try to connect, which the others wait for."""

    def __init__(self, signal: AbortSignal | None) -> None:
        self.signal = AbortSignal(signal)
        self.outcome: Outcome[Session] = Outcome()


class Connector:
    """Holds the session, and makes it when it is needed. Any thread may call any method.

    Args:
        transport: How to reach the server.
        handshake: How to open the conversation.
        receiver: Gives the receiver of a new connection.
        owner: Who readies each session; a weak reference, so that a client is collected without ado.
        max_restarts: How many connections in a row may be made without one success; None: any.
        close_timeout: Seconds for a server whose handshake failed to end in order.
    """

    def __init__(
        self,
        transport: Transport,
        handshake: Handshake,
        *,
        receiver: Callable[[], Receiver],
        owner: Callable[[], SessionOwner | None],
        max_restarts: int | None,
        close_timeout: float,
    ) -> None:
        self._transport = transport
        self._handshake = handshake
        self._label = handshake.label
        self._receiver = receiver
        self._owner = owner
        self._max_restarts = max_restarts
        self._close_timeout = close_timeout
        self._closers = Workers("mcp-closer", threads=4)
        # Guards all that follows. Reentrant: a signal handler or a finalizer may close the client.
        self._lock = threading.RLock()
        self._session: Session | None = None
        self._attempt: _Attempt | None = None
        self._closed = False
        self._version: str | None = None
        self._fruitless = 0
        self._last_failure = ""

    @property
    def current(self) -> Session | None:
        """The session that is there now, without making one."""
        session = self._session
        return session if session is not None and session.connection.alive else None

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def session(self, deadline: Deadline, signal: AbortSignal | None) -> Session:
        """The session, made now if there is none.

        Raises:
            McpTimeout, RunAborted: The wait for it ended.
            McpConnectionError: The server cannot be reached, or this client was closed.
            McpError: The server refuses the handshake.
        """
        while True:
            mine: _Attempt | None = None
            # The block begins before the others can see the attempt: Ctrl-C must not come in between.
            try:
                with self._lock:
                    session = self._session
                    if session is not None and session.connection.alive:
                        return session
                    if self._closed:
                        raise McpConnectionError(f"the client of {self._label} was closed; make a new one")
                    others = self._attempt
                    if others is None:
                        self._count_connection()
                        mine = _Attempt(signal)
                        self._attempt = mine
                if mine is not None:
                    return self._connect(mine, deadline)
            except BaseException as exc:
                if mine is not None:
                    self._give_up(mine, exc)
                    if isinstance(exc, RunAborted) and self._closed:
                        raise McpConnectionError(f"the client of {self._label} was closed") from exc
                raise
            assert others is not None
            with contextlib.suppress(_Retry):
                return wait_for(others.outcome, deadline, signal, f"connecting to {self._label}")

    def upcoming(self, connection: Connection, deadline: Deadline) -> Session | None:
        """The session of *connection*, waited for while its handshake is not quite over."""
        attempt, session = self._attempt, self._session
        if (session is None or session.connection is not connection) and attempt is not None:
            with contextlib.suppress(_Retry):
                session = wait_for(attempt.outcome, deadline, None, f"connecting to {self._label}")
        return session

    def _count_connection(self) -> None:
        """Fail fast when the server was lost too often in a row. Under the lock."""
        most = self._max_restarts
        if most is not None and self._fruitless > most:
            raise McpConnectionError(
                f"{self._label} was lost {self._fruitless} times without answering a call and is not started "
                f"again (max_restarts={most}); make a new client to try once more. The last time: "
                f"{self._last_failure}"
            )
        self._fruitless += 1

    def succeeded(self) -> None:
        """Count from 0 again: the server has done something."""
        self._fruitless = 0

    def _connect(self, attempt: _Attempt, deadline: Deadline) -> Session:
        session = self._open(deadline, attempt.signal)
        with self._lock:
            self._session = session
            closed = self._closed
            if closed:
                self._session = None
            self._attempt = None
        if closed:
            self.close_later(session.connection)
            raise McpConnectionError(f"the client of {self._label} was closed")
        attempt.outcome.settle(session)
        attempt.signal.detach()
        owner = self._owner()
        if owner is not None:
            owner.announce()
        return session

    def _give_up(self, attempt: _Attempt, error: BaseException) -> None:
        """Let the others try, or fail with them where the server is to blame."""
        with self._lock:
            if self._attempt is attempt:
                self._attempt = None
            self._last_failure = str(error)
        own = not isinstance(error, McpError) or isinstance(error, McpTimeout)
        attempt.outcome.fail(_Retry() if own else copy.copy(error))
        attempt.signal.detach()

    def _open(self, deadline: Deadline, signal: AbortSignal) -> Session:
        key = self._transport.era_key
        known = self._version if key is None else _known_eras.get(key, self._version)
        wanted = self._handshake.wanted
        if known not in wanted and wanted:
            known = None
        try:
            session = self._shake_hands(deadline, signal, known)
        except McpError as exc:
            guess = self._other_guess(exc, known)
            if guess is _NO_GUESS:
                raise
            logger.debug("server=%s | shaking hands once more: %s", self._label, exc)
            session = self._shake_hands(deadline, signal, guess)
        self._version = session.era.version
        if key is not None:
            _known_eras[key] = session.era.version
        return session

    def _other_guess(self, error: McpError, known: str | None) -> str | None:
        """What to try after a failed handshake: a version, None to ask the server, or ``_NO_GUESS``."""
        if not {LATEST_LEGACY, *MODERN_VERSIONS}.issubset(self._handshake.wanted):
            return _NO_GUESS
        if known is not None:
            # What it spoke the last time it may speak no more.
            return None if _says_no(error) else _NO_GUESS
        lost = isinstance(error, McpConnectionError) and not isinstance(error, RequestRefused)
        # A program that dies of a request before initialize is an old one: start it again without.
        return LATEST_LEGACY if lost and self._transport.era_key is None else _NO_GUESS

    def _shake_hands(self, deadline: Deadline, signal: AbortSignal, known: str | None) -> Session:
        connection = self._transport.connect(self._receiver(), deadline=deadline, signal=signal)
        try:
            session = self._handshake.open(connection, deadline, signal, known)
            owner = self._owner()
            if owner is not None:
                owner.prepare(session, deadline, signal)
        except BaseException:
            self.close_later(connection)
            raise
        return session

    def forget_version(self) -> None:
        """Ask the server again what it speaks, at the next connection."""
        self._version = None
        if self._transport.era_key is not None:
            _known_eras.pop(self._transport.era_key, None)

    def close_later(self, connection: Connection) -> None:
        """Close without making the caller, who may just have aborted, wait for the server."""
        self._closers.start(lambda: connection.close(self._close_timeout))

    def drop(self, session: Session) -> None:
        """Give up *session*; the next call makes a new one."""
        with self._lock:
            if self._session is session:
                self._session = None
        self.close_later(session.connection)

    def failed(self, error: McpConnectionError, connection: Connection) -> bool:
        """Remember why *connection* failed, and forget it when it is over; tells whether it was ours."""
        with self._lock:
            self._last_failure = str(error)
            mine = self._session is not None and self._session.connection is connection
            if mine and not connection.alive:
                self._session = None
        return mine

    def close(self, timeout: float) -> None:
        """Close for good. Idempotent, from any thread; calls in flight fail at once."""
        with self._lock:
            self._closed = True
            session, self._session = self._session, None
            attempt = self._attempt
        if attempt is not None:
            attempt.signal.abort("the client was closed")
        if session is not None:
            session.connection.close(timeout)

    def forget(self) -> None:
        """Forget the parent's session in a forked child."""
        self._lock = threading.RLock()
        session, self._session = self._session, None
        self._attempt = None
        self._fruitless = 0
        self._closers.forget()
        if session is not None:
            session.connection.abandon()


def _says_no(error: McpError) -> bool:
    """Whether the server is there and does not understand us."""
    if isinstance(error, RequestRefused):
        return error.status in (400, 404, 405, 406, 415, 422)
    return type(error) is McpError or isinstance(error, McpProtocolError)
