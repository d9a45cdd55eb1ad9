"""What a server wants to know: in requests of its own (sessions), or in its results (2026-07-28)."""

from __future__ import annotations

import contextvars
import logging
import threading
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, McpError, McpProtocolError, McpTimeout, RunAborted
from yiemagent.mcp.elicitation import ElicitationAnswer, ElicitationRequest, answer_elicitation
from yiemagent.mcp.sampling import answer_sampling
from yiemagent.messages import AssistantMessage
from yiemagent.testing import Gate, run_in_thread
from yiemagent.testing.memory_mcp import ScriptedMcpServer, ServerEnd

LEGACY = ("2025-11-25",)
ASKING = {"resultType": "input_required"}
DONE = {"content": [{"type": "text", "text": "done"}]}
FORM = {
    "message": "your name?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "default": "Ada"}, "age": {"type": "integer"}},
        "required": ["name"],
    },
}


def _asking(method: str, params: Any, *, state: Any = ...) -> Any:
    """A tools/call handler that asks one question before it answers with what it was told."""

    def call(request: Any, end: ServerEnd) -> dict[str, Any]:
        answers = request["params"].get("inputResponses")
        if answers is None:
            asked = {
                "resultType": "input_required",
                "inputRequests": {"q": {"method": method, "params": params}},
            }
            return asked if state is ... else {**asked, "requestState": state}
        return {"content": [{"type": "text", "text": repr(answers["q"])}], "resultType": "complete"}

    return call


# --- sessions: the server sends requests


def test_a_question_in_the_middle_of_a_call_is_answered_on_a_worker(make_client: Any) -> None:
    """Quirk 8: a deadlock if the reader answered it itself."""
    threads: list[str] = []

    def call(request: Any, end: ServerEnd) -> dict[str, Any]:
        answer = server.ask("srv-1", "elicitation/create", FORM)
        return {"content": [{"type": "text", "text": repr(answer["result"])}]}

    def on_elicitation(question: ElicitationRequest) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        assert client.connected  # a callback may use the client
        client.ping()
        return {"age": 36}

    server = ScriptedMcpServer(versions=LEGACY, on={"tools/call": call})
    client = make_client(server, on_elicitation=on_elicitation)
    text = client.call_tool("ask").text
    assert text == repr({"action": "accept", "content": {"name": "Ada", "age": 36}})
    assert threads[0].startswith("yiemagent-mcp-question")


def test_what_is_declared_follows_from_the_callbacks(make_client: Any) -> None:
    """Quirk 13: the tool list depends on declared capabilities."""
    server = ScriptedMcpServer(versions=LEGACY)
    make_client(server).connect()
    options: dict[str, Any] = {
        "on_elicitation": lambda q: None,
        "on_sampling": lambda q: "x",
        "roots": ["/tmp"],
        "capabilities": {"experimental": {"x": {}}},
    }
    make_client(server, **options).connect()
    declared = [m["params"]["capabilities"] for m in server.received if m["method"] == "initialize"]
    assert declared[0] == {}
    assert declared[1] == {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {"listChanged": True},
        "experimental": {"x": {}},
    }


def test_pings_are_answered_and_unknown_requests_refused(make_client: Any) -> None:
    """E-14: a ping without an answer makes the server disconnect."""
    server = ScriptedMcpServer(versions=LEGACY)
    make_client(server).connect()
    assert server.ask("p", "ping")["result"] == {}
    assert server.ask("x", "elicitation/create", FORM)["error"]["code"] == -32601
    assert server.ask("y", "future/thing")["error"]["code"] == -32601


def test_roots_are_given_as_uris(make_client: Any, tmp_path: Any) -> None:
    """Quirk 8: filesystem asks for roots right after initialized."""
    server = ScriptedMcpServer(versions=LEGACY)
    roots = [tmp_path, "file:///srv/data", {"uri": "file:///x", "name": "X"}]
    client = make_client(server, roots=lambda: roots)
    client.connect()
    listed = server.ask(1, "roots/list")["result"]["roots"]
    assert listed == [
        {"uri": tmp_path.as_uri(), "name": tmp_path.name},
        {"uri": "file:///srv/data", "name": "data"},
        {"uri": "file:///x", "name": "X"},
    ]
    client.roots_changed()
    server.wait_for("notifications/roots/list_changed")


