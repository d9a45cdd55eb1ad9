"""Data classes that cost little to define: most of what a process needs to start.

For each class the standard library compiles up to six methods from text, which takes over a
millisecond, and describes each field. Here the methods are the same functions for all classes,
the constructor is compiled when it was called often enough to pay, and the descriptions are made
when somebody asks for them. The classes are data classes for ``dataclasses.replace``, ``fields``
and type checkers, which see the decorator of the standard library in place of this one.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections import deque
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from itertools import repeat
from operator import attrgetter, call
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["dataclass", "replace"]

CALLS_BEFORE_COMPILING = 20
"""Compiling a constructor costs as much as some thirty calls of one that works its arguments out."""

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:

    def replace(instance: Any, /, **changes: Any) -> Any:
        """As ``dataclasses.replace``, which asks each field of its class each time."""
        made = type(instance)
        plan = vars(made).get("_plan_")
        if plan is None:
            return dataclasses.replace(instance, **changes)
        names, values, setters = plan.copying(tuple(changes))
        if setters is None:
            return made(**dict(zip(names, values(instance), strict=True)), **changes)
        copy = object.__new__(made)
        # No step of Python for each field: the largest has over forty, and is copied for each run.
        deque(map(call, setters, repeat(copy), (*values(instance), *changes.values())), maxlen=0)
        return copy

    def dataclass(
        *,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
        eq: bool = True,
        repr: bool = True,
    ) -> Callable[[type], type]:
        """As ``dataclasses.dataclass`` with these options, for classes that inherit no fields."""

        def decorate(cls: type) -> type:
            plan = _Plan(cls, kw_only, {"frozen": frozen, "eq": eq, "repr": repr})
            own = {
                "_plan_": plan,
                "__init__": _first_init,
                "__match_args__": plan.positional,
                **_ON_DEMAND,
            }
            wanted = {
                "__repr__": repr,
                "__eq__": eq,
                "__hash__": eq and frozen,
                "__setattr__": frozen,
                "__delattr__": frozen,
                "__getstate__": frozen and slots,
                "__setstate__": frozen and slots,
            }
            for name, is_wanted in wanted.items():
                if is_wanted and name not in vars(cls):
                    own[name] = vars(_Methods)[name]
            if eq and not frozen and "__hash__" not in vars(cls):
                own["__hash__"] = None
            plan.made = _with_slots(cls, plan, own) if slots else _without_slots(cls, plan, own)
            return plan.made

        return decorate


_Copying: TypeAlias = tuple[
    tuple[str, ...], Callable[[Any], tuple[Any, ...]], tuple[Callable[[Any, Any], None], ...] | None
]
"""The fields that a copy takes over, what gives their values, and what sets them and then the changes:
None where only the constructor may."""


class _Plan:
    """What the methods of a class need to know of it."""

    __slots__ = (
        "_copying",
        "accepted",
        "calls",
        "compared",
        "everything",
        "factories",
        "fields",
        "made",
        "options",
        "positional",
        "required",
        "shown",
        "start",
    )

    def __init__(self, cls: Any, kw_only: bool, options: dict[str, bool]) -> None:
        self.made: Any = cls
        self.options = options
        self.fields = fields = _own_fields(cls, kw_only)
        self.positional = tuple(name for name, field in fields.items() if field.init and not field.kw_only)
        self.accepted = frozenset(name for name, field in fields.items() if field.init)
        self.start = {name: field.default for name, field in fields.items()}
        self.required = frozenset(
            name
            for name in self.accepted
            if fields[name].default is MISSING and fields[name].default_factory is MISSING
        )
        self.factories = {
            name: field.default_factory
            for name, field in fields.items()
            if field.default_factory is not MISSING
        }
        self.shown = tuple(name for name, field in fields.items() if field.repr)
        self.compared = _values(tuple(name for name, field in fields.items() if field.compare))
        self.everything = _values(tuple(fields))
        self.calls = 0
        self._copying: dict[tuple[str, ...], _Copying] = {}

    def copying(self, changes: tuple[str, ...]) -> _Copying:
        """How to make a copy with these *changes*."""
        known = self._copying.get(changes)
        if known is None:
            names = tuple(sorted(self.accepted.difference(changes)))
            setters = None
            whole = self.accepted.issuperset(changes) and len(self.accepted) == len(self.fields)
            if whole and "__slots__" in vars(self.made) and not hasattr(self.made, "__post_init__"):
                setters = tuple(vars(self.made)[name].__set__ for name in (*names, *changes))
            known = self._copying[changes] = names, _values(names), setters
        return known


def _own_fields(cls: Any, kw_only: bool) -> dict[str, Field[Any]]:
    """The fields by name, as the class declares them."""
    if any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:]):
        raise TypeError(f"{cls.__qualname__} inherits fields; use dataclasses.dataclass for it")
    fields = {}
    for name, kind in vars(cls).get("__annotations__", {}).items():
        if "ClassVar" in str(kind):
            continue
        value = getattr(cls, name, MISSING)
        made: Any = value if isinstance(value, Field) else dataclasses.field(default=value)
        if made.default.__class__.__hash__ is None:
            raise ValueError(f"the default of {name} can be changed by everybody; use default_factory")
        made.name, made.type = name, kind
        if made.kw_only is MISSING:
            made.kw_only = kw_only
        fields[name] = made
    return fields


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of *names* as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _with_slots(cls: Any, plan: _Plan, own: dict[str, Any]) -> Any:
    # All in one: each method that is set later makes the class look for its slots again.
    left_out = {"__dict__", "__weakref__", *plan.fields}
    body = {key: value for key, value in vars(cls).items() if key not in left_out}
    made = type(cls)(cls.__name__, cls.__bases__, body | own | {"__slots__": tuple(plan.fields)})
    made.__qualname__ = cls.__qualname__
    return made


def _without_slots(cls: Any, plan: _Plan, own: dict[str, Any]) -> Any:
    for name, field in plan.fields.items():
        if vars(cls).get(name) is field:
            delattr(cls, name)
            if field.default is not MISSING:
                setattr(cls, name, field.default)
    for name, value in own.items():
        setattr(cls, name, value)
    return cls


# --- the methods


class _Methods:
    """Where the methods are taken from; never used as a class."""

    _plan_: _Plan

    @recursive_repr()
    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._plan_.shown)
        return f"{type(self).__qualname__}({values})"

    def __eq__(self, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = self._plan_.compared
        return compared(self) == compared(other)

    def __hash__(self) -> int:
        return hash(self._plan_.compared(self))

    def __setattr__(self, name: str, value: Any) -> None:
        if type(self) is self._plan_.made or name in self._plan_.fields:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if type(self) is self._plan_.made or name in self._plan_.fields:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    def __getstate__(self) -> list[Any]:
        return list(self._plan_.everything(self))

    def __setstate__(self, state: list[Any]) -> None:
        for name, value in zip(self._plan_.fields, state, strict=True):
            object.__setattr__(self, name, value)


# --- the constructor

_set = object.__setattr__


def _first_init(self: Any, /, *args: Any, **kwargs: Any) -> None:
    """A constructor that works its arguments out, until the class has one of its own."""
    plan = self._plan_
    plan.calls += 1
    if plan.calls > CALLS_BEFORE_COMPILING or not _fits(plan, args, kwargs):
        # What does not fit is refused by a real signature, in its words.
        plan.made.__init__ = init = _compiled_init(plan)
        init(self, *args, **kwargs)
        return
    values = plan.start | kwargs
    if args:
        values.update(zip(plan.positional, args, strict=False))
    for name, value in values.items():
        _set(self, name, plan.factories[name]() if value is MISSING else value)
    if hasattr(plan.made, "__post_init__"):
        self.__post_init__()


def _fits(plan: _Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether each field is given once, or has a default."""
    names = plan.positional[: len(args)]
    given = {*names, *kwargs}
    twice = len(given) != len(args) + len(kwargs)  # Or more than can be given by position.
    return not twice and plan.required <= given <= plan.accepted


