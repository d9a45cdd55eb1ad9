"""What the loop says to prompts that are no messages, and to limits that are none: before any event."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from yiemagent import AgentContext, AgentLoopConfig, Limits, ToolRegistry, agent_loop, run_agent_loop
from yiemagent.errors import ConfigurationError
from yiemagent.testing import ScriptedLlm


@pytest.mark.parametrize("prompts", ["hi", [5], [{"role": "user", "content": "hi"}]])
@pytest.mark.parametrize("threaded", [True, False])
def test_prompts_that_are_no_messages_are_refused_at_once(prompts: Any, threaded: bool) -> None:
    """Bad input: a TypeError in the caller's thread, and nothing is emitted or asked."""
    model = ScriptedLlm("ok")
    events: list[Any] = []
    context, config = AgentContext("", [], ToolRegistry()), AgentLoopConfig(model=model)

    with pytest.raises(TypeError, match="prompts must be messages such as UserMessage, got"):
        if threaded:
            agent_loop(prompts, context, config)
        else:
            run_agent_loop(prompts, context, config, events.append)

    assert not events
    assert not model.requests


COUNTS = ("max_tool_turns", "max_tool_calls", "max_total_tokens", "max_identical_calls")


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
@pytest.mark.parametrize("value", [True, "5", float("nan"), [5]])
def test_a_limit_that_is_no_number_is_refused(name: str, value: Any) -> None:
    """Bad input: the limit, the value and what is taken."""
    with pytest.raises(ConfigurationError, match=rf"{name} must be a (whole )?number or None, got"):
        Limits(**{name: value})


@pytest.mark.parametrize("name", COUNTS)
def test_a_limit_that_counts_something_is_a_whole_number(name: str) -> None:
    """Two and a half turns would be three, or two, depending on where they are compared."""
    with pytest.raises(ConfigurationError, match=rf"{name} must be a whole number or None, got 2\.5"):
        Limits(**{name: 2.5})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["max_cost", "max_seconds"])
def test_a_limit_of_dollars_or_seconds_may_be_a_fraction(name: str) -> None:
    """Only what is counted is whole."""
    assert getattr(Limits(**{name: 0.5}), name) == 0.5  # type: ignore[arg-type]
