"""How a model is reached over HTTP: limits, retries, TLS, proxies."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypedDict

from yiemagent.data_class import dataclass
from yiemagent.errors import ConfigurationError
from yiemagent.llm.retry import RetryPolicy
from yiemagent.value_checks import check_seconds, check_type

__all__ = ["HttpKeywords", "HttpOptions", "http_options"]


_SECONDS = ("connect_timeout", "first_byte_timeout", "idle_timeout", "timeout")
_OWN_KEYWORDS = ("api_key", "base_url", "extra_body", "max_tokens", "stream", "temperature")
"""Keywords that models have beside these, for guesses at misspelt ones."""
_KINDS: dict[str, tuple[type, ...]] = {
    "retry": (RetryPolicy,),
    "headers": (Mapping,),
    "verify": (bool, str),
    "cert": (str, tuple),
    "proxies": (Mapping,),
}
_KEYWORDS = (*_SECONDS, *_KINDS, "max_retries")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How a model is reached; seconds, None = no limit."""

    connect_timeout: float | None = 10.0
    """From the name to the end of the TLS handshake."""
    first_byte_timeout: float | None = 600.0
    """From the request to the first byte of the answer: for a plain answer all of its generation."""
    idle_timeout: float | None = 300.0
    """Between two events of a stream; comments do not count. Local models think long."""
    timeout: float | None = None
    """For one attempt from begin to end."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    headers: Mapping[str, str] | None = None
    """Sent with every request."""
    verify: bool | str | None = None
    cert: str | tuple[str, str] | None = None
    proxies: Mapping[str, str] | None = None
    """The last three as for ``HttpClient``."""

    def __post_init__(self) -> None:
        for name in _SECONDS:
            value = getattr(self, name)
            check_seconds(name, value)
            if value is not None and value > threading.TIMEOUT_MAX:
                object.__setattr__(self, name, None)  # Longer than a socket can wait: no limit.
        for name, kinds in _KINDS.items():
            check_type(name, getattr(self, name), *kinds)


if TYPE_CHECKING:

    class HttpKeywords(TypedDict, total=False):
        """The same as keywords of a model's constructor, and ``max_retries``."""

        connect_timeout: float | None
        first_byte_timeout: float | None
        idle_timeout: float | None
        timeout: float | None
        max_retries: int
        """How often a failed request is sent again; short for a ``retry`` policy."""
        retry: RetryPolicy
        headers: Mapping[str, str] | None
        verify: bool | str | None
        cert: str | tuple[str, str] | None
        proxies: Mapping[str, str] | None

else:
    HttpKeywords = dict  # To make a TypedDict, each of its annotations is compiled.


def http_options(keywords: Mapping[str, Any], owner: str) -> HttpOptions:
    """The options that the keywords of *owner*'s constructor stand for.

    Raises:
        ConfigurationError: There is no such keyword; the message has a guess.
    """
    values = dict(keywords)
    for name in values:
        if name not in _KEYWORDS:
            import difflib

            near = difflib.get_close_matches(name, [*_OWN_KEYWORDS, *_KEYWORDS], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(f"{owner} got an unknown keyword {name!r}{hint}")
    retries = values.pop("max_retries", None)
    if retries is not None and values.get("retry") is None:
        values["retry"] = RetryPolicy(retries=retries)
    elif values.get("retry") is None:
        values.pop("retry", None)
    return HttpOptions(**values)
