"""Finding out what a server speaks."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, McpConnectionError, McpError, McpProtocolError, McpTimeout
from yiemagent.mcp.client import McpClient
from yiemagent.testing.memory_mcp import MemoryTransport, ScriptedMcpServer, ServerEnd

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
META = "io.modelcontextprotocol/"


def test_a_modern_server_is_asked_once_and_every_request_says_who_asks(make_client: Any) -> None:
    """Protocol 2026-07-28: version, capabilities and client info in the _meta of each request."""
    server = ScriptedMcpServer()
    client = make_client(server, client_info={"name": "me", "version": "2"}, on_sampling=lambda r: "x")
    info = client.connect()
    client.call_tool("echo", {"a": 1})
    assert (info.name, info.protocol_version) == ("scripted", "2026-07-28")
    assert server.methods() == ["server/discover", "tools/call"]
    meta = server.received[-1]["params"]["_meta"]
    assert meta[META + "protocolVersion"] == "2026-07-28"
    assert meta[META + "clientInfo"] == {"name": "me", "version": "2"}
    assert meta[META + "clientCapabilities"] == {"sampling": {}}


@pytest.mark.parametrize("version", LEGACY)
def test_an_older_server_gets_the_handshake_it_knows(make_client: Any, version: str) -> None:
    """E-26: initialize, notifications/initialized, older versions accepted."""
    server = ScriptedMcpServer(versions=(version,))
    client = make_client(server)
    assert client.connect().protocol_version == version
    client.list_tools()
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/list"]
    assert server.received[1]["params"]["protocolVersion"] == "2025-11-25"
    assert "_meta" not in (server.received[-1].get("params") or {})


@pytest.mark.parametrize("era", [*LEGACY, "2026-07-28", "legacy", "modern"])
def test_the_era_can_be_forced(make_client: Any, era: str) -> None:
    """Quirk 13: the same server offers more in one era than in the other."""
    server = ScriptedMcpServer()
    client = make_client(server, era=era)
    version = client.connect().protocol_version
    assert version == {"legacy": "2025-11-25", "modern": "2026-07-28"}.get(era, era)
    assert ("server/discover" in server.methods()) == (version == "2026-07-28")


def test_the_plain_dialect_has_no_handshake_and_sends_the_session_id(make_client: Any) -> None:
    """The Julia design: straight to tools/list, sessionId in params."""
    server = ScriptedMcpServer(versions=())
    client = make_client(server, era="plain", session_id="s-1")
    client.list_tools()
    client.call_tool("echo", {"a": 1}, session_id="s-2")
    client.call_tool("echo")
    sent = [(m["method"], m["params"].get("sessionId")) for m in server.received]
    assert sent == [("tools/list", "s-1"), ("tools/call", "s-2"), ("tools/call", "s-1")]
    assert all("_meta" not in message["params"] for message in server.received)


def test_a_server_may_fall_back_to_the_plain_dialect(make_client: Any) -> None:
    """NATS: a server that does not know server/discover is the Julia design's."""
    server = ScriptedMcpServer(versions=())
    client = make_client(server, fallback_era="plain", session_id="s")
    client.list_tools()
    assert server.methods() == ["server/discover", "tools/list"]


def test_a_refused_version_is_asked_for_again_in_one_that_the_server_names(make_client: Any) -> None:
    """Protocol 2026-07-28: -32022 with data.supported means retry, not fall back."""
    refused: list[bool] = []

    def discover(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        if not refused:
            refused.append(True)
            end.refuse(request, -32022, "Unsupported protocol version", {"supported": ["2026-07-28"]})
            return None
        return {"supportedVersions": ["2026-07-28"], "capabilities": {}}

    server = ScriptedMcpServer(on={"server/discover": discover})
    assert make_client(server).connect().protocol_version == "2026-07-28"
    assert server.methods() == ["server/discover", "server/discover"]


def test_a_modern_error_that_names_only_older_versions_leads_to_initialize(make_client: Any) -> None:
    """Protocol 2026-07-28: choose a mutually supported version."""

    def discover(request: Any, end: ServerEnd) -> None:
        end.refuse(request, -32022, "Unsupported protocol version", {"supported": ["2025-06-18"]})

    server = ScriptedMcpServer(versions=LEGACY, on={"server/discover": discover})
    assert make_client(server).connect().protocol_version == "2025-06-18"
    assert server.received[1]["params"]["protocolVersion"] == "2025-06-18"


def test_a_version_that_is_refused_inline_is_found_out_anew_and_the_call_repeated(make_client: Any) -> None:
    """The era is a property of the server; it may be replaced by another."""
    calls: list[Any] = []

    def call(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        calls.append(request)
        if len(calls) == 1:
            end.refuse(request, -32022, "Unsupported protocol version", {"supported": ["2025-11-25"]})
            return None
        return {"content": []}

    server = ScriptedMcpServer(on={"tools/call": call})
    client = make_client(server)
    client.connect()
    server.versions = LEGACY
    client.call_tool("echo")
    assert len(calls) == 2
    assert client.connect().protocol_version == "2025-11-25"


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32000, -32603, 0])
def test_any_other_error_means_an_older_server(make_client: Any, code: int) -> None:
    """Protocol: the fallback must not be keyed to one code; quirk 12."""

    def discover(request: Any, end: ServerEnd) -> None:
        end.refuse(request, code, "what?")

    server = ScriptedMcpServer(versions=LEGACY, on={"server/discover": discover})
    assert make_client(server).connect().protocol_version == "2025-11-25"


