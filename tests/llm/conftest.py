"""Models asked over real loopback HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import yiemagent.net.adapter  # here, so that no deadline of a test pays for loading requests
import yiemagent.net.response
import yiemagent.net.target  # noqa: F401
from yiemagent.assistant_events import AssistantEvent, Done, Failed
from yiemagent.errors import LlmError
from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.messages import AssistantMessage, LlmMessage, UserMessage
from yiemagent.model import Llm, LlmContext, StreamOptions, ToolSpec
from yiemagent.testing.loopback import Handler, LoopbackServer, ServedRequest

_VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "http_proxy",
    "https_proxy",
)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def serve() -> Iterator[Callable[[Handler], LoopbackServer]]:
    """Start a server for a handler; closed after the test."""
    servers: list[LoopbackServer] = []

    def start(handler: Handler) -> LoopbackServer:
        servers.append(LoopbackServer(handler))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def answering(serve: Callable[[Handler], LoopbackServer]) -> Callable[..., LoopbackServer]:
    """Start a server with these bodies as answers, in turn, the last one again and again.

    A list is streamed as events that name their types; anything else is one JSON body.
    """

    def start(*bodies: Any, status: int = 200) -> LoopbackServer:
        waiting = list(bodies)

        def answer(request: ServedRequest) -> None:
            body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if isinstance(body, list):
                request.stream(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in body)
            else:
                request.reply(body, status)

        return serve(answer)

    return start


@dataclass(frozen=True)
class Asked:
    """What came of one question."""

    events: list[AssistantEvent]
    message: AssistantMessage
    error: LlmError | None

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


@pytest.fixture
def ask() -> Callable[..., Asked]:
    """Ask a model once, and check the grammar of its events."""

    def once(
        llm: Llm,
        messages: Sequence[LlmMessage] | str = "hi",
        tools: Sequence[ToolSpec] = (),
        system_prompt: str = "",
        **options: Any,
    ) -> Asked:
        history = [UserMessage(messages)] if isinstance(messages, str) else messages  # type: ignore[arg-type]
        events = list(llm.stream(LlmContext(system_prompt, history, tools), StreamOptions(**options)))
        last = events[-1]
        assert isinstance(last, (Done, Failed))
        assert not any(isinstance(event, (Done, Failed)) for event in events[:-1])
        return Asked(events, last.message, last.error if isinstance(last, Failed) else None)

    return once


@pytest.fixture
def chat(serve: Callable[[Handler], LoopbackServer]) -> Callable[..., tuple[OpenAIChat, LoopbackServer]]:
    """A model and the server behind it, for a handler."""

    def make(
        handler: Handler, model: str = "m", path: str = "/v1", **options: Any
    ) -> tuple[OpenAIChat, LoopbackServer]:
        server = serve(handler)
        options.setdefault("max_retries", 0)
        return OpenAIChat(model, server.url + path, options.pop("api_key", ""), **options), server

    return make
