"""Functions as models: every shape in which an ``llm_call`` may answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.errors import ConfigurationError, LlmTimeout, RateLimited
from yiemagent.llm.callable import CallableLlm
from yiemagent.messages import (
    AssistantMessage,
    ReasoningContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from yiemagent.model import LlmContext
from yiemagent.tools.tool import Tool

Ask = Callable[..., Any]
TOOLS = [Tool(name="getWeather", description="d", execute=lambda *a: None)]
CALL = {"id": "call_1", "function": {"name": "getWeather", "arguments": '{"city": "Bangkok"}'}}


def answering(response: Any) -> CallableLlm:
    def llm_call(request: Any, *, event_sink: Any) -> Any:
        if isinstance(response, BaseException):
            raise response
        return response

    return CallableLlm(llm_call)


@pytest.mark.parametrize(
    "response",
    [
        {"message": {"role": "assistant", "content": "It is 22 degrees"}, "finish_reason": "stop"},
        {"message": {"content": [{"type": "text", "text": "It is 22 degrees"}]}},
        {"message": "It is 22 degrees"},
        {"role": "assistant", "content": "It is 22 degrees"},
        {"content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "22 degrees"}]},
        {"choices": [{"message": {"content": "It is 22 degrees"}, "finish_reason": "stop"}]},
        "It is 22 degrees",
    ],
)
def test_a_text_is_read_in_every_shape(ask: Ask, response: Any) -> None:
    """SP-017, SP-018, WT-011."""
    message = ask(answering(response)).message

    assert (message.text, message.stop_reason) == ("It is 22 degrees", "stop")


@pytest.mark.parametrize(
    "response",
    [
        {"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"},
        {"message": {"content": "", "tool_calls": [CALL]}, "finish_reason": "stop"},
        {"content": [{"type": "tool_calls", "tool_calls": [CALL]}]},
        {"content": [{"type": "tool_calls", "content": [CALL]}]},
        {"content": [{"type": "tool_call", **CALL}]},
        {
            "content": [
                {"type": "tool_call", "id": "call_1", "name": "getWeather", "arguments": {"city": "Bangkok"}}
            ]
        },
        {
            "content": [
                {"type": "tool_use", "id": "call_1", "name": "getWeather", "input": {"city": "Bangkok"}}
            ]
        },
        {"choices": [{"message": {"tool_calls": [CALL]}}]},
        {"tool_calls": [CALL]},
    ],
)
def test_a_call_is_read_in_every_shape(ask: Ask, response: Any) -> None:
    """SP-017, SP-018, WT-012: arguments as text and as an object."""
    message = ask(answering(response), tools=TOOLS).message

    assert message.tool_calls == (ToolCall("call_1", "getWeather", {"city": "Bangkok"}),)
    assert message.stop_reason == "tool_calls"


def test_reasoning_is_kept_apart(ask: Ask) -> None:
    """WT-012."""
    message = ask(answering({"message": {"reasoning_content": "hm", "content": "yes"}})).message

    assert (message.reasoning, message.text) == ("hm", "yes")


def test_what_the_response_says_of_itself_is_kept(ask: Ask) -> None:
    """``api``, ``provider``, ``model`` and ``usage``, a dict or ours; a known model has a cost."""
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 1}
    response = {"provider": "openai", "model": "gpt-4o", "message": {"content": "x"}, "usage": usage}
    message = ask(answering(response)).message
    ours = ask(
        answering({"message": {"content": "x"}, "usage": Usage(input_tokens=3, cache_read_tokens=2)})
    ).message

    assert (message.provider, message.model) == ("openai", "gpt-4o")
    assert message.usage.cost == pytest.approx(2.5, abs=0.01)
    assert (ours.usage.input_tokens, ours.usage.cache_read_tokens, ours.usage.cost) == (3, 2, None)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (None, "invalid_response"),
        (7, "invalid_response"),
        ({}, "invalid_response"),
        ([], "invalid_response"),
        ({"message": {"content": ""}}, "empty_response"),
        ({"message": {"content": None}}, "empty_response"),
        ({"error_message": "Rate limit reached"}, "provider_error"),
        ({"error": {"message": "slow down", "code": 429}}, "rate_limit"),
        ({"message": {"content": "x"}, "finish_reason": "error"}, "provider_error"),
    ],
)
def test_what_is_no_answer_is_a_failure(ask: Ask, response: Any, kind: str) -> None:
    """With a stable kind."""
    asked = ask(answering(response))

    assert asked.error.kind == kind
    assert asked.types == ["error"] or asked.types[-1] == "error"


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_it_raises_is_a_failure(ask: Ask, error: BaseException) -> None:
    """It never leaves the stream, so the loop's thread cannot die of it (D-04, D-28)."""
    asked = ask(answering(error))

    assert asked.error.kind == "model_exception"
    assert type(error).__name__ in str(asked.error)
    assert asked.error.__cause__ is error


