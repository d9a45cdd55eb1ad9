"""An MCP server on stdin and stdout: one JSON message a line, nothing else on stdout."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO

from yiemagent.errors import McpProtocolError
from yiemagent.mcp.jsonrpc import PARSE_ERROR, Message, decode, make_error
from yiemagent.mcp.serve_protocol import MessageServer
from yiemagent.mcp.serve_session import ServerSession
from yiemagent.mcp.serve_target import Servable, as_server
from yiemagent.mcp.serve_wire import encode_answer
from yiemagent.mcp.workers import Workers

__all__ = ["serve_stdio"]

logger = logging.getLogger(__name__)

LAST_ANSWERS = 1.0
"""Seconds that running requests get to finish after the client has closed our stdin."""


def serve_stdio(
    target: Servable,
    *,
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
    concurrency: int = 8,
) -> None:
    """Serve until the client closes stdin. Blocks; Ctrl-C ends it, too.

    While it runs, what tools print goes to stderr, and children that they start inherit neither
    the client's stdin nor its stdout. Tools run on daemon threads, so a hung one does not keep
    the process alive.

    Args:
        target: What to serve: tools, an ``McpServer``, or a client whose server is passed on.
        stdin: Read instead of the process's own.
        stdout: Written instead of the process's own.
        concurrency: How many calls run at once; more wait their turn.

    Raises:
        ConfigurationError: Something is no tool.
    """
    server = as_server(target)
    with contextlib.ExitStack() as stack:
        if stdin is None or stdout is None:
            own_in, own_out = stack.enter_context(_own_pipes())
            stdin, stdout = stdin or own_in, stdout or own_out
        with contextlib.suppress(KeyboardInterrupt):
            _Pipe(server, stdin, stdout, concurrency).run()


class _Pipe:
    """The one client of a stdio server."""

    def __init__(self, server: MessageServer, stdin: BinaryIO, stdout: BinaryIO, concurrency: int) -> None:
        self._server = server
        self._stdin = stdin
        self._stdout = stdout
        # Keeps lines whole: held while one is written.
        self._write_lock = threading.Lock()
        self._workers = Workers("mcp-server", threads=concurrency)
        self._session = ServerSession(push=self._send)

    def run(self) -> None:
        try:
            for line in self._stdin:
                if line.strip():
                    self._take(line)
            self._session.wait_idle(LAST_ANSWERS)
        finally:
            self._workers.clear()
            self._session.close()

    def _take(self, line: bytes) -> None:
        try:
            messages = decode(line)
        except McpProtocolError as exc:
            self._send(make_error(None, PARSE_ERROR, str(exc)))
            return
        for message in messages:
            self._server.handle(self._session, message, self._send, self._workers.start)

    def _send(self, message: Message) -> None:
        data = encode_answer(message)
        try:
            with self._write_lock:
                self._stdout.write(data + b"\n")
                self._stdout.flush()
        except (OSError, ValueError) as exc:
            logger.debug("the client does not read any more: %s", exc)
            self._session.close()


@contextlib.contextmanager
def _own_pipes() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Take stdin and stdout away from the rest of the process, and give them back."""
    sys.stdout.flush()
    reader, writer = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    stdin, stdout = os.fdopen(reader, "rb"), os.fdopen(writer, "wb")
    try:
        os.dup2(nothing, 0)
        os.dup2(2 if _is_open(2) else nothing, 1)
        try:
            yield stdin, stdout
        finally:
            sys.stdout.flush()  # what was printed belongs on stderr
            os.dup2(reader, 0)
            os.dup2(writer, 1)
    finally:
        os.close(nothing)
        stdin.close()
        with contextlib.suppress(OSError):  # what the client did not want to read
            stdout.close()


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
