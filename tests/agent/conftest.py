"""What tests of agents share: tools that wait at a gate, and events as words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.testing import Gate
from yiemagent.tools.tool import Tool


@pytest.fixture
def tool() -> Callable[..., Tool]:
    """``tool("name", execute, **fields)``: a tool that takes anything and by default says ``name done``."""

    def make(name: str, execute: Callable[..., Any] | None = None, **fields: Any) -> Tool:
        return Tool(
            name=name,
            description="A tool.",
            execute=execute or (lambda tool_call_id, args, signal, on_update: f"{name} done"),
            **fields,
        )

    return make


@pytest.fixture
def blocking(tool: Any) -> Callable[[Gate], Tool]:
    """A tool ``hangs`` that does not look at its signal and waits at *gate*."""
    return lambda gate: tool("hangs", lambda *args: gate.block(60))
