"""Classes with named fields as JSON objects: dataclasses, TypedDicts and named tuples."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from yiemagent.data_class import dataclass
from yiemagent.tools.docstring import parse_docstring
from yiemagent.tools.scalar_forms import Form

__all__ = ["RecordField", "is_record", "record_fields", "record_form"]


@dataclass(frozen=True, slots=True)
class RecordField:
    """One field of a record."""

    name: str
    annotation: Any
    required: bool


def is_record(cls: type) -> bool:
    """Whether *cls* is a dataclass, a TypedDict or a named tuple."""
    return dataclasses.is_dataclass(cls) or typing.is_typeddict(cls) or hasattr(cls, "_fields")


def record_fields(cls: Any, namespace: Mapping[str, Any]) -> list[RecordField]:
    """The fields of *cls* that its maker may give, in order.

    Raises:
        NameError: An annotation names what does not exist.
    """
    hints = typing.get_type_hints(cls, localns=dict(namespace) or None, include_extras=True)
    if dataclasses.is_dataclass(cls):
        return [
            RecordField(
                field.name,
                hints[field.name],
                field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            )
            for field in dataclasses.fields(cls)
            if field.init
        ]
    if typing.is_typeddict(cls):
        return [RecordField(name, hint, _is_required(cls, name, hint)) for name, hint in hints.items()]
    return [RecordField(name, hints.get(name, Any), name not in cls._field_defaults) for name in cls._fields]


def record_form(cls: Any, fields: Sequence[RecordField], forms: Mapping[str, Form]) -> Form:
    """The object schema of *cls*, and the way back: an instance, or a dict for a TypedDict."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    documented = parse_docstring(_own_doc(cls))
    if documented.description:
        schema["description"] = documented.description
    for field in fields:
        inner = dict(forms[field.name].schema)
        if field.name in documented.parameters:
            inner.setdefault("description", documented.parameters[field.name])
        schema["properties"][field.name] = inner
    required = [field.name for field in fields if field.required]
    if required:
        schema["required"] = required
    converts = {name: form.convert for name, form in forms.items() if form.convert is not None}
    make = dict
    if not typing.is_typeddict(cls):
        schema["additionalProperties"] = False
        make = cls
    elif not converts:
        return Form(schema)

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return make(
            **{name: converts[name](item) if name in converts else item for name, item in value.items()}
        )

    return Form(schema, convert)


def _is_required(cls: Any, name: str, hint: Any) -> bool:
    # __required_keys__ of a module with postponed annotations does not know of the wrappers.
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return origin is typing.Required
    return name in cls.__required_keys__


def _own_doc(cls: type) -> str | None:
    """The docstring somebody wrote: dataclasses and named tuples make one that says nothing."""
    doc = cls.__dict__.get("__doc__")
    return None if doc is None or doc.startswith(f"{cls.__name__}(") else doc
