"""What Chat Completions servers want differently, as data: by host, by model, and as learned.

A new server needs a row here, not a branch elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, TypeAlias

from yiemagent.data_class import dataclass, replace
from yiemagent.errors import ConfigurationError
from yiemagent.llm.replay import IdRule
from yiemagent.llm.settings import split_base_url

__all__ = ["Quirks", "ReasoningStyle", "learned", "named_quirks", "quirks_for"]

ReasoningStyle: TypeAlias = Literal[
    "effort", "openrouter", "thinking", "enable_thinking", "template", "gemini", "none"
]
"""How a thinking level is asked for; see ``reasoning_params``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """One server's wishes. The defaults suit a server that nothing is known about."""

    provider: str = "openai-compatible"
    """Its name; messages with another one are replayed without what is private to theirs."""
    auth_header: str = "Authorization"
    """``Authorization`` carries ``Bearer <key>``, any other header the bare key."""
    needs_key: bool = False
    """Whether asking without a key is pointless."""
    key_envs: tuple[str, ...] = ("OPENAI_API_KEY",)
    """Where the key is looked for when none is given; the first that is set counts."""
    system_role: Literal["system", "developer"] = "system"
    max_tokens_field: str = "max_tokens"
    cache_key_field: str | None = None
    """Where the session id goes, so that requests of a session meet the same cache."""
    stream_usage: bool = True
    """Whether ``stream_options.include_usage`` asks for usage; without it local servers send none."""
    reasoning: ReasoningStyle = "effort"
    replay_reasoning: Literal["tool_calls", "always", "never"] = "tool_calls"
    """Which of its own answers get their reasoning back (A-62)."""
    reasoning_field: str | None = None
    """Field for replayed reasoning; None: the one it came in."""
    empty_reasoning: bool = False
    """Whether an answer without reasoning needs the field all the same."""
    merge_users: bool = True
    """Neighbouring user messages become one (C-07: chat templates want roles to alternate)."""
    line_after_results: str | None = None
    """What an assistant says between tool results and a user message, where that is refused."""
    result_name: bool = False
    """Whether a tool result names its tool."""
    empty_content: Literal["null", "empty", "omit"] = "null"
    """The content of an answer that is only tool calls (C-11)."""
    empty_tools: bool = False
    """Whether ``tools: []`` is wanted when the history has calls and the request no tools."""
    call_ids: IdRule = "openai"
    think_tags: bool = False
    """Whether reasoning comes as a leading ``<think>`` block of the text (A-37)."""


_LINE = "I have processed the tool results."
_TOLERANT: Mapping[str, Any] = {"merge_users": False}
_NAMED: dict[str, Mapping[str, Any]] = {
    "openai": {
        **_TOLERANT,
        "needs_key": True,
        "max_tokens_field": "max_completion_tokens",
        "cache_key_field": "prompt_cache_key",
        "replay_reasoning": "never",
    },
    "azure": {
        "key_envs": ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
        **_TOLERANT,
        "needs_key": True,
        "auth_header": "api-key",
        "max_tokens_field": "max_completion_tokens",
        "replay_reasoning": "never",
    },
    "openrouter": {
        "key_envs": ("OPENROUTER_API_KEY",),
        **_TOLERANT,
        "needs_key": True,
        "reasoning": "openrouter",
        "replay_reasoning": "always",
    },
    "deepseek": {
        "key_envs": ("DEEPSEEK_API_KEY",),
        "needs_key": True,
        "reasoning": "thinking",
        "reasoning_field": "reasoning_content",
        "empty_reasoning": True,
        "replay_reasoning": "always",
    },
    "mistral": {
        "key_envs": ("MISTRAL_API_KEY",),
        "needs_key": True,
        "call_ids": "mistral",
        "stream_usage": False,
        "result_name": True,
        "line_after_results": _LINE,
        "replay_reasoning": "never",
        "reasoning": "none",
    },
    "gemini": {
        "key_envs": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "needs_key": True,
        "reasoning": "gemini",
        "call_ids": "any",
    },
    "moonshot": {
        "key_envs": ("MOONSHOT_API_KEY", "KIMI_API_KEY"),
        "needs_key": True,
        "reasoning": "thinking",
        "reasoning_field": "reasoning_content",
        "call_ids": "any",
    },
    "groq": {
        "key_envs": ("GROQ_API_KEY",),
        "needs_key": True,
        "max_tokens_field": "max_completion_tokens",
        "replay_reasoning": "never",
    },
    "xai": {"key_envs": ("XAI_API_KEY",), "needs_key": True},
    "together": {"key_envs": ("TOGETHER_API_KEY",), "needs_key": True},
    "fireworks": {"key_envs": ("FIREWORKS_API_KEY",), "needs_key": True},
    "cerebras": {
        "key_envs": ("CEREBRAS_API_KEY",),
        "needs_key": True,
        "max_tokens_field": "max_completion_tokens",
    },
    "dashscope": {"key_envs": ("DASHSCOPE_API_KEY",), "needs_key": True, "reasoning": "enable_thinking"},
    "zai": {"key_envs": ("ZAI_API_KEY",), "needs_key": True, "reasoning": "thinking"},
    "litellm": {"key_envs": ("LITELLM_API_KEY",), **_TOLERANT},
    "lmstudio": {"key_envs": ("LMSTUDIO_API_KEY",), "call_ids": "any"},
    "ollama": {"key_envs": ("OLLAMA_API_KEY",), "call_ids": "any"},
    "vllm": {"key_envs": ("VLLM_API_KEY",), "reasoning": "template", "call_ids": "any"},
    "sglang": {"key_envs": ("SGLANG_API_KEY",), "reasoning": "template", "call_ids": "any"},
    "llamacpp": {"key_envs": ("LLAMACPP_API_KEY",), "reasoning": "template", "call_ids": "any"},
}

