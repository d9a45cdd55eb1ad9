"""What a Chat Completions server refuses: the stand-in is as strict as the services it stands in for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["BadRequest", "check_request"]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class BadRequest(Exception):
    """The request breaks the dialect; ``param`` names where."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.status = status


def check_request(body: bytes) -> dict[str, Any]:
    """Parse and check a request body.

    Raises:
        BadRequest: With what is wrong and where.
    """
    try:
        request = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"The body is not valid JSON: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest("The body must be a JSON object.")
    if not isinstance(request.get("model"), str) or not request["model"]:
        raise BadRequest("You must provide a model.", "model")
    _check_messages(request.get("messages"))
    _check_tools(request.get("tools"), request.get("tool_choice"))
    temperature = request.get("temperature")
    if temperature is not None and not (isinstance(temperature, (int, float)) and 0 <= temperature <= 2):
        raise BadRequest(f"temperature must be between 0 and 2, got {temperature!r}.", "temperature")
    return request


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a non-empty array.", "messages")
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            role = message.get("role") if isinstance(message, dict) else message
            raise BadRequest(f"{where} has the unknown role {role!r}; known are {sorted(_ROLES)}.", where)
        if message["role"] == "tool":
            _answer_call(message, open_calls, where)
            continue
        if open_calls:
            raise BadRequest(f"{where} comes before the tool messages that answer {open_calls}.", where)
        _check_content(message, where)
        open_calls = [_call_id(call, where) for call in message.get("tool_calls") or ()]
    if open_calls:
        raise BadRequest(f"There are no tool messages that answer {open_calls}.", "messages")


def _answer_call(message: Mapping[str, Any], open_calls: list[str], where: str) -> None:
    answered = message.get("tool_call_id")
    if answered not in open_calls:
        raise BadRequest(f"{where} answers {answered!r}, but no call of that id is open.", where)
    if not isinstance(message.get("content"), (str, list)):
        raise BadRequest(f"{where} needs content.", where)
    open_calls.remove(answered)


def _check_content(message: Mapping[str, Any], where: str) -> None:
    content = message.get("content")
    if content is None and message["role"] == "assistant" and message.get("tool_calls"):
        return
    if isinstance(content, str) or (
        isinstance(content, list) and all(isinstance(part, dict) for part in content)
    ):
        return
    raise BadRequest(f"{where} needs content: a string or an array of parts.", where)


def _call_id(call: Any, where: str) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not call.get("id"):
        raise BadRequest(f"{where} has a tool call without an id or a function name.", where)
    if not isinstance(function.get("arguments"), str):
        raise BadRequest(f"{where} has a tool call whose arguments are not a string.", where)
    return str(call["id"])


def _check_tools(tools: Any, choice: Any) -> None:
    if tools is None:
        if choice not in (None, "none", "auto"):
            raise BadRequest("tool_choice is only allowed when tools are given.", "tool_choice")
        return
    if not isinstance(tools, list) or not tools:
        raise BadRequest("tools must be a non-empty array; leave it out when there are none.", "tools")
    names = [_function_name(tool, place) for place, tool in enumerate(tools)]
    if len(set(names)) < len(names):
        raise BadRequest("tools has two functions of the same name.", "tools")
    if isinstance(choice, dict):
        wanted = choice.get("function", {}).get("name")
        if wanted not in names:
            raise BadRequest(f"tool_choice names {wanted!r}, which is not among the tools.", "tool_choice")
    elif choice not in (None, "none", "auto", "required"):
        raise BadRequest(f"tool_choice {choice!r} is unknown.", "tool_choice")


def _function_name(tool: Any, place: int) -> str:
    function = tool.get("function") if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or tool.get("type") != "function" or not isinstance(name, str):
        raise BadRequest(
            f"tools[{place}] must be of type function, with a function that has a name.", "tools"
        )
    if not _FUNCTION_NAME.fullmatch(name):
        raise BadRequest(f"tools[{place}] has the name {name!r}; letters, digits, _ and - only.", "tools")
    schema = function.get("parameters")
    if schema is not None and not (isinstance(schema, dict) and schema.get("type") == "object"):
        raise BadRequest(f"The parameters of {name} must be a schema of type object.", "tools")
    return name
