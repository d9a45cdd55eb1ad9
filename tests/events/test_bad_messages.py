"""Transcripts and messages from elsewhere that are not what they should be."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.message_formats import message_from_openai, messages_from_json, messages_to_json
from yiemagent.testing import run_in_thread


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"role": "assistant", "content": "x", "warnings": 5}]', "warnings of a message must be a list"),
        ('[{"role": "user", "content": [{"type": "text", "text": 5}]}]', "text of a content block"),
        ("[" * 100_000, "not a transcript in JSON"),
    ],
)
def test_a_misshapen_transcript_is_refused_in_words(text: str, said: str) -> None:
    """What was saved by hand or by another version is a ConfigurationError, whatever is in it."""
    with pytest.raises(ConfigurationError, match=said):
        messages_from_json(text)


def test_tool_calls_that_are_no_list_are_refused() -> None:
    """An OpenAI-format history may come from anywhere."""
    with pytest.raises(ConfigurationError, match="tool_calls of a message must be a list, got 5"):
        message_from_openai({"role": "assistant", "content": None, "tool_calls": 5})


@pytest.mark.parametrize("messages", [[5], "abc"])
def test_only_messages_are_saved(messages: Any) -> None:
    """A wrong argument is named, not an attribute that is missing somewhere inside."""
    with pytest.raises(TypeError, match="a message is wanted"):
        messages_to_json(messages)


def test_an_abort_callback_that_cannot_be_called_is_refused_when_it_is_given() -> None:
    """On abort it would be too late: only a log line would say so."""
    with pytest.raises(TypeError, match="must be callable"):
        AbortSignal().on_abort(5)  # type: ignore[arg-type]


def test_waiting_for_an_abort_for_ever_may_be_said_as_infinity() -> None:
    """Decision 26: seconds."""
    signal = AbortSignal()
    waiting = run_in_thread(lambda: signal.wait(float("inf")))

    signal.abort()

    assert waiting.get() is True
