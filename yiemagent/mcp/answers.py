"""What this client can do for a server, and the answers to its requests.

Legacy servers send requests of their own; modern ones put the same requests into an
``input_required`` result. Both come here, on a worker thread.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from yiemagent.mcp.elicitation import ElicitationRequest, ElicitationReturn, answer_elicitation
from yiemagent.mcp.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Message, make_error, make_result
from yiemagent.mcp.sampling import SamplingRequest, SamplingReturn, answer_sampling

__all__ = ["Answers", "OnElicitation", "OnSampling", "Root", "Roots", "asks_the_user"]


class OnElicitation(Protocol):
    """Asks the user. May block: a worker thread calls it, and the call it serves stands still.

    What it raises tells the server that the question could not be put.
    """

    def __call__(self, request: ElicitationRequest, /) -> ElicitationReturn: ...


class OnSampling(Protocol):
    """Asks a model. May block: a worker thread calls it. What it raises becomes an error."""

    def __call__(self, request: SamplingRequest, /) -> SamplingReturn: ...


Root: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""A folder, a ``file://`` URI, or ``{"uri": ..., "name": ...}``."""

Roots: TypeAlias = Iterable[Root] | Callable[[], Iterable[Root]]


def asks_the_user(method: str) -> bool:
    """Whether answering takes as long as a person or a model does."""
    return method in ("elicitation/create", "sampling/createMessage")


@dataclass(frozen=True)
class Answers:
    """The user's callbacks, and the capabilities that follow from them."""

    name: str
    """What the callbacks are told as the server's name."""
    on_elicitation: OnElicitation | None = None
    on_sampling: OnSampling | None = None
    roots: Roots | None = None
    more_capabilities: Mapping[str, Any] | None = None

    def capabilities(self) -> dict[str, Any]:
        """What to declare: only what there is a callback for, since servers offer tools by it."""
        declared: dict[str, Any] = {}
        if self.on_elicitation is not None:
            declared["elicitation"] = {"form": {}, "url": {}}
        if self.on_sampling is not None:
            declared["sampling"] = {}
        if self.roots is not None:
            declared["roots"] = {"listChanged": True}
        return {**declared, **(self.more_capabilities or {})}

    def respond(self, request: Message) -> Message:
        """The response to a request of the server's; never raises."""
        request_id = request.get("id")
        params = request.get("params")
        try:
            result = self.result(str(request.get("method")), params if isinstance(params, dict) else {})
        except Exception as exc:
            return make_error(request_id, INTERNAL_ERROR, f"{type(exc).__name__}: {exc}")
        if result is None:
            return make_error(
                request_id, METHOD_NOT_FOUND, f"this client does not offer {request.get('method')}"
            )
        return make_result(request_id, result)

    def result(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result for *method*, or None when this client does not offer it.

        Raises:
            Exception: Whatever the callback raised, or a ``ConfigurationError`` for what it returned.
        """
        if method == "ping":
            return {}
        if method == "elicitation/create" and self.on_elicitation is not None:
            question = ElicitationRequest.read(self.name, params)
            return answer_elicitation(question, self.on_elicitation(question))
        if method == "sampling/createMessage" and self.on_sampling is not None:
            return answer_sampling(self.on_sampling(SamplingRequest.read(self.name, params)))
        if method == "roots/list" and self.roots is not None:
            roots = self.roots() if callable(self.roots) else self.roots
            return {"roots": [_root(root) for root in roots]}
        return None


def _root(root: Root) -> dict[str, Any]:
    if isinstance(root, Mapping):
        return dict(root)
    text = os.fspath(root)
    if "://" in text:
        return {"uri": text, "name": text.rstrip("/").rpartition("/")[2]}
    path = pathlib.Path(text).absolute()
    return {"uri": path.as_uri(), "name": path.name}
