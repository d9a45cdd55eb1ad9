"""Messages are frozen data, and round-trip through dicts and JSON unchanged."""

from __future__ import annotations

import copy
import pickle
import time
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.errors import ConfigurationError
from yiemagent.message_formats import (
    message_from_dict,
    message_from_openai,
    message_to_dict,
    message_to_openai,
    messages_from_json,
    messages_to_json,
)
from yiemagent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

CALL = ToolCall(
    "c1", "search", {"query": "oak", "deep": {"list": [1, 2.5, None, True, "é"]}}, extra={"sig": "x"}
)

SAMPLES: list[Message] = [
    UserMessage("hi"),  # type: ignore[arg-type]
    UserMessage(
        (TextContent("look"), ImageContent("aGk=", "image/jpeg"), ImageContent(url="https://x/y.png"))
    ),
    AssistantMessage(
        (ReasoningContent("hm", signature="s", redacted=True), TextContent("a", extra={"k": 1}), CALL),
        stop_reason="tool_calls",
        usage=Usage(input_tokens=3, output_tokens=4, cost=0.25),
        api="openai-chat",
        provider="p",
        model="m",
        response_id="r1",
        finish_reason="tool_calls",
        warnings=("odd",),
        extra={"e": [1]},
    ),
    AssistantMessage((), stop_reason="error", error_message="no", error_kind="rate_limit", refusal="nope"),
    AssistantMessage((OpaqueContent({"type": "server_tool"}),)),
    AssistantMessage((ToolCall("c2", "x", {}, arguments_error="no JSON", raw_arguments="{"),)),
    ToolResultMessage(
        "c1",
        "search",
        (TextContent("found"), ImageContent("aGk=")),
        details={"error_type": "blocked", "n": 1},
        usage=Usage(output_tokens=1),
        is_error=True,
        trust="untrusted",
        added_tool_names=("more",),
    ),
    CustomMessage("note", {"any": ["thing"]}),
]


# -- data --------------------------------------------------------------------------------


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: message.role)
def test_a_message_cannot_be_changed(message: Message) -> None:
    """C-37: what a hook holds stays what it was."""
    with pytest.raises(FrozenInstanceError):
        message.content = ()  # type: ignore[misc]


def test_text_becomes_one_text_block() -> None:
    """T5."""
    message = UserMessage("x")  # type: ignore[arg-type]

    assert message.content == (TextContent("x"),)
    assert message.text == "x"
    assert abs(message.timestamp - time.time()) < 60


def test_a_list_of_blocks_is_kept_as_a_tuple() -> None:
    """C-37: the caller's list is not shared."""
    blocks = [TextContent("a")]
    message = UserMessage(blocks)  # type: ignore[arg-type]
    blocks.append(TextContent("b"))

    assert message.content == (TextContent("a"),)


def test_text_and_reasoning_are_apart() -> None:
    """A-34: reasoning is never part of the answer."""
    message = AssistantMessage((ReasoningContent("thought"), TextContent("a"), CALL, TextContent("b")))

    assert (message.text, message.reasoning, message.tool_calls) == ("ab", "thought", (CALL,))


def test_usage_adds_up_what_is_known() -> None:
    """PI-90: None is not zero."""
    total = Usage(input_tokens=1, cost=0.5) + Usage(input_tokens=2, cache_read_tokens=4)

    assert total == Usage(input_tokens=3, cache_read_tokens=4, cost=0.5)
    assert total.total_tokens == 7
    assert Usage().total_tokens is None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: message.role)
def test_messages_can_be_copied_and_pickled(message: Message, copied: Any) -> None:
    """D-32: a history crosses process borders."""
    assert copied(message) == message


# -- dicts and JSON ----------------------------------------------------------------------


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: message.role)
def test_a_message_comes_back_from_its_dict(message: Message) -> None:
    """T59: whatever it holds."""
    assert message_from_dict(message_to_dict(message)) == message


def test_a_transcript_comes_back_from_json() -> None:
    """T59, D-32: pure ASCII, so that any encoding carries it."""
    text = messages_to_json(SAMPLES)

    assert text.isascii()
    assert messages_from_json(text) == SAMPLES


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=10,
)


@given(text=st.text(), arguments=st.dictionaries(st.text(), json_values, max_size=4), details=json_values)
def test_any_text_and_any_arguments_come_back_from_json(
    text: str, arguments: dict[str, Any], details: Any
) -> None:
    """T59: properties."""
    messages: list[Message] = [
        UserMessage((TextContent(text),)),
        AssistantMessage((TextContent(text), ToolCall("c", "t", arguments))),
        ToolResultMessage("c", "t", (TextContent(text),), details=details),
    ]

    assert messages_from_json(messages_to_json(messages)) == messages


def test_lone_surrogates_come_back_from_json() -> None:
    """C-27: a file name read with surrogateescape."""
    message = UserMessage("a\udc97b\ud800")  # type: ignore[arg-type]

    assert messages_from_json(messages_to_json([message])) == [message]


def test_details_that_compare_oddly_are_kept() -> None:
    """D-29: arrays answer == with an array."""

    class Array:
        def __eq__(self, other: object) -> Any:
            return [True]

        def __bool__(self) -> bool:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    details = Array()
    data = message_to_dict(ToolResultMessage("c", "t", (), details=details))

    assert data["details"] is details


