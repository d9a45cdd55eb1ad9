"""One call: its result, its clock, its progress, and how it is cancelled."""

from __future__ import annotations

import importlib.metadata
import logging
import threading
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import (
    ConfigurationError,
    McpConnectionError,
    McpError,
    McpProtocolError,
    McpTimeout,
    RunAborted,
)
from yiemagent.mcp.eras import CLIENT_VERSION
from yiemagent.testing import Gate, run_in_thread
from yiemagent.testing.memory_mcp import ScriptedMcpServer, ServerEnd

LEGACY = ("2025-11-25",)
DONE = {"content": [{"type": "text", "text": "done"}]}


def _silent(request: Any, end: ServerEnd) -> None:
    """Never answers."""


def test_the_version_in_client_info_is_that_of_the_package() -> None:
    """It is a constant for speed."""
    assert importlib.metadata.version("yiemagent") == CLIENT_VERSION


def test_a_tool_is_called_and_its_result_read(make_client: Any) -> None:
    """WT-021; quirk 3: a missing isError means success."""
    result = {
        "content": [{"type": "text", "text": "Sunny, 22°C"}, {"type": "image", "data": "AA=="}],
        "structuredContent": {"t": 22},
        "_meta": {"x": 1},
    }
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: result})
    answer = make_client(server).call_tool("getWeather", {"city": "Bangkok"})
    assert (answer.text, answer.structured, answer.is_error) == ("Sunny, 22°C", {"t": 22}, False)
    assert len(answer.content) == 2
    assert (answer.meta, answer.raw) == ({"x": 1}, result)
    sent = server.received[-1]["params"]
    assert (sent["name"], sent["arguments"]) == ("getWeather", {"city": "Bangkok"})


def test_a_json_rpc_error_is_raised_with_code_and_data(make_client: Any) -> None:
    """WT-022 outside a run."""
    server = ScriptedMcpServer(on={"tools/call": lambda r, end: end.refuse(r, -32602, "bad", {"field": "x"})})
    with pytest.raises(McpError, match="bad") as caught:
        make_client(server).call_tool("echo")
    assert (caught.value.code, caught.value.data) == (-32602, {"field": "x"})


def test_a_timeout_cancels_the_request_and_the_client_goes_on(make_client: Any) -> None:
    """E-09, E-11; field problems 21, 26, 27: the late reply is dropped."""
    calls: list[Any] = []
    late = threading.Event()

    def call(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        calls.append(request)
        if len(calls) == 1:
            late.wait(5)
            return {"content": [{"type": "text", "text": "late"}]}
        return DONE

    server = ScriptedMcpServer(on={"tools/call": call})
    client = make_client(server)
    client.connect()
    with pytest.raises(McpTimeout, match=r"did not answer tools/call within 0\.05 s"):
        client.call_tool("echo", timeout=0.05)
    cancelled = server.wait_for("notifications/cancelled")
    assert cancelled["params"]["requestId"] == calls[0]["id"]
    late.set()
    assert client.call_tool("echo").text == "done"


def test_an_abort_ends_the_call_and_cancels_it(make_client: Any) -> None:
    """Decision 10; issue 5 part 6: abort within 0.2 s."""
    gate = Gate()
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: gate.block()})
    client = make_client(server)
    signal = AbortSignal()
    outcome = run_in_thread(client.call_tool, "echo", signal=signal)
    gate.wait_entered()
    signal.abort("user closed the page")
    with pytest.raises(RunAborted) as caught:
        outcome.get()
    assert caught.value.reason == "user closed the page"
    assert server.wait_for("notifications/cancelled")["params"]["reason"] == "user closed the page"
    gate.open()


def test_nothing_is_sent_for_a_call_that_was_aborted_before(make_client: Any) -> None:
    """New work is never begun after an abort."""
    server = ScriptedMcpServer()
    client = make_client(server)
    client.connect()
    signal = AbortSignal()
    signal.abort()
    with pytest.raises(RunAborted):
        client.call_tool("echo", signal=signal)
    with pytest.raises(McpTimeout):
        client.call_tool("echo", timeout=0)
    assert "tools/call" not in server.methods()


def test_an_abort_ends_the_wait_for_a_connection(make_client: Any) -> None:
    """Every wait wakes on abort."""
    gate = Gate()
    server = ScriptedMcpServer(on={"server/discover": lambda request, end: gate.block()})
    client = make_client(server)
    signal = AbortSignal()
    outcome = run_in_thread(client.list_tools, signal=signal)
    gate.wait_entered()
    signal.abort()
    with pytest.raises(RunAborted):
        outcome.get()
    gate.open()


