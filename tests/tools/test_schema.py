"""Schemas from annotations, and values on their way back."""

# ruff: noqa: UP007, UP045  (people write both spellings)

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import json
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    Union,
)

import jsonschema
import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.tools.arguments import InvalidArguments, prepare_call_arguments
from yiemagent.tools.decorator import tool
from yiemagent.tools.tool import Tool

TEXT, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}


class Colour(enum.Enum):
    RED = "red"
    WHITE = "white"


class Odd(enum.Enum):
    PAIR = (1, 2)
    OTHER = "x"


class Sku(str):
    __slots__ = ()


class Vintage(int):
    pass


@dataclasses.dataclass
class Price:
    """What a bottle costs.

    Attributes:
        amount: In euros.
    """

    amount: decimal.Decimal
    currency: str = "EUR"
    _hidden: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Bare:
    colours: list[Colour] = dataclasses.field(default_factory=list)


class Filter(TypedDict, total=False):
    """A filter."""

    region: Required[str]
    since: datetime.date
    colour: Annotated[NotRequired[Colour], "Of the wine."]


class Plain(TypedDict):
    a: int
    b: NotRequired[str]


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass
class Node:
    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Left:
    right: Optional[Right] = None


@dataclasses.dataclass
class Right:
    left: Left


class Model:
    """Like a pydantic model, by its two methods."""

    def __init__(self, a: int) -> None:
        self.a = a

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "required": ["a"],
            "$defs": {"A": {"type": "integer"}},
        }

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        if value["a"] < 0:
            raise ValueError("a must not be negative")
        return cls(value["a"])


@dataclasses.dataclass
class Ge:
    """As annotated-types writes a bound."""

    ge: int


class FieldInfo:
    """As pydantic writes a field."""

    def __init__(self, description: str, *metadata: Any) -> None:
        self.description = description
        self.metadata = metadata


class MinLen:
    min_length = 1


UserId = NewType("UserId", int)
T = typing.TypeVar("T")
B = typing.TypeVar("B", bound=int)


class Alias:
    """As a ``type`` statement of Python 3.12 makes it."""

    __value__ = list[int]


ALIAS: Any = Alias()


def of(annotation: Any) -> Tool:
    """A tool with one required parameter of this annotation, whose execute gives it back."""

    def probe(x: Any) -> Any:
        return x

    probe.__annotations__["x"] = annotation
    return tool(probe)


def call(probe: Tool, raw: Any) -> Any:
    """What the function gets for *raw*."""
    return probe.execute("id", prepare_call_arguments(probe, raw), None, None)  # type: ignore[arg-type]


