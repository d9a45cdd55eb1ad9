"""How much a run may take, and how much it has taken.

A subagent's run charges its parents too, so that a budget holds for the whole tree
(decision 21). Every check happens before work starts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from time import monotonic
from typing import Any

from yiemagent.data_class import dataclass
from yiemagent.errors import ConfigurationError
from yiemagent.messages import ToolCall, Usage

__all__ = ["DEFAULT_LIMITS", "DEFAULT_MAX_TOOL_TURNS", "Budget", "Limits"]

DEFAULT_MAX_TOOL_TURNS = 25
_COUNTS = ("max_tool_turns", "max_tool_calls", "max_total_tokens", "max_identical_calls")
_MEASURES = ("max_cost", "max_seconds")
"""The limits that may be fractions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one answer may take; None means unlimited. Reaching one ends the run with status ``limit``.

    Raises:
        ConfigurationError: A limit is no number, not above 0, or a fraction of something that is counted.
    """

    max_tool_turns: int | None = DEFAULT_MAX_TOOL_TURNS
    """Turns with tool calls, per prompt and per follow-up (each has its own budget). At least 1."""
    max_tool_calls: int | None = None
    """Tool calls of the whole run."""
    max_total_tokens: int | None = None
    """Tokens of all model calls of the run, as the provider counts them."""
    max_cost: float | None = None
    """US dollars of all model calls of the run, by the price table."""
    max_seconds: float | None = None
    """Seconds of the whole run."""
    max_identical_calls: int | None = None
    """How often one tool may be called with the same arguments in one run."""

    def __post_init__(self) -> None:
        for name in (*_COUNTS, *_MEASURES):
            value = getattr(self, name)
            if value is None:
                continue
            counts = name in _COUNTS
            number = isinstance(value, int if counts else (int, float)) and not isinstance(value, bool)
            if not number or value != value:
                kind = "whole number" if counts else "number"
                raise ConfigurationError(f"{name} must be a {kind} or None, got {value!r}")
            if value <= 0:
                raise ConfigurationError(
                    f"{name} must be greater than 0, got {value!r}; None means unlimited"
                )


DEFAULT_LIMITS = Limits()
"""What an agent has that is given none; never changed, so one is enough."""


class Budget:
    """What a run has taken, against its limits and those of the runs it is part of."""

    __slots__ = (
        "_calls",
        "_cost",
        "_identical",
        "_lock",
        "_tokens",
        "_tool_turns",
        "deadline",
        "limits",
        "parent",
    )

    def __init__(self, limits: Limits, parent: Budget | None = None) -> None:
        self.limits = limits
        self.parent = parent
        own = None if limits.max_seconds is None else monotonic() + limits.max_seconds
        outer = parent.deadline if parent is not None else None
        self.deadline: float | None = own if outer is None else outer if own is None else min(own, outer)
        # Subagents of parallel tools charge one parent from several threads.
        self._lock = threading.Lock()
        self._tool_turns = 0
        self._calls = 0
        self._tokens = 0
        self._cost = 0.0
        self._identical: dict[str, int] = {}

    def begin_answer(self) -> None:
        """A prompt or follow-up begins: it has its own tool turns."""
        self._tool_turns = 0

    def charge_usage(self, usage: Usage | None) -> None:
        """Count one model call here and in the runs around this one."""
        if usage is None:
            return
        with self._lock:
            self._tokens += usage.total_tokens or 0
            self._cost += usage.cost or 0.0
        if self.parent is not None:
            self.parent.charge_usage(usage)

    def charge_tool_turn(self) -> None:
        """Count one turn with tool calls."""
        self._tool_turns += 1

    def refuse_calls(self, calls: tuple[ToolCall, ...]) -> str | None:
        """Count *calls* before they run; the name of the limit they would break, or None."""
        limits = self.limits
        if limits.max_identical_calls is not None:
            for call in calls:
                key = f"{call.name} {_stable(call.arguments)}"
                self._identical[key] = seen = self._identical.get(key, 0) + 1
                if seen > limits.max_identical_calls:
                    return "max_identical_calls"
        return self._refuse_number(len(calls))

    def _refuse_number(self, number: int) -> str | None:
        most = self.limits.max_tool_calls
        with self._lock:
            if most is not None and self._calls + number > most:
                return "max_tool_calls"
        refused = self.parent._refuse_number(number) if self.parent is not None else None
        if refused is None:
            with self._lock:
                self._calls += number
        return refused

    def expired(self) -> bool:
        """Whether the time of this run, or of one around it, is used up."""
        return self.deadline is not None and monotonic() >= self.deadline

    def reached(self) -> str | None:
        """The name of a limit that forbids another model call, or None."""
        limits = self.limits
        if self.expired():
            return "max_seconds"
        if limits.max_total_tokens is not None and self._tokens >= limits.max_total_tokens:
            return "max_total_tokens"
        if limits.max_cost is not None and self._cost >= limits.max_cost:
            return "max_cost"
        if limits.max_tool_turns is not None and self._tool_turns >= limits.max_tool_turns:
            return "max_tool_turns"
        return self.parent._reached_by_children() if self.parent is not None else None

    def _reached_by_children(self) -> str | None:
        limits = self.limits
        if limits.max_total_tokens is not None and self._tokens >= limits.max_total_tokens:
            return "max_total_tokens"
        if limits.max_cost is not None and self._cost >= limits.max_cost:
            return "max_cost"
        return self.parent._reached_by_children() if self.parent is not None else None

    def describe(self) -> Mapping[str, Any]:
        """Numbers only, for the diagnostic event."""
        return {
            "tool_turns": self._tool_turns,
            "tool_calls": self._calls,
            "total_tokens": self._tokens,
            "cost": self._cost,
        }


def _stable(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True, default=str)
