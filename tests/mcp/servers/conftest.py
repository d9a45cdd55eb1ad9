"""Other people's servers, installed once into folders that git ignores, over stdio and HTTP."""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.errors import McpConnectionError
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.http import McpHttp
from yiemagent.mcp.stdio import McpStdio

HERE = pathlib.Path(__file__).parent
CACHE = HERE.parents[2] / ".cache"
PEERS = ("mcp>=2.3,<3", "fastmcp>=4.2,<5")
INSTALL_SECONDS = 300
START_SECONDS = 30

Reach = Callable[..., McpClient]


@contextlib.contextmanager
def _only_one_installs(name: str) -> Iterator[None]:
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(what: str, *command: str, cwd: pathlib.Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        pytest.skip(f"{what} cannot be installed: {exc}")
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        pytest.skip(f"{what} cannot be installed: {' '.join(last)}")


@pytest.fixture(scope="session")
def npm_servers() -> pathlib.Path:
    """The folder of the npm packages in ``package.json``."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("needs node and npm")
    with _only_one_installs("npm-servers"):
        modules = HERE / "node_modules"
        wanted = (HERE / "package.json").read_text()
        stamp = modules / ".installed"
        if not stamp.exists() or stamp.read_text() != wanted:
            _install(
                "the npm servers", "npm", "install", "--no-fund", "--no-audit", "--no-package-lock", cwd=HERE
            )
            stamp.write_text(wanted)
    return modules / "@modelcontextprotocol"


@pytest.fixture(scope="session")
def peer_python() -> str:
    """A Python of its own that has the official SDK and fastmcp."""
    folder = CACHE / "mcp-peers"
    python = folder / "bin" / "python"
    with _only_one_installs("mcp-peers"):
        stamp = folder / ".installed"
        if not stamp.exists() or stamp.read_text() != str(PEERS):
            _install("the peers' environment", sys.executable, "-m", "venv", str(folder))
            _install("mcp and fastmcp", str(python), "-m", "pip", "install", "--quiet", *PEERS)
            stamp.write_text(str(PEERS))
    return str(python)


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    give_up_at = time.monotonic() + START_SECONDS
    pause = threading.Event()
    while time.monotonic() < give_up_at:
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        pause.wait(0.02)
    raise AssertionError(f"{process.args!r} does not listen on port {port}")


@contextlib.contextmanager
def _http_servers() -> Iterator[Callable[..., int]]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(command: Callable[[int], list[str]], env: dict[str, str] | None = None) -> int:
        port = free_port()
        full = None if env is None else {**env, "PORT": str(port)}
        process = subprocess.Popen(
            command(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=full
        )
        processes.append(process)
        _wait_until_listening(port, process)
        return port

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _clients() -> Iterator[Reach]:
    clients: list[McpClient] = []
    ports: dict[str, int] = {}

    def make(wire: str, command: list[str], **options: Any) -> McpClient:
        if wire == "stdio":
            client: McpClient = McpStdio(command[0], [*command[1:], "stdio"], **options)
        else:
            program = command[-1]
            if program not in ports:
                ports[program] = start(lambda port: [*command, "http", str(port)])
            client = McpHttp(f"http://127.0.0.1:{ports[program]}/mcp", **options)
        clients.append(client)
        client.connect()
        return client

    with _http_servers() as start:
        try:
            yield make
        finally:
            for client in clients:
                with contextlib.suppress(McpConnectionError):
                    client.close(timeout=1.0)


@pytest.fixture(scope="module")
def http_server() -> Iterator[Callable[..., int]]:
    """Starts ``command(port)`` and gives the port, once something listens there."""
    with _http_servers() as start:
        yield start


@pytest.fixture
def reach() -> Iterator[Reach]:
    """Makes a connected client of a server's program: ``reach(wire, command, **options)``.

    Over stdio each has a process of its own; over HTTP they share one.
    """
    with _clients() as make:
        yield make


@pytest.fixture(scope="module")
def reach_once(leaving_no_thread: Any) -> Iterator[Reach]:
    """As ``reach``, for a client that all tests of a module share."""
    with leaving_no_thread(), _clients() as make:
        yield make


@pytest.fixture(autouse=True)
def no_leaked_threads(request: pytest.FixtureRequest) -> None:
    """The threads of a shared client outlive a test; they are looked for when the client is closed."""
    if "reach_once" not in request.fixturenames:
        request.getfixturevalue("no_leaked_threads")
