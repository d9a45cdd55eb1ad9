"""What may be kept, and hearing that it changed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from yiemagent.errors import McpError
from yiemagent.mcp.cache import ResultCache
from yiemagent.mcp.client import McpClient
from yiemagent.testing.memory_mcp import ScriptedMcpServer, ServerEnd

LEGACY = ("2025-11-25",)
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
TELLING = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}


def _listing(ttl: Any) -> Any:
    return lambda request, end: {"tools": [{"name": "a"}], "ttlMs": ttl, "cacheScope": "private"}


def test_a_list_is_kept_as_long_as_the_server_allows(make_client: Any) -> None:
    """Protocol 2026-07-28 "Caching"; E-16."""
    server = ScriptedMcpServer(on={"tools/list": _listing(60_000)})
    client = make_client(server)
    assert client.list_tools() == client.list_tools()
    assert server.methods().count("tools/list") == 1
    client.list_tools(refresh=True)
    assert server.methods().count("tools/list") == 2


@pytest.mark.parametrize("ttl", [0, -1, None, "60000", True])
def test_a_list_is_not_kept_without_a_time(make_client: Any, ttl: Any) -> None:
    """Absent, negative and zero mean stale at once."""
    server = ScriptedMcpServer(on={"tools/list": _listing(ttl)})
    client = make_client(server)
    client.list_tools()
    client.list_tools()
    assert server.methods().count("tools/list") == 2


def test_each_page_is_kept_for_itself(make_client: Any) -> None:
    """Protocol: each page has its own clock."""

    def listing(request: Any, end: Any) -> dict[str, Any]:
        if request["params"].get("cursor"):
            return {"tools": [{"name": "b"}], "ttlMs": 60_000}
        return {"tools": [{"name": "a"}], "nextCursor": "x", "ttlMs": 0}

    server = ScriptedMcpServer(on={"tools/list": listing})
    client = make_client(server)
    client.list_tools()
    assert [tool.name for tool in client.list_tools()] == ["a", "b"]
    assert server.methods().count("tools/list") == 3


def test_a_change_makes_what_was_kept_stale(make_client: Any) -> None:
    """Protocol: list_changed invalidates; E-15."""
    heard = threading.Event()
    server = ScriptedMcpServer(on={"tools/list": _listing(60_000)})
    client = make_client(server, on_notification=lambda message: heard.set())
    client.list_tools()
    before = client.changes("tools")
    server.tell("notifications/tools/list_changed")
    assert heard.wait(5)
    assert client.changes("tools") == before + 1
    client.list_tools()
    assert server.methods().count("tools/list") == 2


def test_a_reconnect_makes_everything_stale(make_client: Any) -> None:
    """E-16: invalidate on reconnect."""
    server = ScriptedMcpServer(on={"tools/list": _listing(60_000)})
    client = make_client(server)
    client.list_tools()
    server.ends[0].die()
    client.connect()
    client.list_tools()
    assert server.methods().count("tools/list") == 2


def test_time_is_measured_from_the_answer() -> None:
    """now < t_received + ttlMs."""
    now = [10.0]
    cache = ResultCache(clock=lambda: now[0])
    cache.put("m", {"a": 1}, 0, {"ttlMs": 2_000, "x": 1})
    now[0] = 11.9
    assert cache.get("m", {"a": 1}, 0) == {"ttlMs": 2_000, "x": 1}
    assert cache.get("m", {"a": 2}, 0) is None
    assert cache.get("m", {"a": 1}, 1) is None
    now[0] = 12.0
    assert cache.get("m", {"a": 1}, 0) is None


def test_the_cache_does_not_grow_without_end() -> None:
    """resources/read of a million URIs."""
    cache = ResultCache()
    for number in range(1_500):
        cache.put("m", {"n": number}, 0, {"ttlMs": 60_000})
    assert cache.get("m", {"n": 0}, 0) is None
    assert cache.get("m", {"n": 1_499}, 0) is not None


def test_resources_are_kept_by_their_uri(make_client: Any) -> None:
    """Protocol: the key is the method and its parameters."""

    def read(request: Any, end: Any) -> dict[str, Any]:
        return {"contents": [{"uri": request["params"]["uri"], "text": "x"}], "ttlMs": 60_000}

    server = ScriptedMcpServer(on={"resources/read": read})
    client = make_client(server)
    assert client.read_resource("a://1") == client.read_resource("a://1")
    assert client.read_resource("a://2")[0].uri == "a://2"
    assert server.methods().count("resources/read") == 2


# --- subscriptions


def test_an_older_server_is_subscribed_to_and_told_when_it_is_over(make_client: Any) -> None:
    """resources/subscribe; the callback gets the URI on a worker."""
    server = ScriptedMcpServer(
        versions=LEGACY,
        capabilities=TELLING,
        on={"resources/subscribe": lambda r, e: {}, "resources/unsubscribe": lambda r, e: {}},
    )
    client = make_client(server)
    heard: list[str] = []
    news = threading.Event()

    def on_update(uri: str) -> None:
        heard.append(uri)
        news.set()

    subscription = client.subscribe("file:///a", on_update)
    server.tell("notifications/resources/updated", {"uri": "file:///other"})
    server.tell("notifications/resources/updated", {"uri": "file:///a"})
    assert news.wait(5)
    assert heard == ["file:///a"]
    subscription.close()
    subscription.close()
    assert server.wait_for("resources/unsubscribe")["params"] == {"uri": "file:///a"}


def test_an_older_server_is_subscribed_to_again_after_a_reconnect(make_client: Any) -> None:
    """A session forgets its subscriptions."""
    server = ScriptedMcpServer(
        versions=LEGACY, capabilities=TELLING, on={"resources/subscribe": lambda r, e: {}}
    )
    client = make_client(server)
    client.subscribe("file:///a", lambda uri: None)
    server.ends[0].die()
    client.list_tools()
    server.wait_for("resources/subscribe", count=2)


def test_a_refused_subscription_is_an_error(make_client: Any) -> None:
    """Nothing is left listening."""
    server = ScriptedMcpServer(versions=LEGACY)
    with pytest.raises(McpError, match="Method not found"):
        make_client(server).subscribe("file:///a", lambda uri: None)


def _listen(request: Any, end: ServerEnd) -> None:
    """A modern server that confirms and keeps the stream open."""
    meta = {SUBSCRIPTION_ID: request["id"]}
    end.send(
        {
            "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": meta, "notifications": request["params"]["notifications"]},
        }
    )


def test_a_modern_server_keeps_a_stream_open_per_subscription(make_client: Any) -> None:
    """Protocol 2026-07-28 "Subscriptions": acknowledged first, told apart by their id, cancelled."""
    server = ScriptedMcpServer(capabilities=TELLING, on={"subscriptions/listen": _listen})
    client = make_client(server)
    heard: list[str] = []
    news = threading.Event()

    def on_update(uri: str) -> None:
        heard.append(uri)
        news.set()

    with client.subscribe("file:///a", on_update):
        request = server.wait_for("subscriptions/listen")
        assert request["params"]["notifications"] == {"resourceSubscriptions": ["file:///a"]}
        meta = {SUBSCRIPTION_ID: request["id"]}
        server.tell("notifications/resources/updated", {"uri": "file:///a", "_meta": meta})
        assert news.wait(5)
    cancelled = server.wait_for("notifications/cancelled")
    assert cancelled["params"]["requestId"] == request["id"]
    assert heard == ["file:///a"]


def test_a_modern_server_is_asked_to_tell_of_changed_lists(make_client: Any) -> None:
    """Protocol 2026-07-28: list_changed comes only over subscriptions/listen."""
    server = ScriptedMcpServer(capabilities=TELLING, on={"subscriptions/listen": _listen})
    heard = threading.Event()
    client = make_client(server, on_notification=lambda message: heard.set())
    subscription = client.watch_lists("tools", "prompts")
    request = server.wait_for("subscriptions/listen")
    assert request["params"]["notifications"] == {"toolsListChanged": True}
    before = client.changes("tools")
    meta = {SUBSCRIPTION_ID: request["id"]}
    server.tell("notifications/tools/list_changed", {"_meta": meta})
    assert heard.wait(5)
    assert client.changes("tools") == before + 1
    subscription.close()


def test_an_older_server_needs_no_stream_for_its_lists(make_client: Any) -> None:
    """It tells unasked."""
    server = ScriptedMcpServer(versions=LEGACY)
    make_client(server).watch_lists("tools").close()
    assert "subscriptions/listen" not in server.methods()


def test_a_stream_goes_on_with_the_next_connection_but_makes_none(make_client: Any) -> None:
    """Protocol: MUST re-send after a reconnect; a dead server is started by use only."""
    server = ScriptedMcpServer(capabilities=TELLING, on={"subscriptions/listen": _listen})
    client = make_client(server)
    client.subscribe("file:///a", lambda uri: None)
    server.ends[0].die()
    assert len(server.ends) == 1
    client.list_tools()
    server.wait_for("subscriptions/listen", count=2)
    assert len(server.ends) == 2


def test_a_refused_stream_is_an_error(make_client: Any) -> None:
    """The caller learns that nobody will tell."""
    server = ScriptedMcpServer(capabilities=TELLING)
    with pytest.raises(McpError, match="Method not found"):
        make_client(server).subscribe("file:///a", lambda uri: None)


def test_closing_the_client_ends_its_streams(make_client: Any) -> None:
    """The leaked-thread guard watches."""
    server = ScriptedMcpServer(capabilities=TELLING, on={"subscriptions/listen": _listen})
    client = make_client(server)
    client.subscribe("file:///a", lambda uri: None)
    client.watch_lists("tools")
    client.close()
    assert client.closed


def test_a_dropped_client_ends_its_streams() -> None:
    """The leaked-thread guard watches."""
    server = ScriptedMcpServer(capabilities=TELLING, on={"subscriptions/listen": _listen})
    client = McpClient(server.transport())
    client.subscribe("file:///a", lambda uri: None)
    del client
    server.wait_for("notifications/cancelled")
    server.ends[0].hang_up()


def test_a_stream_that_the_server_ends_in_order_is_opened_again(make_client: Any) -> None:
    """Protocol: a result ends it gracefully; the wish to hear remains."""
    opened: list[Any] = []

    def listen(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        _listen(request, end)
        opened.append(request)
        return {"resultType": "complete"} if len(opened) == 1 else None

    server = ScriptedMcpServer(capabilities=TELLING, on={"subscriptions/listen": listen})
    client = make_client(server)
    client.subscribe("file:///a", lambda uri: None)
    server.wait_for("subscriptions/listen", count=2)
    assert len(server.ends) == 1
