"""The many wordings of "your request is longer than the context window".

Looked at before any retry: the same request would fail again, a shorter one may pass (C-38,
PI-95).
"""

from __future__ import annotations

import re

__all__ = ["OVERFLOW_WORDINGS", "is_overflow"]

OVERFLOW_WORDINGS: tuple[tuple[str, str], ...] = (
    # Who says it, and a pattern for what is said (matched without case).
    ("openai, azure, vllm, openrouter", r"maximum context length"),
    ("openai", r"context_length_exceeded"),
    ("openai", r"exceeds? the (?:model'?s )?context window"),
    ("anthropic", r"prompt is too long"),
    ("anthropic", r"exceeds? context limit"),
    ("bedrock", r"input is too long for (?:the )?requested model"),
    ("gemini", r"input token count .{0,60}exceeds the maximum"),
    ("xai", r"maximum prompt length is"),
    ("groq", r"reduce the length of the messages"),
    ("llama.cpp", r"exceeds? the available context size"),
    ("llama.cpp", r"exceed_context_size_error"),
    ("lm studio", r"(?:greater|larger|longer) than the context length"),
    ("lm studio", r"initial prompt is (?:greater|longer) than"),
    ("sglang", r"longer than the model'?s context length"),
    ("ollama", r"exceeded (?:the )?(?:max(?:imum)? )?context length"),
    ("moonshot", r"exceeded model token limit"),
    ("mistral", r"too large for model with \d+ maximum context length"),
    ("minimax", r"context window exceeds limit"),
    ("z.ai", r"model_context_window_exceeded"),
    ("litellm", r"contextwindowexceedederror"),
    ("litellm", r"context window (?:was )?exceeded"),
    ("dashscope", r"range of input length should be"),
    ("together", r"`?inputs`? tokens \+ `?max_new_tokens`? must be"),
    ("cohere", r"too many tokens: .{0,80}(?:limit|size)"),
    ("copilot", r"prompt token count of \d+ exceeds the limit"),
    ("several", r"(?:input|prompt|request) \w+ .{0,40}exceeds? .{0,40}context (?:length|size)"),
    ("several", r"(?:input|prompt|request) \w+ .{0,40}exceeds? .{0,40}(?:token|window) limit"),
    ("several", r"(?:input|prompt) (?:is )?too (?:long|large) .{0,60}(?:context|tokens)"),
    ("several", r"token limit exceeded"),
)  # fmt: skip

_THROTTLED = r"rate.?limit|too many requests|throttl|tokens per (?:min|day)|too many tokens, please wait"
"""Said of requests that came too fast, in words that look like the above."""

_ANY = "|".join(f"(?:{pattern})" for _, pattern in OVERFLOW_WORDINGS)
# Compiled (and kept by ``re``) with the first error: most processes never see one.


def is_overflow(text: str) -> bool:
    """Whether *text*, an error message or code, says that the context window is too small."""
    return re.search(_ANY, text, re.I | re.S) is not None and re.search(_THROTTLED, text, re.I) is None
