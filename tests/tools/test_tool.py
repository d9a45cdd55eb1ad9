"""What is refused when a tool is made, and what a made tool is."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.tools.decorator import tool
from yiemagent.tools.tool import Tool, ToolContext, ToolResult, current_event_sink


def run(tool_call_id: str, args: dict[str, Any], signal: Any, on_update: Any) -> str:
    return "ok"


async def run_async(tool_call_id: str, args: Any, signal: Any, on_update: Any) -> str:
    return "ok"


def run_lazily(tool_call_id: str, args: Any, signal: Any, on_update: Any) -> Iterator[str]:
    yield "ok"


async def run_lazily_async(tool_call_id: str, args: Any, signal: Any, on_update: Any) -> Any:
    yield "ok"


class AsyncCallable:
    async def __call__(self, *args: Any) -> None: ...


@functools.wraps(run_async)
def wrapped(*args: Any) -> Any:
    return run_async(*args)


@pytest.mark.parametrize(
    "name", ["", "a" * 65, "calendar.find", "Create CIFS Share", "wein_süß", "a\n", " a", None, 5]
)
def test_names_that_providers_refuse_are_refused(name: Any) -> None:
    """Case C-15: one bad name makes every request fail."""
    with pytest.raises(ConfigurationError, match="1 to 64 ASCII letters"):
        Tool(name=name, execute=run)


@pytest.mark.parametrize("name", ["a", "A-9_z", "a" * 64])
def test_names_that_providers_take_are_taken(name: str) -> None:
    """Case C-15."""
    assert Tool(name=name, execute=run).name == name


@pytest.mark.parametrize(
    ("execute", "words"),
    [
        (run_async, "coroutine function"),
        (run_lazily, "generator function"),
        (run_lazily_async, "generator function"),
        (AsyncCallable(), "coroutine function"),
        (functools.partial(run_async), "coroutine function"),
        (wrapped, "coroutine function"),
        ("run", "must be callable"),
        (lambda query: query, "for a plain function with its own arguments use @tool"),
        (lambda a, b, c, d, e: a, "use @tool"),
    ],
)
def test_an_execute_that_cannot_be_called_like_one_is_refused_in_words(execute: Any, words: str) -> None:
    """Cases D-26 and D-27."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        Tool(name="probe", execute=execute)
    assert "'probe'" in str(caught.value)


@pytest.mark.parametrize(
    "execute", [run, lambda *args: 1, lambda a, b, c, d, e=1: 1, functools.partial(run), print]
)
def test_an_execute_that_takes_four_arguments_is_taken(execute: Any) -> None:
    """The contract of ``Execute``."""
    assert Tool(name="probe", execute=execute).execute is execute


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "above 0"),
        ({"timeout": -1}, "above 0"),
        ({"timeout": "5"}, "above 0"),
        ({"timeout": True}, "above 0"),
        ({"execution_mode": "serial"}, "'parallel', 'sequential' or None"),
        ({"isolation": "container"}, "'thread' or 'process'"),
        ({"prepare_arguments": 1}, "prepare_arguments of tool 'probe' must be callable"),
        ({"validate_arguments": "x"}, "validate_arguments of tool 'probe' must be callable"),
        ({"description": 5}, "must be a str"),
        ({"label": 5}, "label of tool 'probe' must be a str or None, got 5"),
        ({"annotations": ["readOnlyHint"]}, "annotations of tool 'probe' must be a mapping, got"),
        (
            {"output_schema": "object"},
            "output_schema of tool 'probe' must be a mapping or None, got",
        ),
        ({"input_schema": "object"}, "must be a JSON schema object, got str"),
        ({"input_schema": {"type": "string"}}, "must have an object at its root, got type 'string'"),
        ({"input_schema": {"type": ["array", "null"]}}, "must have an object at its root"),
        ({"input_schema": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}}, "object at its root"),
    ],
)
def test_wrong_fields_are_refused_by_name_with_the_way_out(options: dict[str, Any], words: str) -> None:
    """Issue 2: refused at registration, not at the first request."""
    with pytest.raises(ConfigurationError, match=words):
        Tool(name="probe", execute=run, **options)


@pytest.mark.parametrize(
    ("schema", "wire"),
    [
        (None, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["x"]}}},
            {
                "type": "object",
                "required": ["x"],
                "properties": {},
                "$defs": {"a": {"type": "object", "required": ["x"], "properties": {}}},
            },
        ),
        (
            {"$ref": "other.json#/a"},
            {"$ref": "other.json#/a", "type": "object", "properties": {}},
        ),
    ],
)
def test_the_root_is_repaired_for_the_wire(schema: Any, wire: Any) -> None:
    """Case C-17: providers want an object with properties at the root."""
    assert Tool(name="probe", execute=run, input_schema=schema).wire_schema == wire


