"""From sizes to tokens, by what providers report.

A provider says after each answer how many tokens the whole prompt was: system prompt, tools
and all. The next request is that number plus what was added since, and how many characters
make a token follows from two such reports.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from yiemagent.context.size import block_size, estimate_tokens, json_text, message_size
from yiemagent.errors import ConfigurationError
from yiemagent.messages import Message, OpaqueContent, ReasoningContent, TextContent, ToolCall, Usage

__all__ = ["CountTokens", "Encoding", "TokenCounter"]

logger = logging.getLogger(__name__)


class Encoding(Protocol):
    """A tokenizer with an ``encode``; tiktoken's encodings are such."""

    def encode(self, text: str) -> Any: ...


CountTokens: TypeAlias = Callable[[str], int] | Encoding

_LEARN_FROM = 250
"""Tokens by which two prompts must differ before their ratio says anything."""
_FACTOR = 10.0
"""How far a report may be from the first guess; beyond it the report is wrong, not the guess."""


class TokenCounter:
    """Estimates the tokens of a prompt, and calibrates itself by usage.

    One per conversation; not shared between threads.

    Args:
        count_tokens: Counts the tokens of a text: a callable, or an encoding such as
            ``tiktoken.get_encoding("o200k_base")``. None counts characters. One that raises or
            returns something else than a number is logged once and no longer used.
        chars_per_token: First guess for the characters of a token, without *count_tokens*.

    Raises:
        ConfigurationError: *chars_per_token* is not positive, or *count_tokens* is neither.
    """

    __slots__ = ("_anchor", "_base", "_count", "_failed", "_guess", "_per_token")

    def __init__(self, count_tokens: CountTokens | None = None, *, chars_per_token: float = 4.0) -> None:
        if not chars_per_token > 0:
            raise ConfigurationError(f"chars_per_token must be positive, got {chars_per_token!r}")
        self._count = None if count_tokens is None else _text_counter(count_tokens)
        self._guess = float(chars_per_token) if count_tokens is None else 1.0
        self._failed = False
        self._per_token = self._guess
        self._anchor: tuple[int, int] | None = None  # (units, tokens) of the last reported prompt
        self._base: tuple[int, int] | None = None  # the report that the ratio is measured from

    @property
    def units_per_token(self) -> float:
        """Characters (or counted tokens, with ``count_tokens``) that make one real token."""
        return self._per_token

    def measure(self, message: Message) -> int:
        """Units of one message: characters, or tokens as ``count_tokens`` says."""
        if self._count is None:
            return message_size(message)
        if not self._failed:
            try:
                return _counted(message, self._count)
            except Exception:
                logger.exception("count_tokens raised or gave no number; estimating from now on")
                self._failed = True
        return estimate_tokens(message_size(message))

    def estimate(self, units: int) -> int:
        """Tokens of a prompt whose messages are *units* long; never negative."""
        if self._anchor is None:
            return max(0, int(units / self._per_token))
        known_units, known_tokens = self._anchor
        return max(0, known_tokens + int((units - known_units) / self._per_token))

    def learn(self, units: int, usage: Usage | None) -> None:
        """Take the report of a provider on a prompt whose messages were *units* long.

        Reports without numbers, and ones that cannot be true, are left out.
        """
        tokens = _prompt_tokens(usage)
        if tokens is None or units < 0 or units / tokens > self._guess * _FACTOR:
            return
        self._anchor = (units, tokens)
        if self._base is None:
            self._base = self._anchor
            return
        more_units, more_tokens = units - self._base[0], tokens - self._base[1]
        if abs(more_tokens) < _LEARN_FROM:
            return
        self._base = self._anchor
        ratio = more_units / more_tokens
        if self._guess / _FACTOR <= ratio <= self._guess * _FACTOR:
            self._per_token = (self._per_token + ratio) / 2

    def learn_overflow(self, units: int, window: int) -> None:
        """Take it that a prompt of *units* did not fit into *window* tokens (case C-38)."""
        if units <= 0 or self.estimate(units) >= window:
            return
        self._anchor = self._base = (units, window)
        self._per_token = max(self._guess / _FACTOR, min(self._per_token, units / window))


def _prompt_tokens(usage: Usage | None) -> int | None:
    if usage is None or not (usage.input_tokens or usage.cache_read_tokens):
        return None
    parts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    total = sum(part for part in parts if part is not None)
    return total if total > 0 else None


def _text_counter(count_tokens: CountTokens) -> Callable[[str], int]:
    # tiktoken's `encode` refuses texts that look like its control tokens; this one does not.
    ordinary = getattr(count_tokens, "encode_ordinary", None) or getattr(count_tokens, "encode", None)
    if callable(ordinary):
        return lambda text: len(ordinary(text))
    if callable(count_tokens):
        return count_tokens
    raise ConfigurationError(
        f"count_tokens must be callable or have an encode method, got {type(count_tokens).__name__}"
    )


def _counted(message: Message, count: Callable[[str], int]) -> int:
    content = getattr(message, "content", None)
    if isinstance(content, str):
        return _checked(count(content))
    blocks = content if isinstance(content, (tuple, list)) else ()
    return sum(_counted_block(block, count) for block in blocks)


def _counted_block(block: object, count: Callable[[str], int]) -> int:
    text: str | None = None
    if isinstance(block, (TextContent, ReasoningContent)):
        text = block.text
    elif isinstance(block, ToolCall):
        text = json_text(block.arguments)
    elif isinstance(block, OpaqueContent):
        text = json_text(block.data)
    if text is not None:
        return _checked(count(text))
    return estimate_tokens(block_size(block))


def _checked(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise TypeError(f"count_tokens must return a number of tokens, got {number!r}")
    return number
