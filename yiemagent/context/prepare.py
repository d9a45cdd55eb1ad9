"""Ready-made ``prepare_context`` and ``transform_context`` hooks, and putting several together.

A ``prepare_context`` hook replaces the whole context (prompt, messages, tools) for one model
call and is given none of it to change: ``hook(context, event_sink) -> context or None``. A
transform sees messages only. The history stays as it is in both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.context.observation import observe
from yiemagent.context.transcript import units_backwards
from yiemagent.context.truncate import Transform
from yiemagent.data_class import replace
from yiemagent.errors import ConfigurationError
from yiemagent.messages import Message, UserMessage

__all__ = [
    "Pipeline",
    "PrepareContext",
    "compose",
    "compose_prepare",
    "keep_last_turns",
    "last_turns",
    "only_tools",
    "system_note",
    "time_note",
]

PrepareContext: TypeAlias = Callable[[Any, Any], Any]
"""``hook(context, event_sink)``; None means that the context stays."""


class Pipeline:
    """Several transforms, each given what the one before it made; made by ``compose``."""

    __slots__ = ("_transforms",)

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self._transforms = tuple(transforms)

    def __call__(self, messages: Sequence[Message], signal: AbortSignal | None = None) -> Sequence[Message]:
        """The messages for one request; *messages* itself if no transform changes them."""
        for transform in self._transforms:
            messages = transform(messages, signal)
        return messages

    def recover_from_overflow(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Make a refused request shorter, by the first transform that knows how.

        The transforms around it do their work as always, so what is asked with next is fenced
        and shortened like any other request. Use it as ``recover_context``.

        Returns:
            The messages to ask with, or None when they cannot be made shorter.
        """
        recovered = False
        for transform in self._transforms:
            recover = None if recovered else getattr(transform, "recover_from_overflow", None)
            if recover is None:
                messages = transform(messages, None)
                continue
            shorter = recover(messages)
            if shorter is None:
                return None
            messages, recovered = shorter, True
        return messages if recovered else None


def compose(*transforms: Transform | None) -> Pipeline:
    """Put transforms together, first to last; None is left out.

    A good order: a ``Compactor`` first, for it follows the history itself; then
    ``shorten_results`` and ``make_transform``; ``untrusted_boundary`` last.

    Raises:
        ConfigurationError: Something is not callable.
    """
    given = [transform for transform in transforms if transform is not None]
    _check_callable("transform", given)
    return Pipeline(given)


def compose_prepare(*steps: PrepareContext | None) -> PrepareContext:
    """Put ``prepare_context`` hooks together, first to last; None is left out.

    Raises:
        ConfigurationError: Something is not callable.
    """
    given = [step for step in steps if step is not None]
    _check_callable("prepare_context hook", given)

    def hook(context: Any, event_sink: Any = None) -> Any:
        for step in given:
            made = step(context, event_sink)
            context = context if made is None else made
        return context

    return hook


def system_note(note: str | Callable[[Any], str | None]) -> PrepareContext:
    """Make a ``prepare_context`` hook that adds a paragraph to the system prompt of each request.

    Args:
        note: The text, or a function of the context that gives it; an empty one adds nothing.

    Raises:
        ConfigurationError: *note* is neither.
    """
    if not callable(note) and not isinstance(note, str):
        raise ConfigurationError(f"note must be a str or a function of the context, got {note!r}")

    def hook(context: Any, event_sink: Any = None) -> Any:
        text = note(context) if callable(note) else note
        if not text:
            return context
        prompt = f"{context.system_prompt}\n\n{text}" if context.system_prompt else text
        return replace(context, system_prompt=prompt)

    return hook


def time_note(
    *,
    label: str = "Current time",
    zone: tzinfo = UTC,
    resolution: float = 60.0,
    now: Callable[[tzinfo], datetime] = datetime.now,
) -> PrepareContext:
    """Make a ``prepare_context`` hook that tells the model the time (runbook 2.6).

    Args:
        label: What stands before the time.
        zone: The time is told in it, with its offset.
        resolution: Seconds to which the time is rounded down. Each new time makes the provider
            read the whole prompt afresh; a day is ``86400``.
        now: The clock.

    Raises:
        ConfigurationError: *resolution* is not positive, or *zone* is no ``tzinfo``.
    """
    if not isinstance(resolution, (int, float)) or not resolution > 0:
        raise ConfigurationError(f"resolution must be more than 0 seconds, got {resolution!r}")
    if not isinstance(zone, tzinfo):
        raise ConfigurationError(
            f"zone must be a tzinfo such as zoneinfo.ZoneInfo({str(zone)!r}), got {zone!r}"
        )

    def text(context: Any) -> str:
        seconds = now(zone).timestamp()
        told = datetime.fromtimestamp(seconds - seconds % resolution, zone)
        return f"{label}: {told.isoformat(timespec='seconds')}"

    return system_note(text)


def keep_last_turns(count: int) -> PrepareContext:
    """Make a ``prepare_context`` hook that sends the last *count* turns only (runbook 2.6).

    See ``last_turns``; ``Compactor`` keeps what the older ones said.

    Raises:
        ConfigurationError: *count* is below 1.
    """
    _check_turns(count)

    def hook(context: Any, event_sink: Any = None) -> Any:
        return replace(context, messages=last_turns(context.messages, count))

    return hook


def last_turns(messages: Sequence[Message], count: int) -> Sequence[Message]:
    """The last *count* turns, each from a user message up to the next.

    A turn begins with a user message and so never between a tool call and its results: unlike
    the last so many messages, what is left is a sound transcript (case C-01). User messages in
    a row begin one turn.

    Returns:
        *messages* itself if it has no more turns than that, else a shorter list.

    Raises:
        ConfigurationError: *count* is below 1.
    """
    _check_turns(count)
    begin, turns = len(messages), 0
    for start, _ in units_backwards(messages):
        if isinstance(messages[start], UserMessage):
            begin = start
            if start == 0 or not isinstance(messages[start - 1], UserMessage):
                turns += 1
                if turns == count:
                    break
    if not turns or begin == 0 or turns < count:
        return messages
    observe("context.pruned", {"dropped": begin, "kept": len(messages) - begin, "turns": turns})
    return messages[begin:]


def only_tools(select: Collection[str] | Callable[[Any], Collection[str] | None]) -> PrepareContext:
    """Make a ``prepare_context`` hook that offers some of the tools only (runbook 2.6).

    Args:
        select: Their names, or a function of the context that gives them; None means all.
            Names that no tool has are passed over.

    Raises:
        ConfigurationError: *select* is a text instead of a collection of names.
    """
    if isinstance(select, str):
        raise ConfigurationError(f"select must be a collection of tool names, got the text {select!r}")

    def hook(context: Any, event_sink: Any = None) -> Any:
        names = select(context) if callable(select) else select
        if names is None:
            return context
        return replace(context, tools=[tool for tool in context.tools if tool.name in names])

    return hook


def _check_turns(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigurationError(f"count must be 1 turn or more, got {count!r}")


def _check_callable(what: str, given: Sequence[object]) -> None:
    for one in given:
        if not callable(one):
            raise ConfigurationError(f"a {what} must be callable, got {one!r}")
