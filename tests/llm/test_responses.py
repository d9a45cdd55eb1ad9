"""OpenAI's Responses dialect over real loopback HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent import Agent
from yiemagent.errors import ConfigurationError, ContextOverflow, RateLimited
from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.providers import model_from_string
from yiemagent.llm.responses import OpenAIResponses
from yiemagent.llm.responses_decode import ResponsesDecoder
from yiemagent.messages import (
    AssistantMessage,
    ImageContent,
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

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Think."}],
    "encrypted_content": "gAAA",
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"city": "Oslo"}',
    "status": "completed",
}
TEXT = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Sunny.", "annotations": []}],
}
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
}
WEATHER = Tool(
    name="get_weather",
    description="Weather.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}},
    execute=lambda *a: "sun",
)


def whole(*items: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """A whole response with *items* as its output."""
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "output": list(items),
        "usage": USAGE,
        **more,
    }


def events_of(*items: dict[str, Any]) -> list[dict[str, Any]]:
    """The events that stream *items*, as the API sends them."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1"}}]
    for index, item in enumerate(items):
        begun = {**item, "content": [], "summary": [], "arguments": ""}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        where = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            for piece in ("Sun", "ny."):
                events.append(
                    {"type": "response.output_text.delta", "content_index": 0, "delta": piece, **where}
                )
        elif item["type"] == "reasoning":
            events.append(
                {
                    "type": "response.reasoning_summary_text.delta",
                    "summary_index": 0,
                    "delta": "Think.",
                    **where,
                }
            )
        else:
            for piece in ('{"city"', ': "Oslo"}'):
                events.append({"type": "response.function_call_arguments.delta", "delta": piece, **where})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole(*items)})
    return events


