"""Who we are to an authorization server, and how we prove it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, McpAuthorizationError
from yiemagent.mcp.oauth import MemoryTokenStore, OAuthClient, StoreKey
from yiemagent.mcp.oauth.client import authenticate
from yiemagent.mcp.oauth.metadata import AuthorizationServer
from yiemagent.mcp.oauth.registration import (
    ClientIdentity,
    GivenClient,
    check_metadata_url,
    known_client,
    obtain_client,
    register,
)

ISSUER = "https://as.example"
URI = "http://127.0.0.1:8765/callback"


def server(**changes: Any) -> AuthorizationServer:
    known = {
        "issuer": ISSUER,
        "token_endpoint": f"{ISSUER}/token",
        "registration_endpoint": f"{ISSUER}/register",
    }
    return AuthorizationServer(**{**known, **changes})


# --- proving it


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (None, "basic"),
        (("client_secret_basic", "client_secret_post"), "basic"),
        (("client_secret_post",), "post"),
        (("none",), "none"),
        (("tls_client_auth",), "basic"),
    ],
)
def test_a_secret_is_shown_as_the_server_wants_it(offered: tuple[str, ...] | None, expected: str) -> None:
    """RFC 8414 section 2: without a list, basic it is."""
    client = OAuthClient(client_id="me", client_secret="s3")

    headers, form = authenticate(client, server(auth_methods=offered))

    if expected == "basic":
        assert headers == {"Authorization": "Basic " + base64.b64encode(b"me:s3").decode()}
        assert form == {}
    else:
        assert headers == {}
        assert form == {"client_id": "me", **({"client_secret": "s3"} if expected == "post" else {})}


def test_both_halves_of_basic_are_form_encoded() -> None:
    """RFC 6749 section 2.3.1: a colon or a space in the id must not break the pair."""
    client = OAuthClient(client_id="https://c.example/x y", client_secret="a:b+c")

    headers, _ = authenticate(client, server())

    pair = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
    assert pair == "https%3A%2F%2Fc.example%2Fx+y:a%3Ab%2Bc"


def test_a_client_without_secret_only_names_itself() -> None:
    """A public client (OAuth 2.1 section 2.1)."""
    assert authenticate(OAuthClient(client_id="me"), server()) == ({}, {"client_id": "me"})


def test_what_the_client_was_registered_for_wins() -> None:
    """``token_endpoint_auth_method`` of the registration."""
    client = OAuthClient(client_id="me", client_secret="s3", auth_method="client_secret_post")

    assert authenticate(client, server(auth_methods=("client_secret_basic",)))[1]["client_secret"] == "s3"


def test_an_expired_secret_is_not_sent() -> None:
    """RFC 7591 section 3.2.1."""
    client = OAuthClient(client_id="me", client_secret="s3", expires_at=100.0)

    with pytest.raises(McpAuthorizationError, match="expired"):
        authenticate(client, server(), now=lambda: 100.0)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"client_id": ""}, "client_id"),
        ({"client_id": "x", "auth_method": "magic"}, "auth_method"),
        ({"client_id": "x", "auth_method": "client_secret_post"}, "client_secret"),
        ({"client_id": "x", "auth_method": "private_key_jwt"}, "private_key"),
        ({"client_id": "x", "algorithm": "HS256"}, "algorithm"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: dict[str, Any], match: str) -> None:
    """A mistake shows at construction."""
    with pytest.raises(ConfigurationError, match=match):
        OAuthClient(**fields)


def test_secrets_do_not_show() -> None:
    """A client is printed in logs."""
    assert "s3" not in repr(OAuthClient(client_id="me", client_secret="s3"))


# --- signed tokens


def claims_of(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, claims, _ = (base64.urlsafe_b64decode(part + "==") for part in token.split("."))
    return json.loads(header), json.loads(claims)


def pem(kind: str) -> str:
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    key: Any = {
        "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
        "EC384": lambda: ec.generate_private_key(ec.SECP384R1()),
        "RSA": lambda: rsa.generate_private_key(65537, 2048),
        "Ed": ed25519.Ed25519PrivateKey.generate,
    }[kind]()
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def test_a_private_key_signs_an_assertion_for_this_issuer_only() -> None:
    """RFC 7523 section 2.2; the audience is the issuer, so no other server can use it."""
    client = OAuthClient(client_id="me", private_key=pem("EC"), key_id="k1")

    headers, form = authenticate(client, server(), now=lambda: 1000.5)

    header, claims = claims_of(form["client_assertion"])
    jti = claims.pop("jti")
    assert headers == {}
    assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert header == {"alg": "ES256", "typ": "JWT", "kid": "k1"}
    assert claims == {"iss": "me", "sub": "me", "aud": ISSUER, "iat": 1000, "exp": 1300}
    assert len(jti) > 20


@pytest.mark.parametrize(
    ("kind", "offered", "expected"),
    [
        ("EC", (), "ES256"),
        ("EC384", (), "ES384"),
        ("RSA", ("ES256", "PS256"), "PS256"),
        ("RSA", (), "RS256"),
        ("Ed", (), "EdDSA"),
    ],
)
def test_the_algorithm_fits_key_and_server(kind: str, offered: tuple[str, ...], expected: str) -> None:
    """``token_endpoint_auth_signing_alg_values_supported``."""
    client = OAuthClient(client_id="me", private_key=pem(kind))

    form = authenticate(client, server(signing_algorithms=offered))[1]

    assert claims_of(form["client_assertion"])[0]["alg"] == expected


def test_a_key_that_fits_nothing_says_so() -> None:
    """The message names what the server takes."""
    client = OAuthClient(client_id="me", private_key=pem("EC"))

    with pytest.raises(McpAuthorizationError, match="RS256"):
        authenticate(client, server(signing_algorithms=("RS256",)))


def test_a_key_of_the_wrong_kind_for_the_algorithm_is_a_configuration_error() -> None:
    """Explicit is explicit: no other algorithm is tried."""
    client = OAuthClient(client_id="me", private_key=pem("RSA"), algorithm="ES256")

    with pytest.raises(ConfigurationError, match="cannot sign with ES256"):
        authenticate(client, server())


def test_what_is_no_key_is_a_configuration_error() -> None:
    """The key's text is not in the message."""
    pytest.importorskip("cryptography")
    client = OAuthClient(client_id="me", private_key="s3cret")

    with pytest.raises(ConfigurationError, match="not a PEM private key") as caught:
        authenticate(client, server())
    assert "s3cret" not in str(caught.value)


