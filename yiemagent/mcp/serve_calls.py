"""Running one tool for a client: in a child process or under a time limit where the tool wants that."""

from __future__ import annotations

import contextvars
import logging
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.kept_thread import KeptThread
from yiemagent.mcp.serve_session import Incoming
from yiemagent.mcp.waiting import Outcome
from yiemagent.tools.result import as_tool_result, error_result
from yiemagent.tools.tool import Tool, ToolResult

__all__ = ["run_tool"]

logger = logging.getLogger(__name__)


class _Outcome:
    """What a tool returned, and what a model reads of it."""

    def __init__(self) -> None:
        self.returned: Any = None
        self.result: ToolResult | None = None
        self.ready: Outcome[None] = Outcome()


def run_tool(tool: Tool, arguments: dict[str, Any], incoming: Incoming) -> tuple[Any, ToolResult]:
    """Run *tool* and wait for it, at most as long as its own ``timeout`` says.

    Returns:
        What it returned, and that as a result; an error result when it raised or took too long.
        A tool that is left goes on with its signal aborted, on a thread of its own.
    """
    outcome = _Outcome()
    if tool.timeout is None:
        _execute(tool, arguments, incoming, incoming.signal, outcome)
    else:
        signal = AbortSignal(incoming.signal)
        context = contextvars.copy_context()
        thread = KeptThread("mcp-tool")
        withdraw = incoming.signal.on_abort(lambda: outcome.ready.settle(None))
        thread.start(lambda: context.run(_execute, tool, arguments, incoming, signal, outcome))
        outcome.ready.wait(tool.timeout)
        thread.leave()
        withdraw()
        signal.detach()
        if outcome.result is None:
            signal.abort("timeout")
            text = f"Tool {tool.name} did not finish within {tool.timeout:g} s; it may still be running"
            return None, error_result(text, "tool_timeout", timeout=tool.timeout)
    assert outcome.result is not None
    return outcome.returned, outcome.result


def _execute(
    tool: Tool, arguments: dict[str, Any], incoming: Incoming, signal: AbortSignal, outcome: _Outcome
) -> None:
    call_id = f"mcp-{incoming.id}"
    try:
        if tool.isolation == "process":
            from yiemagent.tools.process import run_in_process

            returned: Any = run_in_process(tool, call_id, arguments, signal, incoming.progress)
        else:
            returned = tool.execute(call_id, arguments, signal, incoming.progress)
        outcome.returned, outcome.result = returned, as_tool_result(returned)
    except BaseException as exc:
        logger.info("tool=%s | raised %s: %s", tool.name, type(exc).__name__, exc)
        outcome.returned = None
        outcome.result = error_result(f"{type(exc).__name__}: {exc}", "tool_exception")
    finally:
        outcome.ready.settle(None)