def sse(events: list[dict[str, Any]]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


class Recorder:
    """Answers with the given bodies in turn (the last one again and again), and keeps requests."""

    def __init__(self, *bodies: Any, status: int = 200) -> None:
        self.bodies, self.status = list(bodies), status
        self.requests: list[ServedRequest] = []

    def __call__(self, request: ServedRequest) -> None:
        self.requests.append(request)
        body = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        kind = "text/event-stream" if isinstance(body, str) else "application/json"
        request.reply(body, self.status, {"Content-Type": kind})

    @property
    def sent(self) -> Any:
        return self.requests[-1].json


def model(url: str, **options: Any) -> OpenAIResponses:
    return OpenAIResponses("gpt-test", f"{url}/v1", "sk-secret", max_retries=0, **options)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_an_answer_is_the_same_streamed_and_whole(
    serve: Callable[..., Any], ask: Callable[..., Any], streamed: bool
) -> None:
    """Reasoning, text and a call, in the order of the items; usage with its details."""
    items = (REASONING, TEXT, CALL)
    recorder = Recorder(sse(events_of(*items)) if streamed else whole(*items))

    asked = ask(model(serve(recorder).url), tools=(WEATHER,), want_deltas=streamed)

    message = asked.message
    assert asked.error is None
    assert [block.type for block in message.content] == ["reasoning", "text", "tool_call"]
    assert (message.reasoning, message.text) == ("Think.", "Sunny.")
    assert (message.tool_calls[0].id, dict(message.tool_calls[0].arguments)) == ("call_1", {"city": "Oslo"})
    assert message.stop_reason == "tool_calls"
    assert message.response_id == "resp_1"
    assert message.usage == Usage(input_tokens=6, output_tokens=7, cache_read_tokens=4, reasoning_tokens=5)
    assert bool(recorder.sent.get("stream")) is streamed


def test_the_deltas_add_up_to_the_answer(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """Event grammar: each block has its start, deltas and end."""
    asked = ask(model(serve(Recorder(sse(events_of(REASONING, TEXT, CALL)))).url), tools=(WEATHER,))

    assert asked.types == [
        "start",
        "reasoning_start", "reasoning_delta",
        "text_start", "text_delta", "text_delta",
        "tool_call_start", "tool_call_delta", "tool_call_delta",
        "reasoning_end", "text_end", "tool_call_end",
        "done",
    ]  # fmt: skip


def test_reasoning_and_item_ids_go_back_to_the_same_model_only(
    serve: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """Part 2: reasoning items are replayed encrypted; another model gets only what was said."""
    recorder = Recorder(whole(REASONING, TEXT, CALL))
    server = serve(recorder)
    answer = ask(model(server.url), tools=(WEATHER,), want_deltas=False).message
    history = [
        UserMessage("weather?"),
        answer,
        ToolResultMessage("call_1", "get_weather", (TextContent("sun"),)),
    ]

    ask(model(server.url), history, tools=(WEATHER,), want_deltas=False)
    same = recorder.sent["input"]
    ask(OpenAIResponses("another", f"{server.url}/v1", "k"), history, tools=(WEATHER,), want_deltas=False)
    other = recorder.sent["input"]

    output_text = [{"type": "output_text", "text": "Sunny."}]
    said = {"type": "message", "role": "assistant", "content": output_text}
    call = {
        "type": "function_call",
        "call_id": "call_1",
        "name": "get_weather",
        "arguments": '{"city":"Oslo"}',
    }
    result = {"type": "function_call_output", "call_id": "call_1", "output": "sun"}
    user = {"role": "user", "content": [{"type": "input_text", "text": "weather?"}]}
    assert same == [user, REASONING, said, {**call, "id": "fc_1"}, result]
    assert other == [user, said, call, result]


def test_the_whole_request_is_as_the_api_wants_it(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """Golden payload: nothing stored, strictness off, images in prompts and results."""
    recorder = Recorder(whole(TEXT))
    history = [
        UserMessage((TextContent("look"), ImageContent("aWk=", "image/png"))),
        AssistantMessage((ToolCall("c1", "get_weather", {}),), stop_reason="tool_calls"),
        ToolResultMessage("c1", "get_weather", (TextContent("a"), ImageContent(url="https://x/y.png"))),
    ]

    ask(
        model(serve(recorder).url),
        history,
        tools=(WEATHER,),
        system_prompt="Terse.",
        want_deltas=False,
        reasoning="high",
        max_tokens=99,
        temperature=0.5,
        tool_choice="get_weather",
    )

    assert recorder.requests[0].path == "/v1/responses"
    assert recorder.requests[0].headers["authorization"] == "Bearer sk-secret"
    assert recorder.sent == {
        "model": "gpt-test",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Terse.",
        "max_output_tokens": 99,
        "temperature": 0.5,
        "reasoning": {"effort": "high", "summary": "auto"},
        "tool_choice": {"type": "function", "name": "get_weather"},
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "description": "Weather.",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
                "strict": False,
            }
        ],
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": "data:image/png;base64,aWk="},
                ],
            },
            {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [
                    {"type": "input_text", "text": "a"},
                    {"type": "input_image", "image_url": "https://x/y.png"},
                ],
            },
        ],
    }


def test_a_refusal_is_a_refusal_and_not_an_answer(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """A-41 in this dialect."""
    item = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "I cannot."}]}

    asked = ask(model(serve(Recorder(whole(item))).url), want_deltas=False)

    assert asked.error is None
    assert (asked.message.stop_reason, asked.message.refusal, asked.message.text) == (
        "refusal",
        "I cannot.",
        "",
    )


def test_an_incomplete_answer_runs_no_call(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """A-66 in this dialect: the output limit was reached."""
    body = whole(CALL, status="incomplete", incomplete_details={"reason": "max_output_tokens"})

    message = ask(model(serve(Recorder(body)).url), tools=(WEATHER,), want_deltas=False).message

    assert message.stop_reason == "length"
    assert message.tool_calls[0].arguments_error is not None


def test_calls_that_cannot_be_told_apart_are_an_error(
    serve: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """Two calls, and argument pieces without index and id: mixing them would be worse."""
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**CALL, "id": "fc_2", "arguments": ""},
        },
        {"type": "response.function_call_arguments.delta", "delta": "{"},
    ]

    asked = ask(model(serve(Recorder(sse(events))).url), tools=(WEATHER,))

    assert asked.error is not None
    assert asked.error.kind == "invalid_response"
    assert asked.message.tool_calls == ()


