"""What a forked child must forget: threads, locks and sockets of its parent (docs/threading.md, 17, 19).

Objects that own such things register here and are told in the child, before any other
code of the child runs. They are held weakly, and nothing is registered at import time
but the one hook of the interpreter. A finalizer asks the ``Home`` of what it gives back.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import Protocol

__all__ = ["Home", "forget_parent_on_fork"]


class Home:
    """The process that made something, as long as its threads run.

    A finalizer asks before it takes a lock. In a forked child the lock may be held by a thread of
    the parent; when the interpreter is going down, by a daemon thread that runs no more. Either
    way it would wait for ever, and what it wants to give back goes with the process.
    """

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def here(self) -> bool:
        """Whether this is that process, and not on its way out. From any thread."""
        return os.getpid() == self._process and not sys.is_finalizing()


class _ForkAware(Protocol):
    def _after_fork_in_child(self) -> None:
        """Drop every thread, lock and socket that belongs to the parent; must not block."""


_aware: weakref.WeakSet[_ForkAware] = weakref.WeakSet()


def forget_parent_on_fork(owner: _ForkAware) -> None:
    """Call ``owner._after_fork_in_child()`` in every child forked from now on.

    Args:
        owner: Held weakly; registering twice is harmless.
    """
    _aware.add(owner)


def _tell_owners() -> None:
    for owner in list(_aware):
        owner._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_owners)
