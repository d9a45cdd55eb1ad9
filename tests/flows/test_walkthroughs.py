"""The walkthroughs WT-001 to WT-032, followed with the public API only (docs/walkthroughs.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from yiemagent import Agent, BeforeToolCallResult
from yiemagent.errors import AgentStopped, ConfigurationError, LlmTimeout
from yiemagent.events import AgentEnd, AgentStart, Event
from yiemagent.messages import AssistantMessage, ToolResultMessage, UserMessage
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, calls, run_in_thread, say


class WeatherServer:
    """An MCP server as the Julia design has it: a callable that returns JSON-RPC responses."""

    def __init__(self, *pages: Mapping[str, Any], answer: Mapping[str, Any] | None = None) -> None:
        self._pages = pages or ({"tools": [_listed("get_weather")]},)
        self._answer = answer or {"result": {"content": [{"type": "text", "text": "Sunny, 22°C"}]}}
        self.calls: list[tuple[Any, ...]] = []

    def __call__(
        self, method: str, *args: Any, event_sink: Any = None, cursor: Any = None
    ) -> Mapping[str, Any]:
        self.calls.append((method, *args))
        if method == "tools/list":
            return {"jsonrpc": "2.0", "id": 1, "result": self._pages[int(cursor or 0)]}
        return {"jsonrpc": "2.0", "id": 2, **self._answer}


def _listed(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"name": name, "description": "The weather in a city.", "inputSchema": schema}


def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Its name.
    """
    return f"{city}: 22 degrees"


def _results(agent: Agent) -> list[ToolResultMessage]:
    return [message for message in agent.messages if isinstance(message, ToolResultMessage)]


