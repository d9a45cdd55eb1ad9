"""Python types as JSON schemas, and the way back from JSON values to these types."""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from yiemagent.tools.coercion import Check, accepts
from yiemagent.tools.plan import compile_value_check
from yiemagent.tools.scalar_forms import (
    FORMATS,
    SIMPLE_FORMS,
    Convert,
    Form,
    UnsupportedType,
    constrain,
    enum_form,
    known_class_form,
    literal_form,
)

__all__ = ["FormBuilder"]

_SEQUENCES: dict[Any, Convert | None] = {
    list: None,
    collections.abc.Sequence: None,
    collections.abc.MutableSequence: None,
    collections.abc.Iterable: None,
    collections.abc.Collection: None,
    set: set,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class FormBuilder:
    """Makes the forms of the types of one schema.

    Args:
        namespace: Local names that annotations of local classes may mean.
    """

    def __init__(self, namespace: Mapping[str, Any] | None = None) -> None:
        self.definitions: dict[str, Any] = {}
        """What belongs under ``$defs``: only types that contain themselves, and foreign models."""
        self._namespace = dict(namespace or {})
        self._open: dict[Any, str] = {}
        self._recursive: dict[Any, Form] = {}

    def form(self, annotation: Any) -> Form:
        """The form of *annotation*.

        Raises:
            UnsupportedType: JSON cannot express it.
        """
        try:
            simple = SIMPLE_FORMS.get(annotation)
        except TypeError:  # Unhashable, such as Annotated with a dict.
            simple = None
        if simple is not None:
            return simple
        origin = typing.get_origin(annotation)
        if origin is None:
            return self._plain_form(annotation)
        arguments = typing.get_args(annotation)
        if not arguments:
            return self._plain_form(origin)
        if origin is typing.Annotated:
            return self._annotated_form(arguments[0], arguments[1:])
        if origin is typing.Literal:
            return literal_form(arguments)
        if origin in (typing.Union, types.UnionType):
            return self._union_form(arguments)
        if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
            return self.form(arguments[0])
        if origin is tuple:
            return self._tuple_form(arguments)
        if origin in _SEQUENCES:
            return self._sequence_form(arguments[0], _SEQUENCES[origin])
        if origin in _MAPPINGS:
            return self._mapping_form(*arguments)
        return self._plain_form(origin)

    def _plain_form(self, annotation: Any) -> Form:
        if annotation in _SEQUENCES:
            return self._sequence_form(Any, _SEQUENCES[annotation])
        if annotation is tuple:
            return self._tuple_form((Any, ...))
        if annotation in _MAPPINGS:
            return Form({"type": "object"})
        if isinstance(annotation, typing.NewType):
            return self.form(annotation.__supertype__)
        if isinstance(annotation, typing.TypeVar):
            return self.form(annotation.__bound__ if annotation.__bound__ is not None else Any)
        if hasattr(annotation, "__value__"):  # A `type` statement of Python 3.12.
            return self.form(annotation.__value__)
        if isinstance(annotation, type):
            return self._class_form(annotation)
        raise UnsupportedType(f"{annotation!r}")

    def _class_form(self, cls: Any) -> Form:
        if issubclass(cls, enum.Enum):
            return enum_form(cls)
        from yiemagent.tools.record_forms import is_record

        if is_record(cls):
            return self._record_form(cls)
        if hasattr(cls, "model_json_schema") and hasattr(cls, "model_validate"):
            return self._model_form(cls)
        form = known_class_form(cls)
        if form is None:
            raise UnsupportedType(cls.__qualname__)
        return form

    def _annotated_form(self, annotation: Any, metadata: Sequence[Any]) -> Form:
        form = self.form(annotation)
        schema = dict(form.schema)
        for item in metadata:
            constrain(schema, item)
        return Form(schema, form.convert)

    def _union_form(self, options: Sequence[Any]) -> Form:
        forms = [self.form(option) for option in options]
        schema = {"anyOf": [dict(form.schema) for form in forms]}
        if all(form.convert is None for form in forms):
            return Form(schema)
        return Form(schema, _UnionConvert(forms, self.definitions))

    def _sequence_form(self, item: Any, collect: Convert | None) -> Form:
        form = self.form(item)
        schema: dict[str, Any] = {"type": "array"}
        if form.schema:
            schema["items"] = dict(form.schema)
        convert = form.convert
        if convert is None:
            return Form(schema, collect)
        if collect is None:
            return Form(schema, lambda values: [convert(value) for value in values])
        return Form(schema, lambda values: collect(convert(value) for value in values))

    def _tuple_form(self, options: Sequence[Any]) -> Form:
        if len(options) == 2 and options[1] is ...:
            return self._sequence_form(options[0], tuple)
        forms = [self.form(option) for option in options]
        schema = {
            "type": "array",
            "prefixItems": [dict(form.schema) for form in forms],
            "minItems": len(forms),
            "maxItems": len(forms),
        }
        converts = [form.convert or _same for form in forms]
        return Form(
            schema, lambda values: tuple(convert(v) for convert, v in zip(converts, values, strict=True))
        )

    def _mapping_form(self, key: Any, item: Any) -> Form:
        key_convert = self._key_convert(key)
        form = self.form(item)
        schema: dict[str, Any] = {"type": "object"}
        if form.schema:
            schema["additionalProperties"] = dict(form.schema)
        if key_convert is None and form.convert is None:
            return Form(schema)
        of_key, of_item = key_convert or _same, form.convert or _same
        return Form(schema, lambda values: {of_key(name): of_item(value) for name, value in values.items()})

    def _key_convert(self, key: Any) -> Convert | None:
        if key is int:
            return int
        form = self.form(key)
        if form.schema.get("type", "string") != "string":
            raise UnsupportedType(f"a mapping with keys of type {key!r} (JSON keys are texts)")
        return form.convert

    def _record_form(self, cls: Any) -> Form:
        """A dataclass, TypedDict or NamedTuple."""
        if cls in self._recursive:
            return self._recursive[cls]
        if cls in self._open:
            name = self._open[cls] = self._open[cls] or self._definition_name(cls.__name__)
            return Form(
                {"$ref": f"#/$defs/{name}"}, lambda value: (self._recursive[cls].convert or _same)(value)
            )
        from yiemagent.tools.record_forms import record_fields, record_form

        self._open[cls] = ""
        try:
            fields = record_fields(cls, self._namespace)
            forms = {field.name: self.form(field.annotation) for field in fields}
        finally:
            name = self._open.pop(cls)
        form = record_form(cls, fields, forms)
        if name:
            self.definitions[name] = form.schema
            form = self._recursive[cls] = Form({"$ref": f"#/$defs/{name}"}, form.convert or _same)
        return form

    def _model_form(self, cls: Any) -> Form:
        """A pydantic model, by its own methods: pydantic is never imported here."""
        schema = dict(cls.model_json_schema())
        self.definitions.update(schema.pop("$defs", {}))
        return Form(schema, lambda value: value if isinstance(value, cls) else cls.model_validate(value))

    def _definition_name(self, name: str) -> str:
        taken = {*self.definitions, *self._open.values()}
        candidates = (name, *(f"{name}{number}" for number in range(2, 1000)))
        return next(candidate for candidate in candidates if candidate not in taken)


class _UnionConvert:
    """Converts by the first option whose schema takes the value as it is."""

    def __init__(self, forms: Sequence[Form], definitions: Mapping[str, Any]) -> None:
        self._forms = forms
        self._definitions = definitions  # Still growing: read on first use.
        self._options: list[tuple[Check, Convert | None]] | None = None

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        if self._options is None:
            self._options = [(self._check(form), form.convert) for form in self._forms]
        for check, convert in self._options:
            if accepts(check, value):
                return value if convert is None else convert(value)
        return value

    def _check(self, form: Form) -> Check:
        return compile_value_check(form.schema, self._definitions, FORMATS)


def _same(value: Any) -> Any:
    return value
