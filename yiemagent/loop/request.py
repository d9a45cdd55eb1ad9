"""From the history to one request: the hooks of the configuration in their order.

Order (PI-12, ST-2): prepare_context, transform_context, validation,
convert_to_llm, get_api_key. What fails here is the answer's error; the model is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

from yiemagent.abort import AbortSignal
from yiemagent.context.observation import observing
from yiemagent.context.transcript import has_calls, repair_transcript, validate_transcript
from yiemagent.errors import InvalidTranscript
from yiemagent.lineage import History, same_beginning
from yiemagent.loop.config import AgentContext, default_convert_to_llm
from yiemagent.loop.run_state import LoopRun, call_hook
from yiemagent.messages import AssistantMessage, CustomMessage, Message, ToolResultMessage
from yiemagent.model import LlmContext, StreamOptions

__all__ = ["build_request", "without_failed_answers"]

_KINDS = frozenset(get_args(Message))
_NOT_SENT = ("error", "aborted", "redirected")
_SOUND = "loop.sound"  # The note of the history that was found to be sound and plain.
_UNTRUSTED = "loop.untrusted"  # Whether that history has untrusted results.
_FENCE = "loop.fence"  # What fences them, and remembers what it fenced.


def build_request(run: LoopRun, call_signal: AbortSignal) -> tuple[LlmContext, StreamOptions]:
    """The request of the next model call.

    Raises:
        YiemAgentError: ``HookFailed``, ``InvalidTranscript``, or what a hook raised of ours.
    """
    config = run.config
    context, messages = _prepared(run)
    if config.transform_context is not None:
        # A list of its own: the hook may change it in place (case C-37).
        with observing(run.heard):
            messages = _messages_of(
                "transform_context", config.transform_context, list(messages), call_signal
            )
    history, plain = _valid(run, messages)
    messages = history
    if config.fence_untrusted:
        messages = _fenced(run, messages, plain)
    if not plain or config.convert_to_llm is not default_convert_to_llm:
        messages = without_failed_answers(_messages_of("convert_to_llm", config.convert_to_llm, messages))
    api_key = config.api_key
    if config.get_api_key is not None:
        api_key = (
            call_hook("get_api_key", _asked_key, config.get_api_key, config.model.info.provider) or api_key
        )
    run.offered = context.tools
    wanted = config.want_deltas
    options = StreamOptions(
        signal=call_signal,
        deadline=run.budget.deadline,
        want_deltas=wanted() if callable(wanted) else wanted,
        api_key=api_key or None,
        reasoning=None if config.reasoning == "off" else config.reasoning,
        thinking_budgets=config.thinking_budgets,
        session_id=config.session_id,
        transport=config.transport,
        max_retry_delay=config.max_retry_delay,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        tool_choice=config.tool_choice,
        extra_body=config.extra_body,
        on_payload=config.on_payload,
        on_response=config.on_response,
        event_sink=run.event_sink,
        history=History(history, run.lineage) if run.lineage and plain and messages is history else None,
        notes=run.notes,
    )
    sendable: Sequence[Any] = messages
    return LlmContext(context.system_prompt, sendable, context.tools.specs), options


def _asked_key(get_api_key: Callable[[str], str | None], provider: str) -> str | None:
    key: Any = get_api_key(provider)
    if key is not None and not isinstance(key, str):
        raise TypeError(f"it must return a str or None, got {type(key).__name__}")
    return key


def without_failed_answers(messages: Sequence[Any]) -> Sequence[Any]:
    """Leave out answers that failed, were aborted or redirected, with the results of their calls.

    They are part of the history, but no model is to read half an answer (decision 24, case C-50).
    """
    if not _has_unsent(messages):
        return messages
    kept: list[Any] = []
    left_out: set[str] = set()
    for message in messages:
        if isinstance(message, AssistantMessage):
            failed = message.stop_reason in _NOT_SENT
            left_out = {call.id for call in message.tool_calls} if failed else set()
            if failed:
                continue
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in left_out:
            continue
        kept.append(message)
    return kept


def _prepared(run: LoopRun) -> tuple[AgentContext, Sequence[Message]]:
    hook = run.config.prepare_context
    messages = run.request_messages()
    if hook is None:
        return run.context, messages

    def checked() -> AgentContext | None:
        context: Any = hook(run.context.with_messages(tuple(messages)), run.event_sink)
        if context is not None and not isinstance(context, AgentContext):
            raise TypeError(f"it must return an AgentContext or None, got {type(context).__name__}")
        return context

    with observing(run.heard):
        context: AgentContext | None = call_hook("prepare_context", checked)
    return (run.context, messages) if context is None else (context, context.messages)


def _messages_of(name: str, hook: Callable[..., Any], *args: Any) -> Sequence[Any]:
    def checked() -> Sequence[Any]:
        messages: Any = hook(*args)
        if not isinstance(messages, Iterable):
            raise TypeError(f"it must return the messages, got {type(messages).__name__}")
        listed = messages if isinstance(messages, (list, tuple)) else list(messages)
        if not _KINDS.issuperset(map(type, listed)):
            for one in listed:
                if not isinstance(one, Message):
                    raise TypeError(f"it must return messages such as UserMessage, got {type(one).__name__}")
        return listed

    made: Sequence[Any] = call_hook(name, checked)
    return made


def _valid(run: LoopRun, messages: Sequence[Message]) -> tuple[Sequence[Any], bool]:
    """*messages* as they may be sent, and whether each of them is for every model."""
    own = messages is run.messages
    if own and not run.validated:
        run.validated = _known(run)
    start = run.validated if own else 0
    violations = validate_transcript(messages, start)
    if violations and run.config.invalid_transcript == "repair":
        messages, done = repair_transcript(messages)
        run.diagnose("transcript_repaired", violations=len(violations), repairs=len(done))
        return messages, False
    if violations:
        kinds = ", ".join(sorted({str(violation["type"]) for violation in violations}))
        raise InvalidTranscript(
            f"the transcript cannot be sent: {kinds}; repair_transcript() mends it", violations=violations
        )
    if not own:
        return messages, False
    added = messages[start:]
    if any(map(_is_untrusted, added)):
        run.notes[_UNTRUSTED] = True
    run.plain = run.plain and CustomMessage not in map(type, added) and not _has_unsent(added)
    run.validated = len(messages)
    sent = tuple(messages)
    if run.plain:
        run.notes[_SOUND] = sent, run.lineage and run.lineage.mark
    return sent, run.plain


def _fenced(run: LoopRun, messages: Sequence[Any], plain: bool) -> Sequence[Any]:
    """Untrusted tool results in fences, on the way to the model only (TR-6)."""
    untrusted = run.notes.get(_UNTRUSTED, False) if plain else any(map(_is_untrusted, messages))
    if not untrusted:
        return messages
    fence = run.notes.get(_FENCE)
    if fence is None:
        from yiemagent.context.trust import untrusted_boundary

        fence = run.notes[_FENCE] = untrusted_boundary()
    with observing(run.heard):
        made: Sequence[Any] = fence(messages)
    return made


def _is_untrusted(message: Message) -> bool:
    return type(message) is ToolResultMessage and message.trust == "untrusted"


def _known(run: LoopRun) -> int:
    """How many messages an earlier run of this conversation found to be sound and plain."""
    known, mark = run.notes.get(_SOUND, ((), None))
    same = 0 if run.lineage is None else run.lineage.kept(mark, len(known))
    if not same:
        same = same_beginning(known, run.messages)
    # Calls are never parted from their results: those here may differ from those known.
    while same and (type(run.messages[same - 1]) is ToolResultMessage or has_calls(run.messages[same - 1])):
        same -= 1
    return same


def _has_unsent(messages: Sequence[Any]) -> bool:
    return any(type(message) is AssistantMessage and message.stop_reason in _NOT_SENT for message in messages)
