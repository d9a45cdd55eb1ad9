"""An abort ends an exchange at once, whatever it is waiting for."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import urllib3.util.connection

from yiemagent.abort import AbortSignal
from yiemagent.net.errors import HttpAborted, HttpTimeout
from yiemagent.net.http import HttpClient, Timeouts
from yiemagent.testing import WAIT, Gate, run_in_thread
from yiemagent.testing.loopback import LoopbackServer, ServedRequest

Serve = Callable[..., LoopbackServer]
Make = Callable[..., HttpClient]

pytestmark = pytest.mark.threads


@pytest.fixture(params=["http", "https"])
def tls(request: pytest.FixtureRequest, server_tls: ssl.SSLContext) -> ssl.SSLContext | None:
    """Each test once plain and once over TLS."""
    return server_tls if request.param == "https" else None


@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
def test_abort_while_the_server_is_silent(
    serve: Serve, make_client: Make, tls: ssl.SSLContext | None, certificate: Path, kept: bool
) -> None:
    """F-04: no header has arrived. The server never answers, so to return at all is to be ended."""
    server = serve(lambda request: request.reply(b"ok"), tls)
    client = make_client(verify=str(certificate))
    if kept:
        client.request("GET", server.url).read()
    server.handler = lambda request: request.closing.wait(WAIT)
    signal = AbortSignal()
    call = run_in_thread(client.request, "POST", server.url, body=b"{}", signal=signal)
    server.wait_for_requests(1 + kept)

    signal.abort("closed")

    with pytest.raises(HttpAborted) as caught:
        call.get()
    assert caught.value.reason == "closed"
    assert len(server.requests) == 1 + kept


def test_abort_in_the_body(
    serve: Serve, make_client: Make, tls: ssl.SSLContext | None, certificate: Path
) -> None:
    """F-05: closing the response from here would block; the reader is ended instead."""

    def handler(request: ServedRequest) -> None:
        request.start()
        request.chunk(b"one")
        request.closing.wait(WAIT)

    signal = AbortSignal()
    client = make_client(verify=str(certificate))
    response = client.request("GET", serve(handler, tls).url, signal=signal)
    assert response.read_some() == b"one"
    more = run_in_thread(response.read_some)

    signal.abort()

    with pytest.raises(HttpAborted):
        more.get()


def test_abort_in_a_body_that_ends_with_the_connection(serve: Serve, make_client: Make) -> None:
    """F-05: without chunks and length the reader sees a plain end, which is not the answer's."""

    def handler(request: ServedRequest) -> None:
        request.send(b"HTTP/1.1 200 OK\r\n\r\none")
        request.closing.wait(WAIT)

    signal = AbortSignal()
    response = make_client().request("GET", serve(handler).url, signal=signal)
    assert response.read_some() == b"one"
    more = run_in_thread(response.read_some)

    signal.abort()

    with pytest.raises(HttpAborted):
        more.get()


def test_abort_while_a_large_body_is_being_sent(serve: Serve, make_client: Make) -> None:
    """A server that reads nothing blocks the sender."""
    gate = Gate()
    listener = socket.create_server(("127.0.0.1", 0))
    signal = AbortSignal()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    call = run_in_thread(make_client().request, "POST", url, body=b"x" * 50_000_000, signal=signal)
    peer, _ = listener.accept()
    peer.recv(1)
    gate.open()

    signal.abort()

    with pytest.raises(HttpAborted):
        call.get()
    peer.close()
    listener.close()


def test_abort_before_the_request_sends_nothing(serve: Serve, make_client: Make) -> None:
    """F-13."""
    server = serve(lambda request: request.reply(b"ok"))
    signal = AbortSignal()
    signal.abort("early")

    with pytest.raises(HttpAborted) as caught:
        make_client().request("GET", server.url, signal=signal)

    assert caught.value.reason == "early"
    assert server.connections == 0


