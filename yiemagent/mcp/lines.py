"""Splitting a byte stream into lines, without a limit but the stated one and in linear time."""

from __future__ import annotations

from collections.abc import Iterator

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

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that *chunk* completes, without their line ends, blank ones left out.

        Raises:
            McpProtocolError: A line is longer than ``max_bytes``.
        """
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
