"""Every exception that yiemagent raises on purpose.

::

    YiemAgentError
      ConfigurationError (ValueError)     wrong keyword, value, tool, schema
      AgentBusy                           the call needs an idle agent
      AgentStopped                        the agent was stopped
      ChannelFull                         a bounded channel has no room
      CannotContinue                      nothing to continue from
      WaitTimeout (TimeoutError)          the caller's own deadline passed
      RunAborted                          the run was aborted
      RunLimitReached                     the run reached one of its limits
      HookFailed                          a hook of the run raised
      InvalidTranscript                   tool calls and results do not pair up
      LlmError                            the model could not answer
        RateLimited  AuthenticationFailed  ContextOverflow  InvalidResponse
        StreamTruncated  EmptyResponse  ConnectionFailed  LlmTimeout (TimeoutError)
      McpError                            an MCP server or its transport failed
        McpTimeout (TimeoutError)  McpConnectionError  McpProtocolError  McpAuthorizationError

Inside a run errors are data: an error result, or an assistant message with
``stop_reason="error"``. Outside it they are raised. All of them survive pickling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "AgentBusy",
    "AgentStopped",
    "AuthenticationFailed",
    "CannotContinue",
    "ChannelFull",
    "ConfigurationError",
    "ConnectionFailed",
    "ContextOverflow",
    "EmptyResponse",
    "HookFailed",
    "InvalidResponse",
    "InvalidTranscript",
    "LlmError",
    "LlmTimeout",
    "McpAuthorizationError",
    "McpConnectionError",
    "McpError",
    "McpProtocolError",
    "McpTimeout",
    "RateLimited",
    "RunAborted",
    "RunLimitReached",
    "StreamTruncated",
    "WaitTimeout",
    "YiemAgentError",
]


def _rebuild(cls: type[YiemAgentError], args: tuple[Any, ...]) -> YiemAgentError:
    error = cls.__new__(cls, *args)
    error.args = args
    return error


class YiemAgentError(Exception):
    """Root of the tree: ``except YiemAgentError`` catches everything below."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The attributes go in as state, not as arguments: an error and its ``result`` hold each other.
        return _rebuild, (type(self), self.args), dict(self.__dict__)


class ConfigurationError(YiemAgentError, ValueError):
    """A keyword, value, tool or schema cannot work; the message names it and the way out."""


class AgentBusy(YiemAgentError):
    """The call needs an idle agent, or would wait for the very run that makes it."""


class AgentStopped(YiemAgentError):
    """The agent was stopped: it takes no more messages and answers none."""


class ChannelFull(YiemAgentError):
    """A bounded channel has no room and waiting would not (or did not) make any."""


class CannotContinue(YiemAgentError):
    """``continue_`` needs a history that ends with a user message or a tool result."""


class _CarriesResult(YiemAgentError):
    """An error that ends a run and carries what the run had produced until then."""

    result: Any
    """The partial ``RunResult``, or None when the run had not begun."""

    def __init__(self, message: str, *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class WaitTimeout(_CarriesResult, TimeoutError):
    """The caller's own deadline passed before there was an answer."""


class RunAborted(_CarriesResult):
    """The run was aborted; ``reason`` is what was given to ``abort``."""

    reason: str

    def __init__(self, message: str, *, reason: str = "", result: Any = None) -> None:
        super().__init__(message, result=result)
        self.reason = reason


class RunLimitReached(_CarriesResult):
    """The run reached a limit; ``limit`` is its name, such as ``max_tool_turns``."""

    limit: str

    def __init__(self, message: str, *, limit: str = "", result: Any = None) -> None:
        super().__init__(message, result=result)
        self.limit = limit


class HookFailed(_CarriesResult):
    """A hook of the run raised; ``hook`` is its name and ``__cause__`` what it raised."""

    hook: str

    def __init__(self, message: str, *, hook: str = "", result: Any = None) -> None:
        super().__init__(message, result=result)
        self.hook = hook


class InvalidTranscript(_CarriesResult):
    """Tool calls and tool results do not pair up; ``violations`` lists where and why."""

    violations: tuple[Mapping[str, Any], ...]

    def __init__(
        self, message: str, *, violations: Sequence[Mapping[str, Any]] = (), result: Any = None
    ) -> None:
        super().__init__(message, result=result)
        self.violations = tuple(violations)


class LlmError(_CarriesResult):
    """The model could not answer.

    Attributes:
        kind: Stable machine-readable name, such as ``rate_limit`` or ``provider_error``.
        status: HTTP status, or None when there was none.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds the provider asked to wait, or None.
        partial: The assistant message as far as it had arrived, or None.
        result: The partial ``RunResult`` of the run, or None.
    """

    kind: str = "provider_error"

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        partial: Any = None,
        result: Any = None,
    ) -> None:
        super().__init__(message, result=result)
        if kind is not None:
            self.kind = kind
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.partial = partial


class RateLimited(LlmError):
    """The provider asked us to slow down, or a quota is used up (then not retryable)."""

    kind = "rate_limit"


class AuthenticationFailed(LlmError):
    """The key is missing, wrong, or not allowed to use this model."""

    kind = "authentication"


class ContextOverflow(LlmError):
    """The request is longer than the model's context window."""

    kind = "context_overflow"


class InvalidResponse(LlmError):
    """The provider's answer cannot be read as the dialect says."""

    kind = "invalid_response"


class StreamTruncated(LlmError):
    """The stream ended before the answer did; no tool call of it is run."""

    kind = "stream_truncated"


class EmptyResponse(LlmError):
    """The model answered with neither text nor a tool call."""

    kind = "empty_response"


class ConnectionFailed(LlmError):
    """The provider could not be reached, or the connection broke."""

    kind = "connection_failed"


class LlmTimeout(LlmError, TimeoutError):
    """The provider was too slow: connect, first byte, idle or total limit."""

    kind = "timeout"


class McpError(YiemAgentError):
    """An MCP server answered with an error, or its transport failed.

    Attributes:
        code: JSON-RPC error code, or None when the error is ours.
        data: The ``data`` of the JSON-RPC error, or None.
    """

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class McpTimeout(McpError, TimeoutError):
    """The server did not answer in time; the call was cancelled."""


class McpConnectionError(McpError):
    """The server cannot be reached, ended, or the connection broke."""


class McpProtocolError(McpError):
    """The server said something that the protocol does not allow."""


class McpAuthorizationError(McpError):
    """An MCP server wants an authorization that we do not have and could not get.

    Attributes:
        error: OAuth error code, such as ``access_denied``; empty when the error is ours.
        status: HTTP status of the answer that said no, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        error: str = "",
        status: int | None = None,
        code: int | None = None,
        data: Any = None,
    ) -> None:
        super().__init__(message, code=code, data=data)
        self.error = error
        self.status = status
