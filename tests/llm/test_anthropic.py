"""Anthropic's Messages dialect over real loopback HTTP."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent import Agent
from yiemagent.errors import AuthenticationFailed, ConfigurationError, ContextOverflow
from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.anthropic import AnthropicMessages
from yiemagent.llm.anthropic_decode import AnthropicDecoder
from yiemagent.messages import (
    AssistantMessage,
    ImageContent,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from yiemagent.model import ModelInfo
from yiemagent.testing.loopback import ServedRequest
from yiemagent.tools.tool import Tool

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("recorded_cases", HERE / "test_cases.py")
assert _spec is not None
assert _spec.loader is not None
recorded = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorded)
CASES = [case for case in recorded.CASES if case["kind"].startswith("anthropic.")]
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 7},
}
WEATHER = Tool(
    name="get_weather",
    description="Weather.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}},
    execute=lambda *a: "sun",
)


class Recorder:
    """Answers every request with one body, and keeps what was asked."""

    def __init__(self, body: Any = ANSWER, status: int = 200) -> None:
        self.body, self.status = body, status
        self.requests: list[ServedRequest] = []

    def __call__(self, request: ServedRequest) -> None:
        self.requests.append(request)
        request.reply(self.body, self.status)

    @property
    def sent(self) -> Any:
        return self.requests[-1].json


def model(url: str, **options: Any) -> AnthropicMessages:
    return AnthropicMessages("claude-test", url, "sk-ant-secret", max_retries=0, **options)


@pytest.mark.parametrize("listening", [True, False], ids=["listening", "not listening"])
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_recorded_body_gives_its_expected_result(
    serve: Callable[..., Any], ask: Callable[..., Any], case: dict[str, Any], listening: bool
) -> None:
    """Groups A and B of the cases, Anthropic's part, in six piece sizes."""
    server = serve(recorded.Bodies())
    for size in recorded.SIZES:
        llm = model(f"{server.url}/{case['id']}/{size}", stream=case["kind"].endswith(".stream"))
        asked = ask(llm, tools=recorded.tools_for(case), want_deltas=listening)
        recorded.check(asked.message, asked.error, case["expected"])
        if listening and asked.error is None:
            recorded.check_events(asked.events, asked.message)


@pytest.mark.parametrize("name", ["A-76", "A-77", "B-62", "B-59"])
def test_an_answer_goes_back_to_its_own_model_as_it_came(
    serve: Callable[..., Any], ask: Callable[..., Any], name: str
) -> None:
    """A-76, A-77, B-59, B-62: thinking signed and verbatim, no blank text, the new ids on both sides."""
    case = next(case for case in CASES if case["id"] == name)
    bodies, recorder = serve(recorded.Bodies()), Recorder()
    answer = ask(model(f"{bodies.url}/{name}/1000", stream="always"), tools=recorded.tools_for(case)).message
    results = [ToolResultMessage(call.id, call.name, (TextContent("ok"),)) for call in answer.tool_calls]

    ask(model(serve(recorder).url), [UserMessage("x"), answer, *results, UserMessage("go on")])

    blocks = recorder.sent["messages"][1]["content"]
    expected = {
        "A-76": ["tool_use"],
        "A-77": ["thinking", "redacted_thinking", "tool_use"],
        "B-62": ["thinking", "text"],
        "B-59": ["tool_use", "tool_use"],
    }
    assert [block["type"] for block in blocks] == expected[name]
    if name == "A-77":
        assert blocks[0] == {"type": "thinking", "thinking": "hmm", "signature": "sig1"}
        assert blocks[1] == {"type": "redacted_thinking", "data": "xx"}
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answered = [
        b["tool_use_id"] for b in recorder.sent["messages"][2]["content"] if b["type"] == "tool_result"
    ]
    assert ids == answered
    assert len(set(ids)) == len(ids)


