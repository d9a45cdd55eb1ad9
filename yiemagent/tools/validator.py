"""jsonschema, for what a ``Plan`` does not cover. Imported only when such a schema is used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jsonschema
import jsonschema.validators
import referencing
import referencing.exceptions

from yiemagent.tools.argument_errors import MISSING, ArgumentError, json_type, shown
from yiemagent.tools.patterns import compile_pattern

__all__ = ["find_errors", "make_validator", "schema_problem"]

_UNRESOLVED = "the tool's schema refers to"
_classes: dict[Any, Any] = {}


def schema_problem(schema: Mapping[str, Any]) -> str | None:
    """What is wrong with *schema* by the meta-schema of its draft, or None.

    One that names no draft is taken for the current one, and for an older one if it is only
    right there: a tuple written as ``items: [...]``, ``exclusiveMinimum: true`` (case C-21).
    """
    return _draft_of(schema)[1]


def make_validator(schema: Mapping[str, Any]) -> Any:
    """A validator for *schema* that never reads anything from the network (case C-52).

    It knows ``nullable``, and an unresolvable ``$ref`` or a pattern that Python cannot read is
    an error (or nothing) at its place instead of an exception.
    """
    base, _ = _draft_of(schema)
    return _extended(base)(schema, registry=referencing.Registry())


def find_errors(validator: Any, arguments: dict[str, Any]) -> Iterator[ArgumentError]:
    """What *validator* finds wrong, in our own words: its own hold the whole instance (case C-51)."""
    for error in validator.iter_errors(arguments):
        yield from _in_our_words(error)


_CHANGED_MEANING = ("items", "exclusiveMinimum", "exclusiveMaximum")
"""Keywords with values that were right in older drafts and are not any more."""


def _draft_of(schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """The draft of *schema*, and what is wrong with it there."""
    current = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    problem = _problem_in(current, schema)
    if problem is not None and "$schema" not in schema and problem.split(":")[0].endswith(_CHANGED_MEANING):
        for older in (jsonschema.Draft7Validator, jsonschema.Draft4Validator):
            if _problem_in(older, schema) is None:
                return older, None
    return current, problem


def _problem_in(base: Any, schema: Mapping[str, Any]) -> str | None:
    try:
        # Formats are left alone: a pattern may be right in ECMAScript only, and the plan looks at those.
        base.check_schema(schema, format_checker=jsonschema.FormatChecker(formats=()))
    except jsonschema.SchemaError as error:
        where = ".".join(str(step) for step in error.absolute_path) or "root"
        return f"{where}: {error.message[:200]}"
    except RecursionError:
        return "root: nested too deeply"
    return None


def _extended(base: Any) -> Any:
    if base not in _classes:
        changed = {name: _contained(check) for name, check in base.VALIDATORS.items() if name in _REFERENCES}
        for name in ("type", "enum", "const"):
            if name in base.VALIDATORS:
                changed[name] = _allowing_null(base.VALIDATORS[name])
        _classes[base] = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
            base, {**changed, "pattern": _check_pattern}
        )
    return _classes[base]


_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef", "patternProperties", "additionalProperties")


def _contained(check: Any) -> Any:
    def check_contained(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        try:
            yield from check(validator, value, instance, schema) or ()
        except referencing.exceptions.Unresolvable:
            yield jsonschema.ValidationError(f"{_UNRESOLVED} {shown(value)}, which is not there")
        except re.error:
            return  # A pattern in a language that is not Python's: not checked here.

    return check_contained


def _allowing_null(check: Any) -> Any:
    def check_allowing_null(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[Any]:
        if instance is None and schema.get("nullable") is True:
            return ()
        return check(validator, value, instance, schema) or ()

    return check_allowing_null


def _check_pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[Any]:
    compiled = compile_pattern(pattern) if isinstance(instance, str) else None
    if compiled is not None and not compiled.search(instance):
        yield jsonschema.ValidationError(f"must match the pattern {shown(pattern)}")


def _in_our_words(error: Any) -> Iterator[ArgumentError]:
    path = tuple(error.absolute_path)
    keyword, wanted, instance = error.validator, error.validator_value, error.instance
    if keyword == "required" and isinstance(wanted, list):
        for name in wanted:
            if name not in instance:
                yield ArgumentError((*path, name), MISSING)
    elif keyword == "additionalProperties" and wanted is False:
        for name in _additional(instance, error.schema):
            yield ArgumentError((*path, name), "unexpected")
    elif keyword == "type":
        kinds = wanted if isinstance(wanted, list) else [wanted]
        yield ArgumentError(path, f"expected {' or '.join(map(str, kinds))}, got {json_type(instance)}")
    elif keyword == "pattern" or error.message.startswith(_UNRESOLVED):
        yield ArgumentError(path, error.message)
    elif keyword in ("anyOf", "oneOf", "not"):
        yield ArgumentError(path, f"does not match what {keyword} allows, got {shown(instance)}")
    else:
        yield ArgumentError(path, f"does not satisfy {keyword} {shown(wanted)}, got {shown(instance)}")


def _additional(instance: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    patterns = list(schema.get("patternProperties", {}))
    known = schema.get("properties", {})
    return [name for name in instance if name not in known and not any(re.search(p, name) for p in patterns)]
