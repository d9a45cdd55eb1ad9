"""What differs between the protocol versions, as data: names, order, and who speaks how.

*Modern* versions (2026-07-28 on) have no handshake: each request says its version and the
client's capabilities in ``_meta``. *Legacy* versions shake hands with ``initialize`` and keep a
session. *Plain* is the Julia design's dialect: straight to ``tools/list``, ``sessionId`` in the
params, and an empty cursor ends a list (decision 31).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from yiemagent.errors import ConfigurationError

__all__ = [
    "CAPABILITIES_META",
    "CLIENT_INFO_META",
    "CLIENT_VERSION",
    "Era",
    "LATEST",
    "LATEST_LEGACY",
    "LEGACY_VERSIONS",
    "LOG_LEVELS",
    "LOG_LEVEL_META",
    "MODERN_VERSIONS",
    "PLAIN",
    "SERVER_INFO_META",
    "VERSIONS",
    "VERSION_META",
    "default_client_info",
    "era_of",
    "is_modern",
    "newest_common",
    "wanted_eras",
]

LEGACY_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)
VERSIONS: Final = LEGACY_VERSIONS + MODERN_VERSIONS
LATEST: Final = MODERN_VERSIONS[-1]
LATEST_LEGACY: Final = LEGACY_VERSIONS[-1]

CLIENT_VERSION: Final = "0.1.0"
"""Of this package. A constant, because reading the metadata costs more than connecting."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

VERSION_META: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_META: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO_META: Final = "io.modelcontextprotocol/clientInfo"
SERVER_INFO_META: Final = "io.modelcontextprotocol/serverInfo"
LOG_LEVEL_META: Final = "io.modelcontextprotocol/logLevel"


@dataclass(frozen=True, slots=True)
class Era:
    """How one version is spoken."""

    version: str
    """As on the wire; empty in the plain dialect, which has none."""
    handshake: bool = False
    """``initialize`` opens a session; ``ping``, ``logging/setLevel``, ``resources/subscribe`` exist."""
    request_meta: bool = False
    """Each request carries version, capabilities and client info; ``input_required`` results exist."""
    session_in_params: bool = False
    """``sessionId`` travels in the params of tools/list and tools/call."""
    empty_cursor_ends: bool = False
    """``nextCursor: ""`` is the end of a list, not a cursor."""
    version_header: bool = False
    """Requests after the handshake carry ``MCP-Protocol-Version``."""
    tasks: bool = False
    """Tools may have to be called as tasks of the core protocol."""


PLAIN: Final = Era("", session_in_params=True, empty_cursor_ends=True)

_ERAS: Final = {
    "2024-11-05": Era("2024-11-05", handshake=True),
    "2025-03-26": Era("2025-03-26", handshake=True),
    "2025-06-18": Era("2025-06-18", handshake=True, version_header=True),
    "2025-11-25": Era("2025-11-25", handshake=True, version_header=True, tasks=True),
    "2026-07-28": Era("2026-07-28", request_meta=True, version_header=True),
}


def era_of(version: str) -> Era:
    """The era of a version that is known here.

    Raises:
        KeyError: It is not in ``VERSIONS``.
    """
    return _ERAS[version]


def is_modern(version: str) -> bool:
    """Whether *version*, known or not, is of the stateless kind; versions are dates and sort so."""
    return version >= MODERN_VERSIONS[0]


def wanted_eras(era: str) -> tuple[str, ...]:
    """The versions that the ``era`` keyword of a client allows, oldest first; empty for ``"plain"``.

    Raises:
        ConfigurationError: It is neither a version nor ``auto``, ``modern``, ``legacy`` or ``plain``.
    """
    named: dict[str, tuple[str, ...]] = {
        "auto": VERSIONS,
        "modern": MODERN_VERSIONS,
        "legacy": LEGACY_VERSIONS,
        "plain": (),
        **{version: (version,) for version in VERSIONS},
    }
    if not isinstance(era, str) or era not in named:
        raise ConfigurationError(f"era={era!r} is unknown; choose one of {', '.join(map(repr, named))}")
    return named[era]


def newest_common(ours: Iterable[str], theirs: Any) -> str | None:
    """The newest of *ours* that is among *theirs*; None when there is none or *theirs* is no list."""
    offered = set(theirs) if isinstance(theirs, list | tuple) else set()
    return max((version for version in ours if version in offered), default=None)


def default_client_info() -> Mapping[str, str]:
    """Our name and version, as ``clientInfo``."""
    return {"name": "yiemagent", "version": CLIENT_VERSION}
