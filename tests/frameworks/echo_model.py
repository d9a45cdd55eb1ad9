"""A model for child processes: calls the tool once, then repeats what the tool said."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from yiemagent.assistant_events import AssistantEvent, Done
from yiemagent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage
from yiemagent.model import LlmContext, ModelInfo, StreamOptions


class EchoModel:
    """Asks ``whoami`` about the prompt, then answers with its result."""

    info = ModelInfo(id="echo", provider="echo")

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        last = context.messages[-1]
        if isinstance(last, ToolResultMessage):
            yield Done(AssistantMessage((TextContent(last.text),)))
        else:
            call = ToolCall("call_1", "whoami", {"name": last.text})
            yield Done(AssistantMessage((call,), stop_reason="tool_calls"))


class SilentModel:
    """Never answers."""

    info = ModelInfo(id="silent", provider="silent")

    def __init__(self) -> None:
        self.asked = threading.Event()

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        self.asked.set()
        threading.Event().wait(3600)
        yield Done(AssistantMessage((TextContent("late"),)))
