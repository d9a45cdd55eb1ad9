"""Answers that no recorded body shows: the rules hold for them too."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.messages import ReasoningContent, TextContent, ToolCall
from yiemagent.testing.loopback import ServedRequest
from yiemagent.tools.tool import Tool

TOOLS = [Tool(name="weather", execute=lambda *a: None), Tool(name="health", execute=lambda *a: None)]
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"a": 1}'}}


@pytest.fixture
def decode(chat: Callable[..., Any], ask: Callable[..., Any]) -> Callable[..., Any]:
    """What comes of a message, or of the deltas of a stream."""

    def once(
        *deltas: Any, finish: Any = "stop", whole: bool = False, listening: bool = True, **more: Any
    ) -> Any:
        def handler(request: ServedRequest) -> None:
            if whole:
                [message] = deltas
                request.reply({"choices": [{"message": message, "finish_reason": finish}], **more})
                return
            chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
            chunks.append({"choices": [{"delta": {}, "finish_reason": finish}], **more})
            request.stream([f"data: {json.dumps(one)}\n\n" for one in chunks] + ["data: [DONE]\n\n"])

        llm, _ = chat(handler)
        return ask(llm, tools=TOOLS, want_deltas=listening)

    return once


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"function_call": {"name": "weather", "arguments": '{"a": 1}'}}, [("weather", {"a": 1})]),
        (
            {"tool_calls": [CALL], "function_call": {"name": "weather", "arguments": "{}"}},
            [("weather", {"a": 1})],
        ),
        ({"tool_calls": CALL}, [("weather", {"a": 1})]),
        ({"tool_calls": [CALL, CALL]}, [("weather", {"a": 1})]),
        ({"tool_calls": [{**CALL, "custom": {}}]}, [("weather", {"a": 1})]),
        ({"tool_calls": [{"id": "c1", "function": {"name": "health"}}]}, [("health", {})]),
        ({"tool_calls": [{**CALL, "index": "0"}]}, [("weather", {"a": 1})]),
    ],
)
def test_a_call_is_read_from_where_it_is(
    decode: Callable[..., Any], message: Any, content: Any, whole: bool
) -> None:
    """A-29, A-85, PI-2.2; the same in a stream and in one piece."""
    calls = decode(message, whole=whole, finish="tool_calls").message.tool_calls

    assert [(call.name, dict(call.arguments)) for call in calls] == content


@pytest.mark.parametrize(
    ("calls", "warning"),
    [
        ([CALL, "nonsense"], "ignored_tool_call"),
        ([CALL, {"id": "c2", "type": "custom", "custom": {"name": "x", "input": "y"}}], "ignored_tool_call"),
        ([CALL, {"function": {"arguments": ""}, "index": 5}], "empty_tool_call_ignored"),
        ([CALL, CALL], "repeated_tool_call_ignored"),
    ],
)
def test_what_is_no_call_is_read_past(decode: Callable[..., Any], calls: Any, warning: str) -> None:
    """With a warning, and the others are kept."""
    message = decode({"tool_calls": calls}, whole=True, finish="tool_calls").message

    assert len(message.tool_calls) == 1
    assert warning in message.warnings


def test_a_call_without_a_name_is_kept_for_the_model_to_read_about(decode: Callable[..., Any]) -> None:
    """The loop answers it with an error result, so that the model can do better."""
    message = decode({"tool_calls": [{"id": "c1", "function": {"arguments": "{}"}}]}, whole=True).message

    assert message.tool_calls[0].name == ""
    assert "tool_call_without_name" in message.warnings


def test_the_order_of_blocks_is_that_of_their_first_appearance(decode: Callable[..., Any]) -> None:
    """Text and calls may be interleaved; all text is one block (PI-2.2)."""
    piece = {"index": 0, "id": "c1", "function": {"name": "weather", "arguments": '{"a"'}}
    rest = {"index": 0, "function": {"arguments": ": 1}"}}
    asked = decode(
        {"content": "one "},
        {"tool_calls": [piece]},
        {"content": "two", "reasoning": "hm"},
        {"tool_calls": [rest]},
        finish="tool_calls",
    )

    assert asked.message.content == (
        TextContent("one two"),
        ToolCall("c1", "weather", {"a": 1}),
        ReasoningContent("hm", extra={"field": "reasoning"}),
    )
    assert asked.types == [
        *["start", "text_start", "text_delta", "tool_call_start", "tool_call_delta"],
        *["reasoning_start", "reasoning_delta", "text_delta", "tool_call_delta"],
        *["text_end", "tool_call_end", "reasoning_end", "done"],
    ]


def test_reasoning_details_are_kept_verbatim_and_merged(decode: Callable[..., Any]) -> None:
    """PI-2.2: in order, continued items grow; their text is the reasoning."""
    asked = decode(
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "one "}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "two", "signature": "s"}]},
        {"reasoning_details": {"type": "reasoning.encrypted", "index": 1, "data": "x"}},
        {"content": "ok"},
    )

    assert asked.message.reasoning == "one two"
    assert asked.message.extra == {
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "one two", "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "x"},
        ]
    }


@pytest.mark.parametrize(
    ("finish", "stop", "warnings"),
    [
        ("stop", "stop", ()),
        ("STOP", "stop", ()),
        ("end_turn", "stop", ()),
        ("eos", "stop", ()),
        ("length", "length", ()),
        ("MAX_TOKENS", "length", ()),
        ("model_length", "length", ()),
        ("content_filter", "refusal", ()),
        ("SAFETY", "refusal", ()),
        ("something new", "stop", ("unknown_finish_reason",)),
        (7, "stop", ("unknown_finish_reason",)),
    ],
)
def test_finish_reasons_are_read_in_their_spellings(
    decode: Callable[..., Any], finish: Any, stop: str, warnings: Any
) -> None:
    """Decoding rule 9: unknown ones are kept raw."""
    message = decode({"content": "text"}, finish=finish).message

    assert (message.stop_reason, message.finish_reason, message.warnings) == (stop, str(finish), warnings)


@pytest.mark.parametrize("finish", ["error", "network_error"])
def test_an_error_as_finish_reason_is_a_failure(decode: Callable[..., Any], finish: str) -> None:
    """PI-2.2: the partial text is attached."""
    asked = decode({"content": "half"}, finish=finish)

    assert (asked.error.kind, asked.error.retryable) == ("provider_error", True)
    assert asked.message.text == "half"


def test_a_refusal_runs_no_call(decode: Callable[..., Any]) -> None:
    """Decoding rule 9: refusal and content filter are final."""
    refused = decode({"refusal": "I will ", "tool_calls": [CALL]}, {"refusal": "not"}, finish="tool_calls")
    filtered = decode({"content": "half", "tool_calls": [CALL]}, finish="content_filter")

    assert (refused.message.refusal, refused.error) == ("I will not", None)
    assert (filtered.message.text, filtered.error) == ("half", None)
    for message in (refused.message, filtered.message):
        assert (message.stop_reason, message.tool_calls) == ("refusal", ())
        assert "tool_calls_of_refusal_dropped" in message.warnings


def test_a_length_that_was_announced_is_not_taken_back(
    chat: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """B-47: a later ``tool_calls`` does not make a cut call run."""
    chunks = [
        {"choices": [{"delta": {"tool_calls": [{"index": 0, **CALL}]}, "finish_reason": "length"}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ]
    llm, _ = chat(lambda request: request.stream([f"data: {json.dumps(one)}\n\n" for one in chunks]))

    message = ask(llm, tools=TOOLS).message

    assert message.stop_reason == "length"
    assert message.tool_calls[0].arguments_error.startswith("truncated")


def test_a_stream_of_one_whole_message_is_read(decode: Callable[..., Any]) -> None:
    """Some servers put ``message`` into a chunk; one that repeats what was streamed is not added."""
    asked = decode({"content": "Hi"}, choices=[{"message": {"content": "Hi"}, "finish_reason": "stop"}])

    assert asked.message.text == "Hi"


@pytest.mark.parametrize("listening", [True, False])
def test_only_the_first_of_several_choices_is_read(
    chat: Callable[..., Any], ask: Callable[..., Any], listening: bool
) -> None:
    """A-64 in a stream."""

    def choice(index: int, text: str) -> dict[str, Any]:
        return {"index": index, "delta": {"content": text}, "finish_reason": None}

    chunks = [
        {"choices": [choice(1, "no")]},
        {"choices": [choice(1, "no"), choice(0, "yes")]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    llm, _ = chat(
        lambda request: request.stream([f"data: {json.dumps(one)}\n\n" for one in chunks]), stream=True
    )

    assert ask(llm, want_deltas=listening).message.text == "yes"


def test_usage_may_stand_beside_the_choice(chat: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """PI-2.2: Moonshot puts it there."""
    choice = {"delta": {"content": "x"}, "finish_reason": "stop", "usage": {"prompt_tokens": 3}}
    llm, _ = chat(lambda request: request.stream([f"data: {json.dumps({'choices': [choice]})}\n\n"]))

    assert ask(llm).message.usage.input_tokens == 3


@pytest.mark.parametrize(
    "data",
    [
        '{"message": "overloaded", "type": "overloaded_error"}',
        '{"error": {"message": "overloaded"}}',
        '{"error": "overloaded"}',
    ],
)
def test_an_error_event_is_an_error(chat: Callable[..., Any], ask: Callable[..., Any], data: str) -> None:
    """B-34: named so by the event or by its data."""
    llm, _ = chat(lambda request: request.stream([f"event: error\ndata: {data}\n\n"]))

    asked = ask(llm)

    assert asked.error.retryable
    assert "overloaded" in str(asked.error)


@pytest.mark.parametrize("data", ["null", "[1]", "7", '"text"', "nonsense", ": ping", "{broken"])
def test_data_that_is_no_chunk_is_read_past(
    chat: Callable[..., Any], ask: Callable[..., Any], data: str
) -> None:
    """B-24; a stream without an end is truncated all the same."""
    good = 'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
    llm, server = chat(lambda request: request.stream([f"data: {data}\n\n", good]))

    assert ask(llm).message.text == "Hi"
    server.handler = lambda request: request.stream([f"data: {data}\n\n"])
    assert ask(llm).error.kind == "stream_truncated"


def test_parts_of_a_thinking_answer_go_back_as_they_came(
    chat: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """A-32: flattened text would duplicate the answer."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]
    body = {"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    llm, server = chat(lambda request: request.reply(body))
    answer = ask(llm, want_deltas=False).message

    ask(llm, [*([answer])], want_deltas=False)

    assert server.requests[1].json["messages"] == [{"role": "assistant", "content": parts}]


def test_an_error_event_in_plain_words_is_the_error(
    chat: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """B-24 rule: gateways say ``event: error`` with a sentence; it is what the user must read."""

    def handler(request: ServedRequest) -> None:
        request.stream(
            ['data: {"choices": [{"delta": {"content": "Ba"}}]}\n\n', "event: error\ndata: upstream died\n\n"]
        )

    asked = ask(chat(handler)[0])

    assert "upstream died" in str(asked.error)
    assert asked.error.partial.text == "Ba"


def test_a_key_of_a_letter_does_not_blot_out_the_error(
    chat: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """Local servers are asked with keys such as ``x``; a message must stay readable."""

    def handler(request: ServedRequest) -> None:
        request.reply({"error": {"message": "no such key as k1234567"}}, status=401)

    short, long = (ask(chat(handler, api_key=key)[0]) for key in ("k", "k1234567"))

    assert str(short.error).endswith("no such key as k1234567 (check api_key)")
    assert str(long.error).endswith("no such key as *** (check api_key)")
