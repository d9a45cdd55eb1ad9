"""What the constructors of the models share: keys, URLs, and what is known of a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from yiemagent.errors import ConfigurationError
from yiemagent.llm.usage import known_model
from yiemagent.model import ModelInfo
from yiemagent.value_checks import check_count, check_number, check_type

__all__ = [
    "base_url_of",
    "endpoint",
    "find_key",
    "model_info",
    "model_name",
    "request_defaults",
    "split_base_url",
    "stream_mode",
]


def find_key(api_key: str | None, variables: Sequence[str]) -> str:
    """The key that is given, or else the first of *variables* that is set; stripped (C-41).

    Raises:
        ConfigurationError: It is no text.
    """
    if api_key is not None and not isinstance(api_key, str):
        raise ConfigurationError(f"api_key must be a str, got {type(api_key).__name__}")
    if api_key is None:
        api_key = next((value for name in variables if (value := os.environ.get(name))), "")
    return api_key.strip()


def split_base_url(base_url: str) -> SplitResult:
    """The parts of *base_url*; it has a host.

    Raises:
        ConfigurationError: It is no absolute http or https URL.
    """
    try:
        parts = urlsplit(base_url.strip())
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts
    except (ValueError, AttributeError):
        pass
    raise ConfigurationError(
        f"base_url must be an http or https URL such as http://127.0.0.1:1234/v1, got {base_url!r}"
    )


def endpoint(base_url: str, path: str) -> str:
    """*base_url* with *path* at its end, unless it ends so already (C-45).

    Raises:
        ConfigurationError: It is no absolute http or https URL.
    """
    parts = split_base_url(base_url)
    full = parts.path.rstrip("/")
    if not full.endswith(path):
        full += path
    return urlunsplit((parts.scheme, parts.netloc, full, parts.query, ""))


def model_info(model: str, provider: str, api: str, given: Mapping[str, Any] | None) -> ModelInfo:
    """What the price table and the user know of *model*.

    Raises:
        ConfigurationError: *given* names no field of ``ModelInfo``.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ConfigurationError(f"info must be a mapping of fields of ModelInfo, got {given!r}")
    names = {field.name for field in fields(ModelInfo)}
    for name in given or {}:
        if name not in names:
            raise ConfigurationError(f"{name!r} is no field of ModelInfo; known: {', '.join(sorted(names))}")
    return ModelInfo(**{**known_model(model), "id": model, "provider": provider, "api": api, **(given or {})})


def model_name(model: str) -> str:
    """*model*, after a look at it.

    Raises:
        ConfigurationError: It is no text, or blank.
    """
    if not isinstance(model, str) or not model.strip():
        raise ConfigurationError(f"model must be the name of a model, got {model!r}")
    return model


def base_url_of(given: str | None, variable: str, default: str) -> str:
    """The base URL that is given, or else that of the environment *variable*, or else *default*; stripped.

    Raises:
        ConfigurationError: It is no text.
    """
    if given is not None and not isinstance(given, str):
        raise ConfigurationError(f"base_url must be a str, got {given!r}")
    return (given or os.environ.get(variable) or default).strip()


def request_defaults(
    temperature: float | None, max_tokens: int | None, extra_body: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What each request of a model says unless its caller says otherwise.

    Raises:
        ConfigurationError: One of them is of a type that no provider takes.
    """
    check_number("temperature", temperature)
    check_count("max_tokens", max_tokens)
    check_type("extra_body", extra_body, Mapping)
    return {"temperature": temperature, "max_tokens": max_tokens, "extra_body": extra_body}


def stream_mode(stream: bool | str) -> str:
    """``auto``, ``always`` or ``never``; a bool says always or never.

    Raises:
        ConfigurationError: It is none of these.
    """
    if isinstance(stream, bool):
        return "always" if stream else "never"
    if stream not in ("auto", "always", "never"):
        raise ConfigurationError(f'stream must be "auto", "always", "never" or a bool, got {stream!r}')
    return stream
