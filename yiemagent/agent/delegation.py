"""An agent as a tool of another: a plain blocking call that inherits abort, deadline and budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yiemagent.abort import AbortSignal
from yiemagent.agent.prompts import as_user_messages
from yiemagent.agent.tickets import RunHandle, Ticket
from yiemagent.tools.tool import OnUpdate, Tool, ToolResult

if TYPE_CHECKING:
    from yiemagent.agent.agent import Agent

__all__ = ["agent_tool"]


def agent_tool(agent: Agent, name: str, description: str, *, keep_history: bool = False) -> Tool:
    """The tool behind ``Agent.as_tool``."""

    def execute(
        tool_call_id: str, args: dict[str, Any], signal: AbortSignal, on_update: OnUpdate, /
    ) -> ToolResult:
        worker = agent if keep_history else agent.clone()
        worker._refuse_own_run(name)
        ticket = Ticket(as_user_messages(args["prompt"]), handle=RunHandle())
        try:
            result = worker._call(ticket, None, signal)
        finally:
            if not keep_history:
                worker.stop(0)
        return ToolResult(
            result.text,  # type: ignore[arg-type]
            details={"status": result.status, "new_messages": len(result.new_messages)},
            usage=result.usage,
        )

    return Tool(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": {"prompt": {"type": "string", "description": "What the agent is asked to do."}},
            "required": ["prompt"],
        },
        execute=execute,
    )
