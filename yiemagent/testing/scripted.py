"""ScriptedLlm: a model that follows a script, strictly.

An unexpected call fails the run, and ``assert_complete`` fails when a step was not used, so a
test notices both. Steps are made by ``say``, ``call``, ``calls``, ``fail`` and ``cut``; a plain
string is ``say(string)``, and a function of the request makes its step when it is asked.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from yiemagent.assistant_events import (
    AssistantEvent,
    Done,
    Failed,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from yiemagent.errors import LlmError
from yiemagent.messages import (
    AssistantMessage,
    ContentBlock,
    ReasoningContent,
    StopReason,
    TextContent,
    ToolCall,
    Usage,
)
from yiemagent.model import LlmContext, ModelInfo, StreamOptions
from yiemagent.testing.gates import Gate

__all__ = ["ScriptedLlm", "Step", "call", "calls", "cut", "fail", "say"]

_ids = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer of the script."""

    message: AssistantMessage
    chunks: tuple[str, ...] = ()
    """The text in pieces; by default one piece."""
    before: Gate | None = None
    """Held before anything is answered: a silent provider."""
    midway: Gate | None = None
    """Held after the first piece."""
    error: BaseException | None = None
    """An ``LlmError`` ends the stream as a failed answer; anything else is raised."""
    truncated: bool = False
    """The stream ends without a final message."""


Answer: TypeAlias = "Step | str | AssistantMessage | BaseException"
Script: TypeAlias = "Answer | Callable[[LlmContext], Answer]"


def say(
    text: str,
    *,
    chunks: Sequence[str] = (),
    reasoning: str = "",
    usage: Usage | None = None,
    stop_reason: StopReason = "stop",
    before: Gate | None = None,
    midway: Gate | None = None,
) -> Step:
    """Answer with text; *chunks* are its pieces as a stream."""
    blocks: list[ContentBlock] = [ReasoningContent(reasoning)] if reasoning else []
    blocks.append(TextContent(text or "".join(chunks)))
    message = AssistantMessage(tuple(blocks), usage=usage, stop_reason=stop_reason)
    return Step(message=message, chunks=tuple(chunks), before=before, midway=midway)


def call(name: str, /, **arguments: Any) -> ToolCall:
    """One tool call with a fresh id, for ``calls`` (or as a step of its own through it)."""
    return ToolCall(f"call_{next(_ids)}", name, arguments)


def calls(
    *tool_calls: ToolCall,
    text: str = "",
    usage: Usage | None = None,
    stop_reason: StopReason = "tool_calls",
    before: Gate | None = None,
) -> Step:
    """Answer with tool calls, after *text* if there is any."""
    blocks: tuple[ContentBlock, ...] = (TextContent(text), *tool_calls) if text else tool_calls
    return Step(message=AssistantMessage(blocks, usage=usage, stop_reason=stop_reason), before=before)


def fail(error: BaseException, *, text: str = "", before: Gate | None = None) -> Step:
    """Fail, after *text* if there is any: an ``LlmError`` as a failed answer, others by raising."""
    return Step(message=AssistantMessage(text), error=error, before=before)  # type: ignore[arg-type]


def cut(text: str = "") -> Step:
    """Say *text* and end the stream without a final message."""
    return Step(message=AssistantMessage(text), truncated=True)  # type: ignore[arg-type]


class ScriptedLlm:
    """An ``Llm`` for tests.

    Args:
        *script: The answers, in order.
        info: What the model says of itself.
    """

    abortable = False

    def __init__(self, *script: Script, info: ModelInfo | None = None) -> None:
        self.info = info or ModelInfo(id="scripted", provider="scripted", api="scripted")
        self._script = list(script)
        self._lock = threading.Lock()
        self.requests: list[LlmContext] = []
        """What was asked, in order; the messages are snapshots."""
        self.options: list[StreamOptions] = []
        """How it was asked, in order."""
        self.unexpected = 0
        """Calls for which the script had no step."""

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        """Answer by the next step of the script."""
        with self._lock:
            self.requests.append(replace(context, messages=tuple(context.messages)))
            self.options.append(options)
            if not self._script:
                self.unexpected += 1
                raise AssertionError(f"the script has no step for model call {len(self.requests)}")
            entry = self._script.pop(0)
        if callable(entry) and not isinstance(entry, BaseException):
            entry = entry(context)
        return self._play(_as_step(entry))

    def assert_complete(self) -> None:
        """Fail when a step was not used, or a call had none.

        Raises:
            AssertionError: It says how many.
        """
        if self._script:
            raise AssertionError(f"{len(self._script)} steps of the script were not used")
        if self.unexpected:
            raise AssertionError(f"{self.unexpected} model calls had no step in the script")

    def _play(self, step: Step) -> Iterator[AssistantEvent]:
        if step.before is not None:
            step.before.block()
        if step.error is not None and not isinstance(step.error, LlmError):
            raise step.error
        message = replace(step.message, provider=self.info.provider, model=self.info.id, api=self.info.api)
        yield StreamStart(replace(message, content=()))
        for index, block in enumerate(message.content):
            yield from _pieces(index, block, step)
        if step.error is not None:
            failed = replace(message, stop_reason="error", error_message=str(step.error))
            yield Failed(failed, step.error)
        elif not step.truncated:
            yield Done(message)


def _as_step(entry: Any) -> Step:
    if isinstance(entry, Step):
        return entry
    if isinstance(entry, BaseException):
        return fail(entry)
    if isinstance(entry, AssistantMessage):
        return Step(message=entry)
    if isinstance(entry, ToolCall):
        return calls(entry)
    return say(str(entry))


def _pieces(index: int, block: ContentBlock, step: Step) -> Iterator[AssistantEvent]:
    if isinstance(block, TextContent):
        yield TextStart(index)
        for number, piece in enumerate(step.chunks or (block.text,)):
            yield TextDelta(index, piece)
            if number == 0 and step.midway is not None:
                step.midway.block()
        if not step.truncated:
            yield TextEnd(index, block)
    elif isinstance(block, ReasoningContent):
        yield ReasoningStart(index)
        yield ReasoningDelta(index, block.text)
        yield ReasoningEnd(index, block)
    elif isinstance(block, ToolCall):
        yield ToolCallStart(index, block.id, block.name)
        yield ToolCallDelta(index, str(dict(block.arguments)))
        yield ToolCallEnd(index, block)
