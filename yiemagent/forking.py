"""What a forked child must forget: threads, locks and sockets of its parent.

Objects that own such things register here and are told in the child, before any other
code of the child runs. They are held weakly, and nothing is registered at import time
but the one hook of the interpreter.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["forget_parent_on_fork"]


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
