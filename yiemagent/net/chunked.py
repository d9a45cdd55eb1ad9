"""The body of an answer by the read: what one read of the socket brings is handed out at once.

``http.client`` hands out one chunk a call, and servers send one delta a chunk: at 2,000 deltas
the calls cost more than all else. urllib3 has buffers and decoders on the way, which a body that is
not compressed does not need.
"""

from __future__ import annotations

import http.client

from yiemagent.net.head import HeadResponse

__all__ = ["BatchedResponse"]

_READ_SIZE = 65_536
_LONGEST_LINE = 65_536


class BatchedResponse(HeadResponse):
    """An ``http.client`` response whose ``read1`` joins the chunks that have arrived, and ``read_some``."""

    _left = 0  # bytes of the current chunk still to come
    _line = b""  # the part of a framing line that has come
    _in_trailer = False

    def read_some(self, most: int) -> bytes:
        """Wait for more of the body, at most *most* bytes of one of a known length; empty at its end.

        ``isclosed()`` is true once the last of it was handed out, if that can be known.

        Raises:
            IncompleteRead: The connection ended before the body.
            OSError: What reading the socket raises.
        """
        if self.fp is None:
            return b""
        if self.chunked:
            return self._read1_chunked(most)
        left = self.length
        data = b"" if left == 0 else self.fp.read1(most if left is None else min(most, left))
        if left is not None:
            if left and not data:
                self.close()
                raise http.client.IncompleteRead(data, left)
            self.length = left = left - len(data)
        if not data or left == 0:
            self._close_conn()  # type: ignore[attr-defined]
        return data

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
