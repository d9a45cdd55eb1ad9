"""The bytes that are sent: for each provider what it accepts, and each message encoded once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.messages import (
    AssistantMessage,
    ImageContent,
    OpaqueContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from yiemagent.testing.loopback import LoopbackServer, ServedRequest
from yiemagent.tools.tool import Tool

WEATHER = Tool(
    name="weather",
    description="Looks out of the window",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}},
    execute=lambda *a: None,
)
PIXEL = ImageContent("aGk=", "image/png")


def fine(request: ServedRequest) -> None:
    request.reply({"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]})


def result(call_id: str, *content: Any, name: str = "weather") -> ToolResultMessage:
    return ToolResultMessage(call_id, name, content or "sunny")  # type: ignore[arg-type]


def calling(*ids: str, text: str = "") -> AssistantMessage:
    calls = [ToolCall(call_id, "weather", {"city": "Oslo"}) for call_id in ids]
    return AssistantMessage((TextContent(text), *calls) if text else tuple(calls))


@pytest.fixture
def sent(chat: Callable[..., Any], ask: Callable[..., Any]) -> Callable[..., Any]:
    """What a model with these options sends for these messages."""

    def send(
        messages: Any = "hi",
        *,
        quirks: Any = None,
        info: Any = None,
        model: str = "m",
        made: Any = None,
        **options: Any,
    ) -> Any:
        llm, server = chat(fine, model=model, quirks=quirks, info=info, **(made or {}))
        options.setdefault("want_deltas", False)
        asked = ask(llm, messages, **options)
        assert asked.error is None, asked.error
        return server.requests[-1].json

    return send


def test_a_bare_request_has_nothing_that_was_not_asked_for(sent: Callable[..., Any]) -> None:
    """C-13, C-43, C-49: no tools, no temperature, no optional parameter."""
    assert sent() == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_what_was_asked_for_is_sent(sent: Callable[..., Any]) -> None:
    """The options of the call win over those of the model object, the extra body over both."""
    body = sent(
        system_prompt="Be brief",
        tools=[WEATHER],
        tool_choice="weather",
        temperature=0.0,
        max_tokens=5,
        extra_body={"seed": 7},
        made={"temperature": 1.0, "max_tokens": 9, "extra_body": {"seed": 1, "top_p": 0.5}},
    )

    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "hi"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "weather",
                    "description": "Looks out of the window",
                    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "max_tokens": 5,
        "temperature": 0.0,
        "seed": 7,
        "top_p": 0.5,
    }


def test_a_stream_asks_for_usage(sent: Callable[..., Any]) -> None:
    """Without it local servers count nothing (PI-2.2)."""
    body = sent(want_deltas=True)

    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_the_extra_body_may_replace_even_the_messages(sent: Callable[..., Any]) -> None:
    """It is the last word."""
    body = sent(
        "hi", tools=[WEATHER], extra_body={"model": "other", "messages": [{"role": "user", "content": "x"}]}
    )

    assert (body["model"], body["messages"]) == ("other", [{"role": "user", "content": "x"}])
    assert len(body["tools"]) == 1


def test_tools_with_a_bare_schema_get_properties(sent: Callable[..., Any]) -> None:
    """C-17."""
    [tool] = sent(tools=[Tool(name="t", input_schema={"type": "object"}, execute=lambda *a: None)])["tools"]

    assert tool["function"] == {"name": "t", "parameters": {"type": "object", "properties": {}}}


# -- messages ----------------------------------------------------------------------------


def test_a_conversation_with_calls(sent: Callable[..., Any]) -> None:
    """Text and calls of an answer stay together (A-69); content is null without text (C-11)."""
    history = [
        UserMessage("weather?"),  # type: ignore[arg-type]
        calling("c1", "c2", text="Let me look."),
        result("c1"),
        result("c2", TextContent("rain"), TextContent("and wind")),
        calling("c3"),
        result("c3"),
    ]

    function = {"name": "weather", "arguments": '{"city":"Oslo"}'}
    assert sent(history)["messages"] == [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": function},
                {"id": "c2", "type": "function", "function": function},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "c2", "content": "rain\nand wind"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c3", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c3", "content": "sunny"},
    ]


def test_images_of_a_user_are_parts(sent: Callable[..., Any]) -> None:
    """By data or by URL; an image alone has no empty text beside it."""
    url = ImageContent(url="https://a.test/b.png")
    message = UserMessage((TextContent("what is this?"), TextContent("  "), PIXEL, url))

    [first] = sent([message])["messages"]
    [second] = sent([UserMessage((PIXEL,))])["messages"]

    pixel = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert first["content"] == [
        {"type": "text", "text": "what is this?"},
        pixel,
        {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}},
    ]
    assert second["content"] == [pixel]


def test_images_of_tool_results_follow_the_results_in_one_user_message(sent: Callable[..., Any]) -> None:
    """C-31: after all results of the turn, and merged with what the user then says."""
    history = [
        UserMessage("look"),  # type: ignore[arg-type]
        calling("c1", "c2"),
        result("c1", PIXEL),
        result("c2", TextContent("two"), PIXEL),
        UserMessage("and?"),  # type: ignore[arg-type]
    ]

    merged = sent(history)["messages"]
    apart = sent(history, quirks={"merge_users": False})["messages"]
    at_the_end = sent(history[:-1])["messages"]

    assert [message["content"] for message in merged[2:4]] == ["(see attached image)", "two"]
    assert [part["type"] for part in merged[4]["content"]] == ["text", "image_url", "image_url", "text"]
    assert [message["role"] for message in apart[4:]] == ["user", "user"]
    assert [message["role"] for message in at_the_end] == ["user", "assistant", "tool", "tool", "user"]


def test_a_model_that_cannot_see_is_told_so(sent: Callable[..., Any]) -> None:
    """PI-91: one line for a run of images."""
    history = [UserMessage((TextContent("a"), PIXEL, PIXEL)), calling("c1"), result("c1", PIXEL)]

    user, _, tool = sent(history, info={"supports_images": False})["messages"]

    omitted = {"type": "text", "text": "(image omitted: model does not support images)"}
    assert user["content"] == [{"type": "text", "text": "a"}, omitted]
    assert tool["content"] == "(tool image omitted: model does not support images)"


@pytest.mark.parametrize("content", [(), (TextContent(""),), (TextContent(" \n"),)])
def test_an_empty_tool_result_says_so(sent: Callable[..., Any], content: Any) -> None:
    """C-10."""
    history = [UserMessage("x"), calling("c1"), ToolResultMessage("c1", "weather", content)]  # type: ignore[arg-type]

    assert sent(history)["messages"][2]["content"] == "(no output)"


def test_messages_with_nothing_in_them_are_left_out(sent: Callable[..., Any]) -> None:
    """C-09, A-76: providers refuse empty content for ever."""
    history = [
        UserMessage("a"),  # type: ignore[arg-type]
        AssistantMessage((TextContent(" "), ReasoningContent("hm"))),
        UserMessage((TextContent(""),)),
        AssistantMessage((OpaqueContent({"type": "server_tool_use"}),)),
        AssistantMessage((), stop_reason="refusal", refusal="I will not"),
        UserMessage("b"),  # type: ignore[arg-type]
    ]

    assert sent(history)["messages"] == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "I will not"},
        {"role": "user", "content": "b"},
    ]


def test_neighbouring_user_messages_are_merged(sent: Callable[..., Any]) -> None:
    """C-07: chat templates want roles to alternate; the history stays as it is."""
    history = [UserMessage("a"), UserMessage("b"), UserMessage((TextContent("c"), PIXEL))]  # type: ignore[arg-type]

    [merged] = sent(history)["messages"]
    apart = sent(history, quirks={"merge_users": False})["messages"]

    assert [part.get("text") for part in merged["content"]] == ["a", "b", "c", None]
    assert sent(history[:2])["messages"] == [{"role": "user", "content": "a\n\nb"}]
    assert len(apart) == 3


def test_lone_surrogates_do_not_reach_the_wire(sent: Callable[..., Any]) -> None:
    """C-27: in text, names of files, arguments; a pair that makes a character is kept."""
    call = ToolCall("c1", "weather", {"city": "\udc97"})
    history = [
        UserMessage("a\udc97b \ud83d\ude00"),  # type: ignore[arg-type]
        AssistantMessage((call,)),
        result("c1", TextContent("\ud800")),
    ]

    user, assistant, tool = sent(history, system_prompt="s\udfff")["messages"][1:]

    assert user["content"] == "a\ufffdb 😀"
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"city": "\ufffd"}
    assert tool["content"] == "\ufffd"


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("c1", "weather", arguments_error="invalid_json: x", raw_arguments='{"path": a.txt"}'),
        ToolCall("c1", "weather", {"x": float("nan")}),
        ToolCall("c1", "weather", {"x": object()}),
        ToolCall("c1", "weather", {"x": {1, 2}}),
    ],
)
def test_arguments_in_the_history_are_always_an_object(sent: Callable[..., Any], call: ToolCall) -> None:
    """C-34, A-19, A-21: what does not parse would kill every later request."""
    [_, assistant, _] = sent([UserMessage("x"), AssistantMessage((call,)), result("c1")])["messages"]  # type: ignore[arg-type]

    def refuse(name: str) -> None:
        raise AssertionError(name)

    arguments = assistant["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(arguments, parse_constant=refuse), dict)


# -- the history as it was ---------------------------------------------------------------


def test_calls_without_a_result_are_answered(sent: Callable[..., Any]) -> None:
    """C-02: between two messages and at the end."""
    history = [
        UserMessage("a"),  # type: ignore[arg-type]
        calling("c1", "c2"),
        result("c1"),
        UserMessage("b"),  # type: ignore[arg-type]
        calling("c3"),
    ]

    messages = sent(history)["messages"]

    assert [message["role"] for message in messages] == [
        "user", "assistant", "tool", "tool", "user", "assistant", "tool",
    ]  # fmt: skip
    assert [message.get("tool_call_id") for message in messages] == [None, None, "c1", "c2", None, None, "c3"]
    assert "interrupted" in messages[3]["content"]


@pytest.mark.parametrize("reason", ["error", "aborted"])
def test_failed_answers_are_left_out_with_their_results(sent: Callable[..., Any], reason: Any) -> None:
    """C-03, C-50, decision 24."""
    failed = replace(calling("c1", text="Half of"), stop_reason=reason)
    history = [
        UserMessage("a"),
        failed,
        result("c1"),
        UserMessage("b"),
        replace(failed, content=(TextContent("x"),)),
    ]  # type: ignore[arg-type]

    messages = sent(history)["messages"]

    assert messages == [{"role": "user", "content": "a\n\nb"}]


def test_results_without_their_call_are_dropped(sent: Callable[..., Any]) -> None:
    """C-01, C-04: a window that begins with a result, a late result, a second one."""
    history = [
        result("c0"),
        UserMessage("a"),  # type: ignore[arg-type]
        calling("c1"),
        result("c1"),
        result("c1"),
        UserMessage("b"),  # type: ignore[arg-type]
        result("c1"),
    ]

    assert [message["role"] for message in sent(history)["messages"]] == ["user", "assistant", "tool", "user"]


def test_ids_are_unique_over_the_whole_history(sent: Callable[..., Any]) -> None:
    """A-26: some providers refuse an id that an earlier turn had."""
    history = [UserMessage("a"), calling("c1"), result("c1"), calling("c1"), result("c1")]  # type: ignore[arg-type]

    messages = sent(history)["messages"]

    assert [message.get("tool_call_id") for message in messages] == [None, None, "c1", None, "c1_2"]
    assert messages[3]["tool_calls"][0]["id"] == "c1_2"


def test_a_message_is_encoded_once(chat: Callable[..., Any], ask: Callable[..., Any]) -> None:
    """Two model objects of the same kind share the bytes; another kind makes its own."""
    history = [UserMessage("a"), calling("c1"), result("c1")]  # type: ignore[arg-type]
    one, _ = chat(fine)
    other, _ = chat(fine)
    foreign, _ = chat(fine, quirks={"call_ids": "mistral"})
    ask(one, history)
    before = [message._wire for message in history]
    ask(other, history)

    assert all(message._wire is wire for message, wire in zip(history, before, strict=True))
    ask(foreign, history)
    assert all(message._wire is not wire for message, wire in zip(history, before, strict=True))


# -- providers ---------------------------------------------------------------------------

OPENAI = "https://api.openai.com/v1"
MISTRAL = "https://api.mistral.ai/v1"
DEEPSEEK = "https://api.deepseek.com"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai/"
OPENROUTER = "https://openrouter.ai/api/v1"
LOCAL = "http://127.0.0.1:8080/v1"

LONG_ID = "call_" + "x" * 60 + "|fc_1"
CONVERSATION = [
    UserMessage("weather?"),  # type: ignore[arg-type]
    calling(LONG_ID),
    result(LONG_ID),
    UserMessage("thanks"),  # type: ignore[arg-type]
    UserMessage("and?"),  # type: ignore[arg-type]
]


def payload(base_url: str, model: str, **options: Any) -> Any:
    """What would be sent to a host that tests cannot reach: the proxy is a server of ours."""
    bodies: list[Any] = []

    def proxy(request: ServedRequest) -> None:
        bodies.append((request.json, request.headers))
        fine(request)

    with LoopbackServer(proxy) as server:
        llm = OpenAIChat(
            model,
            base_url.replace("https://", "http://"),
            "key",
            proxies={"http": server.url},
            max_retries=0,
        )
        from yiemagent.model import LlmContext, StreamOptions

        messages = options.pop("messages", CONVERSATION)
        events = list(llm.stream(LlmContext("Be brief", messages, [WEATHER]), StreamOptions(**options)))
    assert events[-1].type == "done", events[-1]
    return bodies[-1]


def roles(body: Any) -> list[str]:
    return [message["role"] for message in body["messages"]]


def test_openai(request: pytest.FixtureRequest) -> None:
    """Reasoning models have a developer, ``max_completion_tokens`` and an effort; ids are cut to 40."""
    body, headers = payload(OPENAI, "gpt-5-mini", max_tokens=9, reasoning="low", session_id="s" * 80)
    old, _ = payload(OPENAI, "gpt-4o", max_tokens=9)

    assert headers["authorization"] == "Bearer key"
    assert roles(body) == ["developer", "user", "assistant", "tool", "user", "user"]
    assert roles(old)[0] == "system"
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (9, "low")
    assert len(body["prompt_cache_key"]) == 64
    assert body["stream_options"] == {"include_usage": True}
    call_id = body["messages"][2]["tool_calls"][0]["id"]
    assert call_id == body["messages"][3]["tool_call_id"]
    assert len(call_id) <= 40
    assert "|" not in call_id


def test_azure() -> None:
    """The key has a header of its own."""
    _, headers = payload("https://us.openai.azure.com/openai/v1", "gpt-4.1")

    assert headers["api-key"] == "key"
    assert "authorization" not in headers


def test_mistral() -> None:
    """C-33: nine characters; a line between results and user; no stream options; named results."""
    body, _ = payload(MISTRAL, "mistral-large-latest", max_tokens=9, reasoning="high")

    assert roles(body) == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert body["messages"][5]["content"] == "thanks\n\nand?"
    assert body["messages"][3]["name"] == "weather"
    call_id = body["messages"][3]["tool_call_id"]
    assert len(call_id) == 9
    assert call_id.isalnum()
    assert set(body) == {"model", "messages", "tools", "stream", "max_tokens"}


def test_deepseek() -> None:
    """Reasoning goes back with every answer, an empty one if there was none."""
    own = replace(calling("c1"), api="openai-chat", provider="deepseek", model="deepseek-chat")
    thought = ReasoningContent("rain?", extra={"field": "reasoning_content"})
    history = [
        UserMessage("a"),  # type: ignore[arg-type]
        replace(own, content=(thought, *own.content)),
        result("c1"),
        replace(own, content=(TextContent("b"),)),
        UserMessage("c"),  # type: ignore[arg-type]
    ]
    body, _ = payload(DEEPSEEK, "deepseek-chat", messages=history, max_tokens=9, reasoning="high")

    assert [message.get("reasoning_content") for message in body["messages"]] == [
        None,
        None,
        "rain?",
        None,
        "",
        None,
    ]
    assert (body["max_tokens"], body["thinking"]) == (9, {"type": "enabled"})


def test_gemini() -> None:
    """Ids stay as they are; a budget is a budget of thinking."""
    body, _ = payload(GEMINI, "gemini-2.5-flash", reasoning="high", thinking_budgets={"high": 4096})

    assert body["messages"][3]["tool_call_id"] == LONG_ID
    assert body["extra_body"] == {"google": {"thinking_config": {"thinking_budget": 4096}}}


def test_openrouter() -> None:
    """Reasoning is an object, and ``reasoning_details`` go back verbatim."""
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    own = AssistantMessage(
        (ReasoningContent("hm", extra={"field": "reasoning"}), TextContent("b")),
        api="openai-chat",
        provider="openrouter",
        model="a/b",
        extra={"reasoning_details": details},
    )
    body, _ = payload(OPENROUTER, "a/b", messages=[UserMessage("a"), own, UserMessage("c")], reasoning="low")  # type: ignore[arg-type]

    assert body["reasoning"] == {"effort": "low"}
    assert body["messages"][2] == {
        "role": "assistant",
        "content": "b",
        "reasoning_details": details,
        "reasoning": "hm",
    }


def test_an_unknown_server(sent: Callable[..., Any]) -> None:
    """Roles alternate, ``max_tokens`` is called so, and nothing is private."""
    body = sent(CONVERSATION, max_tokens=9, tools=[WEATHER], system_prompt="s")

    assert roles(body) == ["system", "user", "assistant", "tool", "user"]
    assert set(body) == {"model", "messages", "tools", "max_tokens"}
