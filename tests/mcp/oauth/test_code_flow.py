"""The authorization request and the checks of its response."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from yiemagent.errors import McpAuthorizationError
from yiemagent.mcp.oauth import OAuthClient
from yiemagent.mcp.oauth.code_flow import PendingAuthorization, accept_response, begin_authorization
from yiemagent.mcp.oauth.metadata import AuthorizationServer

ISSUER = "https://as.example"
URI = "http://127.0.0.1:8765/callback"


def server(**changes: Any) -> AuthorizationServer:
    known = {
        "issuer": ISSUER,
        "token_endpoint": f"{ISSUER}/token",
        "authorization_endpoint": f"{ISSUER}/authorize",
        "code_challenge_methods": ("S256",),
    }
    return AuthorizationServer(**{**known, **changes})


def begin(scopes: tuple[str, ...] | None = None, **changes: Any) -> PendingAuthorization:
    return begin_authorization(
        server(**changes),
        OAuthClient(client_id="c"),
        redirect_uri=URI,
        resource="https://mcp.example/mcp",
        scopes=scopes,
    )


def query(pending: PendingAuthorization) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(pending.url).query).items()}


def respond(pending: PendingAuthorization, **given: str) -> str:
    return f"{URI}?{urlencode({'state': pending.state, **given})}"


def test_the_request_carries_pkce_state_and_resource() -> None:
    """OAuth 2.1 section 4.1.1, RFC 7636, RFC 8707."""
    pending = begin(("a", "b"))

    asked = query(pending)
    digest = hashlib.sha256(pending.verifier.encode()).digest()
    assert asked == {
        "response_type": "code",
        "client_id": "c",
        "redirect_uri": URI,
        "state": pending.state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "resource": "https://mcp.example/mcp",
        "scope": "a b",
    }
    assert 43 <= len(pending.verifier) <= 128


def test_secrets_are_fresh_for_each_request_and_do_not_show() -> None:
    """A state or verifier that is used twice protects nothing."""
    first, second = begin(), begin()

    assert first.state != second.state
    assert first.verifier != second.verifier
    assert first.verifier not in repr(first)
    assert first.state not in repr(first)


def test_no_scope_is_sent_when_nobody_names_one() -> None:
    """Specification 2026-07-28, Scope Selection Strategy: omit the parameter."""
    assert "scope" not in query(begin())


def test_offline_access_asks_the_person() -> None:
    """OpenID Connect Core section 11: it is ignored without consent."""
    assert query(begin(("a", "offline_access")))["prompt"] == "consent"


def test_an_endpoint_with_a_query_keeps_it() -> None:
    """RFC 6749 section 3.1."""
    assert begin(authorization_endpoint=f"{ISSUER}/a?tenant=7").url.startswith(
        f"{ISSUER}/a?tenant=7&response"
    )


@pytest.mark.parametrize("methods", [None, (), ("plain",)])
def test_a_server_without_pkce_is_refused(methods: tuple[str, ...] | None) -> None:
    """Specification 2026-07-28, Authorization Code Protection: refuse to proceed."""
    with pytest.raises(McpAuthorizationError, match="PKCE"):
        begin(code_challenge_methods=methods)


def test_a_server_without_login_page_says_what_to_use() -> None:
    """The way out is in the message."""
    with pytest.raises(McpAuthorizationError, match="ClientCredentials"):
        begin(authorization_endpoint=None)


@pytest.mark.parametrize("form", ["url", "query", "padded"])
def test_the_code_is_found_in_a_url_or_a_query(form: str) -> None:
    """People paste what they find in the address bar."""
    pending = begin()
    url = respond(pending, code="abc")
    response = {"url": url, "query": url.partition("?")[2], "padded": f"  {url}\n"}[form]

    assert accept_response(pending, response) == "abc"


@pytest.mark.parametrize(
    ("sends_issuer", "iss", "accepted"),
    [
        (True, ISSUER, True),
        (True, None, False),
        (True, "https://evil.example", False),
        (False, ISSUER, True),
        (False, None, True),
        (False, f"{ISSUER}/", False),
        (False, "HTTPS://AS.EXAMPLE", False),
        (False, "", False),
    ],
)
def test_the_issuer_of_the_response_is_compared_letter_by_letter(
    sends_issuer: bool, iss: str | None, accepted: bool
) -> None:
    """RFC 9207 section 2.4: the four rows of the specification's table, without normalization."""
    pending = begin(sends_issuer=sends_issuer)
    response = respond(pending, code="abc", **({} if iss is None else {"iss": iss}))

    if accepted:
        assert accept_response(pending, response) == "abc"
    else:
        with pytest.raises(McpAuthorizationError, match=r"RFC 9207"):
            accept_response(pending, response)


def test_what_another_issuer_says_is_not_repeated() -> None:
    """Specification 2026-07-28: on mismatch neither error nor description is shown."""
    pending = begin()
    response = respond(pending, error="x", error_description="call 555-EVIL", iss="https://evil.example")

    with pytest.raises(McpAuthorizationError) as caught:
        accept_response(pending, response)
    assert "555" not in str(caught.value)
    assert caught.value.error == ""


@pytest.mark.parametrize("state", ["", "other"])
def test_a_response_to_something_else_is_not_used(state: str) -> None:
    """Specification 2026-07-28, Open Redirection: verify the state."""
    with pytest.raises(McpAuthorizationError, match="state"):
        accept_response(begin(), f"{URI}?code=abc&state={state}")


def test_a_refusal_keeps_its_code_and_reason() -> None:
    """The person said no: that is what the caller reads."""
    pending = begin()

    with pytest.raises(McpAuthorizationError, match="access_denied: not today") as caught:
        accept_response(pending, respond(pending, error="access_denied", error_description="not today"))
    assert caught.value.error == "access_denied"


def test_a_repeated_parameter_is_refused() -> None:
    """OAuth 2.1 section 4.1.2: parameters must not be included more than once."""
    pending = begin()

    with pytest.raises(McpAuthorizationError, match="repeats 'code'"):
        accept_response(pending, respond(pending, code="abc") + "&code=def")


def test_a_response_without_a_code_is_an_error() -> None:
    """Nothing is sent to the token endpoint then."""
    pending = begin()

    with pytest.raises(McpAuthorizationError, match="neither a code nor an error"):
        accept_response(pending, respond(pending))
