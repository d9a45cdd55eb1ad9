"""What a model's constructor says to values that cannot work: at once and by name."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.llm.anthropic import AnthropicMessages
from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.llm.responses import OpenAIResponses

MODELS = [OpenAIChat, OpenAIResponses, AnthropicMessages]
URL = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("keyword", "value", "said"),
    [
        ("connect_timeout", -1, "connect_timeout must be more than 0 seconds or None, got -1"),
        ("first_byte_timeout", 0, "first_byte_timeout must be more than 0"),
        ("idle_timeout", "x", "idle_timeout must be more than 0 seconds or None, got 'x'"),
        ("timeout", True, "timeout must be more than 0 seconds or None, got True"),
        ("max_retries", -1, "retries must be a whole number, 0 = never, got -1"),
        ("max_retries", 1.5, "retries must be a whole number"),
        ("headers", 5, "headers must be mapping or None, got 5"),
        ("verify", 5, "verify must be bool or str or None, got 5"),
        ("proxies", "x", "proxies must be mapping or None"),
        ("base_url", 5, "base_url must be a str, got 5"),
        ("base_url", "localhost", "base_url must be an http or https URL"),
        ("temperature", "hot", "temperature must be a number or None, got 'hot'"),
        ("max_tokens", 0, "max_tokens must be a whole number above 0 or None, got 0"),
        ("extra_body", 5, "extra_body must be a mapping or None, got 5"),
        ("info", 5, "info must be a mapping"),
        ("stream", [], 'stream must be "auto", "always", "never" or a bool'),
        ("tempperature", 1, "unknown keyword 'tempperature'; did you mean 'temperature'"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(model: Any, keyword: str, value: Any, said: str) -> None:
    """Bad input: the thing, the value and the way out."""
    with pytest.raises(ConfigurationError) as caught:
        model("m", **{"base_url": URL, keyword: value})
    assert said in str(caught.value)


@pytest.mark.parametrize("model", [OpenAIChat, OpenAIResponses])
def test_quirks_that_are_no_mapping_are_refused(model: Any) -> None:
    """Bad input, as above."""
    with pytest.raises(ConfigurationError, match="quirks must be a mapping"):
        model("m", URL, quirks=5)


@pytest.mark.parametrize("seconds", [float("inf"), 1e300])
@pytest.mark.parametrize("phase", ["connect_timeout", "first_byte_timeout", "idle_timeout", "timeout"])
def test_a_timeout_longer_than_a_socket_can_wait_is_no_limit(
    phase: str, seconds: float, serve: Any, ask: Any
) -> None:
    """Decision 26: seconds; the answer comes."""
    server = serve(
        lambda request: request.stream(
            [
                'data: {"choices": [{"delta": {"content": "Brut"}, "finish_reason": "stop"}]}\n\n',
                "data: [DONE]\n\n",
            ]
        )
    )

    asked = ask(OpenAIChat("m", server.url, max_retries=0, **{phase: seconds}), want_deltas=True)

    assert asked.message.text == "Brut"
