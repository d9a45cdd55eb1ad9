"""The form of a tool's schema that providers accept, made from the form it was written in."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

__all__ = ["is_object_schema", "resolve_pointer", "to_wire_schema"]

_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Where schemas stand inside a schema: alone, in a list, or under names."""


def to_wire_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of *schema* with an object at its root and ``properties`` at each object level.

    Nothing else is added or taken away: no constraint the author did not state, and ``$defs``
    stay with their ``$ref`` (cases C-17, C-19, C-20). A root that is only a local ``$ref`` is
    replaced by what it refers to.
    """
    wire = copy.deepcopy(dict(schema))
    target = wire.get("$ref")
    if isinstance(target, str) and "type" not in wire:
        found = resolve_pointer(wire, target)
        if isinstance(found, Mapping):
            del wire["$ref"]
            wire = {**copy.deepcopy(dict(found)), **wire}
    if wire.get("type") != "object":
        wire = {"type": "object", **wire}
        wire["type"] = "object"
    _add_properties(wire)
    return wire


def is_object_schema(schema: Mapping[str, Any]) -> bool:
    """Whether the root of *schema* is an object, or can be read as one."""
    kind = schema.get("type")
    if kind is None:
        target = schema.get("$ref")
        found = resolve_pointer(schema, target) if isinstance(target, str) else None
        return not isinstance(found, Mapping) or found is schema or found.get("type", "object") == "object"
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def resolve_pointer(root: Mapping[str, Any], reference: str) -> Any:
    """What a local reference (``#`` or ``#/...``) points to; None when it points nowhere."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    found: Any = root
    for raw in reference[2:].split("/"):
        step = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(step)
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def _add_properties(schema: Any) -> None:
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if (kind == "object" or (isinstance(kind, list) and "object" in kind)) and "properties" not in schema:
        schema["properties"] = {}
    for key in _ONE:
        _add_properties(schema.get(key))
    for key in _MANY:
        listed = schema.get(key)
        for item in listed if isinstance(listed, list) else ():
            _add_properties(item)
    for key in _NAMED:
        named = schema.get(key)
        for item in named.values() if isinstance(named, dict) else ():
            _add_properties(item)
