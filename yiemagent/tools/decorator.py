"""``@tool``: a plain typed function as a tool."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, overload

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.tools.argument_errors import ArgumentError, InvalidArguments, argument_error_text
from yiemagent.tools.checks import check_runs_synchronously, signature_problem
from yiemagent.tools.tool import (
    ExecutionMode,
    Isolation,
    OnUpdate,
    Tool,
    ToolContext,
    ToolLike,
    current_event_sink,
)
from yiemagent.value_checks import check_switch

if TYPE_CHECKING:
    from yiemagent.tools.schema import FunctionSpec

__all__ = ["FunctionBody", "as_tool", "as_tools", "tool"]

_MADE = "__yiemagent_tool__"
_TRIVIAL = frozenset(
    (str, int, float, bool, None, list, dict, Any, ToolContext, list[str], list[int], dict[str, Any])
) | frozenset(
    ("str", "int", "float", "bool", "None", "list", "dict", "Any", "ToolContext", "list[str]", "str | None")
)
"""Annotations that cannot be wrong, so that they need not be read before the first use."""


class FunctionBody:
    """The ``execute`` of a tool that was made from a function.

    Signature and docstring are read on first use and then kept.
    """

    def __init__(self, function: Callable[..., Any], name: str, namespace: Mapping[str, Any] | None) -> None:
        self.function = function
        self.name = name
        self.needs_object = _first_parameter(function) == "self"
        """Whether it is a method that was not taken from an instance."""
        self._namespace = namespace
        self._spec: FunctionSpec | None = None

    def __call__(
        self, tool_call_id: str, args: dict[str, Any], signal: AbortSignal, on_update: OnUpdate, /
    ) -> Any:
        """Call the function with *args* as its own types.

        Raises:
            InvalidArguments: A type of the function refused its value.
        """
        spec = self.spec
        if spec.converts or spec.convert_any is not None:
            args = self._python_arguments(spec, args)
        if spec.context is None:
            return self.function(**args)
        context = ToolContext(
            tool_call_id=tool_call_id,
            tool_name=self.name,
            signal=signal,
            on_update=on_update,
            event_sink=current_event_sink.get(),
        )
        return self.function(**args, **{spec.context: context})

    @property
    def spec(self) -> FunctionSpec:
        """What was read from the function."""
        if self._spec is None:
            self.check_bound()
            from yiemagent.tools.schema import function_spec  # Only when a function is really read.

            self._spec = function_spec(self.function, self._namespace)
            self._namespace = None
        return self._spec

    def check_bound(self) -> None:
        """Refuse a method that has no object to be called on.

        Raises:
            ConfigurationError: It is one.
        """
        if self.needs_object:
            raise ConfigurationError(
                f"tool {self.name!r} is a method without its object; "
                f"give the method of an instance (obj.{self.name})"
            )

    @property
    def plan_options(self) -> dict[str, Any]:
        """How arguments are checked beyond the schema; see ``compile_schema``."""
        return self.spec.plan_options

    def derive_description(self) -> str:
        """The docstring without its sections."""
        return self.spec.description

    def derive_schema(self) -> dict[str, Any]:
        """The schema of the signature."""
        return self.spec.schema

    def bind(self, instance: Any) -> FunctionBody:
        """The body of the method of *instance*."""
        return FunctionBody(types.MethodType(self.function, instance), self.name, self._namespace)

    def _python_arguments(self, spec: FunctionSpec, args: dict[str, Any]) -> dict[str, Any]:
        try:
            return spec.python_arguments(args)
        except (ValueError, TypeError, ArithmeticError, KeyError) as problem:
            error = ArgumentError((), f"{type(problem).__name__}: {problem}")
            raise InvalidArguments(argument_error_text(self, args, [error]), [error]) from problem

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spec": None, "_namespace": None}


class _MethodTool(Tool):
    """The tool of a method as it stands in its class, without an object to be called on."""

    def __get__(self, instance: Any, owner: Any = None) -> Tool:
        """Read from an instance, it is the tool of that instance's method."""
        body = self.execute
        if instance is None or not isinstance(body, FunctionBody):
            return self
        bound = body.bind(instance)
        own = {field.name: self.__dict__[field.name] for field in fields(Tool) if field.init}
        return Tool(**{**own, "execute": bound, "function": bound.function})


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    label: str | None = None,
    timeout: float | None = None,
    execution_mode: ExecutionMode | None = None,
    sequential: bool = False,
    isolation: Isolation = "thread",
    prepare_arguments: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None,
    validate_arguments: Callable[[Mapping[str, Any]], str | None] | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    label: str | None = None,
    timeout: float | None = None,
    execution_mode: ExecutionMode | None = None,
    sequential: bool = False,
    isolation: Isolation = "thread",
    prepare_arguments: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None,
    validate_arguments: Callable[[Mapping[str, Any]], str | None] | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> Any:
    """Make a tool of a plain typed function: ``@tool`` or ``@tool(timeout=5)``.

    The schema comes from the signature, the descriptions from the docstring (Google, NumPy or
    reST) or from ``Annotated[..., "text"]``. A parameter annotated ``ToolContext`` is filled in
    and hidden from the model. The result stays callable as the function it was.

    Args:
        function: A function, bound method, ``functools.partial`` or callable object.
        name: For the model; the function's name by default.
        description: For the model; from the docstring by default.
        label: For people.
        timeout: Seconds that one call may take.
        execution_mode: ``"sequential"`` makes its whole batch sequential.
        sequential: Short for ``execution_mode="sequential"``.
        isolation: ``"process"`` runs each call in a child process that can be killed.
        prepare_arguments: See ``Tool``, as for the next two.
        validate_arguments: Replaces the check for required arguments.
        annotations: Hints for hooks, such as ``{"destructiveHint": True}``.

    Raises:
        ConfigurationError: The function cannot be a tool; the message says why and what helps.
    """
    check_switch("sequential", sequential)
    if sequential and execution_mode == "parallel":
        raise ConfigurationError("sequential=True contradicts execution_mode='parallel'")
    options: dict[str, Any] = {
        "label": label,
        "timeout": timeout,
        "execution_mode": "sequential" if sequential else execution_mode,
        "isolation": isolation,
        "prepare_arguments": prepare_arguments,
        "validate_arguments": validate_arguments,
        "annotations": annotations if annotations is not None else {},
    }
    frame = sys._getframe(1)

    def decorate(function: Callable[..., Any]) -> Tool:
        return _make(function, name, description, options, frame)

    return decorate if function is None else decorate(function)


