"""When to ask again: what the provider says about it, and our own backoff."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Mapping

from yiemagent.data_class import dataclass
from yiemagent.errors import ConfigurationError
from yiemagent.value_checks import check_seconds

__all__ = ["RetryPolicy", "retry_after"]

_IN_TEXT = (
    r"(?i)(?:try again in|retry (?:after|in)|retryDelay[\"']?:\s*[\"']?)\s*"
    r"(?:(\d+)\s*m(?:in\w*)?\s*)?(\d+(?:\.\d+)?)\s*(ms|s\b|sec\w*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and how long to wait in between.

    Source: PI-93, cases A-51, A-52, F-08.
    """

    retries: int = 2
    """How many times a failed request is sent again; 0 = never."""
    base: float = 0.5
    """Seconds before the first retry; doubled for each further one."""
    cap: float = 8.0
    """Longest wait in seconds that we choose ourselves."""
    max_retry_after: float = 60.0
    """Longest wait in seconds that a provider may ask for; a longer one ends the answer. 0 = any."""
    jitter: Callable[[], float] = random.random
    """Gives a number from 0 to 1; up to a quarter of the wait is taken off by it."""

    def __post_init__(self) -> None:
        if not isinstance(self.retries, int) or isinstance(self.retries, bool) or self.retries < 0:
            raise ConfigurationError(f"retries must be a whole number, 0 = never, got {self.retries!r}")
        for name in ("base", "cap", "max_retry_after"):
            check_seconds(name, getattr(self, name), zero=True, none=False)
        if not callable(self.jitter):
            raise ConfigurationError(f"jitter must be a function without arguments, got {self.jitter!r}")

    def delay(self, attempt: int, asked: float | None, limit: float | None = None) -> float | None:
        """Seconds to wait after *attempt* (from 1) failed; None: do not ask again.

        Args:
            asked: What the provider wants us to wait, or None.
            limit: In place of ``max_retry_after``.
        """
        if attempt > self.retries:
            return None
        own = min(self.base * 2.0 ** (attempt - 1), self.cap) * (1 - 0.25 * self.jitter())
        if asked is None:
            return own
        longest = self.max_retry_after if limit is None else limit
        if longest and asked > longest:
            return None
        return max(own, asked)


def retry_after(headers: Mapping[str, str], text: str = "", *, now: float | None = None) -> float | None:
    """Seconds the provider asks to wait, or None when it does not say.

    Read from ``retry-after-ms``, ``retry-after`` (seconds or a date), or else from the words of
    the error. What cannot be read counts as not said; a date in the past is 0.

    Args:
        now: ``time.time()``, for tests.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    raw = headers.get("retry-after")
    if raw:
        seconds = _number(raw)
        return seconds if seconds is not None else _until(raw, time.time() if now is None else now)
    found = re.search(_IN_TEXT, text)
    if found is None:
        return None
    minutes, number, unit = found.groups()
    return float(minutes or 0) * 60 + float(number) * (0.001 if unit.lower() == "ms" else 1.0)


def _number(raw: str | None) -> float | None:
    try:
        number = float(raw) if raw else -1.0
    except ValueError:
        return None
    return number if number >= 0 and math.isfinite(number) else None


def _until(raw: str, now: float) -> float | None:
    import email.utils  # Half the time of loading what a model without HTTP needs.

    try:
        return max(0.0, email.utils.parsedate_to_datetime(raw).timestamp() - now)
    except (ValueError, OverflowError, TypeError):
        return None
