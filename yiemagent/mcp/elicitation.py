"""When the server asks the user: the question, the answer, and what fits between them.

Source: protocol 2026-07-28 "Elicitation"; defaults of all primitive types since 2025-11-25.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from yiemagent.errors import ConfigurationError

__all__ = ["ElicitationAnswer", "ElicitationRequest", "ElicitationReturn", "answer_elicitation"]


@dataclass(frozen=True, slots=True)
class ElicitationRequest:
    """What a server wants to know from the user. Say who asks: ``server``."""

    server: str
    """The client's name for the server that asks."""
    message: str
    mode: Literal["form", "url"] = "form"
    schema: Mapping[str, Any] = field(default_factory=dict)
    """Form: a flat JSON schema of what is wanted."""
    url: str = ""
    """URL: where the user shall go; show the host and ask before it is opened."""
    elicitation_id: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, server: str, params: Mapping[str, Any]) -> ElicitationRequest:
        """Read the params of ``elicitation/create``; a missing mode means a form."""
        schema = params.get("requestedSchema")
        return cls(
            server=server,
            message=str(params.get("message", "")),
            mode="url" if params.get("mode") == "url" else "form",
            schema=schema if isinstance(schema, dict) else {},
            url=str(params.get("url", "")),
            elicitation_id=str(params.get("elicitationId", "")),
            raw=params,
        )

    @property
    def defaults(self) -> dict[str, Any]:
        """The default of each field that has one: what a form is filled with at first."""
        properties = self.schema.get("properties")
        if not isinstance(properties, dict):
            return {}
        return {
            name: schema["default"]
            for name, schema in properties.items()
            if isinstance(schema, dict) and "default" in schema
        }

    @property
    def required(self) -> tuple[str, ...]:
        """The fields that an accepted answer must have."""
        names = self.schema.get("required")
        return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """What the user did: ``accept`` (with the form's content), ``decline``, or ``cancel``."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


ElicitationReturn: TypeAlias = ElicitationAnswer | Mapping[str, Any] | bool | str | None
"""What a callback may return: a mapping accepts with that content, True accepts (a form then gets
its defaults), None and False decline, and the action may be given by its name."""


def answer_elicitation(request: ElicitationRequest, returned: ElicitationReturn) -> dict[str, Any]:
    """The result of ``elicitation/create``; fields that were left out get their defaults.

    Raises:
        ConfigurationError: The callback returned something else, or left out a required field.
    """
    answer = _read(returned)
    if answer.action != "accept":
        return {"action": answer.action}
    if request.mode == "url":
        return {"action": "accept"}
    content = {**request.defaults, **(answer.content or {})}
    missing = [name for name in request.required if name not in content]
    if missing:
        raise ConfigurationError(f"the accepted answer lacks the required fields {', '.join(missing)}")
    return {"action": "accept", "content": content}


def _read(returned: ElicitationReturn) -> ElicitationAnswer:
    if isinstance(returned, ElicitationAnswer):
        return returned
    if returned is None or returned is False:
        return ElicitationAnswer("decline")
    if returned is True or returned == "accept":
        return ElicitationAnswer("accept")
    if returned == "decline":
        return ElicitationAnswer("decline")
    if returned == "cancel":
        return ElicitationAnswer("cancel")
    if isinstance(returned, Mapping):
        return ElicitationAnswer("accept", returned)
    raise ConfigurationError(
        f"on_elicitation returned {returned!r}; return a mapping (accept), None (decline), "
        "'cancel', or an ElicitationAnswer"
    )