def test_the_whole_request_is_as_the_api_wants_it(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """Golden payload: system, marks, tools, results in one user message, images, levels."""
    recorder = Recorder()
    history = [
        UserMessage((TextContent("look"), TextContent("  "), ImageContent("aWk=", "image/png"))),
        AssistantMessage(
            (
                TextContent("I will."),
                ToolCall("call|1", "get_weather", {"city": "Oslo"}),
                ToolCall("c2", "x"),
            ),
            stop_reason="tool_calls",
        ),
        ToolResultMessage("call|1", "get_weather", (TextContent("rain"), ImageContent("aWk=", "image/png"))),
        ToolResultMessage("c2", "x", (ImageContent("ZXJy", "image/jpeg"),), is_error=True),
        UserMessage("and now?"),
    ]

    ask(
        model(serve(recorder).url),
        history,
        tools=(WEATHER,),
        system_prompt="You are terse.",
        want_deltas=False,
        reasoning="low",
        temperature=0.5,
        tool_choice="get_weather",
    )

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWk="}}
    error_image = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "ZXJy"}}
    mark = {"cache_control": {"type": "ephemeral"}}
    first_id = recorder.sent["messages"][1]["content"][1]["id"]
    assert first_id != "call|1"
    assert recorder.sent == {
        "model": "claude-test",
        "max_tokens": 8192,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "tool_choice": {"type": "tool", "name": "get_weather"},
        "system": [{"type": "text", "text": "You are terse.", **mark}],
        "tools": [
            {
                "name": "get_weather",
                "description": "Weather.",
                "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
                **mark,
            }
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I will."},
                    {"type": "tool_use", "id": first_id, "name": "get_weather", "input": {"city": "Oslo"}},
                    {"type": "tool_use", "id": "c2", "name": "x", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": first_id,
                        "content": [{"type": "text", "text": "rain"}, image],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "content": [{"type": "text", "text": "(see attached image)"}],
                        "is_error": True,
                    },
                    error_image,
                    {"type": "text", "text": "and now?", **mark},
                ],
            },
        ],
    }
    headers = recorder.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-ant-secret", "2023-06-01")
    assert recorder.requests[0].path == "/v1/messages"


