"""The served program, in this process and as a child, and the official SDK in a venv of its own."""

from __future__ import annotations

import fcntl
import importlib.util
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from yiemagent.mcp.jsonrpc import Message
from yiemagent.mcp.serve_http_runner import HttpServing, run_http
from yiemagent.mcp.serve_protocol import MessageServer
from yiemagent.mcp.serve_session import ServerSession

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE / "served.py"
SDK = "mcp>=2.3,<3"
CACHE = HERE.parents[2] / ".cache" / "mcp-sdk"


def _load(path: pathlib.Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def served() -> ModuleType:
    """The module ``served``."""
    return _load(PROGRAM)


@pytest.fixture
def server(served: ModuleType) -> MessageServer:
    """The server itself, without a wire."""
    made: MessageServer = served.make_server()
    return made


@pytest.fixture
def stdio_command() -> list[str]:
    """The command that serves on stdio."""
    return [sys.executable, str(PROGRAM)]


@pytest.fixture
def http(server: MessageServer) -> Iterator[HttpServing]:
    """The server over HTTP."""
    with run_http(server) as serving:
        yield serving


@pytest.fixture(scope="session")
def sdk_python() -> str:
    """An interpreter that has the official SDK; made once, under .cache."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    python = CACHE / "bin" / "python"
    with open(CACHE.parent / "mcp-sdk.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (CACHE / "ready").exists():
            try:
                subprocess.run([sys.executable, "-m", "venv", str(CACHE)], check=True, capture_output=True)
                install = [str(python), "-m", "pip", "install", "--quiet", SDK]
                subprocess.run(install, check=True, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError) as exc:
                pytest.skip(f"needs the official SDK, which could not be installed: {exc}")
            (CACHE / "ready").touch()
    return str(python)


class Talk:
    """A session with a server, without a wire; what it says is kept."""

    def __init__(self, server: MessageServer, **options: Any) -> None:
        self._server = server
        self.session = ServerSession(**options)
        self.said: list[Message] = []
        self.accepted = True
        self._next_id = 0

    def send(self, message: Any) -> list[Message]:
        self.said.clear()
        self.accepted = self._server.handle(self.session, message, self.said.append, _run_here)
        return list(self.said)

    def ask(self, method: str, params: dict[str, Any] | None = None, **more: Any) -> Message:
        self._next_id += 1
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, **more}
        if params is not None:
            message["params"] = params
        *_, response = self.send(message)
        return response

    def initialize(self, version: str = "2025-11-25") -> Message:
        return self.ask(
            "initialize",
            {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
        )

    def ask_modern(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> Message:
        full = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            **meta,
        }
        return self.ask(method, {**(params or {}), "_meta": full})


def _run_here(work: Callable[[], None]) -> bool:
    work()
    return True


@pytest.fixture
def talk(server: MessageServer) -> Callable[..., Talk]:
    """Begins sessions with the server, or another one."""

    def begin(other: MessageServer | None = None, **options: Any) -> Talk:
        return Talk(other or server, **options)

    return begin