def test_every_object_level_gets_properties_for_the_wire_and_nothing_else() -> None:
    """Cases C-17, C-19, C-20: values under enum, default and names are no schemas."""
    bare = {"type": "object"}
    schema = {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["object"]},
            "properties": bare,
            "list": {"type": "array", "items": bare, "prefixItems": [bare], "default": [{"type": "object"}]},
            "pair": {"type": "array", "items": [bare, True]},
            "one": {"anyOf": [bare, {"type": ["object", "null"]}, True]},
            "map": {"type": "object", "additionalProperties": bare},
            "ref": {"$ref": "#/$defs/x"},
        },
        "$defs": {"x": bare},
        "required": ["one"],
    }
    before = copy.deepcopy(schema)
    full = {"type": "object", "properties": {}}

    wire = Tool(name="probe", execute=run, input_schema=schema).wire_schema

    assert schema == before
    assert wire["properties"] == {
        "type": {"type": "string", "enum": ["object"]},
        "properties": full,
        "list": {"type": "array", "items": full, "prefixItems": [full], "default": [{"type": "object"}]},
        "pair": {"type": "array", "items": [full, True]},
        "one": {"anyOf": [full, {"type": ["object", "null"], "properties": {}}, True]},
        "map": {"type": "object", "additionalProperties": full, "properties": {}},
        "ref": {"$ref": "#/$defs/x"},
    }
    assert wire["$defs"] == {"x": full}
    assert wire["required"] == ["one"]


def test_the_wire_schema_is_made_once_and_the_given_one_stays() -> None:
    """Case C-17: validation is against the original."""
    schema = {"type": "object"}
    made = Tool(name="probe", execute=run, input_schema=schema)

    assert made.wire_schema is made.wire_schema
    assert made.input_schema is schema


def test_a_tool_without_schema_and_description_has_empty_ones() -> None:
    """MCP servers leave them out."""
    made = Tool(name="probe", execute=run, description=None)  # type: ignore[arg-type]

    assert made.description == ""
    assert made.input_schema == {"type": "object", "properties": {}}


def test_a_tool_cannot_be_changed_but_replaced() -> None:
    """Data is frozen."""
    made = Tool(
        name="probe", execute=run, description="old", input_schema={"type": "object", "required": ["a"]}
    )

    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.description = "other"  # type: ignore[misc]
    other = dataclasses.replace(made, name="other", timeout=5)

    assert (other.name, other.timeout, other.description) == ("other", 5, "old")
    assert other.input_schema == {"type": "object", "required": ["a"]}


def test_replacing_a_field_is_checked_like_making_a_tool() -> None:
    """Nothing goes round the checks."""
    with pytest.raises(ConfigurationError, match="providers take"):
        dataclasses.replace(Tool(name="probe", execute=run), name="no good")


def test_tools_are_compared_by_identity_and_can_be_keys() -> None:
    """Two tools with equal fields are still two tools."""
    one, other = Tool(name="probe", execute=run), Tool(name="probe", execute=run)

    assert one != other
    assert len({one, other, one}) == 2


def test_a_tool_survives_pickling_and_copying() -> None:
    """What was compiled is left behind and made again."""
    made = Tool(
        name="probe", execute=run, input_schema={"type": "object", "properties": {"a": {"type": "string"}}}
    )

    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert again.name == "probe"
        assert again.wire_schema == made.wire_schema


def test_a_tool_without_function_is_not_called_like_one() -> None:
    """The message names what to call."""
    with pytest.raises(TypeError, match="no plain function behind it; call its execute"):
        Tool(name="probe", execute=run)()


def test_a_tool_as_a_class_attribute_stays_itself() -> None:
    """Only decorated methods bind."""

    class Box:
        probe = Tool(name="probe", execute=run)

    assert Box().probe is Box.probe


def test_a_result_may_be_made_of_a_text_or_blocks() -> None:
    """``ToolResult`` accepts what the designs pass."""
    assert ToolResult("a").text == "a"
    assert ToolResult(None).content == ()  # type: ignore[arg-type]


def test_a_tool_context_reports_progress_and_logs() -> None:
    """Outside a run nobody listens."""
    seen: list[Any] = []
    context = ToolContext(
        tool_call_id="1",
        tool_name="probe",
        signal=None,
        on_update=seen.append,
        event_sink=current_event_sink.get(),  # type: ignore[arg-type]
    )

    context.update("half")
    context.event_sink("text", publish=True)

    assert seen == ["half"]


def test_an_explicit_schema_beats_the_one_of_the_function() -> None:
    """``dataclasses.replace`` on a decorated function's tool."""

    @tool
    def probe(a: int) -> int:
        """Add."""
        return a

    other = dataclasses.replace(probe, input_schema={"type": "object", "required": ["b"]})

    assert other.input_schema == {"type": "object", "required": ["b"]}
    assert other.description == "Add."