_DOMAINS: Mapping[str, str] = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure",
    "cognitiveservices.azure.com": "azure",
    "services.ai.azure.com": "azure",
    "openrouter.ai": "openrouter",
    "deepseek.com": "deepseek",
    "mistral.ai": "mistral",
    "googleapis.com": "gemini",
    "moonshot.ai": "moonshot",
    "moonshot.cn": "moonshot",
    "groq.com": "groq",
    "x.ai": "xai",
    "together.xyz": "together",
    "together.ai": "together",
    "fireworks.ai": "fireworks",
    "cerebras.ai": "cerebras",
    "aliyuncs.com": "dashscope",
    "z.ai": "zai",
    "bigmodel.cn": "zai",
}
"""Whose servers are at a domain and below it."""

_MODELS: tuple[tuple[tuple[str, ...], str, Mapping[str, Any]], ...] = (
    # Providers, model, what is different for it.
    (("openai", "azure"), r"(o\d|gpt-5(?!.*chat)|codex)", {"system_role": "developer"}),
)

_NO_REASONING: Mapping[str, Any] = {"replay_reasoning": "never", "empty_reasoning": False}
_LESSONS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    # A server's complaint (status 400 or 422), and what to do differently from then on.
    (r"max_completion_tokens.{0,80}instead", {"max_tokens_field": "max_completion_tokens"}),
    (
        r"(?:unknown|unrecognized|extra|not permitted)\b.{0,60}max_completion_tokens",
        {"max_tokens_field": "max_tokens"},
    ),
    (
        r"max_completion_tokens.{0,60}(?:unknown|unrecognized|extra|not permitted)",
        {"max_tokens_field": "max_tokens"},
    ),
    (r"stream_options", {"stream_usage": False}),
    (r"developer.{0,60}(?:role|not one of|unsupported)|role.{0,60}developer", {"system_role": "system"}),
    (r"prompt_cache_key", {"cache_key_field": None}),
    (
        r"reasoning_content.{0,80}(?:must be|missing|required)",
        {"replay_reasoning": "always", "empty_reasoning": True, "reasoning_field": "reasoning_content"},
    ),
    (r"(?:unknown|extra|unsupported|unrecognized)\b.{0,60}reasoning", _NO_REASONING),
    (r"reasoning\w*['\"]?\W.{0,60}(?:unknown|extra|not permitted|unsupported)", _NO_REASONING),
    (r"roles must alternate", {"merge_users": True}),
    (r"unexpected role .?user.? after role .?tool", {"line_after_results": _LINE}),
    (r"must be a-z, A-Z, 0-9, with a length of 9", {"call_ids": "mistral"}),
)


def named_quirks(provider: str, model: str = "") -> Quirks:
    """The quirks of *provider*, an unknown one's included, for *model*."""
    quirks = replace(Quirks(), **{**_NAMED.get(provider, {}), "provider": provider})
    for providers, models, changes in _MODELS:
        if provider in providers and re.match(models, model.rpartition("/")[2]):
            quirks = replace(quirks, **changes)
    return quirks


def _provider_at(host: str) -> str:
    while host:
        if host in _DOMAINS:
            return _DOMAINS[host]
        host = host.partition(".")[2]
    return "openai-compatible"


def quirks_for(base_url: str, model: str, changes: Mapping[str, Any] | None = None) -> Quirks:
    """The quirks of the server at *base_url*, as its host says, with *changes* by the user.

    Raises:
        ConfigurationError: A change names no field of ``Quirks``, or the URL is none.
    """
    if changes is not None and not isinstance(changes, Mapping):
        raise ConfigurationError(f"quirks must be a mapping of fields of Quirks, got {changes!r}")
    provider = _provider_at((split_base_url(base_url).hostname or "").lower())
    changes = dict(changes or {})
    known = {field.name for field in fields(Quirks)}
    for name in changes:
        if name not in known:
            raise ConfigurationError(f"{name!r} is no quirk; known: {', '.join(sorted(known))}")
    return replace(named_quirks(str(changes.get("provider", provider)), model), **changes)


def learned(quirks: Quirks, complaint: str) -> Quirks | None:
    """*quirks* after a server's complaint about a request; None when it teaches nothing new.

    Source: C-33, C-43, C-49.
    """
    for pattern, changes in _LESSONS:
        if re.search(pattern, complaint, re.I | re.S):
            wiser = replace(quirks, **changes)
            if wiser != quirks:
                return wiser
    return None
