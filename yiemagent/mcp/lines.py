"""Splitting a byte stream into lines, without a limit but the stated one and in linear time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from yiemagent.errors import McpProtocolError

__all__ = ["LineSplitter"]


class LineSplitter:
    """Turns chunks of bytes into whole lines.

    Args:
        max_bytes: Longest line; a longer one is refused so that a mad server cannot fill the memory.

    Source: E-13, field problem 35.
    """

    __slots__ = ("_max_bytes", "_parts", "_size")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        """The lines that *chunk* completes, blank ones left out; line ends may still be there.

        Raises:
            McpProtocolError: A line is longer than ``max_bytes``; perhaps only when the lines
                before it have been taken.
        """
        if not self._parts and chunk.find(b"\n") == len(chunk) - 1 <= self._max_bytes:
            return (chunk,) if chunk != b"\n" else ()  # nearly always: one whole line
        return self._split(chunk)

    def _split(self, chunk: bytes) -> Iterator[bytes]:
        first, *others = chunk.split(b"\n")
        self._keep(first)
        for part in others:
            line = b"".join(self._parts) if len(self._parts) != 1 else self._parts[0]
            self._parts.clear()
            self._size = 0
            if line.strip():
                yield line
            self._keep(part)

    def rest(self) -> bytes:
        """What came after the last line end; for the end of the stream."""
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line

    def _keep(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._size > self._max_bytes:
            self._parts.clear()
            raise McpProtocolError(
                f"a line on stdout is longer than {self._max_bytes:,} bytes; raise max_message_bytes"
            )
        self._parts.append(part)
