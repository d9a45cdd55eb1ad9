"""One leading ``<think>`` block of an answer, moved to the reasoning, over any cut of the text.

Only for providers that leave it in the text; tags later in an answer are text (A-37, B-54).
"""

from __future__ import annotations

__all__ = ["ThinkSplitter"]

_OPEN = "<think>"
_CLOSE = "</think>"


class ThinkSplitter:
    """Splits pieces of text into reasoning and text."""

    __slots__ = ("_held", "_state")

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"  # start, opened, reasoning, gap, text

    def feed(self, piece: str) -> list[tuple[bool, str]]:
        """Take the next piece; give what is certain now, as (is it reasoning, text) pairs."""
        if self._state == "text":
            return [(False, piece)]
        out: list[tuple[bool, str]] = []
        self._held += piece
        if self._state == "start":
            self._start(out)
        if self._state == "opened":
            self._held = self._held.lstrip("\n")
            if self._held:
                self._state = "reasoning"
        if self._state == "reasoning":
            self._reasoning(out)
        if self._state == "gap":
            rest = self._held.lstrip()
            self._held = ""
            if rest:
                self._state = "text"
                out.append((False, rest))
        return out

    def finish(self) -> list[tuple[bool, str]]:
        """The text is over: give what was held back."""
        held, self._held = self._held, ""
        return [(self._state == "reasoning", held)] if held else []

    def _start(self, out: list[tuple[bool, str]]) -> None:
        begun = self._held.lstrip()
        if begun.startswith(_OPEN):
            self._state, self._held = "opened", begun[len(_OPEN) :]
        elif not _OPEN.startswith(begun):
            self._state, text = "text", self._held
            self._held = ""
            out.append((False, text))

    def _reasoning(self, out: list[tuple[bool, str]]) -> None:
        inside, close, after = self._held.partition(_CLOSE)
        if close:
            self._state, self._held = "gap", after
            if inside:
                out.append((True, inside))
            return
        keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if inside.endswith(_CLOSE[:n])), 0)
        certain = inside[: len(inside) - keep] if keep else inside
        self._held = inside[len(certain) :]
        if certain:
            out.append((True, certain))
