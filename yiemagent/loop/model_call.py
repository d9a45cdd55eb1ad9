"""Iterate a model's stream so that it can be left at any moment.

A model that ends its own stream on abort is iterated here and now. Any other one runs on a
kept thread: the loop takes its events from a mailbox, and leaves the thread when the call is
aborted or its time is up, however silent the provider is (decision 10, H2).
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator

from yiemagent.assistant_events import AssistantEvent
from yiemagent.kept_thread import KeptThread, Mailbox
from yiemagent.loop.config import StreamFn
from yiemagent.model import LlmContext, StreamOptions

__all__ = ["iterate_model"]


class _Failure:
    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _End:
    """The stream is over."""


_Mail = AssistantEvent | _Failure | _End
_spare = threading.local()


def iterate_model(
    stream: StreamFn, context: LlmContext, options: StreamOptions, *, abortable: bool
) -> Iterator[AssistantEvent]:
    """Yield the events of one call; ends without a terminal event when the call was left.

    Raises:
        BaseException: What the stream raised.
    """
    if abortable:
        yield from stream(context, options)
        return
    yield from _iterate_on_thread(stream, context, options)


def _iterate_on_thread(
    stream: StreamFn, context: LlmContext, options: StreamOptions
) -> Iterator[AssistantEvent]:
    mail: Mailbox[_Mail] = Mailbox()
    caller = contextvars.copy_context()

    def work() -> None:
        try:
            for event in caller.run(stream, context, options):
                mail.put(event)
                if options.signal.aborted:
                    break
        except BaseException as error:
            mail.put(_Failure(error))
        else:
            mail.put(_End())

    thread = _take_thread()
    stop_listening = options.signal.on_abort(mail.wake)
    left = True
    try:
        thread.start(work)
        while (item := mail.take(options.deadline)) is not None:
            if isinstance(item, _Failure):
                left = False
                raise item.error
            if isinstance(item, _End):
                left = False
                return
            yield item
    finally:
        stop_listening()
        if left:
            thread.leave()
        else:
            _spare.thread = thread


def _take_thread() -> KeptThread:
    # One spare per loop thread; it ends by itself when the loop thread does no more calls.
    thread: KeptThread | None = getattr(_spare, "thread", None)
    if thread is None:
        return KeptThread("model", idle=10.0)
    _spare.thread = None
    return thread
