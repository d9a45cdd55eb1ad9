"""How a person gets to the login page, and how the answer comes back."""

from __future__ import annotations

import http.client
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, McpAuthorizationError, McpTimeout, RunAborted
from yiemagent.mcp.oauth import BrowserRedirect, PasteRedirect
from yiemagent.testing import WAIT, run_in_thread

PAGE = "https://as.example/authorize?client_id=x&state=st4te"


def get(url: str) -> tuple[int, str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class Browser:
    """Takes the URL of the login page, and lets a test be the person."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.url = ""

    def __call__(self, url: str) -> bool:
        self.url = url
        self.opened.set()
        return True


def test_the_browser_is_opened_and_its_answer_taken(call: Any) -> None:
    """RFC 8252: a loopback redirect on a free port."""
    browser = Browser()
    listener = BrowserRedirect(open_browser=browser).listen(())
    waiting = run_in_thread(listener.obtain, PAGE, call)
    assert browser.opened.wait(WAIT)

    status, text = get(f"{listener.redirect_uri}?code=abc&state=st4te")

    assert waiting.get() == "/callback?code=abc&state=st4te"
    assert browser.url == PAGE
    assert status == 200
    assert "close this window" in text
    listener.close()


def test_what_does_not_belong_to_the_login_is_passed_over(call: Any) -> None:
    """Favicons, other tabs and silent connections of the browser must not end the wait."""
    browser = Browser()
    listener = BrowserRedirect(open_browser=browser).listen(())
    waiting = run_in_thread(listener.obtain, PAGE, call)
    assert browser.opened.wait(WAIT)
    parts = urlsplit(listener.redirect_uri)

    with socket.create_connection((parts.hostname, parts.port)):
        assert get(f"http://{parts.netloc}/favicon.ico")[0] == 404
        assert get(f"{listener.redirect_uri}?code=evil&state=other")[0] == 400
        get(f"{listener.redirect_uri}?code=abc&state=st4te")
        assert waiting.get() == "/callback?code=abc&state=st4te"
    listener.close()


def test_the_port_of_the_registration_is_taken_again() -> None:
    """A registration names the port; using it again saves a new registration."""
    first = BrowserRedirect().listen(())
    uri = first.redirect_uri
    first.close()

    second = BrowserRedirect().listen((uri,))

    assert second.redirect_uri == uri
    second.close()


def test_a_port_that_is_taken_is_replaced_unless_it_was_asked_for() -> None:
    """Another program may have the port of our registration."""
    first = BrowserRedirect().listen(())
    port = urlsplit(first.redirect_uri).port

    second = BrowserRedirect().listen((first.redirect_uri,))
    assert second.redirect_uri != first.redirect_uri
    with pytest.raises(ConfigurationError, match=f"port {port}"):
        BrowserRedirect(port=port).listen(())

    first.close()
    second.close()


@pytest.mark.parametrize("failure", ["false", "raises"])
def test_a_machine_without_browser_says_what_to_use(call: Any, failure: str) -> None:
    """A notebook over SSH: the message names PasteRedirect."""

    def no_browser(url: str) -> bool:
        if failure == "raises":
            raise OSError("no display")
        return False

    listener = BrowserRedirect(open_browser=no_browser).listen(())

    with pytest.raises(McpAuthorizationError, match="PasteRedirect"):
        listener.obtain(PAGE, call)
    listener.close()


def test_the_deadline_ends_the_wait_for_the_person(make_call: Any) -> None:
    """Nobody waits for ever for a login page that somebody closed."""
    listener = BrowserRedirect(open_browser=Browser()).listen(())

    with pytest.raises(McpTimeout, match="login page"):
        listener.obtain(PAGE, make_call(0.05))
    listener.close()


def test_an_abort_ends_the_wait_for_the_person(make_call: Any) -> None:
    """E-08 holds for logins too."""
    browser, signal = Browser(), AbortSignal()
    listener = BrowserRedirect(open_browser=browser).listen(())
    waiting = run_in_thread(listener.obtain, PAGE, make_call(signal=signal))
    assert browser.opened.wait(WAIT)

    signal.abort()

    with pytest.raises(RunAborted):
        waiting.get()
    listener.close()


def test_closing_leaves_no_thread_and_no_port() -> None:
    """The port answers only while somebody logs in."""
    listener = BrowserRedirect(open_browser=Browser()).listen(())
    parts = urlsplit(listener.redirect_uri)

    listener.close()

    with pytest.raises(OSError, match="refused"):
        socket.create_connection((parts.hostname, parts.port), timeout=WAIT).close()


@pytest.mark.parametrize(
    ("options", "match"),
    [({"port": 70000}, "port"), ({"host": "example.com"}, "host"), ({"path": "x"}, "path")],
)
def test_impossible_redirects_are_refused(options: dict[str, Any], match: str) -> None:
    """The response must come to this machine and nowhere else."""
    with pytest.raises(ConfigurationError, match=match):
        BrowserRedirect(**options)


def test_the_person_pastes_the_address(call: Any) -> None:
    """Issue 5 part 3: a variant without a browser here, for notebooks over SSH."""
    prompts: list[str] = []
    answers = iter(["", "  http://127.0.0.1:8765/callback?code=abc&state=st4te \n"])

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return next(answers)

    listener = PasteRedirect(ask=ask).listen(())

    assert listener.obtain(PAGE, call) == "http://127.0.0.1:8765/callback?code=abc&state=st4te"
    assert listener.redirect_uri == "http://127.0.0.1:8765/callback"
    assert PAGE in prompts[0]
    assert len(prompts) == 2


def test_without_anybody_to_ask_it_ends(call: Any) -> None:
    """A script without a terminal must not hang."""

    def ask(prompt: str) -> str:
        raise EOFError

    with pytest.raises(McpAuthorizationError, match="nobody can be asked"):
        PasteRedirect(ask=ask).listen(()).obtain(PAGE, call)
