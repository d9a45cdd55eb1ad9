"""The port of this machine that an authorization response comes back to.

Source: RFC 8252 section 7.3. Loaded only when somebody logs in.
"""

from __future__ import annotations

import contextlib
import http.server
import logging
import socket
import socketserver
import threading
import webbrowser
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from yiemagent.errors import ConfigurationError, McpAuthorizationError
from yiemagent.mcp.http_auth import AuthCall
from yiemagent.mcp.waiting import Outcome, wait_for

__all__ = ["LoopbackListener"]

logger = logging.getLogger(__name__)


class LoopbackListener:
    """See ``RedirectListener``: a port of this machine, and the browser.

    Args:
        host: As it stands in the redirect URI.
        port: To listen on; 0 takes a free one.
        path: Of the redirect URI.
        open_browser: Gets the login page's URL; None for the ``webbrowser`` module's.

    Raises:
        ConfigurationError: The port is taken.
    """

    def __init__(self, host: str, port: int, path: str, open_browser: Callable[[str], bool] | None) -> None:
        try:
            self._server = _CallbackServer((host, port), path)
        except OSError as exc:
            raise ConfigurationError(
                f"the port {port} for the authorization response cannot be opened ({exc.strerror}); "
                "give BrowserRedirect another port"
            ) from exc
        self.redirect_uri = f"http://{host}:{self._server.server_address[1]}{path}"
        self._open = open_browser or webbrowser.open

    def obtain(self, authorization_url: str, call: AuthCall) -> str:
        state = parse_qs(urlsplit(authorization_url).query).get("state", [""])[0]
        self._server.begin(state)
        browser = threading.Thread(
            target=self._open_browser, args=(authorization_url,), name="yiemagent-oauth-browser", daemon=True
        )
        browser.start()
        waiting = "the login page in the browser"
        response = wait_for(self._server.answer, call.deadline, call.signal, waiting)
        if response is None:
            raise McpAuthorizationError(
                "no browser could be opened for the login page; on a machine without one use "
                "OAuth(AuthorizationCode(PasteRedirect()))"
            )
        return response

    def _open_browser(self, url: str) -> None:
        try:
            opened = self._open(url)
        except Exception:
            logger.warning("the browser could not be opened", exc_info=True)
            opened = False
        if not opened:
            self._server.settle(None)

    def close(self) -> None:
        self._server.end()


class _CallbackServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Answers until it is ended; keeps the first response that carries the expected state.

    A thread for each connection, since browsers open connections that they then leave silent.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], path: str) -> None:
        self.path = path
        self.state: str | None = None
        self.answer: Outcome[str | None] = Outcome()
        """The path and query of the response; None when no browser could be opened."""
        self._ended = False
        self._thread: threading.Thread | None = None
        super().__init__(address, _CallbackHandler)

    def server_bind(self) -> None:
        # HTTPServer's looks the host name up, which may take seconds.
        socketserver.TCPServer.server_bind(self)

    def begin(self, state: str) -> None:
        self.state = state
        self._thread = threading.Thread(target=self._serve, name="yiemagent-oauth-redirect", daemon=True)
        self._thread.start()

    def settle(self, response: str | None) -> None:
        """Keep the first outcome."""
        self.answer.settle(response)

    def _serve(self) -> None:
        try:
            while not self._ended:
                self.handle_request()
        finally:
            self.server_close()

    def end(self) -> None:
        self._ended = True
        thread = self._thread
        if thread is None:
            self.server_close()
            return
        # handle_request waits for a connection: this one wakes it.
        with contextlib.suppress(OSError):
            socket.create_connection(self.server_address[:2], timeout=1).close()  # type: ignore[arg-type]
        thread.join(timeout=1)

    def process_request(self, request: Any, client_address: Any) -> None:
        threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="yiemagent-oauth-callback",
            daemon=True,
        ).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a connection to the redirect port broke", exc_info=True)


class _CallbackHandler(http.server.BaseHTTPRequestHandler):
    server: _CallbackServer
    timeout = 5

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path != self.server.path:
            self._answer(404, "Not found.")
            return
        values = parse_qs(parts.query)
        if values.get("state", [""])[0] != self.server.state:
            # Some other page's doing, or an older login page: the real answer may still come.
            self._answer(400, "This page does not belong to the login that is going on.")
            return
        self._answer(200, "You can close this window and go back to your program.")
        self.server.settle(self.path)

    def _answer(self, status: int, text: str) -> None:
        body = f"<!doctype html><title>Login</title><p>{text}</p>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests hold codes: they are not logged."""