LINES: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (str, TEXT, "a", "a"),
    (int, INTEGER, "5", 5),
    (float, {"type": "number"}, 3, 3.0),
    (bool, {"type": "boolean"}, "true", True),
    (None, NULL, None, None),
    (Any, {}, {"a": 1}, {"a": 1}),
    (object, {}, 1, 1),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "a", "a"),
    (Literal[1, "a", None], {"enum": [1, "a", None]}, "1", 1),
    (Literal[Colour.RED], {"type": "string", "enum": ["red"]}, "red", Colour.RED),
    (Optional[int], {"anyOf": [INTEGER, NULL]}, None, None),
    (Union[int, str], {"anyOf": [INTEGER, TEXT]}, "5", "5"),
    (int | None, {"anyOf": [INTEGER, NULL]}, "5", 5),
    (list, {"type": "array"}, [1], [1]),
    (typing.List, {"type": "array"}, [1], [1]),  # noqa: UP006
    (list[int], {"type": "array", "items": INTEGER}, ["1"], [1]),
    (Sequence[str], {"type": "array", "items": TEXT}, "a", ["a"]),
    (collections.abc.Iterable, {"type": "array"}, [1], [1]),
    (list[Any], {"type": "array"}, [1], [1]),
    (set[int], {"type": "array", "items": INTEGER}, [1, 1], {1}),
    (
        frozenset[Colour],
        {"type": "array", "items": {"type": "string", "enum": ["red", "white"]}},
        ["red"],
        frozenset({Colour.RED}),
    ),
    (tuple, {"type": "array"}, [1], (1,)),
    (tuple[int, ...], {"type": "array", "items": INTEGER}, [1, 2], (1, 2)),
    (
        tuple[int, Colour],
        {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "prefixItems": [INTEGER, {"type": "string", "enum": ["red", "white"]}],
        },
        [1, "red"],
        (1, Colour.RED),
    ),
    (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
    (dict[str, Any], {"type": "object"}, {"a": 1}, {"a": 1}),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}, {"a": "1"}, {"a": 1}),
    (Mapping[int, float], {"type": "object", "additionalProperties": {"type": "number"}}, {"1": 2}, {1: 2.0}),
    (dict[Colour, int], {"type": "object", "additionalProperties": INTEGER}, {"red": 1}, {Colour.RED: 1}),
    (Colour, {"type": "string", "enum": ["red", "white"]}, "red", Colour.RED),
    (Odd, {"type": "string", "enum": ["PAIR", "OTHER"]}, "PAIR", Odd.PAIR),
    (
        list[Colour],
        {"type": "array", "items": {"type": "string", "enum": ["red", "white"]}},
        ["red"],
        [Colour.RED],
    ),
    (
        datetime.datetime,
        {"type": "string", "format": "date-time"},
        "2026-05-01T12:00:00Z",
        datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC),
    ),
    (datetime.date, {"type": "string", "format": "date"}, "2026-05-01", datetime.date(2026, 5, 1)),
    (datetime.time, {"type": "string", "format": "time"}, "12:30", datetime.time(12, 30)),
    (datetime.timedelta, {"type": "number", "description": "Seconds."}, 1.5, datetime.timedelta(seconds=1.5)),
    (decimal.Decimal, {"type": "number"}, 1.5, decimal.Decimal("1.5")),
    (
        uuid.UUID,
        {"type": "string", "format": "uuid"},
        "12345678123456781234567812345678",
        uuid.UUID(int=0x12345678123456781234567812345678),
    ),
    (Path, TEXT, "/a", Path("/a")),
    (PurePath, TEXT, "/a", PurePath("/a")),
    (Sku, TEXT, "a1", Sku("a1")),
    (Vintage, INTEGER, 2020, Vintage(2020)),
    (UserId, INTEGER, 5, 5),
    (T, {}, 5, 5),
    (B, INTEGER, 5, 5),
    (ALIAS, {"type": "array", "items": INTEGER}, [1], [1]),
    (Annotated[str, "What to look for."], {"type": "string", "description": "What to look for."}, "a", "a"),
    (Annotated[int, {"minimum": 1}, Ge(2)], {"type": "integer", "minimum": 2}, 2, 2),
    (
        Annotated[str, FieldInfo("Text.", MinLen())],
        {"type": "string", "description": "Text.", "minLength": 1},
        "a",
        "a",
    ),
    (Annotated[list[int], MinLen()], {"type": "array", "items": INTEGER, "minItems": 1}, [1], [1]),
    (
        Annotated[Colour, "Hue."],
        {"type": "string", "enum": ["red", "white"], "description": "Hue."},
        "red",
        Colour.RED,
    ),
    (Optional[Colour], {"anyOf": [{"type": "string", "enum": ["red", "white"]}, NULL]}, "red", Colour.RED),
    (Optional[Colour], {"anyOf": [{"type": "string", "enum": ["red", "white"]}, NULL]}, None, None),
    (
        Union[datetime.date, str],
        {"anyOf": [{"type": "string", "format": "date"}, TEXT]},
        "2026-05-01",
        datetime.date(2026, 5, 1),
    ),
    (
        Union[datetime.date, str],
        {"anyOf": [{"type": "string", "format": "date"}, TEXT]},
        "some day",
        "some day",
    ),
    (
        Price,
        {
            "type": "object",
            "description": "What a bottle costs.",
            "properties": {
                "amount": {"type": "number", "description": "In euros."},
                "currency": {"type": "string"},
            },
            "required": ["amount"],
            "additionalProperties": False,
        },
        {"amount": "2.5"},
        Price(decimal.Decimal("2.5")),
    ),
    (
        Bare,
        {
            "type": "object",
            "properties": {
                "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "white"]}}
            },
            "additionalProperties": False,
        },
        '{"colours": "red"}',
        Bare([Colour.RED]),
    ),
    (
        Filter,
        {
            "type": "object",
            "description": "A filter.",
            "properties": {
                "region": TEXT,
                "since": {"type": "string", "format": "date"},
                "colour": {"type": "string", "enum": ["red", "white"], "description": "Of the wine."},
            },
            "required": ["region"],
        },
        {"region": "x", "since": "2026-05-01"},
        {"region": "x", "since": datetime.date(2026, 5, 1)},
    ),
    (
        Plain,
        {"type": "object", "properties": {"a": INTEGER, "b": TEXT}, "required": ["a"]},
        {"a": "1", "more": 2},
        {"a": 1, "more": 2},
    ),
    (
        Point,
        {
            "type": "object",
            "properties": {"x": INTEGER, "y": INTEGER},
            "required": ["x"],
            "additionalProperties": False,
        },
        {"x": 1},
        Point(1),
    ),
]


