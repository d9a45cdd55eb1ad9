"""Checking a tool's structured answer against the schema that the server declared for it.

Source: protocol 2025-06-18 and later ("clients SHOULD validate"); field problems 41-43.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any

from yiemagent.mcp.results import McpTool

__all__ = ["check_output"]

logger = logging.getLogger(__name__)

MAX_SCHEMA_NODES = 5_000
"""A larger schema is not checked: it could keep the validator busy for ever."""


def check_output(tool: McpTool | None, result: Mapping[str, Any], label: str) -> tuple[str, ...]:
    """What is wrong with ``structuredContent``, for a warning; the answer is handed on all the same.

    Args:
        tool: The definition; None when it is not known.
        result: Of ``tools/call``.
        label: What messages call the server.
    """
    if tool is None or tool.output_schema is None or result.get("isError") is True:
        return ()
    problem = _problem(tool.output_schema, result)
    if problem is None:
        return ()
    logger.warning("server=%s tool=%s | %s", label, tool.name, problem)
    return (problem,)


def _problem(schema: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
    if "structuredContent" not in result:
        return "the tool declares an outputSchema, but the answer has no structuredContent"
    if sum(1 for _ in itertools.islice(_nodes(schema), MAX_SCHEMA_NODES + 1)) > MAX_SCHEMA_NODES:
        return f"the outputSchema has more than {MAX_SCHEMA_NODES:,} parts and was not checked"
    from yiemagent.tools.validator import make_validator, schema_problem

    broken = schema_problem(schema)
    if broken is not None:
        return f"the outputSchema is broken: {broken}"
    try:
        error = next(iter(make_validator(schema).iter_errors(result["structuredContent"])), None)
    except RecursionError:
        return "the outputSchema is nested too deeply to be checked"
    if error is None:
        return None
    where = ".".join(str(step) for step in error.absolute_path) or "its root"
    return f"structuredContent does not fit the outputSchema at {where} ({error.validator})"


def _nodes(value: Any) -> Any:
    stack = [value]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Mapping):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
