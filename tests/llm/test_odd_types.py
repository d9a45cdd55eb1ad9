"""Values of types that no dialect has: an answer or an ``LlmError``, and a history that can still be sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from yiemagent.llm.anthropic import AnthropicMessages
from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.llm.responses import OpenAIResponses
from yiemagent.messages import UserMessage
from yiemagent.testing.loopback import Handler, LoopbackServer

Serve = Callable[[Handler], LoopbackServer]
Ask = Callable[..., Any]

START = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Brut"}}
STOP = {"type": "message_stop"}


def events(*chunks: Any) -> list[str]:
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]


def streamed(pieces: Sequence[str]) -> Handler:
    return lambda request: request.stream(pieces)


@pytest.mark.parametrize("odd", [[], {}, ["x"], {"a": 1}, 5, True])
def test_an_event_whose_type_is_no_text_is_read_past(odd: Any, serve: Serve, ask: Ask) -> None:
    """Decoding rules: no input makes the model raise."""
    server = serve(streamed(events(START, {**TEXT, "type": odd}, TEXT, STOP)))

    asked = ask(AnthropicMessages("m", server.url, "k", max_retries=0), want_deltas=True)

    assert asked.message.text == "Brut"


@pytest.mark.parametrize("odd", [["x"], {"a": 1}, 5])
def test_a_stop_reason_that_is_no_text_is_kept_as_one(odd: Any, serve: Serve, ask: Ask) -> None:
    """Decision 16: calls decide; the provider's word is only kept."""
    end = {"type": "message_delta", "delta": {"stop_reason": odd}}
    server = serve(streamed(events(START, TEXT, end, STOP)))

    asked = ask(AnthropicMessages("m", server.url, "k", max_retries=0), want_deltas=True)

    assert (asked.message.text, asked.message.finish_reason) == ("Brut", str(odd))


def test_infinite_usage_is_unknown_usage(serve: Serve, ask: Ask) -> None:
    """``1e999`` is a JSON number, and no count of tokens."""
    body = (
        '{"choices": [{"message": {"content": "Brut"}, "finish_reason": "stop"}], '
        '"usage": {"prompt_tokens": 1e999, "completion_tokens": 3}}'
    )
    server = serve(lambda request: request.reply(body))

    asked = ask(OpenAIChat("m", server.url, "k", stream=False, max_retries=0))

    assert (asked.message.usage.input_tokens, asked.message.usage.output_tokens) == (None, 3)


def test_an_infinite_number_in_an_echoed_item_does_not_end_the_conversation(serve: Serve, ask: Ask) -> None:
    """C-34: what the provider said is replayed, and what JSON cannot say becomes null."""
    body = (
        '{"id": "r", "status": "completed", "output": ['
        '{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "E", "odd": 1e999}, '
        '{"type": "message", "content": [{"type": "output_text", "text": "Brut"}]}]}'
    )
    server = serve(lambda request: request.reply(body))
    llm = OpenAIResponses("m", server.url, "k", stream=False, max_retries=0)

    first = ask(llm).message
    asked = ask(llm, [UserMessage("a"), first, UserMessage("b")])  # type: ignore[arg-type]

    assert asked.message.text == "Brut"
    [reasoning] = [item for item in server.requests[-1].json["input"] if item.get("type") == "reasoning"]
    assert reasoning["odd"] is None
