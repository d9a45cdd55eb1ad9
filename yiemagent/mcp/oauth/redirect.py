"""How a person comes to the login page, and how its answer comes back to us.

Source: RFC 8252 (loopback redirects), issue 5 part 3 (a browser here, or none, as in a notebook
over SSH).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from yiemagent.errors import ConfigurationError, McpAuthorizationError
from yiemagent.mcp.http_auth import AuthCall
from yiemagent.mcp.origin import is_loopback
from yiemagent.value_checks import check_callable, check_type

__all__ = ["BrowserRedirect", "PasteRedirect", "Redirect", "RedirectListener"]


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
        check_type("host", host, str, none=False)
        check_type("path", path, str, none=False)
        check_callable("open_browser", open_browser)
        if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
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

    def _listener(self, port: int) -> RedirectListener:
        from yiemagent.mcp.oauth.loopback import LoopbackListener

        return LoopbackListener(self._host, port, self._path, self._open)


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
        check_type("redirect_uri", redirect_uri, str, none=False)
        check_callable("ask", ask)
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
