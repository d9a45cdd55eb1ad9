"""EventStream: bounded hand-over, one terminal event, cancel, results, dead producers."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, RunAborted, WaitTimeout, YiemAgentError
from yiemagent.event_stream import EventStream, StreamStats, WhenFull
from yiemagent.testing import WAIT, Gate, Outcome, run_in_thread


def filled(events: int, **options: Any) -> EventStream[Any]:
    stream: EventStream[Any] = EventStream(**options)
    for number in range(1, events + 1):
        stream.push(number, timeout=0)
    return stream


def outcome_of_result(stream: EventStream[Any]) -> Any:
    try:
        return stream.result(timeout=0)
    except RunAborted as error:
        return error.reason


@pytest.fixture
def waiting(wait_spy: Any) -> Iterator[Callable[..., Outcome[Any]]]:
    """Call a function on a thread, and come back when it waits in the stream.

    Afterwards every such wait has to have ended by a wake-up.
    """
    spies: dict[int, Any] = {}

    def start(function: Callable[..., Any], stream: EventStream[Any], *args: Any) -> Outcome[Any]:
        spy = spies.get(id(stream)) or spies.setdefault(id(stream), wait_spy(stream, "_changed"))
        outcome = run_in_thread(function, *args)
        spy.wait_for_waiter()
        return outcome

    yield start
    for spy in spies.values():
        assert all(spy.notified), "a wait ended by its time slice: its wake-up is missing"


# -- full streams ------------------------------------------------------------------------


def test_drop_oldest_keeps_the_newest_events_and_the_terminal_one() -> None:
    """T160, ES-4, ES-6."""
    stream = filled(7, max_queue=5, when_full="drop_oldest")
    stream.complete("result", "end")

    assert list(stream) == [4, 5, 6, 7, "end"]
    assert stream.stats.dropped == 3


def test_drop_newest_keeps_the_oldest_events_and_makes_room_for_the_terminal_one() -> None:
    """T161, ES-6: the terminal event is delivered under every policy."""
    stream = filled(8, max_queue=6, when_full="drop_newest")
    stream.complete("result", "end")

    assert list(stream) == [2, 3, 4, 5, 6, "end"]


def test_error_refuses_the_event_that_finds_no_room() -> None:
    """T162, ES-2, ES-4."""
    stream = filled(4, max_queue=4, when_full="error")

    assert stream.push(5) == "overflow"
    stream.complete("result", "end")
    assert list(stream) == [2, 3, 4, "end"]


def test_block_delivers_the_terminal_event_beyond_the_bound() -> None:
    """T162: backpressure drops nothing, not even for the end."""
    stream = filled(2, max_queue=2)
    stream.complete("result", "end")

    assert list(stream) == [1, 2, "end"]
    assert stream.stats.dropped == 0


@pytest.mark.parametrize(("policy", "dropped"), [("drop_oldest", 3), ("drop_newest", 3), ("error", 3)])
def test_what_was_dropped_is_counted_under_every_policy(policy: WhenFull, dropped: int) -> None:
    """T163, ES-16."""
    assert filled(6, max_queue=3, when_full=policy).stats == StreamStats(3, 3, dropped)


@pytest.mark.parametrize("policy", ["error", "block"])
def test_push_nowait_never_blocks_and_counts_what_it_could_not_push(policy: WhenFull) -> None:
    """T164, ES-5."""
    stream = filled(1, max_queue=1, when_full=policy)

    stream.push_nowait(2)

    assert stream.stats.dropped == 1
    assert stream.push(3, timeout=0) == "overflow"


def test_a_full_stream_holds_its_producer_until_the_consumer_reads(
    waiting: Callable[..., Outcome[Any]],
) -> None:
    """T193: backpressure, the default."""
    stream = filled(1, max_queue=1)
    producer = waiting(stream.push, stream, 2)

    events = iter(stream)
    assert next(events) == 1
    assert producer.get() == "ok"
    assert next(events) == 2


def test_a_consumer_that_waits_is_woken_by_the_next_event(waiting: Callable[..., Outcome[Any]]) -> None:
    """ES-3: the event goes straight to it."""
    stream: EventStream[int] = EventStream()
    consumer = waiting(next, stream, iter(stream))

    stream.push(1)

    assert consumer.get() == 1


def test_a_producer_that_waits_for_room_goes_on_when_a_batch_is_taken(
    waiting: Callable[..., Outcome[Any]],
) -> None:
    """T193: backpressure, for a reader of batches too."""
    stream = filled(1, max_queue=1)
    producer = waiting(stream.push, stream, 2)

    assert list(next(stream.batches())) == [1]

    assert producer.get() == "ok"


def test_a_producer_that_waits_for_room_is_let_go_when_the_consumer_cancels(
    waiting: Callable[..., Outcome[Any]],
) -> None:
    """T193: a consumer that stopped reading cannot hold its producer for ever."""
    stream = filled(1, max_queue=1)
    producer = waiting(stream.push, stream, 2)

    stream.cancel()

    assert producer.get() == "canceled"


def test_release_lifts_the_bound_for_a_producer_that_waits(waiting: Callable[..., Outcome[Any]]) -> None:
    """T193: the way of a reader that only wants the result."""
    stream = filled(1, max_queue=1)
    producer = waiting(stream.push, stream, 2)

    stream.release()

    assert producer.get() == "ok"
    assert stream.push(3, timeout=0) == "ok"


def test_ten_thousand_events_fit_by_default() -> None:
    """T175, ES-1."""
    stream = filled(10_000)
    stream.complete()

    assert list(stream) == list(range(1, 10_001))
    assert stream.stats.dropped == 0


@pytest.mark.parametrize(
    "options",
    [
        {"max_queue": 0},
        {"max_queue": "x"},
        {"max_queue": 2.5},
        {"max_queue": True},
        {"max_queue": None},
        {"when_full": "explode"},
        {"timeout": "x"},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"signal": threading.Event()},
    ],
)
def test_a_stream_that_could_not_work_is_refused(options: dict[str, Any]) -> None:
    """ES-3: a bound of 0 would strand every event."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        EventStream(**options)


