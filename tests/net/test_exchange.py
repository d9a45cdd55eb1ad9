"""The moments between an abort and a connection that is just being made."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.net.errors import HttpAborted, HttpTimeout
from yiemagent.net.exchange import Exchange
from yiemagent.net.http import HttpClient
from yiemagent.net.lanes import Lanes
from yiemagent.testing import Gate, run_in_thread
from yiemagent.testing.loopback import LoopbackServer, ServedRequest

pytestmark = pytest.mark.threads


class Connection:
    """What the exchange sees of a connection."""

    def __init__(self) -> None:
        self.sock: Any = None
        self.closed = Gate()

    def close(self) -> None:
        self.closed.open()


def test_a_connection_that_stands_too_late_is_closed_by_the_thread_that_was_left() -> None:
    """Nobody else knows of it."""
    connection, gate, signal = Connection(), Gate(), AbortSignal()
    exchange = Exchange(signal, None, None, None)
    connecting = run_in_thread(exchange.connect, connection, gate.block)
    gate.wait_entered()

    signal.abort("late")
    with pytest.raises(HttpAborted):
        connecting.get()
    gate.open()

    connection.closed.block()


def test_a_connection_that_stands_after_its_time_is_closed_too() -> None:
    """A limit leaves the thread like an abort does."""
    connection, gate = Connection(), Gate()
    exchange = Exchange(None, 0.0, 3.0, None)

    with pytest.raises(HttpTimeout) as caught:
        exchange.connect(connection, gate.block)
    gate.open()

    assert (caught.value.phase, caught.value.limit) == ("connect", 3.0)
    connection.closed.block()


def test_a_limit_that_is_the_deadline_is_a_total_timeout() -> None:
    """The run has no time left, not the connection."""
    connection, gate = Connection(), Gate()
    exchange = Exchange(None, 0.0, 3.0, 0.0)

    with pytest.raises(HttpTimeout) as caught:
        exchange.connect(connection, gate.block)
    gate.open()

    assert caught.value.phase == "total"
    connection.closed.block()


def test_what_connecting_raises_is_raised_to_the_waiter() -> None:
    """From the helper thread, and without one."""

    def refuse() -> None:
        raise ConnectionRefusedError("no")

    for signal in (AbortSignal(), None):
        with pytest.raises(ConnectionRefusedError):
            Exchange(signal, None, None, None).connect(Connection(), refuse)


def test_an_exchange_that_was_cut_takes_no_socket() -> None:
    """Whichever way it gets one."""
    signal = AbortSignal()
    exchange = Exchange(signal, None, None, None)
    signal.abort("cut")
    ours, theirs = socket.socketpair()

    with pytest.raises(HttpAborted):
        exchange.attach(ours)
    with pytest.raises(HttpAborted):
        exchange.connect(Connection(), lambda: None)
    with pytest.raises(HttpAborted) as caught:
        exchange.opening(ours)

    assert caught.value.reason == "cut"
    assert theirs.recv(1) == b""
    assert ours.fileno() == -1
    theirs.close()


def test_the_socket_below_a_tls_proxy_is_shut_down() -> None:
    """TLS inside TLS is an object without a shutdown of its own."""

    class Tunnel:
        def __init__(self, sock: socket.socket) -> None:
            self.socket = sock

    signal = AbortSignal()
    ours, theirs = socket.socketpair()
    exchange = Exchange(signal, None, None, None)
    exchange.attach(Tunnel(ours))

    signal.abort()

    assert theirs.recv(1) == b""
    ours.close()
    theirs.close()


def test_an_abort_after_the_end_touches_nothing() -> None:
    """The socket belongs to the next exchange by then."""
    signal = AbortSignal()
    ours, theirs = socket.socketpair()
    exchange = Exchange(signal, None, None, None)
    exchange.attach(ours)
    exchange.end()

    signal.abort()

    ours.sendall(b"x")
    assert theirs.recv(1) == b"x"
    ours.close()
    theirs.close()


# -- idle connections --------------------------------------------------------------------

Serve = Callable[..., LoopbackServer]


def hello(request: ServedRequest) -> None:
    request.reply(b"hello")


def test_idle_connections_beyond_the_limit_are_closed(serve: Serve) -> None:
    """After a burst of many threads."""
    server = serve(hello)
    lanes = Lanes(idle_limit=1)
    client = HttpClient(lanes=lanes)
    responses = [client.request("GET", server.url) for _ in range(3)]
    for response in responses:
        response.read()
    assert server.connections == 3

    client.request("GET", server.url).read()
    lanes.close()

    assert server.connections == 3
    server.wait_for_disconnects()


def test_old_idle_connections_are_closed_when_others_come_back(serve: Serve) -> None:
    """Of other hosts too, which nobody asks any more."""
    old, new = serve(hello), serve(hello)
    lanes = Lanes(idle_seconds=0.0)
    client = HttpClient(lanes=lanes)
    client.request("GET", old.url).read()
    client.request("GET", new.url).read()

    old.wait_for_disconnects()
    lanes.close()


def test_a_connection_that_comes_back_to_closed_lanes_is_closed(serve: Serve) -> None:
    """Closing a client does not break what it is still reading."""
    server = serve(hello)
    client = HttpClient()
    response = client.request("GET", server.url)
    client.close()

    assert response.read() == b"hello"
    server.wait_for_disconnects()
