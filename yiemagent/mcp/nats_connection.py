"""One live connection to a subject: the half of the thread that asks and waits."""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpTimeout, RunAborted
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.jsonrpc import Message, decode, encode, id_key, kind_of, make_notification
from yiemagent.mcp.nats_desk import NatsCall, NatsDesk, NatsTarget, Outgoing
from yiemagent.mcp.nats_loop import PrivateLoop
from yiemagent.mcp.transport import OnMessage, Receiver, RequestRefused

__all__ = ["NatsConnection"]

logger = logging.getLogger(__name__)

SENDER_HEADER = "Yiem-Sender"
NO_RESPONDERS = "503"


class NatsConnection:
    """See ``Connection``. It stays alive while the link is being made again.

    A loss of the link fails the requests that were sent, at once; new ones wait for the link, at
    most ``dial_timeout``.
    """

    def __init__(self, target: NatsTarget, loop: PrivateLoop, receiver: Receiver) -> None:
        self._target = target
        self._loop = loop
        self._receiver = receiver
        # Guards that the end is begun once, and the lease of the loop given back once. Reentrant: a
        # signal handler or a finalizer may close.
        self._lock = threading.RLock()
        self._gone: str | None = None
        self._desk = NatsDesk(target, loop)
        self._collected: weakref.finalize[[], NatsConnection] | None = None

    def open(self, deadline: Deadline, signal: AbortSignal | None) -> None:
        """Dial; called once, before anything else."""
        label = self._target.label
        try:
            self._loop.call(self._desk.link.open, deadline.remaining(), signal)
        except TimeoutError:
            raise McpTimeout(f"could not reach {label} within {deadline.timeout:g} s") from None
        except McpConnectionError as exc:
            raise McpConnectionError(f"could not reach {label}: {exc}") from exc
        self._collected = weakref.finalize(self, self._desk.leave)
        self._collected.atexit = False

    # --- Connection

    @property
    def alive(self) -> bool:
        """Whether a new exchange may begin; True also while the link is being made again."""
        return self._gone is None and self._loop.ours

    def established(self, version: str) -> None:
        """Nothing depends on the version here."""

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
        if signal is not None:
            signal.raise_if_aborted()
        if deadline.expired:
            raise self._timeout(request, deadline)
        call = self._make_call(request, headers)
        self._desk.calls[call.inbox] = call
        withdraw = None if signal is None else signal.on_abort(call.flag.set)
        try:
            self._post(self._desk.begin, call)
            return self._await(call, request, deadline, signal, on_message)
        except McpConnectionError:
            raise
        except BaseException as exc:
            self._cancel(call, request, exc)
            raise
        finally:
            if withdraw is not None:
                withdraw()
            self._desk.calls.pop(call.inbox, None)
            call.flag.close()

    def send(
        self,
        message: Message,
        *,
        headers: Mapping[str, str],
        deadline: Deadline,
        signal: AbortSignal | None = None,
    ) -> None:
        """See ``Connection.send``."""
        method = str(message.get("method", "the response"))
        outgoing = Outgoing("", method, encode(message), self._headers(headers))
        self._check_open()
        try:
            self._loop.call(functools.partial(self._desk.publish, outgoing), deadline.remaining(), signal)
        except TimeoutError:
            raise McpTimeout(f"could not send {method} to {self._target.label} in time") from None

    def close(self, timeout: float) -> None:
        """See ``Connection.close``."""
        text = f"the connection to {self._target.label} was closed"
        with self._lock:
            if self._gone is not None:
                return
            self._gone = text
        if self._collected is not None:
            self._collected.detach()
        self._desk.fail_all(McpConnectionError(text))
        if not self._loop.ours:
            return
        try:
            if self._loop.inside:
                self._loop.start(self._desk.link.close())
            else:
                self._loop.call(self._desk.link.close, timeout)
        except TimeoutError:
            logger.debug("server=%s | did not close within %s s", self._target.label, timeout)
        finally:
            self._loop.release()

    def abandon(self) -> None:
        """See ``Connection.abandon``; the loop lets go of the socket by itself."""
        self._gone = f"the connection to {self._target.label} belongs to the process before the fork"
        self._lock = threading.RLock()
        if self._collected is not None:
            self._collected.detach()

    # --- the caller's thread

    def _check_open(self) -> None:
        if self._gone is not None:
            raise McpConnectionError(self._gone)
        if not self._loop.ours:
            raise McpConnectionError(
                f"the connection to {self._target.label} belongs to the process before the fork"
            )

    def _post(self, callback: Any, *args: Any) -> None:
        self._check_open()
        try:
            self._loop.post(callback, *args)
        except RuntimeError as exc:  # closed by another thread meanwhile
            raise McpConnectionError(f"the connection to {self._target.label} was closed") from exc

    def _make_call(self, request: Message, headers: Mapping[str, str]) -> NatsCall:
        call = NatsCall(self._desk.new_inbox(), request["method"], encode(request), self._headers(headers))
        client = self._desk.link.client
        if client is not None:
            self._desk.check_size(call, client)
        return call

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, SENDER_HEADER: self._target.sender_id}

    def _await(
        self,
        call: NatsCall,
        request: Message,
        deadline: Deadline,
        signal: AbortSignal | None,
        on_message: OnMessage,
    ) -> Message:
        while True:
            while call.items:
                response = self._read(call.items.popleft(), request, on_message)
                if response is not None:
                    return response
            if signal is not None:
                signal.raise_if_aborted()
            if not call.flag.wait(deadline.remaining()) and deadline.expired and not call.items:
                raise self._timeout(request, deadline)

    def _read(self, item: Any, request: Message, on_message: OnMessage) -> Message | None:
        """Take one NATS message; returns the response when it holds it."""
        if isinstance(item, Exception):
            raise item
        if not item.data and item.headers and item.headers.get("Status") == NO_RESPONDERS:
            raise RequestRefused(f"no MCP server listens on {self._target.label}", status=503)
        response = None
        for message in decode(item.data):
            kind = kind_of(message)
            if kind == "notification":
                on_message(message)
            elif kind == "request":
                self._receiver.receive(self, message)
            elif kind == "response" and id_key(message.get("id")) in (id_key(request["id"]), None):
                response = message
            else:
                logger.debug("server=%s | dropped a stray message", self._target.label)
        return response

    def _timeout(self, request: Message, deadline: Deadline) -> McpTimeout:
        waited = "in time" if deadline.timeout is None else f"within {deadline.timeout:g} s"
        client = self._desk.link.client
        text = f"{self._target.label} did not answer {request['method']} {waited}"
        if client is None:
            return McpTimeout(f"{text}; the link is down: {self._desk.link.why_down}")
        return McpTimeout(
            f"{text}; an answer over {client.max_payload:,} bytes (max_payload) cannot come over this server"
        )

    def _cancel(self, call: NatsCall, request: Message, cause: BaseException) -> None:
        if request["method"] == "initialize" or not self.alive:
            return
        reason = (cause.reason or "aborted") if isinstance(cause, RunAborted) else type(cause).__name__
        if isinstance(cause, McpTimeout):
            reason = "the client's timeout passed"
        notice = make_notification("notifications/cancelled", {"requestId": request["id"], "reason": reason})
        headers = {**call.headers, "Mcp-Method": "notifications/cancelled"}
        headers.pop("Mcp-Name", None)
        try:
            self._loop.post(
                self._desk.withdraw, call, Outgoing(call.inbox, notice["method"], encode(notice), headers)
            )
        except RuntimeError:
            logger.debug("server=%s | closed before it could be told", self._target.label)
