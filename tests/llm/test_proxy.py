"""The SSE proxy client over real loopback HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.abort import AbortSignal
from yiemagent.errors import ConnectionFailed
from yiemagent.llm.proxy import ProxyModel
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
from yiemagent.testing import Gate, run_in_thread
from yiemagent.testing.loopback import ServedRequest
from yiemagent.tools.tool import Tool

WEATHER = Tool(name="get_weather", description="Weather.", execute=lambda *a: "sun")
USAGE = {"input": 3, "output": 2, "cacheRead": 1, "totalTokens": 6}
ANSWER: list[dict[str, Any]] = [
    {"type": "start"},
    {"type": "thinking_start", "contentIndex": 0},
    {"type": "thinking_delta", "contentIndex": 0, "delta": "hm"},
    {"type": "thinking_end", "contentIndex": 0, "contentSignature": "sig"},
    {"type": "text_start", "contentIndex": 1},
    {"type": "text_delta", "contentIndex": 1, "delta": "Let "},
    {"type": "text_delta", "contentIndex": 1, "delta": "me."},
    {"type": "text_end", "contentIndex": 1},
    {"type": "toolcall_start", "contentIndex": 3, "id": "c1", "toolName": "get_weather"},
    {"type": "toolcall_delta", "contentIndex": 3, "delta": '{"city": '},
    {"type": "toolcall_delta", "contentIndex": 3, "delta": '"Oslo"}'},
    {"type": "toolcall_end", "contentIndex": 3},
    {"type": "done", "reason": "toolUse", "usage": USAGE},
]


def body_of(events: list[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


class Proxy:
    """Answers with *events* in pieces of *size* bytes, and keeps the requests."""

    def __init__(self, *answers: list[dict[str, Any]], size: int = 10_000) -> None:
        self.answers, self.size = list(answers), size
        self.requests: list[ServedRequest] = []

    def __call__(self, request: ServedRequest) -> None:
        self.requests.append(request)
        body = body_of(self.answers.pop(0))
        request.start(200, {"Content-Type": "text/event-stream"})
        for at in range(0, len(body), self.size):
            request.chunk(body[at : at + self.size])
        request.chunk(b"")


def model(url: str, **options: Any) -> ProxyModel:
    return ProxyModel("claude", url, "proxy-token", provider="anthropic", max_retries=0, **options)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_the_answer_is_put_together_whatever_the_pieces(
    serve: Callable[..., Any], ask: Callable[..., Any], size: int
) -> None:
    """PX-3, T227: events split at any byte, several in one chunk, give the same message."""
    asked = ask(model(serve(Proxy(ANSWER, size=size)).url), tools=(WEATHER,))

    assert asked.error is None
    assert asked.message.content == (
        ReasoningContent("hm", signature="sig"),
        TextContent("Let me."),
        ToolCall("c1", "get_weather", {"city": "Oslo"}),
    )
    assert asked.message.stop_reason == "tool_calls"
    assert asked.message.usage == Usage(input_tokens=3, output_tokens=2, cache_read_tokens=1)


def test_the_request_is_in_camel_case_and_says_what_is_trusted(
    serve: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """PX-1: path, bearer token, stop reason redirected as stop, trust."""
    proxy = Proxy(ANSWER)
    history = [
        UserMessage((TextContent("look"), ImageContent("aWk=", "image/png")), timestamp=1.5),
        AssistantMessage(
            (TextContent("x"), ToolCall("c1", "t", {"a": 1})), timestamp=2.0, stop_reason="tool_calls"
        ),
        ToolResultMessage("c1", "t", (TextContent("web"),), trust="untrusted", timestamp=3.0),
        AssistantMessage((TextContent("y"),), timestamp=4.0, stop_reason="redirected"),
        UserMessage("go", timestamp=5.0),  # type: ignore[arg-type]
    ]

    ask(
        model(serve(proxy).url, temperature=0.2),
        history,
        tools=(WEATHER,),
        system_prompt="Terse.",
        reasoning="low",
        max_tokens=9,
    )

    request = proxy.requests[0]
    named = {"role": "assistant", "api": "", "provider": "", "model": ""}
    assert request.path == "/api/stream"
    assert request.headers["authorization"] == "Bearer proxy-token"
    assert request.json == {
        "model": {"id": "claude", "provider": "anthropic"},
        "options": {"temperature": 0.2, "maxTokens": 9, "reasoning": "low"},
        "context": {
            "systemPrompt": "Terse.",
            "tools": [
                {
                    "name": "get_weather",
                    "description": "Weather.",
                    "parameters": {"type": "object", "properties": {}},
                }
            ],
            "messages": [
                {
                    "role": "user",
                    "timestamp": 1500,
                    "content": [
                        {"type": "text", "text": "look"},
                        {"type": "image", "data": "aWk=", "mimeType": "image/png"},
                    ],
                },
                {
                    **named,
                    "timestamp": 2000,
                    "stopReason": "toolUse",
                    "content": [
                        {"type": "text", "text": "x"},
                        {"type": "toolCall", "id": "c1", "name": "t", "arguments": {"a": 1}},
                    ],
                },
                {
                    "role": "toolResult",
                    "timestamp": 3000,
                    "toolCallId": "c1",
                    "toolName": "t",
                    "isError": False,
                    "trust": "untrusted",
                    "content": [{"type": "text", "text": "web"}],
                },
                {
                    **named,
                    "timestamp": 4000,
                    "stopReason": "stop",
                    "content": [{"type": "text", "text": "y"}],
                },
                {"role": "user", "timestamp": 5000, "content": [{"type": "text", "text": "go"}]},
            ],
        },
    }


def test_lines_that_say_nothing_are_ignored(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """PX-2: no space after the colon, blank data, bad JSON, unknown types, missing fields."""
    noise = b'data:\n\ndata: {broken\n\ndata: {"type":"news"}\n\ndata: {"type":"text_delta"}\n\nnonsense\n\n'
    body = b"data:" + body_of(ANSWER).removeprefix(b"data: ") + noise
    start, _, rest = body.partition(b"\n\n")

    asked = ask(
        model(
            serve(
                lambda r: r.reply(
                    start + b"\n\n" + noise + rest, headers={"Content-Type": "text/event-stream"}
                )
            ).url
        ),
        tools=(WEATHER,),
    )

    assert asked.message.text == "Let me."


def test_missing_usage_is_unknown_and_an_unknown_reason_is_stop(
    serve: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """T229, as amended: counts that were not given are None."""
    events = [{"type": "text_delta", "contentIndex": 0, "delta": "Hi"}, {"type": "done", "reason": "because"}]

    message = ask(model(serve(Proxy(events)).url)).message

    assert (message.text, message.stop_reason, message.usage) == ("Hi", "stop", None)


def test_arguments_that_do_not_parse_are_an_error_and_not_repaired(
    serve: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """T228 is overridden: half an object is never completed and run."""
    events = [*ANSWER[8:10], {"type": "done", "reason": "toolUse"}]

    calls = ask(model(serve(Proxy(events)).url), tools=(WEATHER,)).message.tool_calls

    assert calls[0].arguments_error is not None
    assert calls[0].arguments == {}


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (500, {"error": "no credit left at the proxy"}, "no credit left"),
        (502, "upstream is gone", "upstream is gone"),
    ],
)
def test_a_refusal_of_the_proxy_is_said_in_its_words(
    serve: Callable[..., Any], ask: Callable[..., Any], status: int, body: Any, said: str
) -> None:
    """PX-6."""
    asked = ask(model(serve(lambda request: request.reply(body, status)).url))

    assert asked.error is not None
    assert said in str(asked.error)
    assert "Proxy" in str(asked.error)
    assert "proxy-token" not in str(asked.error)


def test_an_error_event_is_an_error_with_what_came_before(
    serve: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """PX-3: reason error."""
    events = [*ANSWER[:7], {"type": "error", "reason": "error", "errorMessage": "Overloaded", "usage": USAGE}]

    asked = ask(model(serve(Proxy(events)).url))

    assert asked.message.text == "Let me."
    assert "Overloaded" in str(asked.error)


def test_a_stream_without_done_is_truncated(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """H13: the consumer is not left waiting, and no call of it runs."""
    asked = ask(model(serve(Proxy(ANSWER[:-1])).url), tools=(WEATHER,))

    assert asked.error is not None
    assert asked.error.kind == "stream_truncated"
    assert asked.message.tool_calls == ()


def test_no_proxy_at_all_is_a_connection_error(ask: Callable[..., Any]) -> None:
    """PX-6."""
    asked = ask(model("http://127.0.0.1:9"))

    assert isinstance(asked.error, ConnectionFailed)


def test_an_abort_ends_a_silent_proxy(serve: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """PX-7, T230: the call returns while the proxy still says nothing."""
    gate = Gate()
    signal = AbortSignal()
    server = serve(lambda request: gate.block())
    outcome = run_in_thread(ask, model(server.url), signal=signal)
    gate.wait_entered()

    signal.abort()

    assert outcome.get().message.stop_reason == "aborted"
    gate.open()


def test_an_agent_runs_tools_through_the_proxy(serve: Callable[..., Any]) -> None:
    """The loop, the proxy and a tool together."""
    last = [{"type": "text_delta", "contentIndex": 0, "delta": "Done."}, {"type": "done", "reason": "stop"}]
    with Agent(model(serve(Proxy(ANSWER, last)).url), tools=[WEATHER]) as agent:
        assert agent.run("weather?", timeout=20).text == "Done."
