"""Messages between a process and the child that runs one tool call: length, then a pickle.

Both ends are this library in the same version, so a pickle is safe here.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

__all__ = ["Request", "read_frame", "write_frame"]

_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Request:
    """What the child is told: only what unpickles without the caller's own modules."""

    name: str
    """Of the tool."""
    reference: tuple[str, str] | None
    """Module and qualified name of the function; None when it is pickled."""
    pickled: bytes
    """``(function or None, whether it is a plain function, tool_call_id, args)``."""
    main: Mapping[str, Any] | None
    """Path, package and wanted names of the main script, when something of it is needed."""
    argv: tuple[str, ...]


def write_frame(stream: BinaryIO, message: Any) -> None:
    """Write *message* and flush.

    Raises:
        OSError: The other end is gone.
        Exception: The message cannot be pickled; then nothing was written.
    """
    body = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes | None:
    """The pickle of the next message, or None when the other end is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None
