"""KeptThread and Mailbox: work is never lost, and a thread can be left."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from yiemagent.kept_thread import KeptThread, Mailbox, _Line
from yiemagent.testing import WAIT, Gate, run_in_thread


def ran_on(thread: KeptThread) -> threading.Thread:
    """The thread that runs the next piece of work."""
    seen: list[threading.Thread] = []
    done = threading.Event()

    def work() -> None:
        seen.append(threading.current_thread())
        done.set()

    thread.start(work)
    assert done.wait(WAIT)
    return seen[0]


def test_the_same_thread_does_one_piece_of_work_after_the_other() -> None:
    """Decision 19: thread-bound resources work across calls."""
    kept = KeptThread("test")

    assert ran_on(kept) is ran_on(kept)
    assert ran_on(kept).name == "yiemagent-test"
    assert ran_on(kept).daemon
    kept.close()


def test_a_thread_that_was_left_is_replaced_and_ends_with_its_work() -> None:
    """F-03: what is left behind does not hold up what comes next."""
    kept, gate = KeptThread("test"), Gate()
    kept.start(gate.block)
    gate.wait_entered()
    assert kept.busy

    kept.leave()

    assert not kept.busy
    assert ran_on(kept).is_alive()
    gate.open()
    kept.close()


def test_work_that_raises_is_logged_and_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """D-28: SystemExit does not end it either."""
    kept = KeptThread("test")
    first = ran_on(kept)

    def dies() -> None:
        raise SystemExit(1)

    with caplog.at_level(logging.ERROR, "yiemagent.kept_thread"):
        kept.start(dies)
        assert ran_on(kept) is first
    assert len(caplog.records) == 1
    kept.close()


def test_an_idle_thread_ends_by_itself_and_the_next_work_starts_another() -> None:
    """D-20."""
    kept = KeptThread("test", idle=0.001)
    first = ran_on(kept)
    first.join(WAIT)

    assert not first.is_alive()
    assert ran_on(kept) is not first


def test_a_thread_that_has_ended_by_itself_takes_no_work() -> None:
    """F-14, for threads: its end was its last word, so what is given afterwards goes to another."""
    kept = KeptThread("test", idle=0.001)
    thread, line = ran_on(kept), kept._line
    thread.join(WAIT)

    assert line is not None
    assert line.give(lambda: None) is False


def test_a_thread_whose_start_was_interrupted_and_that_came_up_all_the_same_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D-08: Ctrl-C in Thread.start(); the next work must not run beside this one."""
    kept, gate, start = KeptThread("test"), Gate(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept.start(gate.block)
    monkeypatch.undo()
    gate.wait_entered()

    assert kept.busy
    gate.open()
    kept.close()


@pytest.mark.threads
def test_work_given_to_a_thread_that_just_ends_is_done_all_the_same() -> None:
    """F-14, for threads: the end is decided under the lock that takes work."""
    kept = KeptThread("test", idle=0.00005)

    for _ in range(2000):
        ran_on(kept)


def test_a_dropped_thread_ends() -> None:
    """D-20."""
    kept = KeptThread("test")
    thread = ran_on(kept)

    del kept

    thread.join(WAIT)
    assert not thread.is_alive()


def test_a_forgotten_thread_is_not_touched() -> None:
    """D-09: it belongs to the parent of this fork."""
    kept, gate = KeptThread("test"), Gate()
    kept.start(gate.block)
    line = kept._line
    kept.forget()

    assert line is not None
    assert not line.left
    gate.open()
    line.leave()


def test_items_come_out_in_the_order_they_were_put() -> None:
    """The loop's thread takes what tool threads put."""
    box: Mailbox[int] = Mailbox()
    for number in range(3):
        box.put(number)

    assert [box.take() for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("wake", "taken"), [(lambda box: box.put("mail"), "mail"), (lambda box: box.wake(), None)]
)
def test_who_waits_is_woken_by_mail_and_by_wake(
    wake: Callable[[Mailbox[str]], object], taken: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 10: abort wakes a loop that waits for a silent provider or tool."""
    waits = threading.Semaphore(0)

    class Spy(queue.SimpleQueue[Any]):
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            waits.release()
            return super().get(
                block, WAIT if block else None
            )  # Without the slices, which hide a missing wake-up.

    monkeypatch.setattr(queue, "SimpleQueue", Spy)
    box: Mailbox[str] = Mailbox()
    taker = run_in_thread(box.take)
    assert waits.acquire(timeout=WAIT)

    wake(box)

    assert taker.get() == taken


def test_a_wake_up_that_comes_first_is_not_lost() -> None:
    """X3: abort between two waits."""
    box: Mailbox[str] = Mailbox()
    box.wake()

    assert box.take(monotonic() + WAIT) is None


def test_mail_comes_before_a_wake_up() -> None:
    """F-10: what has finished is taken, whatever else happened."""
    box: Mailbox[str] = Mailbox()
    box.wake()
    box.put("finished")

    assert box.take() == "finished"
    assert box.take() is None


def test_nobody_waits_for_mail_beyond_the_deadline() -> None:
    """Decision 26: a tool's time is up although it is silent; mail that is there is taken all the same."""
    box: Mailbox[str] = Mailbox()
    box.put("finished")

    assert [box.take(monotonic()), box.take(monotonic())] == ["finished", None]


@pytest.mark.parametrize("left", [False, True])
def test_work_that_was_given_before_the_threads_last_word_is_taken(left: bool) -> None:
    """F-14, for threads: also behind the news that it is to end."""
    line = _Line()
    if left:
        line.leave()
    assert line.give(list)

    idle = None if left else 0.0  # One that was left does not wait for more.
    assert run_in_thread(lambda: [line.take(idle), line.take(idle)]).get() == [list, None]
    assert line.give(list) is False


def test_a_finalizer_may_wake_a_mailbox_wherever_its_thread_is_in_it() -> None:
    """D-20: a dropped thread wakes its box from a garbage collection, at any line."""
    box: Mailbox[str] = Mailbox()
    visits: set[int] = set()

    def finalizer(frame: Any, kind: str, arg: Any) -> Any:
        if frame.f_code.co_filename.endswith("kept_thread.py") and frame.f_lineno not in visits:
            visits.add(frame.f_lineno)
            box.wake()
        return finalizer

    def traced() -> str | None:
        sys.settrace(finalizer)
        try:
            box.put("mail")
            return box.take(monotonic() + WAIT)
        finally:
            sys.settrace(None)

    assert run_in_thread(traced).get() == "mail"


@pytest.mark.parametrize("number", range(1, 6))
def test_a_wake_up_by_the_very_thread_that_begins_to_wait_is_seen(
    number: int, at_line: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-20: the loop's thread collects the dropped stream of its own run, whose abort wakes the box."""
    monkeypatch.setattr("yiemagent.kept_thread._SLICE", 60.0)
    box: Mailbox[str] = Mailbox()

    assert at_line(number, "kept_thread.py", box.wake, box.take) is None
