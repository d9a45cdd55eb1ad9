"""What the stateless loop says to prompts that are no messages: before any event."""

from __future__ import annotations

from typing import Any

import pytest

from yiemagent import AgentContext, AgentLoopConfig, ToolRegistry, agent_loop, run_agent_loop
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
