"""One exchange on its way over HTTP: what the threads that work on it share."""

from __future__ import annotations

import time

from yiemagent.abort import AbortSignal
from yiemagent.errors import McpTimeout
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.jsonrpc import Message, id_key
from yiemagent.mcp.transport import OnMessage

__all__ = ["HttpRun"]


class HttpRun:
    """A request, its limits and its listener.

    Args:
        request: As it is posted.
        deadline: When to give up.
        signal: The caller's.
        on_message: Gets the notifications of its streams.
        label: What messages call the server.

    Attributes:
        key: The request's id, as ``id_key`` makes it.
        signal: Aborted with the caller's, and by whoever ends the connection.
        early: The response, when it came on another stream than this request's.
        late: Whether the exchange was cut off because its time was up.
        watched: Whether a keeper sees to the deadline, so that reads have no limit of their own.
    """

    __slots__ = ("deadline", "early", "key", "label", "late", "on_message", "request", "signal", "watched")

    def __init__(
        self,
        request: Message,
        deadline: Deadline,
        signal: AbortSignal | None,
        on_message: OnMessage,
        label: str,
    ) -> None:
        self.request = request
        self.key = id_key(request["id"])
        self.deadline = deadline
        self.signal = AbortSignal(signal)
        self.on_message = on_message
        self.label = label
        self.early: Message | None = None
        self.late = False
        self.watched = False

    @property
    def method(self) -> str:
        """Of the request."""
        return str(self.request["method"])

    @property
    def operation(self) -> str:
        """Method and target, such as ``tools/call search``."""
        params = self.request.get("params")
        name = params.get("name") or params.get("uri") if isinstance(params, dict) else None
        return f"{self.method} {name}" if isinstance(name, str) else self.method

    def check(self) -> None:
        """Raise when the time is over or the exchange was aborted."""
        self.signal.raise_if_aborted()
        if self.deadline.expired:
            raise self.timeout()

    @property
    def until(self) -> float | None:
        """When a read that begins now must end (``time.monotonic()``), or None."""
        return None if self.watched else self.deadline.at

    def cut_off(self) -> None:
        """End the exchange because its time is up. Any thread."""
        self.late = True
        self.signal.abort("the deadline passed")

    def timeout(self) -> McpTimeout:
        """The error for a deadline that passed."""
        waited = "in time" if self.deadline.timeout is None else f"within {self.deadline.timeout:g} s"
        return McpTimeout(f"{self.label} did not answer {self.method} {waited}")

    def sleep(self, seconds: float) -> None:
        """Wait, at most until the deadline; raises as ``check`` does."""
        end = time.monotonic() + seconds
        while (wait := end - time.monotonic()) > 0:
            left = self.deadline.remaining()
            self.signal.wait(wait if left is None else min(wait, left))
            self.check()
