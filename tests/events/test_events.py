"""Events are frozen, and read as one line each."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from yiemagent.assistant_events import StreamStart, TextDelta, TextStart
from yiemagent.events import (
    AgentEnd,
    AgentStart,
    Diagnostic,
    Log,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from yiemagent.messages import AssistantMessage, UserMessage
from yiemagent.tools.tool import ToolResult

ANSWER = AssistantMessage("hello")  # type: ignore[arg-type]
PROMPT = UserMessage("hi")  # type: ignore[arg-type]
LOG = [TextStart(0), TextDelta(0, "hel"), TextDelta(0, "lo")]

EVENTS: list[tuple[Any, str]] = [
    (AgentStart(), "agent start"),
    (AgentEnd((PROMPT, ANSWER)), "agent end (completed), 2 new messages"),
    (AgentEnd((), "limit", limit="max_seconds"), "agent end (limit: max_seconds), 0 new messages"),
    (AgentEnd((), "error", ValueError("no")), "agent end (error: no), 0 new messages"),
    (TurnStart(), "turn start"),
    (TurnEnd(ANSWER), "turn end, 0 tool results"),
    (MessageStart(PROMPT), "message start: user"),
    (MessageUpdate(LOG[1], AssistantMessage(()), LOG, 2), "message update: text_delta"),
    (MessageEnd(ANSWER), "message end: assistant"),
    (ToolExecutionStart("c1", "search", {}), "tool start: search (c1)"),
    (ToolExecutionUpdate("c1", "search", {}, ToolResult("half")), "tool update: search (c1)"),  # type: ignore[arg-type]
    (ToolExecutionEnd("c1", "search", ToolResult("all"), False), "tool end: search (c1), ok"),  # type: ignore[arg-type]
    (ToolExecutionEnd("c1", "search", ToolResult("no"), True), "tool end: search (c1), failed"),  # type: ignore[arg-type]
    (Log("said"), "said"),
    (Diagnostic("llm_retry", {"attempt": 1}), "llm_retry {'attempt': 1}"),
]


@pytest.mark.parametrize(("event", "line"), EVENTS, ids=lambda value: getattr(value, "type", ""))
def test_an_event_reads_as_one_line(event: Any, line: str) -> None:
    """Decision 25: what the Julia design's event sink gets."""
    assert str(event) == line


@pytest.mark.parametrize("event", [event for event, _ in EVENTS], ids=lambda event: event.type)
def test_an_event_cannot_be_changed(event: Any) -> None:
    """T123: what was emitted stays as it was."""
    for field in fields(event):
        with pytest.raises(FrozenInstanceError):
            setattr(event, field.name, None)


def test_the_end_of_a_run_names_its_new_messages_both_ways() -> None:
    """LP-8, PI-9."""
    event = AgentEnd((PROMPT, ANSWER))

    assert event.messages == event.new_messages == (PROMPT, ANSWER)


def test_an_update_shows_the_answer_as_it_was_at_that_event() -> None:
    """T123, PI-89: although the log it shares has grown since."""
    log: list[Any] = list(LOG[:2])
    update = MessageUpdate(log[1], AssistantMessage((), model="m"), log, 2)
    log.append(LOG[2])

    assert update.message.text == "hel"
    assert update.message.model == "m"
    assert StreamStart(ANSWER).type == "start"
