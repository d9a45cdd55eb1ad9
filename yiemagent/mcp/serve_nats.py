"""An MCP server on a NATS subject, alone or as one of a queue group.

The binding is described in ``yiemagent.mcp.nats``. Requests of one client may reach different
members of the group, so none keeps a session. A cancellation reaches a member by chance as
well; one that does not run the request tells the others on ``<topic>.cancelled``.

Source: issue 5 part 4; cases E-18, E-22; field problem 54.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from yiemagent.errors import ConfigurationError, McpConnectionError, McpProtocolError, McpTimeout
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.eras import LEGACY_VERSIONS, era_of
from yiemagent.mcp.jsonrpc import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    Message,
    decode,
    make_error,
)
from yiemagent.mcp.nats_link import NatsLink, Subscribed
from yiemagent.mcp.nats_loop import lease_loop
from yiemagent.mcp.nats_native import Flag, greenlets_rule, make_flag
from yiemagent.mcp.nats_options import NatsKeywords, NatsOptions, check_subject
from yiemagent.mcp.serve_nats_pump import Pump
from yiemagent.mcp.serve_protocol import MessageServer
from yiemagent.mcp.serve_session import ServerSession
from yiemagent.mcp.serve_target import Servable, as_server
from yiemagent.mcp.serve_wire import encode_answer
from yiemagent.mcp.waiting import Outcome
from yiemagent.mcp.workers import Workers
from yiemagent.value_checks import check_count

__all__ = ["NatsServing", "serve_nats"]

logger = logging.getLogger(__name__)

VERSION_HEADER = "MCP-Protocol-Version"
STEP_PATIENCE = 1.0
"""Seconds for unsubscribing, and for disconnecting."""

LEGACY_OVER_NATS = tuple(version for version in LEGACY_VERSIONS if era_of(version).version_header)
"""Without a session a version must be said by each request; older ones have no header for it."""


def serve_nats(
    target: Servable,
    servers: str | Sequence[str],
    topic: str,
    *,
    queue_group: str = "yiemagent",
    concurrency: int = 8,
    **options: Unpack[NatsKeywords],
) -> NatsServing:
    """Serve on a NATS subject from threads of this process, until ``close``.

    Args:
        target: What to serve: tools, an ``McpServer``, or a client whose server is passed on.
        servers: ``nats://host:4222`` or ``tls://host``, one or several.
        topic: The subject to listen on; ``<topic>.cancelled`` is used, too.
        queue_group: Servers with the same group share the requests.
        concurrency: How many calls run at once; more wait their turn.
        **options: Credentials, TLS and patience: the fields of ``NatsOptions``.

    Returns:
        The running server, when NATS has taken its subscriptions; a context manager.

    Raises:
        McpConnectionError: No NATS server could be reached within ``dial_timeout``. (One that is
            lost later is dialled for ever.)
        ConfigurationError: Something is no tool, or an address or option cannot work.
    """
    import nats.aio.client  # noqa: F401 - 0.1 s, better spent here than on the loop

    if not queue_group or any(c.isspace() for c in queue_group):
        raise ConfigurationError(f"queue_group must be a word, got {queue_group!r}")
    serving = NatsServing(
        as_server(target),
        NatsOptions(servers=servers, **options),
        check_subject("topic", topic),
        queue_group,
        concurrency,
    )
    serving.open()
    return serving


class NatsServing:
    """A server that listens on a subject. Any thread may call any method."""

    def __init__(
        self, server: MessageServer, options: NatsOptions, topic: str, queue_group: str, concurrency: int
    ) -> None:
        check_count("concurrency", concurrency, none=False)
        self._server = server
        self._options = options
        self._topic = topic
        self._workers = Workers("mcp-server", threads=concurrency)
        self._loop = lease_loop()
        self._cancellations = Workers("mcp-server-cancel", threads=1)
        # By inbox. Every access is one operation of a dict, so that the loop's thread needs no lock.
        self._running: dict[str, ServerSession] = {}
        # Guards that close is begun once. Reentrant: a signal handler may close, too.
        self._lock = threading.RLock()
        self._closed = False
        self._ended: Outcome[None] = Outcome()
        self._one_less: Flag | None = None
        # A native thread may not wake greenlets: where gevent rules, a greenlet fetches the requests.
        self._pump = Pump(self._arrived) if greenlets_rule() else None
        self._link = NatsLink(
            options,
            [
                Subscribed(topic, self._on_request, queue_group),
                Subscribed(f"{topic}.cancelled", self._on_request),
            ],
            on_lost=self._on_lost,
            on_dropped=self._on_dropped,
            on_denied=lambda text: None,  # the link has logged it; a caller without rights gets no answer
        )

    def open(self) -> None:
        """Connect and subscribe; called once, by ``serve_nats``."""
        label = f"NATS at {self._options.label}"
        try:
            self._loop.call(self._link.open, self._options.dial_timeout + 1)
        except BaseException as exc:
            self._closed = True
            self._ended.settle(None)
            if self._pump is not None:
                self._pump.close()
            self._loop.release()
            if isinstance(exc, TimeoutError):
                raise McpTimeout(f"could not reach {label} in time") from None
            if isinstance(exc, McpConnectionError):
                raise McpConnectionError(f"could not reach {label}: {exc}") from exc
            raise

    def wait(self, timeout: float | None = None) -> bool:
        """Block until ``close`` was called, at most *timeout* seconds; returns whether it was."""
        return self._ended.wait(timeout)

    def close(self, timeout: float = 2.0) -> None:
        """Take no more requests, let running ones finish, abort what is left, and disconnect.

        Args:
            timeout: Seconds for running calls to finish. Idempotent.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._ended.settle(None)
        if not self._loop.ours:
            return
        try:
            self._within_patience(self._link.mute)
            self._wait_idle(Deadline(timeout))
            for session in list(self._running.values()):
                session.close("the server stops")
            self._within_patience(self._link.close)
        finally:
            if self._pump is not None:
                self._pump.close()
            self._workers.clear()
            self._loop.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _within_patience(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            self._loop.call(step, STEP_PATIENCE)
        except TimeoutError:
            logger.debug("topic=%s | a step of closing took too long", self._topic)

    def _wait_idle(self, deadline: Deadline) -> None:
        self._one_less = make_flag()
        while self._running and not deadline.expired:
            self._one_less.wait(deadline.remaining())

    # --- the loop's thread

    async def _on_request(self, message: Any) -> None:
        if self._pump is not None:
            self._pump.put(message)
        else:
            self._arrived(message)

    async def _publish(self, subject: str, data: bytes, reply: str) -> None:
        try:
            client = await self._link.ready()
            await client.publish(subject, data, reply=reply)
        except Exception as exc:
            logger.warning("topic=%s | an answer could not be sent: %s", self._topic, exc)

    def _on_lost(self, error: McpConnectionError) -> None:
        """What runs goes on: its client may be connected elsewhere, and is answered once we are again."""

    def _on_dropped(self, subject: str) -> None:
        logger.warning("topic=%s | a request was dropped: too many bytes are waiting", subject)

    # --- the loop's thread, or the pump's

    def _arrived(self, message: Any) -> None:
        if not message.reply:
            logger.debug("topic=%s | dropped a message without a reply subject", self._topic)
        elif message.subject != self._topic or _is_cancellation(message):
            self._cancellations.start(functools.partial(self._cancel, message))
        else:
            session = ServerSession(plain=True, legacy=LEGACY_OVER_NATS, version=_legacy_version(message))
            self._running[message.reply] = session
            if not self._workers.start(functools.partial(self._take, message, session)):
                self._running.pop(message.reply, None)
                self._reply(
                    message.reply,
                    make_error(None, INTERNAL_ERROR, "the server has too many requests waiting"),
                )

    # --- a worker

    def _cancel(self, message: Any) -> None:
        """Cancel what answers to the same inbox, here or at another member of the group."""
        session = self._running.get(message.reply)
        if session is not None:
            session.close("cancelled by the client")
        elif message.subject == self._topic:
            self._post(f"{self._topic}.cancelled", message.data, message.reply)

    def _take(self, message: Any, session: ServerSession) -> None:
        inbox = message.reply
        try:
            for request in decode(message.data):
                self._server.handle(session, request, functools.partial(self._reply, inbox), _run_here)
        except McpProtocolError as exc:
            self._reply(inbox, make_error(None, PARSE_ERROR, str(exc)))
        finally:
            self._running.pop(inbox, None)
            if self._one_less is not None:
                self._one_less.set()

    def _reply(self, inbox: str, answer: Message) -> None:
        data = encode_answer(answer)
        client = self._link.client
        if client is not None and len(data) > client.max_payload:
            text = (
                f"the answer is {len(data):,} bytes long, but NATS takes at most {client.max_payload:,} "
                "(max_payload); ask for less"
            )
            logger.warning("topic=%s | %s", self._topic, text)
            if "method" in answer:
                return
            data = encode_answer(make_error(answer.get("id"), INTERNAL_ERROR, text))
        self._post(inbox, data)

    def _post(self, subject: str, data: bytes, reply: str = "") -> None:
        try:
            self._loop.post(lambda: self._loop.start(self._publish(subject, data, reply)))
        except RuntimeError:
            logger.debug("topic=%s | closed before an answer was ready", self._topic)


def _run_here(work: Any) -> bool:
    work()
    return True


def _is_cancellation(message: Any) -> bool:
    method = (message.headers or {}).get("Mcp-Method")
    if method is not None:
        return bool(method == "notifications/cancelled")
    return len(message.data) < 2000 and b'"notifications/cancelled"' in message.data


def _legacy_version(message: Any) -> str | None:
    version = (message.headers or {}).get(VERSION_HEADER)
    return version if version in LEGACY_OVER_NATS else None
