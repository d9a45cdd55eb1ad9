"""Iterate a model's stream so that it can be left at any moment.

A model that ends its own stream on abort is iterated here and now. Any other one runs on a
kept thread: the loop takes its events from a mailbox, and leaves the thread when the call is
aborted or its time is up, however silent the provider is (decision 10, H2).
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from yiemagent.assistant_events import AssistantEvent, Done, Failed
from yiemagent.data_class import dataclass, replace
from yiemagent.errors import LlmError
from yiemagent.kept_thread import Mailbox
from yiemagent.loop.config import StreamFn
from yiemagent.model import LlmContext, StreamOptions
from yiemagent.tools.pool import ToolThreads

__all__ = ["iterate_model"]


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


@dataclass(frozen=True, slots=True)
class _Said:
    """What the model said through its ``event_sink``; told on the loop's thread."""

    text: str
    publish: bool


class _End:
    """The stream is over."""


_Mail = AssistantEvent | _Failure | _Said | _End


def iterate_model(
    stream: StreamFn,
    context: LlmContext,
    options: StreamOptions,
    *,
    abortable: bool,
    threads: ToolThreads,
) -> Generator[AssistantEvent, None, None]:
    """Yield the events of one call; ends without a terminal event when the call was left.

    What had come before the abort is yielded all the same.

    Args:
        stream, context, options: What to call, and with what.
        abortable: Whether the stream ends by itself on abort.
        threads: Where the helper thread comes from, and goes back to when it is not left.

    Raises:
        BaseException: What the stream raised.
    """
    if not abortable:
        yield from _iterate_on_thread(stream, context, options, threads)
        return
    with _opened(stream(context, options)) as events:
        for event in events:
            yield event
            if options.signal.aborted:
                return


def _iterate_on_thread(
    stream: StreamFn, context: LlmContext, options: StreamOptions, threads: ToolThreads
) -> Iterator[AssistantEvent]:
    mail: Mailbox[_Mail] = Mailbox()
    sink = options.event_sink
    work = _work(stream, context, options, mail)
    thread = threads.take()
    stop_listening = options.signal.on_abort(mail.wake)
    try:
        thread.start(work)
        while (item := mail.take(options.deadline)) is not None:
            if isinstance(item, _Said):
                if sink is not None:
                    sink(item.text, item.publish)
                continue
            if isinstance(item, _Failure):
                raise item.error
            if isinstance(item, _End):
                return
            yield item
    finally:
        stop_listening()
        threads.give_back(thread)  # However busy it still is: it is not lent out before it is done.


def _work(
    stream: StreamFn, context: LlmContext, options: StreamOptions, mail: Mailbox[_Mail]
) -> Callable[[], None]:
    """The call itself, in a copy of this thread's context; what it has to say goes to *mail*."""
    caller = contextvars.copy_context()

    def event_sink(text: str, publish: bool = False) -> None:
        mail.put(_Said(str(text), publish))

    told = replace(options, event_sink=event_sink)

    def work() -> None:
        try:
            caller.run(_follow, stream, context, told, mail)
        except KeyboardInterrupt as error:
            # Not the user's Ctrl-C, which goes to the main thread: the model raised it.
            mail.put(_Failure(LlmError(f"the model raised KeyboardInterrupt: {error}")))
        except BaseException as error:
            mail.put(_Failure(error))
        else:
            mail.put(_End())

    return work


def _follow(stream: StreamFn, context: LlmContext, options: StreamOptions, mail: Mailbox[_Mail]) -> None:
    with _opened(stream(context, options)) as events:
        for event in events:
            if event is not None:  # Which would read as a wake-up.
                mail.put(event)
            if options.signal.aborted or isinstance(event, (Done, Failed)):
                return


@contextmanager
def _opened(stream: Any) -> Iterator[Iterator[AssistantEvent]]:
    """Close a generator when it is left, and not when it happens to be collected."""
    if not hasattr(stream, "__iter__"):
        raise LlmError(
            f"the model's stream() must return an iterator of events, got {type(stream).__name__}",
            kind="model_exception",
        )
    events = iter(stream)
    try:
        yield events
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()
