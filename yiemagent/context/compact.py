"""Compaction: the older part of a long conversation is replaced by a summary, for the model only.

The history keeps every message. A ``Compactor`` is a ``transform_context``: it watches how full
the context window is, and when a share of it is reached a model sums up what is old. The
summary is remembered and sent in place of what it stands for until the next one is due.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from yiemagent.abort import AbortSignal
from yiemagent.context.compaction_state import CompactionState, choose_cut, find_questions
from yiemagent.context.fence import wrap_external
from yiemagent.context.observation import observe
from yiemagent.context.size import message_size
from yiemagent.context.summary import SUMMARY_PROMPT, Summary, SummaryFailed, summarize
from yiemagent.context.tokens import CountTokens, TokenCounter
from yiemagent.data_class import replace
from yiemagent.errors import ConfigurationError
from yiemagent.messages import (
    AssistantMessage,
    CustomMessage,
    LlmMessage,
    Message,
    TextContent,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from yiemagent.model import Llm, StreamOptions
from yiemagent.value_checks import check_callable, check_count, check_seconds, check_type

__all__ = ["CompactionReport", "Compactor"]

logger = logging.getLogger(__name__)

_KEPT_SHARE = 0.5
"""How much of the share at which compaction starts the recent messages may keep."""
_RETRY_AFTER = 0.05
"""By how much of the window a conversation must grow before a failed compaction is tried again."""
_INTRODUCTION = "Summary of the conversation so far. The messages it stands for are left out.\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What one compaction did; with ``failed`` everything stayed as it was."""

    failed: str | None = None
    """None, or why: ``nothing_to_replace``, ``too_long``, ``cut_off``, ``no_summary``, ``timeout``,
    ``model_error``, ``aborted``."""
    error: BaseException | None = None
    """What the model raised."""
    end: int = 0
    """The summary stands for those of the given messages that lie before this index."""
    kept: tuple[int, ...] = ()
    """Those of them that are sent all the same: the first question, and that of the turn in progress."""
    summary: str | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    """Estimates for the request, before and after."""
    usage: Usage = field(default_factory=Usage)
    """What the summary cost."""
    calls: int = 0
    """How often the model was asked for it."""