def test_a_question_right_after_the_handshake_is_answered(make_client: Any, tmp_path: Any) -> None:
    """Quirk 8: roots/list may arrive before our own handshake call has returned."""
    answers: list[Any] = []
    asked = threading.Event()

    def initialize(request: Any, end: ServerEnd) -> None:
        end.reply(request, {"protocolVersion": "2025-11-25", "capabilities": {}})
        answers.append(server.ask(1, "roots/list"))
        asked.set()

    server = ScriptedMcpServer(versions=LEGACY, on={"initialize": initialize})
    make_client(server, roots=[tmp_path]).connect()
    assert asked.wait(5)
    assert "result" in answers[0]


def test_a_callback_that_raises_is_an_error_for_the_server(make_client: Any) -> None:
    """It is told, so that it does not wait."""

    def on_sampling(question: Any) -> str:
        raise RuntimeError("no model")

    server = ScriptedMcpServer(versions=LEGACY)
    make_client(server, on_sampling=on_sampling).connect()
    answer = server.ask(1, "sampling/createMessage", {"messages": [], "maxTokens": 5})
    assert answer["error"]["message"] == "RuntimeError: no model"


def test_sampling_answers_with_what_the_model_said(make_client: Any) -> None:
    """Protocol: sampling/createMessage."""
    seen: list[Any] = []

    def on_sampling(question: Any) -> str:
        seen.append(question)
        return "Paris"

    server = ScriptedMcpServer(versions=LEGACY)
    make_client(server, name="geo", on_sampling=on_sampling).connect()
    params = {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Capital?"}}],
        "systemPrompt": "Be short.",
        "maxTokens": 10,
        "temperature": 0,
    }
    result = server.ask(1, "sampling/createMessage", params)["result"]
    assert result["content"] == {"type": "text", "text": "Paris"}
    assert (result["role"], result["stopReason"]) == ("assistant", "endTurn")
    question = seen[0]
    assert (question.server, question.system_prompt, question.max_tokens) == ("geo", "Be short.", 10)
    assert question.raw["temperature"] == 0