def _answered(llm_answer: Mapping[str, Any]) -> tuple[Any, list[Mapping[str, Any]]]:
    """An ``llm_call`` that gives *llm_answer* first and plain text afterwards, and what it was asked."""
    requests: list[Mapping[str, Any]] = []
    answers = iter(
        [llm_answer, {"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]
    )

    def llm_call(request: Mapping[str, Any], *, event_sink: Any = None) -> Mapping[str, Any]:
        requests.append(request)
        return next(answers)

    return llm_call, requests


# -- External caller ---------------------------------------------------------------------


def test_an_agent_is_made_from_a_model_and_a_server_and_contacts_neither_yet() -> None:
    """WT-001: creation; discovery happens with the first message, not in the constructor."""
    server = WeatherServer()
    llm = ScriptedLlm("Hello")

    with Agent(llm, mcp_server=server, system_prompt="You are a helpful assistant") as agent:
        assert server.calls == []
        assert llm.requests == []
        agent.run("hi", timeout=WAIT)

    assert server.calls[0][0] == "tools/list"
    assert [tool.name for tool in llm.requests[0].tools] == ["get_weather"]
    assert llm.requests[0].system_prompt == "You are a helpful assistant"


def test_a_prompt_returns_the_agent_at_once_while_the_model_is_still_thinking() -> None:
    """WT-002: promptAgent puts the message into the input channel and returns the agent."""
    gate = Gate()
    with Agent(ScriptedLlm(say("It rains.", before=gate))) as agent:
        assert agent.prompt("What's the weather?") is agent
        gate.wait_entered()
        gate.open()
        assert agent.take_response(WAIT)["content"][0]["text"] == "It rains."


def test_the_response_is_an_openai_dict_without_the_reasoning() -> None:
    """WT-003: takeResponse unblocks with the answer; what the model thought is left out."""
    llm = ScriptedLlm(calls(call("get_weather", city="Tokyo")), say("22 degrees.", reasoning="hmm"))
    with Agent(llm, tools=[get_weather]) as agent:
        response = agent.prompt("What's the weather in Tokyo?").take_response(WAIT)

    assert response == {"role": "assistant", "content": [{"type": "text", "text": "22 degrees."}]}


def test_a_follow_up_sent_while_a_tool_runs_is_answered_next_in_the_same_run() -> None:
    """WT-004: followUp while busy; one run, two responses, in order."""
    gate = Gate()
    events: list[Event] = []

    def slow_weather(city: str) -> str:
        """The weather, after a while."""
        gate.block()
        return f"{city}: 22 degrees"

    llm = ScriptedLlm(calls(call("slow_weather", city="Tokyo")), "Tokyo is fine.", "Seoul is fine.")
    with Agent(llm, tools=[slow_weather]) as agent:
        agent.subscribe(events.append)
        agent.prompt("What's the weather in Tokyo?")
        gate.wait_entered()
        assert agent.follow_up("Also check Seoul") is True
        gate.open()
        texts = [agent.take_response(WAIT)["content"][0]["text"] for _ in range(2)]
        assert agent.wait_for_idle(WAIT)

    assert texts == ["Tokyo is fine.", "Seoul is fine."]
    assert [type(event) for event in events if isinstance(event, (AgentStart, AgentEnd))] == [
        AgentStart,
        AgentEnd,
    ]


def test_stop_ends_the_agent_and_wakes_whoever_waits() -> None:
    """WT-005: stopAgent; afterwards nothing is taken and nobody hangs."""
    agent = Agent(ScriptedLlm())
    waiting = run_in_thread(agent.take_response)

    assert agent.stop() is True

    with pytest.raises(AgentStopped):
        waiting.get()
    with pytest.raises(AgentStopped):
        agent.prompt("anybody there?")
    assert agent.stop() is True


# -- LLM provider ------------------------------------------------------------------------


def test_the_model_gets_the_request_in_openai_format() -> None:
    """WT-010: system, user, assistant and tool messages, and the tools as functions."""
    tool_call = {"id": "call_1", "function": {"name": "get_weather", "arguments": '{"city": "Bangkok"}'}}
    llm_call, requests = _answered(
        {"message": {"role": "assistant", "tool_calls": [tool_call]}, "finish_reason": "tool_calls"}
    )
    with Agent(llm_call, tools=[get_weather], system_prompt="Be brief") as agent:
        agent.run("What's the weather?", timeout=WAIT)

    first, second = requests
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert first["tools"][0]["function"]["name"] == "get_weather"
    assert first["tools"][0]["function"]["parameters"]["properties"]["city"]["type"] == "string"
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["messages"][-1]["tool_call_id"] == second["messages"][-2]["tool_calls"][0]["id"] == "call_1"
    assert second["messages"][-1]["content"] == "Bangkok: 22 degrees"


def test_an_answer_without_tool_calls_ends_the_loop() -> None:
    """WT-011: text only; one model call, and the text is the response."""
    answer = {"message": {"role": "assistant", "content": "It's 22°C in Bangkok"}, "finish_reason": "stop"}
    llm_call, requests = _answered(answer)
    with Agent(llm_call) as agent:
        result = agent.run("What's the weather?", timeout=WAIT)

    assert result.text == "It's 22°C in Bangkok"
    assert len(requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "reasoning_content": "I need to call get_weather...",
                "tool_calls": [
                    {"id": "call_1", "function": {"name": "get_weather", "arguments": '{"city":"Bangkok"}'}}
                ],
            },
        },
        {
            "finish_reason": "tool_calls",
            "content": [
                {
                    "type": "tool_calls",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "function": {"name": "get_weather", "arguments": '{"city":"Bangkok"}'},
                        }
                    ],
                }
            ],
        },
    ],
    ids=["message.tool_calls", "content items"],
)
def test_an_answer_with_tool_calls_runs_them_and_asks_again(answer: Mapping[str, Any]) -> None:
    """WT-012: both response shapes; the reasoning is kept apart from the text."""
    llm_call, requests = _answered(answer)
    with Agent(llm_call, tools=[get_weather]) as agent:
        result = agent.run("What's the weather in Bangkok?", timeout=WAIT)
        (tool_result,) = _results(agent)

    assert len(requests) == 2
    assert tool_result.text == "Bangkok: 22 degrees"
    assert result.text == "done"
    first = result.new_messages[1]
    assert isinstance(first, AssistantMessage)
    assert first.tool_calls[0].arguments == {"city": "Bangkok"}
    assert first.text == ""


# -- MCP server --------------------------------------------------------------------------


def test_all_pages_of_a_servers_tools_are_discovered() -> None:
    """WT-020: tools/list until there is no cursor any more."""
    server = WeatherServer(
        {"tools": [_listed("get_weather")], "nextCursor": "1"},
        {"tools": [_listed("get_forecast")], "nextCursor": ""},
    )
    llm = ScriptedLlm("ready")
    with Agent(llm, mcp_server=server) as agent:
        agent.run("hi", timeout=WAIT)

    assert [method for method, *_ in server.calls] == ["tools/list", "tools/list"]
    assert [tool.name for tool in llm.requests[0].tools] == ["get_weather", "get_forecast"]


def test_the_tools_of_a_server_are_there_in_every_run_and_in_every_clone() -> None:
    """WT-020: discovered once, offered each time."""
    server = WeatherServer()
    llm = ScriptedLlm("one", "two", "three")
    with Agent(llm, mcp_server=server) as agent, agent.clone() as other:
        agent.run("hi", timeout=WAIT)
        agent.run("hi again", timeout=WAIT)
        other.run("hi from the clone", timeout=WAIT)

    assert [[tool.name for tool in request.tools] for request in llm.requests] == [["get_weather"]] * 3
    assert [method for method, *_ in server.calls] == ["tools/list"]


