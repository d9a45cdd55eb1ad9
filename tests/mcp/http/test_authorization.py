"""Authorization on the wire: what a 401 or 403 leads to, and what is sent where."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from yiemagent.errors import McpAuthorizationError, McpTimeout
from yiemagent.mcp import McpHttp
from yiemagent.mcp.oauth import AuthorizationCode, ClientCredentials, OAuth
from yiemagent.mcp.transport import RequestRefused
from yiemagent.testing import WAIT
from yiemagent.testing.loopback import LoopbackServer, ServedRequest
from yiemagent.testing.loopback_mcp import SessionServer, result_for


class Guarded:
    """An MCP server that is its own authorization server, on one loopback port.

    Attributes:
        needed: Scopes that a call needs; a token without them is answered with 403.
        calls: What got through.
    """

    def __init__(self) -> None:
        self.loopback: Any = None
        self.asked = "basic"
        self.needed: set[str] = set()
        self.granted: dict[str, set[str]] = {}
        self.calls: list[Any] = []
        self.forms: list[dict[str, str]] = []
        self.foreign_headers: list[dict[str, str]] = []
        self.inner = SessionServer(None)

    def __call__(self, request: ServedRequest) -> None:
        if request.path != "/mcp":
            self.foreign_headers.append(request.headers)
            self._authorization_server(request)
            return
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        where = f'resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
        if token not in self.granted:
            request.reply({}, 401, {"WWW-Authenticate": f'Bearer scope="basic", {where}'})
        elif not self.needed <= self.granted[token]:
            scope = " ".join(sorted(self.needed))
            challenge = f'Bearer error="insufficient_scope", scope="{scope}", {where}'
            request.reply({}, 403, {"WWW-Authenticate": challenge})
        else:
            if request.body:
                self.calls.append(request.json.get("method"))
            self.inner(request)

    def _authorization_server(self, request: ServedRequest) -> None:
        path = request.path
        if path == "/.well-known/oauth-protected-resource/mcp":
            request.reply({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})
        elif path == "/.well-known/oauth-authorization-server":
            request.reply(
                {
                    "issuer": self.url,
                    "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token",
                    "registration_endpoint": f"{self.url}/register",
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
                }
            )
        elif path == "/register":
            request.reply({"client_id": "us"}, 201)
        elif path == "/token":
            form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
            self.forms.append(form)
            token = f"token-{len(self.forms)}"
            self.granted[token] = set(form.get("scope", self.asked).split())
            request.reply({"access_token": token, "token_type": "Bearer"})
        else:
            request.reply({}, 404)

    @property
    def url(self) -> str:
        return str(self.loopback.url)


class Person:
    """Agrees to everything at once."""

    redirect_uri = "http://127.0.0.1:8765/callback"

    def __init__(self, server: Guarded) -> None:
        self.server = server
        self.pages: list[str] = []
        self.before: Callable[[Any], object] = lambda call: None

    def listen(self, registered: Sequence[str]) -> Person:
        return self

    def obtain(self, authorization_url: str, call: Any) -> str:
        self.pages.append(authorization_url)
        self.before(call)
        asked = parse_qs(urlsplit(authorization_url).query)
        self.server.asked = asked["scope"][0]
        return f"{self.redirect_uri}?code=c&state={asked['state'][0]}"

    def close(self) -> None: ...


@pytest.fixture
def guarded(serve: Callable[[Any], LoopbackServer]) -> Guarded:
    """The server, running."""
    server = Guarded()
    server.loopback = serve(server)
    return server


def posts(guarded: Guarded) -> list[Any]:
    return [json.loads(r.body) for r in guarded.loopback.requests if r.path == "/mcp" and r.body]


def test_a_refused_request_is_repeated_with_a_token(wire: Any, guarded: Guarded) -> None:
    """Specification 2026-07-28, Authorization Flow Steps; the request itself stays the same."""
    person = Person(guarded)
    client = wire(guarded.loopback, auth=OAuth(AuthorizationCode(person)))

    assert client.ask("tools/call", {"name": "x"})["result"] == {}
    client.ask("tools/call", {"name": "y"})

    sent = posts(guarded)
    assert [one["params"]["name"] for one in sent] == ["x", "x", "y"]
    assert sent[0] == sent[1]
    assert guarded.calls == ["tools/call", "tools/call"]
    assert len(person.pages) == 1


def test_more_scopes_are_fetched_when_a_call_needs_them(wire: Any, guarded: Guarded) -> None:
    """Specification 2026-07-28, Step-Up Authorization Flow; nothing was carried out before."""
    person = Person(guarded)
    client = wire(guarded.loopback, auth=OAuth(AuthorizationCode(person)))
    client.ask("tools/list")
    guarded.needed = {"write"}

    client.ask("tools/call", {"name": "x"})

    assert guarded.calls == ["tools/list", "tools/call"]
    assert [parse_qs(urlsplit(page).query)["scope"] for page in person.pages] == [["basic"], ["basic write"]]


def test_the_authorization_server_sees_neither_headers_nor_tokens_of_the_mcp_server(
    wire: Any, guarded: Guarded
) -> None:
    """A header for the MCP server may be a key that is nobody else's business."""
    client = wire(guarded.loopback, auth=OAuth(AuthorizationCode(Person(guarded))), headers={"X-Key": "s3"})

    client.ask("tools/list")

    assert guarded.foreign_headers
    assert not any({"x-key", "authorization"} & set(headers) for headers in guarded.foreign_headers)


