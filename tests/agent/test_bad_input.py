"""What an agent says to input that cannot work: which thing, which value, and the way out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.agent.registry import AgentRegistry
from yiemagent.agent.subagents import SubagentPool
from yiemagent.errors import ConfigurationError, HookFailed
from yiemagent.messages import ImageContent, UserMessage
from yiemagent.testing.scripted import ScriptedLlm, call, calls, say


async def waits(*_: object) -> None: ...


def yields(*_: object) -> Iterator[None]:
    yield


class WaitsWhenCalled:
    async def __call__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("keyword", "value", "said"),
    [
        ("messages", None, r"messages must be a list of messages, got NoneType"),
        ("messages", {"role": "user", "content": "x"}, r"got dict; write messages=\[\.\.\.\]"),
        ("max_tool_concurrency", "8", r"max_tool_concurrency must be a whole number of at least 1"),
        ("max_tool_concurrency", 2.5, r"got 2\.5"),
        ("max_tool_result_chars", -5, r"max_tool_result_chars must be .* got -5"),
        ("max_tokens", "many", r"max_tokens must be .* got 'many'"),
        ("abort_grace", None, r"abort_grace must be 0 or more seconds, got None"),
        ("before_tool_call", yields, r"before_tool_call is a generator function"),
        ("around_tool_call", yields, r"contextlib\.contextmanager"),
        ("after_tool_call", WaitsWhenCalled(), r"after_tool_call is an async function"),
        ("convert_to_llm", waits, r"convert_to_llm is an async function"),
        ("format_msg_for_llm", 5, r"format_msg_for_llm must be callable, got 5"),
        ("temperature", "hot", r"temperature must be a number or None, got 'hot'"),
        ("extra_body", 5, r"extra_body must be a mapping or None, got 5"),
        ("thinking_budgets", 5, r"thinking_budgets must be a mapping"),
        ("session_id", 5, r"session_id must be a str or None, got 5"),
        ("temperature", float("nan"), r"temperature must be a number or None, got nan"),
        ("tool_choice", 5, r"tool_choice must be a str or a mapping or None, got 5"),
        ("fence_untrusted", "no", r"fence_untrusted must be True or False, got 'no'"),
        ("parallel_tool_execute", "sequential", r"parallel_tool_execute must be True or False"),
        ("on_mcp_failure", "ignore", r"on_mcp_failure must be 'raise' or 'event', got 'ignore'"),
        ("when_busy", [], r"when_busy must be 'queue' or 'raise', got \[\]"),
        ("max_tool_turns", 2.5, r"max_tool_turns must be a whole number or None, got 2\.5"),
        ("max_total_tokens", "1k", r"max_total_tokens must be a whole number or None, got '1k'"),
    ],
)
def test_a_keyword_that_cannot_work_is_refused_by_name(keyword: str, value: Any, said: str) -> None:
    """Bad input is a ConfigurationError at construction, never a surprise inside a run."""
    with pytest.raises(ConfigurationError, match=said):
        Agent(ScriptedLlm(), **{keyword: value})


def test_a_pool_refuses_a_registry_that_is_none() -> None:
    """Bad input is told when the pool is made, not when its first agent is registered."""
    with pytest.raises(ConfigurationError, match=r"registry must be an AgentRegistry or None, got \{\}"):
        SubagentPool({})  # type: ignore[arg-type]


def test_a_pool_keeps_an_empty_registry_that_it_is_given() -> None:
    """Several pools may share one from the start."""
    registry = AgentRegistry()

    assert SubagentPool(registry).registry is registry


@pytest.mark.parametrize("listener", [lambda: None, lambda a, b, c: None, waits, WaitsWhenCalled(), yields])
def test_a_listener_that_cannot_be_called_is_refused_when_it_subscribes(listener: Any) -> None:
    """A listener is called with the event, or with the event and the signal."""
    with pytest.raises(ConfigurationError, match="the listener"):
        Agent(ScriptedLlm()).subscribe(listener)


@pytest.mark.parametrize("content", [5, [5], ["text"], [{"type": "text", "text": "x"}], {"type": "text"}])
def test_a_message_refuses_content_that_is_no_content_block(content: Any) -> None:
    """A message that no provider could be sent is refused where it is made."""
    with pytest.raises(TypeError, match="content must be"):
        UserMessage(content)


def test_a_prompt_whose_content_is_no_block_is_refused() -> None:
    """A tuple is kept as it is, so the agent looks into it."""
    with pytest.raises(TypeError, match="content of a prompt must be TextContent and ImageContent, got int"):
        Agent(ScriptedLlm()).prompt(UserMessage((5,)))  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [float("inf"), 10**400])
def test_a_timeout_longer_than_any_wait_is_no_limit(timeout: float) -> None:
    """Decision 26: seconds; a number that no clock can hold waits like None."""
    with Agent(ScriptedLlm("ok")) as agent:
        assert agent.run("x", timeout=timeout).text == "ok"
        assert agent.wait_for_idle(timeout=timeout)
        assert agent.stop(timeout=timeout)


def test_a_sink_that_takes_the_text_alone_gets_every_line() -> None:
    """Decision 25: ``print`` or ``list.append`` as event_sink work."""
    lines: list[str] = []

    with Agent(ScriptedLlm("ok"), event_sink=lines.append) as agent:
        agent.run("x", timeout=5)

    assert lines[0] == "agent start"
    assert lines[-1].startswith("agent end (completed)")


@pytest.mark.parametrize("answer", [True, False, {"block": True}, "no"])
def test_a_before_hook_that_returns_nonsense_blocks_and_says_what_it_must_return(answer: Any) -> None:
    """Decision 12: what is no answer fails closed."""
    ran = threading.Event()

    def pour() -> None:
        """Pour."""
        ran.set()

    model = ScriptedLlm(calls(call("pour")), say("done"))
    with Agent(model, tools=[pour], before_tool_call=lambda c, s, e: answer) as agent:
        result = agent.run("x", timeout=5)

    assert "must return a BeforeToolCallResult or None" in result.new_messages[2].text  # type: ignore[union-attr]
    assert not ran.is_set()


class Wordless(Exception):
    """An error whose own text raises."""

    def __str__(self) -> str:
        raise ValueError("no words")


def fails(*_: object) -> Any:
    raise Wordless


def test_a_hook_whose_error_cannot_be_printed_still_fails_the_run_as_that_hook() -> None:
    """Decision 23: errors from hooks never leave the loop as something else."""
    with Agent(ScriptedLlm(), transform_context=fails) as agent:
        with pytest.raises(HookFailed, match="transform_context raised Wordless"):
            agent.run("x", timeout=5)


def test_a_before_hook_whose_error_cannot_be_printed_blocks_the_call() -> None:
    """Decision 12: it fails closed, whatever it raises."""

    def pour() -> str:
        """Pour."""
        return "poured"

    with Agent(ScriptedLlm(calls(call("pour")), "ok"), tools=[pour], before_tool_call=fails) as agent:
        result = agent.run("x", timeout=5)

    assert "before_tool_call raised Wordless" in result.new_messages[2].text  # type: ignore[union-attr]


def test_a_model_whose_error_cannot_be_printed_is_an_llm_error() -> None:
    """Decision 23: a callable model may raise anything."""
    from yiemagent.errors import LlmError

    with Agent(fails) as agent:
        with pytest.raises(LlmError, match="raised Wordless"):
            agent.run("x", timeout=5)


@pytest.mark.parametrize(
    ("keyword", "hook", "said"),
    [
        ("transform_context", lambda m, s: [*m, {"role": "user", "content": "x"}], "got dict"),
        ("convert_to_llm", lambda m: [5, *m], "got int"),
        ("get_api_key", lambda provider: 5, "must return a str or None, got int"),
    ],
)
def test_a_hook_that_returns_nonsense_fails_the_run_and_says_what_it_must_return(
    keyword: str, hook: Any, said: str
) -> None:
    """What a hook returned is never left out in silence: the model would answer something else."""
    model = ScriptedLlm("ok")
    with Agent(model, **{keyword: hook}) as agent, pytest.raises(HookFailed, match=said):
        agent.run("x", timeout=5)
    assert not model.requests


def test_an_image_refuses_bytes_and_says_how_to_give_them() -> None:
    """Raw bytes would be written as a Python literal into the request."""
    with pytest.raises(TypeError, match="must be base64 text"):
        ImageContent(data=b"png")  # type: ignore[arg-type]