def test_a_tool_of_a_server_is_called_and_its_text_is_the_result() -> None:
    """WT-021: tools/call with name and arguments; the text content goes to the model."""
    server = WeatherServer()
    llm = ScriptedLlm(calls(call("get_weather", city="Bangkok")), "Sunny.")
    with Agent(llm, mcp_server=server) as agent:
        assert agent.run("What's the weather?", timeout=WAIT).text == "Sunny."
        (tool_result,) = _results(agent)

    method, name, arguments, *_ = server.calls[-1]
    assert (method, name, arguments) == ("tools/call", "get_weather", {"city": "Bangkok"})
    assert tool_result.text == "Sunny, 22°C"
    assert not tool_result.is_error
    assert tool_result.trust == "untrusted"


def test_an_error_of_a_server_is_a_result_that_the_model_reads() -> None:
    """WT-022: a JSON-RPC error never ends the run."""
    server = WeatherServer(answer={"error": {"code": -32601, "message": "Method not found"}})
    llm = ScriptedLlm(calls(call("get_weather", city="Bangkok")), "I cannot see the weather.")
    with Agent(llm, mcp_server=server) as agent:
        result = agent.run("What's the weather?", timeout=WAIT)
        (tool_result,) = _results(agent)

    assert tool_result.text == "MCP error: Method not found"
    assert tool_result.is_error
    assert tool_result.details["error_type"] == "mcp_error"
    assert result.text == "I cannot see the weather."


# -- Error paths and edge cases ----------------------------------------------------------


def test_a_model_that_times_out_raises_where_the_response_is_awaited() -> None:
    """WT-030: takeResponse does not hang; the error is raised, and the agent stays usable."""
    llm = ScriptedLlm(LlmTimeout("the provider was silent for 60 s"), "There I am.")
    with Agent(llm) as agent:
        agent.prompt("What's the weather?")
        with pytest.raises(LlmTimeout, match="silent for 60 s"):
            agent.take_response(WAIT)
        assert agent.run("And now?", timeout=WAIT).text == "There I am."


def test_an_exception_of_a_tool_is_a_result_that_the_model_reads() -> None:
    """WT-031: the next model call has the error in its history."""

    def broken(city: str) -> str:
        """A tool that fails."""
        raise ConnectionError(f"no route to {city}")

    llm = ScriptedLlm(calls(call("broken", city="Bangkok")), "It failed.")
    with Agent(llm, tools=[broken]) as agent:
        assert agent.run("Try it", timeout=WAIT).text == "It failed."
        (tool_result,) = _results(agent)

    assert tool_result.is_error
    assert "no route to Bangkok" in tool_result.text
    assert llm.requests[1].messages[-1] == tool_result


def test_a_before_hook_blocks_a_call() -> None:
    """WT-032: the tool does not run, the model reads why."""
    ran: list[str] = []

    def delete_wine(name: str) -> str:
        """Delete a wine."""
        ran.append(name)
        return "gone"

    def approval(ctx: Any, signal: Any, event_sink: Any) -> BeforeToolCallResult:
        return BeforeToolCallResult(block=True, reason="User must approve")

    llm = ScriptedLlm(calls(call("delete_wine", name="Lafite")), "I may not.")
    with Agent(llm, tools=[delete_wine], before_tool_call=approval) as agent:
        agent.run("Delete it", timeout=WAIT)
        (tool_result,) = _results(agent)

    assert ran == []
    assert tool_result.is_error
    assert tool_result.text == "Tool execution was blocked: User must approve"


def test_the_history_of_a_walkthrough_is_user_assistant_tool_result_assistant() -> None:
    """WT-003, WT-012: what is kept, and that it survives JSON."""
    llm = ScriptedLlm(calls(call("get_weather", city="Tokyo")), "22 degrees.")
    with Agent(llm, tools=[get_weather]) as agent:
        agent.run("What's the weather in Tokyo?", timeout=WAIT)
        roles = [message.role for message in agent.messages]
        first = agent.messages[0]

    assert roles == ["user", "assistant", "tool_result", "assistant"]
    assert isinstance(first, UserMessage)
    assert json.loads(json.dumps(first.text)) == "What's the weather in Tokyo?"


def test_an_unknown_keyword_is_refused_with_the_one_that_was_meant() -> None:
    """WT-001: the constructor says what is wrong before anything runs."""
    with pytest.raises(ConfigurationError, match="did you mean 'system_prompt'"):
        Agent(ScriptedLlm(), sytem_prompt="You are a helpful assistant")  # type: ignore[call-arg]
