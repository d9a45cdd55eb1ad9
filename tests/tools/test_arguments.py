"""Arguments as models really send them, through the function that the loop calls."""

from __future__ import annotations

import copy
import enum
import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from yiemagent.tools.arguments import (
    InvalidArguments,
    argument_error_text,
    check_arguments,
    malformed_arguments_text,
    prepare_call_arguments,
)
from yiemagent.tools.tool import Tool

TEXT, INTEGER, NUMBER, BOOLEAN = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
OBJECT, LIST = {"type": "object"}, {"type": "array"}
TEXTS = {"type": "array", "items": TEXT}
WRONG = object()


class Shade(enum.StrEnum):
    DARK = "dark"


class Level(enum.IntEnum):
    HIGH = 3


def make_tool(properties: Mapping[str, Any], required: list[str] | None = None, **options: Any) -> Tool:
    schema: dict[str, Any] = {"type": "object", "properties": properties, **options.pop("root", {})}
    if required is not None:
        schema["required"] = required
    return Tool(name="probe", input_schema=schema, execute=lambda i, args, s, u: args, **options)


def coerced(schema: Any, value: Any) -> Any:
    """What becomes of *value* for a required property of *schema*; WRONG when it is an error."""
    checked = check_arguments(make_tool({"n": schema}, ["n"]), {"n": value})
    return WRONG if checked.errors else checked.arguments["n"]


def message(schema: Any, value: Any, required: bool = True) -> str:
    checked = check_arguments(make_tool({"n": schema}, ["n"] if required else []), {"n": value})
    return "; ".join(map(str, checked.errors))


