"""Names and ids of tool calls as providers write them, and as we keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yiemagent.model import ToolSpec
from yiemagent.tools.registry import ToolRegistry
from yiemagent.tools.tool import Tool

__all__ = ["call_id_of", "name_of", "resolve_name"]


def call_id_of(value: Any) -> str:
    """An id as text; empty when there is none: null, blank, or no scalar (A-24, A-27)."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else ""


def name_of(value: Any) -> str:
    """A name as text; empty when there is none."""
    return value.strip() if isinstance(value, str) else ""


def resolve_name(name: str, tools: Sequence[ToolSpec]) -> str:
    """The registered name that *name* means; *name* itself when none fits (decoding rule 8)."""
    for tool in tools:
        if tool.name == name:
            return name
    known = ToolRegistry(tool for tool in tools if isinstance(tool, Tool))
    found = known.resolve(name)
    return name if found is None else found.name
