"""The keywords of every MCP client, whatever its wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypedDict

from yiemagent.errors import ConfigurationError
from yiemagent.mcp.answers import OnElicitation, OnSampling, Roots
from yiemagent.mcp.deadline import check_seconds
from yiemagent.mcp.eras import LOG_LEVELS, wanted_eras
from yiemagent.mcp.jsonrpc import Message
from yiemagent.mcp.results import Progress, ServerLog
from yiemagent.value_checks import check_callable, check_count, check_switch, check_type

__all__ = ["ClientKeywords", "ClientOptions", "EventSink", "OnLog", "OnNotification", "OnProgress"]


class EventSink(Protocol):
    """Takes readable lines: ``event_sink(text, publish=False)`` (decision 25)."""

    def __call__(self, text: str, /, publish: bool = ...) -> object: ...


OnProgress: TypeAlias = Callable[[Progress], object]
OnLog: TypeAlias = Callable[[ServerLog], object]
OnNotification: TypeAlias = Callable[[Message], object]


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """How a client behaves. All callbacks may block and are contained: what they raise is logged.

    Raises:
        ConfigurationError: A value cannot be used; the message names it.
    """

    name: str | None = None
    """What messages, callbacks and tool prefixes call the server; the transport's label when None."""
    era: str = "auto"
    """``"auto"`` asks the server, newest first; ``"modern"``, ``"legacy"``, ``"plain"`` (the Julia
    design's dialect) or a version such as ``"2025-06-18"`` is spoken without asking."""
    timeout: float | None = 60.0
    """Seconds for one call, once connected, all its pages and retries together; None: no limit."""
    connect_timeout: float | None = 60.0
    """Seconds to start or reach the server and shake hands; ``npx`` may have to download first."""
    probe_timeout: float = 10.0
    """Seconds that ``server/discover`` may take before an old server is assumed."""
    input_timeout: float | None = 600.0
    """Seconds that ``on_elicitation`` or ``on_sampling`` may take; the clock of the call stands still."""
    progress_extends: bool = False
    """Whether each progress notification gives a call its ``timeout`` anew."""
    max_call_seconds: float | None = None
    """Hard maximum of a call that progress or questions prolong."""
    on_elicitation: OnElicitation | None = None
    on_sampling: OnSampling | None = None
    roots: Roots | None = None
    """Folders that the server may work in, or a function that gives them."""
    on_progress: OnProgress | None = None
    """Called in the thread that made the call."""
    on_log: OnLog | None = None
    """Called on a worker thread, in order (on HTTP in the thread that made the call)."""
    log_level: str | None = None
    """Least severe log message wanted; ``"info"`` when None and ``on_log`` or ``event_sink`` is given."""
    on_notification: OnNotification | None = None
    """Gets every notification that is neither progress nor log, on a worker thread, in order."""
    event_sink: EventSink | None = None
    """Gets progress, logs, and the news that a server was lost, as readable lines."""
    max_restarts: int | None = None
    """How often in a row a connection is made anew without one call succeeding; None: always."""
    close_timeout: float = 2.0
    """Seconds of each step when closing: after EOF before SIGTERM, and from there to SIGKILL."""
    session_id: str | None = None
    """``sessionId`` of the plain dialect, where a call gives none."""
    client_info: Mapping[str, Any] | None = None
    """Name and version of this program; ours when None."""
    capabilities: Mapping[str, Any] | None = None
    """Capabilities to declare beside those that follow from the callbacks."""

    def __post_init__(self) -> None:
        wanted_eras(self.era)
        for name in (
            "timeout",
            "connect_timeout",
            "probe_timeout",
            "input_timeout",
            "max_call_seconds",
            "close_timeout",
        ):
            check_seconds(name, getattr(self, name))
        if self.log_level is not None and self.log_level not in LOG_LEVELS:
            raise ConfigurationError(f"log_level={self.log_level!r} is none of {', '.join(LOG_LEVELS)}")
        check_count("max_restarts", self.max_restarts, least=0)
        check_switch("progress_extends", self.progress_extends)
        check_type("name", self.name, str)
        check_type("session_id", self.session_id, str)
        check_type("client_info", self.client_info, Mapping)
        check_type("capabilities", self.capabilities, Mapping)
        if isinstance(self.roots, (str, bytes)) or not (
            self.roots is None or callable(self.roots) or isinstance(self.roots, Iterable)
        ):
            raise ConfigurationError(
                f"roots must be a list of folders, a function that gives one, or None, got {self.roots!r}"
            )
        for name in (
            "on_elicitation",
            "on_sampling",
            "on_progress",
            "on_log",
            "on_notification",
            "event_sink",
        ):
            check_callable(name, getattr(self, name))

    @property
    def wanted_log_level(self) -> str | None:
        """The level to ask the server for; None when nobody listens."""
        if self.log_level is not None:
            return self.log_level
        return "info" if self.on_log is not None or self.event_sink is not None else None


class ClientKeywords(TypedDict, total=False):
    """The fields of ``ClientOptions``, as keywords of every client."""

    name: str | None
    era: str
    timeout: float | None
    connect_timeout: float | None
    probe_timeout: float
    input_timeout: float | None
    progress_extends: bool
    max_call_seconds: float | None
    on_elicitation: OnElicitation | None
    on_sampling: OnSampling | None
    roots: Roots | None
    on_progress: OnProgress | None
    on_log: OnLog | None
    log_level: str | None
    on_notification: OnNotification | None
    event_sink: EventSink | None
    max_restarts: int | None
    close_timeout: float
    session_id: str | None
    client_info: Mapping[str, Any] | None
    capabilities: Mapping[str, Any] | None
