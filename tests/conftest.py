"""Guards for every test: no thread is left behind, and a test that starts a process is marked."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from yiemagent.testing import WAIT

STRESS = int(os.environ.get("YIEMAGENT_STRESS", "0"))
settings.register_profile(
    "yiemagent",
    max_examples=200 * STRESS or 40,
    # How fast a loaded machine draws an example says nothing about the code.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("yiemagent")


def pytest_collection_finish() -> None:
    """Set aside what is loaded by now: no collection in a test has to look through it again."""
    gc.collect()
    gc.freeze()


_STARTS = ((subprocess.Popen, "__init__"), (os, "fork"), (os, "forkpty"), (os, "posix_spawn"))


@pytest.fixture(autouse=True)
def no_process_unless_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """``make unit`` leaves out what is marked ``servers``: whatever starts a process."""
    if request.node.get_closest_marker("servers") is not None:
        yield
        return
    started: list[str] = []

    def noting(name: str, start: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **options: Any) -> Any:
            started.append(name)
            return start(*args, **options)

        return noted

    # No audit hook: with one in Python, coverage cannot begin in two threads at the same moment.
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in _STARTS:
            patch.setattr(owner, name, noting(f"{owner.__name__}.{name}", getattr(owner, name)))
        yield
    assert not started, f"a test that starts a process has to be marked as servers: {started}"


@contextlib.contextmanager
def _leaving_no_thread() -> Iterator[None]:
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


@pytest.fixture(scope="session")
def leaving_no_thread() -> Callable[[], AbstractContextManager[None]]:
    """A context in which every thread that is started has to end by itself, in a bounded time."""
    return _leaving_no_thread


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """The same for each test."""
    with _leaving_no_thread():
        yield


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
