"""A child process with three pipes, served and ended by one thread.

The thread reads stdout and stderr, writes what did not fit into stdin, watches the process and
climbs down the ladder of the end: close stdin, wait, SIGTERM to the group, wait, SIGKILL to the
group. It knows nothing of MCP.

The process leads a group of its own, so that a launcher (npx, sh) and the server it started
end together. The group is told while its dead leader is not yet reaped, so that its number
cannot have gone to a stranger.

Source: E-08, E-13, E-27; field problems 5, 7-10, 22, 32, 33.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from yiemagent.forking import Home
from yiemagent.mcp.environment import own_group
from yiemagent.mcp.intake import Intake
from yiemagent.mcp.outbox import Outbox
from yiemagent.mcp.readiness import Waiter
from yiemagent.mcp.waiting import Outcome

__all__ = ["Child", "ChildOwner"]

logger = logging.getLogger(__name__)

CHUNK = 1 << 16
"""Bytes of stderr read at once."""
PIPE_SIZE = 1 << 20
"""Wished size of the child's output pipe, so that a large answer needs few switches."""
STDERR_LINES, STDERR_CHARS = 40, 4_000
EXIT_GRACE = 0.5
"""Seconds of each step of the ladder when the interpreter exits or the owner was collected."""
DRAIN_GRACE = 0.5
"""Seconds by which a closed pipe may precede the exit that explains it."""
GROUP_GRACE = 1.0
"""Seconds from SIGTERM to SIGKILL for what is left of the group once its leader is dead."""
LOOK_AGAIN = 0.2
"""Seconds between two looks at the process where the system cannot tell of its exit."""


class ChildOwner(Protocol):
    """Who the child works for. What it is told must not block, and may come before it has its child:
    a program can be over while the constructor has not returned."""

    def child_wrote(self, child: Child, chunk: bytes) -> None:
        """Take bytes from stdout, in order, on the child's thread or that of a reading caller."""

    def child_ended(self, child: Child) -> None:
        """The process is over, or of no use any more; told once, on the child's thread, when its
        ``fate`` is known."""


