"""URLs as they may be shown."""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["public_url"]


def public_url(url: str) -> str:
    """*url* without user information, query and fragment, which may hold secrets."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "the URL"
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path
