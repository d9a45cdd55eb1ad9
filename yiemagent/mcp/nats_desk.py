"""The loop's half of a connection to a subject: what is on its way, and who waits for it.

It knows nothing of the connection that uses it, so that one which was dropped can be collected.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import secrets
from dataclasses import dataclass, field
from typing import Any

from yiemagent.errors import McpConnectionError, McpError
from yiemagent.mcp.nats_link import NatsLink, Subscribed
from yiemagent.mcp.nats_loop import PrivateLoop
from yiemagent.mcp.nats_native import Flag, make_flag
from yiemagent.mcp.nats_options import NatsOptions

__all__ = ["NatsCall", "NatsDesk", "NatsTarget", "Outgoing"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NatsTarget:
    """Where the requests of a connection go, and who sends them."""

    options: NatsOptions
    topic: str
    sender_id: str
    label: str


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message on its way to the subject."""

    inbox: str
    method: str
    payload: bytes
    headers: dict[str, str]
    published: bool = False

    def put(self, item: Any) -> None:
        """Nobody waits for what becomes of it."""


@dataclass(slots=True, eq=False)
class NatsCall(Outgoing):
    """A request whose sender waits; its items are NATS messages, or the exception that ends it."""

    items: collections.deque[Any] = field(default_factory=collections.deque)
    flag: Flag = field(default_factory=make_flag)

    def put(self, item: Any) -> None:
        self.items.append(item)
        self.flag.set()


class NatsDesk:
    """Publishes calls and hands their answers to whoever waits.

    Args:
        target: Where they go.
        loop: Leased by the connection; given back by ``leave``.
    """

    def __init__(self, target: NatsTarget, loop: PrivateLoop) -> None:
        self._target = target
        self._loop = loop
        self._prefix = f"{target.options.inbox_prefix}.{secrets.token_hex(11)}."
        # By inbox. Every access is one operation of a dict, so that no lock is needed.
        self.calls: dict[str, NatsCall] = {}
        self.link = NatsLink(
            target.options,
            [Subscribed(f"{self._prefix}*", self._on_reply)],
            on_lost=self.fail_published,
            on_dropped=self._on_dropped,
            on_denied=self._on_denied,
        )

    # --- any thread

    def new_inbox(self) -> str:
        """An inbox that nobody else has."""
        return self._prefix + secrets.token_hex(8)

    def check_size(self, call: Outgoing, client: Any) -> None:
        """Refuse what would make the server close the connection of everybody on it (case E-18)."""
        # The server counts the headers, nats-py does not.
        size = len(call.payload) + 14 + sum(len(k) + len(v) + 4 for k, v in call.headers.items())
        if size > client.max_payload:
            raise McpError(
                f"{call.method} is {size:,} bytes long with its headers, but {self._target.options.label} "
                f"takes at most {client.max_payload:,} (max_payload): send less, or raise it on the server"
            )

    def fail_published(self, error: McpConnectionError) -> None:
        """End the calls that were sent; those that still wait for the link go on waiting."""
        self._fail([call for call in list(self.calls.values()) if call.published], error)

    def fail_all(self, error: McpConnectionError) -> None:
        """End every call."""
        self._fail(list(self.calls.values()), error)

    def leave(self) -> None:
        """Close the link and give the loop back, without waiting. Any thread, also while collecting."""
        if self._loop.ours:
            with contextlib.suppress(RuntimeError):  # ended already
                self._loop.post(self._leave)

    def _fail(self, calls: list[NatsCall], error: McpConnectionError) -> None:
        for call in calls:
            call.put(type(error)(f"{call.method}: {error}"))

    # --- the loop's thread

    def begin(self, call: NatsCall) -> None:
        """Publish *call* as soon as the link is up."""
        self._loop.start(self._publish_or_fail(call))

    def withdraw(self, call: NatsCall, notice: Outgoing) -> None:
        """Nobody waits for *call* any more: tell the server with *notice*, if it has heard of it."""
        if call.published and self.link.client is not None:
            self._loop.start(self._publish_or_fail(notice))
        call.published = True  # one that still waits for the link is not sent any more

    async def _publish_or_fail(self, call: Outgoing) -> None:
        try:
            await self.publish(call)
        except McpError as exc:
            call.put(exc)
        except Exception as exc:
            call.put(McpConnectionError(f"could not send {call.method} to {self._target.label}: {exc}"))

    async def publish(self, call: Outgoing) -> None:
        """Publish *call*, once.

        Raises:
            McpError: The link stayed down, or it is too long.
        """
        client = self.link.client
        if client is None:
            client = await self.link.ready()
            self.check_size(call, client)
        if not call.published:
            call.published = True
            await client.publish(self._target.topic, call.payload, reply=call.inbox, headers=call.headers)

    async def _on_reply(self, message: Any) -> None:
        call = self.calls.get(message.subject)
        if call is not None:
            call.put(message)

    def _on_dropped(self, subject: str) -> None:
        call = self.calls.get(subject)
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
        self.fail_published(McpConnectionError(f"NATS at {self._target.options.label} refuses it: {text}"))

    def _leave(self) -> None:
        self._loop.start(self.link.close()).add_done_callback(lambda task: self._loop.release())
