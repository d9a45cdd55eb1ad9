"""What is remembered of a conversation changes the cost of a request and never its bytes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from yiemagent.llm.openai_messages import Dialect
from yiemagent.llm.openai_request import ChatRequests
from yiemagent.llm.quirks import quirks_for
from yiemagent.messages import (
    AssistantMessage,
    ImageContent,
    LlmMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from yiemagent.model import LlmContext, StreamOptions


def _pieces(number: int) -> list[list[LlmMessage]]:
    """What a history is made of, sound and unsound."""
    call, other = ToolCall(f"c{number}", "add", {"a": number}), ToolCall("same", "add", {})
    image = ImageContent("aGk=")
    return [
        [UserMessage(f"question {number}")],
        [UserMessage((TextContent("look"), image))],
        [AssistantMessage(f"answer {number}")],  # type: ignore[arg-type]
        [AssistantMessage(())],
        [AssistantMessage((call,)), ToolResultMessage(call.id, "add", (TextContent("3"),))],
        [AssistantMessage((call,)), ToolResultMessage(call.id, "add", (TextContent("see"), image))],
        [AssistantMessage((other,)), ToolResultMessage("same", "add", (TextContent("again"),))],
        [AssistantMessage((call,))],
        [ToolResultMessage(call.id, "add", (TextContent("of no call"),))],
        [AssistantMessage("half", stop_reason="error")],  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("pieces_kept", [2, 3, 64])
def test_a_request_that_uses_notes_is_the_same_to_the_byte(
    pieces_kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Histories that grow, are cut, exchanged and broken, with one set of notes throughout."""
    monkeypatch.setattr("yiemagent.llm.openai_request._MOST_PARTS", pieces_kept)
    draw = random.Random(7)
    wishes = quirks_for("https://api.openai.com/v1", "gpt-5", {})
    for wish in (wishes, replace(wishes, merge_users=True), replace(wishes, line_after_results="Go on.")):
        remembering = ChatRequests(Dialect(wish, "gpt-5", True))
        forgetful = ChatRequests(Dialect(wish, "gpt-5", True))
        notes: dict[object, object] = {}
        history: list[LlmMessage] = []
        for number in range(250):
            pieces = _pieces(number)
            history += draw.choice(pieces[:6] if draw.random() < 0.9 else pieces)
            if draw.random() < 0.1:
                del history[draw.randrange(len(history)) :]
            if history and draw.random() < 0.05:
                history[draw.randrange(len(history))] = UserMessage("another one")
            context = LlmContext("Be brief.", tuple(history))
            noted = remembering.body(context, StreamOptions(notes=notes), stream=False, defaults={})
            assert noted == forgetful.body(context, StreamOptions(), stream=False, defaults={})


def test_two_models_in_turn_in_one_conversation_do_not_read_each_others_notes() -> None:
    """The model of an agent may change between runs."""
    small, other = (
        ChatRequests(Dialect(quirks_for(url, "m", {}), "m", True))
        for url in ("https://api.openai.com/v1", "https://api.mistral.ai/v1")
    )
    notes: dict[object, object] = {}
    call = ToolCall("call_with_a_long_name", "add", {})
    history: list[LlmMessage] = [UserMessage("q")]
    for _ in range(3):
        history += [AssistantMessage((call,)), ToolResultMessage(call.id, "add", (TextContent("3"),))]
        for requests in (small, other):
            context = LlmContext("", tuple(history))
            noted = requests.body(context, StreamOptions(notes=notes), stream=False, defaults={})
            assert noted == requests.body(context, StreamOptions(), stream=False, defaults={})
