"""Servers by address and from the usual file."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.mcp import connect, load_servers
from yiemagent.mcp.http import McpHttp
from yiemagent.mcp.http_auth import BearerToken
from yiemagent.mcp.nats import McpNats
from yiemagent.mcp.stdio import McpStdio, StdioTransport

ENTRY = {"command": "x"}


def _transport(client: Any) -> Any:
    return client._link._connector._transport


def test_an_address_names_the_wire() -> None:
    """Issue 5 part 1."""
    stdio = connect("stdio:npx -y 'some server' --flag", timeout=5)
    assert isinstance(stdio, McpStdio)
    assert _transport(stdio) == StdioTransport("npx", ["-y", "some server", "--flag"])
    assert stdio.options.timeout == 5
    http = connect("https://example.com/mcp")
    assert isinstance(http, McpHttp)
    assert _transport(http).url == "https://example.com/mcp"
    nats = connect("nats://host:4222/yiemagent:tools")
    assert isinstance(nats, McpNats)
    assert _transport(nats).topic == "yiemagent:tools"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ftp://x", "is no address of an MCP server"),
        ("npx server", "is no address of an MCP server"),
        ("stdio:", "needs a command"),
        ("stdio:npx 'open", "cannot be split"),
        ("nats://host", "lacks the topic"),
        (7, "an address or a mapping"),
        ({"args": ["x"]}, "needs a 'command' or a 'url'"),
        ({"url": "http://x", "type": "carrier-pigeon"}, "'carrier-pigeon' is none of"),
    ],
)
def test_what_is_no_address_is_refused_with_the_way_out(address: Any, message: str) -> None:
    """Messages name the thing, the value and the way out."""
    with pytest.raises(ConfigurationError, match=message):
        connect(address)


def test_the_usual_file_gives_one_client_for_each_server(tmp_path: pathlib.Path) -> None:
    """mcpServers, with variables; nothing connects yet."""
    file = tmp_path / "mcp.json"
    entries = {
        "files": {"command": "npx", "args": ["-y", "srv", "${HOME_DIR}"], "env": {"KEY": "${env:KEY}"}},
        "web": {
            "type": "http",
            "url": "https://x/mcp",
            "headers": {"X": "Bearer ${TOKEN:-none}"},
        },
        "old": {"type": "sse", "url": "https://x/sse", "era": "legacy"},
        "bus": {"url": "nats://host/topic"},
        "off": {"command": "x", "disabled": True},
    }
    file.write_text(json.dumps({"mcpServers": entries}))
    clients = load_servers(file, environ={"HOME_DIR": "/h", "KEY": "k"}, timeout=7)
    assert list(clients) == ["files", "web", "old", "bus"]
    files = _transport(clients["files"])
    assert (files.args, files.env) == (["-y", "srv", "/h"], {"KEY": "k"})
    assert _transport(clients["web"]).headers == {"X": "Bearer none"}
    assert _transport(clients["old"]).wire == "sse"
    assert clients["old"].options.era == "legacy"
    assert [client.options.name for client in clients.values()] == ["files", "web", "old", "bus"]
    assert {client.options.timeout for client in clients.values()} == {7}
    assert not any(client.connected for client in clients.values())


@pytest.mark.parametrize(
    "data",
    [{"servers": {"a": {"command": "x"}}}, {"a": {"command": "x"}}, {"mcpServers": {"a": {"command": "x"}}}],
)
def test_the_entries_may_be_given_directly(data: dict[str, Any]) -> None:
    """Other programs call the key servers, or have none."""
    assert list(load_servers(data)) == ["a"]


def test_a_variable_that_is_not_set_is_named_with_its_entry() -> None:
    """A missing key must not become an empty one."""
    entry = {"a": {"command": "x", "env": {"K": "${MISSING}"}}}
    with pytest.raises(ConfigurationError, match=r"the entry 'a' of mcpServers wants the variable MISSING"):
        load_servers(entry, environ={})


def test_an_address_over_http_takes_an_authorization() -> None:
    """As McpHttp: a token, a function, or an object such as OAuth()."""
    token = BearerToken("secret")

    assert _transport(connect("https://example.com/mcp", auth=token)).auth is token
    assert isinstance(_transport(connect({"url": "http://x/mcp"}, auth="secret")).auth, BearerToken)
    assert isinstance(_transport(connect("http://x/mcp", auth=lambda: "secret")).auth, BearerToken)
    with pytest.raises(ConfigurationError, match="auth must be a bearer token"):
        connect("https://example.com/mcp", auth=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "way_out"),
    [
        ("stdio:srv", "env="),
        ({"command": "srv"}, "env="),
        ("nats://u:hidden@host/topic", "nats://user:password@host/topic"),
        ({"url": "tls://host/topic"}, "credentials="),
    ],
)
def test_a_wire_without_authorization_says_how_secrets_are_given_there(target: Any, way_out: str) -> None:
    """An auth= that nobody reads would be a server called without it."""
    with pytest.raises(ConfigurationError, match="auth= is for servers at http and https URLs") as caught:
        connect(target, auth="secret")
    assert way_out in str(caught.value)
    assert "secret" not in str(caught.value).replace("secrets", "")
    assert "hidden" not in str(caught.value)


def test_servers_of_a_file_get_their_authorization_by_name() -> None:
    """Each its own, and those that are not named none."""
    entries = {"a": {"url": "http://x/a"}, "b": {"url": "http://x/b"}, "c": ENTRY}
    token = BearerToken("secret")

    clients = load_servers(entries, auth={"b": token})

    assert [getattr(_transport(client), "auth", None) for client in clients.values()] == [None, token, None]


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        ({"wbe": "secret"}, "auth is for a server 'wbe', which is not there; there are 'web', 'files'"),
        ({"files": "secret"}, "the entry 'files' of mcpServers cannot be used: auth= is for servers at http"),
        ({"web": 5}, "the entry 'web' of mcpServers cannot be used: auth must be a bearer token"),
        ("secret", "auth must be a mapping such as .*, got a str"),
    ],
)
def test_an_authorization_that_fits_no_server_is_refused_by_name(auth: Any, message: str) -> None:
    """A spelling error must not cost a login in silence."""
    with pytest.raises(ConfigurationError, match=message):
        load_servers({"web": {"url": "http://x/mcp"}, "files": ENTRY}, auth=auth)


def test_an_entry_that_cannot_be_used_is_named() -> None:
    """What its transport says does not know where the entry stands."""
    with pytest.raises(ConfigurationError, match="the entry 'a' of mcpServers cannot be used: env must map"):
        load_servers({"a": {"command": "x", "env": {"PORT": 5}}})


def test_unknown_keys_are_named_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """Files hold what other programs want, too."""
    load_servers({"a": {"command": "x", "alwaysAllow": [], "timeout": 60}})
    assert "ignored the keys alwaysAllow, timeout" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "cannot read"), ("[]", "holds no JSON object"), ('{"mcpServers": []}', "must be an object")],
)
def test_a_broken_file_is_named(tmp_path: pathlib.Path, text: str, message: str) -> None:
    """With its path."""
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_servers(file)
    with pytest.raises(ConfigurationError, match="cannot read the MCP servers in"):
        load_servers(tmp_path / "absent.json")
    with pytest.raises(ConfigurationError, match="the entry 'a'"):
        load_servers({"mcpServers": {"a": "npx"}})


@pytest.mark.servers
def test_importing_the_package_loads_no_library() -> None:
    """Issue 5: neither requests nor nats until a transport needs them; asyncio only with nats."""
    program = """
import sys
import yiemagent.mcp
from yiemagent.mcp import McpStdio, ToolSource, connect, load_servers
client = connect("stdio:true")
heavy = {"requests", "urllib3", "nats", "jsonschema", "asyncio", "email", "importlib.metadata"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_can_be_had() -> None:
    """The lazy table is kept true."""
    import yiemagent.mcp as package

    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = package.Nothing
