"""The part of an MCP server that every server shares: eras, handshakes, errors, cancellation.

Quick requests are answered where they arrive; those that may take long are handed to the
wire's ``run``, so that pings and cancellations get through.

Source: protocol versions 2024-11-05 to 2026-07-28.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from yiemagent.mcp.eras import MODERN_VERSIONS, SERVER_INFO_META
from yiemagent.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Message,
    kind_of,
    make_error,
    make_result,
)
from yiemagent.mcp.serve_session import Incoming, Refusal, Send, ServerSession

__all__ = ["MessageServer", "Run"]

logger = logging.getLogger(__name__)

Run: TypeAlias = Callable[[Callable[[], None]], bool]
"""How a wire runs what may take long: on a worker, or where the request arrived; False: too busy."""

CACHEABLE = {
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
}


class MessageServer(ABC):
    """Takes JSON-RPC messages of any era and answers them. Any thread may call any method.

    A subclass says who it is and answers the methods that it has.
    """

    # --- what a subclass says

    @abstractmethod
    def info(self) -> Mapping[str, Any]:
        """``serverInfo``: name, version and perhaps title."""

    @abstractmethod
    def capabilities(self) -> Mapping[str, Any]:
        """What clients are told they may ask for."""

    def instructions(self) -> str | None:
        """How to use the server, for the client's model."""
        return None

    @abstractmethod
    def takes_long(self, method: str) -> bool:
        """Whether *method* may block; it is then run by the wire's ``run``."""

    @abstractmethod
    def answer(self, incoming: Incoming) -> dict[str, Any]:
        """The result of a request.

        Raises:
            Refusal: It is answered with this error.
            Exception: Anything else becomes an internal error with its text.
        """

    def schema_of(self, tool_name: str) -> Mapping[str, Any] | None:
        """The input schema of a tool, when it is known without asking anybody."""
        return None

    # --- what a wire calls

    def handle(self, session: ServerSession, message: Message, send: Send, run: Run) -> bool:
        """Take one message of a client.

        Args:
            session: Who sends it.
            message: Any JSON object.
            send: Gets what belongs to this message: progress, then exactly one response to a
                request that is not cancelled; nothing for a notification.
            run: Gets the part of the work that may take long.

        Returns:
            Whether it was a message that this session may send; a refusal was sent when not.
        """
        kind = kind_of(message)
        if kind == "request":
            return self._handle_request(session, message, send, run)
        if kind == "invalid":
            send(make_error(None, INVALID_REQUEST, "not a JSON-RPC request"))
            return False
        if message.get("method") == "notifications/cancelled" and isinstance(message.get("params"), Mapping):
            session.cancel(message["params"])
        return True

    def _handle_request(self, session: ServerSession, message: Message, send: Send, run: Run) -> bool:
        try:
            incoming = session.accept(message, send)
        except Refusal as refusal:
            send(make_error(message["id"], refusal.code, refusal.text, refusal.data))
            return False
        if not self.takes_long(incoming.method):
            self._serve(session, incoming)
        elif not run(lambda: self._serve(session, incoming)):
            session.finish(incoming)
            send(make_error(incoming.id, INTERNAL_ERROR, "the server has too many requests waiting"))
            session.settle()
        return True

    def _serve(self, session: ServerSession, incoming: Incoming) -> None:
        try:
            response = None if incoming.signal.aborted else self._respond(session, incoming)
            session.finish(incoming)
            if response is not None and not incoming.signal.aborted:
                incoming.send(response)
        finally:
            session.finish(incoming)
            session.settle()

    def _respond(self, session: ServerSession, incoming: Incoming) -> Message:
        try:
            return make_result(incoming.id, self._finished(incoming, self._result(session, incoming)))
        except Refusal as refusal:
            return make_error(incoming.id, refusal.code, refusal.text, refusal.data)
        except Exception as exc:
            logger.exception("method=%s | the server could not answer", incoming.method)
            return make_error(incoming.id, INTERNAL_ERROR, f"{type(exc).__name__}: {exc}")

    def _result(self, session: ServerSession, incoming: Incoming) -> dict[str, Any]:
        if incoming.method == "initialize" and not incoming.modern:
            return self._initialize(session, incoming)
        if incoming.method == "ping" and not incoming.modern:
            return {}
        if incoming.method == "server/discover" and incoming.modern:
            return self._about({"supportedVersions": list(MODERN_VERSIONS)})
        if incoming.method in ("initialize", "ping", "server/discover"):
            raise Refusal(METHOD_NOT_FOUND, f"Method not found: {incoming.method}")
        return self.answer(incoming)

    def _initialize(self, session: ServerSession, incoming: Incoming) -> dict[str, Any]:
        wanted = incoming.params.get("protocolVersion")
        session.version = wanted if wanted in session.legacy else session.legacy[-1]
        return self._about({"protocolVersion": session.version, "serverInfo": self.info()})

    def _about(self, result: dict[str, Any]) -> dict[str, Any]:
        result["capabilities"] = self.capabilities()
        instructions = self.instructions()
        if instructions is not None:
            result["instructions"] = instructions
        return result

    def _finished(self, incoming: Incoming, result: dict[str, Any]) -> dict[str, Any]:
        if incoming.modern:
            meta = {SERVER_INFO_META: self.info(), **(result.get("_meta") or {})}
            result = {"resultType": "complete", **result, "_meta": meta}
            if incoming.method in CACHEABLE and result["resultType"] == "complete":
                result = {"ttlMs": 0, "cacheScope": "private", **result}
        return result
