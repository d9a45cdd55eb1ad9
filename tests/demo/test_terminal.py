"""Chat in a real terminal: a child process on a pseudo-terminal, and Ctrl-C from its keyboard."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator

import pytest

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
pytestmark = pytest.mark.servers

_PATIENCE, _PAUSE = 60.0, 2.0


class Terminal:
    """A child process and the keyboard and screen it has."""

    def __init__(self, *arguments: str) -> None:
        self.seen = b""
        self._new = b""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execve(
                sys.executable, [sys.executable, *arguments], {**clean, "NO_COLOR": "1", "TERM": "dumb"}
            )

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, text: str, *, press_again: str = "") -> None:
        """Read the screen until *text* is on it, after what was waited for before.

        *press_again* is typed whenever nothing comes for a while: readline misses a Ctrl-C that
        comes between its prompt and its waiting for a key.
        """
        wanted = text.encode()
        deadline = time.monotonic() + _PATIENCE
        while wanted not in self._new:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not come; the screen is:\n{self.seen.decode()}"
            if press_again and not select.select([self._fd], [], [], min(left, _PAUSE))[0]:
                self.type(press_again)
            elif select.select([self._fd], [], [], left)[0]:
                piece = os.read(self._fd, 4096)
                self._new += piece
                self.seen += piece
        self._new = self._new[self._new.index(wanted) + len(wanted) :]

    def exit_code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal("-m", "yiemagent", "chat")
    yield terminal
    terminal.close()


def test_ctrl_c_stops_the_answer_and_ctrl_d_leaves(terminal: Terminal) -> None:
    """The conversation is kept, at the prompt Ctrl-C says how to leave, and the exit code is 0."""
    terminal.wait_for("you> ")
    terminal.type("red wines from France\n")
    terminal.wait_for("27 red wines")  # It is streaming, and has some seconds to go.
    terminal.type("\x03")
    terminal.wait_for("(stopped; the conversation is kept)")
    terminal.wait_for("you> ")
    terminal.type("the cheapest one?\n")
    terminal.wait_for("E. Guigal")
    terminal.wait_for("tokens)")
    terminal.wait_for("you> ")
    terminal.type("\x03")
    terminal.wait_for("(Ctrl-D or /quit leaves)", press_again="\x03")
    terminal.wait_for("you> ")
    terminal.type("\x04")
    assert terminal.exit_code() == 0
