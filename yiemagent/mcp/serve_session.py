"""One client of a server of ours: what was agreed with it, and which of its requests run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.mcp.eras import CAPABILITIES_META, LEGACY_VERSIONS, MODERN_VERSIONS, VERSION_META
from yiemagent.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    UNSUPPORTED_PROTOCOL_VERSION,
    Message,
    id_key,
    make_notification,
)
from yiemagent.tools.result import as_tool_result
from yiemagent.tools.tool import ToolResult

__all__ = ["Incoming", "Refusal", "Send", "ServerSession"]

logger = logging.getLogger(__name__)

Send: TypeAlias = Callable[[Message], None]
"""Takes a message for the client; called on any thread, may block for the wire, never raises."""

MESSAGE_SINCE = "2025-03-26"
"""From here on progress may carry words; the Julia design's dialect has them, too."""


class Refusal(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.data = data


@dataclass(slots=True, eq=False)
class Incoming:
    """One request that is being answered."""

    id: Any
    method: str
    params: Mapping[str, Any]
    version: str
    """The protocol version it is spoken in; empty in the Julia design's dialect."""
    send: Send
    signal: AbortSignal = field(default_factory=AbortSignal)
    """Aborted when the client cancels it or goes away; such a request gets no response."""
    over: bool = False
    _step: float = 0

    @property
    def modern(self) -> bool:
        """Whether it carries its version itself."""
        return self.version in MODERN_VERSIONS

    def progress(self, partial: ToolResult | str) -> None:
        """Tell the client how far it is, if it asked for that; the ``on_update`` of a tool.

        ``details`` with a number ``progress`` (and ``total``) sets the number, else it counts.
        """
        token = _meta(self.params).get("progressToken")
        if token is None or self.over or self.signal.aborted:
            return
        result = as_tool_result(partial)
        details = result.details if isinstance(result.details, Mapping) else {}
        wanted = details.get("progress")
        known = isinstance(wanted, int | float) and not isinstance(wanted, bool) and wanted > self._step
        self._step = wanted if known and wanted is not None else self._step + 1
        params = {"progressToken": token, "progress": self._step}
        if isinstance(details.get("total"), int | float):
            params["total"] = details["total"]
        if result.text and (not self.version or self.version >= MESSAGE_SINCE):
            params["message"] = result.text
        self.send(make_notification("notifications/progress", params))


class ServerSession:
    """What a server knows about one client.

    Args:
        plain: Requests without a handshake and without ``_meta`` are answered in the Julia design's
            dialect, instead of being refused.
        push: Takes notifications that belong to no request; None when the wire cannot carry them.
        legacy: The versions that ``initialize`` may agree on, oldest first.
        version: What was agreed on already.
    """

    def __init__(
        self,
        *,
        plain: bool = False,
        push: Send | None = None,
        legacy: Sequence[str] = LEGACY_VERSIONS,
        version: str | None = None,
    ) -> None:
        self.plain = plain
        self.push = push
        self.legacy = legacy
        self.version = version
        """The version agreed on by ``initialize``; None before it, and with modern clients."""
        # Guards _running, _unsettled and _closed. Taken directly and not through the condition, which is
        # told when a request is settled: Ctrl-C could come between taking it and entering the block.
        self._lock = threading.RLock()
        self._settled = threading.Condition(self._lock)
        self._unsettled = 0
        self._running: dict[str | None, Incoming] = {}
        self._closed = False

    def accept(self, message: Message, send: Send) -> Incoming:
        """Read a request and note that it runs; ``finish`` and then ``settle`` must follow.

        Raises:
            Refusal: It cannot be served.
        """
        params = message.get("params", {})
        if not isinstance(params, Mapping):
            raise Refusal(INVALID_PARAMS, "params must be an object")
        incoming = Incoming(message["id"], message["method"], params, self._version_of(message, params), send)
        key = id_key(incoming.id)
        if not isinstance(incoming.id, str | int) or key is None:
            raise Refusal(INVALID_REQUEST, "the id of a request must be a text or a whole number")
        with self._lock:
            if self._closed:
                incoming.signal.abort("the session is closed")
            elif key in self._running:
                raise Refusal(INVALID_REQUEST, f"a request with the id {incoming.id!r} is still running")
            else:
                self._running[key] = incoming
            self._unsettled += 1
        return incoming

    def finish(self, incoming: Incoming) -> None:
        """The work is over: its id is free again, and progress that comes later is dropped."""
        incoming.over = True
        with self._lock:
            if self._running.get(id_key(incoming.id)) is incoming:
                del self._running[id_key(incoming.id)]

    def settle(self) -> None:
        """A request that was accepted has its answer sent, or gets none."""
        with self._lock:
            self._unsettled -= 1
            self._settled.notify_all()

    def wait_idle(self, timeout: float) -> bool:
        """Wait until all requests are settled, at most *timeout* seconds; returns whether they are."""
        with self._lock:
            return self._settled.wait_for(lambda: not self._unsettled, timeout)

    def cancel(self, params: Mapping[str, Any]) -> None:
        """Take ``notifications/cancelled``; unknown and finished requests are ignored."""
        with self._lock:
            incoming = self._running.get(id_key(params.get("requestId")))
        if incoming is not None and incoming.method != "initialize":
            reason = params.get("reason")
            incoming.signal.abort(reason if isinstance(reason, str) else "cancelled by the client")

    def close(self, reason: str = "the client went away") -> None:
        """Abort what runs; nothing is answered any more."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        for incoming in running:
            incoming.signal.abort(reason)

    def _version_of(self, message: Message, params: Mapping[str, Any]) -> str:
        meta = _meta(params)
        if VERSION_META in meta:
            return _modern_version(meta)
        if self.version is not None:
            return self.version
        if message["method"] in ("initialize", "ping"):
            return ""
        if CAPABILITIES_META in meta or message["method"] == "server/discover" or not self.plain:
            raise Refusal(
                INVALID_PARAMS,
                f"{message['method']} needs _meta[{VERSION_META!r}] (one of {', '.join(MODERN_VERSIONS)}), "
                "or initialize before it",
            )
        return ""


def _modern_version(meta: Mapping[str, Any]) -> str:
    version = meta[VERSION_META]
    if version not in MODERN_VERSIONS:
        raise Refusal(
            UNSUPPORTED_PROTOCOL_VERSION,
            "Unsupported protocol version",
            {"supported": list(MODERN_VERSIONS), "requested": version},
        )
    if not isinstance(meta.get(CAPABILITIES_META), Mapping):
        raise Refusal(INVALID_PARAMS, f"_meta[{CAPABILITIES_META!r}] is missing or no object")
    return str(version)


def _meta(params: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, Mapping) else {}
