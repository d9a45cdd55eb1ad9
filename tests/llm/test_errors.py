"""What providers say when they fail, and what we make of it."""

from __future__ import annotations

import email.utils
import json
import pickle
import time
from typing import Any

import pytest

from yiemagent.errors import AuthenticationFailed, ContextOverflow, LlmError, RateLimited
from yiemagent.llm.errors import body_error, http_error
from yiemagent.llm.overflow import OVERFLOW_WORDINGS, is_overflow
from yiemagent.llm.retry import RetryPolicy, retry_after

OVERFLOWS = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "prompt is too long: 213462 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000",
    "Input is too long for requested model.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "the request exceeds the available context size, try increasing it",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Trying to keep the first 5000 tokens when context the overflows: longer than the context length",
    "The input (5012 tokens) is longer than the model's context length (4096 tokens).",
    "prompt too long; exceeded max context length by 12 tokens",
    "Invalid request: Your request exceeded model token limit: 8192",
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "invalid params, context window exceeds limit",
    "litellm.ContextWindowExceededError: OpenAIException",
    "Range of input length should be [1, 30720]",
    "`inputs` tokens + `max_new_tokens` must be <= 4097",
    "prompt token count of 150000 exceeds the limit of 128000",
    "Request size 40000 tokens exceeds model context length",
    "The prompt is too large for the context",
    "token limit exceeded",
    "too many tokens: size limit exceeded by 11 tokens",
]
NOT_OVERFLOWS = [
    "Too many tokens, please wait before trying again.",
    "Rate limit reached: maximum context length of requests per min exceeded",
    "ThrottlingException: too many requests, token limit exceeded",
    "Invalid value for max_tokens",
    "The image is too large",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_overflow_is_recognised_in_its_many_wordings(text: str) -> None:
    """C-38, PI-95: as an error of its own, never retried unchanged."""
    for error in (
        http_error(400, {}, f'{{"error": {{"message": "{text}"}}}}'.encode(), "p"),
        body_error(text, "p"),
    ):
        assert isinstance(error, ContextOverflow)
        assert not error.retryable


@pytest.mark.parametrize("text", NOT_OVERFLOWS)
def test_throttling_is_not_taken_for_overflow(text: str) -> None:
    """PI-95: the wordings overlap."""
    assert not is_overflow(text)


def test_every_overflow_wording_is_met_by_an_example() -> None:
    """The table holds nothing that nobody says."""
    import re

    codes = [
        *OVERFLOWS,
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
    ]
    codes += ["context window exceeded", "input length 9 exceeds the token limit"]
    unmet = [row for row in OVERFLOW_WORDINGS if not any(re.search(row[1], text, re.I) for text in codes)]
    assert unmet == []


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "bad_request", False),
        (401, "authentication", False),
        (402, "quota", False),
        (403, "authentication", False),
        (404, "not_found", False),
        (405, "bad_request", False),
        (408, "timeout", True),
        (409, "server_error", True),
        (413, "context_overflow", False),
        (422, "bad_request", False),
        (429, "rate_limit", True),
        (500, "server_error", True),
        (501, "server_error", False),
        (502, "server_error", True),
        (520, "server_error", True),
        (529, "server_error", True),
    ],
)
def test_the_status_decides_whatever_the_body_is(status: int, kind: str, retryable: bool) -> None:
    """A-49: an HTML page does not hide a 502."""
    error = http_error(status, {}, b"<html><style>b{}</style><h1>Oh  no</h1></html>", "p")

    assert (error.kind, error.retryable, error.status) == (kind, retryable, status)
    assert str(error) == f"p answered {status}: Oh no"


@pytest.mark.parametrize(
    "error",
    [
        '{"error": {"code": "insufficient_quota", "message": "x"}}',
        '{"error": {"type": "insufficient_quota", "message": "x"}}',
        '{"error": {"code": "1308", "message": "x"}}',
        '{"error": {"message": "You exceeded your current quota, please check your plan"}}',
        '{"error": "Insufficient Balance"}',
        '{"detail": "Your credit balance is too low"}',
    ],
)
@pytest.mark.parametrize("status", [400, 403, 429])
def test_quota_and_billing_are_not_retried(error: str, status: int) -> None:
    """A-54: minutes of useless retries elsewhere."""
    made = http_error(status, {}, error.encode(), "p")

    assert isinstance(made, RateLimited)
    assert (made.kind, made.retryable) == ("quota", False)


