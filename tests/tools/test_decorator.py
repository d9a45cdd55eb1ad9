"""``@tool`` and plain functions as tools."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.tools.arguments import InvalidArguments, prepare_call_arguments
from yiemagent.tools.decorator import as_tool, tool
from yiemagent.tools.registry import ToolRegistry
from yiemagent.tools.tool import Tool, ToolContext, current_event_sink

if TYPE_CHECKING:
    from nowhere import Missing


class Colour(enum.Enum):
    RED = "red"


@tool
def search_wine(query: str, max_results: int = 5) -> str:
    """Search the wine inventory.

    Args:
        query: Tasting notes, grape or region.
        max_results: How many wines to return at most.
    """
    return f"{query}: {max_results}"


def call(made: Tool, raw: Any, signal: AbortSignal | None = None, on_update: Any = None) -> Any:
    return made.execute("call-1", prepare_call_arguments(made, raw), signal or AbortSignal(), on_update)


def schema_of(function: Any) -> Any:
    return as_tool(function).input_schema


def test_a_decorated_function_is_the_tool_of_the_readme() -> None:
    """Architecture, section 1."""
    assert search_wine.name == "search_wine"
    assert search_wine.description == "Search the wine inventory."
    assert search_wine.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Tasting notes, grape or region."},
            "max_results": {
                "type": "integer",
                "description": "How many wines to return at most.",
                "default": 5,
            },
        },
        "required": ["query"],
    }
    assert call(search_wine, {"query": "oak"}) == "oak: 5"


def test_a_decorated_function_can_still_be_called_and_read() -> None:
    """Its own tests go on working."""
    assert search_wine("oak", max_results=2) == "oak: 2"
    assert list(inspect.signature(search_wine).parameters) == ["query", "max_results"]
    assert search_wine.__name__ == "search_wine"  # type: ignore[attr-defined]
    assert search_wine.__doc__ is not None
    assert search_wine.__doc__.startswith("Search the wine")


def test_keywords_of_the_decorator_are_fields_of_the_tool() -> None:
    """Each one."""

    @tool(
        name="other",
        description="Says so.",
        label="Other",
        timeout=5,
        execution_mode="parallel",
        isolation="process",
        prepare_arguments=dict,
        validate_arguments=lambda args: None,
        annotations={"readOnlyHint": True},
    )
    def probe(a: int) -> int:
        """Not said."""
        return a

    assert (probe.name, probe.description, probe.label, probe.timeout) == ("other", "Says so.", "Other", 5)
    assert (probe.execution_mode, probe.isolation) == ("parallel", "process")
    assert probe.annotations == {"readOnlyHint": True}
    assert probe.prepare_arguments is dict
    assert tool(sequential=True)(lambda_free).execution_mode == "sequential"


def lambda_free(a: int) -> int:
    return a


def test_a_switch_that_is_no_bool_is_refused() -> None:
    """``sequential="no"`` would count as yes."""
    with pytest.raises(ConfigurationError, match="sequential must be True or False, got 'no'"):
        tool(sequential="no")  # type: ignore[call-overload]


def test_sequential_and_parallel_contradict_each_other() -> None:
    """Named together."""
    with pytest.raises(ConfigurationError, match="contradicts"):
        tool(sequential=True, execution_mode="parallel")


def test_an_unknown_keyword_is_a_type_error() -> None:
    """Python says so itself."""
    with pytest.raises(TypeError, match="timeot"):
        tool(timeot=5)  # type: ignore[call-overload]


async def wait(query: str) -> str:
    return query


def lines(query: str) -> Iterator[str]:
    yield query


async def lines_later(query: str) -> Any:
    yield query


def positional(a: int, /, b: int) -> int:
    return a + b


def many(*wines: str) -> int:
    return len(wines)


def opened(path: bytes) -> str:
    return str(path)


class Search:
    def __call__(self, query: str) -> str:
        """Search, as an object."""
        return query

    @tool
    def near(self, query: str, colour: Colour = Colour.RED) -> Any:
        """Search nearby."""
        return self, query, colour


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (wait, "coroutine function (async def), and nobody would await it"),
        (lines, "generator function"),
        (lines_later, "generator function"),
        (functools.partial(wait), "coroutine function"),
        (positional, "positional-only parameter 'a'"),
        (many, "*wines, but models give arguments by name"),
        (lambda query: query, "a lambda has no name"),
        (Search, "the class Search is no tool"),
        (5, "5 is no tool"),
        (len, "positional-only"),
        (dict.get, "positional-only"),
        (print, "*args"),
        (opened, "JSON cannot express: bytes"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_in_words(function: Any, words: str) -> None:
    """Issue 2, part 2; cases D-26 and D-27."""
    with pytest.raises(ConfigurationError) as caught:
        as_tool(function)
    assert words in str(caught.value)


def test_a_function_without_a_readable_signature_is_refused() -> None:
    """Some C functions."""
    with pytest.raises(ConfigurationError, match="no signature that can be read"):
        tool(name="probe")(min)


def test_a_function_with_a_bad_name_is_refused_until_it_gets_another() -> None:
    """Case C-15."""

    def süß(a: int) -> int:
        return a

    with pytest.raises(ConfigurationError, match="give another name"):
        as_tool(süß)
    assert tool(name="sweet")(süß).name == "sweet"


def test_a_tool_is_not_decorated_twice() -> None:
    """It says how to change it."""
    with pytest.raises(ConfigurationError, match=r"dataclasses\.replace"):
        tool(search_wine)


def test_the_tool_of_a_function_is_made_once() -> None:
    """And a wrapper does not inherit it from what it wraps."""

    def inner(a: int) -> int:
        return a

    made = as_tool(inner)

    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs) + 1

    assert as_tool(inner) is made
    assert as_tool(search_wine) is search_wine
    assert call(as_tool(wrapper), {"a": "1"}) == 2


def test_a_wrapper_has_the_schema_of_what_it_wraps() -> None:
    """functools.wraps."""

    def inner(a: int, b: Annotated[str, "Second."] = "x") -> int:
        """Add.

        Args:
            a: First.
        """
        return a

    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    assert as_tool(wrapper).description == "Add."
    assert schema_of(wrapper)["properties"] == {
        "a": {"type": "integer", "description": "First."},
        "b": {"type": "string", "description": "Second.", "default": "x"},
    }


def test_what_a_partial_binds_is_hidden() -> None:
    """A database handle is not for the model."""

    def search(db: Any, query: str, limit: int = 5) -> Any:
        """Search.

        Args:
            query: What.
        """
        return db, query, limit

    made = tool(functools.partial(search, "database", limit=3))
    nested = tool(functools.partial(functools.partial(search, db="database"), limit=3))

    assert made.name == "search"
    assert made.description == "Search."
    assert made.input_schema["properties"] == {"query": {"type": "string", "description": "What."}}
    assert call(made, {"query": "oak"}) == ("database", "oak", 3)
    assert set(nested.input_schema["properties"]) == {"query"}
    assert call(nested, {"query": "oak"}) == ("database", "oak", 3)


def test_a_callable_object_is_a_tool() -> None:
    """Named by its class, described by its call."""
    made = as_tool(Search())

    assert (made.name, made.description) == ("Search", "Search, as an object.")
    assert call(made, {"query": "oak"}) == "oak"


def test_a_callable_object_may_be_described_by_its_class() -> None:
    """When its call has no docstring."""

    class Probe:
        """Probes."""

        def __call__(self, a: int) -> int:
            return a

    assert as_tool(Probe()).description == "Probes."


def test_a_bound_method_is_a_tool() -> None:
    """Plain, of an instance."""

    class Box:
        def find(self, query: str) -> Any:
            """Find."""
            return self, query

    box = Box()
    made = as_tool(box.find)

    assert (made.name, made.description) == ("find", "Find.")
    assert made.input_schema["required"] == ["query"]
    assert call(made, {"query": "oak"}) == (box, "oak")


def test_a_decorated_method_is_the_tool_of_its_object() -> None:
    """Read from an instance it is bound; from the class it says what to do."""
    box = Search()

    assert call(box.near, {"query": "oak"}) == (box, "oak", Colour.RED)
    assert box.near("oak") == (box, "oak", Colour.RED)
    assert box.near.description == "Search nearby."
    with pytest.raises(ConfigurationError, match=r"method without its object.*obj\.near"):
        Search.near.input_schema


def test_a_tool_context_is_injected_and_hidden() -> None:
    """Issue 2, part 2."""

    @tool
    def probe(query: str, context: ToolContext) -> Any:
        context.update("half")
        context.event_sink("working", publish=True)
        return context

    updates: list[Any] = []
    logged: list[Any] = []
    signal = AbortSignal()
    token = current_event_sink.set(lambda text, publish=False: logged.append((text, publish)))
    try:
        context = call(probe, {"query": "oak"}, signal, updates.append)
    finally:
        current_event_sink.reset(token)

    assert list(probe.input_schema["properties"]) == ["query"]
    assert (context.tool_call_id, context.tool_name, context.signal) == ("call-1", "probe", signal)
    assert updates == ["half"]
    assert logged == [("working", True)]


def test_an_optional_or_annotated_tool_context_is_injected_too() -> None:
    """Functions that are also called without one."""

    @tool
    def optional(ctx: ToolContext | None = None) -> Any:
        return ctx

    @tool
    def annotated(ctx: Annotated[ToolContext, "ours"]) -> Any:
        return ctx

    assert call(optional, {}).tool_name == "optional"
    assert call(annotated, {}).tool_name == "annotated"


def test_unknown_arguments_are_refused_although_the_schema_does_not_say_so() -> None:
    """A filter that the tool would silently ignore makes a wrong answer."""
    with pytest.raises(InvalidArguments, match=r"max_price: unexpected \(known: query, max_results\)"):
        call(search_wine, {"query": "oak", "max_price": 10})
    assert "additionalProperties" not in search_wine.input_schema


def test_keyword_arguments_take_what_is_not_named() -> None:
    """``**kwargs``, typed and untyped."""

    @tool
    def anything(a: int, **more: Any) -> Any:
        return a, more

    @tool
    def colours(**more: Colour) -> Any:
        return more

    assert anything.input_schema["additionalProperties"] is True
    assert call(anything, {"a": 1, "b": [2]}) == (1, {"b": [2]})
    assert call(colours, {"x": "red"}) == {"x": Colour.RED}


def test_a_parameter_with_default_none_takes_null() -> None:
    """An implicit Optional, and one behind a conversion."""

    @tool
    def probe(a: str = None, b: Colour = None, c: Any = None, d: int | None = None) -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return a, b, c, d

    assert probe.input_schema["properties"]["a"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "default": None,
    }
    assert probe.input_schema["properties"]["c"] == {"default": None}
    assert call(probe, {"a": None, "b": None}) == (None, None, None, None)
    assert call(probe, {"b": "red"}) == (None, Colour.RED, None, None)


@dataclasses.dataclass
class Span:
    low: int = 0
    high: float = 1.0


def test_defaults_are_shown_when_they_are_json_or_become_it_and_back() -> None:
    """Others are filled in by the function itself."""
    sentinel = object()

    @tool
    def probe(
        a: float = 1,
        b: Colour = Colour.RED,
        c: Span = Span(2),  # noqa: B008
        d: tuple[int, ...] = (1, 2),
        e: list[int] = [],  # noqa: B006
        f: Any = sentinel,
        g: float = float("inf"),
        h: Path = Path("/a"),
        i: dict[str, int] = {"x": 1},  # noqa: B006
        j: Span | None = sentinel,  # type: ignore[assignment]
    ) -> Any:
        return a, b, c, d, e, f, g, h, i, j

    shown = {name: inner.get("default", "-") for name, inner in probe.input_schema["properties"].items()}

    assert shown == {
        "a": 1,
        "b": "red",
        "c": {"low": 2, "high": 1.0},
        "d": (1, 2),
        "e": [],
        "f": "-",
        "g": "-",
        "h": "/a",
        "i": {"x": 1},
        "j": "-",
    }
    given = call(probe, {})
    assert given == (
        1.0,
        Colour.RED,
        Span(2),
        (1, 2),
        [],
        sentinel,
        float("inf"),
        Path("/a"),
        {"x": 1},
        sentinel,
    )


def test_annotations_of_local_classes_are_found() -> None:
    """Postponed annotations in a function mean its own names."""

    @dataclasses.dataclass
    class Local:
        a: int

    @tool
    def probe(x: Local, y: list[Local]) -> Any:
        return x, y

    assert call(probe, {"x": {"a": 1}, "y": [{"a": 2}]}) == (Local(1), [Local(2)])


def test_a_name_that_comes_later_is_looked_up_on_first_use() -> None:
    """A class defined below the function in its module."""
    namespace: dict[str, Any] = {"tool": tool, "__name__": "later"}
    exec("@tool\ndef probe(x: 'list[Later]'):\n    return x\n", namespace)
    exec("class Later(int): ...", namespace)

    assert type(call(namespace["probe"], {"x": [1]})[0]) is namespace["Later"]


def test_a_name_that_never_comes_is_named_with_its_parameter() -> None:
    """TYPE_CHECKING imports are not there at run time."""

    def probe(x: Missing) -> Any:
        return x

    made = as_tool(probe)

    with pytest.raises(
        ConfigurationError, match=r"parameter 'x' of tool function .*probe is annotated 'Missing'"
    ):
        made.input_schema


def test_a_class_with_an_annotation_that_never_comes_is_named_with_its_parameter() -> None:
    """The same, one level down."""

    @dataclasses.dataclass
    class Holder:
        inner: Missing

    @tool
    def probe(x: Holder) -> Any:
        return x

    with pytest.raises(ConfigurationError, match=r"parameter 'x' .*annotation that cannot be read"):
        probe.input_schema


def test_an_annotation_that_is_no_python_is_refused() -> None:
    """At registration."""

    def probe(x: int) -> Any:
        return x

    probe.__annotations__["x"] = "list[["

    with pytest.raises(ConfigurationError, match="which cannot be read"):
        as_tool(probe)


def test_a_tool_made_from_a_function_survives_pickling() -> None:
    """Functions of modules are pickled by name, and what was read of them is read again."""
    made = dataclasses.replace(as_tool(lambda_free), label="x")
    made.input_schema

    again = pickle.loads(pickle.dumps(made))

    assert again.input_schema == made.input_schema
    assert call(again, {"a": 1}) == 1


@pytest.mark.servers
def test_plain_functions_are_read_only_when_they_are_used() -> None:
    """Fifty tools are made in less time than fifty signatures are read."""
    script = (
        "import sys\n"
        "from yiemagent.tools.registry import ToolRegistry\n"
        "def probe(a: int, b: 'str' = 'x') -> int:\n"
        "    return a\n"
        "registry = ToolRegistry([probe])\n"
        "assert 'yiemagent.tools.schema' not in sys.modules\n"
        "registry.specs[0].input_schema\n"
        "assert 'yiemagent.tools.schema' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_function_may_be_anything_callable_with_a_signature() -> None:
    """A callable with its own ``__signature__``, as frameworks make them."""

    def inner(a: int) -> int:
        return a

    made: Callable[..., Any] = functools.lru_cache(inner)

    assert call(tool(made), {"a": "3"}) == 3


def test_a_method_without_its_object_is_refused_when_an_agent_gets_it() -> None:
    """Refused at registration, not at the first request; decorated or not."""

    class Cellar:
        def stock(self, wine: str) -> int:
            """How many bottles there are."""
            return 3

        @tool
        def price(self, wine: str) -> int:
            """What it costs."""
            return 12

    for unbound in (Cellar.stock, Cellar.price):
        with pytest.raises(ConfigurationError, match="method without its object"):
            ToolRegistry([unbound])
    assert ToolRegistry([Cellar().stock, Cellar().price]).names == ("stock", "price")