def test_without_an_authorization_the_error_says_what_to_give(wire: Any, guarded: Guarded) -> None:
    """Field problem 19: URL, status and the way out."""
    client = wire(guarded.loopback)

    with pytest.raises(McpAuthorizationError, match=r"/mcp answered 401 .*scope=.*McpHttp\(auth=") as caught:
        client.ask("tools/list")
    assert caught.value.status == 401
    assert client.connection.alive


def test_a_403_without_a_challenge_is_a_refusal_like_others(wire: Any) -> None:
    """Servers answer 403 to a wrong Origin or Host, which no token would change."""
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "Invalid Host"}}
    client = wire(lambda request: request.reply(error, 403), auth="t0ken")
    assert client.ask() == error

    client.server.handler = lambda request: request.reply(b"no", 403)
    with pytest.raises(RequestRefused, match="403: no"):
        client.ask()


def test_a_bearer_token_wins_over_headers_and_a_function_is_asked_each_time(wire: Any) -> None:
    """Plain bearer tokens and headers first (issue 5 part 3)."""
    tokens = iter(["one", "two"])
    client = wire(
        lambda request: request.reply(result_for(request)),
        auth=lambda: next(tokens),
        headers={"Authorization": "Bearer old"},
    )

    client.ask()
    client.ask()

    assert [r.headers["authorization"] for r in client.server.requests] == ["Bearer one", "Bearer two"]


def test_the_get_stream_never_opens_a_login_page(wire: Any, guarded: Guarded) -> None:
    """What a background thread meets is left to the next call."""
    person = Person(guarded)
    guarded.inner = SessionServer("s-1")
    client = wire(guarded.loopback, auth=OAuth(AuthorizationCode(person)))
    client.initialize()
    guarded.granted.clear()
    guarded.inner.on_get = lambda request: request.reply(b"", 401)

    client.close()

    assert len(person.pages) == 1


def test_a_login_during_the_handshake_does_not_use_up_its_time(guarded: Guarded) -> None:
    """The person's time counts for no deadline: probe, connect and call go on afterwards."""
    guarded.inner.on_call = lambda request: request.reply(
        result_for(
            request,
            {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "tools": []},
        )
    )
    person = Person(guarded)

    def take_long(call: Any) -> None:
        threading.Event().wait(1.2)  # longer than any of the limits below

    person.before = take_long
    oauth = OAuth(AuthorizationCode(person))

    with McpHttp(f"{guarded.url}/mcp", auth=oauth, connect_timeout=1, probe_timeout=1) as client:
        assert client.list_tools(timeout=1) == ()
        assert client.connect().protocol_version == "2026-07-28"


def test_connecting_ahead_saves_the_first_call_from_waiting(guarded: Guarded) -> None:
    """``client.connect()`` in a notebook cell of its own."""
    person = Person(guarded)
    with McpHttp(f"{guarded.url}/mcp", auth=OAuth(AuthorizationCode(person))) as client:
        client.connect()
        assert len(person.pages) == 1

        client.call_tool("search")

    assert len(person.pages) == 1


def test_a_program_logs_in_by_itself(wire: Any, guarded: Guarded) -> None:
    """Client credentials over a real socket."""
    client = wire(guarded.loopback, auth=OAuth(ClientCredentials("me", "s3")))

    client.ask("tools/list")

    assert guarded.forms[0]["grant_type"] == "client_credentials"
    assert guarded.calls == ["tools/list"]


def test_the_deadline_counts_for_the_authorization_server_too(wire: Any, guarded: Guarded) -> None:
    """A silent token endpoint does not hold a call."""
    client = wire(guarded.loopback, auth=OAuth(ClientCredentials("me", "s3")))
    serve = guarded.loopback.handler

    def silent_token(request: ServedRequest) -> None:
        if request.path == "/token":
            request.closing.wait(WAIT)
            request.hang_up()
        else:
            serve(request)

    guarded.loopback.handler = silent_token

    with pytest.raises(McpTimeout):
        client.ask("tools/list", timeout=0.3)


def test_an_authorization_that_never_gives_up_is_given_up(wire: Any) -> None:
    """An ``HttpAuth`` of the user's own cannot make a request go round for ever."""

    class Stubborn:
        def headers(self, method: str, url: str, call: Any) -> dict[str, str]:
            return {"Authorization": "Bearer no"}

        def challenged(self, challenge: Any, call: Any) -> bool:
            return True

    client = wire(lambda request: request.reply(b"", 401), auth=Stubborn())

    with pytest.raises(McpAuthorizationError, match="401"):
        client.ask()
    assert len(client.server.requests) == 6
