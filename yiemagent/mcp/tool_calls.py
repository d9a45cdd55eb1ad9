"""Listing a server's tools and calling one, with what the definition of the tool asks for.

Source: protocol 2025-11-25 "Tasks", 2026-07-28 "Custom Headers from Tool Parameters"; mcp quirk 14.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from yiemagent.mcp.call import Call
from yiemagent.mcp.calls import Calls
from yiemagent.mcp.headers import parameter_headers, read_parameter_headers
from yiemagent.mcp.jsonrpc import HEADER_MISMATCH, Message, error_of, make_result, result_of
from yiemagent.mcp.lists import TOOLS, Lists
from yiemagent.mcp.results import McpTool
from yiemagent.mcp.waiting import pause

__all__ = ["ToolCalls"]

logger = logging.getLogger(__name__)

TASK_TTL_MS = 3_600_000
"""How long a server is asked to keep the result of a task when the call has no limit."""
POLL_SECONDS = (0.05, 30.0)
"""Bounds of the time between two questions about a task, whatever the server wishes."""
_OVER = ("completed", "failed", "cancelled", "input_required")
"""States of a task in which ``tasks/result`` is due."""


class ToolCalls:
    """Calls tools, knowing their definitions where they matter.

    Args:
        calls: Where requests go.
        lists: Where definitions come from.
        label: What messages call the server.
    """

    def __init__(self, calls: Calls, lists: Lists, label: str) -> None:
        self._calls = calls
        self._lists = lists
        self._label = label
        # Guards the next two, which are replaced together.
        self._lock = threading.Lock()
        self._tools: Mapping[str, McpTool] | None = None
        self._headers: Mapping[str, Mapping[str, tuple[str, ...]]] = {}

    def list(
        self, call: Call, *, refresh: bool = False, session_id: str | None = None
    ) -> tuple[McpTool, ...]:
        """The tools that may be offered, in the server's order; their definitions are remembered.

        A tool whose ``x-mcp-header`` annotations are broken is left out with a warning, on wires
        that have headers. Raises as ``Lists.collect`` does.
        """
        session, members = self._lists.collect(TOOLS, call, refresh=refresh, session_id=session_id)
        tools = [McpTool.read(member) for member in members]
        headers: dict[str, Mapping[str, tuple[str, ...]]] = {}
        if session.era.request_meta and getattr(session.connection, "mirrors_headers", True):
            for tool in tools:
                try:
                    headers[tool.name] = read_parameter_headers(tool.input_schema)
                except ValueError as exc:
                    logger.warning("server=%s tool=%s | left out: %s", self._label, tool.name, exc)
            tools = [tool for tool in tools if tool.name in headers]
        with self._lock:
            self._tools = {tool.name: tool for tool in tools}
            self._headers = {name: paths for name, paths in headers.items() if paths}
        return tuple(tools)

    def definition(self, name: str) -> McpTool | None:
        """The tool as it was last listed, or None."""
        tools = self._tools
        return None if tools is None else tools.get(name)

    def run(
        self, name: str, arguments: Mapping[str, Any] | None, call: Call, session_id: str | None
    ) -> Message:
        """Call a tool and return the response as it came.

        Args:
            name: As the server calls it.
            arguments: Of the tool.
            call: The limits.
            session_id: ``sessionId`` of the plain dialect, used only there.

        Raises:
            McpTimeout, RunAborted, McpConnectionError, McpProtocolError: As of ``Calls.request``.
        """
        params: dict[str, Any] = {"name": name, "arguments": arguments if arguments is not None else {}}
        session = self._calls.session(call)
        if session_id and session.era.session_in_params:
            params["sessionId"] = session_id
        if session.has_tasks and self._needs_task(name, call):
            return self._run_task(params, call)
        headers = self._mirrored(name, params["arguments"]) if self._headers else None
        session, response = self._calls.request("tools/call", params, call, headers)
        if "error" in response and session.era.request_meta:
            error = error_of(response)
            if error is not None and error.code == HEADER_MISMATCH:
                # The definition has changed, or was never seen; the server has not carried this out.
                self.list(call, refresh=True)
                headers = self._mirrored(name, params["arguments"])
                _, response = self._calls.request("tools/call", params, call, headers)
        return response

    def _mirrored(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, str] | None:
        paths = self._headers.get(name)
        return None if paths is None else parameter_headers(paths, arguments)

    # --- tasks of protocol 2025-11-25

    def _needs_task(self, name: str, call: Call) -> bool:
        if self._tools is None:
            self.list(call, refresh=True)
        tool = self.definition(name)
        return tool is not None and tool.needs_task

    def _run_task(self, params: Mapping[str, Any], call: Call) -> Message:
        remaining = call.deadline.remaining()
        ttl = TASK_TTL_MS if remaining is None else max(1, int(remaining * 1000))
        _, response = self._calls.request("tools/call", {**params, "task": {"ttl": ttl}}, call)
        if error_of(response) is not None:
            return response
        task = result_of(response).get("task")
        if not isinstance(task, Mapping) or not isinstance(task.get("taskId"), str):
            return response
        try:
            return self._await_task(task, call)
        except BaseException:
            self._calls.tell_later("tasks/cancel", {"taskId": task["taskId"]})
            raise

    def _await_task(self, task: Mapping[str, Any], call: Call) -> Message:
        reference = {"taskId": task["taskId"]}
        while task.get("status") not in _OVER:
            wish = task.get("pollInterval")
            seconds = wish / 1000 if isinstance(wish, int | float) else 1.0
            least, most = POLL_SECONDS
            pause(min(max(seconds, least), most), call.deadline, call.signal, "waiting for a task")
            task = result_of(self._calls.request("tasks/get", reference, call)[1])
            self._calls.task_progress(task, call)
        _, response = self._calls.request("tasks/result", reference, call)
        if error_of(response) is None and task.get("status") == "failed":
            result = result_of(response)
            return make_result(response.get("id"), {"isError": True, **result})
        return response

    def forget(self) -> None:
        """Begin without definitions in a forked child."""
        self._lock = threading.Lock()
        self._tools, self._headers = None, {}
