"""Python types that are one JSON value: texts, numbers, dates, enums, literals."""

from __future__ import annotations

import datetime
import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from yiemagent.data_class import dataclass

__all__ = [
    "FORMATS",
    "SIMPLE_FORMS",
    "Convert",
    "Form",
    "UnsupportedType",
    "constrain",
    "enum_form",
    "known_class_form",
    "literal_form",
]

Convert: TypeAlias = Callable[[Any], Any]
"""Makes the Python value of a validated JSON value."""

_JSON_SCALARS = (str, bool, int, float, type(None))


class UnsupportedType(TypeError):
    """A type that JSON cannot express; the message names it."""


@dataclass(frozen=True, slots=True)
class Form:
    """A type as JSON."""

    schema: Mapping[str, Any]
    convert: Convert | None = None
    """None when the JSON value is the Python value."""


def _uuid(text: str) -> Any:
    import uuid

    return uuid.UUID(text)


FORMATS: Mapping[str, Callable[[str], object]] = {
    "date-time": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "uuid": _uuid,
}
"""Formats that are checked for arguments of functions, because the conversion would fail."""


def _float(value: Any) -> Any:
    return float(value) if type(value) is int else value


_ANY = Form({})
_NULL = Form({"type": "null"})
SIMPLE_FORMS: Mapping[Any, Form] = {
    Any: _ANY,
    object: _ANY,
    inspect.Parameter.empty: _ANY,
    str: Form({"type": "string"}),
    int: Form({"type": "integer"}),
    float: Form({"type": "number"}, _float),
    bool: Form({"type": "boolean"}),
    None: _NULL,
    type(None): _NULL,
}

_Parse: TypeAlias = Callable[[Any], Convert]
_KNOWN_CLASSES: Mapping[str, tuple[Mapping[str, Any], _Parse]] = {
    "datetime.datetime": ({"type": "string", "format": "date-time"}, lambda cls: cls.fromisoformat),
    "datetime.date": ({"type": "string", "format": "date"}, lambda cls: cls.fromisoformat),
    "datetime.time": ({"type": "string", "format": "time"}, lambda cls: cls.fromisoformat),
    "datetime.timedelta": (
        {"type": "number", "description": "Seconds."},
        lambda cls: lambda seconds: cls(seconds=seconds),
    ),
    "decimal.Decimal": ({"type": "number"}, lambda cls: lambda value: cls(str(value))),
    "uuid.UUID": ({"type": "string", "format": "uuid"}, lambda cls: cls),
    "pathlib.Path": ({"type": "string"}, lambda cls: cls),
    "pathlib.PurePath": ({"type": "string"}, lambda cls: cls),
}
"""Schema and way back of classes by their full name, so that their modules need not be imported."""
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_CONSTRAINTS = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "description": "description",
    "documentation": "description",
}
"""Attributes of objects in ``Annotated``, as annotated-types, pydantic and PEP 727 name them."""
_OF_ARRAYS = {"minLength": "minItems", "maxLength": "maxItems"}


def enum_form(cls: type[enum.Enum]) -> Form:
    """The values of an enum, or its names when a value is none of JSON's; converted to members."""
    members = list(cls)
    by_value = all(isinstance(member.value, _JSON_SCALARS) for member in members)
    return _choice_form([(member.value if by_value else member.name, member) for member in members])


def literal_form(values: Sequence[Any]) -> Form:
    """The values of a ``Literal``, in their order."""
    choices = [(value.value if isinstance(value, enum.Enum) else value, value) for value in values]
    for shown, _ in choices:
        if not isinstance(shown, _JSON_SCALARS):
            raise UnsupportedType(f"Literal[{shown!r}]")
    return _choice_form(choices)


def known_class_form(cls: type) -> Form | None:
    """The form of a class of the standard library, or of one like ``class Sku(str)``; else None."""
    # Python 3.13 moved pathlib's classes into a submodule.
    known = _KNOWN_CLASSES.get(f"{cls.__module__.split('.')[0]}.{cls.__qualname__}")
    if known is not None:
        schema, parse = known
        return Form(schema, _unless_made(cls, parse(cls)))
    for base in (str, int, float):
        if issubclass(cls, base):
            return Form(SIMPLE_FORMS[base].schema, _unless_made(cls, cls))
    return None


def _unless_made(cls: type, parse: Convert) -> Convert:
    """*parse*, but for values that a hook has already made a *cls*."""
    return lambda value: value if isinstance(value, cls) else parse(value)


def constrain(schema: dict[str, Any], extra: Any) -> None:
    """Add to *schema* what an object in ``Annotated`` says: a text, a mapping, or constraints."""
    if isinstance(extra, str):
        schema["description"] = extra
        return
    if isinstance(extra, Mapping):
        schema.update(extra)
        return
    for attribute, keyword in _CONSTRAINTS.items():
        stated = getattr(extra, attribute, None)
        if isinstance(stated, (str, int, float)):
            schema[_OF_ARRAYS.get(keyword, keyword) if schema.get("type") == "array" else keyword] = stated
    for inner in getattr(extra, "metadata", ()):
        constrain(schema, inner)


def _choice_form(choices: Sequence[tuple[Any, Any]]) -> Form:
    values = [shown for shown, _ in choices]
    kinds = {_JSON_TYPES[next(kind for kind in _JSON_TYPES if isinstance(value, kind))] for value in values}
    schema: dict[str, Any] = {"type": kinds.pop()} if len(kinds) == 1 else {}
    schema["enum"] = values
    if all(shown is value for shown, value in choices):
        return Form(schema)
    found = {(isinstance(shown, bool), shown): value for shown, value in choices}
    return Form(schema, lambda value: found.get((isinstance(value, bool), value), value))