@pytest.mark.parametrize("timeout", [float("inf"), 10**400])
def test_a_timeout_longer_than_any_wait_is_no_limit(timeout: float) -> None:
    """Decision 26: seconds; a number that no clock can hold waits like None."""
    stream = EventStream[int](timeout=timeout)
    stream.push(1)
    stream.complete()

    assert list(stream) == [1]


# -- the end -----------------------------------------------------------------------------


def test_completing_an_empty_stream_gives_just_the_terminal_event() -> None:
    """T188."""
    stream: EventStream[str] = EventStream()
    stream.complete("result", "end")

    assert list(stream) == ["end"]
    assert stream.result() == "result"


def test_the_first_end_wins() -> None:
    """T166, ES-6."""
    completed: EventStream[str] = EventStream()
    assert completed.complete("well") is True
    assert completed.fail(ValueError("late")) is False
    assert completed.result() == "well"

    failed: EventStream[str] = EventStream()
    assert failed.fail(ValueError("first")) is True
    assert failed.complete("late") is False
    with pytest.raises(ValueError, match="first"):
        failed.result()


def test_one_of_ten_racing_ends_wins_and_everybody_sees_the_same() -> None:
    """T166."""
    for _ in range(50):
        stream: EventStream[int] = EventStream()
        barrier = threading.Barrier(10)

        def end(number: int, stream: EventStream[int] = stream, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait(WAIT)
            return stream.complete(number, number)

        outcomes = [run_in_thread(end, number) for number in range(10)]
        winners = [number for number, outcome in enumerate(outcomes) if outcome.get()]

        assert len(winners) == 1
        assert list(stream) == winners
        assert stream.result() == winners[0]


def test_nothing_is_taken_after_the_end() -> None:
    """T165, ES-2, ES-15."""
    completed: EventStream[int] = EventStream()
    completed.complete()
    canceled: EventStream[int] = EventStream()
    canceled.cancel()

    assert completed.push(1) == "canceled"
    assert canceled.push(1) == "canceled"
    assert list(completed) == list(canceled) == []


@pytest.mark.threads
def test_pushes_racing_the_end_are_delivered_or_refused_and_nothing_else() -> None:
    """T165, T174: four producers against one end; what was taken comes out, in each one's order."""
    for _ in range(50):
        stream: EventStream[Any] = EventStream()
        barrier = threading.Barrier(5)

        def produce(
            producer: int, stream: EventStream[Any] = stream, barrier: threading.Barrier = barrier
        ) -> list[str]:
            barrier.wait(WAIT)
            return [stream.push((producer, number)) for number in range(50)]

        def end(stream: EventStream[Any] = stream, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(WAIT)
            stream.complete(None, "end")

        outcomes = [run_in_thread(produce, producer) for producer in range(4)]
        run_in_thread(end).get()
        answers = [outcome.get() for outcome in outcomes]
        events = list(stream)

        assert {answer for each in answers for answer in each} <= {"ok", "canceled"}
        taken = [
            (producer, n) for producer, each in enumerate(answers) for n, a in enumerate(each) if a == "ok"
        ]
        assert sorted(events[:-1]) == sorted(taken)
        assert events[-1] == "end"
        for producer in range(4):
            assert [e for e in events[:-1] if e[0] == producer] == [t for t in taken if t[0] == producer]


@pytest.mark.threads
def test_complete_against_push_against_cancel_gives_exactly_one_end() -> None:
    """X1."""
    for _ in range(200):
        stream: EventStream[str] = EventStream()
        barrier = threading.Barrier(3)

        def racing(act: Callable[[], Any], barrier: threading.Barrier = barrier) -> Any:
            barrier.wait(WAIT)
            return act()

        completed = run_in_thread(racing, lambda s=stream: s.complete("result", "end"))
        pushed = run_in_thread(racing, lambda s=stream: s.push("event"))
        canceled = run_in_thread(racing, stream.cancel)

        assert completed.get() + canceled.get() == 1
        events = list(stream)
        assert events.count("end") == int(completed.get())
        assert events.count("event") == int(pushed.get() == "ok")
        if canceled.get():
            with pytest.raises(RunAborted):
                stream.result()
        else:
            assert stream.result() == "result"


# -- one lock ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [lambda s: s.complete("late", 2), lambda s: s.fail(ValueError("late"), 2), lambda s: s.cancel("late")],
    ids=["complete", "fail", "cancel"],
)
def test_an_end_that_waited_for_the_lock_sees_that_another_one_came_first(
    end: Callable[[EventStream[int]], bool], lock_spy: Callable[[Any], Any]
) -> None:
    """T166, X1: the first one wins, whatever the second had seen before."""
    stream: EventStream[int] = EventStream()
    lock = lock_spy(stream)
    with lock:
        late = run_in_thread(end, stream)
        lock.wait_for_taker()
        stream.complete("first", 1)

    assert late.get() is False
    assert stream.result() == "first"
    assert list(stream) == [1]


def test_a_push_that_waited_for_the_lock_sees_that_the_stream_is_over(
    lock_spy: Callable[[Any], Any],
) -> None:
    """T165: nothing comes behind the terminal event."""
    stream: EventStream[str] = EventStream()
    lock = lock_spy(stream)
    with lock:
        late = run_in_thread(stream.push, "late")
        lock.wait_for_taker()
        stream.complete(None, "end")

    assert late.get() == "canceled"
    assert list(stream) == ["end"]


def test_events_are_counted_put_and_taken_under_the_lock_only(guard: Any) -> None:
    """ES-9: so that each goes to exactly one consumer, and no push finds room that another one takes."""
    watched = guard.watch(EventStream, "_lock", ("_events", "_dropped", "_max_queue"))
    for policy in ("block", "error", "drop_oldest", "drop_newest"):
        stream = watched(max_queue=1, when_full=policy)
        for number in range(3):
            stream.push(number, timeout=0)
            stream.push_nowait(number)
        assert len(next(stream.batches())) == 1
        stream.push(3)
        next(iter(stream))
        stream.release()
        stream.complete(None, "end")
        assert list(stream) == ["end"]
        assert stream.stats.queue_size == 0


# -- consumers ---------------------------------------------------------------------------


def test_five_waiting_consumers_end_and_one_of_them_sees_the_terminal_event(
    waiting: Callable[..., Outcome[Any]],
) -> None:
    """T169, ES-9."""
    stream: EventStream[str] = EventStream()
    consumers = [waiting(list, stream, stream) for _ in range(5)]

    stream.complete(None, "end")

    assert sorted(len(consumer.get()) for consumer in consumers) == [0, 0, 0, 0, 1]


def test_consumers_share_the_events() -> None:
    """T170, ES-9: each event goes to exactly one of them."""
    stream = filled(20)
    consumers = [run_in_thread(list, stream) for _ in range(5)]
    stream.complete()

    seen = [event for consumer in consumers for event in consumer.get()]
    assert sorted(seen) == list(range(1, 21))


def test_a_result_waiter_takes_no_event(waiting: Callable[..., Outcome[Any]]) -> None:
    """T171, ES-10."""
    stream = filled(5)
    waiter = waiting(stream.result, stream)

    assert stream.stats.queue_size == 5
    stream.complete("result")
    assert waiter.get() == "result"
    assert list(stream) == [1, 2, 3, 4, 5]


def test_a_late_consumer_sees_what_is_buffered_and_stops() -> None:
    """T172."""
    stream = filled(2)
    stream.complete(None, "end")

    assert list(stream) == [1, 2, "end"]


def test_iterating_again_ends_at_once() -> None:
    """T173."""
    stream: EventStream[str] = EventStream()
    stream.complete(None, "end")

    assert list(stream) == ["end"]
    assert list(stream) == []
    assert list(stream.batches()) == []


def test_batches_give_everything_that_has_arrived_in_order() -> None:
    """ES-9: for a single consumer that is slower than its producer."""
    stream = filled(3)
    batches = stream.batches()

    assert list(next(batches)) == [1, 2, 3]
    stream.push(4)
    stream.complete(None, "end")
    assert [list(batch) for batch in batches] == [[4, "end"]]


def test_a_consumer_that_fails_disturbs_neither_the_others_nor_result_waiters(
    waiting: Callable[..., Outcome[Any]],
) -> None:
    """T190."""
    stream = filled(3)
    waiter = waiting(stream.result, stream)
    with pytest.raises(ZeroDivisionError):
        for _ in stream:
            1 / 0

    stream.complete("result")

    assert list(stream) == [2, 3]
    assert waiter.get() == "result"


def test_a_hundred_result_waiters_are_all_told() -> None:
    """T191, ES-7."""
    stream: EventStream[str] = EventStream()
    waiters = [run_in_thread(stream.result) for _ in range(100)]

    stream.complete("result")

    assert [waiter.get() for waiter in waiters] == ["result"] * 100


def test_result_with_a_timeout_leaves_the_stream_alone() -> None:
    """T176, ES-7."""
    stream = filled(1)

    with pytest.raises(WaitTimeout, match=r"within 0 s"):
        stream.result(timeout=0)
    stream.complete("result")
    assert stream.result(timeout=0) == "result"


@pytest.mark.threads
def test_a_result_wait_that_expires_as_the_stream_completes_has_one_outcome() -> None:
    """X2: the value or WaitTimeout, and the value from then on."""
    for round_number in range(300):
        stream: EventStream[str] = EventStream()
        waiter = run_in_thread(stream.result, 0.0001 * (round_number % 5))
        stream.complete("result")
        with contextlib.suppress(WaitTimeout):
            assert waiter.get() == "result"
        assert stream.result() == "result"


# -- cancelling --------------------------------------------------------------------------


def test_the_first_of_three_cancels_decides_the_reason() -> None:
    """T167, ES-8."""
    stream: EventStream[int] = EventStream()

    assert [stream.cancel(reason) for reason in ("a", "b", "c")] == [True, False, False]
    assert stream.reason == "a"
    with pytest.raises(RunAborted) as raised:
        stream.result()
    assert raised.value.reason == "a"


def test_cancel_wakes_result_waiters_and_consumers(waiting: Callable[..., Outcome[Any]]) -> None:
    """T168, ES-8."""
    stream: EventStream[int] = EventStream()
    results = [waiting(stream.result, stream) for _ in range(2)]
    consumer = waiting(list, stream, stream)

    stream.cancel("enough")

    assert consumer.get() == []
    for result in results:
        with pytest.raises(RunAborted, match="enough"):
            result.get()


def test_cancel_after_the_end_changes_nothing() -> None:
    """ES-8: idempotent."""
    signal = AbortSignal()
    stream: EventStream[int] = EventStream(signal=signal)
    stream.complete("result")

    assert stream.cancel() is False
    assert stream.result() == "result"
    assert signal.aborted is False


def test_cancel_keeps_buffered_events_and_the_real_reason_for_late_readers() -> None:
    """T192."""
    stream = filled(2)
    stream.cancel("enough")

    assert list(stream) == [1, 2]
    assert stream.reason == "enough"


def test_cancel_aborts_the_signal_before_anybody_is_told() -> None:
    """T181, ES-8."""
    signal = AbortSignal()
    stream: EventStream[int] = EventStream(signal=signal)
    seen: list[bool] = []
    signal.on_abort(lambda: seen.append(stream.finished))

    stream.cancel("enough")

    assert seen == [False]
    assert signal.reason == "enough"
    assert stream.finished


def test_a_stream_is_over_after_a_cancel_whose_callback_was_interrupted() -> None:
    """T181: a second Ctrl-C during cancel() leaves no waiter behind."""
    signal = AbortSignal()
    stream: EventStream[int] = EventStream(signal=signal)

    def interrupted() -> None:
        raise KeyboardInterrupt

    signal.on_abort(interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.cancel()

    assert stream.finished


def test_attaching_a_signal_replaces_the_one_before() -> None:
    """T183, ES-14."""
    first, second = AbortSignal(), AbortSignal()
    stream: EventStream[int] = EventStream(signal=first)
    stream.attach(second)

    stream.cancel()

    assert (first.aborted, second.aborted) == (False, True)


def test_attaching_and_pushing_after_the_end_raise_nothing() -> None:
    """T189."""
    stream: EventStream[int] = EventStream()
    stream.cancel()

    stream.attach(AbortSignal())
    stream.push_nowait(1)


def test_a_normal_end_does_not_stop_the_producer() -> None:
    """T184."""
    signal = AbortSignal()
    stream: EventStream[int] = EventStream(signal=signal)
    stream.complete()

    assert signal.aborted is False


# -- time --------------------------------------------------------------------------------


def test_a_stream_whose_time_is_up_is_cancelled_with_reason_timeout() -> None:
    """T177, ES-11: the consumer that waits for it does it, and the producer is told to stop."""
    signal = AbortSignal()
    stream: EventStream[int] = EventStream(timeout=0.01, signal=signal)

    assert list(stream) == []
    assert stream.reason == signal.reason == "timeout"
    with pytest.raises(RunAborted, match="timeout"):
        stream.result()


@pytest.mark.parametrize(
    "look",
    [
        lambda stream: stream.push(1) == "canceled",
        lambda stream: stream.complete() is False,
        lambda stream: stream.fail(ValueError()) is False,
        lambda stream: stream.finished,
        lambda stream: list(stream.batches()) == [],
        lambda stream: outcome_of_result(stream) == "timeout",
    ],
    ids=["push", "complete", "fail", "finished", "batches", "result"],
)
def test_whoever_looks_first_sees_that_the_time_is_up(look: Callable[[EventStream[int]], bool]) -> None:
    """T177, ES-11."""
    stream: EventStream[int] = EventStream(timeout=0)

    assert look(stream)
    assert stream.reason == "timeout"


def test_signals_of_a_stream_whose_time_is_up_are_aborted_outside_its_lock() -> None:
    """ES-11: their callbacks are foreign code, and may ask the stream from another thread."""
    signal = AbortSignal()
    stream: EventStream[int] = EventStream(timeout=0, signal=signal)
    stats: list[StreamStats] = []
    signal.on_abort(lambda: stats.append(run_in_thread(lambda: stream.stats).get()))

    assert stream.finished
    assert len(stats) == 1


def test_a_stream_that_ended_in_time_stays_as_it_ended() -> None:
    """T177."""
    stream: EventStream[int] = EventStream(timeout=60)
    stream.complete("result")
    stream._deadline = 0.0

    assert stream.result() == "result"
    assert stream.reason is None


def test_without_a_timeout_nothing_ends_a_stream_by_itself() -> None:
    """T178."""
    stream: EventStream[int] = EventStream()

    assert stream.finished is False
    assert stream._deadline is None


# -- producers that die ------------------------------------------------------------------


def test_a_producer_that_raises_ends_the_stream_with_what_it_raised() -> None:
    """T182, T185, ES-12, ES-13: events before it are still readable."""
    stream: EventStream[int] = EventStream()

    def body() -> None:
        stream.push(1)
        raise SystemExit("dead")

    stream.produce(body)

    assert list(stream) == [1]
    with pytest.raises(SystemExit, match="dead"):
        stream.result()


def test_a_producer_that_just_returns_ends_the_stream_with_an_error(
    waiting: Callable[..., Outcome[Any]],
) -> None:
    """T185, T186, ES-13: a blocked consumer and every result waiter hear of it."""
    gate = Gate()
    stream: EventStream[int] = EventStream()
    consumer, waiter = waiting(list, stream, stream), waiting(stream.result, stream)

    stream.produce(gate.block)
    gate.open()

    assert consumer.get() == []
    with pytest.raises(YiemAgentError, match="without ending"):
        waiter.get()


def test_what_a_producer_does_after_the_end_is_ignored() -> None:
    """T182, T185."""
    stream: EventStream[int] = EventStream()

    def body() -> None:
        stream.complete("result")
        raise ValueError("late")

    stream.produce(body).join(WAIT)

    assert stream.result() == "result"


def test_a_producer_of_a_dropped_stream_does_not_keep_it() -> None:
    """T179, T187: nobody can read it any more, so nothing of it is kept."""
    gate, gone = Gate(), threading.Event()

    class Watched(EventStream[int]):
        def __del__(self) -> None:
            gone.set()

    stream = Watched()
    producer = stream.produce(gate.block)
    gate.wait_entered()
    del stream
    gc.collect()

    assert gone.is_set()
    gate.open()
    producer.join(WAIT)


def test_a_stream_needs_no_owner() -> None:
    """T180: it lives as long as somebody holds it, on whatever thread it was made."""
    stream = run_in_thread(filled, 1).get()

    assert next(iter(stream)) == 1


# -- finalizers --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["push", "release", "cancel", "result"])
def test_a_finalizer_may_touch_the_stream_wherever_its_thread_is_in_it(method: str) -> None:
    """T193: a garbage collection at any line must not lock the thread up."""
    stream: EventStream[int] = EventStream(timeout=60)
    visits: list[int] = []

    def finalizer(frame: Any, kind: str, arg: Any) -> Any:
        if frame.f_code.co_filename.endswith("event_stream.py") and not visits:
            stream.release()
            visits.append(frame.f_lineno)
        elif visits and kind == "line" and frame.f_lineno not in visits:
            visits.append(frame.f_lineno)
            stream.release()
        return finalizer

    def traced() -> None:
        sys.settrace(finalizer)
        try:
            if method == "push":
                stream.push(1)
            elif method == "result":
                stream.complete()
                stream.result()
            else:
                getattr(stream, method)()
        finally:
            sys.settrace(None)

    run_in_thread(traced).get()

    assert len(visits) > 2


@pytest.mark.parametrize(
    ("act", "wait"),
    [
        (lambda stream: stream.complete("end"), lambda stream: stream.result()),
        (lambda stream: stream.push(2), lambda stream: next(iter(stream))),
        (lambda stream: stream.push(2), lambda stream: next(stream.batches())[0]),
        (lambda stream: stream.release(), lambda stream: [stream.push(1), stream.push(2)][1]),
    ],
    ids=["result", "iterate", "batches", "push"],
)
def test_what_the_very_thread_that_begins_to_wait_does_is_seen(
    act: Callable[[EventStream[int]], object],
    wait: Callable[[EventStream[int]], Any],
    before_sleeping: Callable[..., Outcome[Any]],
) -> None:
    """T193: a finalizer or a signal handler comes when nothing of the wait can be woken yet."""
    stream: EventStream[int] = EventStream(max_queue=1)

    assert before_sleeping(lambda: act(stream), lambda: wait(stream)).get() in ("end", 2, "ok")


def test_a_stream_shows_what_it_is() -> None:
    """ES-16."""
    stream = filled(1, max_queue=3)
    assert repr(stream) == "<EventStream open StreamStats(queue_size=1, max_queue=3, dropped=0)>"
