"""Every recorded body gives its expected result, in whatever pieces it arrives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.messages import AssistantMessage, ToolResultMessage, UserMessage
from yiemagent.testing.loopback import LoopbackServer, ServedRequest
from yiemagent.tools.tool import Tool

HERE = Path(__file__).parent / "cases"
CASES = [json.loads(line) for line in (HERE / "index.jsonl").read_text("utf-8").splitlines()]
OPENAI = [case for case in CASES if case["kind"].startswith("openai.")]
SIZES = (1, 2, 3, 7, 1000, 1_000_000)


class Bodies:
    """Serves the recorded bodies at ``/<id>/<piece size>/...``."""

    def __init__(self) -> None:
        self.by_id = {case["id"]: case for case in CASES}

    def __call__(self, request: ServedRequest) -> None:
        case = self.by_id[request.path.split("/")[1]]
        size = int(request.path.split("/")[2])
        body = (HERE / "bodies" / case["file"]).read_bytes()
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        status, headers = case["http"]["status"], case["http"]["headers"]
        streams = case["file"].endswith(".sse")
        request.start(status, headers, length=None if streams else len(body))
        for piece in pieces:
            if streams:
                request.chunk(piece)
            else:
                request.send(piece)
        if case.get("transport") == "keep_open_after_body":
            request.closing.wait(5)
        elif case.get("transport") == "incomplete_chunked":
            request.hang_up()
        elif streams:
            request.chunk(b"")


def model_for(case: dict[str, Any], url: str) -> OpenAIChat:
    limit = case.get("request", {}).get("max_tokens")
    think = "strip_think_tags" in case.get("note", "")
    streams = case["kind"].endswith(".stream")
    return OpenAIChat("test-model", url, "", streams, max_retries=0, think_tags=think, max_tokens=limit)


def tools_for(case: dict[str, Any]) -> list[Tool]:
    return [
        Tool(name=tool["name"], input_schema=tool["inputSchema"], execute=lambda *a: None)
        for tool in case.get("tools", ())
    ]


@pytest.mark.parametrize("listening", [True, False], ids=["listening", "not listening"])
@pytest.mark.parametrize("case", OPENAI, ids=[case["id"] for case in OPENAI])
def test_a_recorded_body_gives_its_expected_result(
    serve: Callable[..., LoopbackServer], ask: Callable[..., Any], case: dict[str, Any], listening: bool
) -> None:
    """Groups A and B of the cases."""
    server = serve(Bodies())
    for size in case.get("chunk_sizes") or SIZES:
        llm = model_for(case, f"{server.url}/{case['id']}/{size}")
        asked = ask(llm, tools=tools_for(case), want_deltas=listening)
        check(asked.message, asked.error, case["expected"])
        if listening and asked.error is None:
            check_events(asked.events, asked.message)


def check(message: AssistantMessage, error: Any, expected: dict[str, Any]) -> None:
    assert message.text == expected["text"]
    assert message.stop_reason == expected["stop_reason"]
    assert message.reasoning == expected.get("reasoning", message.reasoning)
    assert message.refusal == expected.get("refusal")
    assert set(expected.get("warnings", ())) <= set(message.warnings)
    check_calls(message, expected["tool_calls"])
    wanted = expected.get("error")
    if wanted is None:
        assert error is None
    else:
        check_error(message, error, wanted)
    if "usage" in expected:
        usage, counts = message.usage, expected["usage"]
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens) == (counts["input"], counts["output"])


def check_calls(message: AssistantMessage, expected: list[dict[str, Any]]) -> None:
    assert [call.name for call in message.tool_calls] == [wanted["name"] for wanted in expected]
    ids = [call.id for call in message.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    for call, wanted in zip(message.tool_calls, expected, strict=True):
        assert wanted["id"] in (None, call.id)
        assert dict(call.arguments) == (wanted["arguments"] or {})
        word = wanted.get("arguments_error")
        assert (call.arguments_error or "").partition(":")[0] == (word or "")
        if "wire_name" in wanted:
            assert "tool_name_resolved" in message.warnings
        if "warning" in wanted:
            assert wanted["warning"] in message.warnings


def check_error(message: AssistantMessage, error: Any, wanted: dict[str, Any]) -> None:
    assert (error.kind, error.retryable) == (wanted["kind"], wanted["retryable"])
    assert error.status == wanted.get("code")
    assert wanted.get("message_contains", "") in str(error)
    assert (message.error_kind, message.error_message) == (error.kind, str(error))
    assert error.partial == message
    if "retry_after" in wanted:
        assert error.retry_after == wanted["retry_after"]
    if "retry_after_date" in wanted:
        assert error.retry_after is not None
    if wanted.get("reasoning_available"):
        assert message.reasoning


def check_events(events: list[Any], message: AssistantMessage) -> None:
    """One start first; deltas add up; each block has its end."""
    assert [event.type for event in events].count("start") == 1
    assert events[0].type == "start"
    for kind, whole in (("text", message.text), ("reasoning", message.reasoning)):
        deltas = [event.delta for event in events if event.type == f"{kind}_delta"]
        assert "".join(deltas) == whole
        starts = [event.index for event in events if event.type == f"{kind}_start"]
        ends = [event.index for event in events if event.type == f"{kind}_end"]
        assert starts == ends
    finished = [event.content for event in events if event.type == "tool_call_end"]
    assert tuple(finished) == message.tool_calls


# -- the next request --------------------------------------------------------------------

REPLAYED = [case for case in OPENAI if "replay" in case["expected"]]


@pytest.mark.parametrize("case", REPLAYED, ids=[case["id"] for case in REPLAYED])
def test_a_recorded_answer_is_sent_back_as_its_provider_wants_it(
    serve: Callable[..., LoopbackServer], ask: Callable[..., Any], case: dict[str, Any]
) -> None:
    """What the next request must and must not hold."""
    server = serve(Bodies())
    llm = model_for(case, f"{server.url}/{case['id']}/100000")
    tools = tools_for(case)
    answer = ask(llm, tools=tools).message
    results = [ToolResultMessage(call.id, call.name, "done") for call in answer.tool_calls]  # type: ignore[arg-type]

    ask(llm, [UserMessage("hi"), answer, *results, UserMessage("go on")], tools)  # type: ignore[arg-type]

    sent = server.requests[-1].json["messages"][1]
    wanted = case["expected"]["replay"]
    assert not set(wanted.get("assistant_must_not_have", ())) & set(sent)
    assert sent.items() >= wanted.get("assistant_must_have", {}).items()
    for call in sent.get("tool_calls", ()):
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert call.items() >= wanted.get("tool_call_must_echo", {}).items()
        assert call["function"]["name"] == wanted.get("name", call["function"]["name"])


@pytest.mark.parametrize("case_id", ["A-61", "A-62"])
def test_what_is_private_to_a_model_is_not_sent_to_another(
    serve: Callable[..., LoopbackServer], ask: Callable[..., Any], case_id: str
) -> None:
    """C-35: echoed to the same provider and model, dropped for another."""
    case = next(case for case in CASES if case["id"] == case_id)
    server = serve(Bodies())
    llm = model_for(case, f"{server.url}/{case_id}/100000")
    tools = tools_for(case)
    answer = replace(ask(llm, tools=tools).message, model="another")
    results = [ToolResultMessage(call.id, call.name, "done") for call in answer.tool_calls]  # type: ignore[arg-type]

    ask(llm, [UserMessage("hi"), answer, *results], tools)  # type: ignore[arg-type]

    sent = server.requests[-1].json["messages"][1]
    assert set(sent) == {"role", "content", "tool_calls"}
    assert all(set(call) == {"id", "type", "function"} for call in sent["tool_calls"])


def test_the_index_names_every_body() -> None:
    """No body is left untested, and none is missing."""
    named = {case["file"] for case in CASES}
    assert named == {path.name for path in (HERE / "bodies").iterdir()}
