"""Resources and prompts that a server of ours offers beside its tools."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from yiemagent.errors import ConfigurationError
from yiemagent.messages import AssistantMessage, TextContent, UserMessage
from yiemagent.value_checks import check_switch, check_type

__all__ = ["PromptArgument", "ServedPrompt", "ServedResource"]

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedResource:
    """Something a client can read by its URI.

    Raises:
        ConfigurationError: The URI has no scheme.
    """

    uri: str
    """``memo://today``; with ``{name}`` in it, such as ``memo://{day}``, it is a template."""
    name: str
    read: Callable[..., str | bytes]
    """Called on a worker; a template's gets the parts of the URI as keywords. Bytes travel as base64."""
    title: str | None = None
    description: str | None = None
    mime_type: str = "text/plain"

    def __post_init__(self) -> None:
        _check_words("resource", self, "uri", "name", "mime_type")
        if not callable(self.read):
            raise ConfigurationError(f"read of resource {self.name!r} must be callable, got {self.read!r}")
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", self.uri):
            raise ConfigurationError(f"the uri of resource {self.name!r} needs a scheme, got {self.uri!r}")

    @property
    def is_template(self) -> bool:
        """Whether the URI has placeholders."""
        return _PLACEHOLDER.search(self.uri) is not None

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the placeholders when *uri* is one of this resource, else None."""
        if not self.is_template:
            return {} if uri == self.uri else None
        parts = _PLACEHOLDER.split(self.uri)
        pattern = "".join(
            f"(?P<{part}>[^/?#]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts)
        )
        found = re.fullmatch(pattern, uri)
        return None if found is None else {key: unquote(value) for key, value in found.groupdict().items()}

    def listing(self) -> dict[str, Any]:
        """Its entry in ``resources/list`` or ``resources/templates/list``."""
        entry: dict[str, Any] = {"name": self.name, "mimeType": self.mime_type}
        entry["uriTemplate" if self.is_template else "uri"] = self.uri
        return _with_words(entry, self.title, self.description)

    def contents(self, uri: str, values: Mapping[str, str]) -> dict[str, Any]:
        """Read it; what ``read`` raises goes through."""
        content = self.read(**values)
        entry: dict[str, Any] = {"uri": uri, "mimeType": self.mime_type}
        if isinstance(content, bytes):
            entry["blob"] = base64.b64encode(content).decode("ascii")
        else:
            entry["text"] = content
        return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """One argument of a prompt; its value is always text."""

    name: str
    description: str | None = None
    required: bool = False

    def __post_init__(self) -> None:
        _check_words("argument", self, "name")
        check_switch(f"required of argument {self.name!r}", self.required)

    def listing(self) -> dict[str, Any]:
        """Its entry in the prompt's listing."""
        return _with_words({"name": self.name, "required": self.required}, None, self.description)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPrompt:
    """A message, or several, that a client can ask for by name."""

    name: str
    render: Callable[..., str | Sequence[UserMessage | AssistantMessage | Mapping[str, Any]]]
    """Called on a worker with the arguments as keywords. A text is one user message; dicts are the wire's."""
    arguments: Sequence[PromptArgument] = ()
    title: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        _check_words("prompt", self, "name")
        if not callable(self.render):
            raise ConfigurationError(f"render of prompt {self.name!r} must be callable, got {self.render!r}")
        listed: Any = self.arguments
        if not isinstance(listed, Sequence) or not all(isinstance(one, PromptArgument) for one in listed):
            raise ConfigurationError(
                f"arguments of prompt {self.name!r} must be a list of PromptArgument, got {listed!r}"
            )

    def listing(self) -> dict[str, Any]:
        """Its entry in ``prompts/list``."""
        entry = {"name": self.name, "arguments": [argument.listing() for argument in self.arguments]}
        return _with_words(entry, self.title, self.description)

    def messages(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Render it; what ``render`` raises goes through."""
        rendered = self.render(**arguments)
        listed = [UserMessage((TextContent(rendered),))] if isinstance(rendered, str) else rendered
        result: dict[str, Any] = {"messages": [_wire_message(message) for message in listed]}
        if self.description is not None:
            result["description"] = self.description
        return result


def _wire_message(message: UserMessage | AssistantMessage | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(message, Mapping):
        return dict(message)
    return {"role": message.role, "content": {"type": "text", "text": message.text}}


def _with_words(entry: dict[str, Any], title: str | None, description: str | None) -> dict[str, Any]:
    if title is not None:
        entry["title"] = title
    if description is not None:
        entry["description"] = description
    return entry


def _check_words(kind: str, offer: Any, *needed: str) -> None:
    for name in (*needed, "title", "description"):
        value = getattr(offer, name, None)
        check_type(f"{name} of {kind} {offer.name!r}", value, str, none=name not in needed)
