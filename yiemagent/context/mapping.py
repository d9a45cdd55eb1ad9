"""Changing single messages on the way to a model, once each and not once each turn."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from yiemagent.abort import AbortSignal
from yiemagent.messages import Message

__all__ = ["MessageMap", "continues"]


class MessageMap:
    """A ``transform_context`` that changes messages one by one and remembers what came of it.

    The history stays untouched. A message that was changed before is the same object in the
    next request, so that its size and wire form are made once. May be shared by conversations
    and threads; then each call may start over.

    Args:
        change: Gives back the message itself or another one. Called once for each message as
            long as the conversation only grows.
    """

    __slots__ = ("_change", "_state")

    def __init__(self, change: Callable[[Message], Message]) -> None:
        self._change = change
        # (given, made, whether they differ) of the last call. Replaced as a whole and never
        # changed, so that calls on several threads cannot mix up their conversations.
        self._state: tuple[list[Message], list[Message], bool] = ([], [], False)

    def __call__(self, messages: Sequence[Message], signal: AbortSignal | None = None) -> Sequence[Message]:
        """The messages for one request: *messages* itself if none is changed, else a new list."""
        given = list(messages)
        seen, made, differ = self._state
        if not continues(given, seen):
            seen, made, differ = [], [], False
        added = given[len(seen) :]
        changed = [self._change(message) for message in added]
        made = made + changed
        differ = differ or any(map(operator.is_not, added, changed))
        self._state = (given, made, differ)
        return made.copy() if differ else messages


def continues(messages: Sequence[Message], seen: Sequence[Message], known: int | None = None) -> bool:
    """Whether *messages* is *seen* and perhaps more; a few nanoseconds for each message.

    Args:
        messages: The conversation now.
        seen: The conversation as it was.
        known: How many of *seen* count; None: all of them.
    """
    count = len(seen) if known is None else known
    if len(messages) < count:
        return False
    before = seen if len(seen) == count else seen[:count]
    now = messages if len(messages) == count else messages[:count]
    if type(before) is not type(now):
        before, now = list(before), list(now)
    try:
        # Sequences compare by identity first. Only messages that were replaced are really
        # compared, and what an application keeps in `details` may refuse that.
        return bool(now == before)
    except Exception:
        return False
