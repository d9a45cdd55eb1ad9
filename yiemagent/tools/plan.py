"""A schema as one function that coerces and checks, made once per tool.

The plan knows itself whether it checks all that the schema says. Only for the rest is
jsonschema needed, whose import costs as much as that of requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from yiemagent.data_class import dataclass
from yiemagent.tools.argument_errors import ArgumentError, Path, flat_path, shown
from yiemagent.tools.choice_checks import Branch, all_of, any_of, member_check, nullable, one_of, type_list
from yiemagent.tools.coercion import SCALAR_CHECKS, Check, Errors, accepts, copy_json
from yiemagent.tools.container_checks import Limit, array_check, limit_checks, object_check, with_limits
from yiemagent.tools.wire_schema import resolve_pointer

__all__ = ["Formats", "Plan", "compile_schema", "compile_value_check"]

Formats = Mapping[str, Callable[[str], object]]
"""By ``format``: what raises ``ValueError`` for a text that is not of that format."""

_UNCOVERED = frozenset(
    (
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$recursiveAnchor",
        "$recursiveRef",
        "additionalItems",
        "contains",
        "contentSchema",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "disallow",
        "divisibleBy",
        "else",
        "extends",
        "id",
        "if",
        "maxContains",
        "maxProperties",
        "minContains",
        "minProperties",
        "multipleOf",
        "not",
        "patternProperties",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    )
)
"""Keywords that assert something this module does not look at. Unknown ones assert nothing."""

_OLD_DRAFT = "draft-0[1-7]"
"""In these what stands beside ``$ref`` is ignored."""
_MAPPING = (dict, Mapping)
"""A dict first: nearly all are, and to know it of a ``Mapping`` takes several times as long."""
_CHOICES = frozenset(("enum", "const", "anyOf", "oneOf", "allOf", "$ref"))
"""What ``_Compiler._choices`` reads; most schemas have none of it."""
_OBJECT_KEYWORDS = frozenset(("properties", "required", "additionalProperties"))
_ARRAY_KEYWORDS = frozenset(("items", "prefixItems", "minItems", "maxItems"))
_TYPES = ("object", "array", *SCALAR_CHECKS)
_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": (list, tuple),
    "string": str,
    "number": (int, float),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What was made of a schema."""

    check: Check
    """For the whole arguments object."""
    defaults: tuple[tuple[str, Any], ...]
    """Top-level defaults, filled in where an argument is missing (case C-25)."""
    covered: bool
    """Whether ``check`` checks all that the schema says; false too for a malformed schema."""
    broken: str | None = None
    """What no meta-schema would find wrong with the schema, such as a broken pattern."""
    refers: bool = False
    """Whether something in it is said by a reference."""


def compile_schema(
    schema: Mapping[str, Any], *, closed: bool = False, required: bool = True, formats: Formats | None = None
) -> Plan:
    """Make the plan of *schema*. Never raises for a malformed one: that is ``covered=False``.

    Args:
        schema: Its root is taken as an object even when it does not say so.
        closed: Refuse unknown top-level arguments whatever the schema says.
        required: Whether missing top-level arguments are errors.
        formats: Formats to check; all others are only hints, as JSON Schema has it.
    """
    root = {**schema, "type": "object"}
    if closed and "additionalProperties" not in root:
        root["additionalProperties"] = False
    properties = root.get("properties")
    defaults = tuple(
        (name, inner["default"])
        for name, inner in (properties.items() if isinstance(properties, _MAPPING) else ())
        if isinstance(inner, _MAPPING) and "default" in inner
    )
    filled = {name for name, _ in defaults}
    needed = root.get("required")
    if isinstance(needed, list):
        root["required"] = [name for name in needed if name not in filled] if required else []
    compiler = _Compiler(schema, formats or {})
    try:
        check = compiler.compile(root)
    except RecursionError:
        return Plan(_accept, (), False, "root: nested too deeply")
    return Plan(check, defaults, compiler.covered, compiler.broken, compiler.refers)


