"""Tools as data: ``Tool``, what it returns, and what a running one is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.data_class import dataclass
from yiemagent.messages import ContentBlock, TextContent, Trust, Usage
from yiemagent.tools.checks import check_tool
from yiemagent.tools.wire_schema import to_wire_schema

__all__ = [
    "ExecutionMode",
    "Execute",
    "Isolation",
    "OnUpdate",
    "Tool",
    "ToolContext",
    "ToolLike",
    "ToolResult",
    "Tools",
    "current_event_sink",
]

ExecutionMode: TypeAlias = Literal["parallel", "sequential"]
Isolation: TypeAlias = Literal["thread", "process"]


def _nobody_listens(text: str, publish: bool = False) -> None:
    """The sink of a tool that is called outside a run."""


current_event_sink: ContextVar[Callable[..., None]] = ContextVar(
    "yiemagent_event_sink", default=_nobody_listens
)
"""``event_sink(text, publish=False)`` of the run whose tool call this context belongs to."""


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


class _Derived:
    """A field of ``Tool`` that is worked out on first use when it was not given.

    ``execute`` of a tool that was made from a function knows how: reading fifty signatures and
    docstrings would otherwise be most of the cost of making fifty tools.
    """

    def __init__(self, method: str, fallback: Callable[[], Any]) -> None:
        self._method = method
        self._fallback = fallback

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, tool: Tool | None, owner: type | None = None) -> Any:
        if tool is None:
            return None  # The default of the constructor's keyword.
        value = tool.__dict__[self._name]
        if value is None:
            derive = getattr(tool.execute, self._method, self._fallback)
            value = tool.__dict__[self._name] = derive()
        return value

    def __set__(self, tool: Tool, value: Any) -> None:
        tool.__dict__[self._name] = value


def _derived(method: str, fallback: Callable[[], Any]) -> Any:
    return _Derived(method, fallback)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tool:
    """One tool (``agentTool`` of the Julia design). Construction checks it; see ``checks``.

    A tool never changes (``dataclasses.replace`` makes another), may be shared by agents and
    threads, and compares by identity.

    Raises:
        ConfigurationError: The name is one that providers refuse, the schema's root is no
            object, the schema is broken, or ``execute`` is a coroutine or generator function.
    """

    name: str
    """Matches ``^[a-zA-Z0-9_-]{1,64}$``."""
    description: str = _derived("derive_description", str)
    input_schema: Mapping[str, Any] = _derived("derive_schema", lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments, as it was given; never changed and validated against."""
    execute: Execute
    label: str | None = None
    """For people; the name when None."""
    prepare_arguments: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None
    """Repairs raw arguments before they are validated. It gets a copy that it may change, and
    returns what to use; the same object or None means the copy as it is now."""
    validate_arguments: Callable[[Mapping[str, Any]], str | None] | None = None
    """Replaces the check for required arguments, after coercion: a text is the error that the
    model reads, None accepts."""
    execution_mode: ExecutionMode | None = None
    """``"sequential"`` makes its whole batch sequential; None follows the agent."""
    timeout: float | None = None
    """Seconds that one call may take, above 0; None follows ``tool_timeout`` of the agent."""
    isolation: Isolation = "thread"
    """``"process"`` runs it in a child process that abort and timeout really kill."""
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """Hints for hooks, as MCP names them (``destructiveHint``, ``readOnlyHint``)."""
    output_schema: Mapping[str, Any] | None = None
    function: Callable[..., Any] | None = None
    """The plain function behind a ``@tool``, or None."""
    _cache: dict[str, Any] = field(default_factory=dict, init=False)

    type: ClassVar[str] = "tool"

    def __post_init__(self) -> None:
        check_tool(self, schema=self.__dict__["input_schema"])
        if self.function is not None:  # For help() and inspect.signature(), as of the function it was.
            self.__dict__["__wrapped__"] = self.function
            self.__dict__["__name__"] = self.name
            self.__dict__["__doc__"] = self.function.__doc__

    @property
    def wire_schema(self) -> dict[str, Any]:
        """The schema that is sent to a model: ``input_schema`` with an object at its root and
        ``properties`` at each object level, which providers insist on (case C-17). Not to be changed.
        """
        wire: dict[str, Any] | None = self._cache.get("wire_schema")
        if wire is None:
            wire = self._cache["wire_schema"] = to_wire_schema(self.input_schema)
        return wire

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function behind the tool, so that a decorated function stays usable."""
        if self.function is None:
            raise TypeError(f"tool {self.name!r} has no plain function behind it; call its execute")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}


ToolLike: TypeAlias = Tool | Callable[..., Any]
Tools: TypeAlias = Iterable[ToolLike]
