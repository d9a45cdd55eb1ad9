"""JSON to and from the wire, whatever the text holds."""

from __future__ import annotations

import json
from typing import Any

from yiemagent.compact_json import compact_json

__all__ = ["SHAPE_ERRORS", "message_to_wire", "raw_decode", "to_wire"]

SHAPE_ERRORS = (TypeError, AttributeError, ValueError, KeyError, IndexError, RecursionError)
"""What reading an answer raises when it is not shaped as its dialect says."""

raw_decode = json.JSONDecoder(strict=False).raw_decode
"""Reads one JSON value and says where it ends; line ends inside texts are taken (A-16)."""


def to_wire(value: Any) -> bytes:
    """*value* as compact UTF-8 JSON; lone surrogates become U+FFFD (C-27).

    Raises:
        TypeError, ValueError: It holds something that JSON has no form for, or NaN.
    """
    try:
        text = compact_json(value)
    except RecursionError:
        raise ValueError("it contains itself, or is nested too deeply") from None
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Joins surrogates that make a pair, and replaces those that do not.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def message_to_wire(value: Any) -> bytes:
    """As ``to_wire``, for what stands in a history: a number without a JSON form becomes null.

    A provider may say ``1e999``; echoed as infinity it would fail every later request (C-34).
    """
    try:
        return to_wire(value)
    except ValueError:
        return to_wire(json.loads(json.dumps(value), parse_constant=lambda name: None))
