"""A function's signature as the JSON schema of a tool, and JSON arguments as the function's."""

from __future__ import annotations

import functools
import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from yiemagent.data_class import dataclass
from yiemagent.errors import ConfigurationError
from yiemagent.tools.docstring import parse_docstring
from yiemagent.tools.json_text import json_text
from yiemagent.tools.scalar_forms import FORMATS, Convert, Form, UnsupportedType
from yiemagent.tools.tool import ToolContext
from yiemagent.tools.type_forms import FormBuilder

__all__ = ["FunctionSpec", "function_spec"]

_NO_DEFAULT = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """What was read from a function."""

    description: str
    schema: dict[str, Any]
    converts: Mapping[str, Convert]
    """By parameter, for those whose JSON value is not their Python value."""
    context: str | None
    """The parameter that takes the ``ToolContext``."""
    takes_any: bool
    """Whether the function has ``**kwargs``."""
    convert_any: Convert | None
    """For what goes into ``**kwargs``."""

    @property
    def plan_options(self) -> dict[str, Any]:
        """How arguments are checked beyond the schema; see ``compile_schema``."""
        return {"closed": not self.takes_any, "formats": FORMATS}

    def python_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Validated JSON *arguments* as the function's own types."""
        properties = self.schema["properties"]
        result = {}
        for name, value in arguments.items():
            convert = self.converts.get(name)
            if convert is None and self.convert_any is not None and name not in properties:
                convert = self.convert_any
            result[name] = value if convert is None else convert(value)
        return result


def function_spec(function: Callable[..., Any], namespace: Mapping[str, Any] | None = None) -> FunctionSpec:
    """Read the signature, annotations and docstring of *function*.

    Args:
        function: A plain function, bound method, ``functools.partial`` or callable object.
        namespace: Local names that its annotations may mean, for functions made in functions.

    Raises:
        ConfigurationError: A parameter cannot be given by name or has a type that JSON cannot
            express; the cause is a ``NameError`` when an annotation names what does not exist (yet).
    """
    source = _source_of(function)
    documented = parse_docstring(_doc_of(function, source))
    builder = FormBuilder(namespace)
    properties: dict[str, Any] = {}
    required: list[str] = []
    converts: dict[str, Convert] = {}
    context: str | None = None
    extra: Form | None = None
    for parameter in _parameters(function):
        annotation = _evaluated(parameter, source, namespace)
        if _is_context(annotation):
            context = parameter.name
            continue
        form = _form(builder, parameter, annotation, source)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            extra = form
            continue
        schema = dict(form.schema)
        if parameter.name in documented.parameters:
            schema.setdefault("description", documented.parameters[parameter.name])
        if parameter.default is _NO_DEFAULT:
            required.append(parameter.name)
        else:
            _add_default(schema, parameter.default, form)
        properties[parameter.name] = schema
        if form.convert is not None:
            converts[parameter.name] = form.convert
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if extra is not None:
        schema["additionalProperties"] = dict(extra.schema) or True
    if builder.definitions:
        schema["$defs"] = builder.definitions
    return FunctionSpec(
        documented.description, schema, converts, context, extra is not None, extra.convert if extra else None
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    bound: set[str] = set()
    inner: Any = function
    while isinstance(inner, functools.partial):
        bound.update(inner.keywords)
        inner = inner.func
    return [
        parameter for name, parameter in inspect.signature(function).parameters.items() if name not in bound
    ]


def _source_of(function: Any) -> Any:
    """The function that was written: under partials, methods, wrappers and ``__call__``."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif isinstance(getattr(type(function), "__call__", None), types.FunctionType):  # noqa: B004
            function = type(function).__call__
        else:
            return function


def _doc_of(function: Any, source: Any) -> str | None:
    if isinstance(source, types.FunctionType) and source.__doc__:
        return source.__doc__
    doc = type(function).__doc__ if not inspect.isroutine(function) else function.__doc__
    return None if isinstance(function, functools.partial) else doc


def _evaluated(parameter: inspect.Parameter, source: Any, namespace: Mapping[str, Any] | None) -> Any:
    """The annotation of *parameter* as an object: texts in it are evaluated where it was written."""
    annotation = parameter.annotation
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation
    holder = types.SimpleNamespace(__annotations__={parameter.name: annotation})
    try:
        hints = typing.get_type_hints(
            holder, getattr(source, "__globals__", {}), dict(namespace or {}), include_extras=True
        )
    except NameError as problem:
        raise ConfigurationError(
            f"{_named(parameter, source)} is annotated {annotation!r}, and {problem}; "
            "import or define it before the tool is used"
        ) from problem
    except Exception as problem:
        raise ConfigurationError(
            f"{_named(parameter, source)} is annotated {annotation!r}, which cannot be read: {problem}"
        ) from problem
    return hints[parameter.name]


def _form(builder: FormBuilder, parameter: inspect.Parameter, annotation: Any, source: Any) -> Form:
    try:
        form = builder.form(annotation)
    except UnsupportedType as problem:
        raise ConfigurationError(
            f"{_named(parameter, source)} has a type that JSON cannot express: {problem}; "
            "bind it (functools.partial, a method, a closure), or take a str, number, list, dict or dataclass"
        ) from problem
    except NameError as problem:
        raise ConfigurationError(
            f"{_named(parameter, source)} is of a class with an annotation that cannot be read: {problem}"
        ) from problem
    if parameter.default is None and not _takes_null(form.schema):
        convert = form.convert
        schema = {"anyOf": [dict(form.schema), {"type": "null"}]}
        return Form(
            schema, None if convert is None else lambda value: None if value is None else convert(value)
        )
    return form


def _takes_null(schema: Mapping[str, Any]) -> bool:
    return (
        schema.get("type") == "null"
        or None in schema.get("enum", ())
        or not schema.keys() & {"type", "enum", "anyOf", "$ref"}
        or any(_takes_null(option) for option in schema.get("anyOf", ()))
    )


def _is_context(annotation: Any) -> bool:
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if annotation is ToolContext:
        return True
    options = typing.get_args(annotation)
    return ToolContext in options and all(option in (ToolContext, type(None)) for option in options)


def _add_default(schema: dict[str, Any], default: Any, form: Form) -> None:
    """Show *default*, if it is a JSON value or becomes one and back."""
    if _is_json(default):
        schema["default"] = default
    elif form.convert is not None:
        try:
            value = json.loads(json_text(default))
            if form.convert(value) == default:
                schema["default"] = value
        except Exception:
            return  # The function fills it in itself.


def _is_json(value: Any) -> bool:
    if value is None or type(value) in (str, bool, int):
        return True
    if type(value) is float:
        return math.isfinite(value)
    if type(value) in (list, tuple):
        return all(_is_json(item) for item in value)
    return type(value) is dict and all(type(key) is str and _is_json(item) for key, item in value.items())


def _named(parameter: inspect.Parameter, source: Any) -> str:
    return f"parameter {parameter.name!r} of tool function {getattr(source, '__qualname__', source)}"