def test_another_models_thinking_and_own_blocks_stay_out(
    serve: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """C-35: what is private to one model is not shown to another."""
    recorder = Recorder()
    content = (
        ReasoningContent("secret plan", signature="sig"),
        OpaqueContent({"type": "server_tool_use", "id": "s"}),
        TextContent("done"),
    )
    other = AssistantMessage(content, api="anthropic-messages", provider="anthropic", model="another")

    ask(model(serve(recorder).url), [UserMessage("a"), other, UserMessage("b")])

    assert recorder.sent["messages"][1]["content"] == [{"type": "text", "text": "done"}]


def test_a_history_with_calls_and_no_tools_still_declares_them(
    serve: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """C-14: the API refuses tool blocks without a tool list."""
    recorder = Recorder()
    history = [
        UserMessage("a"),
        AssistantMessage((ToolCall("c1", "old_tool", {}),), stop_reason="tool_calls"),
        ToolResultMessage("c1", "old_tool", ()),
        UserMessage("b"),
    ]

    ask(model(serve(recorder).url, cache=None), history)

    assert recorder.sent["tools"] == [{"name": "old_tool", "input_schema": {"type": "object"}}]
    assert recorder.sent["tool_choice"] == {"type": "none"}
    assert "cache_control" not in json.dumps(recorder.sent)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            {"reasoning": "xhigh"},
            {"max_tokens": 33792, "thinking": {"type": "enabled", "budget_tokens": 32768}},
        ),
        ({"reasoning": "off", "max_tokens": 10}, {"max_tokens": 10, "thinking": {"type": "disabled"}}),
        ({"temperature": 0.5}, {"max_tokens": 8192, "temperature": 0.5}),
        (
            {"reasoning": "low", "thinking_budgets": {"low": 10}, "temperature": 1.0},
            {"max_tokens": 8192, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        ),
        ({"tool_choice": "required"}, {"max_tokens": 8192}),
        ({"extra_body": {"top_k": 5}}, {"max_tokens": 8192, "top_k": 5}),
    ],
)
def test_parameters_follow_the_options(
    serve: Callable[..., Any], ask: Callable[..., Any], options: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """PI-87 and PI-2.3: budgets leave room for the answer; no temperature beside thinking."""
    recorder = Recorder()

    ask(model(serve(recorder).url), want_deltas=False, **options)

    sent = {key: value for key, value in recorder.sent.items() if key not in ("model", "messages")}
    assert sent == wanted


def test_usage_and_cost_come_from_start_and_end(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """Part 7: cached tokens apart; unknown counts are None."""
    prices = {"input_price": 1.0, "output_price": 2.0, "cache_read_price": 0.1}
    llm = model(serve(Recorder()).url, info=prices)

    usage = ask(llm, want_deltas=False).message.usage

    expected = (3 * 1.0 + 2 * 2.0 + 7 * 0.1) / 1_000_000
    assert usage is not None
    assert usage.cost == pytest.approx(expected)
    assert replace(usage, cost=None) == Usage(input_tokens=3, output_tokens=2, cache_read_tokens=7)


@pytest.mark.parametrize(
    ("status", "body", "error", "kind", "retryable"),
    [
        (401, {"type": "error", "error": {"type": "authentication_error", "message": "bad x-api-key"}},
         AuthenticationFailed, "authentication", False),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
         Exception, "overloaded", True),
        (400, {"type": "error", "error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}},
         ContextOverflow, "context_overflow", False),
        (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request too large"}},
         ContextOverflow, "context_overflow", False),
    ],
)  # fmt: skip
def test_errors_have_their_class(
    serve: Callable[..., Any],
    ask: Callable[..., Any],
    status: int,
    body: dict[str, Any],
    error: type[Exception],
    kind: str,
    retryable: bool,
) -> None:
    """Part 6: by status and wording; the key shows nowhere."""
    asked = ask(model(serve(Recorder(body, status)).url))

    assert isinstance(asked.error, error)
    assert asked.error.retryable is retryable
    assert asked.error.status == status
    assert "sk-ant-secret" not in str(asked.error)
    if kind != "overloaded":
        assert asked.error.kind == kind


def test_an_error_event_beats_everything(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """B-60: a stream that ends with an error event is an error with the partial text."""
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Half"}},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)

    asked = ask(
        model(serve(lambda request: request.reply(body, headers={"Content-Type": "text/event-stream"})).url)
    )

    assert asked.message.text == "Half"
    assert asked.message.stop_reason == "error"
    assert asked.error is not None
    assert asked.error.retryable


def test_an_agent_runs_tools_with_it(serve: Callable[..., Any]) -> None:
    """The loop, the dialect and a tool together, without streaming."""
    answers = [
        {
            "type": "message",
            "content": [{"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}],
            "stop_reason": "tool_use",
        },
        ANSWER,
    ]
    server = serve(lambda request: request.reply(answers.pop(0)))
    with Agent(model(server.url), tools=[WEATHER]) as agent:
        result = agent.run("weather?", timeout=20)

    assert result.text == "Hi"
    assert [message.role for message in result.new_messages] == [
        "user",
        "assistant",
        "tool_result",
        "assistant",
    ]


def test_a_missing_key_is_said_before_anything_is_sent(ask: Callable[..., Any]) -> None:
    """Asking Anthropic without a key is pointless; the way out is in the message."""
    asked = ask(AnthropicMessages("claude-test", api_key=""))

    assert isinstance(asked.error, AuthenticationFailed)
    assert "ANTHROPIC_API_KEY" in str(asked.error)


@pytest.mark.parametrize(
    "options", [{"model": " "}, {"model": "m", "stream": "perhaps"}, {"model": "m", "cache": "1d"}]
)
def test_bad_values_are_refused_at_construction(options: dict[str, Any]) -> None:
    """Bad input names the thing and the values that are taken."""
    with pytest.raises(ConfigurationError, match="must be"):
        AnthropicMessages(**options)


STREAM = (HERE / "cases" / "bodies" / "B-56-anthropic_baseline.sse").read_text("utf-8")
EVENTS = [line.removeprefix("data: ") for line in STREAM.splitlines() if line.startswith("data: ")]


@given(st.integers(min_value=0, max_value=len(EVENTS) - 1))
def test_any_prefix_of_a_stream_is_truncated_and_runs_nothing(length: int) -> None:
    """Property: a stream is complete only with its message_stop."""
    decoder = AnthropicDecoder(
        AnswerBuilder(AssistantMessage(()), (WEATHER,), listening=True), "it", ModelInfo(id="m")
    )
    for event in EVENTS[:length]:
        decoder.feed(event)

    message, error = decoder.finish()

    assert error is not None
    assert error.kind == "stream_truncated"
    assert message.tool_calls == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "index", "delta", "content_block", "message", "usage"]), inner
        )
    ),
    max_leaves=8,
)


KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "x"]
)


@given(st.lists(st.tuples(KINDS, JSON), max_size=6))
def test_no_event_makes_the_decoder_raise(events: list[tuple[str, Any]]) -> None:
    """Property: whatever a provider sends ends as a message or an LlmError."""
    decoder = AnthropicDecoder(
        AnswerBuilder(AssistantMessage(()), (), listening=True), "it", ModelInfo(id="m")
    )
    for kind, value in events:
        data = {**value, "type": kind} if isinstance(value, dict) else value
        if decoder.feed(json.dumps(data)):
            break

    message, _ = decoder.finish()

    assert isinstance(message, AssistantMessage)
