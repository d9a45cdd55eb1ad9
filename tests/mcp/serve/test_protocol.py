"""What a server of ours answers, message by message, in every era."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from yiemagent.agent.agent import Agent
from yiemagent.errors import ConfigurationError
from yiemagent.mcp.serve import McpServer
from yiemagent.mcp.serve_offers import ServedPrompt, ServedResource
from yiemagent.messages import AssistantMessage, ImageContent, TextContent, UserMessage
from yiemagent.testing import WAIT, ScriptedLlm, say
from yiemagent.tools.decorator import tool
from yiemagent.tools.tool import Tool, ToolContext, ToolResult

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


@pytest.mark.parametrize("version", LEGACY)
def test_initialize_agrees_on_the_version_that_was_asked_for(talk: Any, version: str) -> None:
    """Lifecycle of the handshake versions."""
    result = talk().initialize(version)["result"]

    assert result["protocolVersion"] == version
    assert result["serverInfo"] == {"name": "served", "version": "1.2"}
    assert result["capabilities"] == {"tools": {}, "resources": {}, "prompts": {}}
    assert result["instructions"] == "Be kind."


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", None, 7])
def test_initialize_offers_the_newest_handshake_version_for_an_unknown_one(talk: Any, version: Any) -> None:
    """Version negotiation of the handshake versions."""
    assert talk().initialize(version)["result"]["protocolVersion"] == "2025-11-25"


def test_discover_says_versions_and_who_answers(talk: Any) -> None:
    """2026-07-28 server/discover, with caching hints."""
    result = talk().ask_modern("server/discover")["result"]

    assert result == {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        "instructions": "Be kind.",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {SERVER_INFO: {"name": "served", "version": "1.2"}},
    }


def test_both_eras_are_served_on_one_wire(talk: Any) -> None:
    """2026-07-28 versioning: a dual-era server may serve both at once."""
    session = talk()
    session.initialize("2025-06-18")

    legacy = session.ask("tools/list")["result"]
    modern = session.ask_modern("tools/list")["result"]

    assert "resultType" not in legacy
    assert modern["resultType"] == "complete"
    assert legacy["tools"] == modern["tools"]


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({VERSION: "1900-01-01", CAPABILITIES: {}}, -32022),
        ({VERSION: "2025-11-25", CAPABILITIES: {}}, -32022),
        ({VERSION: "2026-07-28"}, -32602),
        ({VERSION: "2026-07-28", CAPABILITIES: []}, -32602),
        ({CAPABILITIES: {}}, -32602),
        (None, -32602),
    ],
)
def test_a_request_without_a_usable_version_is_refused(talk: Any, meta: Any, code: int) -> None:
    """2026-07-28 versioning and _meta."""
    session = talk()

    error = session.ask("tools/list", {"_meta": meta} if meta else {})["error"]

    assert error["code"] == code
    assert not session.accepted
    if code == -32022:
        assert error["data"] == {"supported": ["2026-07-28"], "requested": meta[VERSION]}


def test_ping_is_answered_in_the_handshake_era_only(talk: Any) -> None:
    """2026-07-28 removed ping."""
    session = talk()

    assert session.ask("ping")["result"] == {}
    assert session.ask_modern("ping")["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["nothing", "logging/setLevel", "completion/complete", "roots/list"])
def test_an_unknown_method_is_not_found(talk: Any, method: str) -> None:
    """JSON-RPC -32601."""
    session = talk()
    session.initialize()

    assert session.ask(method)["error"] == {"code": -32601, "message": f"Method not found: {method}"}


def test_methods_of_things_that_are_not_served_are_not_found(talk: Any) -> None:
    """Quirk 15: absent capabilities."""
    session = talk(McpServer([]))

    assert session.initialize()["result"]["capabilities"] == {"tools": {}}
    for method in ("resources/list", "resources/templates/list", "resources/read", "prompts/list"):
        assert session.ask(method)["error"]["code"] == -32601


@pytest.mark.parametrize(
    "message", [{}, {"jsonrpc": "2.0"}, {"method": 7}, {"id": 1, "method": "x", "params": [1]}]
)
def test_what_is_no_request_is_refused(talk: Any, message: Any) -> None:
    """JSON-RPC -32600 and -32602."""
    session = talk()

    (response,) = session.send(message)

    assert response["error"]["code"] in (-32600, -32602)
    assert not session.accepted


def test_notifications_and_stray_answers_get_no_answer(talk: Any) -> None:
    """JSON-RPC: the receiver must not respond."""
    session = talk()
    session.initialize()

    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": "x"},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
    ):
        assert session.send(message) == []


def test_lists_come_in_pages_and_an_invalid_cursor_is_refused(talk: Any) -> None:
    """Pagination: opaque cursors, -32602 for others; an empty text is no cursor of ours."""
    session = talk()
    session.initialize()
    names, cursor = [], {}
    while True:
        page = session.ask("tools/list", cursor)["result"]
        names.append([tool["name"] for tool in page["tools"]])
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}

    assert names == [["add", "boom", "noisy"], ["count", "sleep", "mixed"], ["forecast"]]
    for bad in ("", "x", "-1", "99", "³", 1.5, True, [1]):
        assert session.ask("tools/list", {"cursor": bad})["error"]["code"] == -32602


def test_the_julia_dialect_ends_lists_with_an_empty_cursor_and_says_label(talk: Any) -> None:
    """Runbook 2.3, WT-020: no handshake, nextCursor "" at the end, integers accepted."""
    session = talk(plain=True)

    first = session.ask("tools/list", {"sessionId": "s"})["result"]
    last = session.ask("tools/list", {"sessionId": "s", "cursor": 6})["result"]

    assert first["nextCursor"] == "3"
    assert last["nextCursor"] == ""
    assert last["tools"][0].keys() == {"name", "label", "description", "inputSchema"}
    assert last["tools"][0]["label"] == "Forecast"
    assert session.ask("tools/list", {"cursor": ""})["result"]["tools"][0]["label"] == "add"


def test_what_a_listing_says_depends_on_the_version(talk: Any) -> None:
    """annotations since 2025-03-26, title and outputSchema since 2025-06-18."""
    said = {}
    for version in LEGACY:
        session = talk()
        session.initialize(version)
        (entry,) = session.ask("tools/list", {"cursor": "6"})["result"]["tools"]
        said[version] = sorted(entry.keys() - {"name", "description", "inputSchema"})

    assert said == {
        "2024-11-05": [],
        "2025-03-26": ["annotations"],
        "2025-06-18": ["annotations", "outputSchema", "title"],
        "2025-11-25": ["annotations", "outputSchema", "title"],
    }


def test_a_call_returns_content(talk: Any) -> None:
    """WT-021."""
    session = talk()
    session.initialize()

    result = session.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": "2"}})["result"]

    assert result == {"content": [{"type": "text", "text": "3"}], "isError": False}


def test_structured_content_follows_the_output_schema(talk: Any) -> None:
    """2025-06-18 structuredContent; older clients get the text alone."""
    call = {"name": "forecast", "arguments": {"city": "Rome"}}
    new, old = talk(), talk()
    new.initialize("2025-06-18")
    old.initialize("2025-03-26")

    text = {"type": "text", "text": '{"degrees": 21.5}'}
    assert new.ask("tools/call", call)["result"]["structuredContent"] == {"degrees": 21.5}
    assert old.ask("tools/call", call)["result"] == {"content": [text], "isError": False}


def test_a_tool_result_may_bring_its_structured_content(talk: Any) -> None:
    """A tool that builds its own result keeps the structured value in its details."""
    details = {"structured_content": {"n": 1}}
    one = Tool(
        name="one",
        output_schema={"type": "object"},
        execute=lambda call_id, args, signal, on_update: ToolResult((TextContent("one"),), details),
    )
    session = talk(McpServer([one]))
    session.initialize()

    result = session.ask("tools/call", {"name": "one"})["result"]

    assert result["structuredContent"] == {"n": 1}
    assert result["content"] == [{"type": "text", "text": "one"}]


def test_an_image_elsewhere_is_a_link_where_links_exist(talk: Any) -> None:
    """resource_link since 2025-06-18; a text before."""
    picture = Tool(
        name="picture", execute=lambda *_: ToolResult((ImageContent(url="https://x.example/a.png"),))
    )
    said = {}
    for version in ("2025-03-26", "2025-06-18"):
        session = talk(McpServer([picture]))
        session.initialize(version)
        (said[version],) = session.ask("tools/call", {"name": "picture"})["result"]["content"]

    assert said["2025-03-26"] == {"type": "text", "text": "https://x.example/a.png"}
    assert (said["2025-06-18"]["type"], said["2025-06-18"]["uri"]) == (
        "resource_link",
        "https://x.example/a.png",
    )


def test_a_prompt_may_be_a_conversation(talk: Any) -> None:
    """Messages of ours and of the wire, with a title for people."""
    wire = {"role": "user", "content": {"type": "text", "text": "Raw."}}
    prompt = ServedPrompt(
        name="talk",
        title="Talk",
        render=lambda: [UserMessage((TextContent("Hi."),)), AssistantMessage((TextContent("Hello."),)), wire],
    )
    session = talk(McpServer([], title="Server", prompts=[prompt]))

    assert session.initialize()["result"]["serverInfo"]["title"] == "Server"
    assert session.ask("prompts/list")["result"]["prompts"] == [
        {"name": "talk", "arguments": [], "title": "Talk"}
    ]
    messages = session.ask("prompts/get", {"name": "talk"})["result"]["messages"]
    assert [(m["role"], m["content"]["text"]) for m in messages] == [
        ("user", "Hi."),
        ("assistant", "Hello."),
        ("user", "Raw."),
    ]


def test_blocks_that_a_version_does_not_know_become_text(talk: Any) -> None:
    """audio since 2025-03-26, resource_link since 2025-06-18."""
    kinds = {}
    for version in ("2024-11-05", "2025-03-26", "2025-06-18"):
        session = talk()
        session.initialize(version)
        content = session.ask("tools/call", {"name": "mixed"})["result"]["content"]
        kinds[version] = [block["type"] for block in content]

    assert kinds == {
        "2024-11-05": ["text", "image", "text", "text"],
        "2025-03-26": ["text", "image", "audio", "text"],
        "2025-06-18": ["text", "image", "audio", "resource_link"],
    }


def test_wrong_arguments_and_exceptions_are_results_that_the_model_reads(talk: Any) -> None:
    """2025-11-25: input validation errors come as isError, like the tool's own."""
    session = talk()
    session.initialize()

    wrong = session.ask("tools/call", {"name": "add", "arguments": {"a": 1}})["result"]
    boom = session.ask("tools/call", {"name": "boom", "arguments": None})["result"]

    assert wrong["isError"]
    assert "Missing required arguments: b" in wrong["content"][0]["text"]
    assert boom == {"content": [{"type": "text", "text": "ValueError: kaboom"}], "isError": True}


