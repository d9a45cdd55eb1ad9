"""Authorizations without a person: credentials, assertions, and tokens bound to a key."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, McpAuthorizationError
from yiemagent.mcp.http_auth import BearerToken, HttpAnswer, make_auth
from yiemagent.mcp.oauth import (
    AuthorizationCode,
    ClientCredentials,
    EnterpriseManaged,
    MemoryTokenStore,
    OAuth,
    WorkloadIdentity,
)

URL = "https://mcp.example/mcp"
AS = "https://as.example"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def bearer(number: int) -> dict[str, str]:
    return {"Authorization": f"Bearer {AS}#token-{number}"}


# --- client credentials


def test_a_program_gets_a_token_by_its_secret(call: Any, mcp: Any, server: Any) -> None:
    """OAuth 2.1 section 4.2, with the resource and the scopes that are needed."""
    oauth = OAuth(ClientCredentials("me", "s3", auth_method="client_secret_post"))

    assert oauth.challenged(mcp.refuse(scope="read"), call)

    assert oauth.headers("POST", URL, call) == bearer(1)
    assert server.forms == [
        {
            "grant_type": "client_credentials",
            "resource": URL,
            "scope": "read",
            "client_id": "me",
            "client_secret": "s3",
        }
    ]


def test_a_new_token_is_fetched_before_the_old_one_ends(call: Any, mcp: Any, server: Any, clock: Any) -> None:
    """There is no refresh token: the program simply asks again."""
    server.token["expires_in"] = 60
    oauth = OAuth(ClientCredentials("me", "s3"), clock=clock)
    oauth.challenged(mcp.refuse(), call)
    clock.pass_time(45)

    assert oauth.headers("POST", URL, call) == bearer(2)


def test_a_program_steps_up_too(call: Any, mcp: Any, server: Any) -> None:
    """Specification 2026-07-28: clients acting on their own behalf may attempt the step-up."""
    oauth = OAuth(ClientCredentials("me", "s3"))
    oauth.challenged(mcp.refuse(scope="read"), call)

    oauth.challenged(mcp.refuse(bearer(1), status=403, error="insufficient_scope", scope="write"), call)

    assert [form["scope"] for form in server.forms] == ["read", "read write"]


def test_a_program_never_asks_for_offline_access(call: Any, mcp: Any, server: Any) -> None:
    """It has no use for a refresh token."""
    server.more["scopes_supported"] = ["read", "offline_access"]

    OAuth(ClientCredentials("me", "s3")).challenged(mcp.refuse(scope="read"), call)

    assert server.forms[0]["scope"] == "read"


def test_credentials_for_another_issuer_are_not_sent(call: Any, mcp: Any, server: Any) -> None:
    """``issuer=`` pins them."""
    oauth = OAuth(ClientCredentials("me", "s3", issuer="https://home.example"))

    with pytest.raises(McpAuthorizationError, match=r"belongs to 'https://home\.example'"):
        oauth.challenged(mcp.refuse(), call)
    assert server.forms == []


# --- assertions


def test_a_workload_trades_its_platforms_token(call: Any, mcp: Any, server: Any) -> None:
    """SEP-1933, RFC 7523 section 2.1; the assertion may be made afresh each time."""
    numbers = iter(range(1, 9))
    oauth = OAuth(WorkloadIdentity("me", lambda: f"jwt-{next(numbers)}"))

    oauth.challenged(mcp.refuse(), call)
    oauth.challenged(mcp.refuse(bearer(1)), call)

    assert [form["assertion"] for form in server.forms] == ["jwt-1", "jwt-2"]
    assert server.forms[0] == {
        "grant_type": JWT_BEARER,
        "assertion": "jwt-1",
        "resource": URL,
        "client_id": "me",
    }


def test_a_refused_assertion_is_final(call: Any, mcp: Any, server: Any) -> None:
    """SEP-1933: no retry and no other grant."""
    server.refuse[JWT_BEARER] = "invalid_grant"

    with pytest.raises(McpAuthorizationError, match="invalid_grant"):
        OAuth(WorkloadIdentity("me", "jwt")).challenged(mcp.refuse(), call)
    assert len(server.forms) == 1


def test_a_company_exchanges_its_id_token(call: Any, mcp: Any, server: Any, make_as: Any) -> None:
    """SEP-990: id token to ID-JAG at the identity provider, ID-JAG to access token."""
    provider = make_as("https://idp.example")
    id_jag = "urn:ietf:params:oauth:token-type:id-jag"
    provider.token.update({"access_token": "the-grant", "issued_token_type": id_jag, "token_type": "N_A"})
    oauth = OAuth(
        EnterpriseManaged(
            "me",
            id_token="the-id-token",
            idp_issuer="https://idp.example",
            idp_client_id="me-at-idp",
        )
    )

    oauth.challenged(mcp.refuse(scope="read"), call)

    assert provider.forms == [
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": id_jag,
            "audience": AS,
            "resource": URL,
            "scope": "read",
            "subject_token": "the-id-token",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "client_id": "me-at-idp",
        }
    ]
    assert server.forms[0]["assertion"] == "the-grant"
    assert oauth.headers("POST", URL, call) == bearer(1)


@pytest.mark.parametrize(
    ("change", "match"),
    [({"issued_token_type": "urn:x"}, "instead of an ID-JAG"), (None, "access_denied")],
)
def test_a_company_that_says_no_is_heard(
    call: Any, mcp: Any, server: Any, make_as: Any, change: Any, match: str
) -> None:
    """Policy is the identity provider's; the MCP server's is not even asked."""
    provider = make_as("https://idp.example")
    if change is None:
        provider.refuse["urn:ietf:params:oauth:grant-type:token-exchange"] = "access_denied"
    else:
        provider.token.update(change)
    grant = EnterpriseManaged("me", id_token="t", idp_issuer="https://idp.example", idp_client_id="c")

    with pytest.raises(McpAuthorizationError, match=match):
        OAuth(grant).challenged(mcp.refuse(), call)
    assert server.forms == []


# --- tokens bound to a key


def proof_of(header: str) -> tuple[dict[str, Any], dict[str, Any]]:
    head, claims, _ = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in _three(header))
    return head, claims


def _three(token: str) -> list[str]:
    head, claims, _ = token.split(".")
    return [head, claims, base64.urlsafe_b64encode(b"{}").decode()]


@pytest.fixture
def bound_server(server: Any) -> Any:
    pytest.importorskip("cryptography")
    server.more["dpop_signing_alg_values_supported"] = ["ES256"]
    server.token["token_type"] = "DPoP"
    return server


def test_a_bound_token_comes_with_a_fresh_proof(call: Any, mcp: Any, bound_server: Any, person: Any) -> None:
    """RFC 9449 sections 4.2, 5 and 7: method, URL without query, token hash, never twice the same."""
    oauth = OAuth(AuthorizationCode(person), dpop=True)
    oauth.challenged(mcp.refuse(), call)

    first = oauth.headers("POST", URL + "?x=1", call)
    assert first == {}  # another URL has a token of its own
    one, two = (oauth.headers("POST", URL, call) for _ in range(2))

    assert one["Authorization"] == f"DPoP {AS}#token-1"
    head, claims = proof_of(one["DPoP"])
    assert (head["typ"], head["alg"], set(head["jwk"])) == ("dpop+jwt", "ES256", {"crv", "kty", "x", "y"})
    assert (claims["htm"], claims["htu"]) == ("POST", URL)
    digest = hashlib.sha256(f"{AS}#token-1".encode()).digest()
    assert claims["ath"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert claims["jti"] != proof_of(two["DPoP"])[1]["jti"]


def test_a_nonce_is_used_as_it_is_wanted(
    call: Any, mcp: Any, bound_server: Any, person: Any, web: Any
) -> None:
    """RFC 9449 sections 8 and 9: the request is repeated with the server's nonce, once."""
    token = web.routes[f"{AS}/token"]

    def with_nonce(request: Any) -> HttpAnswer:
        if proof_of(request.headers["DPoP"])[1].get("nonce") != "n-1":
            return HttpAnswer(400, b'{"error": "use_dpop_nonce"}', {"dpop-nonce": "n-1"})
        return token(request)

    web.routes[f"{AS}/token"] = with_nonce
    oauth = OAuth(AuthorizationCode(person), dpop=True)
    oauth.challenged(mcp.refuse(), call)
    sent = oauth.headers("POST", URL, call)

    refusal = mcp.refuse(sent, error="use_dpop_nonce", headers={"dpop-nonce": "n-2"}, attempt=1)
    assert oauth.challenged(refusal, call)

    assert proof_of(oauth.headers("POST", URL, call)["DPoP"])[1]["nonce"] == "n-2"
    assert len(bound_server.forms) == 1