def refusal(tool: Tool, raw: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        prepare_call_arguments(tool, raw)
    return caught.value.text


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (INTEGER, "42", 42),
        (INTEGER, " 7 ", 7),
        (INTEGER, "1e3", 1000),
        (INTEGER, "-3", -3),
        (INTEGER, "0x10", WRONG),
        (INTEGER, "4.5", WRONG),
        (INTEGER, 4.5, WRONG),
        (INTEGER, 4.0, 4),
        (INTEGER, "", WRONG),
        (INTEGER, "4_2", WRONG),
        (INTEGER, "４２", WRONG),
        (INTEGER, "1e400", WRONG),
        (INTEGER, "9" * 5000, WRONG),
        (NUMBER, "42", 42),
        (NUMBER, "4.5", 4.5),
        (NUMBER, "1e5", 100000.0),
        (NUMBER, "", WRONG),
        (NUMBER, "nan", WRONG),
        (NUMBER, "inf", WRONG),
        (NUMBER, ".5", WRONG),
        (NUMBER, "5.", WRONG),
        (NUMBER, "1_0", WRONG),
        (NUMBER, math.inf, WRONG),
        (INTEGER, True, WRONG),
        (NUMBER, True, WRONG),
        (INTEGER, None, WRONG),
        (NUMBER, None, WRONG),
        (TEXT, None, WRONG),
        (BOOLEAN, None, WRONG),
        (TEXTS, None, WRONG),
        (OBJECT, None, WRONG),
        (BOOLEAN, "true", True),
        (BOOLEAN, "false", False),
        (BOOLEAN, "TRUE", True),
        (BOOLEAN, " False ", False),
        (BOOLEAN, "1", True),
        (BOOLEAN, "0", False),
        (BOOLEAN, 1, True),
        (BOOLEAN, 0, False),
        (BOOLEAN, "yes", WRONG),
        (BOOLEAN, 2, WRONG),
        (TEXT, 5, "5"),
        (TEXT, True, "true"),
        (TEXT, 4.5, "4.5"),
        (TEXT, Shade.DARK, "dark"),
        (INTEGER, Level.HIGH, 3),
        (OBJECT, MappingProxyType({"a": 1}), {"a": 1}),
        (TEXTS, '"\\"a\\""', ['"a"']),
        (OBJECT, '"5"', WRONG),
        (TEXT, {}, WRONG),
        (TEXT, [], WRONG),
        ({"type": "null"}, "", WRONG),
        ({"type": "null"}, 0, WRONG),
        ({"type": "null"}, None, None),
        ({"type": "array", "items": INTEGER}, "3", [3]),
        (TEXTS, "blue", ["blue"]),
        (TEXTS, '"blue"', ["blue"]),
        (TEXTS, '"blue', ['"blue']),
        (TEXTS, '"a" or "b"', ['"a" or "b"']),
        (LIST, 5, [5]),
        (TEXTS, {"a": 1}, WRONG),
        (TEXTS, [1, 2], ["1", "2"]),
        (TEXTS, '["a","b"]', ["a", "b"]),
        (TEXTS, '"[\\"a\\"]"', ["a"]),
        (TEXTS, "[abc]", ["[abc]"]),
        (TEXTS, "[NaN]", ["[NaN]"]),
        (TEXTS, ("a", "b"), ["a", "b"]),
        (OBJECT, '{"a":1}', {"a": 1}),
        (OBJECT, ' {"a": "line\nbreak"} ', {"a": "line\nbreak"}),
        (OBJECT, "not json", WRONG),
        (OBJECT, "[1]", WRONG),
        (OBJECT, [1], WRONG),
        ({"enum": ["a", "b"]}, "A", WRONG),
        ({"enum": ["a", "b"]}, "a", "a"),
        ({"enum": [1, 2]}, "1", 1),
        ({"enum": [1, 2]}, 1.0, 1),
        ({"enum": [1, 2]}, True, WRONG),
        ({"enum": [True, None]}, "null", None),
        ({"enum": ["1", "2"]}, 1, "1"),
        ({"enum": [{"a": 1}]}, {"a": 1}, {"a": 1}),
        ({"enum": [{"a": 1}]}, {"a": True}, WRONG),
        ({"enum": [[1, 2]]}, [1, 2], [1, 2]),
        ({"type": "integer", "enum": [1, 2]}, "2", 2),
        ({"const": "x"}, "y", WRONG),
        ({"anyOf": [INTEGER, {"type": "null"}]}, None, None),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "null", None),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "5", 5),
        ({"anyOf": [TEXT, INTEGER]}, 5, 5),
        ({"anyOf": [INTEGER, TEXT]}, "42", "42"),
        ({"type": ["string", "integer"]}, 5, 5),
        ({"type": ["integer", "string"]}, "42", 42),
        ({"type": ["integer", "boolean", "string"]}, "hello", "hello"),
        ({"type": ["null", "object"]}, "null", None),
        ({"type": ["integer", "boolean"]}, "x", WRONG),
        ({"type": "object", "nullable": True}, "null", None),
        ({"type": "array", "nullable": True}, "null", None),
        ({"type": "array", "nullable": True}, None, None),
        ({"type": "string", "nullable": True}, "null", "null"),
        ({"type": "string", "nullable": True}, None, None),
        ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, "5", 5),
        ({"oneOf": [{"minimum": 1}, {"maximum": 5}]}, 3, WRONG),
        ({"allOf": [{"minimum": 1}, {"maximum": 5}]}, 3, 3),
        ({"allOf": [TEXT, INTEGER]}, 5, WRONG),
        (True, {"any": ["thing"]}, {"any": ["thing"]}),
        ({}, None, None),
        (False, 1, WRONG),
        ({"minimum": 2}, "text", "text"),
        ({"minimum": 2}, 1, WRONG),
        ({"minLength": 2}, "a", WRONG),
        ({"items": INTEGER}, ["1"], [1]),
        ({"properties": {"a": INTEGER}}, {"a": "1"}, {"a": 1}),
        ({"properties": {"a": INTEGER}}, 7, 7),
        ({"type": "integer", "minimum": 2}, "1", WRONG),
        ({"type": "string", "pattern": "^a"}, "ba", WRONG),
        ({"type": "string", "pattern": r"^\p{L}"}, "1", "1"),
        ({"type": "string", "format": "date-time"}, "tomorrow", "tomorrow"),
        (
            {"type": "array", "prefixItems": [INTEGER, TEXT], "items": BOOLEAN},
            ["1", 2, "true"],
            [1, "2", True],
        ),
        ({"type": "object", "additionalProperties": INTEGER}, {"a": "1"}, {"a": 1}),
    ],
)
def test_a_value_is_coerced_only_where_it_is_beyond_doubt(schema: Any, value: Any, expected: Any) -> None:
    """The coercion table, TC-12 to TC-19, T142 to T148, A-11, C-23."""
    found = coerced(schema, value)

    assert found is WRONG if expected is WRONG else found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "schema", [TEXT, INTEGER, NUMBER, BOOLEAN, TEXTS, OBJECT, {"anyOf": [TEXT, INTEGER]}]
)
def test_null_for_an_optional_argument_means_not_given(schema: Any) -> None:
    """Case C-26, at any depth."""
    tool = make_tool({"n": schema, "deep": {"type": "object", "properties": {"n": schema}}})

    assert check_arguments(tool, {"n": None, "deep": {"n": None}}).arguments == {"deep": {}}


