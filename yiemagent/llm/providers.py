"""Models by a string: ``"openai:gpt-5-mini"``, ``"ollama:llama3.2:3b"``.

A provider is a row of data: where it is, and which class speaks to it.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

from yiemagent.errors import ConfigurationError
from yiemagent.llm.usage import known_model
from yiemagent.model import Llm

__all__ = ["PROVIDERS", "Provider", "model_from_string"]

_CHAT = "yiemagent.llm.openai_chat:OpenAIChat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Where a provider's models are."""

    base_url: str | None = None
    """None: the class knows, or the environment must say."""
    base_url_envs: tuple[str, ...] = ()
    """Variables that name another address; the first that is set counts."""
    path: str = ""
    """Put behind an address from the environment that has no path of its own."""
    quirks: bool = True
    """Whether the provider's name says what it wants; otherwise its host does."""
    model_class: str = _CHAT
    """``module:name`` of the class that is made; loaded when it is."""


PROVIDERS: dict[str, Provider] = {
    "openai": Provider(quirks=False),
    "openai-responses": Provider(quirks=False, model_class="yiemagent.llm.responses:OpenAIResponses"),
    "anthropic": Provider(quirks=False, model_class="yiemagent.llm.anthropic:AnthropicMessages"),
    "azure": Provider(base_url_envs=("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"), path="/openai/v1"),
    "openrouter": Provider(base_url="https://openrouter.ai/api/v1"),
    "deepseek": Provider(base_url="https://api.deepseek.com/v1"),
    "mistral": Provider(base_url="https://api.mistral.ai/v1"),
    "gemini": Provider(base_url="https://generativelanguage.googleapis.com/v1beta/openai"),
    "moonshot": Provider(base_url="https://api.moonshot.ai/v1"),
    "groq": Provider(base_url="https://api.groq.com/openai/v1"),
    "xai": Provider(base_url="https://api.x.ai/v1"),
    "together": Provider(base_url="https://api.together.xyz/v1"),
    "fireworks": Provider(base_url="https://api.fireworks.ai/inference/v1"),
    "cerebras": Provider(base_url="https://api.cerebras.ai/v1"),
    "dashscope": Provider(base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    "zai": Provider(base_url="https://api.z.ai/api/paas/v4"),
    "litellm": Provider(base_url="http://127.0.0.1:4000/v1", base_url_envs=("LITELLM_BASE_URL",)),
    "lmstudio": Provider(base_url="http://127.0.0.1:1234/v1", base_url_envs=("LMSTUDIO_BASE_URL",)),
    "ollama": Provider(
        base_url="http://127.0.0.1:11434/v1", base_url_envs=("OLLAMA_BASE_URL", "OLLAMA_HOST"), path="/v1"
    ),
    "vllm": Provider(base_url="http://127.0.0.1:8000/v1", base_url_envs=("VLLM_BASE_URL",)),
    "llamacpp": Provider(base_url="http://127.0.0.1:8080/v1", base_url_envs=("LLAMACPP_BASE_URL",)),
    "sglang": Provider(base_url="http://127.0.0.1:30000/v1", base_url_envs=("SGLANG_BASE_URL",)),
}


def model_from_string(text: str, **options: Any) -> Llm:
    """The model that ``"provider:model"`` names.

    Args:
        options: For the class that is made, such as ``api_key`` or ``temperature``.

    Raises:
        ConfigurationError: The provider is unknown, or its address is; the message says what to do.
    """
    name, colon, model = text.strip().partition(":")
    name = name.strip().lower()
    model = model.strip()
    provider = PROVIDERS.get(name)
    if not colon or provider is None or not model:
        raise ConfigurationError(_unknown(text, name, colon, model, provider))
    if provider.quirks:
        options["quirks"] = {"provider": name, **(options.get("quirks") or {})}
    if options.get("base_url") is None and (provider.base_url or provider.base_url_envs):
        options["base_url"] = _base_url(name, provider)
    module, _, class_name = provider.model_class.partition(":")
    make = getattr(importlib.import_module(module), class_name)
    llm: Llm = make(model, **options)
    return llm


def _base_url(name: str, provider: Provider) -> str:
    given = next((value for env in provider.base_url_envs if (value := os.environ.get(env))), "").strip()
    if not given:
        if provider.base_url is None:
            wanted = " or ".join(provider.base_url_envs)
            raise ConfigurationError(f"{name} has no address of its own: set {wanted}, or give base_url=")
        return provider.base_url
    if "://" not in given:
        given = f"http://{given}"
    if not given.partition("://")[2].rstrip("/").partition("/")[2]:
        given = given.rstrip("/") + provider.path
    return given


def _unknown(text: str, name: str, colon: str, model: str, provider: Provider | None) -> str:
    if provider is not None:
        return f'model {text!r} names no model; write "{name}:<model>"'
    if not colon and known_model(text):
        family = {"c": "anthropic", "d": "deepseek", "m": "mistral", "k": "moonshot"}
        guess = "gemini" if text.startswith("gemini") else family.get(text[:1], "openai")
        return f'model {text!r} names no provider; did you mean "{guess}:{text}"?'
    import difflib

    near = difflib.get_close_matches(name, PROVIDERS, n=1)
    hint = f'did you mean "{near[0]}:{model or "<model>"}"?' if near else f"known: {', '.join(PROVIDERS)}"
    return f'{name!r} is no provider; write "provider:model"; {hint}'
