"""The threads that tools run on: one kept for calls in turn, a pool for calls side by side.

Models that do not end their stream on abort run on threads of the pool too.

They are daemon threads of our own and not those of ``concurrent.futures``, which are joined
when the interpreter exits: one hung tool would keep the process alive (decision 20, case D-17).
"""

from __future__ import annotations

import threading
from dataclasses import field
from time import monotonic

from yiemagent.data_class import dataclass
from yiemagent.kept_thread import KeptThread

__all__ = ["AbandonedTool", "ToolThreads"]

_IDLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class AbandonedTool:
    """A tool that was left while it ran: it may still be working, and its result is ignored."""

    tool_call_id: str
    tool_name: str
    since: float = field(default_factory=monotonic)
    """``time.monotonic()`` when it was left."""


class ToolThreads:
    """Hands out tool threads and remembers those that were left; owned by an agent or one run."""

    __slots__ = ("__weakref__", "_abandoned", "_idle", "_lock", "_sequential")

    def __init__(self) -> None:
        # Guards _idle and _abandoned: tools report back from their own threads. Reentrant: the
        # finalizer of a dropped agent may close this while its own thread is in here.
        self._lock = threading.RLock()
        self._sequential: KeptThread | None = None
        self._idle: list[KeptThread] | None = None
        self._abandoned: tuple[AbandonedTool, ...] = ()

    def sequential(self) -> KeptThread:
        """The thread for calls in turn, always the same one until it is left."""
        if self._sequential is None:
            self._sequential = KeptThread("tool")
        return self._sequential

    def take(self) -> KeptThread:
        """A thread for one call side by side with others, or for a model that has to be left on abort."""
        with self._lock:
            idle = self._idle or []
            for index in range(len(idle) - 1, -1, -1):
                # One that was given back may still clean up behind its last answer.
                if not idle[index].busy:
                    return idle.pop(index)
        return KeptThread("pool", idle=_IDLE_SECONDS)

    def give_back(self, thread: KeptThread) -> None:
        """The call on *thread* is over: it may take another. The sequential one needs no giving back."""
        if thread is self._sequential:
            return
        with self._lock:
            self._idle = [*(self._idle or ()), thread]

    def abandon(self, thread: KeptThread, tool: AbandonedTool) -> None:
        """Leave *thread* with the tool that runs on it."""
        with self._lock:
            self._abandoned = (*self._abandoned, tool)
        thread.leave()

    def came_back(self, tool: AbandonedTool) -> None:
        """An abandoned tool ended after all."""
        with self._lock:
            self._abandoned = tuple(other for other in self._abandoned if other is not tool)

    @property
    def abandoned(self) -> tuple[AbandonedTool, ...]:
        """Tools that were left and have not ended yet."""
        return self._abandoned

    def close(self) -> None:
        """Let every idle thread end; a running tool's thread ends with it. Usable again afterwards."""
        with self._lock:
            threads, self._idle = self._idle or [], None
        for thread in threads:
            thread.close()
        if self._sequential is not None:
            self._sequential.close()

    def forget(self) -> None:
        """Drop everything that belongs to the parent of a fork."""
        self._lock = threading.RLock()
        # A thread that is dropped would be told, under a lock that the parent may have held.
        for thread in (self._sequential, *(self._idle or ())):
            if thread is not None:
                thread.forget()
        self._sequential = self._idle = None
        self._abandoned = ()