def test_all_arguments_of_a_call_are_coerced_at_once() -> None:
    """T142."""
    tool = make_tool({"flag": BOOLEAN, "count": INTEGER, "ratio": NUMBER, "config": OBJECT, "tags": LIST})
    raw = {"flag": "true", "count": "42", "ratio": "2.5", "config": '{"mode":"fast"}', "tags": "blue"}

    assert prepare_call_arguments(tool, raw) == {
        "flag": True,
        "count": 42,
        "ratio": 2.5,
        "config": {"mode": "fast"},
        "tags": ["blue"],
    }


@pytest.mark.parametrize("raw", ['{"n": "5"}', ' "{\\"n\\": 5}" ', {"n": 5}])
def test_the_whole_arguments_may_be_json_text(raw: Any) -> None:
    """TC-10."""
    assert prepare_call_arguments(make_tool({"n": INTEGER}, ["n"]), raw) == {"n": 5}


@pytest.mark.parametrize("raw", [None, "", "  ", {}])
def test_no_arguments_are_an_empty_object(raw: Any) -> None:
    """A-07, A-09: models send nothing for tools that need nothing."""
    assert prepare_call_arguments(make_tool({"n": INTEGER}), raw) == {}


def test_unknown_arguments_are_kept() -> None:
    """The coercion table: unless additionalProperties is false."""
    assert check_arguments(make_tool({}), {"more": [1]}).arguments == {"more": [1]}


def test_unknown_arguments_are_named_with_those_that_exist_when_the_schema_is_closed() -> None:
    """The coercion table, C-20."""
    tool = make_tool({"query": TEXT, "limit": INTEGER}, root={"additionalProperties": False})

    assert "  - qeury: unexpected (known: query, limit)" in refusal(tool, {"qeury": "oak"})
    assert "  - x: unexpected (there are none)" in refusal(
        make_tool({}, root={"additionalProperties": False}), {"x": 1}
    )


def test_defaults_are_filled_in_at_the_top_as_copies() -> None:
    """Case C-25; two calls do not share a default."""
    tool = make_tool(
        {"max": {"type": "integer", "default": 5}, "tags": {"type": "array", "default": []}}, ["max"]
    )

    first, second = (prepare_call_arguments(tool, {}) for _ in range(2))
    first["tags"].append("x")

    assert second == {"max": 5, "tags": []}


def test_a_null_is_replaced_by_the_default() -> None:
    """Cases C-25 and C-26 together."""
    assert prepare_call_arguments(make_tool({"max": {"type": "integer", "default": 5}}), {"max": None}) == {
        "max": 5
    }