def _compiled_init(plan: _Plan) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": _set, "_MISSING": MISSING}
    slots = vars(plan.made) if "__slots__" in vars(plan.made) else {}
    positional, keyword, lines = ["self"], list[str](), list[str]()
    for name, field in plan.fields.items():
        value = name
        if field.default is not MISSING:
            known[f"_d_{name}"], default = field.default, f"=_d_{name}"
        elif field.default_factory is not MISSING:
            known[f"_f_{name}"], default = field.default_factory, "=_MISSING"
            value = f"_f_{name}() if {name} is _MISSING else {name}"
        else:
            default = ""
        if field.init:
            (keyword if field.kw_only else positional).append(name + default)
        else:
            value = f"_f_{name}()" if f"_f_{name}" in known else f"_d_{name}"
        if not plan.options["frozen"]:
            lines.append(f" self.{name} = {value}")
        elif name in slots:
            known[f"_s_{name}"] = slots[name].__set__  # A third cheaper than finding it by its name.
            lines.append(f" _s_{name}(self, {value})")
        else:
            lines.append(f" _set(self, {name!r}, {value})")
    if hasattr(plan.made, "__post_init__"):
        lines.append(" self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *keyword] if keyword else [])])
    exec("\n".join([f"def __init__({parameters}):", *(lines or [" pass"])]), known)
    init: Any = known["__init__"]
    init.__qualname__ = f"{plan.made.__qualname__}.__init__"
    init.__module__ = plan.made.__module__
    init.__annotations__ = {name: field.type for name, field in plan.fields.items() if field.init}
    init.__annotations__["return"] = "None"
    return init  # type: ignore[no-any-return]


# --- what is made when somebody asks for it


class _Description:
    """What ``dataclasses`` knows of a class."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: Any) -> Any:
        plan = owner._plan_
        annotations = {name: field.type for name, field in plan.fields.items()}
        # Without a text of its own the standard library would work out the signature to show it.
        body = {"__doc__": plan.made.__name__, "__annotations__": annotations, **plan.fields}
        body["__module__"] = plan.made.__module__
        # The methods exist already: asked for none of them, the standard library only describes.
        describe = dataclasses.dataclass(init=False, repr=False, eq=False)
        plain: Any = describe(type(plan.made.__name__, (), body))
        for option, value in plan.options.items():
            setattr(plain.__dataclass_params__, option, value)
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            setattr(plan.made, name, getattr(plain, name))
        return getattr(plain, self._name)


class _Signature:
    """The signature of the constructor."""

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # An object that can be called has one of its own.
        signature = inspect.signature(_compiled_init(owner._plan_))
        return signature.replace(parameters=list(signature.parameters.values())[1:])


_ON_DEMAND: dict[str, Any] = {
    "__signature__": _Signature(),
    "__dataclass_fields__": _Description("__dataclass_fields__"),
    "__dataclass_params__": _Description("__dataclass_params__"),
}
