"""What MCP clients and servers say to values that cannot work: at construction and by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.mcp import (
    McpHttp,
    McpNats,
    McpServer,
    McpStdio,
    PromptArgument,
    ServedPrompt,
    ServedResource,
    ToolSource,
    serve_http,
)
from yiemagent.mcp.oauth import (
    AuthorizationCode,
    BrowserRedirect,
    ClientCredentials,
    FileTokenStore,
    OAuth,
    PasteRedirect,
)
from yiemagent.mcp.stdio import StdioTransport

URL = "http://127.0.0.1:9/mcp"
NATS = "nats://127.0.0.1:9"


def stdio(**options: Any) -> McpStdio:
    return McpStdio("true", **options)


def http(**options: Any) -> McpHttp:
    return McpHttp(URL, **options)


def nats(servers: Any = NATS, **options: Any) -> McpNats:
    return McpNats(servers, "tools", **options)


def server(**options: Any) -> McpServer:
    return McpServer(**options)


def source(**options: Any) -> ToolSource:
    return ToolSource(lambda method, *args, event_sink=None: {}, **options)


def oauth(**options: Any) -> OAuth:
    return OAuth(**options)


def serve(**options: Any) -> object:
    return serve_http(McpServer(), **options)


def resource(**options: Any) -> ServedResource:
    return ServedResource(**{"uri": "memo://x", "name": "memo", "read": str, **options})


def prompt(**options: Any) -> ServedPrompt:
    return ServedPrompt(**{"name": "greet", "render": str, **options})


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (http, {"max_restarts": 2.5}, r"max_restarts must be a whole number of at least 0 or None, got 2\.5"),
        (http, {"max_restarts": "x"}, r"max_restarts must be a whole number"),
        (http, {"progress_extends": "no"}, r"progress_extends must be True or False, got 'no'"),
        (http, {"era": []}, r"era=\[\] is unknown; choose one of 'auto'"),
        (http, {"name": 5}, r"name must be a str or None, got 5"),
        (http, {"session_id": 5}, r"session_id must be a str or None, got 5"),
        (http, {"client_info": "x"}, r"client_info must be a mapping or None, got 'x'"),
        (http, {"capabilities": ["roots"]}, r"capabilities must be a mapping or None, got \['roots'\]"),
        (http, {"roots": "/tmp"}, r"roots must be a list of folders, .* got '/tmp'"),
        (http, {"roots": 5}, r"roots must be a list of folders"),
        (http, {"headers": 5}, r"headers must be a mapping, got 5"),
        (http, {"verify": 5}, r"verify must be a bool or a str or None, got 5"),
        (http, {"cert": 5}, r"cert must be a str or a tuple or None, got 5"),
        (http, {"proxies": "x"}, r"proxies must be a mapping or None, got 'x'"),
        (stdio, {"env": ["A=1"]}, r"env must be a mapping or None, got list"),
        (stdio, {"env": {"PORT": 5}}, r"env must map names to texts; 'PORT' is a int"),
        (stdio, {"inherit_env": 5}, r"inherit_env, unless True or False, must be a list of texts, got 5"),
        (stdio, {"inherit_env": [5]}, r"inherit_env, .*must be a list of texts, got \[5\]"),
        (stdio, {"cwd": 5}, r"cwd must be a str or a PathLike or None, got 5"),
        (stdio, {"max_message_bytes": "1M"}, r"max_message_bytes must be a whole number"),
        (nats, {"servers": 5}, r"servers must be an address or a list of addresses, got 5"),
        (nats, {"servers": [5]}, r"servers must be an address or a list of addresses, got \[5\]"),
        (nats, {"sender_id": 5}, r"sender_id must be printable ASCII, got 5"),
        (nats, {"token": 5}, r"token must be a str or None, got int"),
        (nats, {"tls": 5}, r"tls must be a SSLContext or a str or a PathLike or a bool or None, got 5"),
        (nats, {"tls_first": "no"}, r"tls_first must be True or False, got 'no'"),
        (nats, {"tls_hostname": 5}, r"tls_hostname must be a str or None"),
        (nats, {"credentials": 5}, r"credentials must be a str or a PathLike or None, got 5"),
        (nats, {"pending_bytes_limit": "1M"}, r"pending_bytes_limit must be a whole number"),
        (source, {"allow": 5}, r"allow must be a list of texts, got 5"),
        (source, {"deny": b"x"}, r"deny must be a list of texts, got b'x'"),
        (source, {"prefix": 5}, r"prefix must be a str or a bool or None, got 5"),
        (source, {"session_id": None}, r"session_id must be a str, got None"),
        (source, {"timeout": "x"}, r"timeout must be more than 0 seconds or None, got 'x'"),
        (source, {"watch": "no"}, r"watch must be True or False, got 'no'"),
        (oauth, {"grant": "x"}, r"grant must be one such as AuthorizationCode\(\.\.\.\), got 'x'"),
        (oauth, {"store": {}}, r"store must be one such as FileTokenStore\(\.\.\.\), got \{\}"),
        (oauth, {"scopes": "read write"}, r"scopes must be a list of texts, got 'read write'"),
        (oauth, {"allow_insecure": "no"}, r"allow_insecure must be True or False, got 'no'"),
        (oauth, {"dpop": 1}, r"dpop must be True or False, got 1"),
        (oauth, {"clock": 5}, r"clock must be callable or None, got 5"),
        (AuthorizationCode, {"redirect": "x"}, r"redirect must be one such as BrowserRedirect\(\), got 'x'"),
        (AuthorizationCode, {"client": "me"}, r"client must be an OAuthClient or None, got str"),
        (AuthorizationCode, {"client_metadata_url": 5}, r"client_metadata_url must be a str or None, got 5"),
        (AuthorizationCode, {"offline": "no"}, r"offline must be True or False, got 'no'"),
        (BrowserRedirect, {"port": "8765"}, r"port must be from 0 to 65535, got '8765'"),
        (BrowserRedirect, {"path": 5}, r"path must be a str, got 5"),
        (BrowserRedirect, {"open_browser": "firefox"}, r"open_browser must be callable or None"),
        (PasteRedirect, {"ask": "x"}, r"ask must be callable or None, got 'x'"),
        (FileTokenStore, {"directory": 5}, r"directory must be a str or a PathLike, got 5"),
        (ClientCredentials, {"client_id": 5}, r"client_id must be a str, got 5"),
        (serve, {"path": 5}, r"path must be a str or None, got 5"),
        (serve, {"concurrency": "x"}, r"concurrency must be a whole number of at least 1, got 'x'"),
        (serve, {"concurrency": 0}, r"concurrency must be a whole number of at least 1, got 0"),
        (serve, {"max_body_bytes": 2.5}, r"max_body_bytes must be a whole number of at least 1"),
        (serve, {"allowed_origins": "https://x"}, r"allowed_origins must be a list of texts, got 'https://x'"),
        (resource, {"uri": 5}, r"uri of resource 'memo' must be a str, got 5"),
        (resource, {"name": 5}, r"name of resource 5 must be a str, got 5"),
        (resource, {"read": "text"}, r"read of resource 'memo' must be callable, got 'text'"),
        (resource, {"mime_type": None}, r"mime_type of resource 'memo' must be a str, got None"),
        (prompt, {"render": "text"}, r"render of prompt 'greet' must be callable, got 'text'"),
        (prompt, {"arguments": ["who"]}, r"arguments of prompt 'greet' must be a list of PromptArgument"),
        (prompt, {"title": 5}, r"title of prompt 'greet' must be a str or None, got 5"),
        (PromptArgument, {"name": "who", "required": "no"}, r"required of argument 'who' must be True"),
        (server, {"page_size": "x"}, r"page_size must be a whole number of at least 1, got 'x'"),
        (server, {"page_size": True}, r"page_size must be a whole number of at least 1, got True"),
        (server, {"name": None}, r"name must be a str, got None"),
        (server, {"version": 2.5}, r"version must be a str or None, got 2\.5"),
        (server, {"title": 5}, r"title must be a str or None, got 5"),
        (server, {"instructions": ["x"]}, r"instructions must be a str or None, got \['x'\]"),
        (server, {"resources": 5}, r"resources must be a list of ServedResource, got 5"),
        (server, {"resources": ["file:x"]}, r"resources must be a list of ServedResource, got 'file:x'"),
        (server, {"prompts": [None]}, r"prompts must be a list of ServedPrompt, got None"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_work_is_refused_by_name(
    make: Callable[..., object], options: dict[str, Any], said: str
) -> None:
    """Bad input is a ConfigurationError where it is given: nothing is started or reached for it."""
    with pytest.raises(ConfigurationError, match=said):
        make(**options)


def test_the_values_of_an_environment_are_not_shown() -> None:
    """They are secrets, also where one cannot work."""
    with pytest.raises(ConfigurationError) as caught:
        stdio(env={"KEY": b"geheim"})
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("options", [{"client_secret": b"geheim"}, {"private_key": ["geheim"]}])
def test_a_secret_of_the_wrong_type_is_not_shown(options: dict[str, Any]) -> None:
    """The message names its type."""
    with pytest.raises(ConfigurationError, match="must be a str") as caught:
        ClientCredentials("me", **options)
    assert "geheim" not in str(caught.value)


def test_names_to_inherit_may_come_from_a_generator() -> None:
    """They are read at each start of the server."""
    transport = StdioTransport("true", inherit_env=(name for name in ("LANG", "UV_*")))

    assert transport.inherit_env == ("LANG", "UV_*")