def test_abort_in_the_tls_handshake(make_client: Make, certificate: Path) -> None:
    """The server has our hello and says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    signal = AbortSignal()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    call = run_in_thread(make_client(verify=str(certificate)).request, "GET", url, signal=signal)
    peer, _ = listener.accept()
    peer.settimeout(WAIT)
    assert peer.recv(1)

    signal.abort()

    with pytest.raises(HttpAborted):
        call.get()
    while peer.recv(65_536):
        pass  # until the helper thread has closed its end
    peer.close()
    listener.close()
    _join_connect_threads()


@pytest.fixture
def full_listener() -> Iterator[str]:
    """An address at which a connect is neither accepted nor refused."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = []
    for _ in range(4):
        sock = socket.socket()
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect(listener.getsockname())
        waiting.append(sock)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    for sock in waiting:
        sock.close()
    _join_connect_threads()


def test_abort_while_connecting(full_listener: str, make_client: Make) -> None:
    """Connect cannot be interrupted, so it is left."""
    signal = _WatchedSignal()
    call = run_in_thread(make_client().request, "GET", full_listener, signal=signal)
    signal.watched.wait_entered()
    _wait_for_connect_thread()

    signal.abort()

    with pytest.raises(HttpAborted):
        call.get()


def test_a_connect_that_takes_too_long_is_a_connect_timeout(full_listener: str, make_client: Make) -> None:
    """The limit covers name, connect and TLS together."""
    client = make_client(timeouts=Timeouts(connect=0.05))

    with pytest.raises(HttpTimeout) as caught:
        client.request("GET", full_listener)

    assert (caught.value.phase, caught.value.limit) == ("connect", 0.05)


class _CountedSocket(socket.socket):
    """Keeps itself and its duplicates from being closed by the garbage collector."""

    made: ClassVar[list[socket.socket]] = []

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made.append(self)


def test_a_connection_that_comes_when_nobody_waits_any_more_is_closed(
    serve: Serve, make_client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every descriptor, that of the watched duplicate too."""
    late, connect = Gate(), urllib3.util.connection.create_connection

    def connect_late(*args: Any, **options: Any) -> socket.socket:
        late.block()
        return _CountedSocket(fileno=connect(*args, **options).detach())

    monkeypatch.setattr(urllib3.util.connection, "create_connection", connect_late)
    monkeypatch.setattr(_CountedSocket, "made", [])
    server = serve(lambda request: request.reply(b"ok"))
    with pytest.raises(HttpTimeout):
        make_client(timeouts=Timeouts(connect=0.05)).request("GET", server.url)

    late.open()
    _join_connect_threads()

    assert [sock.fileno() for sock in _CountedSocket.made] == [-1, -1]


def test_the_client_is_usable_after_an_abort(serve: Serve, make_client: Make) -> None:
    """And a late abort of a finished exchange does not touch the connection it used."""
    server, client = serve(lambda request: request.reply(b"ok")), make_client()
    signal = AbortSignal()
    assert client.request("GET", server.url, signal=signal).read() == b"ok"
    signal.abort()

    assert client.request("GET", server.url).read() == b"ok"
    assert server.connections == 1


def test_abort_against_the_end_of_the_answer(serve: Serve, make_client: Make) -> None:
    """Many times at the same moment: an answer or an abort, and always a usable client."""
    server, client = serve(lambda request: request.reply(b"ok")), make_client()
    for _ in range(200):
        signal = AbortSignal()
        aborter = run_in_thread(signal.abort)
        try:
            assert client.request("POST", server.url, body=b"", signal=signal).read() == b"ok"
        except HttpAborted:
            assert signal.aborted
        aborter.get()

    assert client.request("GET", server.url).read() == b"ok"


class _WatchedSignal(AbortSignal):
    def __init__(self) -> None:
        super().__init__()
        self.watched = Gate()
        self.watched.open()

    def on_abort(self, callback: Callable[[], object]) -> Callable[[], None]:
        self.watched.block()
        return super().on_abort(callback)


def _connect_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "yiemagent-net-connect"]


def _wait_for_connect_thread() -> None:
    reached = threading.Event()
    for _ in range(1000):
        if _connect_threads() or reached.wait(0.005):
            return
    raise AssertionError("no helper thread opens a connection")


def _join_connect_threads() -> None:
    for thread in _connect_threads():
        thread.join(WAIT)
        assert not thread.is_alive()
