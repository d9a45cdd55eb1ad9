"""The stdio wire: a server as a child process that speaks one JSON message a line.

Source: issue 5 parts 1 and 6; E-08, E-13, E-27, E-28; field problems 7-13, 22-24, 35, 38-40, 48.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Unpack

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, McpConnectionError, McpProtocolError
from yiemagent.mcp.child import Child
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.duplex import DuplexConnection
from yiemagent.mcp.environment import child_environment, command_label, resolve_command
from yiemagent.mcp.jsonrpc import Message, decode, encode
from yiemagent.mcp.lines import LineSplitter
from yiemagent.mcp.options import ClientKeywords
from yiemagent.mcp.transport import FallbackEra, Receiver
from yiemagent.value_checks import check_count, check_names, check_type

__all__ = ["McpStdio", "StdioConnection", "StdioTransport"]

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 256 << 20
MAX_RESTARTS = 3
"""How often a server that dies without answering a call is started again."""


@dataclass(frozen=True)
class StdioTransport:
    """How to start a server.

    Raises:
        ConfigurationError: The command or an argument is no text, or the folder does not exist.
    """

    command: str
    """Program: a name looked up in the server's PATH, or a path."""
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = field(default=None, repr=False)
    """Variables added to the safe base."""
    cwd: str | os.PathLike[str] | None = None
    """Working folder; None for ours."""
    inherit_env: bool | Iterable[str] = False
    """True hands on every variable of ours; names (``"HTTPS_PROXY"``, ``"UV_*"``) hand on these."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """Longest message the server may send."""

    def __post_init__(self) -> None:
        words = (self.command, *self.args)
        if isinstance(self.args, str) or not all(isinstance(word, str) for word in words) or not self.command:
            raise ConfigurationError(
                f"a stdio server needs a command and a list of texts as arguments, got {words!r}"
            )
        if not isinstance(self.inherit_env, bool):  # Read again at each start.
            names = check_names("inherit_env, unless True or False,", self.inherit_env)
            object.__setattr__(self, "inherit_env", names)
        if self.env is not None and not isinstance(self.env, Mapping):
            raise ConfigurationError(f"env must be a mapping or None, got {type(self.env).__name__}")
        for name, value in (self.env or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):  # Values are secrets: not shown.
                raise ConfigurationError(f"env must map names to texts; {name!r} is a {type(value).__name__}")
        check_count("max_message_bytes", self.max_message_bytes, none=False)
        check_type("cwd", self.cwd, str, os.PathLike)
        if self.cwd is not None and not os.path.isdir(self.cwd):
            raise ConfigurationError(f"cwd={os.fspath(self.cwd)!r} is no folder")

    @property
    def label(self) -> str:
        """The command line, secrets masked."""
        return command_label(self.command, self.args)

    @property
    def era_key(self) -> str | None:
        """Each process is asked for itself."""
        return None

    @property
    def fallback_era(self) -> FallbackEra:
        """Old servers want ``initialize``."""
        return "legacy"

    def connect(
        self, receiver: Receiver, *, deadline: Deadline, signal: AbortSignal | None
    ) -> StdioConnection:
        """Start the process; see ``Transport.connect``."""
        return StdioConnection(self, receiver)


class StdioConnection(DuplexConnection):
    """A running server."""

    def __init__(self, transport: StdioTransport, receiver: Receiver) -> None:
        super().__init__(receiver, transport.label)
        self._lines = LineSplitter(transport.max_message_bytes)
        self._noise = 0
        env = child_environment(transport.env, transport.inherit_env)
        program = resolve_command(transport.command, env, self._label)
        cwd = None if transport.cwd is None else os.fspath(transport.cwd)
        name = f"mcp-{os.path.basename(transport.command)}"
        try:
            self._child = Child(self, [program, *transport.args], env=env, cwd=cwd, name=name)
        except (OSError, ValueError) as exc:
            raise McpConnectionError(f"cannot start {self._label}: {exc}") from exc
        self._lead = self._child.intake

    @property
    def pid(self) -> int:
        """Process id of the server, or of its launcher."""
        return self._child.pid

    @property
    def stderr_tail(self) -> str:
        """The last lines the server wrote to stderr; empty when it wrote none."""
        return self._child.stderr_tail

    def abandon(self) -> None:
        """See ``Connection.abandon``."""
        super().abandon()
        self._child.abandon()

    def _post(self, message: Message) -> None:
        data = encode(message) + b"\n"
        try:
            self._child.outbox.write(data)
        except McpConnectionError as exc:
            raise McpConnectionError(f"cannot write to {self._label}: {exc}{self._detail()}") from None

    def _shut(self, timeout: float) -> None:
        self._child.stop(timeout, timeout)
        if self._child.intake.led_here:  # It can only end when this thread has gone on.
            return
        # The last rung is SIGKILL, so this ends; what cannot be killed is left to its own thread.
        if not self._child.ended.wait(2 * timeout + 4.0):
            logger.warning("server=%s pid=%d | did not end when killed", self._label, self.pid)

    def _detail(self) -> str:
        return _last_words(self._child)

    # --- the child's thread, or a caller's that reads

    def child_wrote(self, child: Child, chunk: bytes) -> None:
        """Take bytes from the server's stdout."""
        try:
            for line in self._lines.feed(chunk):
                self._take_line(line)
        except McpProtocolError as exc:
            self.lose(f"{self._label} was given up: {exc}")
            child.stop(0.0, 1.0)

    def _take_line(self, line: bytes) -> None:
        try:
            messages = decode(line)
        except McpProtocolError:
            self._skip(line)
            return
        for message in messages:
            if not self.deliver(message):
                self._skip(line)

    def _skip(self, line: bytes) -> None:
        """Read past a banner or a stray ``print``; say so once, with its text."""
        self._noise += 1
        logger.log(
            logging.WARNING if self._noise == 1 else logging.DEBUG,
            "server=%s | skipped a line on stdout that is no JSON-RPC message: %r",
            self._label,
            line[:200].decode("utf-8", "replace").rstrip(),
        )

    def child_ended(self, child: Child) -> None:
        """Fail what waits for an answer."""
        rest = self._lines.rest()
        if rest.strip():
            self._take_line(rest)
        self.lose(f"{self._label} {child.fate}{_last_words(child)}")