def test_the_clock_of_a_call_stands_still_while_the_user_is_asked(make_client: Any) -> None:
    """A person needs longer than a tool."""

    def call(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        if request["params"]["name"] == "silent":
            return None
        server.ask(1, "elicitation/create", FORM)
        return DONE

    def on_elicitation(question: Any) -> dict[str, Any]:
        with pytest.raises(McpTimeout):  # takes longer than the call that is being asked about may
            client.call_tool("silent", timeout=0.7)
        return {}

    server = ScriptedMcpServer(versions=LEGACY, on={"tools/call": call})
    client = make_client(server, on_elicitation=on_elicitation)
    client.connect()
    assert client.call_tool("ask", timeout=0.6).text == "done"


def test_too_many_questions_at_once_are_not_hoarded(
    make_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A mad server must not fill our memory or start a thousand threads."""
    gate = Gate()
    server = ScriptedMcpServer(versions=LEGACY)
    client = make_client(server, on_sampling=lambda q: gate.block() or "x")
    client.connect()
    before = threading.active_count()
    with caplog.at_level(logging.WARNING):
        for number in range(1_100):
            request = {"jsonrpc": "2.0", "id": number, "method": "sampling/createMessage", "params": {}}
            server.ends[0].send(request)
    assert threading.active_count() - before <= 8
    assert "asks too much at once" in caplog.text
    client.close()
    gate.open()


# --- 2026-07-28: the server answers with a question


def test_a_result_that_asks_is_answered_and_the_call_repeated_with_a_new_id(make_client: Any) -> None:
    """Protocol 2026-07-28, MRTR: new id, inputResponses, the exact requestState."""
    state = "opaque é =="
    server = ScriptedMcpServer(on={"tools/call": _asking("elicitation/create", FORM, state=state)})
    client = make_client(server, on_elicitation=lambda q: {"name": "Grace"})
    text = client.call_tool("ask", {"x": 1}).text
    assert text == repr({"action": "accept", "content": {"name": "Grace"}})
    first, second = (message for message in server.received if message["method"] == "tools/call")
    assert first["id"] != second["id"]
    assert second["params"]["arguments"] == {"x": 1}
    assert second["params"]["requestState"] == state
    assert "inputResponses" not in first["params"]


def test_a_state_that_was_not_sent_is_not_sent_back(make_client: Any) -> None:
    """Protocol: the client must not include one then."""
    server = ScriptedMcpServer(on={"tools/call": _asking("roots/list", {})})
    make_client(server, roots=["/tmp"]).call_tool("ask")
    assert "requestState" not in server.received[-1]["params"]


def test_a_state_is_used_for_its_own_round_only(make_client: Any) -> None:
    """Protocol: for that retry only; several rounds may follow each other."""
    rounds = iter(
        [
            {
                "resultType": "input_required",
                "requestState": "one",
                "inputRequests": {"a": {"method": "roots/list"}},
            },
            {"resultType": "input_required", "inputRequests": {"b": {"method": "roots/list"}}},
            DONE,
        ]
    )
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: next(rounds)})
    assert make_client(server, roots=[]).call_tool("ask").text == "done"
    sent = [m["params"] for m in server.received if m["method"] == "tools/call"]
    assert [params.get("requestState") for params in sent] == [None, "one", None]
    assert [list(params.get("inputResponses", {})) for params in sent] == [[], ["a"], ["b"]]


def test_resources_and_prompts_may_ask_too(make_client: Any) -> None:
    """Protocol: tools/call, prompts/get and resources/read."""

    def read(request: Any, end: ServerEnd) -> dict[str, Any]:
        if "inputResponses" not in request["params"]:
            return {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}
        return {"contents": [{"uri": "a://", "text": "x"}], "ttlMs": 60_000}

    server = ScriptedMcpServer(on={"resources/read": read})
    assert make_client(server, roots=[]).read_resource("a://")[0].text == "x"


def test_a_state_alone_means_ask_again(make_client: Any) -> None:
    """Protocol: without inputRequests the client may retry."""
    rounds = iter([{"resultType": "input_required", "requestState": "later"}, DONE])
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: next(rounds)})
    assert make_client(server).call_tool("ask").text == "done"
    assert server.received[-1]["params"]["requestState"] == "later"


def test_a_server_that_asks_without_end_is_left(make_client: Any) -> None:
    """Every loop has an end."""
    asking = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}
    server = ScriptedMcpServer(on={"tools/call": lambda request, end: asking})
    with pytest.raises(McpProtocolError, match="asked for input 20 times"):
        make_client(server, roots=[]).call_tool("ask")


def test_a_question_that_cannot_be_answered_ends_the_call(make_client: Any) -> None:
    """Servers must not ask for what was not declared."""
    server = ScriptedMcpServer(on={"tools/call": _asking("elicitation/create", FORM)})
    with pytest.raises(McpError, match="asks for elicitation/create, which this client does not offer"):
        make_client(server).call_tool("ask")


def test_a_callback_that_fails_ends_the_call_with_its_reason(make_client: Any) -> None:
    """The caller learns why."""

    def on_elicitation(question: Any) -> None:
        raise RuntimeError("no terminal")

    server = ScriptedMcpServer(on={"tools/call": _asking("elicitation/create", FORM)})
    with pytest.raises(McpError, match=r"answering elicitation/create of .* failed: no terminal") as caught:
        make_client(server, on_elicitation=on_elicitation).call_tool("ask")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_abort_leaves_a_question_that_is_being_answered(make_client: Any) -> None:
    """Decision 10."""
    gate = Gate()
    server = ScriptedMcpServer(on={"tools/call": _asking("elicitation/create", FORM)})
    client = make_client(server, on_elicitation=lambda q: gate.block())
    signal = AbortSignal()
    outcome = run_in_thread(client.call_tool, "ask", signal=signal)
    gate.wait_entered()
    signal.abort()
    with pytest.raises(RunAborted):
        outcome.get()
    gate.open()


def test_a_question_that_nobody_answers_ends_the_call(make_client: Any) -> None:
    """input_timeout: every wait has a deadline."""
    gate = Gate()
    server = ScriptedMcpServer(on={"tools/call": _asking("elicitation/create", FORM)})
    client = make_client(server, on_elicitation=lambda q: gate.block(), input_timeout=0.05, timeout=0.05)
    with pytest.raises(McpTimeout):
        client.call_tool("ask")
    gate.open()


def test_the_callers_context_reaches_the_callback(make_client: Any) -> None:
    """contextvars travel with the call."""
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    server = ScriptedMcpServer(on={"tools/call": _asking("elicitation/create", FORM)})
    client = make_client(server, on_elicitation=lambda q: {"name": user.get()})
    user.set("ada")
    assert "'ada'" in client.call_tool("ask").text


def test_pages_that_must_be_opened_first_are_shown_and_the_call_repeated(make_client: Any) -> None:
    """Protocol 2025-11-25: error -32042 URLElicitationRequired."""
    opened: list[str] = []

    def call(request: Any, end: ServerEnd) -> dict[str, Any] | None:
        if opened:
            return DONE
        wanted = {"mode": "url", "url": "https://login.example", "elicitationId": "e", "message": "log in"}
        end.refuse(request, -32042, "log in first", {"elicitations": [wanted]})
        return None

    def on_elicitation(question: ElicitationRequest) -> bool:
        opened.append(question.url)
        return True

    server = ScriptedMcpServer(versions=LEGACY, on={"tools/call": call})
    assert make_client(server, on_elicitation=on_elicitation).call_tool("ask").text == "done"
    assert opened == ["https://login.example"]
    refused = ScriptedMcpServer(
        versions=LEGACY, on={"tools/call": lambda r, end: (opened.clear(), call(r, end))[1]}
    )
    with pytest.raises(McpError, match="did not open the page"):
        make_client(refused, on_elicitation=lambda q: False).call_tool("ask")
    with pytest.raises(McpError, match="log in first"):
        make_client(refused).call_tool("ask")


# --- what callbacks return


@pytest.mark.parametrize(
    ("returned", "action"),
    [
        ({"name": "x"}, "accept"),
        (True, "accept"),
        ("accept", "accept"),
        (None, "decline"),
        (False, "decline"),
        ("decline", "decline"),
        ("cancel", "cancel"),
        (ElicitationAnswer("cancel"), "cancel"),
    ],
)
def test_a_callback_says_what_the_user_did(returned: Any, action: str) -> None:
    """Accept, decline and cancel are three things."""
    assert answer_elicitation(ElicitationRequest.read("s", FORM), returned)["action"] == action


def test_fields_that_were_left_out_get_their_defaults_of_every_type() -> None:
    """Protocol 2025-11-25: defaults for all primitive types."""
    properties = {
        "text": {"type": "string", "default": "a"},
        "number": {"type": "number", "default": 1.5},
        "yes": {"type": "boolean", "default": False},
        "one": {"type": "string", "enum": ["x", "y"], "default": "y"},
        "many": {"type": "array", "items": {"enum": ["x", "y"]}, "default": ["x"]},
        "none": {"type": "string"},
    }
    question = ElicitationRequest.read("s", {"requestedSchema": {"type": "object", "properties": properties}})
    content = answer_elicitation(question, {"one": "x"})["content"]
    assert content == {"text": "a", "number": 1.5, "yes": False, "one": "x", "many": ["x"]}


def test_a_missing_mode_is_a_form_and_a_url_has_no_content() -> None:
    """Protocol: clients must treat it so."""
    assert ElicitationRequest.read("s", {"message": "m"}).mode == "form"
    question = ElicitationRequest.read("s", {"mode": "url", "url": "https://x", "message": "m"})
    assert answer_elicitation(question, True) == {"action": "accept"}


def test_an_answer_without_a_required_field_is_refused() -> None:
    """The message names it."""
    question = ElicitationRequest.read("s", {"requestedSchema": {"properties": {}, "required": ["mail"]}})
    with pytest.raises(ConfigurationError, match="lacks the required fields mail"):
        answer_elicitation(question, {})
    with pytest.raises(ConfigurationError, match="on_elicitation returned 7"):
        answer_elicitation(question, 7)  # type: ignore[arg-type]


def test_sampling_may_return_a_message_or_the_result_itself() -> None:
    """Whatever the application has at hand."""
    message = AssistantMessage("hi", stop_reason="length", model="m-1")  # type: ignore[arg-type]
    assert answer_sampling(message)["stopReason"] == "maxTokens"
    assert answer_sampling(message)["model"] == "m-1"
    raw = {"content": [{"type": "text", "text": "x"}], "model": "z"}
    assert answer_sampling(raw) == {"role": "assistant", **raw}
    with pytest.raises(ConfigurationError, match="on_sampling returned None"):
        answer_sampling(None)  # type: ignore[arg-type]