@pytest.mark.parametrize("name", ["nothing", None, 7])
def test_an_unknown_tool_is_a_protocol_error(talk: Any, name: Any) -> None:
    """Specification, tools: error handling."""
    session = talk()
    session.initialize()

    error = session.ask("tools/call", {"name": name})["error"]

    assert error == {"code": -32602, "message": f"Unknown tool: {name}"}


def test_progress_is_told_to_those_who_ask(talk: Any) -> None:
    """Progress: token of the request, growing numbers, nothing without a token."""
    session = talk()
    session.initialize()
    call = {"name": "count", "arguments": {"to": 2}}

    session.ask("tools/call", {**call, "_meta": {"progressToken": "t1"}})
    notes = [message["params"] for message in session.said if "method" in message]

    assert notes == [
        {"progressToken": "t1", "progress": 1, "total": 2, "message": "step 1"},
        {"progressToken": "t1", "progress": 2, "total": 2, "message": "step 2"},
    ]
    session.ask("tools/call", call)
    assert len(session.said) == 1


def test_progress_numbers_grow_whatever_the_tool_says(talk: Any) -> None:
    """Progress: the value must increase with each notification."""

    def execute(call_id: str, args: Any, signal: Any, on_update: Any) -> str:
        for step in (5, 2, True, "x"):
            on_update(ToolResult((), {"progress": step}))
        on_update("words")
        return "done"

    session = talk(McpServer([Tool(name="odd", execute=execute)]))
    session.initialize("2024-11-05")
    session.ask("tools/call", {"name": "odd", "_meta": {"progressToken": 0}})

    notes = [message["params"] for message in session.said if "method" in message]
    assert [note["progress"] for note in notes] == [5, 6, 7, 8, 9]
    assert all("message" not in note for note in notes)


