"""What belongs to one server: its origin, and whether that is this machine."""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["is_loopback", "origin_of"]

_DEFAULT_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> str:
    """Scheme, host and port of *url*, in lower case and without a default port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port and parts.port != _DEFAULT_PORTS.get(parts.scheme) else ""
    return f"{parts.scheme}://{host}{port}"


def is_loopback(url: str) -> bool:
    """Whether the host of *url* is this machine by its very name."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.") or host.endswith(".localhost")