@pytest.mark.parametrize("role", ["toolResult", "tool", "tool_result"])
def test_readers_take_every_role_of_a_tool_result(role: str) -> None:
    """Decision 30."""
    data = {"role": role, "tool_call_id": "c", "tool_name": "t", "content": [], "timestamp": 1.0}

    assert message_from_dict(data) == ToolResultMessage("c", "t", (), timestamp=1.0)
    assert isinstance(
        message_from_openai({"role": role, "tool_call_id": "c", "content": "x"}), ToolResultMessage
    )


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"role": "narrator", "content": []}, "narrator"),
        ({"content": []}, "None"),
        ({"role": "user", "content": [], "colour": 1}, "colour"),
        ({"role": "user", "content": [{"type": "sound"}]}, "sound"),
        ({"role": "user", "content": [{"type": "text", "txt": "x"}]}, "txt"),
        ({"role": "user", "content": ["bare"]}, "content block"),
        ({"role": "user", "content": 3}, "content"),
        ({"role": "assistant", "content": [], "usage": {"tokens": 1}}, "tokens"),
        ({"role": "assistant", "content": [], "usage": 7}, "usage"),
    ],
)
def test_a_dict_that_is_no_message_is_refused_by_name(data: dict[str, Any], named: str) -> None:
    """Bad input: a ConfigurationError that names the thing."""
    with pytest.raises(ConfigurationError, match=named):
        message_from_dict(data)


def test_a_text_as_content_is_one_text_block() -> None:
    """T5: also in a dict that somebody wrote by hand."""
    message = message_from_dict({"role": "user", "content": "hi", "timestamp": 1.0})

    assert message == UserMessage((TextContent("hi"),), timestamp=1.0)


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"role": "narrator"}]'])
def test_text_that_is_no_transcript_is_refused(text: str) -> None:
    """Bad input."""
    with pytest.raises(ConfigurationError):
        messages_from_json(text)


# -- the OpenAI shapes -------------------------------------------------------------------


def test_an_answer_in_openais_shape_has_no_reasoning() -> None:
    """WT-003, FR-006."""
    message = AssistantMessage((ReasoningContent("hm"), TextContent("hello")))

    assert message_to_openai(message) == {
        "role": "assistant",
        "content": [{"type": "text", "text": "hello"}],
    }


def test_an_answer_with_calls_and_a_refusal_says_so() -> None:
    """FR-006: arguments are JSON text there."""
    data = message_to_openai(replace(SAMPLES[2], content=(CALL,), refusal="no"))  # type: ignore[type-var]

    assert data["content"] == [{"type": "text", "text": ""}]
    assert data["refusal"] == "no"
    assert data["tool_calls"][0]["id"] == "c1"
    assert message_from_openai(data).tool_calls[0].arguments == CALL.arguments  # type: ignore[union-attr]


def test_the_other_roles_have_their_openai_shape() -> None:
    """C-46."""
    assert message_to_openai(SAMPLES[6])["role"] == "tool"
    assert message_to_openai(SAMPLES[6])["tool_call_id"] == "c1"
    assert message_to_openai(SAMPLES[7]) == {"role": "note", "content": {"any": ["thing"]}}
    assert message_to_openai(SAMPLES[1])["content"][1:] == [
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
    ]


def test_a_prompt_in_openais_shape_is_read_with_text_and_images() -> None:
    """WT-002: runbook 1.2."""
    message = message_from_openai(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "which?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                {"type": "input_image", "image_url": "https://x/y.png"},
                TextContent("ours"),
            ],
        }
    )

    assert message.content == (
        TextContent("which?"),
        ImageContent("aGk=", "image/png"),
        ImageContent(url="https://x/y.png"),
        TextContent("ours"),
    )


def test_an_answer_in_openais_shape_is_read_back() -> None:
    """A-06: arguments as an object, content as null."""
    message = message_from_openai(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "function": {"name": "a", "arguments": {"x": 1}}},
                {"id": "c2", "function": {"name": "b", "arguments": '{"y": 2}'}},
                {"id": "c3", "function": {"name": "c"}},
            ],
        }
    )

    assert isinstance(message, AssistantMessage)
    assert [call.arguments for call in message.tool_calls] == [{"x": 1}, {"y": 2}, {}]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ("text", "str"),
        ({"role": "system", "content": "x"}, "system_prompt="),
        ({"role": "narrator", "content": "x"}, "narrator"),
        ({"role": "user", "content": 3}, "int"),
        ({"role": "user", "content": {"type": "text"}}, "dict"),
        ({"role": "user", "content": [{"type": "sound"}]}, "sound"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "image_url"),
        ({"role": "user", "content": [3]}, "int"),
        ({"role": "assistant", "tool_calls": [{"function": {"arguments": "{"}}]}, "JSON"),
        ({"role": "assistant", "tool_calls": [{"function": {"arguments": "[1]"}}]}, "object"),
        ({"role": "assistant", "tool_calls": ["search"]}, "tool call"),
        ({"role": "assistant", "tool_calls": [{"function": "search"}]}, "function"),
    ],
)
def test_a_dict_of_another_shape_is_refused_by_name(data: Any, named: str) -> None:
    """Bad input: a ConfigurationError that names the thing and the way out."""
    with pytest.raises(ConfigurationError, match=named):
        message_from_openai(data)
