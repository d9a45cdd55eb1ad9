"""Frozen data classes that cost little to define: most of what a process needs to start.

For each frozen class the standard library compiles six methods from text, which takes over a
millisecond. Here only the constructor is compiled, when the first object is made; the other
methods are closures. The classes are data classes for ``dataclasses.replace``, ``fields`` and
type checkers, which see the decorator of the standard library in place of this one.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        *,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
        eq: bool = True,
        repr: bool = True,
    ) -> Callable[[type], type]:
        """As ``dataclasses.dataclass``; frozen classes with slots cost a tenth of it."""
        if frozen and slots and repr:
            return lambda cls: _made(cls, kw_only, eq)
        return dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only, eq=eq, repr=repr)


def _made(cls: type, kw_only: bool, eq: bool) -> type:
    cls.__doc__ = cls.__doc__ or cls.__name__  # Else the signature is looked up for it.
    plain: Any = dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only)
    fields = dataclasses.fields(plain)
    body = {key: value for key, value in vars(plain).items() if key not in ("__dict__", "__weakref__")}
    for field in fields:
        body.pop(field.name, None)
    body["__slots__"] = tuple(field.name for field in fields)
    made: Any = type(plain)(plain.__name__, plain.__bases__, body)
    made.__qualname__ = plain.__qualname__
    for method in [*_frozen(made, fields), *_shown_and_compared(fields, eq)]:
        if method.__name__ not in body:
            method.__qualname__ = f"{made.__qualname__}.{method.__name__}"
            setattr(made, method.__name__, method)
    made.__init__ = _lazy_init(made, fields)
    made.__signature__ = _Signature()
    return made  # type: ignore[no-any-return]


def _frozen(cls: Any, fields: tuple[Field[Any], ...]) -> list[Callable[..., Any]]:
    """Methods that refuse changes, and those that copying and pickling need because of it."""
    names = frozenset(field.name for field in fields)
    everything = _values(tuple(field.name for field in fields))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    def __getstate__(self: Any) -> list[Any]:
        return list(everything(self))

    def __setstate__(self: Any, state: list[Any]) -> None:
        for field, value in zip(fields, state, strict=True):
            object.__setattr__(self, field.name, value)

    return [__setattr__, __delattr__, __getstate__, __setstate__]


def _shown_and_compared(fields: tuple[Field[Any], ...], eq: bool) -> list[Callable[..., Any]]:
    shown = tuple(field.name for field in fields if field.repr)
    compared = _values(tuple(field.name for field in fields if field.compare))

    @recursive_repr()
    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    def __hash__(self: Any) -> int:
        return hash(compared(self))

    return [__repr__, __eq__, __hash__] if eq else [__repr__]


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of *names* as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _lazy_init(cls: Any, fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    """A constructor that puts the real one in its own place when it is first called."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = init = _compiled_init(cls, fields)
        init(self, *args, **kwargs)

    return __init__


def _compiled_init(cls: Any, fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    positional, keyword, lines = ["self"], list[str](), list[str]()
    for field in fields:
        name, value = field.name, field.name
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
        lines.append(f" _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *keyword] if keyword else [])])
    exec("\n".join([f"def __init__({parameters}):", *(lines or [" pass"])]), known)
    init: Any = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": "None"}
    return init  # type: ignore[no-any-return]


class _Signature:
    """The signature of a class, made when somebody asks for it."""

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        compiled = _compiled_init(owner, dataclasses.fields(owner))
        signature = inspect.signature(compiled)
        return signature.replace(parameters=list(signature.parameters.values())[1:])
