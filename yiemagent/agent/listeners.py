"""Who hears the events: listeners in order, and the Julia design's event sink."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.agent.options import check_hook
from yiemagent.errors import ConfigurationError
from yiemagent.events import Event, Log, MessageUpdate

__all__ = ["Listener", "Listeners", "sink_listener"]

logger = logging.getLogger(__name__)

Listener: TypeAlias = "Callable[[Event], object] | Callable[[Event, AbortSignal], object]"
"""Called with the event, and with the run's signal if it takes two arguments."""


class _Registration:
    __slots__ = ("call", "deltas", "failed")

    def __init__(self, call: Callable[[Event, AbortSignal], object], deltas: bool) -> None:
        self.call = call
        self.deltas = deltas
        self.failed = False


class Listeners:
    """Calls listeners on the agent's thread, in subscription order, one after the other.

    What a listener raises is logged once and contained (decision 23); the others still hear.
    """

    __slots__ = ("_lock", "_registered")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # Replaced as a whole, so that a dispatch goes over the listeners it began with.
        self._registered: tuple[_Registration, ...] = ()

    def add(self, listener: Listener, *, deltas: bool = True) -> Callable[[], None]:
        """Add a listener; the returned function takes it back and may be called twice."""
        if not callable(listener):
            raise ConfigurationError(f"a listener must be callable, got {listener!r}")
        check_hook("the listener", listener, 2 if _takes_signal(listener) else 1)
        registration = _Registration(_two_arguments(listener), deltas)
        with self._lock:
            self._registered = (*self._registered, registration)

        def unsubscribe() -> None:
            with self._lock:
                self._registered = tuple(r for r in self._registered if r is not registration)

        return unsubscribe

    @property
    def want_deltas(self) -> bool:
        """Whether any listener asked for message updates."""
        return any(registration.deltas for registration in self._registered)

    def tell(self, event: Event, signal: AbortSignal) -> None:
        """Call every listener with *event*."""
        for registration in self._registered:
            try:
                registration.call(event, signal)
            except BaseException:
                if not registration.failed:
                    registration.failed = True
                    with suppress(BaseException):  # A log handler that raises is no reason to stop either.
                        logger.exception(
                            "event=%s | a listener raised; its later failures are not logged", event.type
                        )

    def forget_lock(self) -> None:
        """The lock may be held by a thread that this forked process does not have."""
        self._lock = threading.RLock()


def sink_listener(event_sink: Callable[..., object]) -> Callable[[Event, AbortSignal], object]:
    """A listener that gives each event as a readable line to ``event_sink(text, publish=...)``.

    A sink without a ``publish`` parameter gets the line alone.
    """

    publishes = _takes_publish(event_sink)

    def listener(event: Event, _signal: AbortSignal) -> None:
        if isinstance(event, MessageUpdate):
            return
        if publishes:
            event_sink(str(event), publish=isinstance(event, Log) and event.publish)
        else:
            event_sink(str(event))

    return listener


def _takes_publish(event_sink: Callable[..., object]) -> bool:
    """``print``, ``list.append`` and ``lambda text: ...`` are sinks too, and take the line alone."""
    try:
        inspect.signature(event_sink).bind("", publish=False)
    except (TypeError, ValueError):
        return False
    return True


def _two_arguments(listener: Any) -> Callable[[Event, AbortSignal], object]:
    if _takes_signal(listener):
        return listener  # type: ignore[no-any-return]
    return lambda event, _signal: listener(event)


def _takes_signal(listener: Any) -> bool:
    """Whether it names two positional parameters; ``print`` and the like get the event alone."""
    try:
        parameters = inspect.signature(listener).parameters.values()
    except (TypeError, ValueError):  # A builtin without a signature.
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in kinds for parameter in parameters) >= 2
