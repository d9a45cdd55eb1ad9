"""What a server tells unasked: counted at once, handed to the user's callbacks on a worker.

Source: E-14, E-15; mcp quirks 9, 10.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from yiemagent.mcp.jsonrpc import Message
from yiemagent.mcp.options import ClientOptions
from yiemagent.mcp.results import Progress, ServerLog
from yiemagent.mcp.workers import Workers

__all__ = ["CHANGING", "Notices"]

logger = logging.getLogger(__name__)

CHANGING = ("tools", "prompts", "resources", "contents")
"""What may change: three lists, and what the resources hold."""
_CHANGED = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
    "notifications/resources/updated": "contents",
}


class Notices:
    """Routes notifications. ``take`` may be called on any thread and never blocks.

    Args:
        name: What messages call the server.
        options: Whose callbacks are called.
    """

    def __init__(self, name: str, options: ClientOptions) -> None:
        self._name = name
        self._options = options
        self._worker = Workers("mcp-notices", threads=1)
        # Guards _changes and _watchers. Reentrant: a finalizer may close a subscription.
        self._lock = threading.RLock()
        self._changes = dict.fromkeys(CHANGING, 0)
        self._watchers: dict[str, list[Callable[[str], object]]] = {}

    def changes(self, name: str) -> int:
        """How often *name* (of ``CHANGING``) may have changed so far: a number that only grows."""
        return self._changes[name]

    def suspect(self, *names: str) -> None:
        """Count a change, of everything by default: after a reconnect, anything may differ."""
        with self._lock:
            for name in names or CHANGING:
                self._changes[name] += 1

    def watch(self, uri: str, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call *callback* with the URI on a worker whenever the resource was updated.

        Returns:
            A function that takes the callback back.
        """
        with self._lock:
            self._watchers.setdefault(uri, []).append(callback)

        def withdraw() -> None:
            with self._lock:
                callbacks = self._watchers.get(uri, [])
                if callback in callbacks:
                    callbacks.remove(callback)
                if not callbacks:
                    self._watchers.pop(uri, None)

        return withdraw

    def take(self, message: Message) -> None:
        """Route one notification."""
        method = str(message.get("method"))
        if method == "notifications/message":
            if self._options.wanted_log_level is not None:
                self._worker.start(lambda: self.log(message))
            return
        if method == "notifications/progress":
            logger.debug("server=%s | dropped progress of a call that is over", self._name)
            return
        if method in _CHANGED:
            self.suspect(_CHANGED[method])
        if method == "notifications/resources/updated":
            self._tell_watchers(message)
        on_notification = self._options.on_notification
        if on_notification is not None:
            self._worker.start(lambda: on_notification(message))

    def _tell_watchers(self, message: Message) -> None:
        params = message.get("params")
        uri = params.get("uri") if isinstance(params, Mapping) else None
        if not isinstance(uri, str):
            return
        with self._lock:
            # A server may name a part of what was subscribed to.
            told = [
                callback
                for watched, callbacks in self._watchers.items()
                if uri == watched or uri.startswith(watched.rstrip("/") + "/")
                for callback in callbacks
            ]
        for callback in told:
            self._worker.start(_call(callback, uri))

    def log(self, message: Message, sink: Callable[..., object] | None = None) -> None:
        """Give a log message to whoever listens, in this thread. Never raises."""
        record = ServerLog.read(message)
        self.contained(self._options.on_log, record)
        line = f"[{self._name}] {record}"
        self.contained(self._options.event_sink, line)
        if sink is not self._options.event_sink:
            self.contained(sink, line)

    def progress(
        self,
        message: Message,
        on_progress: Callable[[Progress], object] | None,
        sink: Callable[..., object] | None,
    ) -> None:
        """Give progress to whoever listens, in this thread. Never raises.

        A call that has its own *on_progress* does not get the same again as a line.
        """
        record = Progress.read(message)
        self.contained(self._options.on_progress, record)
        if on_progress is not self._options.on_progress:
            self.contained(on_progress, record)
        line = f"[{self._name}] {record}"
        self.contained(self._options.event_sink, line)
        if sink is not self._options.event_sink and on_progress is None:
            self.contained(sink, line)

    def say(self, line: str) -> None:
        """Give a line to the event sink, on a worker."""
        sink = self._options.event_sink
        if sink is not None:
            self._worker.start(lambda: sink(f"[{self._name}] {line}"))

    def contained(self, callback: Callable[..., object] | None, value: object) -> None:
        """Call *callback*, if there is one; what it raises is logged."""
        if callback is None:
            return
        try:
            callback(value)
        except Exception:
            logger.exception("server=%s callback=%r | a callback raised", self._name, callback)

    def forget(self) -> None:
        """Forget the parent's threads in a forked child, and what was watched there."""
        self._lock = threading.RLock()
        self._watchers = {}
        self._worker.forget()
        for name in CHANGING:
            self._changes[name] += 1


def _call(callback: Callable[[str], object], uri: str) -> Callable[[], object]:
    return lambda: callback(uri)
