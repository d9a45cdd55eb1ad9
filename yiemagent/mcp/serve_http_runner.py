"""A small threaded web server for scripts and tests; for more, run the WSGI application in a real one."""

from __future__ import annotations

import logging
import socketserver
import threading
from types import TracebackType
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from yiemagent.mcp.serve_http import McpWsgi, serve_http
from yiemagent.mcp.serve_target import Servable

__all__ = ["HttpServing", "run_http"]

logger = logging.getLogger(__name__)


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # The base class asks the name server who we are, which can take long.
        socketserver.TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("client=%s | a request broke", client_address, exc_info=True)


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)

    def get_stderr(self) -> Any:
        return _LogStream()


class _LogStream:
    """What wsgiref writes to, instead of the process's stderr."""

    def write(self, text: str) -> None:
        logger.debug("%s", text.rstrip())

    def flush(self) -> None:
        pass


class HttpServing:
    """A running server; a context manager that stops it."""

    def __init__(self, app: McpWsgi, host: str, port: int, path: str) -> None:
        self._app = app
        self._server = _Server((host, port), _Handler)
        self._server.set_app(app)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}{path}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="yiemagent-mcp-http", daemon=True
        )
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until ``close`` was called, at most *timeout* seconds; returns whether it was."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Take no more requests and abort what runs. Idempotent."""
        self._app.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def run_http(
    target: Servable,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    path: str = "/mcp",
    **options: Any,
) -> HttpServing:
    """Serve over HTTP from a thread of this process.

    Args:
        target: What to serve: tools, an ``McpServer``, or a client whose server is passed on.
        host: Address to listen on; anything but this machine's own needs protection in front of it.
        port: 0 takes a free one.
        path: Where the endpoint is.
        **options: As ``serve_http`` takes them.

    Returns:
        The running server; its ``url`` is what clients connect to.

    Raises:
        OSError: The port is taken.
        ConfigurationError: Something is no tool.
    """
    return HttpServing(serve_http(target, path=path, **options), host, port, path)
