"""What the makers of transforms and hooks say to values that cannot work, before any run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.context.compact import Compactor
from yiemagent.context.prepare import keep_last_turns, system_note, time_note
from yiemagent.context.truncate import make_transform
from yiemagent.context.trust import approval_policy
from yiemagent.errors import ConfigurationError
from yiemagent.testing import ScriptedLlm


def compactor(llm: Any = None, **options: Any) -> Compactor:
    return Compactor(ScriptedLlm() if llm is None else llm, **{"context_window": 1000, **options})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: make_transform(max_messages="x"), "max_messages must be 0 or more, .* got 'x'"),
        (lambda: make_transform(max_chars=float("nan")), "max_chars must be 0 or more, .* got nan"),
        (lambda: compactor("openai:gpt-5-mini"), "llm must be an Llm object"),
        (lambda: compactor(lambda request: {}), "llm must be an Llm object"),
        (lambda: compactor(share="x"), "share must be greater than 0 and at most 1, got 'x'"),
        (
            lambda: compactor(keep_recent_turns="x"),
            "keep_recent_turns must be a whole number .* got 'x'",
        ),
        (lambda: compactor(timeout="x"), "timeout must be more than 0 seconds or None, got 'x'"),
        (lambda: compactor(summary_prompt=5), "summary_prompt must be a str"),
        (lambda: compactor(share=1.5), "share must be greater than 0 and at most 1, got 1.5"),
        (lambda: compactor(context_window=128e3), "context_window must be a whole number .* got 128000.0"),
        (lambda: compactor(max_summary_tokens=2.5), "max_summary_tokens must be a whole number"),
        (lambda: compactor(convert_to_llm=5), "convert_to_llm must be callable or None, got 5"),
        (
            lambda: compactor(options={"temperature": 0}),
            "options must be a StreamOptions or None, got {'",
        ),
        (lambda: compactor(count_tokens=5), "count_tokens must be callable"),
        (lambda: keep_last_turns("x"), "count must be 1 turn or more, got 'x'"),  # type: ignore[arg-type]
        (lambda: time_note(zone="Europe/Oslo"), r"zoneinfo\.ZoneInfo\('Europe/Oslo'\)"),  # type: ignore[arg-type]
        (lambda: time_note(resolution="x"), "resolution must be more than 0 seconds, got 'x'"),  # type: ignore[arg-type]
        (lambda: system_note(5), "note must be a str or a function"),  # type: ignore[arg-type]
        (lambda: approval_policy(tools=5), "tools must be a collection of tool names, got 5"),  # type: ignore[arg-type]
        (lambda: approval_policy(tools=["buy"], approve=5), "approve must be callable"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(make: Callable[[], object], said: str) -> None:
    """Bad input is a ConfigurationError where it is given, not a failed run later."""
    with pytest.raises(ConfigurationError, match=said):
        make()
