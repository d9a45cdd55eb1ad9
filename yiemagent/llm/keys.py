"""The headers that carry an API key to an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Mapping

from yiemagent.llm.errors import make_error
from yiemagent.llm.quirks import Quirks

__all__ = ["key_headers"]


def key_headers(quirks: Quirks, api_key: str, source: str) -> Mapping[str, str]:
    """How this server wants *api_key*; nothing when there is none and none is needed.

    Raises:
        LlmError: Asking *source* without a key is pointless.
    """
    if not api_key:
        if quirks.needs_key:
            wanted = " or ".join(quirks.key_envs)
            raise make_error("authentication", f"{source} needs an API key: pass api_key= or set {wanted}")
        return {}
    if quirks.auth_header == "Authorization":
        return {"Authorization": f"Bearer {api_key}"}
    return {quirks.auth_header: api_key}
