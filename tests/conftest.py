"""Guards for every test: no thread is left behind, and only loopback is talked to."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.testing import WAIT


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """Every thread that the test started has to end by itself, in a bounded time."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(0.05)  # Most are on their way out, and a collection is slow.
    left = [thread for thread in left if thread.is_alive()]
    if left:
        gc.collect()  # An agent that the test dropped ends its threads when it is collected.
    for thread in left:
        thread.join(WAIT)
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"threads left behind: {alive}"


class WaitSpy(threading.Condition):
    """A condition in place of another one that tells a test when somebody is about to wait in it.

    It says so with the lock held: whoever wakes needs that lock, so it comes after the wait has
    truly begun. ``notified`` lists how each wait ended: True when it was woken, False when its
    time was up. A wake-up that is missing shows there, however short the waits are.
    """

    def __init__(self, condition: Any) -> None:
        super().__init__(condition._lock)
        self._waiters = condition._waiters
        self._about_to_wait = threading.Event()
        self.notified: list[bool] = []

    def wait(self, timeout: float | None = None) -> bool:
        self._about_to_wait.set()
        woken = super().wait(timeout)
        self.notified.append(woken)
        return woken

    def wait_for_waiter(self) -> None:
        """Come back when a thread waits."""
        assert self._about_to_wait.wait(WAIT), "nobody waits"
        self._about_to_wait.clear()


@pytest.fixture
def wait_spy() -> Callable[[Any, str], WaitSpy]:
    """``wait_spy(owner, name)`` puts a ``WaitSpy`` in place of the owner's condition of that name."""

    def install(owner: Any, name: str) -> WaitSpy:
        spy = WaitSpy(getattr(owner, name))
        setattr(owner, name, spy)
        return spy

    return install
