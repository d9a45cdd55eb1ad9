"""The contract between the loop and whatever answers: ``Llm``, its context and its options.

It stands below both rooms: the loop is handed an ``Llm``, the adapters in ``yiemagent.llm``
implement one, and neither imports the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from yiemagent.abort import AbortSignal
from yiemagent.assistant_events import AssistantEvent
from yiemagent.data_class import dataclass
from yiemagent.lineage import History
from yiemagent.messages import LlmMessage
from yiemagent.value_checks import check_count, check_number, check_type

__all__ = ["Llm", "LlmContext", "ModelInfo", "StreamOptions", "ThinkingLevel", "ToolSpec"]

ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What is known of a model; None where it is not.

    Raises:
        ConfigurationError: A value is of no use; the message names it.
    """

    id: str
    provider: str = ""
    api: str = ""
    context_window: int | None = None
    """Tokens of prompt and answer together."""
    max_output_tokens: int | None = None
    input_price: float | None = None
    """US dollars for a million prompt tokens; likewise the other prices."""
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None
    supports_images: bool | None = None

    def __post_init__(self) -> None:
        for name in ("id", "provider", "api"):
            check_type(name, getattr(self, name), str, none=False)
        for name in ("context_window", "max_output_tokens"):
            check_count(name, getattr(self, name))
        for name in ("input_price", "output_price", "cache_read_price", "cache_write_price"):
            check_number(name, getattr(self, name))
        check_type("supports_images", self.supports_images, bool)


class ToolSpec(Protocol):
    """What a model needs to know of a tool; ``yiemagent.tools.Tool`` is one."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class LlmContext:
    """One request: system prompt, transcript and tools. Never changed by an ``Llm``."""

    system_prompt: str
    messages: Sequence[LlmMessage]
    tools: Sequence[ToolSpec] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How one request is to be made. None means: the adapter's own default."""

    signal: AbortSignal = field(default_factory=AbortSignal)
    """Aborted when the answer is no longer wanted."""
    deadline: float | None = None
    """``time.monotonic()`` value after which the run has no time left."""
    want_deltas: bool = True
    """Whether anybody listens to deltas; without it an adapter may ask for a plain answer."""
    api_key: str | None = None
    reasoning: ThinkingLevel | None = None
    thinking_budgets: Mapping[str, int] | None = None
    session_id: str | None = None
    transport: str | None = None
    max_retry_delay: float | None = None
    """Longest wait in seconds that a provider may ask for before a retry; 0 = no limit."""
    temperature: float | None = None
    max_tokens: int | None = None
    tool_choice: Any = None
    extra_body: Mapping[str, Any] | None = None
    on_payload: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None
    """Sees each request body before it is sent; what it returns (unless None) is sent instead."""
    on_response: Callable[[int, Mapping[str, str]], object] | None = None
    """Sees status and headers of each response."""
    event_sink: Callable[..., object] | None = None
    """``event_sink(text, publish=False)``: becomes a ``Log`` event of the run."""
    history: History | None = None
    """The messages that the loop sends, when they are a conversation's history as it is."""
    notes: dict[Any, Any] | None = None
    """Belongs to one conversation and lives as long as it: an adapter may keep there, under a key
    of its own, what it worked out about the history, so that a request costs what is new."""


@runtime_checkable
class Llm(Protocol):
    """A model that can be asked.

    An adapter that ends its stream within 0.1 s of ``options.signal`` being aborted, in every
    phase, says so with a true attribute ``abortable``; the loop then iterates it on its own
    thread. Any other is iterated on a helper thread that can be left.
    """

    @property
    def info(self) -> ModelInfo:
        """What is known of the model; cheap, no I/O."""

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        """Ask once and yield the answer's events, the last one ``Done`` or ``Failed``.

        Blocks between events. It should not raise; what it raises becomes a failed answer. It
        neither changes *context* nor keeps it. It may be called from several threads at once.
        """
