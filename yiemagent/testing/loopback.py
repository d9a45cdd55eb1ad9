"""An HTTP server on a loopback socket that says exactly what a test tells it to say.

It writes the bytes it is given, in the pieces it is given, so that a test can cut a chunk in
two, pause between them, stay silent, or hang up: what real servers do and mock objects cannot.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from yiemagent.testing.gates import WAIT

if TYPE_CHECKING:
    import ssl

__all__ = ["Handler", "LoopbackServer", "ServedRequest"]


class ServedRequest:
    """One request that arrived, and the means to answer it. Belongs to its server's thread.

    Attributes:
        method: ``POST``, ...
        path: As in the request line.
        headers: Names in lower case.
        body: All of it.
        connection: Number of the connection it came on, from 1.
        closing: Set when the server is being closed; wait on it to stay silent.
    """

    def __init__(
        self,
        sock: socket.socket,
        head: bytes,
        body: bytes,
        connection: int,
        closing: threading.Event,
    ) -> None:
        line, *fields = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = line.split(" ", 2)
        pairs = (field.partition(":") for field in fields if field)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self.body = body
        self.connection = connection
        self.closing = closing
        self._sock = sock
        self.hung_up = False

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    def send(self, data: bytes) -> None:
        """Write *data* as it is, in one piece; a client that left is no error."""
        with contextlib.suppress(OSError):
            self._sock.sendall(data)

    def reply(
        self,
        body: bytes | str | Mapping[str, Any],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer with a whole body; a mapping is sent as JSON."""
        if isinstance(body, Mapping):
            body = json.dumps(body)
        data = body.encode() if isinstance(body, str) else body
        self.start(status, {"Content-Type": "application/json", **(headers or {})}, length=len(data))
        self.send(data)

    def start(
        self, status: int = 200, headers: Mapping[str, str] | None = None, *, length: int | None = None
    ) -> None:
        """Write status line and headers; without *length* the body is chunked."""
        framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        named = {"Content-Type": "text/event-stream", **(headers or {})}
        fields = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        self.send(f"HTTP/1.1 {status} Status\r\n{fields}{framing}\r\n\r\n".encode("latin-1"))

    def chunk(self, data: bytes | str) -> None:
        """Write one chunk of a chunked body; an empty one ends it."""
        raw = data.encode() if isinstance(data, str) else data
        self.send(b"%x\r\n%b\r\n" % (len(raw), raw))

    def stream(self, pieces: Iterable[bytes | str], headers: Mapping[str, str] | None = None) -> None:
        """Answer with a chunked body, each piece a chunk."""
        self.start(200, headers)
        for piece in pieces:
            self.chunk(piece)
        self.chunk(b"")

    def take_over(self) -> socket.socket:
        """The connection itself, for what is no HTTP; it is closed after this request."""
        self.hung_up = True
        return self._sock

    def hang_up(self) -> None:
        """Close the connection after this request, cleanly."""
        self.hung_up = True

    def reset(self) -> None:
        """Break the connection so that the client sees a reset."""
        linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.hung_up = True


Handler: TypeAlias = Callable[[ServedRequest], object]


class LoopbackServer:
    """Serves with one daemon thread a connection, keeping connections alive.

    Args:
        handler: Called for each request, on the connection's thread; replace ``handler`` to
            change what the next request gets. What it raises closes the connection and is
            raised by ``close``.
        tls: Server side context for https.

    Attributes:
        url: ``http://127.0.0.1:port`` (or https), without a trailing slash.
        requests: Every request so far.
        connections: How many connections were accepted.
    """

    def __init__(self, handler: Handler, *, tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self.requests: list[ServedRequest] = []
        self.connections = 0
        self._tls = tls
        self._closing = threading.Event()
        self._arrived = threading.Condition()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._spawn(self._accept, "accept")

    def wait_for_requests(self, count: int) -> list[ServedRequest]:
        """Wait until *count* requests have arrived, and return all of them.

        Raises:
            TimeoutError: They did not within 5 s.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, WAIT):
                raise TimeoutError(f"{len(self.requests)} of {count} requests arrived within {WAIT} s")
            return list(self.requests)

    def wait_for_disconnects(self) -> None:
        """Wait until no connection is open.

        Raises:
            TimeoutError: One still was after 5 s.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: not self._open, WAIT):
                raise TimeoutError(f"{len(self._open)} connections are still open after {WAIT} s")

    def drop_connections(self) -> None:
        """Close every open connection, as a server does with idle ones."""
        with self._arrived:
            socks = list(self._open)
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.wait_for_disconnects()

    def close(self) -> None:
        """Stop, break what is open, wait for the threads, and raise what a handler raised."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._arrived:
            socks = list(self._open)
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(WAIT)
        if self._errors:
            raise self._errors[0]

    def __enter__(self) -> LoopbackServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _spawn(self, body: Callable[..., None], name: str, *args: Any) -> None:
        thread = threading.Thread(target=body, args=args, name=f"loopback-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._arrived:
                self.connections += 1
                self._open.add(sock)
            self._spawn(self._serve, f"connection-{self.connections}", sock, self.connections)

    def _serve(self, plain: socket.socket, number: int) -> None:
        sock: socket.socket = plain
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(plain, server_side=True)
                with self._arrived:
                    self._open.discard(plain)
                    self._open.add(sock)
            with sock.makefile("rb") as reader:
                while not self._closing.is_set():
                    request = self._read(reader, sock, number)
                    if request is None:
                        return
                    self.handler(request)
                    if request.hung_up:
                        return
        except OSError:
            return
        except BaseException as error:
            self._errors.append(error)
        finally:
            sock.close()
            with self._arrived:
                self._open.discard(plain)
                self._open.discard(sock)
                self._arrived.notify_all()

    def _read(self, reader: Any, sock: socket.socket, number: int) -> ServedRequest | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = reader.readline(65_536)
            if not line:
                return None
            head += line
        request = ServedRequest(sock, head[:-4], b"", number, self._closing)
        request.body = reader.read(int(request.headers.get("content-length", "0")))
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        return request