def test_a_quota_that_names_a_wait_is_a_rate_limit() -> None:
    """Gemini uses the words of a used-up quota for its limit per minute."""
    error = {"code": 429, "message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED"}
    waiting = {"error": {**error, "details": [{"retryDelay": "34s"}]}}

    made = http_error(429, {}, json.dumps(waiting).encode(), "p")
    plain = http_error(429, {}, json.dumps({"error": error}).encode(), "p")

    assert (made.kind, made.retryable, made.retry_after) == ("rate_limit", True, 34.0)
    assert (plain.kind, plain.retryable) == ("quota", False)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "one"}, "message": "two"}', "one"),
        (b'{"error": "one"}', "one"),
        (b'{"message": "one"}', "one"),
        (b'{"detail": "one"}', "one"),
        (b'{"detail": [{"msg": "one"}, {"msg": "two"}]}', "one"),
        (b'[{"error": {"message": "one"}}]', "one"),
        (b'data: {"error": {"message": "one"}}\n\n', "one"),
        (b"plain one", "plain one"),
        (b"", "no explanation"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"error": {"message": 7}}', '{"error": {"message": 7}}'),
    ],
)
def test_the_message_is_found_wherever_it_is(body: bytes, message: str) -> None:
    """A-72, A-74."""
    assert str(http_error(400, {}, body, "p")) == f"p answered 400: {message}"


def test_a_long_body_is_cut() -> None:
    """No megabytes in messages and logs."""
    assert len(str(http_error(500, {}, b"x" * 1_000_000, "p"))) < 600


@pytest.mark.parametrize(
    ("payload", "kind", "retryable"),
    [
        ({"code": "server_error", "message": "Provider disconnected"}, "provider_error", True),
        ({"message": "model is loading", "code": 503}, "server_error", True),
        ({"message": "bad tool schema", "code": 400}, "provider_error", False),
        ({"message": "slow", "code": "429"}, "rate_limit", True),
        ({"type": "overloaded_error", "message": "Overloaded"}, "server_error", True),
        ({"type": "invalid_api_key", "message": "no"}, "authentication", False),
        ("upstream connect error or disconnect", "provider_error", True),
        ("something odd", "provider_error", False),
        ("request 50012345 failed", "provider_error", False),
        ("status 502", "provider_error", True),
        ({}, "provider_error", False),
        (None, "provider_error", False),
        ([], "provider_error", False),
        ({"code": {"a": 1}, "message": {"message": "deep"}}, "provider_error", False),
    ],
)
def test_an_error_inside_an_answer_is_classified(payload: Any, kind: str, retryable: bool) -> None:
    """Decoding rule 3; a number must be a whole word to be a status (PI-2.2)."""
    error = body_error(payload, "p")

    assert (error.kind, error.retryable) == (kind, retryable)


@pytest.mark.parametrize(("verdict", "retryable"), [("true", True), ("false", False)])
def test_the_provider_has_the_last_word_on_retries(verdict: str, retryable: bool) -> None:
    """PI-93: ``x-should-retry``."""
    assert http_error(400 if retryable else 500, {"x-should-retry": verdict}, b"", "p").retryable is retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 99 Foo 2026"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read_in_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    """A-51, A-52: garbage falls back to our own backoff."""
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date_is_the_time_until_then() -> None:
    """A-52."""
    now = time.time()
    date = email.utils.formatdate(now + 90, usegmt=True)

    assert retry_after({"retry-after": date}, now=now) == pytest.approx(90, abs=1.5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please try again in 6.5s.", 6.5),
        ("Please try again in 20ms.", 0.02),
        ("Please try again in 1m30s.", 90.0),
        ("Please retry in 12 seconds", 12.0),
        ("Please try again later", None),
    ],
)
def test_a_wait_is_read_from_the_words_of_an_error(text: str, seconds: float | None) -> None:
    """OpenAI says it there only."""
    assert retry_after({}, text) == seconds


def test_backoff_doubles_and_is_capped() -> None:
    """PI-93: min(0.5 * 2^n, 8) seconds minus up to a quarter."""
    policy = RetryPolicy(retries=7, jitter=lambda: 0.0)
    lucky = RetryPolicy(retries=7, jitter=lambda: 1.0)

    assert [policy.delay(attempt, None) for attempt in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert lucky.delay(1, None) == 0.375
    assert policy.delay(8, None) is None


def test_the_wait_is_the_longer_of_ours_and_theirs_up_to_a_limit() -> None:
    """A-51: a provider that asks for an hour ends the answer; 0 means no limit."""
    policy = RetryPolicy(jitter=lambda: 0.0, max_retry_after=60)

    assert policy.delay(1, 0.1) == 0.5
    assert policy.delay(1, 30.0) == 30.0
    assert policy.delay(1, 61.0) is None
    assert policy.delay(1, 61.0, limit=0) == 61.0
    assert policy.delay(1, 61.0, limit=100) == 61.0
    assert policy.delay(1, 30.0, limit=10) is None


def test_the_errors_survive_pickling() -> None:
    """They travel between processes."""
    error = http_error(429, {"retry-after": "3"}, b"slow down", "p")
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), copy.retry_after) == (RateLimited, str(error), 3.0)
    assert isinstance(copy, LlmError)
    assert isinstance(http_error(401, {}, b"", "p"), AuthenticationFailed)


def test_nothing_a_provider_puts_into_an_error_makes_reading_it_fail() -> None:
    """Nested without end, numbers without end, wrong types."""
    for body in (
        b"[" * 100_000,
        b'{"error":' * 50_000,
        b'{"code": ' + b"9" * 5000 + b"}",
        b'{"error": [[[]]]}',
    ):
        assert http_error(400, {}, body, "p").status == 400
