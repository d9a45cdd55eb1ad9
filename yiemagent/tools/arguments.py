"""The arguments of a call: repaired, coerced, checked, and never changed in place."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from yiemagent.data_class import dataclass
from yiemagent.tools.argument_errors import (
    ArgumentError,
    InvalidArguments,
    argument_error_text,
    malformed_arguments_text,
)
from yiemagent.tools.coercion import copy_json
from yiemagent.tools.plan import Plan, compile_schema
from yiemagent.tools.tool import Tool

__all__ = [
    "ArgumentError",
    "CheckedArguments",
    "InvalidArguments",
    "argument_error_text",
    "check_arguments",
    "malformed_arguments_text",
    "plan_of",
    "prepare_call_arguments",
]

_TOO_DEEP = ArgumentError((), "nested too deeply")


@dataclass(frozen=True, slots=True)
class CheckedArguments:
    """The outcome of ``check_arguments``."""

    arguments: dict[str, Any]
    """A copy of what was sent, coerced and with defaults; usable only when ``errors`` is empty."""
    errors: tuple[ArgumentError, ...] = ()


def prepare_call_arguments(tool: Tool, raw: Any) -> dict[str, Any]:
    """The arguments that the before hook and then *tool* get, made from what the model sent.

    In this order: the tool's ``prepare_arguments``, coercion and validation by its schema, its
    ``validate_arguments`` (decision 11). *raw* is never changed, and nothing of it is shared.

    Raises:
        InvalidArguments: With the text for the model.
    """
    prepared = _prepared(tool, raw)
    checked = check_arguments(tool, prepared)
    if checked.errors:
        raise InvalidArguments(argument_error_text(tool, raw, checked.errors), checked.errors)
    if tool.validate_arguments is not None:
        _ask_validate_arguments(tool, checked.arguments)
    return checked.arguments


def check_arguments(tool: Tool, raw: Any) -> CheckedArguments:
    """Coerce and check *raw* by the schema of *tool*, and fill in top-level defaults.

    Args:
        tool: Its plan is made on the first call and kept.
        raw: An object, the JSON text of one, or None or blank text for no arguments.

    Source: the coercion table, facts TC-10 to TC-20, cases A-11, C-23,
    C-25, C-26, C-52.
    """
    plan: Plan | None = tool._cache.get("plan")
    if plan is None:
        plan = plan_of(tool)
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        raw = {}
    errors: list[ArgumentError] = []
    try:
        arguments = plan.check(raw, None, errors, True)
        if not isinstance(arguments, dict):
            return CheckedArguments({}, tuple(errors))
        for name, default in plan.defaults:
            if name not in arguments:
                arguments[name] = copy_json(default)
        if not plan.covered:
            _check_the_rest(tool, arguments, errors)
        # A value that is wrong was not copied.
        return CheckedArguments(copy_json(arguments) if errors else arguments, tuple(errors))
    except RecursionError:
        return CheckedArguments({}, (_TOO_DEEP,))


def plan_of(tool: Tool) -> Plan:
    """The plan of the tool's schema, made once."""
    options = getattr(tool.execute, "plan_options", {})
    plan = compile_schema(tool.input_schema, required=tool.validate_arguments is None, **options)
    tool._cache["plan"] = plan
    return plan


def _check_the_rest(tool: Tool, arguments: dict[str, Any], errors: list[ArgumentError]) -> None:
    """Add what only jsonschema sees, at places that have no error yet."""
    from yiemagent.tools.validator import find_errors, make_validator

    validator = tool._cache.get("validator")
    if validator is None:
        validator = tool._cache["validator"] = make_validator(tool.input_schema)
    known = {error.path for error in errors}
    for error in find_errors(validator, arguments):
        missing_argument = error.message == "missing" and len(error.path) == 1
        if error.path not in known and not (missing_argument and tool.validate_arguments is not None):
            known.add(error.path)
            errors.append(error)


def _prepared(tool: Tool, raw: Any) -> Any:
    if tool.prepare_arguments is None:
        return raw
    given = copy.deepcopy(raw)
    try:
        prepared = tool.prepare_arguments(given)
    except Exception as problem:
        raise InvalidArguments(str(problem) or type(problem).__name__) from problem
    if prepared is None:
        return given
    if not isinstance(prepared, (Mapping, str)):
        kind = type(prepared).__name__
        raise InvalidArguments(f"prepare_arguments of tool {tool.name!r} must return an object, got {kind}")
    return prepared


def _ask_validate_arguments(tool: Tool, arguments: dict[str, Any]) -> None:
    assert tool.validate_arguments is not None
    try:
        verdict: Any = tool.validate_arguments(arguments)
    except Exception as problem:
        raise InvalidArguments(str(problem) or type(problem).__name__) from problem
    if isinstance(verdict, str) and verdict:
        raise InvalidArguments(verdict)
    if verdict is False:
        raise InvalidArguments(f'Invalid arguments for tool "{tool.name}"')
