"""Gates: stop the code under test at a known point, until the test lets it go.

Tests of threads wait for facts and not for time: a gate tells the test that the other thread
is provably there, and holds it until the test has acted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["WAIT", "Gate", "Outcome", "run_in_thread"]

WAIT = 5.0
"""Seconds that a wait which must succeed may take; reached only when a test fails."""

T = TypeVar("T")


class Gate:
    """Holds whoever calls ``block`` until somebody calls ``open``. Any thread."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._open = threading.Event()

    def block(self, timeout: float = WAIT) -> None:
        """Say that this point is reached, then wait for ``open``.

        Raises:
            AssertionError: Nobody opened the gate within *timeout* seconds.
        """
        self._entered.set()
        if not self._open.wait(timeout):
            raise AssertionError(f"the gate was not opened within {timeout} s")

    def wait_entered(self, timeout: float = WAIT) -> None:
        """Wait until somebody is at the gate.

        Raises:
            AssertionError: Nobody came within *timeout* seconds.
        """
        if not self._entered.wait(timeout):
            raise AssertionError(f"nobody reached the gate within {timeout} s")

    @property
    def entered(self) -> bool:
        """Whether somebody has reached the gate."""
        return self._entered.is_set()

    def open(self) -> None:
        """Let everybody through, now and later."""
        self._open.set()


class Outcome(Generic[T]):
    """What a function does on a thread of its own; made by ``run_in_thread``."""

    def __init__(self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._value: T | None = None
        self._error: BaseException | None = None

        def target() -> None:
            try:
                self._value = function(*args, **kwargs)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=target, name="yiemagent-test", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the function has neither returned nor raised yet."""
        return self._thread.is_alive()

    def get(self, timeout: float = WAIT) -> T:
        """Wait for the function; return or raise what it did.

        Raises:
            AssertionError: It is still running after *timeout* seconds.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise AssertionError(f"the function is still running after {timeout} s")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


def run_in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> Outcome[T]:
    """Call *function* on a thread of its own; ``.get()`` gives or raises what it did."""
    return Outcome(function, args, kwargs)
