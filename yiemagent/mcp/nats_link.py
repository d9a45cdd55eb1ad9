"""One link to a NATS cluster, made again for ever when it breaks.

Everything here runs on the private loop's thread. nats-py's own reconnecting is switched off:
it buffers what is sent meanwhile, tells the callers of a lost request nothing, and can be
stuck in a half-open connection for a quarter of an hour. Here a loss is told at once, and
dialling goes on until ``close`` with growing pauses.

Source: cases E-18 to E-21, field problems 55 to 59.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from yiemagent.errors import McpConnectionError
from yiemagent.mcp.nats_line import Line, dial, hang_up, round_trip, words
from yiemagent.mcp.nats_options import NatsOptions

__all__ = ["NatsLink", "Subscribed"]

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
"""Seconds between two rounds of dialling; doubled each time, then varied by half."""

PERMISSIONS = "permissions violation"
"""What a server says, in whatever case, when an account may not use a subject."""

STRAGGLERS = 0.05
"""Seconds in which the last messages of an ended subscription may come."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subject that is listened to whenever the link is up."""

    subject: str
    callback: Callable[[Any], Awaitable[None]]
    """A coroutine function; gets each message, one after the other."""
    queue: str = ""


class NatsLink:
    """A link that is up, or on its way to be up again, until it is closed.

    Args:
        options: Where and how.
        subscriptions: Made anew on every connection.
        on_lost: Told why, on the loop's thread, each time a connection that was up ends.
        on_dropped: Told the subject of each message that nats-py dropped because its queue was full.
        on_denied: Told what the server said when it refused a publication or subscription.
    """

    def __init__(
        self,
        options: NatsOptions,
        subscriptions: Sequence[Subscribed],
        *,
        on_lost: Callable[[McpConnectionError], None],
        on_dropped: Callable[[str], None],
        on_denied: Callable[[str], None],
    ) -> None:
        self._options = options
        self._subscriptions = tuple(subscriptions)
        self._on_lost = on_lost
        self._on_dropped = on_dropped
        self._on_denied = on_denied
        self._line: Line | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._why_down = "not connected yet"
        self._loose: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def client(self) -> Any:
        """nats-py's client while the link is up, else None. Readable from any thread."""
        line = self._line
        return line.client if line is not None and line.client.is_connected else None

    @property
    def why_down(self) -> str:
        """Why it is not up, for messages."""
        return self._why_down

    async def open(self) -> None:
        """Dial once through all addresses.

        Raises:
            McpConnectionError: None of them took us; names each with its reason.
        """
        self._take(await self._dial_any())
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def ready(self) -> Any:
        """Wait until the link is up, at most ``dial_timeout``, and return nats-py's client.

        Raises:
            McpConnectionError: It stayed down, or was closed.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.dial_timeout):
                while self.client is None and not self._closed:
                    self._changed.clear()
                    await self._changed.wait()
        client = self.client
        if client is None:
            raise McpConnectionError(f"no connection to NATS at {self._options.label}: {self._why_down}")
        return client

    async def close(self) -> None:
        """End the link for good, within a second. Idempotent."""
        self._closed = True
        self._why_down = "the connection is closed"
        self._changed.set()
        for task in (self._keeper, *self._loose):
            if task is not None:
                task.cancel()
        line, self._line = self._line, None
        if line is not None:
            await hang_up(line)

    async def mute(self) -> None:
        """Listen to nothing any more; what NATS has sent until then is still handed on."""
        self._subscriptions = ()
        line = self._line
        if line is None:
            return
        try:
            # nats-py drops a subscription as soon as the server has confirmed its end, but the server
            # still delivers what it had matched before: a request would get no answer.
            for subscription in line.subscriptions:
                await line.client._send_unsubscribe(subscription._id)
            await round_trip(line, self._options.dial_timeout)
            await asyncio.sleep(STRAGGLERS)
            for subscription in line.subscriptions:
                await subscription.drain()
        except Exception as exc:
            logger.debug("url=%s | could not unsubscribe: %s", line.place, words(exc))

    def _take(self, line: Line) -> None:
        self._line = line
        self._changed.set()

    async def _keep(self) -> None:
        while True:
            line = self._line
            assert line is not None
            reason = await self._wait_for_loss(line)
            self._line = None
            self._why_down = f"{line.place}: {reason}"
            logger.warning("url=%s | NATS connection lost (%s), dialling again", line.place, reason)
            self._on_lost(McpConnectionError(f"the connection to NATS at {line.place} was lost: {reason}"))
            await hang_up(line)
            self._take(await self._dial_for_ever())

    async def _wait_for_loss(self, line: Line) -> str:
        """Return why *line* ended; a server that leaves a ping unanswered has ended, too."""
        patience = self._options.dial_timeout
        while True:
            await asyncio.wait({line.lost}, timeout=self._options.ping_interval)
            if line.lost.done():
                return line.lost.result()
            try:
                async with asyncio.timeout(patience):
                    await line.client.flush(patience * 2)
            except Exception as exc:
                line.lose(f"no answer to a ping within {patience:g} s ({words(exc)})")

    async def _dial_for_ever(self) -> Line:
        pause = FIRST_PAUSE
        while True:
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            try:
                line = await self._dial_any()
            except McpConnectionError as exc:
                self._why_down = str(exc)
                logger.debug("url=%s | NATS is still away: %s", self._options.label, exc)
            else:
                logger.info("url=%s | NATS connection made again", line.place)
                return line
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _dial_any(self) -> Line:
        """Try each address once, in a random order, until one takes us."""
        urls = list(self._options.servers)
        random.shuffle(urls)
        patience = self._options.dial_timeout / len(urls)
        failures = []
        for url in urls:
            try:
                line = await dial(url, self._options, patience, self._complaint)
                await self._listen(line, patience)
            except McpConnectionError as exc:
                failures.append(str(exc))
            else:
                return line
        raise McpConnectionError("; ".join(failures))

    async def _listen(self, line: Line, patience: float) -> None:
        """Subscribe; the server has seen it before anybody hears that the link is up."""
        try:
            async with asyncio.timeout(patience):
                for wanted in self._subscriptions:
                    await self._subscribe(line, wanted)
                await round_trip(line, patience * 2)
            denied = next((text for text in map(words, line.complaints) if PERMISSIONS in text), None)
            if denied is not None:
                raise McpConnectionError(denied)
        except BaseException as exc:
            await hang_up(line)
            if isinstance(exc, Exception):
                raise McpConnectionError(f"{line.place}: {words(exc)}") from exc
            raise

    async def _subscribe(self, line: Line, wanted: Subscribed) -> None:
        made = await line.client.subscribe(
            wanted.subject,
            queue=wanted.queue,
            cb=wanted.callback,
            pending_bytes_limit=self._options.pending_bytes_limit,
        )
        line.subscriptions.append(made)

    def _complaint(self, line: Line, exc: Exception) -> None:
        from nats import errors

        if isinstance(exc, errors.SlowConsumerError):
            self._on_dropped(exc.subject)
            self._soon(self._listen_again(line, exc.sub))
        elif isinstance(exc, errors.StaleConnectionError | OSError):
            line.lose(words(exc))
        elif PERMISSIONS in words(exc):
            logger.warning("url=%s | %s", line.place, words(exc))
            self._on_denied(words(exc))
        else:
            logger.debug("url=%s | nats-py: %s", line.place, words(exc))

    async def _listen_again(self, line: Line, worn: Any) -> None:
        """Replace a subscription that dropped messages; the new one hears before the old one stops."""
        wanted = next((entry for entry in self._subscriptions if entry.subject == worn.subject), None)
        if wanted is None or line is not self._line:
            return
        logger.warning("subject=%s | slow consumer: a message was dropped, subscribing again", worn.subject)
        try:
            await self._subscribe(line, wanted)
            line.subscriptions.remove(worn)
            await worn.drain()
        except Exception as exc:
            logger.debug("subject=%s | could not subscribe again: %s", worn.subject, words(exc))

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._loose.add(task)
        task.add_done_callback(self._loose.discard)