def _last_words(child: Child) -> str:
    tail = child.stderr_tail
    return f"; the last lines of its stderr: {tail}" if tail else "; it wrote nothing to stderr"


class McpStdio(McpClient):
    """An MCP server that is a program started here: ``McpStdio("npx", ["-y", "some-server"])``.

    The program starts with the first call and gets its own process group. It is ended by closing
    its stdin, then after ``close_timeout`` seconds by SIGTERM and after as many again by SIGKILL,
    its own children with it: by ``close``, at the end of the program, or when the client is
    collected. Should our process be killed, the closed stdin tells it. When it dies, the next call
    starts it again, at most ``max_restarts`` (3) times in a row without one call answered.

    Args:
        command: Program: a name looked up in the server's PATH, or a path.
        args: Its arguments.
        env: Variables added to a safe base (``environment.SAFE_VARIABLES``).
        cwd: Working folder; None for ours.
        inherit_env: True hands on every variable of ours; names (``"UV_*"``) hand on these.
        max_message_bytes: Longest message the server may send.
        **options: The fields of ``ClientOptions``.

    Raises:
        ConfigurationError: A value cannot be used.
    """

    def __init__(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        inherit_env: bool | Iterable[str] = False,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        **options: Unpack[ClientKeywords],
    ) -> None:
        transport = StdioTransport(
            command=command,
            args=args,
            env=env,
            cwd=cwd,
            inherit_env=inherit_env,
            max_message_bytes=max_message_bytes,
        )
        options.setdefault("max_restarts", MAX_RESTARTS)
        super().__init__(transport, **options)

    @property
    def stderr_tail(self) -> str:
        """The last lines that the running server wrote to stderr; empty when none runs."""
        connection = self._connection
        return connection.stderr_tail if isinstance(connection, StdioConnection) else ""

    @property
    def pid(self) -> int | None:
        """Process id of the running server or its launcher; None when none runs."""
        connection = self._connection
        return connection.pid if isinstance(connection, StdioConnection) else None
