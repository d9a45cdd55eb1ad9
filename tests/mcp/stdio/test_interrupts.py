"""Signal handlers that close, and threads that cannot be started: no process is left."""

from __future__ import annotations

import pathlib
import queue
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from yiemagent.errors import McpConnectionError
from yiemagent.testing import WAIT, run_in_thread

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not pathlib.Path("/proc/self/fd").exists(), reason="needs /proc"),
]


def test_a_signal_handler_may_close_the_client_whose_call_it_interrupts(
    spawn: Any, gone: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """SIGTERM: the thread that waits for the end of the server must not be the one that it waits for."""
    client = spawn()
    client.connect()
    pid = client.pid
    asleep = "stop_reading", {"seconds": 60}
    before = signal.signal(signal.SIGUSR1, lambda *_: client.close(timeout=0.05))
    main = threading.get_ident()
    led = threading.Event()
    poll = client._connection._child.intake._poll.poll
    client._connection._child.intake._poll = SimpleNamespace(poll=lambda wait: (led.set(), poll(wait))[1])
    killer = run_in_thread(lambda: (led.wait(WAIT), signal.pthread_kill(main, signal.SIGUSR1)))
    try:
        with pytest.raises(McpConnectionError, match="was closed"):
            client.call_tool(*asleep)
    finally:
        signal.signal(signal.SIGUSR1, before)
    killer.get()
    gone(pid)
    assert "did not end when killed" not in caplog.text


def test_what_a_caller_has_read_when_ctrl_c_comes_is_taken_by_the_serving_thread(
    spawn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-08: it may be for others, or for nobody who waits."""
    heard = queue.SimpleQueue[Any]()
    client = spawn(on_log=heard.put)
    client.connect()

    def ctrl_c(child: Any, chunk: bytes) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(client._connection, "child_wrote", ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        client.call_tool("batch")

    assert heard.get(timeout=WAIT).data == "x"


def test_a_server_that_no_thread_can_serve_is_ended_at_once(
    spawn: Any, monkeypatch: pytest.MonkeyPatch, open_files: Any
) -> None:
    """Too many threads: no process and no descriptor is left."""
    children: list[Any] = []

    class Refused(threading.Thread):
        def start(self) -> None:
            children.append(self._target.__self__)  # type: ignore[attr-defined]
            raise RuntimeError("can't start new thread")

    before = open_files()
    client = spawn()
    with monkeypatch.context() as patch:
        patch.setattr("yiemagent.mcp.child.threading.Thread", Refused)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            client.connect()

    assert children[0].fate != "closed its output"
    assert children[0].ended.done
    assert open_files() == before
    assert client.call_tool("echo").text == "{}"
