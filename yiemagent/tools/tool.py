"""Tools as data: ``Tool``, what it returns, and what a running one is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.messages import ContentBlock, TextContent, Trust, Usage

__all__ = [
    "ExecutionMode",
    "Execute",
    "Isolation",
    "OnUpdate",
    "Tool",
    "ToolContext",
    "ToolResult",
]

ExecutionMode: TypeAlias = Literal["parallel", "sequential"]
Isolation: TypeAlias = Literal["thread", "process"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gives back. ``ToolResult("text")`` makes one text block."""

    content: tuple[ContentBlock, ...] = ()
    """What the model reads."""
    details: Any = None
    """For the application; never sent to a model."""
    usage: Usage | None = None
    """What the tool itself spent, if it asked a model."""
    terminate: bool = False
    """End the run after this batch, if every result of the batch says so (decision 14)."""
    is_error: bool = field(default=False, kw_only=True)
    trust: Trust = field(default="trusted", kw_only=True)
    added_tool_names: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        content: Any = self.content
        if type(content) is not tuple:
            blocks = (TextContent(content),) if isinstance(content, str) else tuple(content or ())
            object.__setattr__(self, "content", blocks)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextContent))


class OnUpdate(Protocol):
    """How a running tool reports progress; ignored once its call is over. Any thread."""

    def __call__(self, partial: ToolResult | str, /) -> None: ...


class Execute(Protocol):
    """The body of a tool.

    Called on a tool thread (never the agent's) with a validated copy of the arguments that it
    may change. It returns a ``ToolResult`` or anything that can be made into one; what it
    raises, ``SystemExit`` included, becomes an error result. It should watch *signal*.
    """

    def __call__(
        self, tool_call_id: str, args: dict[str, Any], signal: AbortSignal, on_update: OnUpdate, /
    ) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a ``@tool`` function gets for a parameter annotated ``ToolContext``.

    The parameter is hidden from the schema.
    """

    tool_call_id: str
    tool_name: str
    signal: AbortSignal
    """Aborted when the result is no longer wanted: the run's abort, a timeout, or a stop."""
    on_update: OnUpdate
    event_sink: Callable[..., None]
    """``event_sink(text, publish=False)``: becomes a ``Log`` event of the run."""

    def update(self, partial: ToolResult | str) -> None:
        """Report progress: a ``ToolExecutionUpdate`` event."""
        self.on_update(partial)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool (``agentTool`` of the Julia design). Construction checks it; see ``registry``.

    Raises:
        ConfigurationError: The name is one that providers refuse, the schema's root is no
            object, the schema is broken, or ``execute`` is a coroutine or generator function.
    """

    name: str
    """Matches ``^[a-zA-Z0-9_-]{1,64}$``."""
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    execute: Execute
    label: str | None = None
    """For people; the name when None."""
    prepare_arguments: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Repairs raw arguments before they are validated; returns them (the same object = unchanged)."""
    validate_arguments: Callable[[Mapping[str, Any]], str | None] | None = None
    """Replaces the required-arguments check's wording: a text is the error, None accepts."""
    execution_mode: ExecutionMode | None = None
    """``"sequential"`` makes its whole batch sequential; None follows the agent."""
    timeout: float | None = None
    """Seconds that one call may take; None follows ``tool_timeout`` of the agent."""
    isolation: Isolation = "thread"
    """``"process"`` runs it in a child process that abort and timeout really kill."""
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """Hints for hooks, as MCP names them (``destructiveHint``, ``readOnlyHint``)."""
    output_schema: Mapping[str, Any] | None = None
    function: Callable[..., Any] | None = None
    """The plain function behind a ``@tool``, or None."""
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    type: ClassVar[str] = "tool"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function behind the tool, so that a decorated function stays usable."""
        if self.function is None:
            raise TypeError(f"tool {self.name!r} has no plain function behind it; call its execute")
        return self.function(*args, **kwargs)


ToolLike: TypeAlias = Tool | Callable[..., Any]
Tools: TypeAlias = Iterable[ToolLike]
