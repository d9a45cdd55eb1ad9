"""Calls that models invent, on their way back to a provider: nothing that is sent is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.llm.anthropic import AnthropicMessages
from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.llm.responses import OpenAIResponses
from yiemagent.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from yiemagent.testing.loopback import Handler, LoopbackServer, ServedRequest

MODELS = [OpenAIChat, OpenAIResponses, AnthropicMessages]


def names(body: Any) -> list[str]:
    """The names of all calls in a request, whatever its dialect."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("type") in ("tool_use", "function_call"):
                found.append(value["name"])
            elif value.get("type") == "function":
                found.append(value["function"]["name"])
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(body)
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("name", "legal"), [("", "unknown_tool"), ("buy wine!", "buy_wine_"), ("x" * 70, "x" * 64)]
)
def test_an_invented_name_is_replayed_as_one_that_providers_take(
    model: Any, name: str, legal: str, serve: Callable[[Handler], LoopbackServer], ask: Callable[..., Any]
) -> None:
    """C-15: a name that is refused would fail every request of the conversation from then on."""
    server = serve(lambda request: request.reply({"error": {"message": "enough"}}, status=400))
    history = [
        UserMessage("a"),  # type: ignore[arg-type]
        AssistantMessage((ToolCall("c1", name),)),
        ToolResultMessage("c1", name, "Tool not found", is_error=True),  # type: ignore[arg-type]
    ]

    ask(model("m", base_url=server.url, api_key="k", max_retries=0), history)

    assert names(server.requests[-1].json) == [legal]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("arguments", [{"x": float("nan")}, {"x": {1}}, None])
def test_arguments_that_are_no_json_do_not_fail_the_request(
    model: Any, arguments: Any, serve: Callable[[Handler], LoopbackServer], ask: Callable[..., Any]
) -> None:
    """C-34: a history from elsewhere may hold anything; it is sent as JSON in every dialect."""
    server = serve(lambda request: request.reply({"error": {"message": "enough"}}, status=400))
    history = [
        UserMessage("a"),  # type: ignore[arg-type]
        AssistantMessage((ToolCall("c1", "f", arguments),)),
        ToolResultMessage("c1", "f", "done"),  # type: ignore[arg-type]
    ]

    asked = ask(model("m", base_url=server.url, api_key="k", max_retries=0), history)

    assert asked.error.status == 400
    json.dumps(server.requests[-1].json, allow_nan=False)


def test_a_payload_that_is_no_mapping_is_the_hooks_error(
    chat: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """What ``on_payload`` returns is never sent when it cannot be a request."""
    llm, server = chat(lambda request: request.reply({}))

    asked = ask(llm, on_payload=lambda payload: "oops")

    assert "on_payload must return the payload as a mapping or None, got str" in str(asked.error)
    assert not server.requests


def test_a_failing_on_response_leaves_no_connection_behind(
    chat: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """The answer that nobody will read is closed: a leaked socket fails this test as a warning."""

    def handler(request: ServedRequest) -> None:
        request.start(200)
        request.chunk('data: {"choices": []}\n\n')
        request.closing.wait(5)

    llm, _ = chat(handler)

    asked = ask(llm, on_response=lambda status, headers: [][0])

    assert "on_response raised IndexError" in str(asked.error)
