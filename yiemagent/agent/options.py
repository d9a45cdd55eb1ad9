"""The agent's keyword arguments: checked once, at construction, in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import itemgetter
from typing import Any

from yiemagent.errors import ConfigurationError
from yiemagent.loop.limits import DEFAULT_LIMITS, Limits
from yiemagent.model import Llm
from yiemagent.value_checks import check_count, check_number, check_seconds, check_switch, check_type

__all__ = [
    "as_llm",
    "check_hook",
    "check_keywords",
    "make_limits",
    "refuse_unknown",
]

_OTHER_NAMES = {
    "instructions": "system_prompt",
    "system": "system_prompt",
    "prompt": "system_prompt",
    "max_turns": "max_tool_turns",
    "max_steps": "max_tool_turns",
    "max_iterations": "max_tool_turns",
    "parallel": "parallel_tool_execute",
    "timeout": "max_seconds",
    "history": "messages",
    "mcp": "mcp_server",
    "mcp_servers": "mcp_server",
}

_HOOKS = {
    "prepare_context": 2,
    "transform_context": 2,
    "convert_to_llm": 1,
    "recover_context": 1,
    "before_tool_call": 3,
    "after_tool_call": 3,
    "around_tool_call": 1,
    "prepare_next_turn": 1,
    "should_stop_after_turn": 1,
    "get_api_key": 1,
    "on_payload": 1,
    "on_response": 2,
    "event_sink": 1,
    "format_msg_for_llm": 1,
}
"""Keywords that are called, and with how many positional arguments."""
_COUNTS = ("max_tool_concurrency", "max_tool_result_chars")
_CHOICES = {"when_busy": ("queue", "raise"), "on_mcp_failure": ("raise", "event")}
_SWITCHES = ("fence_untrusted", "parallel_tool_execute")
_TYPES: dict[str, tuple[type, ...]] = {
    "extra_body": (Mapping,),
    "thinking_budgets": (Mapping,),
    "session_id": (str,),
    "transport": (str,),
    "tool_choice": (str, Mapping),
}


_OPTIONAL = (*_HOOKS, *_TYPES, "tool_timeout", "max_retry_delay", "temperature", "max_tokens")
"""Keywords that are None where nobody gives them: looked at one by one only if one is not."""
_optional = itemgetter(*_OPTIONAL)
_NONE = {type(None)}


def check_keywords(given: Mapping[str, Any]) -> None:
    """Look at the keywords of ``Agent`` that nothing else looks at.

    Args:
        given: All of them, by name.

    Raises:
        ConfigurationError: It names the first one that cannot work, its value and the way out.
    """
    if not _NONE.issuperset(map(type, _optional(given))):
        _check_optional(given)
    check_seconds("abort_grace", given["abort_grace"], zero=True, none=False)
    for name in _COUNTS:
        check_count(name, given[name])
    for name in _SWITCHES:
        check_switch(name, given[name])
    for name, choices in _CHOICES.items():
        if given[name] not in choices:
            raise ConfigurationError(f"{name} must be {' or '.join(map(repr, choices))}, got {given[name]!r}")


def _check_optional(given: Mapping[str, Any]) -> None:
    """Look at what is mostly None; see ``check_keywords``."""
    for name, arguments in _HOOKS.items():
        check_hook(name, given[name], arguments)
    check_seconds("tool_timeout", given["tool_timeout"])
    check_seconds("max_retry_delay", given["max_retry_delay"], zero=True)
    check_count("max_tokens", given["max_tokens"])
    for name, kinds in _TYPES.items():
        check_type(name, given[name], *kinds)
    check_number("temperature", given["temperature"])


def refuse_unknown(unknown: Mapping[str, Any], known: Callable[..., Any]) -> None:
    """Raise for keywords that *known* does not take.

    Raises:
        ConfigurationError: It names the first one and what may have been meant.
    """
    if not unknown:
        return
    name = next(iter(unknown))
    names = [p for p in inspect.signature(known).parameters if p not in ("self", "unknown")]
    import difflib

    guess = _OTHER_NAMES.get(name) or next(iter(difflib.get_close_matches(name, names, 1)), None)
    hint = f"; did you mean {guess!r}?" if guess else f"; known: {', '.join(names)}"
    raise ConfigurationError(f"Agent got an unknown keyword {name!r}{hint}")


def as_llm(model: Any, format_msg_for_llm: Callable[..., Any] | None) -> Llm:
    """The ``Llm`` that *model* is or stands for.

    Raises:
        ConfigurationError: It is neither an ``Llm``, a ``"provider:model"`` string nor a callable.
    """
    if isinstance(model, str):
        from yiemagent.llm.providers import model_from_string

        llm: Any = model_from_string(model)
    elif hasattr(model, "stream") and hasattr(model, "info"):
        llm = model
    elif callable(model) and not inspect.isclass(model):
        from yiemagent.llm.callable import CallableLlm

        made: Llm = CallableLlm(model, format_msg_for_llm)
        return made
    else:
        raise ConfigurationError(
            'model must be an Llm object such as OpenAIChat("gpt-5-mini"), a string "provider:model", or a '
            f"callable llm_call(request, *, event_sink) -> dict; got {model!r}"
        )
    if format_msg_for_llm is not None:
        raise ConfigurationError(
            "format_msg_for_llm makes the request of an llm_call callable; an Llm object makes its own: "
            "use on_payload= to see or change it"
        )
    return llm  # type: ignore[no-any-return]


def check_hook(name: str, hook: Any, arguments: int) -> None:
    """Raise unless *hook* is None or can be called with that many positional arguments.

    Raises:
        ConfigurationError: It names the hook and how it is called.
    """
    if hook is None:
        return
    if not callable(hook):
        raise ConfigurationError(f"{name} must be callable, got {hook!r}")
    call = hook if inspect.isroutine(hook) else getattr(type(hook), "__call__", hook)  # noqa: B004
    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(call):
        raise ConfigurationError(f"{name} is an async function; yiemagent calls hooks as plain functions")
    if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
        raise ConfigurationError(
            f"{name} is a generator function, of which calling it runs nothing: return the value instead of "
            "yielding it, or decorate it with contextlib.contextmanager if it is to wrap tool calls"
        )
    try:
        inspect.signature(hook).bind(*range(arguments))
    except TypeError as error:
        raise ConfigurationError(
            f"{name} is called with {arguments} positional arguments, which it does not take: {error}"
        ) from error
    except ValueError:
        return  # A builtin without a signature.


def make_limits(limits: Limits | None, shorthands: Mapping[str, Any]) -> Limits:
    """The limits, from the object or the shorthand keywords.

    Raises:
        ConfigurationError: Both were given for the same thing, or a value is impossible.
    """
    given = {name: value for name, value in shorthands.items() if value is not ...}
    if limits is None:
        return Limits(**given) if given else DEFAULT_LIMITS
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits must be a Limits object, got {limits!r}")
    if given:
        raise ConfigurationError(f"give {', '.join(given)} inside limits=Limits(...) or alone, not both")
    return limits


LIMIT_NAMES = tuple(field.name for field in fields(Limits))
