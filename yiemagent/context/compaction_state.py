"""What a compactor knows of its conversation, and where a conversation may be cut."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from yiemagent.context.mapping import continues
from yiemagent.context.tokens import TokenCounter
from yiemagent.context.transcript import units_backwards
from yiemagent.context.truncate import shorten_result
from yiemagent.data_class import replace
from yiemagent.messages import Message, UserMessage

__all__ = ["CompactionState", "choose_cut", "find_questions"]


@dataclass(frozen=True, slots=True)
class CompactionState:
    """How far a conversation is known, and what is sent in place of its beginning.

    Never changed, but replaced as a whole: a compactor that is used for two conversations by
    mistake loses time, never its way.
    """

    seen: Sequence[Message] = ()
    known: int = 0
    """How many of ``seen`` are counted."""
    last: Message | None = None
    """The last of those: shows that the list of last time was emptied and filled again."""
    head: tuple[Message, ...] = ()
    """Sent before the rest: first question, summary, question of the turn in progress."""
    stand_in: Message | None = None
    """The one of these that holds the summary."""
    cut: int = 0
    """Index of the first message that is sent as it is."""
    head_units: int = 0
    tail_units: int = 0
    summary: str = ""
    is_tainted: bool = False
    """Untrusted tool output went into the summary."""
    retry_at: int = 0
    """Tokens below which a failed compaction is not tried again."""
    max_result_chars: int | None = None
    """Longest tool result that is sent, since the window overflowed."""

    @property
    def units(self) -> int:
        """Units of what is sent."""
        return self.head_units + self.tail_units

    def sent(self) -> Sequence[Message]:
        """The messages for the next request: the history's own list as long as nothing is replaced."""
        if not self.head and self.max_result_chars is None:
            return self.seen
        tail = self.seen[self.cut :]
        return [*self.head, *(tail if self.max_result_chars is None else map(self.shortened, tail))]

    def shortened(self, message: Message) -> Message:
        """The message as it is sent."""
        return message if self.max_result_chars is None else shorten_result(message, self.max_result_chars)

    def follows(self, messages: Sequence[Message]) -> bool:
        """Whether *messages* is the same conversation, perhaps with more behind it.

        Compared by identity, so that no message that was taken out of a history comes back in
        a summary; free for the very list of last time.
        """
        if messages is self.seen and len(messages) >= self.known:
            return not self.known or messages[self.known - 1] is self.last
        return continues(messages, self.seen, self.known)

    def rebased(self, messages: Sequence[Message]) -> CompactionState | None:
        """The state for a conversation that begins with what ``sent`` made; None if it does not.

        After an overflow a run goes on from the shorter messages instead of from its history.
        """
        head = self.head
        if not head or len(messages) < len(head) or not all(map(operator.is_, head, messages)):
            return None
        return replace(self, seen=messages, known=len(head), last=head[-1], cut=len(head), tail_units=0)

    def measured(self, messages: Sequence[Message], counter: TokenCounter) -> int:
        """Units of *messages* as they are sent."""
        return sum(counter.measure(self.shortened(message)) for message in messages)

    def grown(self, messages: Sequence[Message], counter: TokenCounter) -> CompactionState:
        """The state with everything counted that *messages* has more."""
        added = messages[self.known :]
        return replace(
            self,
            seen=messages,
            known=len(messages),
            last=messages[-1] if messages else None,
            tail_units=self.tail_units + self.measured(added, counter),
        )


def choose_cut(state: CompactionState, counter: TokenCounter, keep_units: float, keep_turns: int) -> int:
    """Where the messages begin that stay as they are.

    At the begin of the oldest of the last *keep_turns* turns that fits with all after it into
    *keep_units*; if not even the last turn does, inside it, between two units. The last unit
    stays in any case.
    """
    messages = state.seen
    cut, at_turn, turns = len(messages), len(messages), 0
    for begin, end in units_backwards(messages, state.cut):
        keep_units -= state.measured(messages[begin:end], counter)
        if keep_units < 0 and cut < len(messages):
            break
        cut = begin
        if isinstance(messages[begin], UserMessage):
            at_turn, turns = begin, turns + 1
            if turns >= keep_turns:
                break
    return at_turn if turns else cut


def find_questions(state: CompactionState, cut: int) -> tuple[int | None, int | None]:
    """The user messages before *cut* that stay: the first, and the one that the rest answers."""
    messages = state.seen

    def is_question(index: int) -> bool:
        return isinstance(messages[index], UserMessage) and messages[index] is not state.stand_in

    first = next(filter(is_question, range(cut)), None)
    if any(map(is_question, range(cut, len(messages)))):
        return first, None
    pinned = next(filter(is_question, range(cut - 1, -1, -1)), None)
    return first, None if pinned == first else pinned