@pytest.mark.parametrize(("annotation", "schema", "raw", "value"), LINES)
def test_a_type_has_a_schema_and_its_values_come_back_as_that_type(
    annotation: Any, schema: Any, raw: Any, value: Any
) -> None:
    """Issue 2, part 2."""
    probe = of(annotation)

    assert probe.input_schema == {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    jsonschema.Draft202012Validator.check_schema(probe.input_schema)
    found = call(probe, {"x": raw})
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Price, Price(decimal.Decimal(1))),
        (Colour, Colour.RED),
        (datetime.date, datetime.date(2026, 5, 1)),
        (Model, Model(1)),
    ],
)
def test_values_that_a_hook_has_made_already_pass_through(annotation: Any, value: Any) -> None:
    """Decision 11: the before hook may edit the validated copy, and nothing is validated again."""
    assert of(annotation).execute("id", {"x": value}, None, None) is value  # type: ignore[arg-type]


def test_a_type_that_contains_itself_is_a_definition() -> None:
    """Recursive dataclasses."""
    probe = of(Node)

    assert probe.input_schema["properties"] == {"x": {"$ref": "#/$defs/Node"}}
    assert probe.input_schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert call(probe, {"x": {"value": "1", "children": [{"value": 2}]}}) == Node(1, [Node(2)])


def test_types_that_contain_each_other_are_definitions_where_needed() -> None:
    """Mutual recursion, used twice in one signature."""

    @tool
    def probe(a: Left, b: Right, c: Left | None = None) -> Any:
        return a, b

    assert call(probe, {"a": {"right": {"left": {}}}, "b": {"left": {}}}) == (
        Left(Right(Left())),
        Right(Left()),
    )
    jsonschema.Draft202012Validator(probe.input_schema).validate({"a": {}, "b": {"left": {"right": None}}})


def test_two_recursive_classes_of_one_name_get_two_definitions() -> None:
    """Names of definitions are unique."""

    def make() -> Any:
        @dataclasses.dataclass
        class Tree:
            inner: Any = None

        Tree.__annotations__["inner"] = Optional[Tree]
        return dataclasses.dataclass(Tree)

    def probe(a: Any, b: Any) -> Any:
        return a, b

    first, second = make(), make()
    probe.__annotations__.update(a=first, b=second)
    made = tool(probe)

    assert set(made.input_schema["$defs"]) == {"Tree", "Tree2"}
    assert call(made, {"a": {"inner": {}}, "b": {}}) == (first(first()), second())


def test_a_pydantic_model_makes_its_own_schema_and_value() -> None:
    """Without importing pydantic; its definitions move to the root."""
    probe = of(Model)

    assert probe.input_schema["$defs"] == {"A": INTEGER}
    assert probe.input_schema["properties"]["x"]["properties"] == {"a": {"$ref": "#/$defs/A"}}
    assert call(probe, {"x": {"a": "5"}}).a == 5


def test_what_a_type_refuses_is_an_argument_error() -> None:
    """A model's own validation, and a constructor that raises."""
    with pytest.raises(InvalidArguments, match="a must not be negative"):
        call(of(Model), {"x": {"a": -1}})


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (datetime.date, "tomorrow", 'x: expected date, got "tomorrow"'),
        (datetime.datetime, "soon", 'x: expected date-time, got "soon"'),
        (uuid.UUID, "1", 'x: expected uuid, got "1"'),
        (Price, {"amount": 1, "vat": 2}, "x.vat: unexpected (known: amount, currency)"),
        (tuple[int, int], [1], "x: must have at least 2 items"),
        (Colour, "blue", 'x: expected one of "red", "white", got "blue"'),
        (dict[int, str], {"a": "b"}, "ValueError: invalid literal"),
    ],
)
def test_what_would_not_convert_is_an_error_for_the_model(annotation: Any, value: Any, words: str) -> None:
    """Fact 33."""
    with pytest.raises(InvalidArguments) as caught:
        call(of(annotation), {"x": value})
    assert words in caught.value.text


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Callable[[int], int], "Callable"),
        (bytes, "bytes"),
        (tuple[bytes, ...], "bytes"),
        (dict[float, str], "a mapping with keys of type"),
        (Literal[b"x"], r"Literal\[b'x'\]"),
        (type, "type"),
        (json.JSONEncoder, "JSONEncoder"),
    ],
)
def test_a_type_that_json_cannot_express_is_refused_with_the_way_out(annotation: Any, words: str) -> None:
    """At registration, naming the parameter."""
    with pytest.raises(
        ConfigurationError, match=r"parameter 'x' of tool function .*JSON cannot express"
    ) as caught:
        of(annotation)
    assert words.replace("\\", "") in str(caught.value)
    assert "functools.partial" in str(caught.value)
