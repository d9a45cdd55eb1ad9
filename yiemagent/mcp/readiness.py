"""Waiting for descriptors, by epoll where it can be had and by poll elsewhere."""

from __future__ import annotations

import contextlib
import select

__all__ = ["Waiter"]


class Waiter:
    """The descriptors that one thread waits for."""

    def __init__(self) -> None:
        # gevent takes epoll out of the module and makes poll its own.
        self.epoll: select.epoll | None = select.epoll() if hasattr(select, "epoll") else None
        """Its set may be changed by other threads meanwhile; None where there is no epoll."""
        self._poll: select.poll | None = None if self.epoll is not None else select.poll()

    def register(self, fd: int, *, writing: bool = False) -> None:
        """Wait for *fd* to have something to read, or room to write."""
        if self.epoll is not None:
            self.epoll.register(fd, select.EPOLLOUT if writing else select.EPOLLIN)
        elif self._poll is not None:
            self._poll.register(fd, select.POLLOUT if writing else select.POLLIN)

    def unregister(self, fd: int) -> None:
        """Wait for *fd* no more; harmless when it is closed already."""
        with contextlib.suppress(OSError, KeyError):
            if self.epoll is not None:
                self.epoll.unregister(fd)
            elif self._poll is not None:
                self._poll.unregister(fd)

    def wait(self, seconds: float | None) -> set[int]:
        """The descriptors that are ready; empty after *seconds* (None: never)."""
        if self.epoll is not None:
            return {fd for fd, _ in self.epoll.poll(seconds)}
        if self._poll is not None:
            return {fd for fd, _ in self._poll.poll(None if seconds is None else seconds * 1000)}
        return set()

    def close(self) -> None:
        """Give back what it holds."""
        if self.epoll is not None:
            self.epoll.close()