def test_a_single_call_without_index_is_read(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """Some servers leave the index out; with one call there is nothing to mix."""
    events = [
        {"type": "response.output_item.added", "item": {**CALL, "id": None, "call_id": "c", "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "delta": '{"city": "Oslo"}'},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    ]

    message = ask(model(serve(Recorder(sse(events))).url), tools=(WEATHER,)).message

    assert [dict(call.arguments) for call in message.tool_calls] == [{"city": "Oslo"}]


def test_an_answer_that_only_the_last_event_holds_is_read(
    serve: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """Proxies that send no item events."""
    events = [{"type": "response.completed", "response": whole(TEXT, CALL)}]

    message = ask(model(serve(Recorder(sse(events))).url), tools=(WEATHER,)).message

    assert message.text == "Sunny."
    assert [call.id for call in message.tool_calls] == ["call_1"]


@pytest.mark.parametrize(
    ("events", "error", "retryable"),
    [
        ([{"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}], RateLimited, True),
        (
            [
                {
                    "type": "response.failed",
                    "response": {
                        "status": "failed",
                        "error": {
                            "code": "context_length_exceeded",
                            "message": "Your input exceeds the context window",
                        },
                    },
                }
            ],
            ContextOverflow,
            False,
        ),
    ],
    ids=["error event", "failed response"],
)
def test_an_error_in_the_stream_is_an_error(
    serve: Callable[..., Any],
    ask: Callable[..., Any],
    events: list[dict[str, Any]],
    error: type[Exception],
    retryable: bool,
) -> None:
    """B-34, B-60 in this dialect."""
    asked = ask(model(serve(Recorder(sse([*events_of(TEXT)[:3], *events]))).url))

    assert isinstance(asked.error, error)
    assert asked.error.retryable is retryable
    assert asked.message.text == "Sun"


def test_an_agent_runs_tools_with_it(serve: Callable[..., Any]) -> None:
    """The loop, the dialect and a tool together."""
    recorder = Recorder(whole(REASONING, CALL), whole(TEXT))
    with Agent(model(serve(recorder).url), tools=[WEATHER], thinking_level="low") as agent:
        assert agent.run("weather?", timeout=20).text == "Sunny."

    assert recorder.sent["input"][1] == REASONING


def test_the_provider_string_names_it() -> None:
    """``openai-responses:MODEL``."""
    llm = model_from_string("openai-responses:gpt-5", api_key="k")

    assert isinstance(llm, OpenAIResponses)
    assert (llm.info.provider, llm.info.api) == ("openai", "openai-responses")


@pytest.mark.parametrize(
    "options", [{"model": ""}, {"model": "m", "stream": 3}, {"model": "m", "tiemout": 3}]
)
def test_bad_values_are_refused_at_construction(options: dict[str, Any]) -> None:
    """Bad input names the thing."""
    with pytest.raises(ConfigurationError, match=r"must be|did you mean"):
        OpenAIResponses(**options)


EVENTS = [json.dumps(event) for event in events_of(REASONING, TEXT, CALL)]


def decoder() -> ResponsesDecoder:
    builder = AnswerBuilder(AssistantMessage(()), (WEATHER,), listening=True)
    return ResponsesDecoder(builder, "it", ModelInfo(id="m"))


@given(st.integers(min_value=0, max_value=len(EVENTS) - 1))
def test_any_prefix_of_a_stream_is_truncated_and_runs_nothing(length: int) -> None:
    """Property: a stream is complete only with its terminal event."""
    reader = decoder()
    for event in EVENTS[:length]:
        reader.feed(event)

    message, error = reader.finish()

    assert error is not None
    assert error.kind == "stream_truncated"
    assert message.tool_calls == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["item", "response", "output", "delta", "output_index", "type"]), inner
        )
    ),
    max_leaves=8,
)
KINDS = st.sampled_from([json.loads(event)["type"] for event in EVENTS] + ["x"])


@given(st.lists(st.tuples(KINDS, JSON), max_size=6))
def test_no_event_makes_the_decoder_raise(events: list[tuple[str, Any]]) -> None:
    """Property: whatever a provider sends ends as a message or an LlmError."""
    reader = decoder()
    for kind, value in events:
        data = {**value, "type": kind} if isinstance(value, dict) else value
        if reader.feed(json.dumps(data)):
            break

    message, _ = reader.finish()

    assert isinstance(message, AssistantMessage)
    assert all(
        isinstance(block, (TextContent, ReasoningContent, ToolCall)) or block for block in message.content
    )
