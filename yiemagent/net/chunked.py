"""Chunked bodies by the read, not by the chunk.

``http.client`` hands out one chunk a call, and servers send one delta a chunk: at 2,000 deltas
the calls cost more than all else. Here everything that one read of the socket brought is
handed out at once.
"""

from __future__ import annotations

import http.client

__all__ = ["BatchedResponse"]

_READ_SIZE = 65_536
_LONGEST_LINE = 65_536


class BatchedResponse(http.client.HTTPResponse):
    """An ``http.client`` response whose ``read1`` joins the chunks that have arrived."""

    _left = 0  # bytes of the current chunk still to come
    _line = b""  # the part of a framing line that has come
    _in_trailer = False

    def _read1_chunked(self, n: int) -> bytes:
        """What one or more reads bring, until there is data; empty at the end of the body."""
        while self.fp is not None:
            raw = self.fp.read1(_READ_SIZE)
            if not raw:
                raise http.client.IncompleteRead(b"")
            pieces: list[bytes] = []
            if self._dechunk(raw, pieces):
                self._close_conn()  # type: ignore[attr-defined]
            if pieces:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return b""

    def _dechunk(self, raw: bytes, pieces: list[bytes]) -> bool:
        """Append the data in *raw* to *pieces*; returns whether the body is complete."""
        at, size = 0, len(raw)
        while at < size:
            if self._left:
                piece = raw[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                continue
            end = raw.find(b"\n", at)
            if end < 0:
                self._line += raw[at:]
                if len(self._line) > _LONGEST_LINE:
                    raise http.client.LineTooLong("chunk size")
                return False
            line = (self._line + raw[at:end]).strip()
            self._line = b""
            at = end + 1
            if self._in_trailer:
                if not line:
                    return True
            elif line:  # a blank line is the end of the chunk before
                self._begin_chunk(line)
        return False

    def _begin_chunk(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip()
        try:
            size = int(digits, 16) if digits.isalnum() else -1
        except ValueError:
            size = -1
        if size < 0:
            raise http.client.HTTPException(f"{digits[:20]!r} is no size of a chunk")
        if size:
            self._left = size
        else:
            self._in_trailer = True
