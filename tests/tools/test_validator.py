"""Schemas with keywords that only jsonschema checks."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.tools.arguments import check_arguments
from yiemagent.tools.tool import Tool


def make_tool(properties: dict[str, Any], **root: Any) -> Tool:
    options = {key: root.pop(key) for key in ("validate_arguments",) if key in root}
    return Tool(
        name="probe",
        input_schema={"type": "object", "properties": properties, **root},
        execute=lambda i, a, s, u: a,
        **options,
    )


def errors(tool: Tool, raw: Any) -> list[str]:
    return [str(error) for error in check_arguments(tool, raw).errors]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "integer", "multipleOf": 5}, "7", "n: does not satisfy multipleOf 5, got 7"),
        ({"not": {"type": "string"}}, "x", 'n: does not match what not allows, got "x"'),
        (
            {"type": "array", "uniqueItems": True},
            [1, 1],
            "n: does not satisfy uniqueItems true, got [1, 1]",
        ),
        (
            {
                "type": "object",
                "patternProperties": {"^x": {"type": "integer"}},
                "additionalProperties": False,
            },
            {"x1": 1, "y": 2},
            "n.y: unexpected",
        ),
        ({"if": {"type": "object"}, "then": {"required": ["a"]}}, {}, "n.a: missing"),
        ({"if": True, "then": {"type": ["string", "null"]}}, 5, "n: expected string or null, got integer"),
        (
            {"if": True, "then": {"pattern": "^a"}},
            "b",
            'n: must match the pattern "^a"',
        ),
        (
            {"$ref": "http://10.0.0.1/x.json"},
            1,
            'n: the tool\'s schema refers to "http://10.0.0.1/x.json", which is not there',
        ),
    ],
)
def test_other_keywords_are_checked_by_jsonschema_in_our_words(schema: Any, value: Any, text: str) -> None:
    """Cases C-51 and C-52: no whole instance in the text, and nothing from the network."""
    found = errors(make_tool({"n": schema}), {"n": value})

    assert found == [text]


def test_contains_is_reported_where_the_array_is() -> None:
    """A keyword without words of its own gets the general ones."""
    found = errors(make_tool({"n": {"type": "array", "contains": {"type": "integer"}}}), {"n": ["a"]})

    assert found == ['n: does not satisfy contains {"type": "integer"}, got ["a"]']


def test_a_reference_that_cannot_be_resolved_is_an_error_only_at_its_place() -> None:
    """Case C-52: contained, and the rest is still checked."""
    tool = make_tool({"far": {"$ref": "http://10.0.0.1/x.json"}, "n": {"type": "integer", "multipleOf": 2}})

    assert errors(tool, {"n": 2}) == []
    assert errors(tool, {"far": 1, "n": 3}) == [
        'far: the tool\'s schema refers to "http://10.0.0.1/x.json", which is not there',
        "n: does not satisfy multipleOf 2, got 3",
    ]


def test_what_the_plan_has_reported_is_not_reported_again() -> None:
    """One error, one line."""
    tool = make_tool({"n": {"type": "integer", "multipleOf": 2}, "m": {"type": "string"}}, required=["m"])

    assert errors(tool, {"n": "x"}) == ["n: expected integer, got string", "m: missing"]


def test_nullable_is_understood_beside_other_keywords() -> None:
    """TC-18, case C-21: OpenAPI's word, which jsonschema ignores."""
    tool = make_tool(
        {
            "n": {"type": "integer", "multipleOf": 2, "nullable": True},
            "e": {"enum": ["a"], "nullable": True, "not": {"const": "b"}},
        },
        required=["n", "e"],
    )

    assert errors(tool, {"n": None, "e": None}) == []


@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
def test_a_pattern_in_another_language_is_not_checked(keyword: str) -> None:
    """An ECMAScript pattern must not raise re.error out of a call."""
    schema = {
        "not": {"const": 0},
        keyword: r"^\p{L}+$" if keyword == "pattern" else {r"^\p{L}+$": {"type": "integer"}},
    }

    assert errors(make_tool({"n": schema}), {"n": "7" if keyword == "pattern" else {"a": 1}}) == []


