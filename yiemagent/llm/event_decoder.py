"""What the decoders of answers that come as typed events have in common.

Told apart from ``ChatDecoder``, whose chunks have no type and whose stream has an end mark of
its own. No hook here is called for an ordinary event: pieces of text are what streams are made of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from yiemagent.errors import LlmError
from yiemagent.llm.answer import AnswerBuilder, OpenBlock
from yiemagent.llm.errors import body_error, invalid_answer
from yiemagent.llm.wire_json import SHAPE_ERRORS, raw_decode
from yiemagent.model import ModelInfo

__all__ = ["EventDecoder", "Handlers"]

Handlers = Mapping[str, Callable[[Any, Mapping[str, Any]], None]]
"""What reads an event, by its type; an event without one is ignored."""


class EventDecoder(ABC):
    """Decodes one answer. Feed it events or one whole body, then call ``finish``.

    A subclass gives its ``_handlers``, ``is_finished``, ``finish``, and how it reads a whole body.

    Args:
        builder: Collects the blocks; its ``events`` are what listeners get.
        source: Who answers, for messages of errors.
        info: Prices and context window of the model.
        max_tokens: What the request allowed, to tell that an answer was cut off.
    """

    __slots__ = ("_blocks", "_failure", "_info", "_max_tokens", "_source", "builder")

    _handlers: ClassVar[Handlers]
    _content_key: ClassVar[str]
    """Where a whole answer has the list that makes it one."""

    def __init__(
        self, builder: AnswerBuilder, source: str, info: ModelInfo, *, max_tokens: int | None = None
    ) -> None:
        self.builder = builder
        self._source = source
        self._info = info
        self._max_tokens = max_tokens
        self._blocks: dict[Any, OpenBlock] = {}
        self._failure: LlmError | None = None

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether the end was announced."""

    def feed(self, data: str, event: str = "message") -> bool:
        """Take the data of one server-sent event; whether it was the last one worth reading."""
        try:
            chunk, _ = raw_decode(data)
        except (ValueError, RecursionError):
            if data.strip() not in ("", "[DONE]"):
                self.builder.warn("ignored_non_json_data")
            return False
        if not isinstance(chunk, dict):
            return False
        kind = str(chunk.get("type") or event)
        if kind == "error" or (chunk.get("error") and self._is_error(chunk)):
            self._take_error(chunk)
            return True
        handler = self._handlers.get(kind)
        if handler is not None:
            try:
                handler(self, chunk)
            except SHAPE_ERRORS as error:
                self._misshapen(kind, error)
        return self.is_finished

    def take_body(self, body: Any) -> None:
        """Take a whole answer."""
        if not isinstance(body, dict):
            self._failure = self._invalid(f"JSON of type {type(body).__name__}")
        elif body.get("error") or body.get("type") == "error":
            self._failure = body_error(body.get("error") or body, self._source)
        elif not isinstance(body.get(self._content_key), list):
            found = ", ".join(map(str, list(body)[:20]))
            self._failure = self._invalid(f"no {self._content_key}; it has {found}")
        else:
            try:
                self._take_whole(body)
            except SHAPE_ERRORS as error:
                self._failure = self._invalid(f"an unknown shape ({error})")

    def lost(self, error: LlmError) -> None:
        """The connection broke or fell silent: no harm if the end was announced before."""
        if not self.is_finished:
            self._failure = error

    # -- what a dialect may say otherwise ---------------------------------------------------

    def _take_whole(self, body: Mapping[str, Any]) -> None:
        """Read the whole answer *body*, which has a list at ``_content_key``; some dialects have none."""
        raise NotImplementedError

    def _is_error(self, chunk: Mapping[str, Any]) -> bool:
        """Whether *chunk*, which holds an ``error`` but is no error event, is to be taken as one."""
        return True

    def _take_error(self, chunk: Mapping[str, Any]) -> None:
        self._failure = body_error(chunk.get("error") or chunk, self._source)

    def _misshapen(self, kind: str, error: Exception) -> None:
        self._failure = self._invalid(f"a {kind} of an unknown shape ({error})")

    def _invalid(self, what: str) -> LlmError:
        return invalid_answer(self._source, what)
