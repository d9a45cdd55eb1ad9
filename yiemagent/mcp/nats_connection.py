"""One live connection to a subject: calls, their inboxes, and what can go wrong with them."""

from __future__ import annotations

import collections
import functools
import logging
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpConnectionError, McpError, McpTimeout, RunAborted
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.jsonrpc import Message, decode, encode, id_key, kind_of, make_notification
from yiemagent.mcp.nats_link import NatsLink, Subscribed
from yiemagent.mcp.nats_loop import PrivateLoop
from yiemagent.mcp.nats_native import Flag, make_flag
from yiemagent.mcp.nats_options import NatsOptions
from yiemagent.mcp.transport import OnMessage, Receiver, RequestRefused

__all__ = ["NatsConnection", "NatsTarget"]

logger = logging.getLogger(__name__)

SENDER_HEADER = "Yiem-Sender"
NO_RESPONDERS = "503"


@dataclass(frozen=True, slots=True)
class NatsTarget:
    """Where the requests of a connection go, and who sends them."""

    options: NatsOptions
    topic: str
    sender_id: str
    label: str


@dataclass(slots=True, eq=False)
class _Outgoing:
    """A message on its way to the subject."""

    inbox: str
    method: str
    payload: bytes
    headers: dict[str, str]
    published: bool = False

    def put(self, item: Any) -> None:
        """Nobody waits for what becomes of it."""


@dataclass(slots=True, eq=False)
class _Call(_Outgoing):
    """A request whose sender waits; its items are NATS messages, or the exception that ends it."""

    items: collections.deque[Any] = field(default_factory=collections.deque)
    flag: Flag = field(default_factory=make_flag)

    def put(self, item: Any) -> None:
        self.items.append(item)
        self.flag.set()