def test_signatures_verify() -> None:
    """RFC 7518 section 3.4: ES256 is two numbers side by side, not DER."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    from yiemagent.mcp.oauth.jwt import new_key, sign_jwt

    key = new_key()
    head, payload, signature = sign_jwt({"a": 1}, key, "ES256", {}).split(".")

    raw = base64.urlsafe_b64decode(signature + "==")
    der = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key.public_key().verify(der, f"{head}.{payload}".encode(), ec.ECDSA(hashes.SHA256()))


# --- becoming one


def test_a_client_given_by_hand_comes_first() -> None:
    """Specification 2026-07-28, Client Registration: pre-registered, then CIMD, then registration."""
    given = GivenClient(OAuthClient(client_id="mine"))
    identity = ClientIdentity(client=given, metadata_url="https://me.example/client.json")

    found = known_client(identity, server(client_id_documents=True), MemoryTokenStore(), 0.0)

    assert found is not None
    assert found.client_id == "mine"


def test_a_metadata_document_comes_second(call: Any, web: Any) -> None:
    """CIMD: the URL is the client id, where the server can fetch it."""
    identity = ClientIdentity(metadata_url="https://me.example/client.json")

    client = obtain_client(identity, server(client_id_documents=True), MemoryTokenStore(), URI, call, 0.0)

    assert (client.client_id, client.auth_method) == ("https://me.example/client.json", "none")
    assert web.requests == []


def test_registration_comes_last_and_is_kept(call: Any, make_as: Any) -> None:
    """RFC 7591, once for each authorization server."""
    authorization = make_as()
    store = MemoryTokenStore()
    identity = ClientIdentity(metadata_url="https://me.example/client.json", name="Cellar")

    first = obtain_client(identity, server(auth_methods=("none",)), store, URI, call, 0.0)
    again = obtain_client(identity, server(auth_methods=("none",)), store, URI, call, 0.0)

    assert first == again
    assert authorization.registrations == [
        {
            "client_name": "Cellar",
            "redirect_uris": [URI],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
            "token_endpoint_auth_method": "none",
        }
    ]


def test_a_web_application_registers_as_one(call: Any, make_as: Any) -> None:
    """OpenID Connect Registration: application_type by the redirect URI."""
    authorization = make_as()

    register("x", server(), "https://app.example/callback", call)

    assert authorization.registrations[0]["application_type"] == "web"


def test_another_redirect_uri_needs_another_registration(call: Any, make_as: Any) -> None:
    """Servers compare redirect URIs letter by letter, ports included."""
    authorization = make_as()
    store = MemoryTokenStore()

    obtain_client(ClientIdentity(), server(), store, URI, call, 0.0)
    obtain_client(ClientIdentity(), server(), store, "http://127.0.0.1:9999/callback", call, 0.0)

    assert len(authorization.registrations) == 2


def test_an_expired_registration_is_made_again(call: Any, make_as: Any, web: Any) -> None:
    """``client_secret_expires_at``."""
    authorization = make_as()
    store = MemoryTokenStore()
    old = OAuthClient(client_id="old", client_secret="s", redirect_uris=(URI,), expires_at=10.0)
    store.save(StoreKey(ISSUER), old.to_record())

    assert obtain_client(ClientIdentity(), server(), store, URI, call, 9.0).client_id == "old"
    assert obtain_client(ClientIdentity(), server(), store, URI, call, 10.0).client_id != "old"
    assert len(authorization.registrations) == 1


def test_a_registration_of_another_server_is_not_used(call: Any, make_as: Any) -> None:
    """Specification 2026-07-28, Authorization Server Binding."""
    make_as("https://b.example")
    store = MemoryTokenStore()
    store.save(StoreKey(ISSUER), OAuthClient(client_id="of-a", redirect_uris=(URI,)).to_record())
    other = server(issuer="https://b.example", registration_endpoint="https://b.example/register")

    assert obtain_client(ClientIdentity(), other, store, URI, call, 0.0).client_id != "of-a"


def test_a_given_client_stays_with_the_first_server_it_was_used_with() -> None:
    """Its secret must not be shown to whoever the MCP server names next."""
    given = GivenClient(OAuthClient(client_id="me", client_secret="s3"))
    assert given.at(ISSUER).issuer == ISSUER

    with pytest.raises(McpAuthorizationError, match=r"belongs to 'https://as\.example'"):
        given.at("https://evil.example")


def test_a_server_that_registers_nobody_says_what_to_do(call: Any) -> None:
    """Specification 2026-07-28: prompt the user to enter the client information."""
    with pytest.raises(McpAuthorizationError, match=r"AuthorizationCode\(client=OAuthClient") as caught:
        obtain_client(
            ClientIdentity(), server(registration_endpoint=None), MemoryTokenStore(), URI, call, 0.0
        )
    assert URI in str(caught.value)


def test_a_refused_registration_names_the_redirect_uri(call: Any, web: Any) -> None:
    """OpenID servers refuse by redirect URI: the message must hold it."""
    from yiemagent.mcp.http_auth import HttpAnswer

    web.routes[f"{ISSUER}/register"] = HttpAnswer(400, b'{"error": "invalid_redirect_uri"}')

    with pytest.raises(McpAuthorizationError, match=r"8765.*invalid_redirect_uri") as caught:
        register("x", server(), URI, call)
    assert caught.value.error == "invalid_redirect_uri"


@pytest.mark.parametrize(
    "url", ["http://me.example/c.json", "https://me.example", "https://me.example/", "c.json"]
)
def test_a_metadata_url_must_be_https_with_a_path(url: str) -> None:
    """draft-ietf-oauth-client-id-metadata-document section 3."""
    with pytest.raises(ConfigurationError, match="client_metadata_url"):
        check_metadata_url(url)
