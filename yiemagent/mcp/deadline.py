"""One deadline for one call, passed down from the caller to the last wait."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from yiemagent.errors import ConfigurationError

__all__ = ["Deadline", "check_seconds"]


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

    Progress may push it back (``extend``), never past the hard limit. A wait therefore asks for
    ``remaining`` each time it begins, and asks again before it gives up. Any thread may call
    any method; a reader sees the old or the new moment.

    Args:
        timeout: Seconds from now; None never ends, 0 has ended already.
        limit: Seconds from now that ``extend`` cannot pass; None for no such limit.
        clock: For tests; ``time.monotonic`` by default.
    """

    __slots__ = ("_clock", "_limit_at", "at", "timeout")

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
        self.timeout = timeout
        if timeout is None and limit is None:
            self.at = self._limit_at = None
            return
        now = clock()
        self._limit_at = None if limit is None else now + limit
        self.at = self._bounded(None if timeout is None else now + timeout)

    def _bounded(self, at: float | None) -> float | None:
        if self._limit_at is None:
            return at
        return self._limit_at if at is None else min(at, self._limit_at)

    def remaining(self) -> float | None:
        """Seconds left, never negative; None when there is no end."""
        return None if self.at is None else max(0.0, self.at - self._clock())

    @property
    def expired(self) -> bool:
        """Whether the moment has passed."""
        return self.at is not None and self._clock() >= self.at

    def extend(self, seconds: float | None) -> None:
        """Count *seconds* from now again (None: until the hard limit); never makes it earlier."""
        if self.at is None:
            return
        at = self._bounded(None if seconds is None else self._clock() + seconds)
        if at is None or at > self.at:
            self.at = at

    def within(self, seconds: float | None) -> Deadline:
        """A new deadline *seconds* from now, or this one's moment where that is earlier."""
        remaining = self.remaining()
        if seconds is None or (remaining is not None and remaining < seconds):
            return Deadline(remaining, clock=self._clock)
        return Deadline(seconds, clock=self._clock)

    def __repr__(self) -> str:
        remaining = self.remaining()
        return "<Deadline never>" if remaining is None else f"<Deadline in {remaining:.3f} s>"
