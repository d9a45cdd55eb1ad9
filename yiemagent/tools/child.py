"""The child's side of ``process``: one tool call, then the end."""

from __future__ import annotations

import importlib
import os
import pickle
import signal as signals
import sys
import threading
import traceback
import types
from pathlib import Path
from typing import Any, BinaryIO

from yiemagent.abort import AbortSignal
from yiemagent.tools.decorator import FunctionBody
from yiemagent.tools.frames import read_frame, write_frame
from yiemagent.tools.main_slice import slice_script
from yiemagent.tools.result import as_tool_result, error_result
from yiemagent.tools.tool import Tool, ToolResult, current_event_sink

__all__ = ["main"]


def main() -> None:
    """Read one request from stdin, run it, answer on stdout, exit."""
    requests, answers = _private_pipes()
    body = read_frame(requests)
    if body is None:
        os._exit(1)
    threading.Thread(target=_die_with_parent, args=(requests,), name="yiemagent-parent", daemon=True).start()
    channel = _Channel(answers)
    try:
        channel.send(_outcome(pickle.loads(body), channel))
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass  # The parent is gone; nobody wants the answer.
    # Not sys.exit: threads that the tool left running must not keep the call alive.
    os._exit(0)


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the parent, out of reach of what the tool reads and prints."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return requests, answers


def _die_with_parent(requests: BinaryIO) -> None:
    requests.read(1)  # The parent says nothing more: this returns when it has ended.
    os.killpg(0, signals.SIGKILL)


class _Channel:
    """What the tool says while it runs; its threads may say something too."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()  # One frame at a time: the pipe is what it guards.

    def send(self, message: tuple[Any, ...]) -> None:
        with self._lock:
            write_frame(self._stream, message)

    def update(self, partial: ToolResult | str, /) -> None:
        self.send(("update", partial))

    def log(self, text: str, publish: bool = False) -> None:
        self.send(("log", str(text), publish))


def _outcome(request: Any, channel: _Channel) -> tuple[Any, ...]:
    try:
        if request.main is not None:
            _install_main(request.main)
        sys.argv = list(request.argv)
        execute, call_id, args = _target(request)
        current_event_sink.set(channel.log)
        result = as_tool_result(execute(call_id, args, AbortSignal(), channel.update))
    except BaseException as error:
        return _raised(error)
    try:
        pickle.dumps(result)
    except Exception as problem:
        text = f"The result of tool {request.name} cannot be pickled to leave its process: {problem}"
        return "result", error_result(text, "process_isolation")
    return "result", result


def _target(request: Any) -> tuple[Any, str, dict[str, Any]]:
    """The body of the tool, the call's id and its arguments."""
    function, is_plain, call_id, args = pickle.loads(request.pickled)
    if request.reference is not None:
        module, name = request.reference
        function = importlib.import_module(module)
        for step in name.split("."):
            function = getattr(function, step)
    if isinstance(function, Tool):
        return function.execute, call_id, args
    return (FunctionBody(function, request.name, None) if is_plain else function), call_id, args


def _install_main(main: dict[str, Any]) -> None:
    """Make the part of the main script that is needed ``__main__``, as it is in the parent."""
    module = types.ModuleType("__main__")
    module.__file__ = main["path"]
    module.__package__ = main["package"]
    sys.modules["__main__"] = module
    tree = slice_script(Path(main["path"]).read_text(encoding="utf-8"), main["wanted"])
    exec(compile(tree, main["path"], "exec"), module.__dict__)


def _raised(error: BaseException) -> tuple[Any, ...]:
    text = "".join(traceback.format_exception(error))
    try:
        pickled = pickle.dumps(error)
    except Exception:
        pickled = None
    return "raised", pickled, type(error).__name__, str(error), text
