"""JSON text for the wires: no space in it, text as it is, and nothing that is no JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["compact_json"]


def _encoder() -> Callable[[Any], str]:
    # Nobody looks out for cycles, which costs as much as the rest; a cycle is too deep in any case.
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    # What JSONEncoder makes anew for each text, made once: for a short one that is most of the work.
    text: Any = json.encoder.encode_basestring
    pieces: Callable[[Any, int], Any] = make(None, encoder.default, text, None, ":", ",", False, False, False)
    join = "".join
    return lambda value: join(pieces(value, 0))


compact_json = _encoder()
"""The JSON text of a value. Any thread.

Raises:
    TypeError: It holds something that JSON has no form for.
    ValueError: It holds NaN or an infinity.
    RecursionError: It contains itself, or is nested too deeply.
"""