def as_tool(function_or_tool: ToolLike) -> Tool:
    """The tool itself, or the tool of a plain function; the same one each time for the same function.

    Raises:
        ConfigurationError: It is neither, or the function cannot be a tool.
    """
    if isinstance(function_or_tool, Tool):
        if type(function_or_tool.execute) is FunctionBody:
            function_or_tool.execute.check_bound()
        return function_or_tool
    if not isinstance(function_or_tool, types.FunctionType):
        return _make(function_or_tool, None, None, {}, None)
    kept = function_or_tool.__dict__.get(_MADE)
    # A wrapper made with functools.wraps has the attribute of what it wraps.
    if isinstance(kept, Tool) and kept.function is function_or_tool:
        return kept
    made = _make(function_or_tool, None, None, {}, None)
    made.execute.check_bound()  # type: ignore[attr-defined]
    setattr(function_or_tool, _MADE, made)
    return made


def as_tools(given: Iterable[ToolLike]) -> list[Tool]:
    """Each of them as ``as_tool`` gives it."""
    tools: list[Any] = list(given)
    # No step of Python for each that is a tool already: an agent is often made for each web request.
    return tools if {Tool}.issuperset(map(type, tools)) else list(map(as_tool, tools))


def _make(
    function: Any, name: str | None, description: str | None, options: Mapping[str, Any], frame: Any
) -> Tool:
    if isinstance(function, Tool):
        raise ConfigurationError(f"{function.name!r} is a tool already; change it with dataclasses.replace")
    if not callable(function) or isinstance(function, type):
        what = f"the class {function.__qualname__}" if isinstance(function, type) else repr(function)
        raise ConfigurationError(f"{what} is no tool; give a Tool, a function or an object with __call__")
    chosen = name if name is not None else _name_of(function)
    check_runs_synchronously(function, f"tool function {chosen}")
    problem = signature_problem(function)
    if problem is not None:
        raise ConfigurationError(f"tool function {chosen} {problem}")
    trivial = _is_trivial(function)
    local = not trivial and frame is not None and "<locals>" in getattr(function, "__qualname__", "")
    body = FunctionBody(function, chosen, dict(frame.f_locals) if local else None)
    kind = _MethodTool if body.needs_object else Tool
    made = kind(name=chosen, description=description, execute=body, function=function, **options)  # type: ignore[arg-type]
    if not trivial:
        _read(body)
    return made


def _is_trivial(function: Any) -> bool:
    """Whether nothing can be wrong with the annotations, so that they need not be read now."""
    if not isinstance(function, types.FunctionType):
        return False
    if _first_parameter(function) == "self":
        return True  # It cannot be read before it is bound.
    try:
        return _TRIVIAL.issuperset(function.__annotations__.values())
    except TypeError:
        return False  # Unhashable, such as Annotated with a dict.


def _read(body: FunctionBody) -> None:
    """Find out now what is wrong with annotations, unless they name what comes later."""
    try:
        body.derive_schema()
    except ConfigurationError as problem:
        if not isinstance(problem.__cause__, NameError):
            raise


def _name_of(function: Any) -> str:
    inner = function
    while not hasattr(inner, "__name__") and hasattr(inner, "func"):
        inner = inner.func
    name = getattr(inner, "__name__", None) or type(inner).__name__
    if name == "<lambda>":
        raise ConfigurationError(
            "a lambda has no name to call it by; write tool(name=...)(lambda ...) or a def"
        )
    return str(name)


def _first_parameter(function: Any) -> str | None:
    if not isinstance(function, types.FunctionType) or not function.__code__.co_argcount:
        return None
    return function.__code__.co_varnames[0]