class NatsConnection:
    """See ``Connection``. It stays alive while the link is being made again.

    A loss of the link fails the requests that were sent, at once; new ones wait for the link, at
    most ``dial_timeout``.
    """

    def __init__(self, target: NatsTarget, loop: PrivateLoop, receiver: Receiver) -> None:
        self._target = target
        self._loop = loop
        self._receiver = receiver
        # Guards that the end is begun once, and the lease of the loop given back once.
        self._lock = threading.Lock()
        self._gone: str | None = None
        self._prefix = f"{target.options.inbox_prefix}.{secrets.token_hex(11)}."
        # By inbox. Every access is one operation of a dict, so that no lock is needed.
        self._calls: dict[str, _Call] = {}
        self._link = NatsLink(
            target.options,
            [Subscribed(f"{self._prefix}*", self._on_reply)],
            on_lost=self._on_lost,
            on_dropped=self._on_dropped,
            on_denied=self._on_denied,
        )

    def open(self, deadline: Deadline, signal: AbortSignal | None) -> None:
        """Dial; called once, before anything else."""
        label = self._target.label
        try:
            self._loop.call(self._link.open, deadline.remaining(), signal)
        except TimeoutError:
            raise McpTimeout(f"could not reach {label} within {deadline.timeout:g} s") from None
        except McpConnectionError as exc:
            raise McpConnectionError(f"could not reach {label}: {exc}") from exc

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
        self._calls[call.inbox] = call
        withdraw = None if signal is None else signal.on_abort(call.flag.set)
        try:
            self._post(self._begin, call)
            return self._await(call, request, deadline, signal, on_message)
        except McpConnectionError:
            raise
        except BaseException as exc:
            self._cancel(call, request, exc)
            raise
        finally:
            if withdraw is not None:
                withdraw()
            self._calls.pop(call.inbox, None)
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
        outgoing = _Outgoing("", method, encode(message), self._headers(headers))
        self._check_open()
        try:
            self._loop.call(functools.partial(self._publish, outgoing), deadline.remaining(), signal)
        except TimeoutError:
            raise McpTimeout(f"could not send {method} to {self._target.label} in time") from None

    def close(self, timeout: float) -> None:
        """See ``Connection.close``."""
        with self._lock:
            if self._gone is not None:
                return
            self._gone = f"the connection to {self._target.label} was closed"
        self._fail_all(McpConnectionError(self._gone))
        if not self._loop.ours:
            return
        try:
            if self._loop.inside:
                self._loop.start(self._link.close())
            else:
                self._loop.call(self._link.close, timeout)
        except TimeoutError:
            logger.debug("server=%s | did not close within %s s", self._target.label, timeout)
        finally:
            self._loop.release()

    def abandon(self) -> None:
        """See ``Connection.abandon``; the loop lets go of the socket by itself."""
        self._gone = f"the connection to {self._target.label} belongs to the process before the fork"
        self._lock = threading.Lock()
        self._calls = {}

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

    def _make_call(self, request: Message, headers: Mapping[str, str]) -> _Call:
        call = _Call(
            self._prefix + secrets.token_hex(8), request["method"], encode(request), self._headers(headers)
        )
        client = self._link.client
        if client is not None:
            self._check_size(call, client)
        return call

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, SENDER_HEADER: self._target.sender_id}

    def _check_size(self, call: _Outgoing, client: Any) -> None:
        """Refuse what would make the server close the connection of everybody on it (case E-18)."""
        # The server counts the headers, nats-py does not.
        size = len(call.payload) + 14 + sum(len(k) + len(v) + 4 for k, v in call.headers.items())
        if size > client.max_payload:
            raise McpError(
                f"{call.method} is {size:,} bytes long with its headers, but {self._target.options.label} "
                f"takes at most {client.max_payload:,} (max_payload): send less, or raise it on the server"
            )

    def _await(
        self,
        call: _Call,
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
        client = self._link.client
        text = f"{self._target.label} did not answer {request['method']} {waited}"
        if client is None:
            return McpTimeout(f"{text}; the link is down: {self._link.why_down}")
        return McpTimeout(
            f"{text}; an answer over {client.max_payload:,} bytes (max_payload) cannot come over this server"
        )

    def _cancel(self, call: _Call, request: Message, cause: BaseException) -> None:
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
                self._withdraw, call, _Outgoing(call.inbox, notice["method"], encode(notice), headers)
            )
        except RuntimeError:
            logger.debug("server=%s | closed before it could be told", self._target.label)

    # --- the loop's thread

    def _begin(self, call: _Call) -> None:
        self._loop.start(self._publish_or_fail(call))

    def _withdraw(self, call: _Call, notice: _Outgoing) -> None:
        if call.published and self._link.client is not None:
            self._loop.start(self._publish_or_fail(notice))
        call.published = True  # one that still waits for the link is not sent any more

    async def _publish_or_fail(self, call: _Outgoing) -> None:
        try:
            await self._publish(call)
        except McpError as exc:
            call.put(exc)
        except Exception as exc:
            call.put(McpConnectionError(f"could not send {call.method} to {self._target.label}: {exc}"))

    async def _publish(self, call: _Outgoing) -> None:
        client = self._link.client
        if client is None:
            client = await self._link.ready()
            self._check_size(call, client)
        if not call.published:
            call.published = True
            await client.publish(self._target.topic, call.payload, reply=call.inbox, headers=call.headers)

    async def _on_reply(self, message: Any) -> None:
        call = self._calls.get(message.subject)
        if call is not None:
            call.put(message)

    def _on_lost(self, error: McpConnectionError) -> None:
        self._fail_all(error)

    def _on_dropped(self, subject: str) -> None:
        call = self._calls.get(subject)
        if call is not None:
            limit = self._target.options.pending_bytes_limit
            call.put(
                McpConnectionError(
                    f"an answer to {call.method} was dropped: more than {limit:,} bytes of answers were "
                    "waiting; raise pending_bytes_limit, or ask for less at once"
                )
            )

    def _on_denied(self, text: str) -> None:
        # Without the right to publish, or to hear the inbox, no request can be answered.
        self._fail_all(McpConnectionError(f"NATS at {self._target.options.label} refuses it: {text}"))

    def _fail_all(self, error: McpConnectionError) -> None:
        for call in list(self._calls.values()):
            if call.published or self._gone is not None:
                call.put(type(error)(f"{call.method}: {error}"))
