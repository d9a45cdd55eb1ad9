"""Whether a history still begins as it did, without looking at each of its messages.

What is worked out about a history is kept for its next request: which messages were found to be
sound, the bytes that each model was sent. It holds as long as the history begins with the very
same objects. Looking costs every turn as much as the history is long; a lineage knows.

Source: issue 7, "one turn at 1,000 messages".
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_, length_hint

from yiemagent.data_class import dataclass

__all__ = ["History", "Lineage", "same_beginning"]


class Lineage:
    """Where a history comes from: it only grows, and one that is cut or replaced gets another.

    Who notes something about the first messages of a history keeps its ``mark`` with the note.

    Args:
        before: That of the history which was cut or replaced.
        kept: How many of its first messages are still the first ones, the same objects.
    """

    __slots__ = ("_before", "_kept", "mark")

    def __init__(self, before: Lineage | None = None, kept: int = 0) -> None:
        self.mark = object()
        # Not the lineage itself, which holds that of the history before it, and so on.
        self._before = None if before is None else before.mark
        self._kept = kept

    def kept(self, mark: object, length: int) -> int:
        """How many of the first *length* messages noted under *mark* are surely the first ones still."""
        if mark is self.mark:
            return length
        return min(length, self._kept) if mark is not None and mark is self._before else 0


@dataclass(frozen=True, slots=True)
class History:
    """The messages of a request that are a conversation's history as it is, and its lineage."""

    messages: Sequence[object]
    lineage: Lineage

    def lineage_of(self, messages: Sequence[object]) -> Lineage | None:
        """The lineage, if *messages* are the very sequence: who stands in between may send another."""
        return self.lineage if messages is self.messages else None


def same_beginning(one: Sequence[object], other: Sequence[object]) -> int:
    """With how many of the same objects both begin. Costs their length, but no step of Python for each."""
    looked_at = iter(one)
    if all(map(is_, looked_at, other)):
        return min(len(one), len(other))
    return len(one) - length_hint(looked_at) - 1
