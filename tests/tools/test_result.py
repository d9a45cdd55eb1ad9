"""What a tool may return, and what the model reads of it."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import io
import math
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict

import pytest

from yiemagent.messages import ImageContent, TextContent
from yiemagent.tools.result import as_tool_result, error_result
from yiemagent.tools.tool import ToolResult


class Colour(enum.Enum):
    RED = "red"
    WHITE = ("white", 2)


class Shade(enum.StrEnum):
    DARK = "dark"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Wine:
    name: str
    colour: Colour
    tags: set[str]


class Row(TypedDict):
    id: int


class Model:
    def model_dump(self, *, mode: str) -> dict[str, Any]:
        return {"mode": mode}


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (None, "(no output)"),
        ("", "(no output)"),
        (" \n", "(no output)"),
        ([], "(no output)"),
        ({}, "{}"),
        ((), "[]"),
        (5, "5"),
        (2.5, "2.5"),
        (True, "true"),
        (0, "0"),
        ({"name": "Châteauneuf", "n": 1}, '{"name": "Châteauneuf", "n": 1}'),
        ([1, "a", None], '[1, "a", null]'),
        (Wine("Rioja", Colour.RED, {"b", "a"}), '{"name": "Rioja", "colour": "red", "tags": ["a", "b"]}'),
        (Row(id=1), '{"id": 1}'),
        (Colour.RED, '"red"'),
        (Colour.WHITE, '["white", 2]'),
        (Shade.DARK, '"dark"'),
        (Level.HIGH, "3"),
        (datetime.datetime(2026, 5, 1, 12), '"2026-05-01T12:00:00"'),
        (datetime.date(2026, 5, 1), '"2026-05-01"'),
        (decimal.Decimal("12.50"), '"12.50"'),
        ({3, 1, 2}, "[1, 2, 3]"),
        (frozenset({"a"}), '["a"]'),
        (b"caf\xc3\xa9", "café"),
        (bytearray(b"x"), "x"),
        (b"\xff\x00", "/wA="),
        ({"when": datetime.date(2026, 5, 1), "raw": b"\xff"}, '{"when": "2026-05-01", "raw": "/w=="}'),
        ({"n": math.nan, "i": -math.inf}, '{"n": "nan", "i": "-inf"}'),
        (
            {(1, 2): Colour.RED, Colour.RED: 1, 7: 2, None: 3},
            '{"(1, 2)": "red", "red": 1, "7": 2, "null": 3}',
        ),
        ({(1,): [Wine("x", Colour.RED, set())]}, '{"(1,)": [{"name": "x", "colour": "red", "tags": []}]}'),
        (MappingProxyType({"a": 1}), '{"a": 1}'),
        (collections.deque([1, 2]), "[1, 2]"),
        ({"a": 1}.keys(), '["a"]'),
        (range(3), "[0, 1, 2]"),
        (Path("/cellar"), '"/cellar"'),
        (Model(), '{"mode": "json"}'),
        ("a\udc97b", "a�b"),
        ({"file": "a\udc97b"}, '{"file": "a�b"}'),
    ],
)
def test_what_a_tool_returns_becomes_text_that_can_be_sent(value: Any, text: str) -> None:
    """Cases C-10, C-27 and C-28."""
    result = as_tool_result(value)

    assert result.text == text
    assert not result.is_error
    result.text.encode()


def test_sets_that_have_no_order_keep_their_items() -> None:
    """Case C-28."""
    assert sorted(as_tool_result({1, "a"}).text) == sorted('[1, "a"]')


def test_a_tool_result_stays_the_very_same() -> None:
    """Details, usage and terminate are the tool's own business."""
    result = ToolResult("text", {"rows": 3}, terminate=True)

    assert as_tool_result(result) is result


def test_texts_inside_a_tool_result_can_be_sent_too() -> None:
    """Case C-27; everything else of the result stays."""
    result = as_tool_result(
        ToolResult((TextContent("a\udc97"), ImageContent("aGk=")), {"rows": 3}, terminate=True)
    )

    assert result.text == "a�"
    assert result.content[1] == ImageContent("aGk=")
    assert (result.details, result.terminate) == ({"rows": 3}, True)
    assert as_tool_result([TextContent("\udc97")]).text == "�"
    assert as_tool_result(TextContent("é")).text == "é"


def test_texts_and_dicts_in_the_content_become_blocks() -> None:
    """As people write them who know the OpenAI format."""
    result = as_tool_result(ToolResult(["a", {"type": "text", "text": "b"}]))  # type: ignore[arg-type]

    assert result.content == (TextContent("a"), TextContent("b"))


@pytest.mark.parametrize("item", [5, {"type": "audio"}, {"type": "text"}])
def test_content_that_is_no_block_is_an_error_result(item: Any) -> None:
    """Found here and not in the next request."""
    result = as_tool_result(ToolResult([item]))  # type: ignore[arg-type]

    assert result.is_error
    assert f"holds a {type(item).__name__} instead of" in result.text


def test_content_blocks_stay_blocks() -> None:
    """Alone, in a list or in a tuple."""
    text, image = TextContent("label"), ImageContent("aGk=")

    assert as_tool_result(image).content == (image,)
    assert as_tool_result([text, image]).content == (text, image)
    assert as_tool_result((text,)).content == (text,)


async def _coroutine() -> None: ...


async def _async_generator() -> Any:
    yield 1


def _generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_coroutine, "asynchronous object (coroutine)"),
        (_async_generator, "asynchronous object (async_generator)"),
        (_generator, "lazy iterator (generator)"),
        (lambda: map(str, []), "lazy iterator (map)"),
        (lambda: io.StringIO("x"), "lazy iterator (StringIO)"),
        (lambda: {"rows": filter(None, [])}, "lazy iterator (filter)"),
        (lambda: {(1,): filter(None, [])}, "lazy iterator (filter)"),
    ],
)
def test_what_is_not_a_value_yet_is_an_error_that_says_what_to_do(make: Any, words: str) -> None:
    """Cases D-26 and D-27: never '<coroutine object ...'."""
    result = as_tool_result(make())

    assert result.is_error
    assert words in result.text
    assert result.details == {"error_type": "unexpected_tool_result"}


def test_data_that_contains_itself_is_an_error() -> None:
    """Case D-29."""
    loop: dict[str, Any] = {}
    loop["again"] = [loop]

    assert "contains itself (dict)" in as_tool_result(loop).text


def test_what_str_raises_is_left_to_the_guard_around_the_tool() -> None:
    """Case D-29: the conversion belongs inside the guard."""
    with pytest.raises(RuntimeError, match="no text"):
        as_tool_result(Broken())


def test_an_error_result_has_a_stable_type_and_a_text() -> None:
    """Architecture, section 5."""
    result = error_result("Tool x not found \udc97", "unknown_tool", tool_name="x")

    assert result.is_error
    assert result.text == "Tool x not found �"
    assert result.details == {"error_type": "unknown_tool", "tool_name": "x"}


def test_an_error_without_words_is_named_by_its_type() -> None:
    """Case C-10: the model always reads something."""
    assert error_result(" ", "tool_exception").text == "tool_exception"
