"""What callers get: the response to one message, and the result of a whole run."""

from __future__ import annotations

from typing import Any

from yiemagent.data_class import dataclass
from yiemagent.errors import (
    AgentStopped,
    LlmError,
    RunAborted,
    RunLimitReached,
    YiemAgentError,
)
from yiemagent.events import RunStatus
from yiemagent.messages import AssistantMessage, Message, Usage

__all__ = ["Response", "RunResult", "response_error", "stopped_error"]


@dataclass(frozen=True, slots=True)
class Response:
    """The one answer to one accepted prompt or follow-up (decision 4)."""

    status: RunStatus
    message: AssistantMessage | None = None
    """The last answer; partial when the status is neither ``completed`` nor ``limit``."""
    error: BaseException | None = None
    limit: str | None = None

    @property
    def text(self) -> str:
        """The answer's text, without reasoning."""
        return self.message.text if self.message is not None else ""

    def to_openai(self) -> dict[str, Any]:
        """The answer in OpenAI's shape, without reasoning."""
        if self.message is None:
            return {"role": "assistant", "content": [{"type": "text", "text": ""}]}
        from yiemagent.message_formats import message_to_openai

        return message_to_openai(self.message)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to.

    ``message`` answers the prompt of the run itself; ``responses`` has one response for it and
    one for each follow-up that joined the run, in order.
    """

    status: RunStatus
    message: AssistantMessage | None
    new_messages: tuple[Message, ...] = ()
    """The prompts and everything produced, in order."""
    responses: tuple[Response, ...] = ()
    limit: str | None = None
    """Name of the limit that was reached, with status ``limit``."""
    error: BaseException | None = None

    @property
    def text(self) -> str:
        """The answer's text, without reasoning; empty when there is none."""
        return self.message.text if self.message is not None else ""

    @property
    def stop_reason(self) -> str | None:
        """The answer's stop reason; None without an answer."""
        return self.message.stop_reason if self.message is not None else None

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all model calls of the run together."""
        total = Usage()
        for message in self.new_messages:
            if isinstance(message, AssistantMessage) and message.usage is not None:
                total = total + message.usage
        return total

    def raise_for_status(self) -> RunResult:
        """Return self when the run completed.

        Raises:
            RunLimitReached: It reached a limit.
            RunAborted: It was aborted.
            YiemAgentError: It failed; usually an ``LlmError``.
        """
        error = self.failure()
        if error is not None:
            raise error
        if self.status == "limit":
            raise RunLimitReached(
                f"the run reached its limit {self.limit}", limit=self.limit or "", result=self
            )
        return self

    def failure(self) -> BaseException | None:
        """The error that ``run`` raises for this result; None when it completed or reached a limit."""
        if self.status in ("completed", "limit"):
            return None
        error: BaseException | None = self.error
        if self.status == "aborted" and error is None:
            error = RunAborted("Operation aborted")
        if error is None:
            error = LlmError("the run failed without an error")
        if isinstance(error, YiemAgentError) and hasattr(error, "result"):
            error.result = self
        return error

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


def response_error(response: Response) -> BaseException | None:
    """The error that ``take_response`` raises for *response*; None when it is an answer."""
    if response.status in ("completed", "limit"):
        return None
    if response.error is not None:
        return response.error
    return RunAborted("Operation aborted")


def stopped_error() -> AgentStopped:
    """What everybody gets who waits for an agent that was stopped."""
    return AgentStopped("the agent was stopped; make a new Agent to go on with its messages")
