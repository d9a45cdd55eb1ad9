"""Do tool calls and tool results pair up? Saying where not, mending it, and cutting into units.

Providers refuse a request whose calls and results do not pair up, and a broken history makes
every later request fail too (cases C-01 to C-04). Each assistant message with tool calls must
be followed at once by exactly one result for each call; their order is free (TV-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from yiemagent.data_class import replace
from yiemagent.errors import ConfigurationError, InvalidTranscript
from yiemagent.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

__all__ = [
    "INTERRUPTED_TEXT",
    "has_calls",
    "interrupted_result",
    "repair_transcript",
    "units",
    "units_backwards",
    "validate_transcript",
]

INTERRUPTED_TEXT = "Tool call was interrupted before a result was recorded; it may or may not have run."
"""What a model reads as the result of a call that nobody can say anything about (case C-02)."""


def validate_transcript(messages: Sequence[Message], start: int = 0) -> list[dict[str, Any]]:
    """List where tool calls and tool results do not pair up; empty for a sound transcript.

    Calls of errored, aborted and redirected answers count like all others, and a
    ``CustomMessage`` between a call and its result separates them.

    Args:
        messages: The transcript.
        start: Everything before this index is known to be sound and is not looked at, so that
            a turn costs what it added. A start in the middle of a call's results moves back
            to the call; one beyond the end (the list was cut) checks everything.

    Returns:
        Violations in document order, each ``{"type": ..., "index": ..., "ids": [...]}``. Types:
        ``orphan_tool_result`` (no call before it), ``invalid_tool_call_id`` (no text, or
        blank), ``duplicate_tool_call_id`` (twice in one message), ``missing_tool_result``,
        ``unexpected_tool_result`` (of no call of that message), ``duplicate_tool_result``,
        ``invalid_messages`` (not a list, or an item that is no message; ``index`` is None for
        the list itself).

    Source: TV-1 to TV-4, T155 to T159.
    """
    if not isinstance(messages, (list, tuple)):
        return [{"type": "invalid_messages", "index": None, "ids": []}]
    # Everything but this loop is only reached when something is wrong: 5,000 messages are
    # checked before each request, so a sound message must cost next to nothing.
    violations: list[dict[str, Any]] = []
    index = _begin(messages, start) - 1
    waiting: set[str] = set()  # calls of the last assistant message that have no result yet
    for message in messages[index + 1 :] if index >= 0 else messages:
        index += 1
        kind = type(message)
        if kind is ToolResultMessage:
            try:
                waiting.remove(message.tool_call_id)
            except (KeyError, TypeError):
                violations.append(_judge_result(messages, index))
            continue
        if waiting:
            violations.append(_missing(messages, index, waiting))
            waiting = set()
        if kind is AssistantMessage:
            for block in message.content:
                if type(block) is ToolCall:
                    call_id = block.id
                    if type(call_id) is str and call_id not in waiting and call_id and not call_id.isspace():
                        waiting.add(call_id)
                    else:
                        violations.append(_judge_call(call_id, index))
        elif kind is not UserMessage and not _is_message(message):
            violations.append(_violation("invalid_messages", index))
    if waiting:
        violations.append(_missing(messages, index + 1, waiting))
    violations.sort(key=lambda violation: violation["index"])
    return violations


def repair_transcript(messages: Sequence[Message]) -> tuple[list[Message], list[dict[str, Any]]]:
    """Mend what ``validate_transcript`` finds, dropping as little as possible.

    Results without their call, results after another message, second results of a call and
    items that are no messages are dropped. Calls without a result are answered by an error
    result (``details["error_type"] == "interrupted"``). A call whose id is blank or used
    before in its message is taken out of it, and the message too if nothing else is in it.

    Returns:
        A new list that validates, and what was done: ``{"action": "dropped_result" |
        "answered_call" | "dropped_call" | "dropped_message", "type": <violation>, "index":
        <in the given list>, "ids": [...]}`` in document order; empty when it was sound.
        Repairing the same list twice gives equal lists, and a repaired one is left alone.

    Raises:
        InvalidTranscript: *messages* is not a list or tuple.

    Source: TV-6, cases C-01 to C-04.
    """
    violations = validate_transcript(messages)
    if not violations:
        return list(messages), []
    if violations[0]["index"] is None:
        raise InvalidTranscript(
            f"messages must be a list of messages, got {type(messages).__name__}", violations=violations
        )
    found: dict[int, list[dict[str, Any]]] = {}
    for violation in violations:
        found.setdefault(violation["index"], []).append(violation)
    repaired: list[Message] = []
    actions: list[dict[str, Any]] = []
    owed: list[Message] = []
    for index, message in enumerate(messages):
        if owed and not isinstance(message, ToolResultMessage):
            repaired += owed
            owed = []
        problems = found.get(index)
        if problems is None:
            repaired.append(message)
        elif isinstance(message, AssistantMessage):
            owed = _repair_calls(message, problems, repaired, actions)
        else:
            action = "dropped_result" if isinstance(message, ToolResultMessage) else "dropped_message"
            actions.append({"action": action, **problems[0]})
    return repaired + owed, actions


def interrupted_result(call: ToolCall, timestamp: float) -> ToolResultMessage:
    """The error result that stands for a result which was never recorded."""
    return ToolResultMessage(
        call.id,
        call.name,
        INTERRUPTED_TEXT,  # type: ignore[arg-type]
        details={"error_type": "interrupted"},
        is_error=True,
        timestamp=timestamp,
    )


def units(messages: Sequence[Message], start: int = 0) -> Iterator[tuple[int, int]]:
    """Cut a transcript into what may only be kept or dropped as a whole.

    A unit is an assistant message with tool calls together with the results that follow it at
    once; every other message, an orphan result included, is a unit of its own (CX-6).

    Args:
        messages: The transcript.
        start: Where to begin; must be the begin of a unit.

    Yields:
        ``(begin, end)`` of each unit, end exclusive, in order and without gaps.
    """
    begin, grouping = start, False
    for index in range(start, len(messages)):
        message = messages[index]
        if grouping and type(message) is ToolResultMessage:
            continue
        if index > begin:
            yield begin, index
        begin = index
        grouping = has_calls(message)
    if begin < len(messages):
        yield begin, len(messages)


def units_backwards(messages: Sequence[Message], stop: int = 0) -> Iterator[tuple[int, int]]:
    """The same units, newest first, looking only at what is asked for.

    Args:
        messages: The transcript.
        stop: The begin of a unit; it is the last one yielded.
    """
    end = len(messages)
    while end > stop:
        begin = end - 1
        while begin > stop and type(messages[begin]) is ToolResultMessage:
            begin -= 1
        if end - begin > 1 and not has_calls(messages[begin]):
            # Results without a call in front of them: each is alone, and what they follow too.
            for index in range(end - 1, begin, -1):
                yield index, index + 1
            end = begin + 1
        yield begin, end
        end = begin


def has_calls(message: Message) -> bool:
    """Whether this is an assistant message with a tool call in it."""
    return type(message) is AssistantMessage and any(type(block) is ToolCall for block in message.content)


def _begin(messages: Sequence[Message], start: int) -> int:
    if start < 0:
        raise ConfigurationError(f"start must be 0 or more, got {start}")
    if start > len(messages):
        return 0
    while 0 < start < len(messages) and type(messages[start]) is ToolResultMessage:
        start -= 1
    return start


def _calls(message: Message) -> list[ToolCall]:
    if type(message) is not AssistantMessage:
        return []
    return [block for block in message.content if type(block) is ToolCall]


def _is_usable(call_id: object) -> bool:
    return type(call_id) is str and bool(call_id.strip())


def _is_message(message: object) -> bool:
    return isinstance(message, (UserMessage, CustomMessage)) or isinstance(
        getattr(message, "role", None), str
    )


def _violation(kind: str, index: int, *ids: object) -> dict[str, Any]:
    return {"type": kind, "index": index, "ids": [one if isinstance(one, str) else repr(one) for one in ids]}


def _caller(messages: Sequence[Message], index: int) -> int:
    """Index of the assistant message that the results just before *index* belong to."""
    index -= 1
    while index >= 0 and type(messages[index]) is ToolResultMessage:
        index -= 1
    return index


def _missing(messages: Sequence[Message], index: int, waiting: set[str]) -> dict[str, Any]:
    caller = _caller(messages, index)
    in_order = dict.fromkeys(call.id for call in _calls(messages[caller]) if call.id in waiting)
    return _violation("missing_tool_result", caller, *in_order)


def _judge_call(call_id: object, index: int) -> dict[str, Any]:
    """What is wrong with the id of a call: unusable, or used before in its message."""
    return _violation(
        "duplicate_tool_call_id" if _is_usable(call_id) else "invalid_tool_call_id", index, call_id
    )


def _judge_result(messages: Sequence[Message], index: int) -> dict[str, Any]:
    """What is wrong with a result that no call waits for."""
    call_id: object = getattr(messages[index], "tool_call_id", None)
    if not _is_usable(call_id):
        return _violation("invalid_tool_call_id", index, call_id)
    caller = _caller(messages, index)
    calls = _calls(messages[caller]) if caller >= 0 else []
    if not calls:
        return _violation("orphan_tool_result", index, call_id)
    called = any(call.id == call_id for call in calls)
    return _violation("duplicate_tool_result" if called else "unexpected_tool_result", index, call_id)


def _repair_calls(
    message: AssistantMessage,
    problems: list[dict[str, Any]],
    repaired: list[Message],
    actions: list[dict[str, Any]],
) -> list[Message]:
    """Append the message without its unusable calls; returns the results it is still owed."""
    seen: set[str] = set()
    kept: list[Any] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            if not _is_usable(block.id) or block.id in seen:
                continue
            seen.add(block.id)
        kept.append(block)
    owed: list[Message] = []
    for problem in problems:
        if problem["type"] != "missing_tool_result":
            actions.append({"action": "dropped_call", **problem})
            continue
        actions.append({"action": "answered_call", **problem})
        missing = set(problem["ids"])
        owed = [
            interrupted_result(block, message.timestamp)
            for block in kept
            if isinstance(block, ToolCall) and block.id in missing
        ]
    if len(kept) == len(message.content):
        repaired.append(message)
    elif kept:
        repaired.append(replace(message, content=tuple(kept)))
    else:
        actions.append(
            {
                "action": "dropped_message",
                "type": problems[0]["type"],
                "index": problems[0]["index"],
                "ids": [],
            }
        )
    return owed
