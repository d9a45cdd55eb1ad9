"""The future that ``submit`` gives; its own module, so that only ``submit`` pays for the import."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from yiemagent.agent.results import RunResult
from yiemagent.agent.tickets import RunHandle

__all__ = ["RunFuture"]


class RunFuture(Future[RunResult]):
    """A future over a run's handle."""

    def __init__(self, handle: RunHandle, withdraw: Callable[[], bool]) -> None:
        super().__init__()
        self._withdraw = withdraw
        handle.when_done(self._settle)

    def cancel(self) -> bool:
        """Withdraw the prompt if its run has not begun; whether that worked."""
        if not self._withdraw():
            return self.cancelled()
        super().cancel()
        return not self.set_running_or_notify_cancel()  # Wakes concurrent.futures.wait() too.

    def running(self) -> bool:
        """Whether there is no outcome yet."""
        return not self.done()

    def _settle(self, handle: RunHandle) -> None:
        if not self.set_running_or_notify_cancel():
            return
        if handle.error is not None:
            self.set_exception(handle.error)
        else:
            self.set_result(handle.outcome())