class Compactor:
    """Replaces old turns by a summary when the context window gets full.

    Use it as ``transform_context``, in front of other transforms, and its
    ``recover_from_overflow`` as ``recover_context``. One for each conversation. In a
    conversation that only grows, a request costs what was added since the last one.

    Kept as they are: the first user message, the last *keep_recent_turns* turns as far as they
    fit into half of the share, the user message of a turn that is too long for that, and tool
    calls with their results. A summary that fails, or that is not shorter than what it
    replaces, changes nothing; it is tried again when the conversation has grown.

    Args:
        llm: Writes the summaries.
        context_window: Tokens that the answering model can take. None asks ``llm.info``.
        share: Part of the window at which compaction starts.
        keep_recent_turns: Turns at the end to keep, each from a user message to the next.
        summary_prompt: System prompt for the summaries instead of ``SUMMARY_PROMPT``.
        max_summary_tokens: Longest summary that is accepted, by estimate. None takes a
            twentieth of the share, between 200 and 4,000.
        count_tokens: See ``TokenCounter``; estimates calibrate themselves in any case.
        convert_to_llm: Translates the application's own messages for the summary. By default
            they do not go into it.
        options: How the summaries are asked for (key, temperature, reasoning).
        timeout: Seconds for one compaction; None = no limit.

    Raises:
        ConfigurationError: A value is of no use or out of range, or the context window is not known.
    """

    def __init__(
        self,
        llm: Llm,
        *,
        context_window: int | None = None,
        share: float = 0.8,
        keep_recent_turns: int = 3,
        summary_prompt: str | None = None,
        max_summary_tokens: int | None = None,
        count_tokens: CountTokens | None = None,
        convert_to_llm: Callable[[Sequence[Message]], Sequence[LlmMessage]] | None = None,
        options: StreamOptions | None = None,
        timeout: float | None = 120.0,
    ) -> None:
        if not hasattr(llm, "stream") or not hasattr(llm, "info"):
            raise ConfigurationError(
                f'llm must be an Llm object such as OpenAIChat("gpt-5-mini") or agent.model, got {llm!r}'
            )
        check_type("summary_prompt", summary_prompt, str)
        check_type("options", options, StreamOptions)
        check_callable("count_tokens", count_tokens)
        check_callable("convert_to_llm", convert_to_llm)
        window = llm.info.context_window if context_window is None else context_window
        if window is None:
            raise ConfigurationError(
                f"the context window of {llm.info.id!r} is not known; pass context_window=<tokens>"
            )
        check_count("context_window", window)
        check_count("keep_recent_turns", keep_recent_turns, none=False)
        check_count("max_summary_tokens", max_summary_tokens)
        check_seconds("timeout", timeout)
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise ConfigurationError(f"share must be greater than 0 and at most 1, got {share!r}")
        if max_summary_tokens is None:
            max_summary_tokens = max(200, min(4_000, int(window * share / 20)))
        self._llm = llm
        self._window = window
        self._limit = window * share
        self._keep_turns = keep_recent_turns
        self._prompt = (SUMMARY_PROMPT if summary_prompt is None else summary_prompt).replace(
            "{words}", str(max_summary_tokens * 6 // 10)
        )
        self._max_summary_tokens = max_summary_tokens
        self._counter = TokenCounter(count_tokens)
        self._convert = convert_to_llm or _without_own
        self._options = options or StreamOptions()
        self._timeout = timeout
        # Most recent first. Two, because after an overflow a run goes on from shorter messages,
        # and the next one from the history again.
        self._states: tuple[CompactionState, ...] = ()
        self._last_report: CompactionReport | None = None
        self._last_signal: weakref.ref[AbortSignal] | None = None

    @property
    def summary(self) -> str | None:
        """The summary in use, or None."""
        return self._states[0].summary or None if self._states else None

    @property
    def last_report(self) -> CompactionReport | None:
        """What the last compaction did, or None before the first."""
        return self._last_report

    def __call__(self, messages: Sequence[Message], signal: AbortSignal | None = None) -> Sequence[Message]:
        """The messages for one request; *messages* itself as long as nothing is replaced."""
        self._last_signal = None if signal is None else weakref.ref(signal)
        state, others = self._follow(messages)
        tokens = self._counter.estimate(state.units)
        if tokens >= self._limit and tokens >= state.retry_at:
            state, _ = self._compact(state, self._limit * _KEPT_SHARE, signal)
        self._states = (state, *others)
        return state.sent()

    def compact(
        self, messages: Sequence[Message], signal: AbortSignal | None = None
    ) -> tuple[Sequence[Message], CompactionReport]:
        """Compact now, however full the window is.

        Returns:
            The messages for the next request, and what was done.
        """
        state, others = self._follow(messages)
        state, report = self._compact(state, self._limit * _KEPT_SHARE, signal)
        self._states = (state, *others)
        return state.sent(), report

    def recover_from_overflow(
        self, messages: Sequence[Message], signal: AbortSignal | None = None
    ) -> Sequence[Message] | None:
        """Make a request that the provider refused as too long much shorter (case C-38).

        What is kept shrinks to a quarter of what was sent, huge tool results lose their
        middle, and later estimates know that the refused request did not fit.

        Args:
            messages: The history.
            signal: Ends it; by default the one of the request that was refused.

        Returns:
            Shorter messages to ask again with, or None when they cannot be made shorter.
        """
        if signal is None and self._last_signal is not None:
            signal = self._last_signal()
        state, others = self._follow(messages)
        self._counter.learn_overflow(state.units, self._window)
        keep = min(self._limit, self._counter.estimate(state.units)) / 4
        shorter = replace(state, max_result_chars=max(1_000, int(keep)))
        shorter = replace(shorter, tail_units=shorter.measured(shorter.seen[shorter.cut :], self._counter))
        recovered, _ = self._compact(shorter, keep, signal)
        self._states = (recovered, *others)
        return recovered.sent() if recovered.units < state.units else None

    def reset(self) -> None:
        """Forget the conversation and its summary; what was learned of token sizes is kept."""
        self._states = ()

    def _follow(self, messages: Sequence[Message]) -> tuple[CompactionState, tuple[CompactionState, ...]]:
        """The state with everything counted that was added since the last request; and the other one."""
        for index, state in enumerate(self._states):
            others = self._states[:index] + self._states[index + 1 :]
            if state.follows(messages):
                self._learn(state, messages)
                return state.grown(messages, self._counter), others
            rebased = state.rebased(messages)
            if rebased is not None:
                return rebased.grown(messages, self._counter), (state,)
        return CompactionState().grown(messages, self._counter), self._states[:1]

    def _learn(self, state: CompactionState, messages: Sequence[Message]) -> None:
        """Right behind what was sent is the answer to it, with the provider's own count."""
        if 0 < state.known < len(messages):
            answer = messages[state.known]
            if isinstance(answer, AssistantMessage):
                self._counter.learn(state.units, answer.usage)

    # -- compacting ------------------------------------------------------------------------

    def _compact(
        self, state: CompactionState, keep_tokens: float, signal: AbortSignal | None
    ) -> tuple[CompactionState, CompactionReport]:
        before = self._counter.estimate(state.units)
        keep_units = keep_tokens * self._counter.units_per_token
        cut = choose_cut(state, self._counter, keep_units, self._keep_turns)
        replaced = state.seen[state.cut : cut]
        first, pinned = find_questions(state, cut)
        try:
            if all(index == first for index in range(state.cut, cut)):
                raise SummaryFailed("nothing_to_replace")
            summary = self._summarize(replaced, state.summary, signal)
        except SummaryFailed as failure:
            return self._failed(state, CompactionReport(failed=failure.reason, error=failure.error), before)
        kept = tuple(index for index in (first, pinned) if index is not None)
        made = self._with_summary(state, cut, first, pinned, summary)
        report = CompactionReport(usage=summary.usage, calls=summary.calls)
        if made.units >= state.units or self._tokens(summary.text) > self._max_summary_tokens:
            return self._failed(state, replace(report, failed="too_long"), before)
        after = self._counter.estimate(made.units)
        report = replace(
            report, end=cut, kept=kept, summary=summary.text, tokens_before=before, tokens_after=after
        )
        observe(
            "context.compacted",
            {"replaced_messages": cut - len(kept), "end": cut, **_numbers(report)},
        )
        self._last_report = report
        return made, report

    def _failed(
        self, state: CompactionState, report: CompactionReport, tokens: int
    ) -> tuple[CompactionState, CompactionReport]:
        report = replace(report, tokens_before=tokens, tokens_after=tokens)
        self._last_report = report
        kind = getattr(report.error, "kind", None)
        observe(
            "context.compaction_failed", {"reason": report.failed, "error_kind": kind, **_numbers(report)}
        )
        if report.failed == "aborted":
            return state, report
        logger.warning("reason=%s kind=%s | the conversation was not compacted", report.failed, kind)
        return replace(state, retry_at=tokens + int(self._window * _RETRY_AFTER)), report

    def _summarize(self, replaced: Sequence[Message], previous: str, signal: AbortSignal | None) -> Summary:
        deadline = None if self._timeout is None else monotonic() + self._timeout
        options = replace(self._options, signal=signal or AbortSignal(), deadline=deadline, want_deltas=False)
        window = min(self._window, self._llm.info.context_window or self._window)
        # The rest is for the prompt, the summary so far and the new one.
        room = max(window / 2, window - 2 * self._max_summary_tokens - 500)
        units = sum(map(self._counter.measure, replaced)) or 1
        chars_per_token = sum(map(message_size, replaced)) / units * self._counter.units_per_token
        return summarize(
            self._llm,
            self._convert(replaced),
            previous,
            prompt=self._prompt,
            chunk_chars=int(room * max(1.0, chars_per_token)),
            options=options,
        )

    def _with_summary(
        self, state: CompactionState, cut: int, first: int | None, pinned: int | None, summary: Summary
    ) -> CompactionState:
        messages = state.seen
        is_tainted = state.is_tainted or any(map(_is_untrusted, messages[state.cut : cut]))
        text = summary.text
        if is_tainted:
            # A summary is said by the user; what strangers wrote must not gain that voice.
            text = wrap_external(text, source="summary of a conversation with untrusted tool output")
        stand_in = UserMessage((TextContent(_INTRODUCTION + text),), timestamp=messages[cut - 1].timestamp)
        before = () if first is None else (messages[first],)
        behind = () if pinned is None else (messages[pinned],)
        head = (*before, stand_in, *behind)
        return replace(
            state,
            head=head,
            stand_in=stand_in,
            cut=cut,
            head_units=sum(map(self._counter.measure, head)),
            tail_units=state.measured(messages[cut:], self._counter),
            summary=summary.text,
            is_tainted=is_tainted,
            retry_at=0,
        )

    def _tokens(self, text: str) -> float:
        return self._counter.measure(UserMessage((TextContent(text),))) / self._counter.units_per_token


def _without_own(messages: Sequence[Message]) -> Sequence[LlmMessage]:
    return [message for message in messages if not isinstance(message, CustomMessage)]


def _is_untrusted(message: Message) -> bool:
    return type(message) is ToolResultMessage and message.trust == "untrusted"


def _numbers(report: CompactionReport) -> dict[str, object]:
    return {
        "tokens_before": report.tokens_before,
        "tokens_after": report.tokens_after,
        "calls": report.calls,
        "summary_tokens": report.usage.total_tokens,
        "cost": report.usage.cost,
    }