def test_the_draft_that_the_schema_names_is_used() -> None:
    """Case C-21: items as a list is a tuple in draft 7 and nothing in 2020-12."""
    draft7 = "http://json-schema.org/draft-07/schema#"
    tool = make_tool({"n": {"type": "array", "items": [{"type": "integer"}]}}, **{"$schema": draft7})

    assert errors(tool, {"n": ["x"]}) == ["n.0: expected integer, got string"]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "array", "items": [{"type": "integer"}]}, ["x"], "n.0: expected integer, got string"),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            1,
            "n: does not satisfy minimum 1, got 1",
        ),
    ],
)
def test_a_schema_of_an_older_draft_that_does_not_say_so_is_understood(
    schema: Any, value: Any, text: str
) -> None:
    """Cases C-21 and C-22: the tool is kept, and its schema means what it meant there."""
    assert errors(make_tool({"n": schema}), {"n": value}) == [text]


@pytest.mark.parametrize(("draft", "count"), [("draft-07/schema#", 0), ("draft/2020-12/schema", 1)])
def test_siblings_of_a_reference_count_by_the_draft(draft: str, count: int) -> None:
    """Case C-21: in draft 7 what stands beside $ref is ignored."""
    root = {"$schema": f"http://json-schema.org/{draft}", "definitions": {"n": {"type": "integer"}}}
    tool = make_tool({"n": {"$ref": "#/definitions/n", "minimum": 7}}, **root)

    assert len(errors(tool, {"n": "5"})) == count


def test_validate_arguments_also_replaces_the_required_check_of_jsonschema() -> None:
    """Runbook 3.2, for a schema that the plan does not cover."""
    tool = make_tool(
        {"n": {"type": "integer", "multipleOf": 2}},
        required=["n"],
        validate_arguments=lambda args: None,
    )

    assert errors(tool, {}) == []


def test_the_validator_is_made_once() -> None:
    """Compiled once per tool."""
    tool = make_tool({"n": {"multipleOf": 2}})
    errors(tool, {"n": 2})
    validator = tool._cache["validator"]

    errors(tool, {"n": 4})

    assert tool._cache["validator"] is validator


@pytest.mark.parametrize(
    ("properties", "where"),
    [
        ({"n": {"type": "UNKNOWN"}}, "properties.n.type"),
        ({"n": {"enum": "a"}}, "properties.n.enum"),
        ({"n": {"required": "a"}}, "properties.n.required"),
        ({"n": {"properties": []}}, "properties.n.properties"),
        ({"n": {"type": []}}, "properties.n.type"),
        ({"n": {"minimum": "1"}}, "properties.n.minimum"),
        ({"n": {"anyOf": []}}, "properties.n.anyOf"),
        ({"n": {"$ref": 5}}, "properties.n.$ref"),
        ({"n": {"pattern": 5}}, "properties.n.pattern"),
        ({"n": {"prefixItems": {}}}, "properties.n.prefixItems"),
        ({"n": 5}, "properties.n"),
        ({"n": {"type": "string", "pattern": "["}}, 'its pattern "["'),
        ({"n": {"type": "object", "patternProperties": {"(": True}}}, 'its pattern "("'),
        ({"n": {"type": "object", "patternProperties": 5}}, "properties.n.patternProperties"),
    ],
)
def test_a_broken_schema_is_an_error_when_the_tool_is_made(properties: Any, where: str) -> None:
    """Not at the first request (case C-22)."""
    with pytest.raises(ConfigurationError, match="input_schema of tool 'probe' is broken") as caught:
        make_tool(properties)
    assert where in str(caught.value)
    assert len(str(caught.value)) < 400