def test_a_cancelled_call_gets_no_answer_and_sees_it(talk: Any, server: Any) -> None:
    """Cancellation: stop, and do not respond."""
    session = talk()
    session.initialize()
    jobs: list[Any] = []
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "sleep"}}
    answers: list[Any] = []
    server.handle(session.session, request, answers.append, lambda work: jobs.append(work) or True)

    session.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    jobs.pop()()

    assert answers == []
    assert session.session.wait_idle(0)


def test_a_running_id_is_not_taken_twice(talk: Any, server: Any) -> None:
    """JSON-RPC in MCP: ids of running requests are unique; free again afterwards."""
    session = talk()
    session.initialize()
    jobs: list[Any] = []
    request = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "count", "arguments": {"to": 0}},
    }
    answers: list[Any] = []
    server.handle(session.session, request, answers.append, lambda work: jobs.append(work) or True)

    (refusal,) = session.send(request)
    jobs.pop()()

    assert refusal["error"]["code"] == -32600
    assert answers[0]["result"]["content"][0]["text"] == "done"
    assert session.send(request)[0]["result"]


def test_a_busy_server_says_so(talk: Any, server: Any) -> None:
    """A wire that can take no more work refuses instead of letting the client wait."""
    session = talk()
    session.initialize()
    answers: list[Any] = []
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "boom"}}

    server.handle(session.session, request, answers.append, lambda work: False)

    assert "too many requests waiting" in answers[0]["error"]["message"]


