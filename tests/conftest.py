"""Guards for every test: no thread is left behind, and a test that starts a process is marked."""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from yiemagent.testing import WAIT, run_in_thread

STRESS = int(os.environ.get("YIEMAGENT_STRESS", "0"))
settings.register_profile(
    "yiemagent",
    max_examples=200 * STRESS or 40,
    # How fast a loaded machine draws an example says nothing about the code.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("yiemagent")


def pytest_configure() -> None:
    """Hear Ctrl-C, and let child processes hear it: what a shell runs in the background ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
        thread._started.wait(WAIT)  # type: ignore[attr-defined]  # One that is about to begin cannot be joined.
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


class LockSpy:
    """A lock in place of another one that tells a test when a thread is about to take it.

    The test holds it meanwhile (``with spy:``): whatever that thread looked at before taking the
    lock is out of date when it gets it.
    """

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._test = threading.get_ident()
        self._about_to_take = threading.Event()

    def __enter__(self) -> None:
        if threading.get_ident() != self._test:
            self._about_to_take.set()
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()

    def wait_for_taker(self) -> None:
        """Come back when a thread other than the test's wants the lock."""
        assert self._about_to_take.wait(WAIT), "nobody takes the lock"


@pytest.fixture
def lock_spy() -> Callable[[Any], LockSpy]:
    """``lock_spy(owner)`` puts a ``LockSpy`` in place of the owner's ``_lock``."""

    def install(owner: Any) -> LockSpy:
        owner._lock = LockSpy(owner._lock)
        spy: LockSpy = owner._lock
        return spy

    return install


class Guard:
    """Notes who touches what a lock guards without holding that lock."""

    def __init__(self) -> None:
        self.breaches: list[str] = []

    def watch(self, kind: type[Any], lock: str, names: Collection[str]) -> type[Any]:
        """A subclass of *kind* whose own code is watched when it reads or sets one of *names*."""
        files = {inspect.getfile(base) for base in kind.__mro__[:-1] if base.__module__ != "typing"}

        def look(owner: Any, name: str) -> None:
            caller = sys._getframe(2).f_code
            ours = caller.co_filename in files and caller.co_name != "__init__"
            if name in names and ours and not object.__getattribute__(owner, lock)._is_owned():
                self.breaches.append(f"{caller.co_name}: {name}")

        class Watched(kind):  # type: ignore[misc]
            def __getattribute__(self, name: str) -> Any:
                look(self, name)
                return super().__getattribute__(name)

            def __setattr__(self, name: str, value: Any) -> None:
                look(self, name)
                super().__setattr__(name, value)

        return Watched


@pytest.fixture
def guard() -> Iterator[Guard]:
    """``guard.watch(kind, lock, names)``; the test fails when somebody was noted."""
    made = Guard()
    yield made
    assert not made.breaches, f"touched without the lock: {made.breaches}"


@pytest.fixture
def at_line() -> Callable[..., Any]:
    """``at_line(number, file, act, body)``: what ``body()`` returns or raises, on a thread of its own.

    That thread calls ``act()`` before it runs the *number*-th line of *file*: so comes a finalizer
    or a signal handler.
    """

    def call(number: int, file: str, act: Callable[[], object], body: Callable[[], Any]) -> Any:
        lines = count(1)

        def trace(frame: Any, kind: str, arg: Any) -> Any:
            if not frame.f_code.co_filename.endswith(file):
                return None
            if kind == "line" and next(lines) == number:
                sys.settrace(None)
                act()
            return trace

        def traced() -> Any:
            sys.settrace(trace)
            try:
                return body()
            except Exception as error:
                return error
            finally:
                sys.settrace(None)

        return run_in_thread(traced).get()

    return call
