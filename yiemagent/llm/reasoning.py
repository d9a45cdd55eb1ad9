"""How a thinking level is asked for in Chat Completions, by style of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from yiemagent.llm.quirks import ReasoningStyle
from yiemagent.model import ThinkingLevel

__all__ = ["reasoning_params"]


def _effort(level: str, budget: int | None) -> dict[str, Any]:
    return {"reasoning_effort": level}


def _openrouter(level: str, budget: int | None) -> dict[str, Any]:
    if budget is not None:
        return {"reasoning": {"max_tokens": budget}}
    return {"reasoning": {"enabled": False} if level == "none" else {"effort": level}}


def _thinking(level: str, budget: int | None) -> dict[str, Any]:
    return {"thinking": {"type": "disabled" if level == "none" else "enabled"}}


def _enable_thinking(level: str, budget: int | None) -> dict[str, Any]:
    params: dict[str, Any] = {"enable_thinking": level != "none"}
    if budget is not None:
        params["thinking_budget"] = budget
    return params


def _template(level: str, budget: int | None) -> dict[str, Any]:
    return {"chat_template_kwargs": {"enable_thinking": level != "none"}}


def _gemini(level: str, budget: int | None) -> dict[str, Any]:
    if budget is None:
        return {"reasoning_effort": "high" if level == "xhigh" else level}
    return {"extra_body": {"google": {"thinking_config": {"thinking_budget": budget}}}}


_STYLES: Mapping[ReasoningStyle, Callable[[str, int | None], dict[str, Any]]] = {
    "effort": _effort,
    "openrouter": _openrouter,
    "thinking": _thinking,
    "enable_thinking": _enable_thinking,
    "template": _template,
    "gemini": _gemini,
    "none": lambda level, budget: {},
}


def reasoning_params(
    style: ReasoningStyle, level: ThinkingLevel | None, budgets: Mapping[str, int] | None
) -> dict[str, Any]:
    """The request parameters for *level*; none without a level, which is the model's own default.

    Args:
        level: ``off`` asks for no thinking.
        budgets: Tokens by level, for servers that count in tokens.
    """
    if level is None:
        return {}
    return _STYLES[style]("none" if level == "off" else level, (budgets or {}).get(level))