def test_resources_are_listed_and_read(talk: Any) -> None:
    """resources/list, resources/templates/list, resources/read: text, bytes and templates."""
    session = talk()
    session.initialize()

    assert [entry["uri"] for entry in session.ask("resources/list")["result"]["resources"]] == [
        "memo://today",
        "memo://pixel",
    ]
    templates = session.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert templates == [{"name": "day", "mimeType": "text/plain", "uriTemplate": "memo://day/{day}"}]
    read = {
        uri: session.ask("resources/read", {"uri": uri})["result"]["contents"]
        for uri in ("memo://today", "memo://pixel", "memo://day/new%20year")
    }
    assert read == {
        "memo://today": [{"uri": "memo://today", "mimeType": "text/plain", "text": "buy wine"}],
        "memo://pixel": [{"uri": "memo://pixel", "mimeType": "image/png", "blob": "iVBORw=="}],
        "memo://day/new%20year": [
            {"uri": "memo://day/new%20year", "mimeType": "text/plain", "text": "what was on new year"}
        ],
    }


def test_an_unknown_resource_has_the_code_of_its_era(talk: Any) -> None:
    """-32002 before 2026-07-28, -32602 since."""
    session = talk()
    session.initialize()

    assert session.ask("resources/read", {"uri": "memo://no"})["error"]["code"] == -32002
    assert session.ask_modern("resources/read", {"uri": "memo://no"})["error"]["code"] == -32602


def test_a_resource_that_fails_is_an_internal_error(talk: Any) -> None:
    """JSON-RPC -32603 with what went wrong."""

    def fail() -> str:
        raise OSError("disk on fire")

    session = talk(McpServer([], resources=[ServedResource(uri="memo://x", name="x", read=fail)]))
    session.initialize()

    error = session.ask("resources/read", {"uri": "memo://x"})["error"]
    assert error == {"code": -32603, "message": "OSError: disk on fire"}


