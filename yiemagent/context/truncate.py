"""Making a conversation fit by leaving whole units out, or the middle of a huge tool result.

Nothing here changes the history: these functions give back shorter lists for one request.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from yiemagent.abort import AbortSignal
from yiemagent.context.mapping import MessageMap
from yiemagent.context.observation import observe
from yiemagent.context.size import message_size
from yiemagent.context.transcript import units, units_backwards
from yiemagent.data_class import replace
from yiemagent.errors import ConfigurationError
from yiemagent.messages import Message, TextContent, ToolResultMessage, UserMessage

__all__ = [
    "Strategy",
    "Transform",
    "make_transform",
    "shorten_result",
    "shorten_results",
    "truncate",
    "without_middle",
]

logger = logging.getLogger(__name__)

Strategy: TypeAlias = Literal["sliding_window", "bookends"]

Transform: TypeAlias = Callable[[Sequence[Message], AbortSignal | None], Sequence[Message]]
"""What ``transform_context`` takes: the messages for one request, from those of the history.

It may give back the very list that it got; it never changes it.
"""

_STRATEGIES = ("sliding_window", "bookends")


def truncate(
    messages: Sequence[Message],
    *,
    max_messages: int | None = 100,
    max_chars: int | None = 500_000,
    strategy: Strategy = "sliding_window",
    keep_first_user: bool = True,
) -> tuple[list[Message], int]:
    """Leave out whole units until the rest is within both limits; what is kept stays in order.

    ``sliding_window`` keeps the newest: from the newest to the oldest every unit that still
    fits. With *keep_first_user* the unit of the first user message is kept in any case, even
    above the limits, and what lies before it is left out. ``bookends`` keeps the first and the
    last, taken in turns from the front; both limits are hard and nothing is kept in any case.

    Args:
        messages: The conversation; within both limits it is given back as it is.
        max_messages: Most messages to keep; None = no limit.
        max_chars: Most characters to keep, by ``estimate_size``; None = no limit.
        strategy: An unknown one is logged and taken for ``sliding_window``.
        keep_first_user: See above.

    Returns:
        The kept messages, and how many were left out. A sound transcript stays sound: calls
        and their results are one unit.

    Raises:
        ConfigurationError: A limit is negative or no number.

    Source: CX-5 to CX-8, cases C-01 and C-29.
    """
    window = _Window(max_messages, max_chars)
    if window.holds(messages):
        return list(messages), 0
    if strategy == "bookends":
        picked = _bookends(messages, window)
    else:
        if strategy != "sliding_window":
            logger.warning(
                "strategy=%r | unknown, taken for sliding_window; known are %s", strategy, _STRATEGIES
            )
        picked = _sliding(messages, window, keep_first_user)
    kept = [message for begin, end in sorted(picked) for message in messages[begin:end]]
    dropped = len(messages) - len(kept)
    if dropped:
        observe("context.truncated", {"dropped": dropped, "kept": len(kept), "strategy": strategy})
    return kept, dropped


def make_transform(*, warn_on_truncation: bool = True, **limits: Any) -> Transform:
    """Make a ``transform_context`` that truncates each request.

    Args:
        warn_on_truncation: Log the first cut as a warning; later ones are logged as debug.
        **limits: As for ``truncate``.

    Raises:
        ConfigurationError: A limit is negative or no number.
        TypeError: A keyword that ``truncate`` does not have.

    Source: CX-9.
    """
    truncate((), **limits)
    level = logging.WARNING if warn_on_truncation else logging.DEBUG

    def transform(messages: Sequence[Message], signal: AbortSignal | None = None) -> list[Message]:
        nonlocal level
        kept, dropped = truncate(messages, **limits)
        if dropped:
            logger.log(level, "dropped=%d kept=%d | the conversation was truncated", dropped, len(kept))
            level = logging.DEBUG
        return kept

    return transform


def shorten_results(max_chars: int = 100_000) -> Transform:
    """Make a ``transform_context`` that cuts the middle out of huge tool results.

    One result may be longer than any context window, and then leaving out others does not
    help (case C-29). The model reads beginning and end and how much is missing.

    Args:
        max_chars: Most characters of the text of one result, the note about the cut included.

    Raises:
        ConfigurationError: *max_chars* is below 200.
    """
    if max_chars < 200:
        raise ConfigurationError(f"max_chars must be 200 or more, got {max_chars}")

    return MessageMap(lambda message: shorten_result(message, max_chars))


def shorten_result(message: Message, max_chars: int) -> Message:
    """*message* itself, or one without the middle of its text if it is a longer tool result."""
    if type(message) is not ToolResultMessage or message_size(message) <= max_chars:
        return message
    text = message.text
    if len(text) <= max_chars:
        return message
    rest = tuple(block for block in message.content if not isinstance(block, TextContent))
    return replace(message, content=(TextContent(without_middle(text, max_chars)), *rest))


def without_middle(text: str, max_chars: int) -> str:
    """Cut *text* to *max_chars* characters: its beginning, how many are missing, its end.

    *max_chars* must leave room for the note (200 is enough).
    """
    if len(text) <= max_chars:
        return text
    note = "\n[... {} characters left out here ...]\n"
    room = max_chars - len(note.format(len(text)))
    tail = room // 3
    return text[: room - tail] + note.format(len(text) - room) + text[len(text) - tail :]


class _Window:
    """What still fits."""

    __slots__ = ("chars", "count")

    def __init__(self, max_messages: int | None, max_chars: int | None) -> None:
        for name, limit in (("max_messages", max_messages), ("max_chars", max_chars)):
            if limit is not None and (not isinstance(limit, (int, float)) or not limit >= 0):
                raise ConfigurationError(f"{name} must be 0 or more, or None for no limit, got {limit!r}")
        self.count: float = float("inf") if max_messages is None else max_messages
        self.chars: float = float("inf") if max_chars is None else max_chars

    def holds(self, messages: Sequence[Message]) -> bool:
        return len(messages) <= self.count and sum(map(message_size, messages)) <= self.chars

    def take(self, messages: Sequence[Message], unit: tuple[int, int]) -> bool:
        """Make the unit part of the window if it fits."""
        begin, end = unit
        size = sum(map(message_size, messages[begin:end]))
        if end - begin > self.count or size > self.chars:
            return False
        self.count -= end - begin
        self.chars -= size
        return True


def _sliding(messages: Sequence[Message], window: _Window, keep_first_user: bool) -> list[tuple[int, int]]:
    picked: list[tuple[int, int]] = []
    start = 0
    if keep_first_user:
        first = next((i for i, message in enumerate(messages) if isinstance(message, UserMessage)), None)
        if first is not None:
            start = first + 1
            picked.append((first, start))
            window.count -= 1
            window.chars -= message_size(messages[first])
    for unit in units_backwards(messages, start):
        if window.count <= 0:
            break
        if window.take(messages, unit):
            picked.append(unit)
    return picked


def _bookends(messages: Sequence[Message], window: _Window) -> list[tuple[int, int]]:
    picked: list[tuple[int, int]] = []
    front, back = units(messages), units_backwards(messages)
    begin, end = 0, len(messages)
    for at_front in itertools.cycle((True, False)):
        if begin >= end or window.count <= 0:
            break
        unit = next(front if at_front else back)
        if at_front:
            begin = unit[1]
        else:
            end = unit[0]
        if window.take(messages, unit):
            picked.append(unit)
    return picked
