"""AbortSignal: raised once, never lowered, seen by everybody, and it wakes who waits."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, RunAborted
from yiemagent.testing import WAIT, Outcome, run_in_thread


def test_a_new_signal_is_not_aborted_and_another_one_does_not_touch_it() -> None:
    """AS-1, AS-3, T197."""
    first, second = AbortSignal(), AbortSignal()
    first.abort()

    assert (first.aborted, second.aborted) == (True, False)


def test_aborting_twice_keeps_the_first_reason() -> None:
    """AS-1: idempotent."""
    signal = AbortSignal()
    signal.abort("first")
    signal.abort("second")

    assert signal.reason == "first"


def test_assigning_true_aborts_and_false_is_refused() -> None:
    """SP-022: the Julia design writes ``signal.aborted = true``; H6: never lowered again."""
    signal = AbortSignal()
    signal.aborted = True

    assert signal.aborted
    with pytest.raises(ConfigurationError, match="make a new one"):
        signal.aborted = False
    assert signal.aborted


@pytest.mark.parametrize("reason", [None, 1, b"bytes"])
def test_a_reason_of_the_wrong_type_is_refused(reason: Any) -> None:
    """AS-2, T198."""
    with pytest.raises(TypeError, match="must be a str"):
        AbortSignal().abort(reason)


def test_a_parent_of_the_wrong_type_is_refused() -> None:
    """AS-2, T198."""
    with pytest.raises(ConfigurationError, match="parent must be an AbortSignal"):
        AbortSignal("parent")  # type: ignore[arg-type]


def test_raise_if_aborted_raises_with_the_reason() -> None:
    """AS-5."""
    signal = AbortSignal()
    signal.raise_if_aborted()
    signal.abort("enough")

    with pytest.raises(RunAborted, match="Operation aborted") as raised:
        signal.raise_if_aborted()
    assert raised.value.reason == "enough"


def test_an_abort_is_seen_by_threads_started_before_and_after_it() -> None:
    """T195, AS-3."""
    signal = AbortSignal()
    before = run_in_thread(signal.wait, WAIT)

    signal.abort()

    assert before.get() is True
    assert run_in_thread(lambda: signal.aborted).get() is True


def test_abort_wakes_who_waits(wait_spy: Callable[[Any, str], Any]) -> None:
    """A7: ``signal.wait(t)`` is a sleep that ends early."""
    signal = AbortSignal()
    signal._changed = threading.Condition(signal._lock)
    spy = wait_spy(signal, "_changed")
    waiter = run_in_thread(signal.wait, 60)
    spy.wait_for_waiter()

    signal.abort()

    assert waiter.get() is True
    assert spy.notified == [True]


def test_wait_without_an_abort_says_so() -> None:
    """A7."""
    assert AbortSignal().wait(0) is False
    assert AbortSignal().wait(0.001) is False


@pytest.mark.threads
def test_no_reader_ever_sees_an_abort_taken_back() -> None:
    """T194, T90: eight readers, one writer."""
    for _ in range(20):
        signal = AbortSignal()
        barrier = threading.Barrier(9)

        def read(signal: AbortSignal = signal, barrier: threading.Barrier = barrier) -> list[bool]:
            barrier.wait(WAIT)
            return [signal.aborted for _ in range(200)]

        readers = [run_in_thread(read) for _ in range(8)]
        barrier.wait(WAIT)
        signal.abort()

        for reader in readers:
            seen = reader.get()
            assert seen == sorted(seen)


def test_ten_thousand_signals_leave_nothing_behind() -> None:
    """T196: what followed a long-lived parent is let go by detach."""
    parent = AbortSignal()
    children = [AbortSignal(parent) for _ in range(10_000)]
    for child in children:
        child.detach()
    kept = weakref.ref(children[0])
    del children, child
    gc.collect()

    assert kept() is None
    assert not parent._callbacks


def test_an_abort_that_waited_for_the_lock_sees_that_another_one_came_first(
    lock_spy: Callable[[Any], Any],
) -> None:
    """A5: one of ten aborts at once gives the reason."""
    signal = AbortSignal()
    lock = lock_spy(signal)
    with lock:
        late = run_in_thread(signal.abort, "late")
        lock.wait_for_taker()
        signal.abort("first")
    late.get()

    assert signal.reason == "first"


def test_the_reason_is_there_when_the_abort_is_seen() -> None:
    """AS-5: whoever looks without the lock sees both or neither."""
    seen: list[str] = []

    class Seen(AbortSignal):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_aborted" and value:
                seen.append(self.reason)

    Seen().abort("enough")

    assert seen == ["enough"]


# -- children ----------------------------------------------------------------------------


def test_a_child_is_aborted_with_its_parent_and_not_the_other_way_round() -> None:
    """AS-3; a redirected model call is aborted, its run is not (T71)."""
    parent = AbortSignal()
    first, second = AbortSignal(parent), AbortSignal(parent)

    first.abort("redirected")
    assert (parent.aborted, second.aborted) == (False, False)
    parent.abort("enough")
    assert second.reason == "enough"
    assert first.reason == "redirected"


def test_a_child_of_an_aborted_parent_is_aborted_from_the_start() -> None:
    """T73: a run that was aborted before it began."""
    parent = AbortSignal()
    parent.abort("early")

    assert AbortSignal(parent).reason == "early"


def test_a_detached_child_no_longer_follows() -> None:
    """T196: detaching twice is harmless."""
    parent = AbortSignal()
    child = AbortSignal(parent)
    child.detach()
    child.detach()

    parent.abort()

    assert child.aborted is False


# -- callbacks ---------------------------------------------------------------------------


def test_callbacks_run_once_in_order_in_the_aborting_thread() -> None:
    """A7: the practical equivalent of a kill; a tool closes its socket there."""
    signal = AbortSignal()
    ran: list[tuple[str, threading.Thread]] = []
    signal.on_abort(lambda: ran.append(("first", threading.current_thread())))
    signal.on_abort(lambda: ran.append(("second", threading.current_thread())))

    signal.abort()
    signal.abort()

    here = threading.current_thread()
    assert ran == [("first", here), ("second", here)]


def test_a_callback_given_after_the_abort_runs_at_once() -> None:
    """A7: no window in which a socket is opened and never closed."""
    signal = AbortSignal()
    signal.abort()
    ran: list[str] = []

    forget = signal.on_abort(lambda: ran.append("ran"))

    assert ran == ["ran"]
    forget()


def test_a_callback_can_be_taken_back_twice() -> None:
    """A7."""
    signal = AbortSignal()
    ran: list[str] = []
    forget = signal.on_abort(lambda: ran.append("ran"))
    forget()
    forget()

    signal.abort()

    assert ran == []
    forget()


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(1), GeneratorExit()])
def test_a_callback_that_raises_keeps_nobody_from_being_told(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """D-28, D-22: the callback behind it may be the one that wakes the loop."""
    signal = AbortSignal()
    ran: list[str] = []

    def bad() -> None:
        raise raised

    signal.on_abort(bad)
    signal.on_abort(lambda: ran.append("ran"))
    with caplog.at_level(logging.ERROR, "yiemagent.abort"):
        signal.abort()

    assert ran == ["ran"]
    assert len(caplog.records) == 1


def test_ctrl_c_during_the_callbacks_goes_on_after_the_last_of_them() -> None:
    """D-08: the second Ctrl-C of an impatient user."""
    signal = AbortSignal()
    ran: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    signal.on_abort(interrupted)
    signal.on_abort(lambda: ran.append("ran"))

    with pytest.raises(KeyboardInterrupt):
        signal.abort()
    assert ran == ["ran"]


def test_a_log_handler_that_raises_keeps_nobody_from_being_told() -> None:
    """D-22."""

    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the disk is full")

    handler, log = Raising(), logging.getLogger("yiemagent.abort")
    signal = AbortSignal()
    ran: list[str] = []
    signal.on_abort(lambda: 1 / 0)
    signal.on_abort(lambda: ran.append("ran"))
    log.addHandler(handler)
    try:
        signal.abort()
    finally:
        log.removeHandler(handler)

    assert ran == ["ran"]


def test_a_callback_that_waited_for_the_lock_while_the_signal_was_raised_runs(
    lock_spy: Callable[[Any], Any],
) -> None:
    """AS-3: what it had seen before does not count."""
    signal = AbortSignal()
    ran: list[int] = []
    lock = lock_spy(signal)
    with lock:
        late = run_in_thread(signal.on_abort, lambda: ran.append(1))
        lock.wait_for_taker()
        signal.abort()
    late.get()

    assert ran == [1]


@pytest.mark.parametrize("given", ["before", "after"])
def test_callbacks_run_outside_the_lock(given: str) -> None:
    """A7: they may wait for another thread that looks at the signal."""
    signal = AbortSignal()
    looked: list[object] = []

    def callback() -> None:
        looked.append(run_in_thread(signal.on_abort, lambda: None).get())

    if given == "before":
        signal.on_abort(callback)
    signal.abort()
    if given == "after":
        signal.on_abort(callback)

    assert len(looked) == 1


@pytest.mark.threads
def test_a_callback_given_while_the_signal_is_raised_runs_exactly_once() -> None:
    """AS-3: registered before or after, never lost and never twice."""
    for _ in range(300):
        signal = AbortSignal()
        ran: list[int] = []
        barrier = threading.Barrier(2)

        def register(
            signal: AbortSignal = signal, ran: list[int] = ran, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait(WAIT)
            signal.on_abort(lambda: ran.append(1))

        outcome = run_in_thread(register)
        barrier.wait(WAIT)
        signal.abort()
        outcome.get()

        assert ran == [1]


@pytest.mark.parametrize("method", ["abort", "on_abort", "detach", "wait"])
def test_a_finalizer_may_abort_wherever_its_thread_is_in_the_signal(method: str) -> None:
    """D-20: a dropped stream aborts its run from a garbage collection, at any line."""
    parent = AbortSignal()
    signal = AbortSignal(parent)
    visits: set[int] = set()

    def finalizer(frame: Any, kind: str, arg: Any) -> Any:
        if frame.f_code.co_filename.endswith("abort.py") and frame.f_lineno not in visits:
            visits.add(frame.f_lineno)
            parent.abort("dropped")
        return finalizer

    def traced() -> None:
        sys.settrace(finalizer)
        try:
            if method == "on_abort":
                signal.on_abort(lambda: None)()
            elif method == "wait":
                signal.wait(60)
            else:
                getattr(signal, method)()
        finally:
            sys.settrace(None)

    run_in_thread(traced).get()

    assert parent.aborted


def test_an_abort_by_the_very_thread_that_begins_to_wait_is_seen(
    before_sleeping: Callable[..., Outcome[Any]],
) -> None:
    """D-08: a signal handler, or a finalizer, comes when nothing of the wait can be woken yet."""
    signal = AbortSignal()

    assert before_sleeping(signal.abort, signal.wait).get() is True


def test_a_signal_shows_what_it_is() -> None:
    """AS-1."""
    signal = AbortSignal()
    assert repr(signal) == "<AbortSignal not aborted>"
    signal.abort("enough")
    assert repr(signal) == "<AbortSignal aborted, reason='enough'>"
