"""A connection whose two sides speak at will over one channel: ids, answers, cancellation.

Shared by the wires that have one channel for everything (stdio, in memory). A wire derives
from ``DuplexConnection``, says how to post a message and how to shut, and calls ``deliver`` for
each message it reads and ``lose`` when it ends.

Source: E-07, E-08, E-11, E-14; field problems 9, 20-22, 26, 27.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpTimeout, RunAborted
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.jsonrpc import Message, id_key, kind_of, make_notification, owner_key
from yiemagent.mcp.transport import OnMessage, Receiver

__all__ = ["DuplexConnection"]

logger = logging.getLogger(__name__)

_ABORTED: Final = object()
_SLICE = 0.5
"""Longest single wait: a signal that comes just before it begins does not end it."""


class Lead(Protocol):
    """A wire that a caller who waits may read itself, for everybody.

    The caller begins before it posts, and ends before it runs anybody's callback.
    """

    def begin(self, leader: object) -> bool:
        """Become the thread that reads, if that is possible now; ``end`` must follow."""

    def read_while(self, wanted: Callable[[], bool], deadline: Deadline) -> None:
        """Read until *wanted* says no, the deadline may have passed, or ``interrupt``."""

    def end(self) -> None:
        """Let others read; ``hand_over`` must follow when others wait."""

    def hand_over(self) -> None:
        """Have somebody read who does nothing else, unless a caller reads."""

    def recover(self, leader: object) -> None:
        """Do what is left to do when an exception came between ``begin`` and the end of ``hand_over``."""

    def interrupt(self) -> None:
        """End ``read_while`` early, whoever is in it."""


class DuplexConnection(ABC):
    """The half of a ``Connection`` that is the same on every duplex wire.

    Args:
        receiver: Gets what belongs to no exchange.
        label: What messages call the server.
    """

    mirrors_headers = False
    """Such wires have no headers, so a tool may ask for any (see ``ToolCalls.list``)."""

    def __init__(self, receiver: Receiver, label: str) -> None:
        self._receiver = receiver
        self._label = label
        # Guards _gone. Reentrant: a signal handler or a finalizer may close.
        self._lock = threading.RLock()
        # Each use is one step of the dict. A call is entered before it looks at _gone, and the end sets
        # _gone before it looks at the calls.
        self._inboxes: dict[str | None, queue.SimpleQueue[Any]] = {}
        self._gone: str | None = None
        self._lead: Lead | None = None
        self.alive = True
        """Whether a new exchange may begin. An attribute, since every call looks at it."""

    # --- what a wire provides

    @abstractmethod
    def _post(self, message: Message) -> None:
        """Hand *message* to the wire without ever blocking."""

    @abstractmethod
    def _shut(self, timeout: float) -> None:
        """End the wire; called once."""

    def _detail(self) -> str:
        """What may explain a silence, to be appended to a message; empty or beginning with a space."""
        return ""

    # --- Connection

    def established(self, version: str) -> None:
        """Nothing depends on the version here."""
        return None

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
        key = str(request["id"])
        inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        if signal is not None:
            signal.raise_if_aborted()
        if deadline.expired:
            raise self._timeout(request, deadline)
        self._inboxes[key] = inbox  # First: a close that comes now must find it, or be found.
        if self._gone is not None:
            self._inboxes.pop(key, None)
            raise McpConnectionError(self._gone)
        withdraw = None if signal is None else signal.on_abort(functools.partial(self._interrupt, inbox))
        try:
            return self._post_and_await(inbox, request, deadline, signal, on_message)
        except McpConnectionError:
            raise
        except BaseException as exc:
            if self._lead is not None and not isinstance(exc, McpTimeout | RunAborted):
                self._lead.recover(inbox)  # Those come between turns; Ctrl-C comes anywhere.
            self._inboxes.pop(key, None)
            self._cancel(request, exc)
            raise
        finally:
            if withdraw is not None:
                withdraw()
            self._inboxes.pop(key, None)

    def _post_and_await(
        self,
        inbox: queue.SimpleQueue[Any],
        request: Message,
        deadline: Deadline,
        signal: AbortSignal | None,
        on_message: OnMessage,
    ) -> Message:
        sent = False
        while True:
            item = self._next(inbox, deadline, None if sent else request)
            sent = True
            if type(item) is dict and "method" not in item:
                return item
            if item is None:
                if deadline.expired:
                    raise self._timeout(request, deadline)
            elif isinstance(item, str):
                raise McpConnectionError(item)
            elif item is _ABORTED:
                if signal is not None:
                    signal.raise_if_aborted()
            else:
                on_message(item)
                if deadline.expired:
                    raise self._timeout(request, deadline)

    def _next(self, inbox: queue.SimpleQueue[Any], deadline: Deadline, request: Message | None) -> Any:
        """Post *request*, if there is one, and wait for what comes; None when nothing came in time."""
        lead = self._lead
        if lead is not None and lead.begin(inbox):
            try:
                if request is not None:
                    self._post(request)
                lead.read_while(inbox.empty, deadline)
            finally:
                lead.end()
                if len(self._inboxes) > 1:
                    lead.hand_over()
        elif request is not None:
            self._post(request)
        try:
            return inbox.get_nowait()
        except queue.Empty:
            left = deadline.remaining()
        try:
            return inbox.get(timeout=_SLICE if left is None else min(left, _SLICE))
        except queue.Empty:
            return None

    def _timeout(self, request: Message, deadline: Deadline) -> McpTimeout:
        waited = "in time" if deadline.timeout is None else f"within {deadline.timeout:g} s"
        return McpTimeout(f"{self._label} did not answer {request['method']} {waited}{self._detail()}")

    def _cancel(self, request: Message, cause: BaseException) -> None:
        if request["method"] == "initialize":
            return
        reason = (cause.reason or "aborted") if isinstance(cause, RunAborted) else type(cause).__name__
        if isinstance(cause, McpTimeout):
            reason = "the client's timeout passed"
        try:
            self._post(
                make_notification("notifications/cancelled", {"requestId": request["id"], "reason": reason})
            )
        except McpConnectionError as exc:
            logger.debug("server=%s | could not cancel: %s", self._label, exc)

    def _interrupt(self, inbox: queue.SimpleQueue[Any]) -> None:
        inbox.put(_ABORTED)
        if self._lead is not None:
            self._lead.interrupt()

    def send(
        self,
        message: Message,
        *,
        headers: Mapping[str, str],
        deadline: Deadline,
        signal: AbortSignal | None = None,
    ) -> None:
        """See ``Connection.send``; the message is handed over, so nothing is waited for."""
        if self._gone is not None:
            raise McpConnectionError(self._gone)
        self._post(message)

    def close(self, timeout: float) -> None:
        """See ``Connection.close``."""
        if self._end(f"the connection to {self._label} was closed"):
            self._shut(timeout)

    def abandon(self) -> None:
        """See ``Connection.abandon``."""
        self._lock = threading.RLock()
        self._gone = f"the connection to {self._label} belongs to the process before the fork"
        self.alive = False
        self._inboxes = {}

    # --- what a wire calls

    def deliver(self, message: Message) -> bool:
        """Hand on one message that came over the wire. Reader's thread; never blocks.

        Returns:
            False when it is no JSON-RPC message at all.
        """
        if "method" not in message and "id" in message:
            self._deliver_response(message)
            return True
        kind = kind_of(message)
        if kind == "response":
            self._deliver_response(message)
        elif kind == "request":
            self._receiver.receive(self, message)
        elif kind == "notification":
            owner = owner_key(message)
            inbox = None if owner is None else self._inboxes.get(owner)
            if inbox is None:
                self._receiver.receive(self, message)
            else:
                inbox.put(message)
        return kind != "invalid"

    def _deliver_response(self, message: Message) -> None:
        key = id_key(message.get("id"))
        inbox = self._inboxes.get(key)
        if inbox is None and key is None:
            # An error without an id answers a request that could not be read: ours, if only one waits.
            waiting = list(self._inboxes.values())
            inbox = waiting[0] if len(waiting) == 1 else None
        if inbox is None:
            logger.debug("server=%s id=%s | dropped a response nobody waits for", self._label, key)
        else:
            inbox.put(message)

    def fail(self, request_id: Any, text: str) -> None:
        """End one exchange because its request could not be handed over; others go on. Any thread."""
        inbox = self._inboxes.get(id_key(request_id))
        if inbox is not None:
            inbox.put(text)

    def lose(self, text: str) -> None:
        """End all exchanges because the wire ended by itself. Reader's thread."""
        if self._end(text):
            self._receiver.lost(self, McpConnectionError(text))

    def _end(self, text: str) -> bool:
        with self._lock:
            if self._gone is not None:
                return False
            self._gone = text
            self.alive = False
        for inbox in list(self._inboxes.values()):
            inbox.put(text)
        if self._lead is not None:
            self._lead.interrupt()
        return True
