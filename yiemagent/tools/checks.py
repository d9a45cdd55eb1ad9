"""What is checked when a tool is made, so that it is not found out at the first request."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

from yiemagent.errors import ConfigurationError
from yiemagent.tools.plan import compile_schema
from yiemagent.tools.wire_schema import dangling_reference, is_object_schema
from yiemagent.value_checks import check_type

__all__ = ["check_name", "check_runs_synchronously", "check_tool", "signature_problem"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_EXECUTION_MODES = (None, "parallel", "sequential")
_ISOLATIONS = ("thread", "process")
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def check_tool(tool: Any, *, schema: Any) -> None:
    """Check the fields of a ``Tool``.

    Args:
        tool: The tool.
        schema: Its schema if one was given; None when it is made from a function, and trusted.

    Raises:
        ConfigurationError: Names the tool, what is wrong with it, and the way out.
    """
    check_name(tool.name)
    if not callable(tool.execute):
        raise ConfigurationError(f"execute of tool {tool.name!r} must be callable, got {tool.execute!r}")
    if not hasattr(tool.execute, "derive_schema"):  # Else it is made from a function, and checked.
        check_runs_synchronously(tool.execute, f"execute of tool {tool.name!r}")
        _check_execute_signature(tool)
    for hook in ("prepare_arguments", "validate_arguments"):
        if getattr(tool, hook) is not None and not callable(getattr(tool, hook)):
            raise ConfigurationError(f"{hook} of tool {tool.name!r} must be callable or None")
    if tool.execution_mode not in _EXECUTION_MODES:
        raise ConfigurationError(
            f"execution_mode of tool {tool.name!r} must be 'parallel', 'sequential' or None, "
            f"got {tool.execution_mode!r}"
        )
    if tool.isolation not in _ISOLATIONS:
        raise ConfigurationError(
            f"isolation of tool {tool.name!r} must be 'thread' or 'process', got {tool.isolation!r}"
        )
    if tool.timeout is not None and not _is_positive(tool.timeout):
        raise ConfigurationError(
            f"timeout of tool {tool.name!r} must be a number of seconds above 0 or None, got {tool.timeout!r}"
        )
    check_type(f"label of tool {tool.name!r}", tool.label, str)
    check_type(f"annotations of tool {tool.name!r}", tool.annotations, Mapping, none=False)
    check_type(f"output_schema of tool {tool.name!r}", tool.output_schema, Mapping)
    description = tool.__dict__["description"]
    if description is not None and not isinstance(description, str):
        raise ConfigurationError(f"description of tool {tool.name!r} must be a str, got {description!r}")
    if schema is not None:
        _check_schema(tool, schema)


def check_name(name: Any) -> None:
    """Refuse a name that providers refuse (case C-15): one such fails every request.

    Raises:
        ConfigurationError: The name is none of ``^[a-zA-Z0-9_-]{1,64}$``.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"tool name {name!r} cannot be used: providers take 1 to 64 ASCII letters, digits, '_' and '-' "
            "only; give another name (name=...)"
        )


def check_runs_synchronously(function: Any, what: str) -> None:
    """Refuse coroutine functions, asynchronous generators and generator functions (cases D-26, D-27).

    Raises:
        ConfigurationError: *what* is one.
    """
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        inner = inspect.unwrap(function) if callable(function) else function
        inner = getattr(inner, "func", inner)  # functools.partial
        if not inspect.isroutine(inner):
            inner = getattr(type(inner), "__call__", inner)  # noqa: B004  (its code is wanted)
        code = getattr(inner, "__code__", None)
    flags = getattr(code, "co_flags", 0)
    if flags & inspect.CO_COROUTINE:
        raise ConfigurationError(
            f"{what} is a coroutine function (async def), and nobody would await it: "
            "make it a plain function that calls asyncio.run(...) inside"
        )
    if flags & _GENERATORS:
        raise ConfigurationError(
            f"{what} is a generator function: return the whole value, such as a list, "
            "and report progress through ToolContext.update"
        )


def signature_problem(function: Callable[..., Any]) -> str | None:
    """Why arguments by name cannot be given to *function*, or None.

    For a plain function this reads its code object only: a signature would cost ten times as much.
    """
    if isinstance(function, types.FunctionType) and not hasattr(function, "__wrapped__"):
        code = function.__code__
        if not code.co_posonlyargcount and not code.co_flags & inspect.CO_VARARGS:
            return None
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return "has no signature that can be read; wrap it in a function with annotated parameters"
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return f"has *{parameter.name}, but models give arguments by name; take a list instead"
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            return f"has the positional-only parameter {parameter.name!r}, but models give arguments by name"
    return None


def _check_execute_signature(tool: Any) -> None:
    execute = tool.execute
    if not isinstance(execute, types.FunctionType):
        return
    code = execute.__code__
    optional = len(execute.__defaults__ or ())
    takes_four = code.co_argcount - optional <= 4 and (
        code.co_argcount >= 4 or code.co_flags & inspect.CO_VARARGS
    )
    if not takes_four and not hasattr(execute, "__wrapped__"):
        raise ConfigurationError(
            f"execute of tool {tool.name!r} is called as execute(tool_call_id, args, signal, on_update), "
            f"which {execute.__qualname__} cannot take; for a plain function with its own arguments use @tool"
        )


def _is_positive(seconds: Any) -> bool:
    return isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0


def _check_schema(tool: Any, schema: Any) -> None:
    if not isinstance(schema, Mapping):
        raise ConfigurationError(
            f"input_schema of tool {tool.name!r} must be a JSON schema object, got {type(schema).__name__}"
        )
    if not is_object_schema(schema):
        raise ConfigurationError(
            f"input_schema of tool {tool.name!r} must have an object at its root, got type "
            f"{schema.get('type')!r}; tools take named arguments, so wrap it: "
            '{"type": "object", "properties": {"value": ...}}'
        )
    options = getattr(tool.execute, "plan_options", {})
    plan = compile_schema(schema, required=tool.validate_arguments is None, **options)
    problem = plan.broken
    if problem is None and not plan.covered:
        from yiemagent.tools.validator import schema_problem

        problem = schema_problem(schema)
    if problem is not None:
        raise ConfigurationError(f"input_schema of tool {tool.name!r} is broken at {problem}")
    missing = dangling_reference(schema) if plan.refers or not plan.covered else None
    if missing is not None:
        tolerate = getattr(tool.execute, "tolerate_reference", None)
        if tolerate is None:
            raise ConfigurationError(
                f"input_schema of tool {tool.name!r} refers to {missing}; define it there, or leave it out"
            )
        tolerate(missing)
    tool._cache["plan"] = plan