def test_missing_arguments_alone_have_the_text_of_the_design() -> None:
    """Architecture, section 5: word for word."""
    assert refusal(make_tool({"a": TEXT, "b": TEXT}, ["a", "b"]), {}) == "Missing required arguments: a, b"


def test_what_is_missing_further_inside_is_shown_with_its_path() -> None:
    """The design's text is about arguments, not about what is in them."""
    tool = make_tool({"edit": {"type": "object", "required": ["old"]}})

    assert "  - edit.old: missing" in refusal(tool, {"edit": {}})


def test_every_error_is_listed_with_its_path_and_the_arguments() -> None:
    """Fact 33, T143."""
    edits = {"type": "array", "items": {"type": "object", "properties": {"old": TEXT}, "required": ["old"]}}
    tool = make_tool({"count": INTEGER, "config": OBJECT, "edits": edits, "name": TEXT}, ["name"])
    raw = {"count": "forty-two", "config": "not json", "edits": [{"old": "a"}, {}]}

    assert refusal(tool, raw) == (
        'Validation failed for tool "probe":\n'
        "  - count: expected integer, got string\n"
        "  - config: expected object, got string\n"
        "  - edits.1.old: missing\n"
        "  - name: missing\n"
        "\n"
        "Received arguments:\n" + json.dumps(raw, indent=2)
    )


def test_a_wrong_root_is_called_root() -> None:
    """Fact 33."""
    assert "  - root: expected object, got array" in refusal(make_tool({}), [1])


def test_at_most_five_errors_are_shown() -> None:
    """Case C-51."""
    tool = make_tool({f"p{number}": INTEGER for number in range(8)})

    text = refusal(tool, {f"p{number}": "x" for number in range(8)})

    assert text.count("expected integer") == 5
    assert "\n  - ... and 3 more\n" in text


def test_a_megabyte_in_the_arguments_is_not_repeated() -> None:
    """Case C-51."""
    tool = make_tool({"content": TEXT, "path": {"enum": ["a" * 1_000_000, "b"]}}, ["path"])

    assert len(refusal(tool, {"content": "x" * 1_000_000})) < 100
    text = refusal(tool, {"content": "x" * 1_000_000, "path": "y" * 1_000_000})
    assert len(text) < 2000
    assert "characters in all" in text


def test_lone_surrogates_do_not_reach_the_text() -> None:
    """Case C-27."""
    refusal(make_tool({"n": INTEGER}), {"n": "\udc97"}).encode()


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (INTEGER, "x", "n: expected integer, got string"),
        (TEXT, None, "n: expected string, got null"),
        ({"enum": ["a", 1]}, "c", 'n: expected one of "a", 1, got "c"'),
        ({"const": 1}, 2, "n: expected 1, got 2"),
        ({"enum": list(range(30))}, 99, f"n: expected one of {', '.join(map(str, range(20)))}, ..., got 99"),
        ({"type": ["integer", "boolean"]}, [], "n: expected integer or boolean, got array"),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "x", "n: expected integer, got string"),
        ({"anyOf": [{"minimum": 5}, {"maximum": 1}]}, 3, "n: matches none of the allowed forms, got 3"),
        ({"type": "integer", "minimum": 1}, 0, "n: must be >= 1, got 0"),
        ({"type": "number", "exclusiveMaximum": 1}, 1, "n: must be < 1, got 1"),
        ({"type": "string", "maxLength": 2}, "abc", "n: must have at most 2 characters"),
        ({"type": "array", "minItems": 1}, [], "n: must have at least 1 items"),
        ({"type": "string", "pattern": "^a$"}, "b", 'n: must match the pattern "^a$"'),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 0}]},
            3,
            "n: matches more than one of the allowed forms",
        ),
        (NUMBER, math.nan, "n: expected a finite number, got nan"),
        (INTEGER, b"x", "n: expected integer, got bytes"),
        ({"enum": ["a"]}, {"k": 1}, 'n: expected "a", got {"k": 1}'),
        ({"enum": ["a"]}, list(range(9)), 'n: expected "a", got array of 9'),
        ({"enum": ["a"]}, "y" * 100, f'n: expected "a", got "{"y" * 80}..."'),
    ],
)
def test_messages_say_what_was_expected_and_what_came(schema: Any, value: Any, text: str) -> None:
    """Fact 33, newer wording."""
    assert message(schema, value) == text