def test_a_stored_bound_token_keeps_its_key(call: Any, mcp: Any, bound_server: Any, person: Any) -> None:
    """Without the key the token is worth nothing to a new process."""
    store = MemoryTokenStore()
    first = OAuth(AuthorizationCode(person), dpop=True, store=store)
    first.challenged(mcp.refuse(), call)
    second = OAuth(AuthorizationCode(person), dpop=True, store=store)
    second.challenged(mcp.refuse(), call)

    keys = [proof_of(one.headers("POST", URL, call)["DPoP"])[0]["jwk"] for one in (first, second)]

    assert keys[0] == keys[1]
    assert len(person.pages) == 1


def test_where_it_is_not_offered_tokens_are_bearer_tokens(
    call: Any, mcp: Any, server: Any, person: Any
) -> None:
    """``dpop=True`` is a wish."""
    oauth = OAuth(AuthorizationCode(person), dpop=True)
    oauth.challenged(mcp.refuse(), call)

    assert oauth.headers("POST", URL, call) == bearer(1)


# --- plain tokens


def test_a_plain_token_is_sent_as_it_is(call: Any, mcp: Any) -> None:
    """RFC 6750 section 2.1; when it is refused nothing can be done."""
    auth = make_auth("t0ken")

    assert auth is not None
    assert auth.headers("POST", URL, call) == {"Authorization": "Bearer t0ken"}
    assert auth.challenged(mcp.refuse({"Authorization": "Bearer t0ken"}), call) is False
    assert "t0ken" not in repr(auth)


def test_a_function_gives_the_token_of_now(call: Any, mcp: Any) -> None:
    """A refused token is asked for again, once, and sent only if it is another one."""
    tokens = iter(["one", "two", "two"])
    auth = BearerToken(lambda: next(tokens))
    sent = auth.headers("POST", URL, call)

    assert auth.challenged(mcp.refuse(sent), call) is True
    assert auth.headers("POST", URL, call) == {"Authorization": "Bearer two"}
    assert auth.challenged(mcp.refuse({"Authorization": "Bearer two"}, attempt=1), call) is False


@pytest.mark.parametrize("token", ["", "  ", "two words", "line\nbreak", "Bearer x"])
def test_what_is_no_token_is_refused_at_once(token: str) -> None:
    """A file read without strip() must not become a header."""
    with pytest.raises(ConfigurationError, match="bearer token"):
        BearerToken(token)


def test_what_is_no_authorization_is_refused_at_once() -> None:
    """The message names what can be given."""
    with pytest.raises(ConfigurationError, match=r"OAuth\(\)"):
        make_auth(42)  # type: ignore[arg-type]
