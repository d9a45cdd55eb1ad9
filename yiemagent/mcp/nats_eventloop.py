"""An asyncio loop made of native parts only, also where gevent has patched the process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import socket
import weakref
from collections.abc import Callable
from typing import Any

from yiemagent.mcp.nats_native import greenlets_rule, original, start_native_thread

__all__ = ["NativeLoop", "Wire", "opened_wire"]

logger = logging.getLogger(__name__)


class Wire:
    """What the loop opened for one connection: the handle to end it by, whatever its owner does."""

    def __init__(self) -> None:
        self.transports: list[asyncio.BaseTransport] = []
        self.encrypted = False
        """Whether a TLS handshake was done on it."""
        self.on_end: Callable[[Exception | None], object] = _ignore
        """Called when the connection has ended, whoever ended it."""

    def abort(self) -> None:
        """Drop it at once, unsent data included. The loop's thread only."""
        for transport in self.transports:
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()


opened_wire: contextvars.ContextVar[Wire] = contextvars.ContextVar("opened_wire")
"""A ``Wire`` set here notes what the loop opens in that context."""


class NativeLoop(asyncio.SelectorEventLoop):
    """A selector loop made of native parts only, that remembers its sockets for ``fork``."""

    def __init__(self) -> None:
        self.sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(original("selectors", "DefaultSelector")())
        self.set_exception_handler(_log_quietly)

    def _make_self_pipe(self) -> None:
        if greenlets_rule():
            # As in the base class, but not with gevent's sockets: those close only when their hub runs.
            native = original("socket", "socket")
            pair = original("_socket", "socketpair")()
            self._ssock, self._csock = (native(fileno=end.detach()) for end in pair)
            self._ssock.setblocking(False)
            self._csock.setblocking(False)
            self._internal_fds: int = 1
            self._add_reader(self._ssock.fileno(), self._read_from_self)  # type: ignore[attr-defined]
        else:
            super()._make_self_pipe()  # type: ignore[misc]
        self.sockets.update((self._ssock, self._csock))

    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """Resolve in a daemon thread: the executor of asyncio would hold up the interpreter's exit."""
        resolve = original("socket", "getaddrinfo")
        try:
            return resolve(host, port, family, type, proto, flags | socket.AI_NUMERICHOST)
        except socket.gaierror:
            pass  # a name: ask the system, which may take long
        answer: asyncio.Future[Any] = self.create_future()

        def body() -> None:
            try:
                outcome = resolve(host, port, family, type, proto, flags)
            except Exception as exc:
                outcome = exc
            with contextlib.suppress(RuntimeError):  # the loop ended meanwhile
                self.call_soon_threadsafe(_settle, answer, outcome)

        start_native_thread(body, "yiemagent-nats-resolve")
        return await answer

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Connect a native socket first, then hand it to asyncio."""
        failure: OSError = OSError(f"no address for {host}")
        for family, kind, proto, _, address in await self.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            end = original("socket", "socket")(family, kind, proto)
            try:
                end.setblocking(False)
                await self.sock_connect(end, address)
            except OSError as exc:
                failure = exc
                end.close()
                continue
            except BaseException:
                end.close()
                raise
            self.sockets.add(end)
            made = await super().create_connection(protocol_factory, sock=end, **options)
            wire = opened_wire.get(None)
            if wire is not None:
                wire.transports.append(made[0])
                _tell_end(made[1], wire)
            return made
        raise failure

    async def start_tls(self, transport: Any, protocol: Any, *args: Any, **options: Any) -> Any:
        made = await super().start_tls(transport, protocol, *args, **options)
        wire = opened_wire.get(None)
        if wire is not None:
            wire.encrypted = True
            _tell_end(protocol, wire)
        return made

    def leave_to_parent(self) -> None:
        """In a forked child: let go of every descriptor that it shares with its parent.

        The numbers stay taken (by the null device), because objects that still know them may
        close them later. Without this a connection closed by the parent stays half open, and a
        queue group keeps sending to it.
        """
        null = os.open(os.devnull, os.O_RDWR)
        try:
            for descriptor in [end.fileno() for end in self.sockets] + [self._selector.fileno()]:  # type: ignore[attr-defined]
                if descriptor >= 0:
                    os.dup2(null, descriptor, inheritable=False)
        finally:
            os.close(null)


def _ignore(error: Exception | None) -> None:
    pass


def _tell_end(protocol: Any, wire: Wire) -> None:
    """Let *wire* know when asyncio tells *protocol* that its connection is lost.

    nats-py does not always hear it: closing a connection that was reset, it trips over what it
    still wanted to send, and none of its callbacks is called.
    """
    told = protocol.connection_lost

    def connection_lost(error: Exception | None) -> None:
        wire.on_end(error)
        told(error)

    protocol.connection_lost = connection_lost


def _settle(answer: asyncio.Future[Any], outcome: Any) -> None:
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _log_quietly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    logger.debug("loop error=%s", context.get("message"), exc_info=context.get("exception"))