def test_the_branch_that_was_meant_is_the_one_that_is_explained() -> None:
    """Of two object branches the one that is wrong only inside says more than 'none fits'."""
    circle = {"type": "object", "properties": {"radius": NUMBER}, "required": ["radius"]}
    schema = {"anyOf": [TEXT, circle, {"type": "null"}]}

    assert message(schema, {"radius": "wide"}) == "n.radius: expected number, got string"


def test_a_branch_behind_a_reference_is_named_by_its_type() -> None:
    """$ref in anyOf, as pydantic writes it."""
    tool = make_tool(
        {"n": {"anyOf": [{"$ref": "#/$defs/Pair"}, BOOLEAN]}}, root={"$defs": {"Pair": {"type": "array"}}}
    )

    assert message({"anyOf": [LIST, BOOLEAN]}, "x", required=False) == ""
    assert [str(error) for error in check_arguments(tool, {"n": None}).errors] == []


def test_recursive_schemas_are_followed() -> None:
    """A local $ref that contains itself, and one to the root."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": INTEGER}}
    tool = make_tool(
        {"list": {"$ref": "#/$defs/node"}, "again": {"$ref": "#"}}, root={"$defs": {"node": node}}
    )

    raw = {"list": {"n": "1", "next": {"n": "2"}}, "again": {"list": {"n": "3"}}}

    assert check_arguments(tool, raw).arguments == {
        "list": {"n": 1, "next": {"n": 2}},
        "again": {"list": {"n": 3}},
    }


def test_references_go_into_lists_and_escaped_names() -> None:
    """JSON Pointer: an index is a step, ~1 is a slash, and a URI may have it percent-encoded."""
    pair = {"prefixItems": [INTEGER, TEXT]}
    tool = make_tool(
        {
            "first": {"$ref": "#/$defs/a~1b/prefixItems/0"},
            "named": {"$ref": "#/$defs/Pair%5Bint%5D"},
            "literal": {"$ref": "#/$defs/100%25"},
        },
        root={"$defs": {"a/b": pair, "Pair[int]": INTEGER, "100%25": INTEGER}},
    )

    raw = {"first": "5", "named": "6", "literal": "7"}

    assert prepare_call_arguments(tool, raw) == {"first": 5, "named": 6, "literal": 7}


def test_references_that_only_refer_to_each_other_end_in_an_error() -> None:
    """Nothing hangs and nothing escapes: a loop of references."""
    loop = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    tool = make_tool({"n": {"$ref": "#/$defs/a"}}, root={"$defs": loop})

    assert "root: nested too deeply" in refusal(tool, {"n": 1})


def test_arguments_nested_beyond_the_stack_are_an_error() -> None:
    """A model in a loop sends ten thousand brackets."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    assert "nested too deeply" in refusal(make_tool({}), {"n": deep})


def test_the_plan_is_made_once() -> None:
    """Validators are compiled once per tool."""
    tool = make_tool({"n": INTEGER})
    check_arguments(tool, {})
    plan = tool._cache["plan"]

    check_arguments(tool, {"n": 1})

    assert tool._cache["plan"] is plan


