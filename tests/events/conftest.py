"""What tests of waiting share."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.testing import Outcome, run_in_thread


@pytest.fixture
def before_sleeping() -> Callable[..., Outcome[Any]]:
    """``before_sleeping(act, wait)`` calls ``wait()`` on a thread, which calls ``act()`` in its condition.

    There the lock is held and the waiter is not yet listed: so comes a finalizer or a signal handler.
    """
    start = threading.Condition.wait.__code__

    def begin(act: Callable[[], object], wait: Callable[[], Any]) -> Outcome[Any]:
        def trace(frame: Any, kind: str, arg: Any) -> Any:
            if frame.f_code is start:
                sys.settrace(None)
                act()
            return None

        def traced() -> Any:
            sys.settrace(trace)
            try:
                return wait()
            finally:
                sys.settrace(None)

        return run_in_thread(traced)

    return begin
