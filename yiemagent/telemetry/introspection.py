"""Introspection: a listener that makes records of a run's events for the owner's handlers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any, Final

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.events import (
    AgentEnd,
    AgentStart,
    Diagnostic,
    Event,
    MessageEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from yiemagent.messages import AssistantMessage, ImageContent, ToolResultMessage, Usage
from yiemagent.telemetry.delivery import Delivery
from yiemagent.telemetry.records import REDACTED, Handler, Provenance, Record, sanitized
from yiemagent.telemetry.runs import Runs

__all__ = ["Introspection", "error_kind_of", "error_type_of"]

_LEFT: Final = ("aborted", "tool_timeout")
"""Error types of calls that did not end by themselves (T243)."""


@dataclass(slots=True)
class _Run:
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    began: float = field(default_factory=monotonic)
    turn_began: float = field(default_factory=monotonic)
    turns: int = 0
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    tools: dict[str, float] = field(default_factory=dict)


class Introspection:
    """Records what runs do, without what was said in them.

    Subscribe it, ``introspection.watch(agent)``, or give it as ``emit`` to the stateless loop.
    One may hear any number of agents at once. Types of records:

    ``agent_loop_started``, ``agent_turn_observed`` (inferred), ``agent_loop_ended`` (with the
    status); ``tool_task.start``, ``tool_task.end`` (also of a tool that raised),
    ``tool_task.error`` (of one that was aborted or timed out), ``tool_result.emit`` (with its
    trust); and every diagnostic event by its own name: ``context.compacted``,
    ``context.truncated``, ``llm_retry``, ``limit_reached`` and so on.

    Args:
        *handlers: Called with each ``Record``, in order.
        agent: Name of the agent in the records.
        session_id: Likewise.
        capture_arguments: Put sanitised tool arguments into the records.
        background: Call the handlers on a daemon thread of their own, so that one that blocks
            holds up no run. False calls them on the loop's thread, which then waits for them.
        queue_size: Most records that wait for the thread; newer ones are dropped and counted.

    Raises:
        ConfigurationError: A handler is not callable, or *queue_size* is below 1.

    Source: TL-1, TL-2; T243 to T245.
    """

    def __init__(
        self,
        *handlers: Handler,
        agent: str | None = None,
        session_id: str | None = None,
        capture_arguments: bool = False,
        background: bool = True,
        queue_size: int = 1_000,
    ) -> None:
        self._delivery: Delivery[Record] = Delivery(handlers, size=queue_size)
        self._agent = agent
        self._session_id = session_id
        self._capture_arguments = capture_arguments
        self._background = background
        self._runs: Runs[_Run] = Runs()

    @property
    def dropped(self) -> int:
        """How many records were dropped because the handlers were too slow."""
        return self._delivery.dropped

    def watch(self, agent: Any) -> Callable[[], None]:
        """Subscribe to *agent*, without the deltas; the returned function unsubscribes."""
        unsubscribe: Callable[[], None] = agent.subscribe(self, deltas=False)
        return unsubscribe

    def __call__(self, event: Event, signal: AbortSignal | None = None) -> None:
        """Hear one event, on the loop's thread."""
        if isinstance(event, AgentStart):
            self._runs.begin(signal, _Run())
        run = self._runs.get(signal)
        if run is None:
            return
        for kind, payload, provenance in self._describe(event, run):
            self._send(kind, payload, provenance, run.id)
        if isinstance(event, AgentEnd):
            self._runs.end(signal)

    def emit(self, kind: str, payload: Mapping[str, Any], *, provenance: Provenance = "direct") -> None:
        """Add a record of the application's own.

        Raises:
            ConfigurationError: *kind* is no text or blank, or *payload* is no mapping.
        """
        if not isinstance(kind, str) or not kind.strip():
            raise ConfigurationError(f"the type of a record must be a text, got {kind!r}")
        if not isinstance(payload, Mapping):
            raise ConfigurationError(f"the payload of a record must be a mapping, got {payload!r}")
        self._send(kind, payload, provenance, None)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the handlers have had every record; whether they had within *timeout* seconds."""
        return self._delivery.flush(timeout)

    def close(self, timeout: float | None = 5.0) -> bool:
        """Flush and end the thread; later records are dropped. Whether everything was handled."""
        return self._delivery.close(timeout)

    def __enter__(self) -> Introspection:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _send(
        self, kind: str, payload: Mapping[str, Any], provenance: Provenance, run_id: str | None
    ) -> None:
        record = Record(
            event_id=uuid.uuid4().hex,
            type=kind,
            timestamp=time(),
            provenance=provenance,
            run_id=run_id,
            agent=self._agent,
            session_id=self._session_id,
            payload=sanitized(payload),
        )
        if self._background:
            self._delivery.put(record)
        else:
            self._delivery.deliver(record)

    # -- what an event says ----------------------------------------------------------------

    def _describe(self, event: Event, run: _Run) -> Sequence[tuple[str, dict[str, Any], Provenance]]:
        if isinstance(event, AgentStart):
            return (("agent_loop_started", {}, "direct"),)
        if isinstance(event, TurnStart):
            run.turn_began = monotonic()
        elif isinstance(event, TurnEnd):
            return (("agent_turn_observed", _turn(event, run), "inferred"),)
        elif isinstance(event, ToolExecutionStart):
            return (("tool_task.start", self._tool_start(event, run), "direct"),)
        elif isinstance(event, ToolExecutionEnd):
            return (_tool_end(event, run),)
        elif isinstance(event, MessageEnd):
            return _message(event, run)
        elif isinstance(event, Diagnostic):
            return ((event.name, dict(event.data), "direct"),)
        elif isinstance(event, AgentEnd):
            return (("agent_loop_ended", _end(event, run), "direct"),)
        return ()

    def _tool_start(self, event: ToolExecutionStart, run: _Run) -> dict[str, Any]:
        run.tools[event.tool_call_id] = monotonic()
        arguments = event.arguments if self._capture_arguments else REDACTED
        return {
            "tool_call_id": event.tool_call_id,
            "tool_name": event.tool_name,
            "arguments": arguments,
        }


def _turn(event: TurnEnd, run: _Run) -> dict[str, Any]:
    run.turns += 1
    run.calls += len(event.tool_results)
    message = event.message
    return {
        "turn": run.turns,
        "stop_reason": message.stop_reason,
        "error_kind": message.error_kind,
        "provider": message.provider,
        "model": message.model,
        "tool_calls": len(message.tool_calls),
        "tool_errors": sum(result.is_error for result in event.tool_results),
        "duration": monotonic() - run.turn_began,
        **_tokens(message.usage),
    }


def _tool_end(event: ToolExecutionEnd, run: _Run) -> tuple[str, dict[str, Any], Provenance]:
    began = run.tools.pop(event.tool_call_id, None)
    error_type = error_type_of(event.result) if event.is_error else None
    payload = {
        "tool_call_id": event.tool_call_id,
        "tool_name": event.tool_name,
        "is_error": event.is_error,
        "error_type": error_type,
        "duration": None if began is None else monotonic() - began,
    }
    return "tool_task.error" if error_type in _LEFT else "tool_task.end", payload, "direct"


def _message(event: MessageEnd, run: _Run) -> Sequence[tuple[str, dict[str, Any], Provenance]]:
    message = event.message
    if isinstance(message, AssistantMessage) and message.usage is not None:
        run.usage += message.usage
    if not isinstance(message, ToolResultMessage):
        return ()
    payload = {
        "tool_call_id": message.tool_call_id,
        "tool_name": message.tool_name,
        "is_error": message.is_error,
        "trust": message.trust,
        "char_count": len(message.text),
        "image_count": sum(isinstance(block, ImageContent) for block in message.content),
    }
    return (("tool_result.emit", payload, "direct"),)


def _end(event: AgentEnd, run: _Run) -> dict[str, Any]:
    return {
        "status": event.status,
        "limit": event.limit,
        "error_kind": error_kind_of(event.error),
        "turns": run.turns,
        "tool_calls": run.calls,
        "new_messages": len(event.messages),
        "duration": monotonic() - run.began,
        **_tokens(run.usage),
    }


def _tokens(usage: Usage | None) -> dict[str, Any]:
    usage = usage or Usage()
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost": usage.cost,
    }


def error_kind_of(error: BaseException | None) -> str | None:
    """The stable name of an error: its ``kind``, else its class. Its text may be content."""
    if error is None:
        return None
    kind = getattr(error, "kind", None)
    return kind if isinstance(kind, str) else type(error).__name__


def error_type_of(result: Any) -> str | None:
    """``details["error_type"]`` of a tool result, if it has one."""
    details = getattr(result, "details", None)
    found = details.get("error_type") if isinstance(details, Mapping) else None
    return found if isinstance(found, str) else None
