"""What a model's constructor says to values that cannot work: at once and by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.llm.anthropic import AnthropicMessages
from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.llm.proxy import ProxyModel
from yiemagent.llm.responses import OpenAIResponses
from yiemagent.llm.retry import RetryPolicy

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
        ("headers", 5, "headers must be a mapping or None, got 5"),
        ("verify", 5, "verify must be a bool or a str or None, got 5"),
        ("proxies", "x", "proxies must be a mapping or None"),
        ("retry", 3, "retry must be a RetryPolicy or None, got 3"),
        ("base_url", [], "base_url must be a str, got []"),
        ("base_url", 5, "base_url must be a str, got 5"),
        ("base_url", "localhost", "base_url must be an http or https URL"),
        ("base_url", "http://[::1/v1", "base_url must be an http or https URL"),
        ("base_url", "http://[::g]/v1", "base_url must be an http or https URL"),
        ("base_url", "http://u\u2100@h/v1", "base_url must be an http or https URL"),
        ("temperature", "hot", "temperature must be a number or None, got 'hot'"),
        ("max_tokens", 0, "max_tokens must be a whole number of at least 1 or None, got 0"),
        ("extra_body", 5, "extra_body must be a mapping or None, got 5"),
        ("temperature", float("inf"), "temperature must be a number or None, got inf"),
        ("info", 5, "info must be a mapping"),
        ("info", {"context_window": "128k"}, "context_window must be a whole number of at least 1 or None"),
        ("info", {"input_price": "3 $"}, "input_price must be a number or None, got '3 $'"),
        ("info", {"supports_images": "yes"}, "supports_images must be a bool or None, got 'yes'"),
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


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RetryPolicy(base="x"), "base must be 0 or more seconds, got 'x'"),  # type: ignore[arg-type]
        (lambda: RetryPolicy(cap=-1), "cap must be 0 or more seconds, got -1"),
        (lambda: RetryPolicy(max_retry_after=None), "max_retry_after must be 0 or more"),  # type: ignore[arg-type]
        (lambda: RetryPolicy(jitter=0.5), "jitter must be a function"),  # type: ignore[arg-type]
        (lambda: OpenAIChat("m", URL, think_tags="no"), "think_tags must be True or False, got 'no'"),  # type: ignore[arg-type]
        (lambda: AnthropicMessages("m", URL, beta="a-1"), "beta must be a tuple of names"),  # type: ignore[arg-type]
        (lambda: AnthropicMessages("m", URL, provider=5), "provider must be a str, got 5"),  # type: ignore[arg-type]
        (lambda: ProxyModel("m", URL, token=5), "token must be a str, got int"),  # type: ignore[arg-type]
        (lambda: ProxyModel("m", URL, max_tokens=2.5), "max_tokens must be a whole number"),  # type: ignore[arg-type]
        (lambda: ProxyModel("m", URL, temperature="x"), "temperature must be a number"),  # type: ignore[arg-type]
    ],
)
def test_what_one_kind_of_model_takes_is_refused_by_name(make: Callable[[], object], said: str) -> None:
    """Bad input, as above; each of these was told in the middle of an answer, or never."""
    with pytest.raises(ConfigurationError, match=said):
        make()


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
