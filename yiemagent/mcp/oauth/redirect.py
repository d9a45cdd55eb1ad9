"""How a person comes to the login page, and how its answer comes back to us.

Source: RFC 8252 (loopback redirects), issue 5 part 3 (a browser here, or none, as in a notebook
over SSH).
"""

from __future__ import annotations

import contextlib
import http.server
import logging
import socket
import socketserver
import threading
import webbrowser
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from yiemagent.errors import ConfigurationError, McpAuthorizationError
from yiemagent.mcp.http_auth import AuthCall
from yiemagent.mcp.oauth.metadata import is_loopback
from yiemagent.mcp.waiting import wait_for

__all__ = ["BrowserRedirect", "PasteRedirect", "Redirect", "RedirectListener"]

logger = logging.getLogger(__name__)


class RedirectListener(Protocol):
    """Ready to take one authorization response."""

    @property
    def redirect_uri(self) -> str:
        """Where the response will be expected."""

    def obtain(self, authorization_url: str, call: AuthCall) -> str:
        """Bring the person to the login page and wait for the response.

        Returns:
            The URL that the login page redirected to, or its query.

        Raises:
            McpAuthorizationError: The person cannot be brought there.
            McpTimeout: The deadline of the call passed first.
            RunAborted: The call was aborted.
        """

    def close(self) -> None:
        """Give up what was held; called once, whatever happened before."""


class Redirect(Protocol):
    """A way for authorization responses to reach us. Any thread may call it."""

    def listen(self, registered: Sequence[str]) -> RedirectListener:
        """Get ready for one response.

        Args:
            registered: The redirect URIs under which we are registered already; using one of
                them saves a new registration. May be empty.
        """


class BrowserRedirect:
    """Opens the browser and takes the response on a port of this machine.

    Args:
        port: To listen on; 0 takes the one we are registered with, or a free one.
        host: As it stands in the redirect URI: ``127.0.0.1`` or ``localhost``.
        path: Of the redirect URI.
        open_browser: Gets the URL of the login page, on a thread of its own, and returns whether
            it could be opened; by default the ``webbrowser`` of the standard library.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        path: str = "/callback",
        open_browser: Callable[[str], bool] | None = None,
    ) -> None:
        if not 0 <= port <= 65535:
            raise ConfigurationError(f"port must be from 0 to 65535, got {port!r}")
        if not is_loopback(f"http://{host}"):
            raise ConfigurationError(f"host must be this machine (127.0.0.1 or localhost), got {host!r}")
        if not path.startswith("/"):
            raise ConfigurationError(f"path must begin with a slash, got {path!r}")
        self._port = port
        self._host = host
        self._path = path
        self._open = open_browser

    def listen(self, registered: Sequence[str]) -> RedirectListener:
        """Open the port; nothing is answered before ``obtain``.

        Raises:
            ConfigurationError: The port given to the constructor is taken.
        """
        if self._port:
            return self._listener(self._port)
        for uri in registered:
            parts = urlsplit(uri)
            if parts.hostname == self._host and parts.path == self._path and parts.port:
                with contextlib.suppress(ConfigurationError):
                    return self._listener(parts.port)
        return self._listener(0)

    def _listener(self, port: int) -> _LoopbackListener:
        return _LoopbackListener(self._host, port, self._path, self._open or webbrowser.open)


class _LoopbackListener:
    def __init__(self, host: str, port: int, path: str, open_browser: Callable[[str], bool]) -> None:
        try:
            self._server = _CallbackServer((host, port), path)
        except OSError as exc:
            raise ConfigurationError(
                f"the port {port} for the authorization response cannot be opened ({exc.strerror}); "
                "give BrowserRedirect another port"
            ) from exc
        self.redirect_uri = f"http://{host}:{self._server.server_address[1]}{path}"
        self._open = open_browser

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
        self.answer: Future[str | None] = Future()
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
        with contextlib.suppress(InvalidStateError):
            self.answer.set_result(response)

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


class PasteRedirect:
    """For a machine without a browser: the person opens the login page elsewhere and pastes the answer.

    The redirect URI needs nobody who listens: the person's browser fails to open it, and its
    address bar then holds the response.

    Args:
        redirect_uri: As the authorization server knows it.
        ask: Gets a text that holds the login page's URL and returns what the person pasted, on
            the thread of the call; ``input`` by default, which works in terminals and notebooks.
            It is not ended by the deadline of the call.
    """

    def __init__(
        self,
        redirect_uri: str = "http://127.0.0.1:8765/callback",
        *,
        ask: Callable[[str], str] = input,
    ) -> None:
        self.redirect_uri = redirect_uri
        self._ask = ask

    def listen(self, registered: Sequence[str]) -> RedirectListener:
        """There is nothing to open."""
        return self

    def obtain(self, authorization_url: str, call: AuthCall) -> str:
        """Ask until something was pasted.

        Raises:
            McpAuthorizationError: There is nobody to ask (no terminal, end of the input).
        """
        prompt = (
            f"Open this page in a browser and log in:\n\n{authorization_url}\n\n"
            "The browser then fails to open a page of this machine. "
            "Paste the address of that page here: "
        )
        while True:
            if call.signal is not None:
                call.signal.raise_if_aborted()
            try:
                pasted = self._ask(prompt).strip()
            except (EOFError, OSError) as exc:
                raise McpAuthorizationError("nobody can be asked for the authorization response") from exc
            if pasted:
                return pasted

    def close(self) -> None:
        """Nothing is held."""
