"""A Chat Completions request as bytes: each message is encoded once, a request is a join.

The bytes stay with their message (``_wire``), under a key that stands for everything their
form depends on; so a turn of a long conversation costs its new messages, not its history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from yiemagent.data_class import dataclass
from yiemagent.lineage import Lineage, same_beginning
from yiemagent.llm.openai_messages import (
    Dialect,
    assistant_dict,
    image_parts,
    merged_content,
    result_dict,
    user_dict,
)
from yiemagent.llm.reasoning import reasoning_params
from yiemagent.llm.replay import is_sound, repair_history
from yiemagent.llm.wire_json import message_to_wire, to_wire
from yiemagent.messages import AssistantMessage, LlmMessage, ToolResultMessage, UserMessage
from yiemagent.model import LlmContext, StreamOptions, ToolSpec
from yiemagent.tools.wire_schema import to_wire_schema

__all__ = ["ChatRequests", "tool_dict"]

_RESERVED = frozenset({"model", "messages", "tools"})
_KNOWN = "openai-chat.known"  # The note of the parts that the next request will have too.
_MOST_PARTS = 64
_keys: dict[Dialect, Dialect] = {}


@dataclass(slots=True)
class _Known:
    """The parts of a history up to an answer, under the key that they were encoded for."""

    key: Dialect
    messages: tuple[LlmMessage, ...] = ()
    parts: list[bytes] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    """Of the calls in it."""
    mark: object = None
    """Of the lineage that it is the beginning of, if it has one."""

    def begins(self, messages: Sequence[LlmMessage], key: Dialect, lineage: Lineage | None) -> bool:
        """Whether *messages*, of *lineage*, begin with the very objects of this history."""
        length = len(self.messages)
        if self.key is not key or length > len(messages):
            return False
        if lineage is None:
            return same_beginning(self.messages, messages) == length
        if lineage.kept(self.mark, length) < length > same_beginning(self.messages, messages):
            return False
        self.mark = lineage.mark
        return True


class ChatRequests:
    """Makes the requests of one dialect. Any thread.

    Args:
        dialect: Quirks, model and whether it sees images.
    """

    __slots__ = ("_head", "_key", "_tools", "dialect")

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        # Equal dialects share one key, so that several model objects share encoded messages.
        self._key = _keys.setdefault(dialect, dialect)
        self._head: tuple[str, bytes] | None = None
        self._tools: tuple[Sequence[ToolSpec], bytes] | None = None

    def body(
        self, context: LlmContext, options: StreamOptions, *, stream: bool, defaults: Mapping[str, Any]
    ) -> bytes:
        """The body of a request.

        Args:
            stream: Whether server-sent events are asked for.
            defaults: Parameters of the model object, sent unless *options* says otherwise.
        """
        params = self._params(context, options, stream, defaults)
        if not _RESERVED.isdisjoint(params):
            return self._unusual(context, params, options)
        end = [b"]"]
        if context.tools:
            end += [b',"tools":', self._encoded_tools(context.tools)]
        end.append(b"," + to_wire(params)[1:] if params else b"}")
        return self._joined(context, b"".join(end), options)

    # -- messages ------------------------------------------------------------------------

    def _joined(self, context: LlmContext, end: bytes, options: StreamOptions) -> bytes:
        """The whole body by one join: history is long, and each copy of it costs."""
        history = options.history
        lineage = None if history is None else history.lineage_of(context.messages)
        parts = self._messages(context.messages, options.notes, lineage)
        start = self._start(context.system_prompt)
        if not parts:
            return start + end
        parts[0] = start + (b"," if context.system_prompt else b"") + parts[0]
        parts[-1] += end
        return b",".join(parts)

    def _messages(
        self, messages: Sequence[LlmMessage], notes: dict[Any, Any] | None, lineage: Lineage | None
    ) -> list[bytes]:
        """The parts of *messages*; those that the request before had too are taken from *notes*."""
        known = None if notes is None else notes.get(_KNOWN)
        if known is None or not known.begins(messages, self._key, lineage):
            known = _Known(self._key)
        begin = len(known.messages)
        added = messages[begin:] if begin else messages
        if not is_sound(added, known.ids, known.messages[-1] if begin else None):
            if notes is not None:
                notes.pop(_KNOWN, None)
            parts: list[bytes] = []
            self._append(parts, repair_history(messages))
            return parts
        parts = known.parts.copy()
        cut = self._last_answer(messages, begin)
        if cut > begin and notes is not None:
            self._append(parts, messages[begin:cut])
            mark = None if lineage is None else lineage.mark
            notes[_KNOWN] = _Known(self._key, tuple(messages[:cut]), _packed(parts), known.ids, mark)
            added = messages[cut:]
        self._append(parts, added)
        return parts

    def _last_answer(self, messages: Sequence[LlmMessage], begin: int) -> int:
        """Where the last answer ends: what follows has no influence on the form of what is before."""
        for end in range(len(messages), begin, -1):
            message = messages[end - 1]
            if type(message) is AssistantMessage and self._wire(message)[1] is not None:
                return end
        return begin

    def _wire(self, message: LlmMessage) -> tuple[Any, Any, bool]:
        wire = message._wire
        return self._encode(message) if wire is None or wire[0] is not self._key else wire

    def _append(self, parts: list[bytes], messages: Sequence[LlmMessage]) -> None:
        """Add the parts of *messages*, which begin the history or follow an answer."""
        key = self._key
        merges, line = self.dialect.quirks.merge_users, self.dialect.quirks.line_after_results
        append = parts.append
        seen: list[ToolResultMessage] = []  # results whose images are still to be shown
        users: list[UserMessage | list[Any]] = []  # what the last part is made of, if a user said it
        after_result = False
        for message in messages:
            wire = message._wire
            if wire is None or wire[0] is not key:
                wire = self._encode(message)
            kind = type(message)
            if kind is ToolResultMessage:
                append(wire[1])
                if wire[2]:
                    seen.append(message)  # type: ignore[arg-type]
                after_result = True
                users = []
                continue
            if seen:
                users, seen = [self._append_images(parts, seen)], []
            data = wire[1]
            if data is None:
                continue
            if kind is not UserMessage:
                append(data)
                if users:
                    users = []
            elif users and merges:
                users.append(message)  # type: ignore[arg-type]
                parts[-1] = self._merged(users)
            else:
                if after_result and line and not users:
                    append(to_wire({"role": "assistant", "content": line}))
                append(data)
                users = [message]  # type: ignore[list-item]
            after_result = False
        if seen:
            self._append_images(parts, seen)

    def _append_images(self, parts: list[bytes], results: list[ToolResultMessage]) -> list[Any]:
        """One user message with the images of all results before it (C-31)."""
        line = self.dialect.quirks.line_after_results
        if line:
            parts.append(to_wire({"role": "assistant", "content": line}))
        content: list[Any] = [{"type": "text", "text": "Attached image(s) from tool result:"}]
        for result in results:
            content += image_parts(result, self.dialect)
        parts.append(to_wire({"role": "user", "content": content}))
        return content

    def _merged(self, users: list[UserMessage | list[Any]]) -> bytes:
        contents: list[Any] = []
        for user in users:
            data = user_dict(user, self.dialect) if isinstance(user, UserMessage) else {"content": user}
            if data is not None:
                contents.append(data["content"])
        return to_wire({"role": "user", "content": merged_content(contents)})

    def _encode(self, message: LlmMessage) -> tuple[Any, Any, bool]:
        """Encode *message* and leave the bytes with it: (key, bytes or None, are there images)."""
        data: dict[str, Any] | None
        images = False
        if isinstance(message, ToolResultMessage):
            data, images = result_dict(message, self.dialect), bool(image_parts(message, self.dialect))
        elif isinstance(message, AssistantMessage):
            data = assistant_dict(message, self.dialect)
        else:
            data = user_dict(message, self.dialect)
        wire = (self._key, None if data is None else message_to_wire(data), images)
        object.__setattr__(message, "_wire", wire)
        return wire

    # -- the rest ------------------------------------------------------------------------

    def _start(self, system_prompt: str) -> bytes:
        head = self._head
        if head is None or head[0] != system_prompt:
            start = b'{"model":' + to_wire(self.dialect.model) + b',"messages":['
            if system_prompt:
                start += to_wire({"role": self.dialect.quirks.system_role, "content": system_prompt})
            head = self._head = (system_prompt, start)
        return head[1]

    def _encoded_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        held = self._tools
        if held is None or held[0] != tools:
            held = self._tools = (tuple(tools), to_wire([tool_dict(tool) for tool in tools]))
        return held[1]

    def _params(
        self,
        context: LlmContext,
        options: StreamOptions,
        stream: bool,
        defaults: Mapping[str, Any],
    ) -> dict[str, Any]:
        quirks = self.dialect.quirks
        params: dict[str, Any] = {}
        if not context.tools and quirks.empty_tools and _has_calls(context.messages):
            params["tools"] = []
        if options.tool_choice is not None:
            params["tool_choice"] = _tool_choice(options.tool_choice)
        if stream:
            params["stream"] = True
            if quirks.stream_usage:
                params["stream_options"] = {"include_usage": True}
        max_tokens = options.max_tokens if options.max_tokens is not None else defaults.get("max_tokens")
        if max_tokens is not None:
            params[quirks.max_tokens_field] = max_tokens
        temperature = options.temperature if options.temperature is not None else defaults.get("temperature")
        if temperature is not None:
            params["temperature"] = temperature
        params.update(reasoning_params(quirks.reasoning, options.reasoning, options.thinking_budgets))
        if options.session_id and quirks.cache_key_field:
            params[quirks.cache_key_field] = options.session_id[:64]
        params.update(defaults.get("extra_body") or {})
        params.update(options.extra_body or {})
        return params

    def _unusual(self, context: LlmContext, params: dict[str, Any], options: StreamOptions) -> bytes:
        """The body when a parameter replaces model, messages or tools."""
        body = json.loads(self._joined(context, b"]}", options))
        if context.tools:
            body["tools"] = json.loads(self._encoded_tools(context.tools))
        return to_wire({**body, **params})


def tool_dict(tool: ToolSpec) -> dict[str, Any]:
    """A tool as a request describes it."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = to_wire_schema(tool.input_schema)
    return {"type": "function", "function": function}


def _tool_choice(choice: Any) -> Any:
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        return {"type": "function", "function": {"name": choice}}
    return choice


def _packed(parts: list[bytes]) -> list[bytes]:
    """*parts* as few: a thousand small pieces, each somewhere in memory, cost more than their copying.

    The first stays by itself, since what begins the body is put before it.
    """
    return parts.copy() if len(parts) <= _MOST_PARTS else [parts[0], b",".join(parts[1:])]


def _has_calls(messages: Sequence[LlmMessage]) -> bool:
    return any(isinstance(message, ToolResultMessage) for message in messages)
