"""The plan against jsonschema, over generated schemas and values."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.tools.arguments import check_arguments
from yiemagent.tools.plan import compile_schema, compile_value_check
from yiemagent.tools.tool import Tool

_TEXTS = st.sampled_from(
    [
        "",
        "a",
        "b",
        "42",
        " 7 ",
        "4.5",
        "1e3",
        "true",
        "FALSE",
        "null",
        "[1]",
        '["a"]',
        '{"a": 1}',
        "x y",
        "nope",
    ]
)
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 9), st.sampled_from([0.5, 4.0, -1.5, 1e30]), _TEXTS
)
VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "minimum": st.integers(-2, 3),
        "exclusiveMaximum": st.integers(2, 8),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(1, 4),
        "minItems": st.integers(0, 1),
        "maxItems": st.integers(1, 3),
        "pattern": st.sampled_from(["^a", "[0-9]", "b$"]),
    },
)
_TYPE = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])


def _merged(*parts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    objects = st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": named,
            "required": st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True),
            "additionalProperties": st.one_of(st.booleans(), inner),
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={"items": inner, "prefixItems": st.lists(inner, min_size=1, max_size=2)},
    )
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        objects,
        arrays,
        st.builds(_merged, arrays, _LIMITS),
        st.fixed_dictionaries({"anyOf": branches}),
        st.fixed_dictionaries({"oneOf": branches}),
        st.fixed_dictionaries({"allOf": branches}),
        st.builds(lambda one, two: {**two, **one}, objects, st.fixed_dictionaries({"anyOf": branches})),
        st.fixed_dictionaries({"properties": named}),
    )


SCHEMAS = st.recursive(
    st.one_of(
        st.builds(lambda kind, limits: {"type": kind, **limits}, _TYPE, _LIMITS),
        st.builds(lambda kinds: {"type": kinds}, st.lists(_TYPE, min_size=1, max_size=3, unique=True)),
        _LIMITS,
        st.builds(lambda members: {"enum": members}, st.lists(VALUES, min_size=1, max_size=3)),
        st.builds(lambda member: {"const": member}, _SCALARS),
        st.booleans(),
    ),
    _nested,
    max_leaves=6,
)


def _is_valid(schema: Any, value: Any) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@given(SCHEMAS, VALUES)
def test_without_coercion_the_plan_accepts_what_jsonschema_accepts(schema: Any, value: Any) -> None:
    """A value is right for the plan exactly when it is right for JSON Schema."""
    errors: list[Any] = []

    compile_value_check(schema, {}, {})(value, None, errors, False)

    assert (not errors) == _is_valid(schema, value), (schema, value, errors)


@given(SCHEMAS, VALUES)
def test_what_coercion_accepts_is_valid_and_stays_as_it_is(schema: Any, value: Any) -> None:
    """Coercion gives only values that the schema allows, and a second time changes nothing (T149)."""
    errors: list[Any] = []
    check = compile_value_check(schema, {}, {})

    coerced = check(value, None, errors, True)

    if not errors:
        assert _is_valid(schema, coerced), (schema, value, coerced)
        again: list[Any] = []
        check(coerced, None, again, True)
        assert not again


@given(st.dictionaries(st.sampled_from(["x", "y"]), SCHEMAS, max_size=2), VALUES, VALUES)
def test_raw_arguments_are_neither_changed_nor_shared(properties: Any, one: Any, other: Any) -> None:
    """T150: the transcript keeps what the model sent, whatever a tool does to its arguments."""
    raw = {"x": one, "y": other}
    before = copy.deepcopy(raw)
    tool = Tool(
        name="t", input_schema={"type": "object", "properties": properties}, execute=lambda i, a, s, u: a
    )

    arguments = check_arguments(tool, raw).arguments
    _spoil(arguments)

    assert json.dumps(raw) == json.dumps(before)


@given(SCHEMAS)
def test_a_schema_without_other_keywords_is_covered(schema: Any) -> None:
    """Such a schema never loads jsonschema."""
    assert compile_schema({"properties": {"x": schema}}).covered


def _spoil(value: Any) -> None:
    if isinstance(value, dict):
        for inner in value.values():
            _spoil(inner)
        value["spoiled"] = True
    elif isinstance(value, list):
        for inner in value:
            _spoil(inner)
        value.append("spoiled")
