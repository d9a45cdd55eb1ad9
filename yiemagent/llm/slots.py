"""Which call does a delta belong to? Tool calls put together from their pieces.

Servers leave out indexes, reuse them, send ids and names late, again, blank or changed; the
rules here read all of that (decoding rules 4, 5 and 7).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["CallSlot", "CallSlots"]

_MARKS = re.compile(r'[{}\[\]"\\]')


class CallSlot:
    """One call as far as it has come.

    Attributes:
        id: As the provider gave it first; empty when it did not.
        name: Likewise.
        extra: Unknown keys of the call, to be echoed (A-61).
    """

    __slots__ = (
        "_depth",
        "_escaped",
        "_in_string",
        "_opened",
        "_pieces",
        "_scanned",
        "extra",
        "id",
        "name",
        "value",
    )

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.extra: dict[str, Any] = {}
        self.value: Any = None
        """Arguments that came as an object, or None."""
        self._pieces: list[str] = []
        self._scanned = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._opened = False

    @property
    def text(self) -> str:
        """The argument text so far."""
        return "".join(self._pieces)

    @property
    def arguments(self) -> Any:
        """What there is to parse: the text, or else the object."""
        return self.value if self.value is not None and not self._pieces else self.text

    def take(self, call_id: str, name: str, arguments: Any) -> str:
        """Add a piece; id and name are assigned once. Returns the text that was added."""
        if call_id and not self.id:
            self.id = call_id
        if name and not self.name:
            self.name = name
        if arguments is None or arguments == "":
            return ""
        if isinstance(arguments, Mapping) and not self._pieces and self.value is None:
            self.value = arguments
            return ""
        piece = arguments if isinstance(arguments, str) else json.dumps(arguments)
        if self.value is not None:
            # An object and then text: the object becomes text in front of it.
            self._pieces.append(json.dumps(self.value))
            self.value = None
        self._pieces.append(piece)
        return piece

    def is_complete(self) -> bool:
        """Whether the arguments so far are one whole object; each piece is looked at once."""
        if self.value is not None:
            return True
        for piece in self._pieces[self._scanned :]:
            self._scan(piece)
        self._scanned = len(self._pieces)
        return self._opened and self._depth <= 0 and not self._in_string

    def _scan(self, piece: str) -> None:
        position = 0
        if self._escaped and piece:
            position, self._escaped = 1, False
        while True:
            found = _MARKS.search(piece, position)
            if found is None:
                return
            position = found.end()
            mark = found.group()
            if mark == "\\":
                if self._in_string:
                    position += 1
                    self._escaped = position > len(piece)
            elif mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if mark in "{[" else -1
                self._opened = True


class CallSlots:
    """The calls of one answer, in order of first appearance."""

    __slots__ = ("_by_index", "slots")

    def __init__(self) -> None:
        self.slots: list[CallSlot] = []
        self._by_index: dict[Any, CallSlot] = {}

    def place(self, index: Any, call_id: str, name: str, arguments: Any) -> tuple[CallSlot, bool]:
        """The slot that a delta belongs to, and whether it is a new one. Nothing is added yet.

        Args:
            index: A key, not a position (B-12); None when the delta has none.
        """
        blank = _is_blank(arguments)
        if index is not None:
            slot = self._by_index.get(index)
            if slot is not None and not _begins_call(slot, call_id, name, blank, by_id=False):
                return slot, False
        elif self.slots:
            last = self.slots[-1]
            known = self._with_id(call_id) if call_id and call_id != last.id else None
            if known is not None and not known.is_complete():
                return known, False
            if not _begins_call(last, call_id, name, blank, by_id=True):
                return last, False
        made = CallSlot()
        self.slots.append(made)
        if index is not None:
            self._by_index[index] = made
        return made, True

    def _with_id(self, call_id: str) -> CallSlot | None:
        return next((slot for slot in self.slots if slot.id == call_id), None)


def _begins_call(slot: CallSlot, call_id: str, name: str, blank: bool, *, by_id: bool) -> bool:
    """Rule 4: does this delta begin another call than *slot*?"""
    other_id = bool(call_id and slot.id and call_id != slot.id)
    if other_id and (by_id or name or (not blank and slot.is_complete())):
        return True
    if not (name and slot.name):
        return False
    if name != slot.name:
        return slot.is_complete()
    return not call_id and not slot.id and not blank and slot.is_complete()


def _is_blank(arguments: Any) -> bool:
    return arguments is None or (isinstance(arguments, str) and not arguments.strip())
