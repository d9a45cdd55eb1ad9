"""The form of a tool's schema that providers accept, made from the form it was written in."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yiemagent.tools.argument_errors import shown

__all__ = ["dangling_reference", "is_object_schema", "resolve_pointer", "to_wire_schema"]

_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_DEFINITIONS = ("$defs", "definitions")
"""Where schemas stand inside a schema: alone, in a list, under names, and until they are referred to."""


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
    if reference != "#" and not reference.startswith("#/"):
        return None
    found = _follow(root, reference)[0]
    if found is None and "%" in reference:  # A pointer in a URI may be percent-encoded (RFC 6901, 6).
        from urllib.parse import unquote

        found = _follow(root, unquote(reference))[0]
    return found


def dangling_reference(root: Mapping[str, Any]) -> str | None:
    """The first local reference in use that points nowhere, and what is there instead; None if none does.

    Remote references, and those of an inner schema with an ``$id`` of its own, are not looked at:
    what they mean is not in *root*.
    """
    seen: set[str] = set()
    waiting: list[Any] = [root]
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping) or (schema is not root and "$id" in schema):
            continue
        target = schema.get("$ref")
        if isinstance(target, str) and target.startswith("#/") and target not in seen:
            seen.add(target)
            found = resolve_pointer(root, target)
            if found is None:
                return f"{shown(target)}, which is not there: {_nearest(root, target)}"
            waiting.append(found)
        waiting.extend(_inner(schema, _NAMED))
    return None


def _follow(root: Mapping[str, Any], reference: str) -> tuple[Any, list[str]]:
    """What *reference* points to, or None; and the steps of it that could be taken."""
    found: Any = root
    taken: list[str] = []
    for raw in reference.split("/")[1:]:
        step = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None, taken
        taken.append(raw)
    return found, taken


def _nearest(root: Mapping[str, Any], reference: str) -> str:
    """In words, how far *reference* leads, and where one could go on from there."""
    place = "/".join(("#", *_follow(root, reference)[1]))
    found = resolve_pointer(root, place)
    if isinstance(found, Mapping):
        return f"{place} has {', '.join(map(str, list(found)[:10])) or 'nothing'}"
    return f"{place} has {len(found)} items" if isinstance(found, list) else f"{place} is {shown(found)}"


def _add_properties(schema: Any) -> None:
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if (kind == "object" or (isinstance(kind, list) and "object" in kind)) and "properties" not in schema:
        schema["properties"] = {}
    for inner in _inner(schema, _NAMED + _DEFINITIONS):
        _add_properties(inner)


def _inner(schema: Mapping[str, Any], named: Sequence[str]) -> Iterator[Any]:
    """What stands where a schema may stand in *schema*: under *named* keys, in lists, and alone."""
    for key in _ONE:
        if key in schema:
            yield schema[key]
    for key in _MANY:
        listed = schema.get(key)
        if isinstance(listed, list):
            yield from listed
    for key in named:
        by_name = schema.get(key)
        if isinstance(by_name, Mapping):
            yield from by_name.values()