def test_prepare_arguments_comes_first_and_cannot_touch_the_transcript() -> None:
    """Fact 32, decision 11."""

    def rename(args: Mapping[str, Any]) -> Mapping[str, Any]:
        args["tags"].append("more")
        return {"labels": args["tags"]}

    raw = {"tags": ["a"]}
    before = copy.deepcopy(raw)

    assert prepare_call_arguments(make_tool({"labels": TEXTS}, prepare_arguments=rename), raw) == {
        "labels": ["a", "more"]
    }
    assert raw == before


def test_prepare_arguments_may_change_its_copy_and_return_nothing() -> None:
    """Fact 32: the same object means unchanged."""

    def drop(args: Any) -> None:
        del args["x"]

    assert prepare_call_arguments(make_tool({}, prepare_arguments=drop), {"x": 1, "y": 2}) == {"y": 2}


def test_what_prepare_arguments_raises_or_returns_wrongly_is_for_the_model() -> None:
    """Fact 37."""

    def fail(args: Any) -> Any:
        raise ValueError("no such cellar")

    def fail_silently(args: Any) -> Any:
        raise KeyError

    assert refusal(make_tool({}, prepare_arguments=fail), {}) == "no such cellar"
    assert refusal(make_tool({}, prepare_arguments=fail_silently), {}) == "KeyError"
    assert "must return an object, got int" in refusal(make_tool({}, prepare_arguments=lambda args: 5), {})


def test_validate_arguments_replaces_the_required_check() -> None:
    """Runbook 3.2: its text is the error, word for word."""

    def at_least_three(args: Mapping[str, Any]) -> str | None:
        return "Query must be at least 3 characters" if len(args.get("query", "")) < 3 else None

    tool = make_tool({"query": TEXT, "n": INTEGER}, ["query"], validate_arguments=at_least_three)

    assert refusal(tool, {}) == "Query must be at least 3 characters"
    assert prepare_call_arguments(tool, {"query": "oak"}) == {"query": "oak"}
    assert "n: expected integer" in refusal(tool, {"query": "oak", "n": "x"})


def test_validate_arguments_sees_coerced_arguments() -> None:
    """Decision 11: coerce and validate, then ask."""
    seen: list[Any] = []
    tool = make_tool({"n": INTEGER}, validate_arguments=seen.append)

    prepare_call_arguments(tool, {"n": "5"})

    assert seen == [{"n": 5}]


def test_validate_arguments_may_refuse_with_false_or_an_exception() -> None:
    """Whatever it does ends in a text for the model."""

    def fail(args: Any) -> str | None:
        raise ValueError("broken check")

    def refuse(args: Any) -> Any:
        return False

    assert refusal(make_tool({}, validate_arguments=fail), {}) == "broken check"
    assert refusal(make_tool({}, validate_arguments=refuse), {}) == 'Invalid arguments for tool "probe"'


def test_the_text_of_arguments_that_did_not_parse_is_cut() -> None:
    """Fact 34, case C-51."""
    text = malformed_arguments_text("probe", "Expecting ',' at 5", '{"a" 1' + "x" * 2000)

    assert text.startswith(
        'Invalid arguments for tool "probe": Expecting \',\' at 5\n\nReceived arguments:\n{"a" 1x'
    )
    assert len(text) < 1200


def test_arguments_that_have_no_json_text_are_still_reported() -> None:
    """The error text never raises."""
    cycle: list[Any] = []
    cycle.append(cycle)
    errors = check_arguments(make_tool({"n": INTEGER}), {"n": "x"}).errors

    assert "(list that cannot be shown)" in argument_error_text(make_tool({}), cycle, errors)
    assert argument_error_text(make_tool({}), "[1", errors).endswith("Received arguments:\n[1")


def test_invalid_arguments_survive_pickling() -> None:
    """As all exceptions here do."""
    import pickle

    error = InvalidArguments("text", check_arguments(make_tool({"n": INTEGER}), {"n": "x"}).errors)

    again = pickle.loads(pickle.dumps(error))

    assert (again.text, again.errors, str(again)) == ("text", error.errors, "text")
