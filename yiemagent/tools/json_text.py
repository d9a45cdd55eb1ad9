"""Any Python value as JSON text that a model can read."""

from __future__ import annotations

import binascii
import dataclasses
import enum
import inspect
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

__all__ = ["NoJsonText", "json_text", "scrub_surrogates", "text_of_bytes"]

_SURROGATE = "[\ud800-\udfff]"


class NoJsonText(TypeError):
    """A value that has no text; the message is written for the model."""


def json_text(value: Any, *, indent: int | None = None) -> str:
    """*value* as JSON text.

    Non-ASCII stays as it is; dates are in ISO form, sets sorted where they can be, bytes UTF-8
    or base64, NaN and infinities texts, dataclasses and mappings objects; what JSON cannot say
    is its ``str``.

    Raises:
        NoJsonText: The value is or contains a coroutine or a lazy iterator, or contains itself.
        Exception: Whatever the ``__str__`` of something inside raises.

    Source: cases C-28, D-26, D-27.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_simplified, indent=indent)
    except (TypeError, ValueError) as problem:
        if isinstance(problem, NoJsonText):
            raise
    # Keys that are no JSON keys, NaN, or a cycle: slower, and rare.
    return json.dumps(_plain(value, ()), ensure_ascii=False, indent=indent)


def scrub_surrogates(text: str) -> str:
    """*text* with lone surrogates replaced by U+FFFD, so that it can be encoded (case C-27)."""
    if text.isascii():
        return text
    return re.sub(_SURROGATE, "�", text)


def _simplified(value: Any) -> Any:
    """One step towards JSON; the encoder asks again for what it returns."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if callable(getattr(value, "isoformat", None)):  # Dates and times, those of other libraries too.
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return text_of_bytes(bytes(value))
    if isinstance(value, (set, frozenset)):
        return _ordered(value)
    if inspect.isawaitable(value) or isinstance(value, Iterator) or hasattr(value, "__anext__"):
        _refuse(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if isinstance(value, Iterable) and hasattr(value, "__len__") and not hasattr(value, "__array__"):
        return list(value)
    return str(value)


def _refuse(value: Any) -> NoReturn:
    close = getattr(value, "close", None)
    if inspect.iscoroutine(value) and close is not None:
        close()
    what = type(value).__name__
    if inspect.isawaitable(value) or hasattr(value, "__anext__"):
        raise NoJsonText(
            f"The tool returned an asynchronous object ({what}) that nobody awaits. "
            "Tools are plain functions: call asyncio.run(...) inside the tool."
        )
    raise NoJsonText(
        f"The tool returned a lazy iterator ({what}) instead of a value. Return list(...) of it instead."
    )


def text_of_bytes(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return binascii.b2a_base64(data, newline=False).decode()


def _ordered(items: Iterable[Any]) -> list[Any]:
    listed = list(items)
    try:
        return sorted(listed)
    except TypeError:
        return listed


def _plain(value: Any, outer: tuple[int, ...]) -> Any:
    """*value* made of nothing but JSON's own types."""
    if isinstance(value, enum.Enum):
        return _plain(value.value, outer)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if id(value) in outer:
        raise NoJsonText(f"The tool returned data that contains itself ({type(value).__name__}).")
    inner = (*outer, id(value))
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, inner) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, inner) for item in value]
    return _plain(_simplified(value), inner)


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    return str(key)
