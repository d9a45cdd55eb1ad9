"""Hearing of changes: ``subscriptions/listen`` of modern servers, ``resources/subscribe`` of older ones.

A subscription never starts a server again by itself; it goes on with the next connection that
a call makes.

Source: protocol 2026-07-28 "Subscriptions", 2025-11-25 "Resources"; E-15.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpError, RunAborted
from yiemagent.mcp.call import Call
from yiemagent.mcp.calls import Calls
from yiemagent.mcp.jsonrpc import METHOD_NOT_FOUND, Message, error_of, result_of
from yiemagent.mcp.link import ServerLink
from yiemagent.mcp.notices import Notices
from yiemagent.mcp.waiting import Outcome, wait_for

__all__ = ["Subscription", "Subscriptions"]

logger = logging.getLogger(__name__)

RETRY_SECONDS = (1.0, 60.0)
"""First and longest pause before a stream that the server ended is opened again."""
_FILTERS = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}


class Subscription:
    """Something that is listened to until it is closed; works in a ``with`` block too."""

    def __init__(self, end: Callable[[], object] | None = None) -> None:
        self._end = end

    def close(self) -> None:
        """Hear no more. Idempotent, from any thread, never waits for the server."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Subscriptions:
    """What one client listens to.

    Args:
        link: Where the streams go.
        calls: Where requests go.
        notices: Where notifications arrive.
    """

    def __init__(self, link: ServerLink, calls: Calls, notices: Notices) -> None:
        self._link = link
        self._calls = calls
        self._notices = notices
        # Guards _open. Reentrant: a client that is collected anywhere closes what it listens to.
        self._lock = threading.RLock()
        self._open: set[_Listening | _Subscribed] = set()

    def lists(self, names: Iterable[str], call: Call) -> Subscription:
        """Hear of changes of the lists; counted by ``Notices.changes``.

        Older servers tell them unasked, so nothing is opened for them, nor for lists of which the
        server says that it does not tell.
        """
        session = self._calls.session(call)
        told = [name for name in names if _tells_changes(session.server.capabilities, name)]
        if not told or not session.era.request_meta:
            return Subscription()
        return self._listen({_FILTERS[name]: True for name in told}, call)

    def resource(self, uri: str, callback: Callable[[str], object], call: Call) -> Subscription:
        """Have *callback* called with the URI, on a worker, whenever the resource was updated.

        Raises:
            McpError: The server does not offer it.
        """
        session = self._calls.session(call)
        withdraw = self._notices.watch(uri, callback)
        try:
            if session.era.request_meta:
                subscription = self._listen({"resourceSubscriptions": [uri]}, call)
            else:
                result_of(self._calls.request("resources/subscribe", {"uri": uri}, call)[1])
                subscription = self._keep(_Subscribed(self._calls, uri))
        except BaseException:
            withdraw()
            raise

        def end() -> None:
            withdraw()
            subscription.close()

        return Subscription(end)

    def _listen(self, wanted: Mapping[str, Any], call: Call) -> Subscription:
        listening = _Listening(self._link, self._notices, wanted)
        subscription = self._keep(listening)
        try:
            wait_for(listening.acknowledged, call.deadline, call.signal, "subscribing")
        except BaseException:
            subscription.close()
            raise
        return subscription

    def _keep(self, member: _Listening | _Subscribed) -> Subscription:
        with self._lock:
            self._open.add(member)

        def end() -> None:
            with self._lock:
                known = member in self._open
                self._open.discard(member)
            if known:  # Else it was ended with the others, or belongs to the parent of a forked child.
                member.stop()

        return Subscription(end)

    def reconnected(self) -> None:
        """The client is making a new connection; returns at once."""
        with self._lock:
            members = list(self._open)
        for member in members:
            member.reconnected()

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            members, self._open = list(self._open), set()
        for member in members:
            member.stop()

    def forget(self) -> None:
        """Forget the parent's streams in a forked child."""
        self._lock = threading.RLock()
        self._open = set()


def _tells_changes(capabilities: Mapping[str, Any], name: str) -> bool:
    declared = capabilities.get(name)
    return isinstance(declared, Mapping) and declared.get("listChanged") is True


class _Subscribed:
    """A resource that an older server was asked to watch."""

    def __init__(self, calls: Calls, uri: str) -> None:
        self._calls = calls
        self._uri = uri

    def stop(self) -> None:
        self._calls.tell_later("resources/unsubscribe", {"uri": self._uri})

    def reconnected(self) -> None:
        self._calls.tell_later("resources/subscribe", {"uri": self._uri})


class _Listening:
    """One stream of ``subscriptions/listen``, kept open on a thread of its own."""

    def __init__(self, link: ServerLink, notices: Notices, wanted: Mapping[str, Any]) -> None:
        self._link = weakref.ref(link)
        self._notices = notices
        self._wanted = dict(wanted)
        self._signal = AbortSignal()
        self._connected: Outcome[None] = Outcome()
        self.acknowledged: Outcome[None] = Outcome()
        threading.Thread(target=self._run, name="yiemagent-mcp-listen", daemon=True).start()

    def stop(self) -> None:
        self._signal.abort("the subscription was closed")
        self._connected.settle(None)

    def reconnected(self) -> None:
        self._connected.settle(None)

    def _run(self) -> None:
        pause, longest = RETRY_SECONDS
        while True:
            self._connected = Outcome()
            # Looked at behind it: whoever ends this comes before the look, or wakes the new one.
            if self._signal.aborted:
                return
            heard = self._listen_once()
            if heard is None:
                return
            if self._has_connection():
                self._signal.wait(pause)
                pause = RETRY_SECONDS[0] if heard else min(pause * 2, longest)
            else:
                self._connected.wait()  # until the next call connects, or the end
            self._notices.suspect()

    def _has_connection(self) -> bool:
        link = self._link()
        return link is not None and link.current is not None

    def _listen_once(self) -> bool | None:
        """Listen until the stream ends; whether anything was heard, None when it is over for good."""
        link = self._link()
        if link is None or link.closed:
            return None
        heard: list[Message] = []

        def hear(message: Message) -> None:
            heard[:] = [message]
            if message.get("method") == "notifications/subscriptions/acknowledged":
                self._check(message)
            else:
                self._notices.take(message)

        params = {"notifications": self._wanted}
        try:
            response = link.stream("subscriptions/listen", params, self._signal, hear)
        except RunAborted:
            return None
        except McpError as exc:
            logger.debug("subscription=%r | the stream ended: %s", self._wanted, exc)
            return bool(heard)
        error = error_of(response)
        if error is None:
            return bool(heard)
        logger.warning("subscription=%r | refused: %s", self._wanted, error.message)
        if not self.acknowledged.done:
            self.acknowledged.fail(error.exception())
            return None
        return None if error.code == METHOD_NOT_FOUND else bool(heard)

    def _check(self, message: Message) -> None:
        params = message.get("params")
        granted = params.get("notifications") if isinstance(params, Mapping) else None
        granted = granted if isinstance(granted, Mapping) else {}
        missing = [name for name in self._wanted if not granted.get(name)]
        if missing:
            logger.warning("subscription=%r | the server does not tell: %s", self._wanted, ", ".join(missing))
        self.acknowledged.settle(None)