def test_prompts_are_rendered_with_checked_arguments(talk: Any) -> None:
    """prompts/list, prompts/get."""
    session = talk()
    session.initialize()

    (prompt,) = session.ask("prompts/list")["result"]["prompts"]
    assert [argument["required"] for argument in prompt["arguments"]] == [True, False]
    rendered = session.ask("prompts/get", {"name": "about", "arguments": {"topic": "oak"}})["result"]
    text = "Tell me about oak in a plain tone."
    assert rendered["messages"] == [{"role": "user", "content": {"type": "text", "text": text}}]
    for params in (
        {"name": "about"},
        {"name": "about", "arguments": {"topic": "x", "size": "y"}},
        {"name": "no"},
    ):
        assert session.ask("prompts/get", params)["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"page_size": 0}, "page_size must be a whole number of at least 1"),
        ({"tools": "add"}, "tools must be a list"),
    ],
)
def test_a_server_that_cannot_work_is_refused(options: dict[str, Any], complaint: str) -> None:
    """Messages name the keyword, the value and the way out."""
    with pytest.raises(ConfigurationError, match=complaint):
        McpServer(**options)


def test_a_tool_whose_signature_cannot_be_read_is_refused_when_the_server_is_made() -> None:
    """Not with the first request, where only a client would see it."""

    def odd(number: "Nowhere") -> int:  # type: ignore[name-defined]  # noqa: F821, UP037
        return 1

    with pytest.raises(ConfigurationError, match="Nowhere"):
        McpServer([odd])


def test_a_tool_that_takes_too_long_is_left_and_sees_it(talk: Any) -> None:
    """Tool.timeout: the client is answered, the tool's signal aborted."""
    seen = threading.Event()

    @tool(timeout=0.05)
    def hang(ctx: ToolContext) -> str:
        if ctx.signal.wait(WAIT):
            seen.set()
        return "late"

    session = talk(McpServer([hang]))
    session.initialize()
    result = session.ask("tools/call", {"name": "hang"})["result"]

    text = "Tool hang did not finish within 0.05 s; it may still be running"
    assert result == {"content": [{"type": "text", "text": text}], "isError": True}
    assert seen.wait(WAIT)


def test_a_tool_that_keeps_its_time_gives_its_result(talk: Any) -> None:
    """Tool.timeout, not reached; structured results too."""
    quick = Tool(
        name="quick",
        timeout=WAIT,
        output_schema={"type": "object"},
        execute=lambda call_id, args, signal, on_update: {"n": 1},
    )
    session = talk(McpServer([quick]))
    session.initialize()

    assert session.ask("tools/call", {"name": "quick"})["result"]["structuredContent"] == {"n": 1}


@pytest.mark.servers
def test_a_tool_may_run_in_a_process_of_its_own(talk: Any) -> None:
    """Isolation of the tool is kept."""
    session = talk(McpServer([tool(isolation="process")(os.getpid)]))
    session.initialize()

    text = session.ask("tools/call", {"name": "getpid"})["result"]["content"][0]["text"]

    assert int(text) != os.getpid()


def test_an_agent_is_served_as_a_tool(talk: Any) -> None:
    """Issue 5 part 5: an agent as an MCP server, through as_tool."""
    with Agent(ScriptedLlm(say("Try the Rioja."))) as agent:
        session = talk(McpServer([agent.as_tool("sommelier", "Knows wine.")]))
        session.initialize()
        (listed,) = session.ask("tools/list")["result"]["tools"]
        result = session.ask("tools/call", {"name": "sommelier", "arguments": {"prompt": "Red?"}})["result"]

    assert listed["description"] == "Knows wine."
    assert result == {"content": [{"type": "text", "text": "Try the Rioja."}], "isError": False}


def test_a_resource_needs_a_scheme() -> None:
    """A URI without a scheme cannot be read by clients."""
    with pytest.raises(ConfigurationError, match="needs a scheme"):
        ServedResource(uri="today", name="today", read=str)
