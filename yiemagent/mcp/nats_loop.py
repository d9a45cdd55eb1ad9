"""The one event loop of a process: nats-py runs on it, in a native daemon thread that nobody sees.

nats-py needs asyncio, and its users here have none. All NATS connections of a process share
one loop in one thread of its own. The thread is started by the first connection and ends with
the last. It is a truly native thread with native sockets also where gevent has patched the
process, so that no greenlet ever finds itself inside a running loop (case D-34). A forked
child makes its own (case D-09). Callers are blocked on a ``Flag``, never on the loop.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from yiemagent.abort import AbortSignal
from yiemagent.forking import Home, forget_parent_on_fork
from yiemagent.mcp.nats_eventloop import NativeLoop
from yiemagent.mcp.nats_native import Flag, make_flag, original, start_native_thread

__all__ = ["PrivateLoop", "lease_loop"]

T = TypeVar("T")

STOP_PATIENCE = 2.0
"""Seconds that the thread's last tasks may take, and that the last owner waits for the thread."""


class PrivateLoop:
    """The loop and its thread. Get it from ``lease_loop`` and give it back with ``release``."""

    def __init__(self) -> None:
        self._home = Home()
        self._ident = 0
        self._loop: NativeLoop
        self._failure: BaseException | None = None
        ready = make_flag()
        self._thread = start_native_thread(lambda: self._body(ready), "yiemagent-nats-loop")
        ready.wait(None)
        ready.close()
        if self._failure is not None:
            raise self._failure

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Run *callback* on the loop's thread, soon and in order, in an empty context. Any thread.

        The caller's context variables stay out: a task may live longer than what they hold.

        Raises:
            RuntimeError: The loop has ended.
        """
        self._loop.call_soon_threadsafe(callback, *args, context=contextvars.Context())

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Make a task of *coroutine*. The loop's thread only."""
        return self._loop.create_task(coroutine)

    def call(
        self,
        make: Callable[[], Coroutine[Any, Any, T]],
        timeout: float | None,
        signal: AbortSignal | None = None,
    ) -> T:
        """Run ``make()`` on the loop and block until it is done. Any thread or greenlet but the loop's.

        Args:
            make: Makes the coroutine; called on the loop's thread.
            timeout: Seconds; None waits for ever.
            signal: Left at once when aborted.

        Raises:
            TimeoutError: *timeout* passed; the coroutine was cancelled.
            RunAborted: *signal* was aborted; the coroutine was cancelled.
        """
        job = _Job(self, make)
        unlink = signal.on_abort(job.flag.set) if signal is not None else None
        try:
            self.post(job.start)
            job.flag.wait(timeout)
            if job.done:
                return cast(T, job.outcome())
            if signal is not None:
                signal.raise_if_aborted()
            raise TimeoutError(f"not done within {timeout} s")
        finally:
            if unlink is not None:
                unlink()
            if not job.done:
                self.post(job.cancel)
            job.flag.close()

    def release(self) -> None:
        """Give the loop back; with its last owner the thread ends. Any thread."""
        _shared.give_back(self)

    @property
    def inside(self) -> bool:
        """Whether the calling thread is the loop's own, which must never wait for the loop."""
        return bool(self._ident == original("_thread", "get_ident")())

    @property
    def ours(self) -> bool:
        """Whether it belongs to this process, and not to a parent that forked, and the process goes on."""
        return self._home.here

    def _body(self, ready: Flag) -> None:
        self._ident = original("_thread", "get_ident")()
        try:
            self._loop = NativeLoop()
        except BaseException as exc:
            self._failure = exc
            return
        finally:
            ready.set()
        try:
            self._loop.run_forever()
            self._finish_tasks()
        finally:
            self._loop.close()

    def _finish_tasks(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=STOP_PATIENCE))
        # A transport closes its socket a turn after it was told to.
        for _ in range(3):
            self._loop.run_until_complete(asyncio.sleep(0))

    def end(self) -> None:
        """Cancel what runs and end the thread; waits for it a little, unless called from it."""
        self.post(self._loop.stop)
        if self._thread is not None and not self.inside:
            self._thread.join(STOP_PATIENCE)

    def leave_to_parent(self) -> None:
        """In a forked child: let go of what it shares with its parent."""
        self._loop.leave_to_parent()


class _Job:
    """One coroutine that a blocked caller waits for."""

    __slots__ = ("_loop", "_make", "_task", "done", "flag")

    def __init__(self, loop: PrivateLoop, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._loop = loop
        self._make = make
        self._task: asyncio.Task[Any] | None = None
        self.done = False
        self.flag = make_flag()

    def start(self) -> None:
        self._task = self._loop.start(self._make())
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # seen: an abandoned job logs nothing
        self.done = True
        self.flag.set()

    def outcome(self) -> Any:
        assert self._task is not None
        return self._task.result()


class _SharedLoop:
    """Who uses the loop of this process."""

    def __init__(self) -> None:
        self._make_lock()
        self._loop: PrivateLoop | None = None
        self._owners = 0
        self._inherited: list[PrivateLoop] = []
        forget_parent_on_fork(self)

    def _make_lock(self) -> None:
        # Guards _loop and _owners, and that two first owners make one loop. Native, because
        # greenlets and the loop's thread take it. Reentrant: a signal handler may close a connection.
        self._lock = original("_thread", "RLock")()

    def lease(self) -> PrivateLoop:
        with self._lock:
            shared = self._loop
            self._owners += shared is not None
        if shared is not None:
            return shared
        made = PrivateLoop()
        with self._lock:
            self._owners += 1  # First: a signal handler in here may give it back, too.
            self._loop = chosen = self._loop or made
        if chosen is not made:
            made.end()
        return chosen

    def give_back(self, loop: PrivateLoop) -> None:
        with self._lock:
            if loop is not self._loop:
                return
            self._owners -= 1
            if self._owners:
                return
            ended, self._loop = self._loop, None
        if ended is not None:
            ended.end()

    def _after_fork_in_child(self) -> None:
        self._make_lock()
        loop, self._loop, self._owners = self._loop, None, 0
        if loop is not None:
            # Kept for ever: collecting its half-run coroutines would run code of the parent's.
            self._inherited.append(loop)
            loop.leave_to_parent()


_shared = _SharedLoop()


def lease_loop() -> PrivateLoop:
    """Return the loop of this process, started if need be; the caller must ``release`` it once."""
    return _shared.lease()
