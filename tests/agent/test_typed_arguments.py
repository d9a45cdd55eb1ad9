"""Values that a schema lets through and a function's own types refuse."""

from __future__ import annotations

from dataclasses import dataclass

from yiemagent import Agent
from yiemagent.testing import ScriptedLlm, call, calls


@dataclass
class Range:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low must not be above high")


def test_a_value_that_the_functions_own_type_refuses_is_an_argument_error() -> None:
    """The model reads what is wrong with its arguments, under the stable error type."""

    def pick(between: Range) -> int:
        """Pick a number."""
        return between.low

    script = ScriptedLlm(calls(call("pick", between={"low": 3, "high": 1})), "sorry")
    with Agent(script, tools=[pick]) as agent:
        result = agent.run("go").new_messages[2]

    assert result.is_error  # type: ignore[union-attr]
    assert result.details["error_type"] == "invalid_tool_arguments"  # type: ignore[union-attr]
    assert "low must not be above high" in result.text  # type: ignore[union-attr]