def test_errors_of_ours_and_timeouts_keep_their_kind(ask: Ask) -> None:
    """A function that knows more may say so."""
    limited = RateLimited("slow", retryable=True)

    assert ask(answering(limited)).error is limited
    assert isinstance(ask(answering(TimeoutError("late"))).error, LlmTimeout)


def test_the_request_is_in_openai_format_and_its_own_to_change(ask: Ask) -> None:
    """WT-010: ``tools`` only if there are any; no temperature unless given."""
    seen: list[Any] = []

    def llm_call(request: Any, *, event_sink: Any) -> Any:
        seen.append(request)
        event_sink("asking", publish=True)
        request["messages"].clear()
        return "fine"

    sunk: list[Any] = []
    history = [
        UserMessage("hi"),  # type: ignore[arg-type]
        AssistantMessage((ToolCall("c1", "getWeather", {"city": "Oslo"}),)),
        ToolResultMessage("c1", "getWeather", "sunny"),  # type: ignore[arg-type]
    ]
    sink = lambda text, publish=False: sunk.append((text, publish))  # noqa: E731
    llm = CallableLlm(llm_call)
    for _ in range(2):
        ask(llm, history, TOOLS, "Be brief", event_sink=sink)
    ask(llm, temperature=0.5)

    assert seen[2] == {"messages": [], "temperature": 0.5}
    assert seen[0]["tools"][0]["function"]["name"] == "getWeather"
    assert set(seen[0]) == {"messages", "tools"}
    assert sunk == [("asking", True)] * 2


def test_a_function_without_a_sink_is_called_without_one(ask: Ask) -> None:
    """``lambda request: ...`` is enough."""
    assert ask(CallableLlm(lambda request: {"content": str(len(request["messages"]))})).message.text == "1"
    assert ask(CallableLlm(lambda request, **more: str(sorted(more)))).message.text == "['event_sink']"


def test_the_request_can_be_made_by_the_user(ask: Ask) -> None:
    """``format_msg_for_llm`` gets the context; a list stands for its messages."""

    def whole(context: LlmContext) -> Any:
        return {"messages": [context.system_prompt], "n": len(context.messages)}

    def call(request: Any) -> str:
        return repr(request)

    assert ask(CallableLlm(call, whole), system_prompt="s").message.text == "{'messages': ['s'], 'n': 1}"
    assert ask(CallableLlm(call, lambda context: ["a"])).message.text == "{'messages': ['a']}"


def test_its_own_reasoning_goes_back_with_calls(ask: Ask) -> None:
    """A-62 holds whatever carries the request, and whatever model the response named."""
    seen: list[Any] = []

    def llm_call(request: Any) -> Any:
        seen.append(request)
        return {"model": "deepseek-reasoner", "message": {"reasoning_content": "hm", "tool_calls": [CALL]}}

    llm = CallableLlm(llm_call)
    answer = ask(llm, tools=TOOLS).message
    assert isinstance(answer.content[0], ReasoningContent)
    ask(llm, [UserMessage("hi"), answer, ToolResultMessage("call_1", "getWeather", "x")], TOOLS)  # type: ignore[arg-type]

    assert seen[1]["messages"][1]["reasoning_content"] == "hm"


def test_nothing_is_streamed_to_nobody(ask: Ask) -> None:
    """And whoever listens gets the whole grammar."""
    llm = answering({"message": {"content": "x"}})

    assert ask(llm, want_deltas=False).types == ["done"]
    assert ask(llm).types == ["start", "text_start", "text_delta", "text_end", "done"]
    assert llm.abortable is False


def test_a_coroutine_is_refused(ask: Ask) -> None:
    """At construction, or when one is returned all the same."""

    async def asynchronous(request: Any) -> str:
        return "x"

    with pytest.raises(ConfigurationError, match="plain function"):
        CallableLlm(asynchronous)
    with pytest.raises(ConfigurationError, match="format_msg_for_llm must be callable"):
        CallableLlm(lambda request: "x", "x")  # type: ignore[arg-type]
    asked = ask(CallableLlm(lambda request: asynchronous(request)))
    assert asked.error.kind == "invalid_response"


@pytest.mark.parametrize("function", [lambda: {"content": "x"}, lambda a, b: {}, lambda *, event_sink: {}])
def test_a_function_that_takes_no_request_is_refused_at_once(function: Any) -> None:
    """Bad input: at construction, with the way it is called."""
    with pytest.raises(ConfigurationError, match=r"called as llm_call\(request, event_sink=\.\.\.\)"):
        CallableLlm(function)


@pytest.mark.parametrize("answer", [None, 5, [{"message": {"content": "x"}}], b"x", AssistantMessage(())])
def test_an_answer_of_another_type_says_what_is_wanted(answer: Any, ask: Callable[..., Any]) -> None:
    """Bad input from a model is an LlmError that a newcomer understands."""
    asked = ask(CallableLlm(lambda request: answer))

    assert asked.error.kind == "invalid_response"
    assert f"returned {type(answer).__name__}; an llm_call returns the text, or a dict" in str(asked.error)
