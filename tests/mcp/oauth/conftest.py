"""An authorization server and a protected MCP server in memory, behind the ``Exchange`` of a call."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.http_auth import AuthCall, Challenge, HttpAnswer
from yiemagent.testing import WAIT

MCP_URL = "https://mcp.example/mcp"
RESOURCE_DOCUMENT = "https://mcp.example/.well-known/oauth-protected-resource/mcp"


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    """A JSON answer."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return HttpAnswer(status, body, dict(headers or {}))


@dataclass
class Request:
    """What was asked of the web."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Web:
    """Answers by URL; what is not there is a 404. ``requests`` remembers everything."""

    def __init__(self) -> None:
        self.routes: dict[str, Callable[[Request], HttpAnswer] | HttpAnswer] = {}
        self.requests: list[Request] = []

    def __call__(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> HttpAnswer:
        request = Request(method, url, dict(headers or {}), body or b"")
        self.requests.append(request)
        found = self.routes.get(url, HttpAnswer(404))
        return found if isinstance(found, HttpAnswer) else found(request)

    def urls(self, method: str = "GET") -> list[str]:
        return [request.url for request in self.requests if request.method == method]


@dataclass
class AuthorizationServer:
    """An authorization server on a web. Its knobs are what a test is about.

    Attributes:
        forms: The forms that the token endpoint was sent.
        more: Added to the metadata document; a None value takes a member away.
        token: Added to each token response.
        refuse: Grant type to the OAuth error that it is refused with.
    """

    web: Web
    issuer: str = "https://as.example"
    more: dict[str, Any] = field(default_factory=dict)
    token: dict[str, Any] = field(default_factory=dict)
    refuse: dict[str, str] = field(default_factory=dict)
    iss: str | None = ""
    forms: list[dict[str, str]] = field(default_factory=list)
    registrations: list[Any] = field(default_factory=list)
    authorizations: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.web.routes[f"{self.issuer}/.well-known/oauth-authorization-server"] = self._metadata
        self.web.routes[f"{self.issuer}/token"] = self._token
        self.web.routes[f"{self.issuer}/register"] = self._register

    def _metadata(self, request: Request) -> HttpAnswer:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            **self.more,
        }
        return answer({name: value for name, value in document.items() if value is not None})

    def _register(self, request: Request) -> HttpAnswer:
        self.registrations.append(request.json)
        number = len(self.registrations)
        return answer({**request.json, "client_id": f"{self.issuer}#client-{number}"}, 201)

    def _token(self, request: Request) -> HttpAnswer:
        form = request.form
        self.forms.append(form)
        refused = self.refuse.get(form["grant_type"])
        if refused:
            return answer({"error": refused, "error_description": "as the test wants"}, 400)
        if form["grant_type"] == "authorization_code":
            proof = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
            assert proof.rstrip(b"=").decode() == self.authorizations[-1]["code_challenge"]
        number = len(self.forms)
        return answer({"access_token": f"{self.issuer}#token-{number}", "token_type": "bearer", **self.token})

    def log_in(self, url: str) -> str:
        """A person agrees at the login page; returns where the browser is sent."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.authorizations.append(asked)
        given = {"code": "c0de", "state": asked["state"]}
        if self.iss is not None:
            given["iss"] = self.iss or self.issuer
        return f"{asked['redirect_uri']}?{urlencode(given)}"


class Person:
    """A ``Redirect`` whose person agrees at once; ``on_page`` may do something else.

    Attributes:
        pages: The login pages that were shown.
    """

    redirect_uri = "http://127.0.0.1:8765/callback"

    def __init__(self, web: Web) -> None:
        self._web = web
        self.pages: list[str] = []
        self.registered: list[tuple[str, ...]] = []
        self.closed = 0
        self.on_page: Callable[[str, AuthCall], str] | None = None
        self.servers: dict[str, AuthorizationServer] = {}

    def listen(self, registered: Sequence[str]) -> Person:
        self.registered.append(tuple(registered))
        return self

    def obtain(self, authorization_url: str, call: AuthCall) -> str:
        self.pages.append(authorization_url)
        if self.on_page is not None:
            return self.on_page(authorization_url, call)
        parts = urlsplit(authorization_url)
        return self.servers[f"{parts.scheme}://{parts.netloc}"].log_in(authorization_url)

    def close(self) -> None:
        self.closed += 1


class McpServer:
    """The protected MCP server: names its authorization servers, and challenges."""

    url = MCP_URL

    def __init__(self, web: Web) -> None:
        self._web = web
        self.document: dict[str, Any] = {
            "resource": MCP_URL,
            "authorization_servers": ["https://as.example"],
        }
        web.routes[RESOURCE_DOCUMENT] = lambda request: answer(self.document)

    def refuse(
        self,
        sent: Mapping[str, str] | None = None,
        *,
        status: int = 401,
        attempt: int = 0,
        operation: str = "tools/call x",
        headers: Mapping[str, str] | None = None,
        **parameters: str,
    ) -> Challenge:
        """The challenge to a request with these authorization headers."""
        named = {"resource_metadata": RESOURCE_DOCUMENT, **parameters}
        header = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in named.items())
        refusal = HttpAnswer(status, b"", {"www-authenticate": header, **(headers or {})})
        return Challenge.of(refusal, url=self.url, sent=sent or {}, attempt=attempt, operation=operation)


@pytest.fixture
def web() -> Web:
    """An empty web."""
    return Web()


@pytest.fixture
def mcp(web: Web) -> McpServer:
    """The MCP server at https://mcp.example/mcp."""
    return McpServer(web)


@pytest.fixture
def make_as(web: Web, person: Person) -> Callable[..., AuthorizationServer]:
    """Make authorization servers that the person can log in to."""

    def make(issuer: str = "https://as.example", **knobs: Any) -> AuthorizationServer:
        person.servers[issuer] = AuthorizationServer(web, issuer, **knobs)
        return person.servers[issuer]

    return make


@pytest.fixture
def server(make_as: Callable[..., AuthorizationServer]) -> AuthorizationServer:
    """The authorization server https://as.example."""
    return make_as()


@pytest.fixture
def person(web: Web) -> Person:
    """Somebody who logs in."""
    return Person(web)


@pytest.fixture
def make_call(web: Web) -> Callable[..., AuthCall]:
    """Calls with limits of their own."""

    def make(timeout: float | None = WAIT, signal: AbortSignal | None = None) -> AuthCall:
        return AuthCall(web, Deadline(timeout), signal)

    return make


@pytest.fixture
def call(make_call: Callable[..., AuthCall]) -> AuthCall:
    """A call with five seconds."""
    return make_call()


class Clock:
    """Unix time that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    """Unix time that a test moves."""
    return Clock()