DEFINED = {"a": {"type": "string"}, "b": {"prefixItems": [{"type": "string"}]}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "#/$defs/gone"}, '"#/$defs/gone", which is not there: #/$defs has a, b;'),
        ({"items": {"$ref": "#/definitions/gone"}}, '"#/definitions/gone", which is not there: # has type'),
        ({"$ref": "#/$defs/b/prefixItems/7"}, "#/$defs/b/prefixItems has 1 items"),
        ({"$ref": "#/$defs/a/type/x"}, '#/$defs/a/type is "string"'),
        ({"anyOf": [{"$ref": "#/$defs/gone"}, {"type": "null"}]}, "#/$defs has a, b"),
        ({"not": {"$ref": "#/$defs/gone"}}, "#/$defs has a, b"),
        ({"if": {"properties": {"x": {"$ref": "#/$defs/gone"}}}}, "#/$defs has a, b"),
    ],
)
def test_a_reference_to_nothing_is_an_error_when_the_tool_is_made(schema: Any, said: str) -> None:
    """Cases C-22 and C-52: with the tool, the reference, and what is there."""
    with pytest.raises(ConfigurationError, match="input_schema of tool 'probe' refers to") as caught:
        make_tool({"n": schema}, **{"$defs": DEFINED})
    assert said in str(caught.value)


def test_a_reference_to_nothing_is_found_behind_a_reference() -> None:
    """What is referred to is in use, and so is what that refers to."""
    defined = {"a": {"$ref": "#/$defs/b"}, "b": {"items": {"$ref": "#/$defs/gone"}}}

    with pytest.raises(ConfigurationError, match="gone"):
        make_tool({"n": {"$ref": "#/$defs/a"}}, **{"$defs": defined})


@pytest.mark.parametrize(
    ("properties", "root"),
    [
        ({"n": {"type": "string"}}, {"$defs": {"unused": {"$ref": "#/$defs/gone"}}}),
        ({"n": {"$ref": "http://10.0.0.1/x.json"}}, {}),
        ({"n": {"$ref": "#anchor"}}, {}),
        ({"n": {"$id": "inner", "$defs": {"own": True}, "$ref": "#/$defs/own"}}, {}),
        ({"$ref": {"type": "string"}, "n": {"enum": [{"$ref": "#/$defs/gone"}]}}, {}),
        ({"n": {"$ref": "#"}}, {}),
    ],
)
def test_only_local_references_that_are_in_use_are_followed_when_a_tool_is_made(
    properties: Any, root: Any
) -> None:
    """Case C-52: nothing is fetched, and what is not in the schema may be right elsewhere."""
    assert make_tool(properties, **root).name == "probe"


def test_a_schema_nested_beyond_the_stack_is_refused() -> None:
    """A hostile server sends one."""
    deep: Any = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}

    with pytest.raises(ConfigurationError, match="nested too deeply"):
        make_tool({"n": deep})


def test_a_schema_that_only_jsonschema_cannot_follow_is_refused_too() -> None:
    """It needs more of the stack than the plan."""
    deep: Any = {"multipleOf": 2}
    for _ in range(150):
        deep = {"type": "array", "items": deep}

    with pytest.raises(ConfigurationError, match="nested too deeply"):
        make_tool({"n": deep})


def test_a_schema_that_no_draft_takes_is_judged_by_the_current_one() -> None:
    """items may be many things, but no number."""
    with pytest.raises(ConfigurationError, match=r"properties\.n\.items: 5 is not"):
        make_tool({"n": {"items": 5}})


def test_several_missing_properties_are_listed_one_by_one() -> None:
    """jsonschema reports each, and names none as data."""
    tool = make_tool({"n": {"if": {"type": "object"}, "then": {"required": ["a", "b", "c"]}}})

    assert errors(tool, {"n": {"b": 1}}) == ["n.a: missing", "n.c: missing"]


@pytest.mark.servers
def test_jsonschema_is_loaded_only_for_what_needs_it() -> None:
    """Importing it costs as much as importing requests."""
    script = (
        "import sys\n"
        "from yiemagent.tools.tool import Tool\n"
        "from yiemagent.tools.arguments import check_arguments\n"
        "n = {'type': 'string', 'minLength': 1, 'pattern': '^a', 'format': 'email', 'x-hint': 1}\n"
        "schema = {'type': 'object', 'properties': {'n': n}, 'additionalProperties': False}\n"
        "tool = Tool(name='t', input_schema=schema, execute=lambda i, a, s, u: a)\n"
        "assert check_arguments(tool, {'n': 'a'}).errors == ()\n"
        "assert 'jsonschema' not in sys.modules\n"
        "Tool(name='t', input_schema={'multipleOf': 2}, execute=lambda i, a, s, u: a)\n"
        "assert 'jsonschema' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