def compile_value_check(schema: Mapping[str, Any], definitions: Mapping[str, Any], formats: Formats) -> Check:
    """The check of one value by *schema*, whose references mean ``#/$defs/...`` in *definitions*."""
    return _Compiler({"$defs": definitions}, formats).compile(schema)


def _accept(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
    return copy_json(value)


def _refuse(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
    errors.append(ArgumentError(flat_path(path), "no value is allowed here"))
    return value


class _Compiler:
    """One walk over one schema."""

    def __init__(self, root: Mapping[str, Any], formats: Formats) -> None:
        self.covered = True
        self.broken: str | None = None
        self.refers = False
        self._root = root
        self._references_stand_alone = (
            "$schema" in root and re.search(_OLD_DRAFT, str(root["$schema"])) is not None
        )
        self._formats = formats
        self._references: dict[str, Check | None] = {}

    def compile(self, schema: Any) -> Check:
        if schema is True or schema == {}:
            return _accept
        if schema is False:
            return _refuse
        if not isinstance(schema, _MAPPING):
            return self._unknown()
        if not _UNCOVERED.isdisjoint(schema):
            self.covered = False
        if "$ref" in schema and self._references_stand_alone:
            return self._reference(schema)
        check = self._typed(schema)
        if not _CHOICES.isdisjoint(schema):
            checks = [check, *self._choices(schema)]
            check = all_of([check for check in checks if check is not _accept] or checks)
        if schema.get("nullable") is True:
            return nullable(check, lambda text: accepts(check, text))
        return check

    def _choices(self, schema: Mapping[str, Any]) -> Iterator[Check]:
        if "enum" in schema:
            members = schema["enum"]
            yield member_check(members) if isinstance(members, list) else self._unknown()
        if "const" in schema:
            yield member_check([schema["const"]])
        for keyword, combine in (("anyOf", any_of), ("oneOf", one_of)):
            if keyword in schema:
                yield combine(self._branches(schema[keyword]))
        if "allOf" in schema:
            yield all_of([branch.check for branch in self._branches(schema["allOf"])])
        if "$ref" in schema:
            yield self._reference(schema)

    def _unknown(self) -> Check:
        self.covered = False
        return _accept

    def _typed(self, schema: Mapping[str, Any]) -> Check:
        kind = schema.get("type")
        if kind is None:
            return self._untyped(schema)
        if isinstance(kind, str):
            return self._of_type(kind, schema)
        if isinstance(kind, list) and kind and all(isinstance(name, str) for name in kind):
            return type_list([Branch(self._of_type(name, schema), name) for name in kind])
        return self._unknown()

    def _of_type(self, kind: str, schema: Mapping[str, Any]) -> Check:
        if kind not in _TYPES:
            return self._unknown()
        if kind == "object":
            return self._object(schema)
        check = self._array(schema) if kind == "array" else SCALAR_CHECKS[kind]
        return with_limits(check, self._limits(kind, schema))

    def _untyped(self, schema: Mapping[str, Any]) -> Check:
        """Keywords of a type that the schema does not insist on: they count for values of that type."""
        by_type: list[tuple[type | tuple[type, ...], Check]] = []
        if not _OBJECT_KEYWORDS.isdisjoint(schema):
            by_type.append((dict, self._object(schema)))
        if not _ARRAY_KEYWORDS.isdisjoint(schema):
            by_type.append(((list, tuple), with_limits(self._array(schema), self._limits("array", schema))))
        for kind in ("string", "number"):
            limits = self._limits(kind, schema)
            if limits:
                by_type.append((_PYTHON_TYPES[kind], with_limits(SCALAR_CHECKS[kind], limits)))
        if not by_type:
            return _accept

        def check_by_type(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
            for kinds, check in by_type:
                if isinstance(value, kinds) and not isinstance(value, bool):
                    return check(value, path, errors, lenient)
            return copy_json(value)

        return check_by_type

    def _object(self, schema: Mapping[str, Any]) -> Check:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        extra = schema.get("additionalProperties", True)
        if not isinstance(properties, _MAPPING):
            properties = {}
            self.covered = False
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            required = []
            self.covered = False
        patterns = schema.get("patternProperties", {})
        for pattern in patterns if isinstance(patterns, _MAPPING) else ():
            self._pattern(pattern)
        if patterns and extra is False:
            extra = True  # jsonschema says which of them are unexpected.
        checks = {name: self.compile(inner) for name, inner in properties.items()}
        others: Check | Literal[False] | None = None
        if extra is False:
            others = False
        elif extra is not True:
            others = self.compile(extra)
        return object_check(checks, tuple(dict.fromkeys(required)), others)

    def _array(self, schema: Mapping[str, Any]) -> Check:
        items, first = schema.get("items", True), schema.get("prefixItems", [])
        if isinstance(items, list) or not isinstance(first, list):
            self.covered = False
            return array_check(None)
        return array_check(
            None if items is True else self.compile(items), [self.compile(item) for item in first]
        )

    def _limits(self, kind: str, schema: Mapping[str, Any]) -> list[Limit]:
        limits: list[Limit] = []
        wanted = "number" if kind == "integer" else kind
        for keyword, about, limit in limit_checks(schema):
            stated = schema[keyword]
            if isinstance(stated, bool) or not isinstance(stated, (int, float)):
                self.covered = False
            elif about == wanted:
                limits.append(limit)
        if kind == "string" and "pattern" in schema:
            limits += self._pattern(schema["pattern"])
        if kind == "string" and schema.get("format") in self._formats:
            limits.append(_format_limit(schema["format"], self._formats[schema["format"]]))
        return limits

    def _pattern(self, pattern: Any) -> list[Limit]:
        if not isinstance(pattern, str):
            self.covered = False
            return []
        try:
            from yiemagent.tools.patterns import compile_pattern

            compiled = compile_pattern(pattern)
        except re.error as problem:
            self.broken = f"its pattern {shown(pattern)} is not a regular expression: {problem}"
            return []
        if compiled is None:
            return []
        return [lambda text: None if compiled.search(text) else f"must match the pattern {shown(pattern)}"]

    def _branches(self, schemas: Any) -> list[Branch]:
        if not isinstance(schemas, Sequence) or isinstance(schemas, str) or not schemas:
            return [Branch(self._unknown(), "")]
        return [Branch(self.compile(schema), self._kind(schema)) for schema in schemas]

    def _kind(self, schema: Any) -> str:
        target = schema.get("$ref") if isinstance(schema, _MAPPING) else None
        if isinstance(target, str):
            schema = resolve_pointer(self._root, target)
        kind = schema.get("type") if isinstance(schema, _MAPPING) else None
        return kind if isinstance(kind, str) else ""

    def _reference(self, schema: Mapping[str, Any]) -> Check:
        self.refers = True
        target = schema["$ref"]
        if not isinstance(target, str) or not (target == "#" or target.startswith("#/")):
            return self._unknown()
        if target not in self._references:
            found = resolve_pointer(self._root, target)
            if found is None:
                return _dangling(target)
            self._references[target] = None  # Being made: whoever refers to it meanwhile looks it up later.
            self._references[target] = self.compile(found)
        ready = self._references[target]
        return ready if ready is not None else self._later(target)

    def _later(self, target: str) -> Check:
        references = self._references

        def check_reference(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
            check = references[target]
            assert check is not None
            return check(value, path, errors, lenient)

        return check_reference


def _dangling(target: str) -> Check:
    def check_dangling(value: Any, path: Path, errors: Errors, lenient: bool) -> Any:
        errors.append(
            ArgumentError(flat_path(path), f"the tool's schema refers to {shown(target)}, which is not there")
        )
        return value

    return check_dangling


def _format_limit(name: str, parse: Callable[[str], object]) -> Limit:
    def check_format(text: Any) -> str | None:
        try:
            parse(text)
        except ValueError:
            return f"expected {name}, got {shown(text)}"
        return None

    return check_format