def test_an_error_without_an_id_answers_the_probe(make_client: Any) -> None:
    """Quirk 12: some answer id null to what they cannot read."""

    def discover(request: Any, end: ServerEnd) -> None:
        end.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})

    server = ScriptedMcpServer(versions=LEGACY, on={"server/discover": discover})
    client = make_client(server, probe_timeout=60, connect_timeout=5)
    assert client.connect().protocol_version == "2025-11-25"


def test_silence_means_an_older_server(make_client: Any) -> None:
    """Protocol, stdio: legacy servers may not answer at all."""
    server = ScriptedMcpServer(versions=LEGACY, on={"server/discover": lambda request, end: None})
    assert make_client(server, probe_timeout=0.05).connect().protocol_version == "2025-11-25"


def test_a_modern_server_that_was_only_slow_to_start_is_asked_again(make_client: Any) -> None:
    """Field problem 30: npx downloads first."""
    asked: list[Any] = []

    def discover(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        asked.append(request)
        return {"supportedVersions": ["2026-07-28"], "capabilities": {}} if len(asked) > 1 else None

    server = ScriptedMcpServer(versions=("2026-07-28",), on={"server/discover": discover})
    assert make_client(server, probe_timeout=0.05).connect().protocol_version == "2026-07-28"
    assert server.methods()[:2] == ["server/discover", "notifications/cancelled"]


def test_a_server_that_dies_of_the_probe_is_started_again_without_it() -> None:
    """Old servers may not survive a request before initialize."""
    scripted = ScriptedMcpServer(versions=LEGACY)
    starts: list[ServerEnd] = []

    def serve(end: ServerEnd) -> None:
        starts.append(end)
        if len(starts) == 1:
            assert end.receive() is not None
            return
        scripted.serve(end)

    with McpClient(MemoryTransport(serve)) as client:
        assert client.connect().protocol_version == "2025-11-25"
    assert scripted.methods()[0] == "initialize"


def test_a_server_with_another_version_is_refused_by_name(make_client: Any) -> None:
    """E-26: clear error instead of a hang."""
    answer = {"protocolVersion": "2031-01-01", "capabilities": {}}
    server = ScriptedMcpServer(versions=LEGACY, on={"initialize": lambda request, end: answer})
    with pytest.raises(McpProtocolError, match="2031-01-01"):
        make_client(server).connect()


def test_no_common_version_is_named() -> None:
    """Both lists are in the message."""
    server = ScriptedMcpServer(
        on={"server/discover": lambda request, end: {"supportedVersions": ["2027-01-01"], "capabilities": {}}}
    )
    with McpClient(server.transport(), era="modern") as client:
        with pytest.raises(McpProtocolError, match=r"2027-01-01.*no common version"):
            client.connect()


def test_a_forced_modern_era_does_not_fall_back(make_client: Any) -> None:
    """era= is a promise."""
    server = ScriptedMcpServer(versions=LEGACY)
    with pytest.raises(McpProtocolError, match="does not speak 2026-07-28"):
        make_client(server, era="modern").connect()


def test_a_refused_handshake_keeps_the_servers_words(make_client: Any) -> None:
    """Error with code and data, named as what it is."""

    def refuse(request: Any, end: ServerEnd) -> None:
        end.refuse(request, -32001, "no licence", {"buy": "here"})

    server = ScriptedMcpServer(versions=LEGACY, on={"initialize": refuse})
    with pytest.raises(McpError, match="refused to initialize: no licence") as caught:
        make_client(server).connect()
    assert (caught.value.code, caught.value.data) == (-32001, {"buy": "here"})


def test_connecting_has_a_deadline_of_its_own(make_client: Any) -> None:
    """E-09: timeout on initialize too; it is never cancelled."""
    server = ScriptedMcpServer(versions=LEGACY, on={"initialize": lambda request, end: None})
    with pytest.raises(McpTimeout, match="did not answer initialize within"):
        make_client(server, connect_timeout=0.5).connect()
    assert "notifications/cancelled" not in server.methods()


def test_the_version_is_remembered_over_a_reconnect(make_client: Any) -> None:
    """Cached for the client: an old server is not probed twice."""
    server = ScriptedMcpServer(versions=LEGACY)
    client = make_client(server)
    client.connect()
    server.ends[0].die()
    client.list_tools()
    assert server.methods().count("server/discover") == 1
    assert server.methods().count("initialize") == 2


def test_the_version_is_remembered_for_the_origin(make_client: Any) -> None:
    """Protocol: cache the era for the origin (HTTP)."""
    server = ScriptedMcpServer(versions=LEGACY)
    key = "https://origin.example:8443"
    make_client(server, era_key=key).connect()
    make_client(server, era_key=key).connect()
    assert server.methods().count("server/discover") == 1


def test_a_server_that_was_replaced_by_a_newer_one_is_asked_again(make_client: Any) -> None:
    """Protocol: re-probe if the cached assumption later fails."""
    server = ScriptedMcpServer(versions=LEGACY)
    client = make_client(server)
    assert client.connect().protocol_version == "2025-11-25"
    server.versions = ("2026-07-28",)
    server.ends[0].die()
    assert client.connect().protocol_version == "2026-07-28"


def test_an_unknown_era_is_refused_with_the_known_ones() -> None:
    """Messages name the way out."""
    with pytest.raises(ConfigurationError, match=r"era='2023-01-01' is unknown; choose one of 'auto'"):
        McpClient(ScriptedMcpServer().transport(), era="2023-01-01")


def test_a_lost_server_during_the_handshake_is_a_connection_error(make_client: Any) -> None:
    """Field problem 24."""
    server = ScriptedMcpServer(versions=LEGACY, on={"initialize": lambda request, end: end.die("gone")})
    with pytest.raises(McpConnectionError, match="gone"):
        make_client(server).connect()
