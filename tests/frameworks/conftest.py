"""Real servers for the framework tests, started as child processes on free loopback ports."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

HERE = pathlib.Path(__file__).parent


class Gunicorn:
    """A running gunicorn; its log is read by a thread so that its pipe never fills."""

    def __init__(self, *arguments: str, app: str = "web_app:app", env: dict[str, str] | None = None) -> None:
        # A gevent worker that is told to end while it boots never hears of it; gunicorn then waits
        # this long before it kills it, with any application.
        always = ("--bind", "127.0.0.1:0", "--no-control-socket", "--graceful-timeout", "2")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *always, *arguments, app],
            cwd=HERE,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE), **(env or {})},
        )
        self.log: list[str] = []
        self._listening = threading.Event()
        self.url = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._listening.wait(30), "".join(self.log)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"Listening at: (http://[0-9.:]+)", line)
            if found:
                self.url = found.group(1)
                self._listening.set()
        self._listening.set()

    def stop(self) -> int:
        """Ask it to end in order; its exit code."""
        self.process.terminate()
        code = self.process.wait(15)
        self._reader.join(5)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


@pytest.fixture
def gunicorn() -> Iterator[Callable[..., Gunicorn]]:
    """Start gunicorn servers; each is ended after the test."""
    running: list[Gunicorn] = []

    def start(*arguments: str, **options: object) -> Gunicorn:
        server = Gunicorn(*arguments, **options)  # type: ignore[arg-type]
        running.append(server)
        return server

    yield start
    for server in running:
        if server.process.poll() is None:
            server.stop()
