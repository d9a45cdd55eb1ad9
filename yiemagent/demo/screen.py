"""What the command line shows: the calls of tools, the answer as it streams, errors in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

from yiemagent.agent.results import RunResult
from yiemagent.assistant_events import RetryScheduled, TextDelta
from yiemagent.events import Diagnostic, Event, MessageUpdate, ToolExecutionEnd, ToolExecutionStart
from yiemagent.messages import AssistantMessage

__all__ = ["Screen"]

_RESULT_PREVIEW = 100
_ARGUMENT_PREVIEW = 160
_STYLES = {"dim": "2", "bold": "1", "red": "31", "cyan": "36"}


class Screen:
    """Writes to a terminal, or to a pipe without colours.

    Args:
        out: Where the conversation goes.
        err: Where errors go.
        environment: ``NO_COLOR`` (any text) and ``TERM=dumb`` switch colours off.
    """

    def __init__(self, out: TextIO, err: TextIO, environment: Mapping[str, str]) -> None:
        self._out = out
        self._err = err
        self._coloured = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        self._in_text = False

    @property
    def is_terminal(self) -> bool:
        """Whether somebody watches the output as it comes."""
        return self._out.isatty()

    def line(self, text: str = "", style: str | None = None) -> None:
        """One line of its own."""
        self._end_text()
        self._write(self._styled(text, style, self._out) + "\n")

    def error(self, text: str) -> None:
        """An error, on stderr."""
        self._end_text()
        print(self._styled(f"error: {text}", "red", self._err), file=self._err, flush=True)

    def show(self, event: Event) -> None:
        """Whatever of *event* people want to see."""
        if isinstance(event, MessageUpdate):
            self._show_update(event)
        elif isinstance(event, ToolExecutionStart):
            self.line(f"  -> {event.tool_name}({_arguments(event.arguments)})", "cyan")
        elif isinstance(event, ToolExecutionEnd):
            mark = "failed: " if event.is_error else ""
            self.line(f"  <- {mark}{_preview(event.result.text)}", "red" if event.is_error else "dim")
        elif isinstance(event, Diagnostic):
            self.line(f"  ({event})", "dim")

    def summary(self, result: RunResult) -> None:
        """One line about a run that ended."""
        answers = [message for message in result.new_messages if isinstance(message, AssistantMessage)]
        tool_calls = sum(len(message.tool_calls) for message in answers)
        tokens = result.usage.total_tokens
        parts = [_plural(len(answers), "model call"), _plural(tool_calls, "tool call")]
        if tokens is not None:
            parts.append(f"{tokens:,} tokens")
        self.line(f"({', '.join(parts)})", "dim")

    def _show_update(self, event: MessageUpdate) -> None:
        news = event.assistant_event
        if isinstance(news, TextDelta):
            if not self._in_text:
                self._write("\n")
                self._in_text = True
            self._write(news.delta)
        elif isinstance(news, RetryScheduled):
            self.line(f"  (asking again in {news.delay:.1f} s: {news.error})", "dim")

    def _end_text(self) -> None:
        if self._in_text:
            self._in_text = False
            self._write("\n\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _styled(self, text: str, style: str | None, stream: TextIO) -> str:
        if style is None or not text or not self._coloured or not stream.isatty():
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def _arguments(arguments: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return _cut(text, _ARGUMENT_PREVIEW)


def _preview(text: str) -> str:
    return f"{_cut(' '.join(text.split()), _RESULT_PREVIEW)} [{len(text):,} characters]"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
