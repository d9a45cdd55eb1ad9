"""Runs a tool call in a child process, which abort and timeout can really kill.

The child is a fresh interpreter and not a fork: a fork of a process with threads may stop
for ever in a lock that another thread held.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import signal as signals
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

from yiemagent.abort import AbortSignal
from yiemagent.tools.frames import Request, read_frame, write_frame
from yiemagent.tools.result import error_result
from yiemagent.tools.tool import OnUpdate, Tool, ToolResult, current_event_sink

__all__ = ["run_in_process"]

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from yiemagent.tools.child import main; main()"
)
_EXIT_SECONDS = 1.0
"""How long a child that has answered may take to end before it is killed."""


class _CannotSend(Exception):
    """The call cannot be brought into a child process; the message says what to do."""


def run_in_process(
    tool: Tool, tool_call_id: str, args: dict[str, Any], signal: AbortSignal, on_update: OnUpdate
) -> ToolResult:
    """Run one call of *tool* in a child process of its own and give back its result.

    The function must be found by the child: defined at the top of a module or of the main
    script, or picklable (``functools.partial``, a method of a picklable object). Of a main
    script the child runs only the imports, definitions and assignments that the function needs;
    it needs no ``if __name__ == "__main__"``. Environment, working directory and ``sys.path``
    are the caller's; contextvars are not carried over. What the tool prints goes to stderr.

    Abort of *signal* (the run's abort, a timeout) kills the child and every process of its group.
    A child whose parent ends kills itself.

    Returns:
        The tool's result, or an error result: ``aborted``, ``tool_crashed`` with ``exit_code``,
        or ``process_isolation`` when the call cannot be brought there or back.

    Raises:
        BaseException: What the tool raised, if it can be pickled; its traceback is a note.

    Threads: any; blocks the caller until the child has ended.
    """
    if signal.aborted:
        return error_result("Operation aborted", "aborted")
    try:
        request = _request(tool, tool_call_id, args)
    except _CannotSend as problem:
        return error_result(f"Tool {tool.name} cannot run in a child process: {problem}", "process_isolation")
    child = _Child(request)
    forget = signal.on_abort(child.kill)
    try:
        answer = child.converse(on_update)
    except BaseException:
        child.kill()  # Nobody hears the child out any more.
        raise
    finally:
        forget()
        exit_code = child.end()
    if answer is None and signal.aborted:
        return error_result("Operation aborted", "aborted")
    if answer is None:
        text = f"Tool {tool.name} crashed: its process {_how_it_ended(exit_code)}"
        return error_result(text, "tool_crashed", exit_code=exit_code)
    if isinstance(answer, BaseException):
        raise answer
    return answer


class _Child:
    """One child process: started, talked to, ended."""

    def __init__(self, request: Request) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin: Any = self._process.stdin
        self._stdout: Any = self._process.stdout
        self._request = request
        # Guards _over: after it is set the process may be reaped and its number be another's.
        self._lock = threading.Lock()
        self._over = False

    def converse(self, on_update: OnUpdate) -> ToolResult | BaseException | None:
        """Send the request and hear the child out; None when it ended without an answer."""
        try:
            write_frame(self._stdin, self._request)
        except OSError:
            return None
        while (frame := read_frame(self._stdout)) is not None:
            try:
                kind, *content = pickle.loads(frame)
            except Exception as problem:
                return error_result(f"The result cannot be brought back: {problem!r}", "process_isolation")
            if kind == "update":
                on_update(content[0])
            elif kind == "log":
                current_event_sink.get()(content[0], publish=content[1])
            elif kind == "raised":
                return _raised(*content)
            else:
                result: ToolResult = content[0]
                return result
        return None

    def kill(self) -> None:
        """Kill the child and all of its process group, unless it is over. Any thread."""
        with self._lock:
            if not self._over:
                self._kill_group()

    def end(self) -> int:
        """See that the process is gone; gives its exit code, negative for a signal."""
        with self._lock:
            self._over = True
        self._stdout.close()
        try:
            return self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill_group()
            return self._process.wait()
        finally:
            with contextlib.suppress(OSError):  # What a dead child did not read.
                self._stdin.close()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signals.SIGKILL)


def _raised(pickled: bytes | None, name: str, text: str, traceback: str) -> BaseException | ToolResult:
    if pickled is not None:
        try:
            error = pickle.loads(pickled)
        except Exception:
            error = None  # An exception class that cannot be made again from its arguments.
        if isinstance(error, BaseException):
            error.add_note(f"In the child process:\n{traceback}")
            return error
    return error_result(text or name, "tool_exception", exception=name, traceback=traceback)


def _how_it_ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code} before it gave a result"
    try:
        return f"was killed by {signals.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


def _request(tool: Tool, tool_call_id: str, args: dict[str, Any]) -> Request:
    if not sys.executable:
        raise _CannotSend("it is not known where the Python interpreter is (sys.executable is empty)")
    target = tool.function if tool.function is not None else tool.execute
    reference = _reference(target, tool)
    buffer = io.BytesIO()
    pickler = _NotingPickler(buffer)
    try:
        pickler.dump((None if reference else target, tool.function is not None, tool_call_id, args))
    except Exception as problem:
        raise _CannotSend(
            f"it cannot be pickled ({problem}). Define it at the top of a module, "
            'give it plain arguments, or leave isolation="process" away.'
        ) from problem
    wanted = set(pickler.names_of_main)
    if reference is not None and reference[0] == "__main__":
        wanted.add(reference[1].split(".")[0])
    main = _main_script(wanted) if wanted else None
    return Request(tool.name, reference, buffer.getvalue(), main, tuple(sys.argv))


def _reference(target: Any, tool: Tool) -> tuple[str, str] | None:
    """Where the child finds *target*; pickle refuses it where ``@tool`` has put the tool in its place."""
    if not isinstance(target, types.FunctionType):
        return None
    found: Any = sys.modules.get(target.__module__)
    for step in target.__qualname__.split("."):
        found = getattr(found, step, None)
    if found is target or found is tool or (isinstance(found, Tool) and found.function is target):
        return target.__module__, target.__qualname__
    return None


def _main_script(wanted: set[str]) -> dict[str, Any]:
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or not Path(path).is_file():
        raise _CannotSend(
            f"{', '.join(sorted(wanted))} is defined in a notebook or an interactive session, where no "
            "other process finds it. Put it into a module (a .py file) and import it from there, or leave "
            'isolation="process" away.'
        )
    spec = getattr(main, "__spec__", None)
    return {"path": str(path), "package": spec.parent if spec is not None else None, "wanted": sorted(wanted)}


class _NotingPickler(pickle.Pickler):
    """Notes which functions and classes of the main script a pickle refers to."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer)
        self.names_of_main: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        """Look, and let pickle do what it does."""
        if isinstance(obj, (type, types.FunctionType)) and obj.__module__ == "__main__":
            self.names_of_main.add(obj.__qualname__.split(".")[0])
        return NotImplemented
