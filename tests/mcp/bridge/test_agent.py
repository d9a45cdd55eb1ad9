"""An agent that uses the tools of MCP servers: the walkthroughs, over a real transport."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.errors import McpError
from yiemagent.mcp.bridge import ToolSource
from yiemagent.mcp.client import McpClient
from yiemagent.testing import ScriptedLlm, call, calls, say
from yiemagent.testing.memory_mcp import ScriptedMcpServer

WEATHER = {
    "name": "getWeather",
    "description": "Get the weather.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def _tool_results(agent: Agent) -> list[Any]:
    return [message for message in agent.messages if message.role == "tool_result"]


def test_an_agent_discovers_and_calls_the_tools_of_a_server() -> None:
    """WT-001, WT-020, WT-021."""
    answer = {"content": [{"type": "text", "text": "Sunny, 22°C"}], "isError": False}
    server = ScriptedMcpServer(tools=[WEATHER], on={"tools/call": lambda request, end: answer})
    llm = ScriptedLlm(calls(call("getWeather", city="Bangkok")), say("It is sunny."))
    with McpClient(server.transport()) as mcp, Agent(llm, mcp_server=mcp) as agent:
        assert agent.run("Weather in Bangkok?", timeout=5).text == "It is sunny."
        (result,) = _tool_results(agent)
        assert (result.text, result.is_error, result.trust) == ("Sunny, 22°C", False, "untrusted")
    sent = server.wait_for("tools/call")["params"]
    assert (sent["name"], sent["arguments"]) == ("getWeather", {"city": "Bangkok"})


def test_the_next_turn_sees_the_error_of_a_server() -> None:
    """WT-022: MCP error: <message>."""
    server = ScriptedMcpServer(
        tools=[WEATHER], on={"tools/call": lambda r, end: end.refuse(r, -32601, "Method not found")}
    )
    llm = ScriptedLlm(calls(call("getWeather", city="x")), say("It failed."))
    with McpClient(server.transport()) as mcp, Agent(llm, mcp_server=mcp) as agent:
        agent.run("Weather?", timeout=5)
        (result,) = _tool_results(agent)
    assert (result.text, result.is_error) == ("MCP error: Method not found", True)
    assert result.details["error_type"] == "mcp_error"


def test_a_server_that_is_lost_costs_one_call_and_not_the_run() -> None:
    """NFR-202; runbook 4: MCP call error: <message>; the next call starts it again."""
    died: list[bool] = []

    def answer(request: Any, end: Any) -> Any:
        if not died:
            died.append(True)
            end.die("exit code 9")
            return None
        return {"content": [{"type": "text", "text": "Sunny"}]}

    server = ScriptedMcpServer(tools=[WEATHER], on={"tools/call": answer})
    asking = [calls(call("getWeather", city="x")) for _ in range(2)]
    llm = ScriptedLlm(*asking, say("Sunny at last."))
    with McpClient(server.transport()) as mcp, Agent(llm, mcp_server=mcp) as agent:
        assert agent.run("Weather?", timeout=5).text == "Sunny at last."
        assert [result.text for result in _tool_results(agent)] == ["MCP call error: exit code 9", "Sunny"]


def test_several_servers_with_choices_are_joined() -> None:
    """Issue 5 part 5: one or several; prefix; allow-lists."""
    one = ScriptedMcpServer(tools=[WEATHER, {"name": "deleteAll"}])
    other = ScriptedMcpServer(tools=[WEATHER])
    llm = ScriptedLlm(calls(call("b_getWeather", city="x")), say("Done."))
    with McpClient(one.transport()) as a, McpClient(other.transport()) as b:
        sources = [ToolSource(a, allow=["get*"]), ToolSource(b, prefix="b_")]
        with Agent(llm, mcp_server=sources) as agent:
            agent.run("Go", timeout=5)
    offered = [tool.name for tool in llm.requests[0].tools]
    assert offered == ["getWeather", "b_getWeather"]
    assert other.wait_for("tools/call")["params"]["name"] == "getWeather"


def test_a_server_that_cannot_be_asked_is_not_a_server_without_tools() -> None:
    """Runbook 2.3: loud."""
    server = ScriptedMcpServer(on={"tools/list": lambda r, end: end.refuse(r, -32000, "down")})
    with McpClient(server.transport()) as mcp, Agent(ScriptedLlm(say("x")), mcp_server=mcp) as agent:
        with pytest.raises(McpError, match="down"):
            agent.run("Go", timeout=5)


def test_tools_that_change_are_picked_up_by_the_next_turn() -> None:
    """E-15."""
    server = ScriptedMcpServer(versions=("2025-11-25",), tools=[WEATHER])
    llm = ScriptedLlm(say("one"), say("two"))
    with McpClient(server.transport()) as mcp, Agent(llm, mcp_server=mcp) as agent:
        agent.run("Go", timeout=5)
        server.tools = [WEATHER, {"name": "new"}]
        server.tell("notifications/tools/list_changed")
        server.ask(1, "ping")
        agent.run("Go on", timeout=5)
    assert [[tool.name for tool in context.tools] for context in llm.requests] == [
        ["getWeather"],
        ["getWeather", "new"],
    ]
