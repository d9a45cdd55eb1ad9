"""The sessions of legacy clients over HTTP, which any process of a server can take up."""

from __future__ import annotations

import collections
import secrets
import threading
import weakref

from yiemagent.forking import forget_parent_on_fork
from yiemagent.mcp.eras import LEGACY_VERSIONS
from yiemagent.mcp.serve_session import ServerSession

__all__ = ["HttpSessions"]

KEPT = 1000
"""Sessions, and ended ids, that one process remembers."""


class HttpSessions:
    """Finds the session of a request.

    The id is the version and a random part. Nothing else has to be known, so a session that
    another process (or this one, before a restart) began is taken up by its id alone; only a
    cancellation must reach the process that runs the call. The id gives no rights: what needs
    protection belongs behind the authorization of the web server.
    """

    def __init__(self) -> None:
        self._clear()
        forget_parent_on_fork(self)

    def _clear(self) -> None:
        # Guards _known, _ended and _visitors.
        self._lock = threading.Lock()
        self._known: collections.OrderedDict[str, ServerSession] = collections.OrderedDict()
        self._ended: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._visitors: weakref.WeakSet[ServerSession] = weakref.WeakSet()

    _after_fork_in_child = _clear

    def visit(self) -> ServerSession:
        """A session for one request alone: a modern one, or the one that shakes hands."""
        session = ServerSession()
        with self._lock:
            self._visitors.add(session)
        return session

    def keep(self, session: ServerSession) -> str:
        """Remember a session whose handshake is done; returns its id."""
        session_id = f"{session.version}.{secrets.token_urlsafe(18)}"
        with self._lock:
            self._remember(session_id, session)
        return session_id

    def find(self, session_id: str) -> ServerSession | None:
        """The session of this id, or None when it cannot be one or was ended."""
        version = session_id.partition(".")[0]
        with self._lock:
            if session_id in self._ended or version not in LEGACY_VERSIONS:
                return None
            session = self._known.get(session_id)
            if session is None:
                session = ServerSession(version=version)
                self._remember(session_id, session)
            else:
                self._known.move_to_end(session_id)
        return session

    def end(self, session_id: str) -> None:
        """Forget a session for good and abort what runs in it."""
        with self._lock:
            session = self._known.pop(session_id, None)
            self._ended[session_id] = None
            while len(self._ended) > KEPT:
                self._ended.popitem(last=False)
        if session is not None:
            session.close()

    def close(self) -> None:
        """Abort what runs, in whatever session."""
        with self._lock:
            sessions = [*self._known.values(), *self._visitors]
        for session in sessions:
            session.close("the server stops")

    def _remember(self, session_id: str, session: ServerSession) -> None:
        self._known[session_id] = session
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