def test_the_server_is_lost_during_a_call_and_the_call_is_not_sent_again(make_client: Any) -> None:
    """E-08; tools/call is never sent twice."""
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: end.die("exit code 3")})
    client = make_client(server)
    with pytest.raises(McpConnectionError, match="exit code 3"):
        client.call_tool("echo")
    assert server.methods().count("tools/call") == 1
    assert len(client.list_tools()) == 1


def test_a_list_is_asked_for_again_when_the_server_was_lost_meanwhile(make_client: Any) -> None:
    """E-19: tools/list may be retried; once."""
    died: list[bool] = []

    def listing(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        if not died:
            died.append(True)
            end.die()
            return None
        return {"tools": [{"name": "a"}]}

    server = ScriptedMcpServer(on={"tools/list": listing})
    assert [tool.name for tool in make_client(server).list_tools()] == ["a"]
    assert len(server.ends) == 2


def test_progress_is_heard_in_the_thread_that_called(make_client: Any) -> None:
    """Issue 5 part 2; quirk 10: keys in any order, floats."""

    def call(request: Any, end: ServerEnd) -> dict[str, Any]:
        token = request["params"]["_meta"]["progressToken"]
        for step in (1, 2.0):
            params = {"total": 2, "progress": step, "progressToken": token, "message": f"step {step:g}"}
            end.send({"params": params, "method": "notifications/progress", "jsonrpc": "2.0"})
        return DONE

    server = ScriptedMcpServer(on={"tools/call": call})
    heard: list[Any] = []
    lines: list[str] = []
    client = make_client(server, name="srv", event_sink=lambda text, publish=False: lines.append(text))
    client.call_tool("slow", on_progress=lambda p: heard.append((str(p), threading.current_thread())))
    assert [text for text, _ in heard] == ["1/2: step 1", "2/2: step 2"]
    assert {thread for _, thread in heard} == {threading.current_thread()}
    assert lines == ["[srv] 1/2: step 1", "[srv] 2/2: step 2"]


def test_progress_is_not_asked_for_when_nobody_listens(make_client: Any) -> None:
    """Progress costs the server something."""
    server = ScriptedMcpServer()
    make_client(server).call_tool("echo")
    assert "progressToken" not in server.received[-1]["params"]["_meta"]


def test_a_listener_that_raises_harms_nobody(make_client: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Decision 23."""

    def call(request: Any, end: ServerEnd) -> dict[str, Any]:
        token = request["params"]["_meta"]["progressToken"]
        end.send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        return DONE

    def listener(progress: Any) -> None:
        raise RuntimeError("bad listener")

    server = ScriptedMcpServer(on={"tools/call": call})
    with caplog.at_level(logging.ERROR):
        assert make_client(server).call_tool("slow", on_progress=listener).text == "done"
    assert "bad listener" in caplog.text


def test_progress_gives_a_call_its_time_anew_by_option(make_client: Any) -> None:
    """Field problem 29: a tool that outlasts its timeout but reports progress."""
    steps = [Gate() for _ in range(3)]
    heard = [threading.Event() for _ in steps]

    def call(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        token = request["params"]["_meta"]["progressToken"]
        for number, gate in enumerate(steps):
            gate.block()
            params = {"progressToken": token, "progress": number}
            end.send({"method": "notifications/progress", "params": params})
        return DONE

    def on_progress(progress: Any) -> None:
        heard[int(progress.progress)].set()

    server = ScriptedMcpServer(on={"tools/call": call})
    client = make_client(server, progress_extends=True, max_call_seconds=60, timeout=5)
    outcome = run_in_thread(client.call_tool, "slow", on_progress=on_progress)
    for gate, event in zip(steps, heard, strict=True):
        gate.wait_entered()
        gate.open()
        assert event.wait(5)
    assert outcome.get().text == "done"


def test_progress_without_end_ends_at_the_hard_maximum(make_client: Any) -> None:
    """Field problem 29: a hard maximum."""
    stop = threading.Event()

    def call(request: Any, end: ServerEnd) -> None:
        token = request["params"]["_meta"]["progressToken"]
        while not stop.wait(0.01):
            params = {"progressToken": token, "progress": 1}
            end.send({"method": "notifications/progress", "params": params})

    server = ScriptedMcpServer(on={"tools/call": call})
    client = make_client(server, progress_extends=True, timeout=5, max_call_seconds=0.2)
    with pytest.raises(McpTimeout):
        client.call_tool("slow")
    stop.set()


def test_late_progress_is_dropped(make_client: Any) -> None:
    """Quirk 9: notifications after the response, and for calls that timed out."""
    heard: list[Any] = []

    def call(request: Any, end: ServerEnd) -> None:
        token = request["params"]["_meta"]["progressToken"]
        end.reply(request, DONE)
        end.send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 9}})
        end.send({"method": "notifications/progress", "params": {"progressToken": 999, "progress": 9}})

    server = ScriptedMcpServer(on={"tools/call": call})
    client = make_client(server, on_notification=heard.append)
    client.call_tool("slow", on_progress=lambda p: None)
    client.ping()
    assert heard == []


def test_answers_reach_their_calls_in_any_order(make_client: Any) -> None:
    """E-11: matched by id only; ids may come back as texts."""
    gates = {name: Gate() for name in "abc"}

    def call(request: Any, end: ServerEnd) -> None:
        name = request["params"]["name"]
        gates[name].block()
        end.send({"id": str(request["id"]), "result": {"content": [{"type": "text", "text": name}]}})

    server = ScriptedMcpServer(on={"tools/call": call})
    client = make_client(server)
    outcomes = {name: run_in_thread(client.call_tool, name) for name in gates}
    for gate in gates.values():
        gate.wait_entered()
    for name in "cab":
        gates[name].open()
        assert outcomes[name].get().text == name


def test_an_unknown_response_is_dropped(make_client: Any) -> None:
    """E-11."""
    server = ScriptedMcpServer()
    client = make_client(server)
    client.connect()
    server.ends[0].send({"jsonrpc": "2.0", "id": 4711, "result": {}})
    server.ends[0].send({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}})
    assert len(client.list_tools()) == 1


def test_all_methods_go_to_the_wire_as_the_specification_names_them(make_client: Any) -> None:
    """Issue 5 part 1."""
    answers: dict[str, Any] = {
        "resources/list": {"resources": [{"uri": "a://1", "name": "one", "size": 3}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a://{x}", "name": "t"}]},
        "resources/read": {"contents": [{"uri": "a://1", "text": "hi", "mimeType": "text/plain"}]},
        "prompts/list": {"prompts": [{"name": "p", "arguments": [{"name": "x", "required": True}]}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]},
        "completion/complete": {"completion": {"values": ["a", "b"], "total": 5, "hasMore": True}},
        "logging/setLevel": {},
        "ping": {},
    }

    def answer(method: str) -> Any:
        return lambda request, end: answers[method]

    server = ScriptedMcpServer(versions=LEGACY, on={method: answer(method) for method in answers})
    client = make_client(server)
    assert client.list_resources()[0].size == 3
    assert client.list_resource_templates()[0].uri_template == "a://{x}"
    assert client.read_resource("a://1")[0].text == "hi"
    assert client.list_prompts()[0].arguments[0]["required"] is True
    assert client.get_prompt("p", {"x": "1"}).messages[0]["role"] == "user"
    completion = client.complete("x", "a", prompt="p", context={"y": "z"})
    assert (completion.values, completion.total, completion.has_more) == (("a", "b"), 5, True)
    client.complete("x", "a", resource="a://{x}")
    client.set_log_level("debug")
    client.ping()
    sent = {message["method"]: message.get("params") for message in server.received}
    assert sent["completion/complete"]["ref"] == {"type": "ref/resource", "uri": "a://{x}"}
    assert sent["prompts/get"] == {"name": "p", "arguments": {"x": "1"}}
    assert sent["logging/setLevel"] == {"level": "debug"}
    assert server.methods()[-1] == "ping"


def test_ping_of_a_modern_server_asks_who_it_is(make_client: Any) -> None:
    """Protocol 2026-07-28 has no ping; field problem 44: only when asked to."""
    server = ScriptedMcpServer()
    client = make_client(server)
    client.ping()
    assert server.methods() == ["server/discover", "server/discover"]


def test_lists_that_a_server_does_not_have_are_empty(make_client: Any) -> None:
    """Quirk 15: -32601 for absent capabilities."""
    client = make_client(ScriptedMcpServer(capabilities={"tools": {}}))
    assert client.list_resources() == ()
    assert client.list_prompts() == ()


def test_a_list_that_a_server_claims_to_have_but_refuses_is_an_error(make_client: Any) -> None:
    """Runbook 2.3: failing is not the same as having none."""
    server = ScriptedMcpServer(on={"tools/list": lambda r, end: end.refuse(r, -32601, "Method not found")})
    with pytest.raises(McpError, match="Method not found"):
        make_client(server).list_tools()


def test_the_log_level_travels_in_each_request_to_a_modern_server(make_client: Any) -> None:
    """Protocol 2026-07-28: without it the server must not log."""
    server = ScriptedMcpServer()
    heard: list[str] = []
    got = threading.Event()

    def on_log(log: Any) -> None:
        heard.append(str(log))
        got.set()

    client = make_client(server, on_log=on_log, log_level="warning")
    client.call_tool("echo")
    assert server.received[-1]["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "warning"
    server.tell("notifications/message", {"level": "error", "logger": "db", "data": {"x": 1}})
    assert got.wait(5)
    assert heard == ["error db: {'x': 1}"]
    assert "logging/setLevel" not in server.methods()


def test_the_log_level_is_set_again_after_a_reconnect(make_client: Any) -> None:
    """A session forgets it."""
    server = ScriptedMcpServer(versions=LEGACY, capabilities={"logging": {}, "tools": {}})
    client = make_client(server, log_level="error")
    client.connect()
    server.ends[0].die()
    client.connect()
    levels = [m["params"]["level"] for m in server.received if m["method"] == "logging/setLevel"]
    assert levels == ["error", "error"]


def test_an_unknown_log_level_is_refused(make_client: Any) -> None:
    """Messages name the choice."""
    client = make_client(ScriptedMcpServer())
    with pytest.raises(ConfigurationError, match="debug, info"):
        client.set_log_level("loud")


def test_other_notifications_are_handed_on_in_order(make_client: Any) -> None:
    """E-14."""
    server = ScriptedMcpServer()
    heard: list[str] = []
    done = threading.Event()

    def on_notification(message: Any) -> None:
        heard.append(message["method"])
        if len(heard) == 3:
            done.set()

    client = make_client(server, on_notification=on_notification)
    client.connect()
    for method in ("notifications/a", "notifications/tools/list_changed", "notifications/b"):
        server.tell(method)
    assert done.wait(5)
    assert heard == ["notifications/a", "notifications/tools/list_changed", "notifications/b"]


def test_an_answer_of_an_unknown_kind_breaks_the_protocol(make_client: Any) -> None:
    """Protocol 2026-07-28: an unknown resultType is invalid; a missing one is complete."""
    result = {"resultType": "task", "content": []}
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: result})
    with pytest.raises(McpProtocolError, match="unknown result type 'task'"):
        make_client(server).call_tool("echo")


def test_arguments_that_json_cannot_say_are_refused_before_they_are_sent(make_client: Any) -> None:
    """The connection stays usable."""
    client = make_client(ScriptedMcpServer())
    with pytest.raises(McpProtocolError, match="cannot be written as JSON"):
        client.call_tool("echo", {"x": {1, 2}})
    assert client.call_tool("echo").text == "{}"


def test_more_metadata_travels_with_a_call(make_client: Any) -> None:
    """traceparent and other keys of _meta."""
    server = ScriptedMcpServer()
    make_client(server).call_tool("echo", meta={"traceparent": "00-1-2-01"})
    meta = server.received[-1]["params"]["_meta"]
    assert meta["traceparent"] == "00-1-2-01"
    assert "io.modelcontextprotocol/protocolVersion" in meta


def test_an_answer_that_does_not_fit_its_schema_is_handed_on_with_a_warning(
    make_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Field problems 42, 43: warn, still hand on content."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": schema}
    answers = iter(
        [
            {"content": [], "structuredContent": {"n": "one"}},
            {"content": [{"type": "text", "text": "only text"}]},
            {"content": [], "structuredContent": {"n": 1}},
            {"content": [], "isError": True},
        ]
    )
    server = ScriptedMcpServer(tools=[tool], on={"tools/call": lambda request, end: next(answers)})
    client = make_client(server)
    client.list_tools()
    with caplog.at_level(logging.WARNING):
        assert "at n (type)" in client.call_tool("count").warnings[0]
        missing = client.call_tool("count")
        assert "no structuredContent" in missing.warnings[0]
        assert missing.text == "only text"
        assert client.call_tool("count").warnings == ()
        assert client.call_tool("count").warnings == ()
    assert caplog.text.count("tool=count") == 2


def test_a_schema_is_never_fetched_from_the_network(make_client: Any) -> None:
    """Protocol 2026-07-28: $ref to a network URI must not be dereferenced."""
    tool = {"name": "t", "outputSchema": {"$ref": "http://127.0.0.1:9/schema.json"}}
    answer = {"content": [], "structuredContent": {"n": 1}}
    server = ScriptedMcpServer(tools=[tool], on={"tools/call": lambda request, end: answer})
    client = make_client(server)
    client.list_tools()
    assert client.call_tool("t").warnings != ()
