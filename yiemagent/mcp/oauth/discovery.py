"""Finding the authorization server of an MCP server, in the order of the specification.

Source: RFC 9728 section 5, RFC 8414 section 3, specification 2026-07-28 "Authorization Server
Discovery", and 2025-03-26 for servers that are their own authorization server.
"""

from __future__ import annotations

import logging
from urllib.parse import urljoin, urlsplit

from yiemagent.errors import McpAuthorizationError
from yiemagent.mcp.http_auth import AuthCall, HttpAnswer
from yiemagent.mcp.oauth.metadata import (
    AuthorizationServer,
    ProtectedResource,
    covers,
    json_object,
    parse_resource,
    require_secure,
)
from yiemagent.mcp.origin import origin_of

__all__ = ["discover_resource", "discover_server", "resource_metadata_urls", "server_metadata_urls"]

logger = logging.getLogger(__name__)

_HEADERS = {"Accept": "application/json"}
_MOST_REDIRECTS = 3


def resource_metadata_urls(url: str, advertised: str | None) -> tuple[str, ...]:
    """Where the metadata of the MCP server at *url* may be, best first, without repetition."""
    path, origin = urlsplit(url).path.rstrip("/"), origin_of(url)
    well_known = f"{origin}/.well-known/oauth-protected-resource"
    wanted = [advertised, well_known + path if path else None, well_known]
    return tuple(dict.fromkeys(one for one in wanted if one))


def server_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where the metadata of the authorization server *issuer* may be, in the order to try."""
    path, origin = urlsplit(issuer).path.rstrip("/"), origin_of(issuer)
    if not path:
        return (
            f"{origin}/.well-known/oauth-authorization-server",
            f"{origin}/.well-known/openid-configuration",
        )
    return (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    )


def _fetch(url: str, call: AuthCall, *, insecure: bool) -> HttpAnswer:
    answer = call.exchange("GET", url, headers=_HEADERS)
    for _ in range(_MOST_REDIRECTS):
        location = answer.headers.get("location")
        if answer.status not in (301, 302, 303, 307, 308) or not location:
            break
        url = require_secure(urljoin(url, location), f"the redirect of {url}", insecure=insecure)
        answer = call.exchange("GET", url, headers=_HEADERS)
    return answer


def discover_resource(
    url: str, advertised: str | None, call: AuthCall, *, insecure: bool = False
) -> ProtectedResource | None:
    """Ask the MCP server at *url* who authorizes for it.

    Args:
        url: The MCP server's URL.
        advertised: ``resource_metadata`` of its challenge, tried first.
        call: The call that this serves.
        insecure: Allow http to any host.

    Returns:
        What it says, or None when it publishes nothing (then it may be its own authorization
        server, as in MCP 2025-03-26).

    Raises:
        McpAuthorizationError: What it says is unusable, or is about another server.
    """
    for candidate in resource_metadata_urls(url, advertised):
        require_secure(candidate, "the protected resource metadata URL", insecure=insecure)
        answer = _fetch(candidate, call, insecure=insecure)
        document = json_object(answer) if answer.status == 200 else None
        if document is None:
            logger.debug("url=%s status=%d | no protected resource metadata here", candidate, answer.status)
            continue
        resource = parse_resource(document, url=candidate)
        if not covers(resource.resource, url):
            raise McpAuthorizationError(
                f"{candidate} describes the resource {resource.resource!r}, which is not the server {url!r}; "
                "no token is asked for on behalf of another server"
            )
        return resource
    return None


def discover_server(
    issuer: str, call: AuthCall, *, insecure: bool = False, guess: bool = False
) -> AuthorizationServer:
    """Fetch and check the metadata of the authorization server *issuer*.

    Args:
        issuer: Its identifier; the document must bear exactly this one.
        call: The call that this serves.
        insecure: Allow http to any host.
        guess: Fall back to the default endpoints of MCP 2025-03-26.

    Raises:
        McpAuthorizationError: There is no metadata, it is another issuer's, or it is unusable.
    """
    require_secure(issuer, "the authorization server", insecure=insecure)
    tried = []
    for candidate in server_metadata_urls(issuer):
        answer = _fetch(candidate, call, insecure=insecure)
        document = json_object(answer) if answer.status == 200 else None
        if document is None:
            tried.append(f"{candidate} ({answer.status})")
            continue
        server = AuthorizationServer.parse(document, url=candidate)
        if server.issuer != issuer:
            raise McpAuthorizationError(
                f"the metadata at {candidate} is of the issuer {server.issuer!r}, not of {issuer!r}; "
                "it is not used (RFC 8414 section 3.3)"
            )
        for name in ("token_endpoint", "authorization_endpoint", "registration_endpoint"):
            if (endpoint := getattr(server, name)) is not None:
                require_secure(endpoint, f"the {name} of {issuer}", insecure=insecure)
        return server
    if guess:
        return AuthorizationServer.guess(issuer)
    raise McpAuthorizationError(
        f"the authorization server {issuer!r} publishes no metadata; tried {', '.join(tried)}"
    )
