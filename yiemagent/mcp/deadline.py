"""One deadline for one call, passed down from the caller to the last wait."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from yiemagent.errors import ConfigurationError

__all__ = ["Deadline", "check_seconds"]

HELD_SLICE = 0.5
"""Seconds after which a wait asks again while the clock stands still."""


def check_seconds(name: str, value: float | None) -> float | None:
    """Return *value* as seconds, or None when it stands for no limit.

    Args:
        name: The keyword, for the message.
        value: Seconds, 0 or more; None for no limit.

    Raises:
        ConfigurationError: It is no number, negative, or not a number at all (NaN).
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value < 0:
        raise ConfigurationError(f"{name} must be seconds (0 or more) or None for no limit, got {value!r}")
    return None if math.isinf(value) else float(value)


class Deadline:
    """The moment at which a call ends, on the monotonic clock.

    Progress may push it back (``extend``) and it stands still while the user is asked
    (``hold``), both never past the hard limit. A wait therefore waits for ``remaining`` seconds
    at most, then looks at ``expired``, and begins again when that is False. Any thread may
    call any method.

    Args:
        timeout: Seconds from now; None never ends, 0 has ended already.
        limit: Seconds from now that ``extend`` and ``hold`` cannot pass; None for no such limit.
        clock: For tests; ``time.monotonic`` by default.
    """

    __slots__ = ("_clock", "_held", "_left", "_limit_at", "_lock", "_outer", "at", "timeout")

    at: float | None
    """The moment by the clock, or None when the call may take for ever."""
    timeout: float | None
    """Seconds as they were asked for, for messages."""

    def __init__(
        self,
        timeout: float | None,
        *,
        limit: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        # Guards _held, _left and the changes of at.
        self._lock = threading.Lock()
        self._held = 0
        self._left: float | None = None
        self._outer: Deadline | None = None
        self.timeout = timeout
        self._limit_at: float | None = None
        self.at = None
        if limit is not None:
            self.at = self._limit_at = clock() + limit
        if timeout is not None and (limit is None or timeout < limit):
            self.at = clock() + timeout

    def _bounded(self, at: float | None) -> float | None:
        if self._limit_at is None:
            return at
        return self._limit_at if at is None else min(at, self._limit_at)

    def remaining(self) -> float | None:
        """Seconds that a wait may last before it asks again, never negative; None: no end."""
        at = self.at
        left = None
        if at is not None:
            left = at - self._clock()
            if left < 0.0:
                left = 0.0
        if self._held:
            return HELD_SLICE if left is None else min(left, HELD_SLICE)
        return left

    @property
    def expired(self) -> bool:
        """Whether the moment has passed."""
        at = self.at
        return at is not None and self._clock() >= at

    def extend(self, seconds: float | None) -> None:
        """Count *seconds* from now again (None: until the hard limit); never makes it earlier."""
        with self._lock:
            if self.at is None or self._held:
                return
            at = self._bounded(None if seconds is None else self._clock() + seconds)
            if at is None or at > self.at:
                self.at = at

    def hold(self, seconds: float | None = None) -> None:
        """Stop the clock, for *seconds* at most; each ``hold`` needs its ``release``.

        The deadlines that this one was made of by ``within`` stand still with it.
        """
        if self._outer is not None:
            self._outer.hold(seconds)
        with self._lock:
            self._held += 1
            if self._held == 1 and self.at is not None:
                self._left = max(0.0, self.at - self._clock())
                self.at = self._bounded(None if seconds is None else self.at + seconds)

    def release(self) -> None:
        """Let the clock run again, with the seconds that were left."""
        if self._outer is not None:
            self._outer.release()
        with self._lock:
            self._held -= 1
            if self._held == 0 and self._left is not None:
                self.at = self._bounded(self._clock() + self._left)
                self._left = None

    def within(self, seconds: float | None) -> Deadline:
        """A new deadline *seconds* from now, or at this one's moment where that is earlier."""
        at = self.at
        left = None if at is None else max(0.0, at - self._clock())
        sooner = seconds is None or (left is not None and left < seconds)
        inner = Deadline(left if sooner else seconds, clock=self._clock)
        inner._outer = self
        return inner

    def __repr__(self) -> str:
        at = self.at
        return "<Deadline never>" if at is None else f"<Deadline in {at - self._clock():.3f} s>"
