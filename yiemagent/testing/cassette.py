"""Cassettes: record what a model said once, replay it in every test after.

``record`` wraps a model and writes each question and the events of its answer, with the time
between them; ``replay`` is a model that plays them back and refuses a question that is not the
recorded one. Keys and bearer tokens are scrubbed. The pytest fixture is in
``yiemagent.testing.pytest_plugin``.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import fields
from time import monotonic
from typing import Any

import yiemagent.assistant_events as assistant_events
from yiemagent.assistant_events import AssistantEvent, Done, Failed
from yiemagent.errors import ConfigurationError, LlmError
from yiemagent.llm.errors import make_error
from yiemagent.message_formats import block_from_dict, block_to_dict, message_from_dict, message_to_dict
from yiemagent.messages import AssistantMessage
from yiemagent.model import Llm, LlmContext, ModelInfo, StreamOptions

__all__ = ["record", "replay"]

FORMAT = 1
SCRUBBED = "[scrubbed]"
_SECRETS = re.compile(
    r"\b(?:sk|pk|rk|key|gsk|xai|ghp|hf)[-_][A-Za-z0-9_-]{8,}|\bAIza[A-Za-z0-9_-]{20,}"
    r"|(?i:(?<=bearer )[A-Za-z0-9._~+/=-]{8,})"
)
_EVENTS = {
    cls.type: cls
    for name in assistant_events.__all__
    if isinstance(getattr(cls := getattr(assistant_events, name), "type", None), str)
}


def record(llm: Llm, path: str | os.PathLike[str], *, scrub: Sequence[str] = ()) -> Llm:
    """A model that asks *llm* and writes every exchange to *path*, after each one.

    Args:
        scrub: Further texts to keep out of the file, such as a customer's name.
    """
    return _Recorder(llm, pathlib.Path(path), scrub)


def replay(path: str | os.PathLike[str], *, speed: float = 0.0) -> Llm:
    """A model that answers as recorded in *path*, in the recorded order.

    Args:
        speed: 0 leaves the pauses between events out, 1 keeps them, 2 halves them.

    Raises:
        ConfigurationError: There is no such file, or it is no cassette.
    """
    return _Player(pathlib.Path(path), speed)


class _Recorder:
    def __init__(self, llm: Llm, path: pathlib.Path, scrub: Sequence[str]) -> None:
        self._llm = llm
        self._path = path
        self._scrub = tuple(text for text in scrub if text)
        self._lock = threading.Lock()
        self._exchanges: list[dict[str, Any]] = []
        self.abortable = bool(getattr(llm, "abortable", False))

    @property
    def info(self) -> ModelInfo:
        return self._llm.info

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        question, began = _question(context), monotonic()
        events: list[dict[str, Any]] = []
        exchange: dict[str, Any] | None = {"question": question, "events": events}
        try:
            for event in self._llm.stream(context, options):
                events.append({"at": round(monotonic() - began, 4), **_event_to_dict(event)})
                if exchange is not None and isinstance(event, (Done, Failed)):
                    # Written before it is told: whoever hears of the end may read the file.
                    self._keep(exchange, options.api_key)
                    exchange = None
                yield event
        finally:
            if exchange is not None:
                self._keep(exchange, options.api_key)

    def _keep(self, exchange: dict[str, Any], api_key: str | None) -> None:
        secrets = (*self._scrub, api_key) if api_key else self._scrub
        with self._lock:
            self._exchanges.append(_scrubbed(exchange, secrets))
            model = {
                field.name: value
                for field in fields(ModelInfo)
                if (value := getattr(self.info, field.name)) is not None
            }
            tape = {"format": FORMAT, "model": model, "exchanges": self._exchanges}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(tape, indent=1) + "\n", "ascii")


class _Player:
    abortable = False

    def __init__(self, path: pathlib.Path, speed: float) -> None:
        if speed < 0:
            raise ConfigurationError(f"speed must be 0 or more, got {speed}")
        try:
            tape = json.loads(path.read_text("ascii"))
            self._left = list(tape["exchanges"])
            self.info = ModelInfo(**tape["model"])
        except FileNotFoundError:
            raise ConfigurationError(f"there is no cassette {path}; record() makes one") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{path} is no cassette: {error}") from error
        self._path = path
        self._speed = speed
        self._lock = threading.Lock()

    def stream(self, context: LlmContext, options: StreamOptions) -> Iterator[AssistantEvent]:
        with self._lock:
            if not self._left:
                raise AssertionError(f"{self._path} has no further answer; record it again")
            exchange = self._left.pop(0)
        asked = _scrubbed(_question(context), ())
        if asked != exchange["question"]:
            raise AssertionError(
                f"{self._path} was recorded for another question:\n{_difference(exchange, asked)}"
            )
        return self._play(exchange["events"], options)

    def _play(self, events: Sequence[dict[str, Any]], options: StreamOptions) -> Iterator[AssistantEvent]:
        before = 0.0
        for data in events:
            pause = (data["at"] - before) / self._speed if self._speed else 0.0
            before = data["at"]
            if pause > 0 and options.signal.wait(pause):
                return
            yield _event_from_dict(data)


def _question(context: LlmContext) -> dict[str, Any]:
    """What decides the answer; times do not."""
    messages = [message_to_dict(message) for message in context.messages]
    for message in messages:
        message.pop("timestamp", None)
        message.pop("details", None)
    question: dict[str, Any] = json.loads(
        json.dumps(
            {
                "system_prompt": context.system_prompt,
                "messages": messages,
                "tools": [tool.name for tool in context.tools],
            },
            default=str,
        )
    )
    return question


def _difference(exchange: dict[str, Any], asked: dict[str, Any]) -> str:
    lines = []
    for key, recorded in exchange["question"].items():
        if recorded != asked[key]:
            lines.append(
                f"{key}: recorded {json.dumps(recorded)[:500]}, asked {json.dumps(asked[key])[:500]}"
            )
    return "\n".join(lines)


def _scrubbed(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, SCRUBBED)
        return _SECRETS.sub(SCRUBBED, value)
    if isinstance(value, dict):
        return {key: _scrubbed(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_scrubbed(item, secrets) for item in value]
    return value


def _event_to_dict(event: AssistantEvent) -> dict[str, Any]:
    data: dict[str, Any] = {"type": event.type}
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, AssistantMessage):
            value = message_to_dict(value)
        elif isinstance(value, LlmError):
            value = _error_to_dict(value)
        elif field.name == "content":
            value = block_to_dict(value)
        data[field.name] = value
    return data


def _event_from_dict(data: dict[str, Any]) -> AssistantEvent:
    values = {key: value for key, value in data.items() if key not in ("type", "at")}
    for key, value in values.items():
        if key == "message":
            values[key] = message_from_dict(value)
        elif key == "error" and value is not None:
            details = dict(value)
            values[key] = make_error(details.pop("kind"), details.pop("text"), **details)
        elif key == "content":
            values[key] = block_from_dict(value)
    event: AssistantEvent = _EVENTS[data["type"]](**values)
    return event


def _error_to_dict(error: LlmError) -> dict[str, Any]:
    return {
        "text": str(error),
        "kind": error.kind,
        "status": error.status,
        "retryable": error.retryable,
        "retry_after": error.retry_after,
    }
