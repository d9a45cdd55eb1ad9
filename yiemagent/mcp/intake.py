"""Reading from a pipe, by whichever thread wants to know most.

The thread that serves the pipe reads it as long as nobody waits. A caller that waits for its
answer may *lead*: it then reads the pipe itself, for everybody, until its answer is there, and
so saves handing it from thread to thread, which costs as much as the rest of a call. Only one
thread reads at a time; while a caller leads, the serving thread is not even woken by data: the
pipe is *unwatched*. Between calls that follow each other closely (*brisk* ones) it stays so, since
telling the system twice a call costs a tenth of a short one; the serving thread then watches it
again when no call came for a moment, a caller when others wait.

In a series of calls that are answered at once a caller *spins* before it sleeps: it asks for its answer in
a short loop. To be woken takes longer than such an answer, and more in what the processor has forgotten.

Leading needs epoll, whose set may change while another thread waits on it. Elsewhere, and under
gevent, the serving thread alone reads.

Source: issue 5, "Cost"; E-13.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

from yiemagent.mcp.deadline import Deadline

__all__ = ["Intake"]

SLICE = 0.5
"""Longest single wait of a caller: a signal that comes just before it begins does not end it."""
BRISK = 0.005
"""Seconds within which a call must follow the one before it, for the pipe to be left unwatched."""
QUIET = 0.02
"""Seconds between two looks at an unwatched pipe: what comes between brisk calls waits for two at most."""
AT_ONCE = 0.00015
"""Seconds from answer to answer, with the caller's own work, within which callers spin before they sleep."""
LONGEST_REST = 1023
"""Most calls that rest after spinning in vain: the server may need this very processor."""
SMALL_CHUNK, LARGE_CHUNK = 1 << 15, 1 << 20
"""Bytes read at once: a large buffer costs more to allocate than a small message to read."""


