"""The stand-in's HTTP server: Chat Completions on a free loopback port, plain or streamed."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from yiemagent.demo.offline.dialect import MODEL, chunks, completion, error_body, models
from yiemagent.demo.offline.reply import Reply, reply_to
from yiemagent.demo.offline.request_checks import BadRequest, check_request

__all__ = ["OfflineModel"]

logger = logging.getLogger(__name__)

_STOP_WITHIN = 5.0
_LARGEST_BODY = 32 * 1024 * 1024


class OfflineModel:
    """The stand-in, served while a with block lasts.

    ``with OfflineModel() as model: llm = OpenAIChat(model.name, base_url=model.base_url)``

    Args:
        pause: Seconds between two pieces of a stream, so that people can watch it; 0 for tests.

    Threads: one accepts, one more for each open connection; all daemons, all ended by ``close``.
    """

    name = MODEL

    def __init__(self, *, pause: float = 0.0) -> None:
        self._pause = pause
        self._server: _Server | None = None
        self._acceptor: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """What ``OPENAI_BASE_URL`` would be.

        Raises:
            RuntimeError: It is not started.
        """
        if self._server is None:
            raise RuntimeError("the offline model is not started; use it in a with block or call start()")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def start(self) -> OfflineModel:
        """Listen on a free port of 127.0.0.1; returns itself."""
        if self._server is None:
            self._server = _Server(self._pause)
            self._acceptor = threading.Thread(
                target=self._server.serve_forever, args=(0.05,), name="yiemagent-offline-model", daemon=True
            )
            self._acceptor.start()
        return self

    def close(self) -> None:
        """Stop listening, hang up on everybody and wait for the threads; harmless when closed."""
        server, self._server = self._server, None
        acceptor, self._acceptor = self._acceptor, None
        if server is None or acceptor is None:
            return
        deadline = time.monotonic() + _STOP_WITHIN
        server.shutdown()
        server.server_close()
        server.hang_up(deadline)
        acceptor.join(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> OfflineModel:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, pause: float) -> None:
        self.pause = pause
        self.closing = threading.Event()
        self._lock = threading.Lock()  # guards _open
        self._open: dict[socket.socket, threading.Thread] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self._serve,
            args=(request, client_address),
            name="yiemagent-offline-model-connection",
            daemon=True,
        )
        with self._lock:
            self._open[request] = thread
        thread.start()

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)

    def hang_up(self, deadline: float) -> None:
        self.closing.set()
        with self._lock:
            connections = dict(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in connections.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("client=%s | the connection ended with an error", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            self._send(200, models())
        else:
            self._send(404, error_body(f"There is nothing at GET {self.path}.", None, 404))

    def do_POST(self) -> None:
        body = self._read_body()
        if body is None:
            return
        if not self.path.rstrip("/").endswith("/chat/completions"):
            self._send(404, error_body(f"There is nothing at POST {self.path}.", None, 404))
            return
        try:
            request = check_request(body)
            reply = reply_to(request)
        except BadRequest as problem:
            self._send(problem.status, error_body(str(problem), problem.param, problem.status))
        except Exception as error:
            logger.exception("the offline model failed")
            self._send(500, error_body(f"The offline model failed: {error!r}", None, 500))
        else:
            self._answer(reply, request)

    def _answer(self, reply: Reply, request: dict[str, Any]) -> None:
        if not request.get("stream"):
            self._send(200, completion(reply, request))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks(reply, request):
            self._send_event(json.dumps(chunk, ensure_ascii=False))
            if self.server.pause and self.server.closing.wait(self.server.pause):
                return
        self._send_event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _send_event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")

    def _read_body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LARGEST_BODY:
            self.close_connection = True
            self._send(411, error_body("A Content-Length of at most 32 MiB is needed.", None, 411))
            return None
        return self.rfile.read(int(length))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("offline model | " + format, *args)
