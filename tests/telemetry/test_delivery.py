"""Handing records over without waiting."""

from __future__ import annotations

import contextlib
import linecache
import os
import subprocess
import sys
import threading
from itertools import count

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.telemetry.delivery import Delivery
from yiemagent.testing import WAIT
from yiemagent.testing.gates import Gate


def test_records_come_in_order_on_one_thread():
    """TL: handlers need no lock."""
    seen = []
    delivery = Delivery([lambda record: seen.append((record, threading.current_thread().name))], size=100)
    for number in range(50):
        delivery.put(number)

    assert delivery.close(WAIT)
    assert seen == [(number, "yiemagent-telemetry") for number in range(50)]


def test_nothing_is_started_before_the_first_record():
    """No thread at construction."""
    before = threading.active_count()
    Delivery([print], size=1)

    assert threading.active_count() == before


def test_a_handler_that_blocks_holds_nobody_up(caplog):
    """Issue 6: the newest are dropped and counted; said once."""
    gate, seen = Gate(), []

    def slow(record):
        gate.block()
        seen.append(record)

    delivery = Delivery([slow], size=2)
    delivery.put("held")
    gate.wait_entered()
    taken = [delivery.put(number) for number in range(5)]

    assert taken == [True, True, False, False, False]
    assert delivery.dropped == 3
    assert caplog.text.count("the telemetry queue is full") == 1
    assert delivery.flush(0) is False
    gate.open()
    assert delivery.close(WAIT)
    assert seen == ["held", 0, 1]


def test_a_handler_that_raises_is_logged_once_and_the_others_hear(caplog):
    """Issue 6: contained."""
    seen = []

    def broken(record):
        raise ValueError("broken")

    delivery = Delivery([broken, seen.append], size=10)
    delivery.put(1)
    delivery.put(2)

    assert delivery.close(WAIT)
    assert seen == [1, 2]
    assert caplog.text.count("its later failures are not logged") == 1


def test_a_handler_that_wants_to_exit_does_not_end_the_delivery(caplog):
    """`sys.exit` in a handler."""
    seen = []

    def leaving(record):
        seen.append(record)
        sys.exit(1)

    delivery = Delivery([leaving], size=10)
    delivery.put(1)
    delivery.put(2)

    assert delivery.close(WAIT)
    assert seen == [1, 2]


def test_records_after_close_are_dropped():
    """Closed is closed; twice is harmless."""
    seen = []
    delivery = Delivery([seen.append], size=10)
    assert delivery.close(WAIT)
    assert delivery.close(WAIT)

    assert delivery.put(1) is False
    assert (seen, delivery.dropped) == ([], 1)


def test_records_from_many_threads_all_arrive():
    """Any thread may put."""
    seen = []
    delivery = Delivery([seen.append], size=10_000)
    start = threading.Barrier(4)

    def put(base):
        start.wait(WAIT)
        for number in range(200):
            delivery.put(base + number)

    threads = [threading.Thread(target=put, args=(base,)) for base in (0, 1_000, 2_000, 3_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)

    assert delivery.close(WAIT)
    assert len(seen) == 800
    assert [number for number in seen if number < 1_000] == list(range(200))


def test_the_thread_ends_by_itself_and_starts_again():
    """An idle application keeps no thread; the leak guard sees the end of it."""
    seen = []
    delivery = Delivery([lambda record: seen.append(threading.current_thread())], size=10, idle=0.01)
    delivery.put(1)
    assert delivery.flush(WAIT)
    seen[0].join(WAIT)
    delivery.put(2)

    assert delivery.close(WAIT)
    assert seen[0] is not seen[1]


@pytest.mark.parametrize("bad", [0, -1, True])
def test_an_absurd_size_is_refused(bad):
    """Bad input is a clear error."""
    with pytest.raises(ConfigurationError, match="queue size"):
        Delivery([print], size=bad)


def test_something_that_is_no_handler_is_refused():
    """Bad input is a clear error."""
    with pytest.raises(ConfigurationError, match="'print'"):
        Delivery(["print"], size=1)


def run_script(text):
    script = "import sys, threading\nfrom yiemagent.telemetry.delivery import Delivery\n" + text
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.servers
def test_what_waits_at_the_end_of_a_script_is_still_handled():
    """A short script must not lose its last records."""
    done = run_script(
        "d = Delivery([lambda record: print(record, flush=True)], size=100)\nfor n in range(20): d.put(n)\n"
    )

    assert done.stdout.split() == [str(number) for number in range(20)]
    assert done.returncode == 0


@pytest.mark.servers
def test_a_handler_that_hangs_does_not_keep_the_process_alive():
    """Decision 20."""
    done = run_script("Delivery([lambda record: threading.Event().wait()], size=9).put(1)\nprint('end')\n")

    assert (done.stdout.strip(), done.returncode) == ("end", 0)


@pytest.mark.servers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_delivers_its_own_records():
    """gunicorn with preloading: the parent's thread and queue are not the child's."""
    gate, seen = Gate(), []

    def handler(record):
        if record == "parent":
            gate.block()
        seen.append(record)

    delivery = Delivery([handler], size=10)
    delivery.put("parent")
    gate.wait_entered()
    child = os.fork()
    if child == 0:
        delivery.put("child")
        os._exit(0 if delivery.flush(WAIT) and seen == ["child"] else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    gate.open()
    assert delivery.close(WAIT)
    assert seen == ["parent"]


def test_ctrl_c_while_the_thread_is_started_leaves_the_next_records_delivered(at_line):
    """D-08: a run in the main thread records; what it was interrupted in is done with the next record."""
    for number in count(1):
        seen, came = [], []
        delivery = Delivery([seen.append], size=10, idle=0.01)

        def press(came=came):
            line = sys._getframe(1).f_locals["frame"]
            came.append(True)
            # Between a block and its lock's release only a tracer comes.
            if "with self._lock" not in linecache.getline(line.f_code.co_filename, line.f_lineno):
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            at_line(number, "telemetry/delivery.py", press, lambda d=delivery: d.put(1))
        if not came:
            break
        assert delivery.put(2)
        assert delivery.flush(WAIT)
        assert seen[-1] == 2
    assert number > 5


def test_a_finalizer_may_record_wherever_its_thread_is_in_the_delivery(at_line):
    """D-20: nothing is lost, and nothing waits for itself."""
    for number in count(1):
        seen, came = [], []
        delivery = Delivery([seen.append], size=10, idle=0.01)

        def act(came=came, delivery=delivery):
            came.append(True)
            delivery.put(1)

        assert at_line(number, "telemetry/delivery.py", act, lambda d=delivery: d.put(2)) is True
        assert delivery.flush(WAIT)
        assert 2 in seen
        if not came:
            break
        assert sorted(seen) == [1, 2]
    assert number > 5
