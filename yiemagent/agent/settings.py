"""What an agent is made of, and may be changed between runs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, get_args

from yiemagent.agent.listeners import Listeners
from yiemagent.agent.options import as_llm
from yiemagent.agent.queues import Channels, QueueMode
from yiemagent.agent.state import AgentState, StateReducer
from yiemagent.data_class import replace
from yiemagent.errors import ConfigurationError
from yiemagent.lineage import same_beginning
from yiemagent.loop.config import AgentLoopConfig
from yiemagent.messages import Message
from yiemagent.model import Llm, ThinkingLevel
from yiemagent.tools.pool import AbandonedTool, ToolThreads
from yiemagent.tools.registry import ToolRegistry
from yiemagent.tools.tool import Tools
from yiemagent.value_checks import check_type

__all__ = ["AgentSettings", "as_messages", "checked_level"]


class AgentSettings:
    """The properties of ``Agent``. Reading is safe from any thread; a change acts on the next run."""

    __slots__ = ("_channels", "_config", "_listeners", "_reducer", "_system_prompt", "_threads", "_tools")

    _channels: Channels
    _config: AgentLoopConfig
    _listeners: Listeners
    _reducer: StateReducer
    _system_prompt: str
    _threads: ToolThreads
    _tools: ToolRegistry

    @property
    def state(self) -> AgentState:
        """A snapshot of everything; it never changes. Costs the length of the history."""
        reducer = self._reducer
        return AgentState(
            system_prompt=self._system_prompt,
            model=self._config.model,
            thinking_level=self.thinking_level,
            tools=self._tools.specs,
            messages=tuple(reducer.messages),
            is_streaming=self._channels.busy,
            streaming_message=reducer.streaming_message,
            pending_tool_calls=reducer.pending_tool_calls,
            error_message=reducer.error_message,
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole history, as a snapshot.

        Setting it replaces the history; messages of ours and OpenAI-format dicts are taken.

        Raises:
            AgentBusy: Set while a run is in progress.
            ConfigurationError: Set to something that is no message.
        """
        return tuple(self._reducer.messages)

    @messages.setter
    def messages(self, messages: Iterable[Any]) -> None:
        self._channels.replace_history(functools.partial(self._take_history, _listed(messages)))

    def _take_history(self, given: list[Any]) -> None:
        kept = same_beginning(given, self._reducer.messages)
        self._reducer.replace(_converted(given, kept), kept)

    @property
    def is_busy(self) -> bool:
        """Whether a run is in progress or about to start."""
        return self._channels.busy

    @property
    def is_stopped(self) -> bool:
        """Whether ``stop`` was called: the agent takes no more messages."""
        return self._channels.stopping

    @property
    def system_prompt(self) -> str:
        """What the model is told before everything else; may be empty."""
        return self._system_prompt

    @system_prompt.setter
    def system_prompt(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"system_prompt must be a str, got {type(text).__name__}")
        self._system_prompt = text

    @property
    def model(self) -> Llm:
        """The model. Set it to an ``Llm``, a ``"provider:model"`` string or an ``llm_call`` callable."""
        return self._config.model

    @model.setter
    def model(self, model: Any) -> None:
        self._config = replace(self._config, model=as_llm(model, None))

    @property
    def thinking_level(self) -> ThinkingLevel:
        """How much the model is to reason; ``"off"`` sends nothing of it."""
        return self._config.reasoning or "off"

    @thinking_level.setter
    def thinking_level(self, level: ThinkingLevel) -> None:
        self._config = replace(self._config, reasoning=checked_level(level))

    @property
    def tools(self) -> ToolRegistry:
        """The tools, in order. Set it to any mix of ``Tool`` objects and plain functions."""
        return self._tools

    @tools.setter
    def tools(self, tools: Tools) -> None:
        self._tools = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)

    @property
    def session_id(self) -> str | None:
        """Names the conversation to providers that cache by it."""
        return self._config.session_id

    @session_id.setter
    def session_id(self, session_id: str | None) -> None:
        check_type("session_id", session_id, str)
        self._config = replace(self._config, session_id=session_id)

    @property
    def steering_mode(self) -> QueueMode:
        """``"one_at_a_time"`` (default) or ``"all"``: how much one poll takes. Acts on the next poll."""
        return self._channels.steering_mode

    @steering_mode.setter
    def steering_mode(self, mode: QueueMode) -> None:
        self._channels.steering_mode = _mode("steering_mode", mode)

    @property
    def follow_up_mode(self) -> QueueMode:
        """``"one_at_a_time"`` (default) or ``"all"``: how many follow-ups one turn takes."""
        return self._channels.follow_up_mode

    @follow_up_mode.setter
    def follow_up_mode(self, mode: QueueMode) -> None:
        self._channels.follow_up_mode = _mode("follow_up_mode", mode)

    @property
    def abandoned_tools(self) -> tuple[AbandonedTool, ...]:
        """Tools that were left while they ran and have not ended yet."""
        return self._threads.abandoned

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "an Agent holds threads and cannot be pickled or copied; keep agent.messages "
            "(yiemagent.message_formats.messages_to_json) and make a new Agent with messages="
        )

    def __copy__(self) -> NoReturn:
        self.__getstate__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__getstate__()

    def __reduce__(self) -> NoReturn:
        self.__getstate__()


def checked_level(level: Any) -> ThinkingLevel:
    """*level*, if it is one.

    Raises:
        ConfigurationError: It is none.
    """
    if level not in get_args(ThinkingLevel):
        raise ConfigurationError(
            f"thinking_level must be one of {', '.join(get_args(ThinkingLevel))}, got {level!r}"
        )
    return level  # type: ignore[no-any-return]


_KINDS = frozenset(get_args(Message))


def as_messages(messages: Iterable[Any]) -> list[Message]:
    """A history from messages of ours and OpenAI-format dicts.

    Raises:
        ConfigurationError: One of them is neither, or has an unknown role.
    """
    return _converted(_listed(messages), 0)


def _converted(given: list[Any], known: int) -> list[Message]:
    """*given* as messages; the first *known* surely are."""
    if _KINDS.issuperset(map(type, given[known:])):
        return given
    made: list[Message] = []
    for number, message in enumerate(given):
        if isinstance(message, Message):
            made.append(message)
        elif isinstance(message, dict):
            from yiemagent.message_formats import message_from_openai

            made.append(message_from_openai(message))
        else:
            raise ConfigurationError(f"messages[{number}] is a {type(message).__name__}, not a message")
    return made


def _listed(messages: Any) -> list[Any]:
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        raise ConfigurationError(
            f"messages must be a list of messages, got {type(messages).__name__}; write messages=[...]"
        )
    return list(messages)


def _mode(name: str, mode: Any) -> QueueMode:
    if mode not in ("one_at_a_time", "all"):
        raise ConfigurationError(f"{name} must be 'one_at_a_time' or 'all', got {mode!r}")
    return mode  # type: ignore[no-any-return]
