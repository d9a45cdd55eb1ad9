"""Splitting a byte stream into lines, without a limit but the stated one and in linear time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from yiemagent.errors import McpProtocolError

__all__ = ["LineSplitter"]


class _Left(NamedTuple):
    """What is left after a chunk. Replaced in one step, so that Ctrl-C finds the old or the new one."""

    chunk: bytes
    lines: deque[bytes]
    """Those that it completed and nobody has taken yet."""
    parts: list[bytes]
    """The beginning of a line: the first ``used`` of these, ``size`` bytes."""
    used: int
    size: int
    too_long: bool = False
    """Whether the line after ``lines`` is longer than it may be."""


class LineSplitter:
    """Turns chunks of bytes into whole lines.

    Whoever was interrupted feeds the very same object again: it goes on with the line that was out last.
    A chunk of one byte is always a new one, since such objects are shared.

    Args:
        max_bytes: Longest line; a longer one is refused so that a mad server cannot fill the memory.

    Source: E-13, field problem 35.
    """

    __slots__ = ("_left", "_max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left: _Left | None = None

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        """The lines that *chunk* completes, blank ones left out; line ends may still be there.

        Raises:
            McpProtocolError: A line is longer than ``max_bytes``; perhaps only when the lines
                before it have been taken.
        """
        left = self._left
        if left is not None and not left.used and left.chunk is not chunk:
            left = self._left = None
        if left is None and chunk.find(b"\n") == len(chunk) - 1 <= self._max_bytes:
            return (chunk,) if chunk != b"\n" else ()  # nearly always: one whole line
        return self._split(chunk)

    def _split(self, chunk: bytes) -> Iterator[bytes]:
        left = self._left
        if left is None or left.chunk is not chunk or len(chunk) == 1:
            left = self._left = self._after(left or _Left(b"", deque(), [], 0, 0), chunk)
        while left.lines:
            yield left.lines[0]
            left.lines.popleft()
        if left.too_long:
            raise McpProtocolError(
                f"a line on stdout is longer than {self._max_bytes:,} bytes; raise max_message_bytes"
            )

    def _after(self, left: _Left, chunk: bytes) -> _Left:
        first, *others = chunk.split(b"\n")
        del left.parts[left.used :]  # What an interrupted try has added.
        left.parts.append(first)
        lines = deque[bytes]()
        if not others:
            size = left.size + len(first)
            if size <= self._max_bytes:
                return _Left(chunk, lines, left.parts, len(left.parts), size)
            return _Left(chunk, lines, [], 0, 0, too_long=True)
        *between, tail = others
        for line in (b"".join(left.parts), *between):
            if len(line) > self._max_bytes:
                return _Left(chunk, lines, [], 0, 0, too_long=True)
            if line.strip():
                lines.append(line)
        parts = [tail] if tail else []
        return _Left(chunk, lines, parts, len(parts), len(tail), too_long=len(tail) > self._max_bytes)

    def rest(self) -> bytes:
        """What came after the last line end; for the end of the stream."""
        left, self._left = self._left, None
        return b"" if left is None else b"".join(left.parts[: left.used])
