"""Tokens, calibrated by what providers report."""

from __future__ import annotations

import pytest

from yiemagent.context.tokens import TokenCounter
from yiemagent.errors import ConfigurationError
from yiemagent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    OpaqueContent,
    TextContent,
    ToolCall,
    Usage,
    UserMessage,
)


def usage(tokens, **more):
    return Usage(input_tokens=tokens, output_tokens=5, **more)


def test_four_characters_are_a_token_before_anything_is_known():
    """CX-2."""
    counter = TokenCounter()

    assert counter.measure(UserMessage("x" * 400)) == 400
    assert counter.estimate(400) == 100


def test_a_report_counts_what_no_message_shows():
    """System prompt and tools are in the provider's number."""
    counter = TokenCounter()
    counter.learn(400, usage(1100))

    assert counter.estimate(400) == 1100
    assert counter.estimate(800) == 1200


def test_cached_tokens_are_part_of_the_prompt():
    """The provider reads them, whatever they cost."""
    counter = TokenCounter()
    counter.learn(400, usage(100, cache_read_tokens=900, cache_write_tokens=50))

    assert counter.estimate(400) == 1050


def test_two_reports_tell_the_characters_of_a_token():
    """A dense language: one character is one token."""
    counter = TokenCounter()
    counter.learn(1_000, usage(3_000))
    for step in range(1, 12):
        counter.learn(1_000 + step * 1_000, usage(3_000 + step * 1_000))

    assert counter.units_per_token == pytest.approx(1.0, abs=0.01)
    assert counter.estimate(112_000) == pytest.approx(114_000, rel=0.01)


def test_small_differences_teach_nothing():
    """The ratio of two small numbers is noise."""
    counter = TokenCounter()
    counter.learn(1_000, usage(500))
    counter.learn(1_100, usage(501))

    assert counter.units_per_token == 4.0
    assert counter.estimate(1_100) == 501


def test_small_differences_add_up():
    """Many short turns calibrate like one long one."""
    counter = TokenCounter()
    for step in range(20):
        counter.learn(1_000 + step * 100, usage(500 + step * 100))

    assert counter.units_per_token < 4.0


def test_the_ratio_follows_a_conversation_that_changes():
    """English first, then a dense language: the newest differences count."""
    counter = TokenCounter()
    units, tokens = 100_000, 25_000
    counter.learn(units, usage(tokens))
    for _ in range(8):
        units, tokens = units + 1_000, tokens + 1_000
        counter.learn(units, usage(tokens))

    assert counter.units_per_token == pytest.approx(1.0, abs=0.05)
    counter.learn(units + 8_000, usage(tokens + 2_000))
    assert counter.units_per_token == pytest.approx(2.5, abs=0.05)


@pytest.mark.parametrize(
    "report",
    [None, Usage(), Usage(output_tokens=7), usage(0), usage(-5), usage(1)],
)
def test_reports_without_numbers_or_sense_are_left_out(report):
    """Providers that report nothing, zero, or one token for 10,000 characters."""
    counter = TokenCounter()
    counter.learn(10_000, report)

    assert counter.estimate(10_000) == 2_500


def test_an_absurd_ratio_is_left_out():
    """A model with another tokenizer answers next: the anchor moves, the ratio stays."""
    counter = TokenCounter()
    counter.learn(1_000, usage(2_000))
    counter.learn(1_001, usage(9_000))

    assert counter.units_per_token == 4.0
    assert counter.estimate(1_001) == 9_000


def test_a_shorter_prompt_is_estimated_below_the_last_report():
    """After a compaction, before the next report."""
    counter = TokenCounter()
    counter.learn(40_000, usage(11_000))

    assert counter.estimate(4_000) == 2_000
    assert TokenCounter().estimate(0) == 0


def test_an_estimate_is_never_negative():
    """However far the prompt shrinks."""
    counter = TokenCounter()
    counter.learn(100_000, usage(10_000))

    assert counter.estimate(0) == 0


def test_a_callable_counts_the_texts():
    """`count_tokens` takes anything that counts."""
    counter = TokenCounter(lambda text: len(text.split()))
    message = AssistantMessage((TextContent("one two three"), ToolCall("1", "look", {"q": "a b"})))

    assert counter.measure(message) == 3 + 2
    assert counter.measure(CustomMessage("note", "one two")) == 2
    assert counter.measure(AssistantMessage((OpaqueContent({"a": 1}), ImageContent(url="u")))) == 1 + 25
    assert counter.measure(CustomMessage("note", 5)) == 0
    assert counter.estimate(1_000) == 1_000


def test_a_counted_conversation_is_anchored_by_reports_too():
    """The hook does not see system prompt and tools either."""
    counter = TokenCounter(lambda text: len(text.split()))
    counter.learn(100, usage(900))

    assert counter.estimate(150) == 950


class _Encoding:
    def encode(self, text, disallowed_special="all"):
        if "<|end|>" in text:
            raise ValueError("text looks like a control token")
        return text.split()

    def encode_ordinary(self, text):
        return text.split()


def test_an_encoding_counts_text_that_looks_like_its_control_tokens():
    """tiktoken's `encode` refuses such text, and tool output may contain it."""
    assert TokenCounter(_Encoding()).measure(UserMessage("a <|end|> b")) == 3


@pytest.mark.parametrize("bad", [lambda text: 1 / 0, lambda text: None, lambda text: -1, lambda text: True])
def test_a_counter_that_fails_is_replaced_by_the_estimate(bad, caplog):
    """A telemetry-like hook never breaks a run; said once."""
    counter = TokenCounter(bad)

    assert counter.measure(UserMessage("x" * 400)) == 100
    assert counter.measure(UserMessage("x" * 400)) == 100
    assert caplog.text.count("count_tokens raised") == 1


@pytest.mark.parametrize("bad", [0, -1, float("nan")])
def test_an_absurd_guess_is_refused(bad):
    """Bad input is a clear error."""
    with pytest.raises(ConfigurationError, match="chars_per_token"):
        TokenCounter(chars_per_token=bad)


def test_something_that_counts_nothing_is_refused():
    """Bad input is a clear error."""
    with pytest.raises(ConfigurationError, match="int"):
        TokenCounter(5)


def test_a_tiktoken_encoding_counts():
    """The real thing, with an alphabet of bytes so that nothing is downloaded."""
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        "bytes",
        pat_str=r"\S+|\s+",
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={"<|end|>": 256},
    )

    assert TokenCounter(encoding).measure(UserMessage("añ <|end|>")) == len("añ <|end|>".encode())
