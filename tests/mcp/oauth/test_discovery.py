"""Finding the authorization server, in the order of the specification, and trusting nothing."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent.errors import McpAuthorizationError
from yiemagent.mcp.http_auth import HttpAnswer
from yiemagent.mcp.oauth.discovery import (
    discover_resource,
    discover_server,
    resource_metadata_urls,
    server_metadata_urls,
)
from yiemagent.mcp.oauth.metadata import canonical_resource, covers

DOCUMENT = b'{"resource": "https://mcp.example/mcp", "authorization_servers": ["https://as.example"]}'


@pytest.mark.parametrize(
    ("url", "advertised", "expected"),
    [
        (
            "https://h/a/mcp",
            None,
            [
                "https://h/.well-known/oauth-protected-resource/a/mcp",
                "https://h/.well-known/oauth-protected-resource",
            ],
        ),
        ("https://h", None, ["https://h/.well-known/oauth-protected-resource"]),
        ("https://h/?x=1", None, ["https://h/.well-known/oauth-protected-resource"]),
        (
            "https://h",
            "https://h/special",
            ["https://h/special", "https://h/.well-known/oauth-protected-resource"],
        ),
    ],
)
def test_where_resource_metadata_is_looked_for(url: str, advertised: str | None, expected: list[str]) -> None:
    """RFC 9728 section 3.1: what the challenge names, then at the path, then at the root."""
    assert list(resource_metadata_urls(url, advertised)) == expected


@pytest.mark.parametrize(
    ("issuer", "expected"),
    [
        (
            "https://as/tenant1",
            [
                "https://as/.well-known/oauth-authorization-server/tenant1",
                "https://as/.well-known/openid-configuration/tenant1",
                "https://as/tenant1/.well-known/openid-configuration",
            ],
        ),
        (
            "https://as:8443/",
            [
                "https://as:8443/.well-known/oauth-authorization-server",
                "https://as:8443/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_where_server_metadata_is_looked_for(issuer: str, expected: list[str]) -> None:
    """Specification 2026-07-28, Authorization Server Metadata Discovery."""
    assert list(server_metadata_urls(issuer)) == expected


@pytest.mark.parametrize(
    ("resource", "url", "expected"),
    [
        ("https://h/mcp", "https://h/mcp", True),
        ("https://h", "https://h/mcp", True),
        ("https://H:443/mcp/", "https://h/mcp", True),
        ("https://h/mc", "https://h/mcp", False),
        ("https://h/mcp/deeper", "https://h/mcp", False),
        ("http://h/mcp", "https://h/mcp", False),
        ("https://h:8443/mcp", "https://h/mcp", False),
        ("https://evil.example/mcp", "https://h/mcp", False),
        ("https://h/mcp#part", "https://h/mcp", False),
    ],
)
def test_which_resource_may_speak_for_a_server(resource: str, url: str, expected: bool) -> None:
    """RFC 9728 section 3.3: metadata about another resource must not be used."""
    assert covers(resource, url) is expected


def test_the_canonical_identifier_has_no_query_and_no_slash_at_the_end() -> None:
    """Specification 2026-07-28, Canonical Server URI."""
    assert canonical_resource("HTTPS://Mcp.Example:443/Mcp/?x=1#y") == "https://mcp.example/Mcp"


def test_what_the_challenge_names_is_asked_first(web: Any, call: Any) -> None:
    """RFC 9728 section 5.1."""
    web.routes["https://mcp.example/custom"] = HttpAnswer(200, DOCUMENT)

    found = discover_resource("https://mcp.example/mcp", "https://mcp.example/custom", call)

    assert found is not None
    assert found.authorization_servers == ("https://as.example",)
    assert web.urls() == ["https://mcp.example/custom"]


def test_the_root_is_the_last_place(web: Any, call: Any) -> None:
    """RFC 9728 section 3.1: some servers publish for the whole host."""
    web.routes["https://mcp.example/.well-known/oauth-protected-resource"] = HttpAnswer(200, DOCUMENT)

    assert discover_resource("https://mcp.example/mcp", None, call) is not None
    assert len(web.requests) == 2


def test_a_server_without_metadata_gives_nothing(web: Any, call: Any) -> None:
    """MCP 2025-03-26 knows no resource metadata."""
    assert discover_resource("https://mcp.example/mcp", None, call) is None


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b'{"authorization_servers": ["https://as.example"]}', "has no resource"),
        (
            b'{"resource": "https://mcp.example/mcp", "authorization_servers": []}',
            "has no authorization_servers",
        ),
        (
            b'{"resource": "https://evil.example/mcp", "authorization_servers": ["https://x"]}',
            "is not the server",
        ),
    ],
)
def test_unusable_resource_metadata_is_refused(web: Any, call: Any, body: bytes, match: str) -> None:
    """Nobody is asked for a token on the word of such a document."""
    web.routes["https://mcp.example/.well-known/oauth-protected-resource/mcp"] = HttpAnswer(200, body)

    with pytest.raises(McpAuthorizationError, match=match):
        discover_resource("https://mcp.example/mcp", None, call)


def test_metadata_of_another_issuer_is_not_used(web: Any, call: Any, make_as: Any) -> None:
    """RFC 8414 section 3.3: the issuer in the document is the one that was asked for, letter by letter."""
    make_as(more={"issuer": "https://as.example/"})

    with pytest.raises(McpAuthorizationError, match=r"is of the issuer 'https://as\.example/'"):
        discover_server("https://as.example", call)
    assert len(web.requests) == 1


def test_openid_metadata_will_do(web: Any, call: Any) -> None:
    """OpenID Connect Discovery 1.0, path appended."""
    web.routes["https://as.example/t/.well-known/openid-configuration"] = HttpAnswer(
        200, b'{"issuer": "https://as.example/t", "token_endpoint": "https://as.example/t/token"}'
    )

    assert discover_server("https://as.example/t", call).token_endpoint == "https://as.example/t/token"


def test_a_redirected_document_is_followed(web: Any, call: Any, server: Any) -> None:
    """Well-known documents move; the issuer check makes that safe."""
    web.routes["https://old.example/.well-known/oauth-authorization-server"] = HttpAnswer(
        302, b"", {"location": "https://as.example/.well-known/oauth-authorization-server"}
    )
    server.more["issuer"] = "https://old.example"

    assert discover_server("https://old.example", call).issuer == "https://old.example"


def test_a_redirect_to_plain_http_is_not_followed(web: Any, call: Any) -> None:
    """OAuth 2.1 section 1.5."""
    web.routes["https://as.example/.well-known/oauth-authorization-server"] = HttpAnswer(
        302, b"", {"location": "http://as.example/x"}
    )

    with pytest.raises(McpAuthorizationError, match="is not https"):
        discover_server("https://as.example", call)


def test_an_authorization_server_without_metadata_is_named_with_what_was_tried(web: Any, call: Any) -> None:
    """The way out is in the message."""
    with pytest.raises(
        McpAuthorizationError, match=r"publishes no metadata; tried .*openid-configuration \(404\)"
    ):
        discover_server("https://as.example", call)


def test_a_server_of_2025_03_26_has_default_endpoints(web: Any, call: Any) -> None:
    """MCP 2025-03-26, Fallbacks for Servers without Metadata Discovery."""
    found = discover_server("https://mcp.example", call, guess=True)

    assert (found.authorization_endpoint, found.token_endpoint, found.registration_endpoint) == (
        "https://mcp.example/authorize",
        "https://mcp.example/token",
        "https://mcp.example/register",
    )


@pytest.mark.parametrize("member", ["issuer", "token_endpoint"])
def test_metadata_without_the_needed_members_is_refused(make_as: Any, call: Any, member: str) -> None:
    """A document that cannot be used says why."""
    make_as(more={member: None})

    with pytest.raises(McpAuthorizationError, match=f"has no {member}"):
        discover_server("https://as.example", call)


@pytest.mark.parametrize("member", ["token_endpoint", "authorization_endpoint", "registration_endpoint"])
def test_endpoints_must_be_secure(make_as: Any, call: Any, member: str) -> None:
    """Specification 2026-07-28, Communication Security: all endpoints over HTTPS."""
    make_as(more={member: "http://as.example/x"})

    with pytest.raises(McpAuthorizationError, match=f"the {member} of .* is not https"):
        discover_server("https://as.example", call)
    assert discover_server("https://as.example", call, insecure=True)


def test_this_machine_may_speak_http(call: Any, make_as: Any) -> None:
    """Tests and development servers run on loopback."""
    make_as("http://localhost:9000")

    assert discover_server("http://localhost:9000", call).token_endpoint == "http://localhost:9000/token"