class Intake:
    """The read end of a pipe.

    Args:
        fd: Owned from now on; made non-blocking.
        consume: Gets the bytes in order, on whatever thread reads; must not block. Where Ctrl-C
            interrupts it, it gets the very same object again.
        epoll: Where the serving thread waits for *fd*; None when nobody may lead.
        wake: Has the serving thread look at ``patience`` and ``interrupted`` anew; never blocks.
        clock: For tests.
    """

    def __init__(
        self,
        fd: int,
        consume: Callable[[bytes], None],
        epoll: select.epoll | None,
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._consume = consume
        self._epoll = epoll
        self._size = SMALL_CHUNK
        # What was read; a chunk stays until it was taken, so that Ctrl-C loses nothing.
        self._chunks: deque[bytes] = deque()
        # Held by the thread that reads. Reentrant only so that a thread can find that it holds it.
        self._turn = threading.RLock()
        self._leader: object = None
        self._may_spin = epoll is not None and len(os.sched_getaffinity(0)) > 1
        # Changed only by the thread that reads, but for _seen, which is the serving thread's.
        self._quick = False
        self._rest = self._vain = 0
        self._answered_at = -AT_ONCE
        self._watched = True
        self._watched_at = -BRISK
        self._brisk = False
        self._turns = self._seen = 0
        self._wake = wake
        self._clock = clock
        # Guards the use of _waker against its closing; os.write under it never blocks. Reentrant: a
        # signal handler or a finalizer may abort a call wherever its thread is.
        self._wake_lock = threading.RLock()
        self._over = epoll is None
        self._woken = self._waker = -1
        self._poll = select.poll()
        self._only_data = [(fd, select.POLLIN)]
        if epoll is not None:
            self._woken, self._waker = os.pipe()
            os.set_blocking(self._woken, False)
            os.set_blocking(self._waker, False)
            self._poll.register(fd, select.POLLIN)
            self._poll.register(self._woken, select.POLLIN)

    def read(self) -> bool:
        """Read what there is now, if nobody else does. Serving thread.

        Returns:
            False when the other side has closed it and everything was read.
        """
        if not self._turn.acquire(False):
            return True
        try:
            if self._leader is not None:
                return True
            ended = self._read() is False
            self._over = self._over or ended
            return not ended
        finally:
            self._turn.release()

    def _read(self) -> bool | None:
        """True: something was read; None: nothing is there now; False: the end."""
        chunks = self._chunks
        try:
            # One step of the interpreter: Ctrl-C cannot come between the reading and the keeping.
            chunks.extend(map(os.read, (self.fd,), (self._size,)))
        except BlockingIOError:
            if not chunks:
                return None
        while chunks:
            chunk = chunks[0]
            if not chunk:
                chunks.clear()
                return False
            self._size = LARGE_CHUNK if len(chunk) == self._size else SMALL_CHUNK
            self._consume(chunk)
            chunks.popleft()
        return True

    @property
    def interrupted(self) -> bool:
        """Whether something was read and is not taken yet. Where Ctrl-C came, ``read`` gives it again."""
        return bool(self._chunks)

    def drain(self, still: Callable[[], bool]) -> None:
        """Read everything that is there, as long as *still* says so. Serving thread."""
        self.interrupt()
        with self._turn:
            while self._read() and still():
                pass

    # --- whose turn it is

    def begin(self, leader: object) -> bool:
        """Become the thread that reads, if nobody else does; ``end`` must follow. Calling thread.

        Do it before the request is sent: else the serving thread may be woken by the answer.

        Args:
            leader: What ``recover`` knows this turn by.
        """
        if not self._turn.acquire(False):
            return False
        if self._over or self._leader is not None:
            self._turn.release()
            return False
        self._leader = leader
        if self._watched:
            self._unwatch()
        return True

    def end(self) -> None:
        """Let others read; ``hand_over`` must follow when others wait."""
        if not self._brisk:
            self._watch()
        self._turns += 1
        self._leader = None
        self._turn.release()

    def hand_over(self) -> None:
        """Have the serving thread read from now on, unless a caller does. Any thread."""
        if not self._watched and self._turn.acquire(False):
            try:
                if self._leader is None:
                    self._watch()
            finally:
                self._turn.release()

    def recover(self, leader: object) -> None:
        """End the turn that Ctrl-C has left taken, anywhere from ``begin`` to ``hand_over``. Same thread."""
        if self._leader is None:
            # It may hold the turn without a name, before it began and after it ended.
            if not self._turn.acquire(False):
                return
        elif self._leader is not leader:
            return
        if self._epoll is not None:
            self._watch()
        self._leader = None
        self._turn.release()
        with contextlib.suppress(RuntimeError):  # it does not hold it any more
            self._turn.release()
        if self._chunks:
            self._wake()

    def _unwatch(self) -> None:
        self._watched = False
        self._modify(0)
        if self._clock() - self._watched_at < BRISK:
            self._brisk = True
            self._wake()

    def _watch(self) -> None:
        if not self._over:
            self._modify(select.EPOLLIN)
        self._watched, self._brisk = True, False
        self._watched_at = self._clock()

    def _modify(self, events: int) -> None:
        if self._epoll is not None:
            self._epoll.modify(self.fd, events)

    @property
    def patience(self) -> float | None:
        """Seconds after which the serving thread should ``look``; None when it need not."""
        return QUIET if self._brisk else None

    def look(self) -> None:
        """Watch the pipe again if no caller has read it since the last look. Serving thread."""
        if self._brisk:
            if self._seen == self._turns:
                self.hand_over()
            self._seen = self._turns

    @property
    def led_here(self) -> bool:
        """Whether this very thread leads now: it is in a signal handler or a finalizer."""
        if self._leader is None or not self._turn.acquire(False):
            return False
        self._turn.release()
        return self._leader is not None

    def read_while(self, wanted: Callable[[], bool], deadline: Deadline) -> None:
        """Read as long as *wanted* says so. Between ``begin`` and ``end``.

        Also returns when the deadline may have passed, after ``interrupt``, and at the end of the
        stream: the caller then waits as if it had never read.
        """
        while wanted():
            if self._chunks:
                self._read()
                continue
            ready = self._wait(deadline)
            if not ready and not deadline.expired:
                self._brisk = False  # Nobody need look after so slow a call.
                continue
            if ready != self._only_data or self._read() is False:
                self._settle()
                return

    def _wait(self, deadline: Deadline) -> list[tuple[int, int]]:
        """What there is to read, as soon as it is there; nothing after a slice or at the deadline."""
        ready = self._spin() if self._quick else []
        if not ready:
            left = deadline.remaining()
            ready = self._poll.poll(1000 * (SLICE if left is None or left > SLICE else left))
        now = self._clock()
        self._quick = self._may_spin and now - self._answered_at < AT_ONCE
        self._answered_at = now
        return ready

    def _spin(self) -> list[tuple[int, int]]:
        """Spin until the answer is there, or should have been; when it was in vain, not for some calls."""
        if self._rest:
            self._rest -= 1
            return []
        poll, clock, until = self._poll.poll, self._clock, self._answered_at + AT_ONCE
        while not (ready := poll(0)) and clock() < until:
            pass
        self._rest = self._vain = 0 if ready else min(2 * self._vain + 1, LONGEST_REST)
        return ready

    def _settle(self) -> None:
        """Forget that somebody was interrupted."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)

    def interrupt(self) -> None:
        """Make the caller that leads now, or the next one, look at its own business. Any thread."""
        with self._wake_lock, contextlib.suppress(OSError):
            if self._waker >= 0:
                os.write(self._waker, b"x")

    def close(self) -> None:
        """Close the pipe, once nobody reads it any more. Serving thread."""
        self.interrupt()
        with self._turn:
            self._close()

    def abandon(self) -> None:
        """Close the pipe in a forked child, where the turn may be held by nobody."""
        self._turn = threading.RLock()
        self._wake_lock = threading.RLock()
        self._close()

    def _close(self) -> None:
        self._over = True
        with self._wake_lock:
            fds = (self.fd, self._woken, self._waker)
            self.fd = self._woken = self._waker = -1
        for fd in fds:
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
