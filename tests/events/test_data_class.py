"""Our data classes behave as those of ``dataclasses``; only defining them is cheaper."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from yiemagent import data_class


def _define(decorator: Any) -> Any:
    @decorator(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        tags: list[str] = field(default_factory=list)
        y: int = field(default=2, kw_only=True)
        hidden: int = field(default=3, kw_only=True, repr=False, compare=False)
        _held: Any = field(default=None, init=False, repr=False, compare=False)
        kind: ClassVar[str] = "point"

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x")

    return Point


Theirs, Ours = _define(dataclasses.dataclass), _define(data_class.dataclass)
Point = Ours
Point.__qualname__ = "Point"


def test_objects_are_made_shown_compared_and_hashed_alike() -> None:
    """The constructor, ``repr``, ``==`` and ``hash``."""
    for make in (lambda c: c(1), lambda c: c(1, ["a"], y=5), lambda c: c(x=1, tags=[], hidden=9)):
        ours, theirs = make(Ours), make(Theirs)
        assert repr(ours).split("(", 1)[1] == repr(theirs).split("(", 1)[1]
        assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert Ours(1, hidden=4) == Ours(1, hidden=5) != Ours(2)
    assert Ours(1) != Theirs(1)
    frozen_values = (Ours(1, ()), Theirs(1, ()))
    assert hash(frozen_values[0]) == hash(frozen_values[1])
    assert Ours(1).tags is not Ours(1).tags


@pytest.mark.parametrize(
    "arguments", [((), {}), ((1, [], 2), {}), ((1,), {"_held": 1}), ((1,), {"z": 1}), ((1,), {"x": 1})]
)
def test_wrong_arguments_are_refused_alike(arguments: Any) -> None:
    """Missing, positional where keyword-only, not for the constructor, unknown, twice."""
    for cls in (_define(dataclasses.dataclass), _define(data_class.dataclass)):
        with pytest.raises(TypeError):
            cls(*arguments[0], **arguments[1])


def test_nothing_can_be_set_or_deleted() -> None:
    """Fields and anything else."""
    for cls in (Theirs, Ours):
        point = cls(1)
        with pytest.raises(FrozenInstanceError):
            point.x = 2
        with pytest.raises(FrozenInstanceError):
            del point.x
        with pytest.raises((FrozenInstanceError, TypeError)):  # The former with us, on every version.
            point.other = 2
        assert not hasattr(point, "__dict__")


def test_post_init_runs_and_may_refuse() -> None:
    """As ``dataclasses`` call it."""
    with pytest.raises(ValueError, match="x"):
        Ours(-1)


def test_copies_pickles_and_replacements_are_equal() -> None:
    """``copy``, ``pickle``, ``dataclasses.replace``; what is not compared travels too."""
    point = Point(1, ["a"], y=7, hidden=8)
    object.__setattr__(point, "_held", "note")
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert other == point
        assert (other.hidden, other._held) == (8, "note")
    changed = dataclasses.replace(point, y=9)
    assert (changed.y, changed.x, changed._held) == (9, 1, None)


@pytest.mark.parametrize("replace", [dataclasses.replace, data_class.replace])
@pytest.mark.parametrize("decorator", [dataclasses.dataclass, data_class.dataclass])
def test_either_replace_copies_either_kind_of_class(replace: Any, decorator: Any) -> None:
    """What is given is not read first: a descriptor may work it out."""
    made = _define(decorator)
    point = made(1, ["a"], y=7, hidden=8)
    object.__setattr__(point, "_held", "note")

    changed = replace(point, y=9)

    assert type(changed) is made
    assert (changed.x, changed.tags, changed.y, changed.hidden, changed._held) == (1, ["a"], 9, 8, None)
    assert changed.tags is point.tags
    for wrong in ({"z": 1}, {"_held": 1}):
        with pytest.raises((TypeError, ValueError)):
            replace(point, **wrong)
    with pytest.raises(ValueError, match="x"):
        replace(point, x=-1)


@pytest.mark.parametrize("replace", [dataclasses.replace, data_class.replace])
@pytest.mark.parametrize("decorator", [dataclasses.dataclass, data_class.dataclass])
@pytest.mark.parametrize("options", [{"frozen": True, "slots": True}, {"slots": True}, {"frozen": True}])
def test_either_replace_copies_a_class_that_checks_nothing(
    replace: Any, decorator: Any, options: dict[str, bool]
) -> None:
    """Of which a copy may be made without its constructor."""

    @decorator(**options)
    class Plain:
        x: int
        y: list[int] = field(default_factory=list)
        z: int = field(default=2, kw_only=True)

    plain = Plain(1, [7])

    changed, same = replace(plain, z=9, x=3), replace(plain)

    assert (changed.x, changed.y, changed.z) == (3, [7], 9)
    assert changed.y is plain.y
    assert same == plain
    assert same is not plain
    assert type(changed) is Plain
    with pytest.raises(TypeError):
        replace(plain, unknown=1)


@pytest.mark.parametrize("replace", [dataclasses.replace, data_class.replace])
def test_neither_replace_sets_what_the_constructor_does_not_take(replace: Any) -> None:
    """What an object worked out for itself is not for its copy."""

    @data_class.dataclass(frozen=True, slots=True)
    class Noting:
        x: int
        note: Any = field(default=None, init=False)

    noting = Noting(1)
    object.__setattr__(noting, "note", "of 1")
    assert replace(noting, x=2).note is None
    with pytest.raises((TypeError, ValueError)):
        replace(noting, note="of 2")


@pytest.mark.parametrize("replace", [dataclasses.replace, data_class.replace])
def test_either_replace_lets_the_class_check_a_copy(replace: Any) -> None:
    """A change may be one that it refuses."""

    @data_class.dataclass(frozen=True, slots=True)
    class Checked:
        x: int

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        replace(Checked(1), x=-1)


@pytest.mark.parametrize("options", [{"frozen": True, "slots": True}, {"slots": True}, {"frozen": True}, {}])
def test_the_hundredth_object_is_made_like_the_first(options: dict[str, bool]) -> None:
    """A constructor is compiled for a class that is used much."""

    @data_class.dataclass(**options)
    class Plain:
        x: int
        y: list[int] = field(default_factory=list)
        z: int = field(default=2, kw_only=True)

    made = [Plain(number, z=number + 1) for number in range(100)]
    assert [(plain.x, plain.y, plain.z) for plain in made] == [(n, [], n + 1) for n in range(100)]


def test_signature_fields_and_patterns_are_those_of_a_data_class() -> None:
    """What ``help``, ``inspect``, ``dataclasses.fields`` and ``match`` read."""
    assert list(inspect.signature(Ours).parameters) == list(inspect.signature(Theirs).parameters)
    assert dataclasses.is_dataclass(Ours)
    assert [f.name for f in dataclasses.fields(Ours)] == [f.name for f in dataclasses.fields(Theirs)]
    assert Ours.__match_args__ == Theirs.__match_args__
    assert Ours.kind == "point"


def test_a_class_that_wants_identity_keeps_it() -> None:
    """``eq=False``."""

    @data_class.dataclass(frozen=True, slots=True, eq=False)
    class Entry:
        """An entry."""

        name: str

    assert Entry("a") != Entry("a")
    assert len({Entry("a"), Entry("a")}) == 2


def test_a_constructor_does_the_same_before_and_after_it_is_compiled() -> None:
    """The first calls read their arguments themselves."""

    @data_class.dataclass(frozen=True, slots=True)
    class Box:
        """A box."""

        size: int
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", init=False)

    boxes = [Box(3, tags=["a"]) for _ in range(2 * data_class.CALLS_BEFORE_COMPILING)]
    assert {repr(box).rpartition(".")[2] for box in boxes} == {"Box(size=3, tags=['a'], note='')"}
    assert boxes[0] == boxes[-1]
    with pytest.raises(TypeError, match="size"):
        Box()  # type: ignore[call-arg]


def test_a_class_that_may_change_changes_and_cannot_be_hashed() -> None:
    """``frozen=False``."""

    @data_class.dataclass(slots=True)
    class Entry:
        """An entry."""

        name: str
        count: int = 0

    entry = Entry("a")
    entry.count += 1
    assert entry == Entry("a", 1) != Entry("a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(entry)
    with pytest.raises(AttributeError):
        entry.other = 1  # type: ignore[attr-defined]


def test_a_class_without_slots_keeps_its_defaults_as_attributes() -> None:
    """``slots=False``; a default that is a descriptor is asked for its value, as ``dataclasses`` do."""

    class Default:
        def __get__(self, instance: Any, owner: Any = None) -> Any:
            return "asked" if instance is None else vars(instance)["given"]

        def __set__(self, instance: Any, value: Any) -> None:
            vars(instance)["given"] = value

    def define(decorator: Any) -> Any:
        @decorator(frozen=True, kw_only=True)
        class Loose:
            """A class with a dict."""

            given: Any = Default()
            plain: int = field(default=1)
            tags: list[str] = field(default_factory=list)

        return Loose

    for cls in (define(dataclasses.dataclass), define(data_class.dataclass)):
        made = cls(tags=["a"])
        assert (made.given, made.plain, made.tags, cls.plain) == ("asked", 1, ["a"], 1)
        assert not hasattr(cls, "tags")
        with pytest.raises(FrozenInstanceError):
            made.plain = 2


def test_an_object_that_can_be_called_has_a_signature_of_its_own() -> None:
    """``inspect.signature`` of an instance is not that of the constructor."""

    @data_class.dataclass(frozen=True, slots=True)
    class Add:
        """Adds."""

        amount: int

        def __call__(self, value: int) -> int:
            return self.amount + value

    assert list(inspect.signature(Add).parameters) == ["amount"]
    assert list(inspect.signature(Add(1)).parameters) == ["value"]


def test_what_is_not_taken_is_refused_when_the_class_is_defined() -> None:
    """Inherited fields, and a default that everybody could change."""
    with pytest.raises(TypeError, match="inherits fields"):
        data_class.dataclass(frozen=True, slots=True)(type("More", (Ours,), {"__slots__": ()}))
    with pytest.raises(ValueError, match="default of tags"):
        data_class.dataclass(frozen=True)(type("Bad", (), {"__annotations__": {"tags": list}, "tags": []}))


def test_the_description_is_that_of_dataclasses() -> None:
    """``fields`` and the options, which are worked out when somebody asks."""
    for theirs, ours in zip(dataclasses.fields(Theirs), dataclasses.fields(Ours), strict=True):
        for part in ("name", "type", "default", "init", "repr", "compare", "kw_only"):
            assert getattr(ours, part) == getattr(theirs, part)
    for option in ("frozen", "eq", "repr"):
        assert getattr(Ours.__dataclass_params__, option) == getattr(Theirs.__dataclass_params__, option)