class Child:
    """Starts a program and serves it.

    Args:
        owner: Held weakly: a child whose owner was collected is ended.
        argv: Program and arguments; the program is a path that was resolved before.
        env: The whole environment.
        cwd: Working folder; None for ours.
        name: Of the thread, after ``yiemagent-``.

    Raises:
        OSError: The program cannot be started.
    """

    def __init__(
        self,
        owner: ChildOwner,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        name: str,
    ) -> None:
        self._owner = weakref.ref(owner)
        self._home = Home()
        # Guards _tail.
        self._tail_lock = threading.Lock()
        self._tail: deque[str] = deque(maxlen=STDERR_LINES)
        self._stderr_rest = b""
        # Guards _buried, and _rungs: when each signal of the ladder is due, None while nobody wants the end.
        # Re-entrant, because a collection inside it may run the finalizer, which calls stop.
        self._lock = threading.RLock()
        self._rungs: list[tuple[float, signal.Signals]] | None = None
        self._told = False
        self._buried = False
        self.ended: Outcome[None] = Outcome()
        """Settled when the process and its group are over, and all that was held for them is given back."""
        thread = threading.Thread(target=self._serve, name=f"yiemagent-{name}", daemon=True)
        self._spawn(argv, dict(env), cwd)
        try:
            weakref.finalize(owner, self.stop, EXIT_GRACE, EXIT_GRACE).atexit = False
            _remember(self)
            thread.start()
        except BaseException:  # There are too many threads, or Ctrl-C was pressed.
            self.stop(0.0, EXIT_GRACE)
            if thread.ident is None:
                self._told = True  # The owner hears it from here.
                self._bury()
            raise

    def _spawn(self, argv: Sequence[str], env: dict[str, str], cwd: str | None) -> None:
        theirs_in, stdin = os.pipe()
        stdout, theirs_out = os.pipe()
        self._stderr, theirs_err = os.pipe()
        self._woken, self._waker = os.pipe()
        for fd in (self._stderr, self._woken, self._waker):
            os.set_blocking(fd, False)
        self._waiter = Waiter()
        self.outbox = Outbox(stdin, self._wake)
        """Stdin: ``write`` never blocks."""
        self.intake = Intake(stdout, self._consume, self._waiter.epoll, self._wake)
        """Stdout, for callers that want to read it themselves while they wait."""
        self._pidfd = -1
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=theirs_err,
                env=env,
                cwd=cwd,
                **own_group(),
            )
        except BaseException:
            self.intake.close()
            self._close_pipes()
            raise
        finally:
            for fd in (theirs_in, theirs_out, theirs_err):
                os.close(fd)
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self._process.pid)
        for fd in (stdout, self._stderr, self._woken, self._pidfd):
            if fd >= 0:
                self._waiter.register(fd)

    # --- any thread

    @property
    def pid(self) -> int:
        """Process id, which is also the number of its group."""
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        """The last lines of stderr."""
        with self._tail_lock:
            return "\n".join(self._tail)[-STDERR_CHARS:]

    @property
    def fate(self) -> str:
        """What became of the process, in words such as ``ended with exit code 3``."""
        code = self._process.returncode
        if code is None:
            return "closed its input" if self.outbox.broken else "closed its output"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def stop(self, eof_wait: float, term_wait: float) -> None:
        """Begin the end: close stdin, SIGTERM after *eof_wait*, SIGKILL *term_wait* later.

        Returns at once; wait for ``ended``. Calling it again can only make it faster.
        """
        if not self._home.here:
            return
        term_at = time.monotonic() + eof_wait
        rungs = [(term_at, signal.SIGTERM), (term_at + term_wait, signal.SIGKILL)]
        with self._lock:
            if self._rungs is not None:
                due = {number: at for at, number in rungs}
                rungs = [(min(at, due[number]), number) for at, number in self._rungs]
            self._rungs = rungs
            if not self._buried:
                self._wake()

    def abandon(self) -> None:
        """Forget the process in a forked child: it is the parent's."""
        self._process.returncode = 0
        self._tail_lock = threading.Lock()
        self.outbox.abandon()
        self.intake.abandon()
        self._close_pipes()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it is awake anyway
            os.write(self._waker, b"x")

    # --- the child's own thread

    def _serve(self) -> None:
        try:
            self._read_until_the_end()
        except BaseException:
            logger.exception("pid=%d | serving a child process failed", self.pid)
        finally:
            self._bury()

    def _read_until_the_end(self) -> None:
        flushing: int | None = None
        lost_at: float | None = None
        while True:
            ready = self._waiter.wait(self._patience(lost_at))
            # First: what the server said before it answered is read when its answer is.
            if self._stderr in ready and not self._read_stderr():
                self._waiter.unregister(self._stderr)
            if (self.intake.fd in ready or self.intake.interrupted) and not self.intake.read():
                self._waiter.unregister(self.intake.fd)
                lost_at = lost_at or time.monotonic() + DRAIN_GRACE
            if self._woken in ready:
                self._empty_wake_pipe()
            self.intake.look()
            if flushing is not None or self.outbox.waiting:
                flushing = self._flush(flushing)
            if self.outbox.broken:
                lost_at = lost_at or time.monotonic() + DRAIN_GRACE
            if self._pidfd in ready or (self._pidfd < 0 and self._has_exited()):
                self._drain()
                return
            if lost_at is not None and time.monotonic() >= lost_at:
                self._tell_owner()
                self.stop(0.0, GROUP_GRACE)
            self._climb_down()

    def _patience(self, lost_at: float | None) -> float | None:
        """Seconds to wait at most; None as long as nothing happens."""
        moments = [] if self._rungs is None else [at for at, _ in self._rungs[:1]]
        if lost_at is not None and not self._told:
            moments.append(lost_at)
        now = time.monotonic()
        waits = [max(0.0, at - now) for at in moments]
        if self._pidfd < 0:
            waits.append(LOOK_AGAIN)
        if self.intake.patience is not None:
            waits.append(self.intake.patience)
        return min(waits) + 0.001 if waits else None

    def _consume(self, chunk: bytes) -> None:
        owner = self._owner()
        if owner is not None:
            owner.child_wrote(self, chunk)

    def _read_stderr(self) -> bool:
        try:
            chunk = os.read(self._stderr, CHUNK)
        except BlockingIOError:
            return False
        *lines, rest = (self._stderr_rest + chunk).split(b"\n")
        if not chunk and rest:
            lines, rest = [*lines, rest], b""
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                with self._tail_lock:
                    self._tail.append(text[:STDERR_CHARS])
                logger.debug("pid=%d stderr | %s", self.pid, text)
        self._stderr_rest = rest[-STDERR_CHARS:]
        return bool(chunk)

    def _drain(self) -> None:
        """Read what the dead process left in its pipes, while a living grandchild may still write."""
        give_up_at = time.monotonic() + DRAIN_GRACE
        self.intake.drain(lambda: time.monotonic() < give_up_at)
        self._read_stderr()

    def _empty_wake_pipe(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)

    def _flush(self, flushing: int | None) -> int | None:
        """Write what waits; returns the descriptor that is watched for room, None when none is."""
        if flushing is not None and self.outbox.fd != flushing:
            self._waiter.unregister(flushing)
            flushing = None
        self.outbox.flush()
        fd = self.outbox.fd if self.outbox.waiting else None
        if fd is not None and flushing is None:
            self._waiter.register(fd, writing=True)
        elif fd is None and flushing is not None:
            self._waiter.unregister(flushing)
        return fd

    def _has_exited(self) -> bool:
        """Whether the process is over, without reaping it."""
        with contextlib.suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return True

    def _climb_down(self) -> None:
        """Do what is due of the ladder: the closed stdin first, then one signal after the other."""
        if self._rungs is None:
            return
        self.outbox.close()
        with self._lock:
            now = time.monotonic()
            due = [number for at, number in self._rungs if at <= now]
            self._rungs = [(at, number) for at, number in self._rungs if at > now]
        for number in due:
            self._signal_group(number)

    def _signal_group(self, number: int) -> bool:
        """Signal everything in the group; False when nothing of it is left."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _tell_owner(self) -> None:
        if not self._told:
            self._told = True
            owner = self._owner()
            if owner is not None:
                owner.child_ended(self)

    def _bury(self) -> None:
        """Reap the process, end what it left in its group, and close everything."""
        self._signal_group(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GROUP_GRACE)
        self._tell_owner()
        give_up_at = time.monotonic() + GROUP_GRACE
        while self._signal_group(0):
            if time.monotonic() >= give_up_at:
                self._signal_group(signal.SIGKILL)
                self._process.poll()
                break
            time.sleep(0.005)
        self.outbox.close()
        self.intake.close()
        _living.discard(self)
        with self._lock:
            self._buried = True  # From here on nobody wakes the thread: the pipe for that is closed now.
        try:
            self._close_pipes()
        finally:
            self.ended.settle(None)

    def _close_pipes(self) -> None:
        self.outbox.close()
        self._waiter.close()
        for name in ("_stderr", "_woken", "_waker", "_pidfd"):
            fd = getattr(self, name)
            setattr(self, name, -1)
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)


_living: weakref.WeakSet[Child] = weakref.WeakSet()
_hooked: dict[str, object] = {}


def _remember(child: Child) -> None:
    """End *child* when the interpreter exits, if it is still there."""
    _living.add(child)
    # One step without a lock: one made at import would not be gevent's, nor free in a forked child.
    mine = object()
    if _hooked.setdefault("atexit", mine) is mine:
        atexit.register(_stop_all)


def _stop_all() -> None:
    children = [child for child in list(_living) if child._home.here]
    for child in children:
        child.stop(EXIT_GRACE, EXIT_GRACE)
    give_up_at = time.monotonic() + 2 * EXIT_GRACE + GROUP_GRACE
    for child in children:
        child.ended.wait(max(0.0, give_up_at - time.monotonic()))
