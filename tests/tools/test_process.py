"""Tools in child processes, with real children."""

from __future__ import annotations

import functools
import os
import select
import subprocess
import sys
import textwrap
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.testing import WAIT
from yiemagent.tools.decorator import tool
from yiemagent.tools.process import run_in_process
from yiemagent.tools.tool import Tool, ToolResult, current_event_sink

pytestmark = pytest.mark.servers

MODULE = '''
import dataclasses, datetime, enum, os, signal, subprocess, sys, threading
from yiemagent.tools.decorator import tool
from yiemagent.tools.tool import ToolContext, ToolResult

class Colour(enum.Enum):
    RED = "red"

@dataclasses.dataclass
class Box:
    factor: int
    def times(self, a: int) -> int:
        """Multiply."""
        return a * self.factor
    @tool(isolation="process")
    def plus(self, a: int) -> int:
        """Add."""
        return a + self.factor

class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")

class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("stays here")

class Bomb:
    def __reduce__(self):
        return explode, ()

def explode():
    raise ValueError("cannot be made again")

@tool(isolation="process")
def convert(a: int, colour: Colour, day: datetime.date) -> dict:
    """Convert."""
    return {"a": a, "colour": colour.name, "year": day.year, "pid": os.getpid()}

@tool(isolation="process")
def talk(ctx: ToolContext) -> str:
    ctx.update("half")
    ctx.event_sink("working", publish=True)
    print("printed")
    print("also printed", file=sys.stderr)
    return f"{ctx.tool_name} {ctx.tool_call_id} {sys.stdin.read()!r}"

@tool(isolation="process")
def fail(kind: str):
    if kind == "value": raise ValueError("bad cellar")
    if kind == "exit": sys.exit("stopped")
    if kind == "odd": raise Odd(1, 2)
    if kind == "unpicklable": raise Unpicklable("gone")
    if kind == "silent": raise Unpicklable
    if kind == "_exit": os._exit(7)
    if kind == "segv": os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "rt": os.kill(os.getpid(), signal.SIGRTMIN + 1)

@tool(isolation="process")
def give(what: str):
    if what == "result": return ToolResult("text", {"rows": 3}, terminate=True)
    if what == "nothing": return None
    if what == "lambda": return ToolResult("text", lambda: 1)
    if what == "bomb": return ToolResult("text", Bomb())
    if what == "thread":
        threading.Thread(target=threading.Event().wait).start()
        return "left a thread"

@tool(isolation="process")
def hang(ready: str) -> str:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    with open(ready, "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    threading.Event().wait()

@tool(isolation="process")
def stall(ctx: ToolContext):
    ctx.update(os.getpid())
    threading.Event().wait()

class Stuck:
    def flush(self):
        threading.Event().wait()

@tool(isolation="process")
def linger(ctx: ToolContext):
    ctx.update(os.getpid())
    sys.stdout = Stuck()
    return "done"

def execute(tool_call_id, args, signal, on_update):
    return [tool_call_id, args, signal.aborted]

def plain(a: int, b: int = 2) -> int:
    return a + b
'''


@pytest.fixture
def cellar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module of tools that a child can import too."""
    (tmp_path / "cellar_of_tools.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import cellar_of_tools  # type: ignore[import-not-found]

    yield cellar_of_tools
    del sys.modules["cellar_of_tools"]


def run(
    made: Tool, args: dict[str, Any], signal: AbortSignal | None = None, on_update: Any = None
) -> ToolResult:
    return run_in_process(made, "call-1", args, signal or AbortSignal(), on_update or (lambda partial: None))


def test_a_tool_runs_in_a_process_of_its_own_with_its_own_types(cellar: Any) -> None:
    """Issue 2: the arguments are JSON, the function gets its types, the result comes back."""
    result = run(cellar.convert, {"a": 2, "colour": "red", "day": "2026-05-01"})

    assert '"a": 2, "colour": "RED", "year": 2026' in result.text
    assert str(os.getpid()) not in result.text


def test_progress_and_logs_arrive_while_the_tool_runs(cellar: Any, capfd: Any) -> None:
    """What it prints goes to stderr, and it has no stdin to wait at."""
    updates: list[Any] = []
    logged: list[Any] = []
    token = current_event_sink.set(lambda text, publish=False: logged.append((text, publish)))
    try:
        result = run(cellar.talk, {}, on_update=updates.append)
    finally:
        current_event_sink.reset(token)

    assert result.text == "talk call-1 ''"
    assert updates == ["half"]
    assert logged == [("working", True)]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == "printed\nalso printed\n"


def test_what_the_tool_raises_is_raised_here_with_its_traceback(cellar: Any) -> None:
    """The loop makes the same error result as for a tool on a thread."""
    with pytest.raises(ValueError, match="bad cellar") as caught:
        run(cellar.fail, {"kind": "value"})
    assert "cellar_of_tools.py" in caught.value.__notes__[0]


def test_sys_exit_in_the_tool_is_raised_here(cellar: Any) -> None:
    """Case D-28: the loop catches it."""
    with pytest.raises(SystemExit, match="stopped"):
        run(cellar.fail, {"kind": "exit"})


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [("odd", "1 2", "Odd"), ("unpicklable", "gone", "Unpicklable"), ("silent", "Unpicklable", "Unpicklable")],
)
def test_an_exception_that_cannot_travel_is_told_in_words(
    cellar: Any, kind: str, text: str, name: str
) -> None:
    """Exceptions whose constructor takes other arguments do not unpickle."""
    result = run(cellar.fail, {"kind": kind})

    assert (result.is_error, result.text) == (True, text)
    assert result.details["error_type"] == "tool_exception"
    assert result.details["exception"] == name
    assert "Traceback" in result.details["traceback"]


@pytest.mark.parametrize(
    ("kind", "words", "code"),
    [
        ("_exit", "ended with exit code 7 before it gave a result", 7),
        ("segv", "was killed by SIGSEGV", -11),
        ("rt", "was killed by signal 35", -35),
    ],
)
def test_a_crash_is_an_error_result_with_the_exit_code(cellar: Any, kind: str, words: str, code: int) -> None:
    """This process goes on."""
    result = run(cellar.fail, {"kind": kind})

    assert result.is_error
    assert result.text == f"Tool fail crashed: its process {words}"
    assert result.details == {"error_type": "tool_crashed", "exit_code": code}


def test_results_come_back_whole(cellar: Any) -> None:
    """Details and flags too."""
    assert run(cellar.give, {"what": "result"}) == ToolResult("text", {"rows": 3}, terminate=True)  # type: ignore[arg-type]
    assert run(cellar.give, {"what": "nothing"}).text == "(no output)"


@pytest.mark.parametrize(
    ("what", "words"),
    [("lambda", "cannot be pickled to leave its process"), ("bomb", "cannot be brought back")],
)
def test_a_result_that_cannot_come_back_is_an_error_result(cellar: Any, what: str, words: str) -> None:
    """It says so instead of hanging."""
    result = run(cellar.give, {"what": what})

    assert result.is_error
    assert words in result.text
    assert result.details == {"error_type": "process_isolation"}


def test_threads_that_the_tool_left_do_not_keep_the_call_alive(cellar: Any) -> None:
    """A non-daemon thread would hold an interpreter that exits."""
    assert run(cellar.give, {"what": "thread"}).text == "left a thread"


def test_methods_partials_and_plain_executes_run_there_too(cellar: Any) -> None:
    """Whatever can be pickled."""
    box = cellar.Box(3)

    assert (
        run(
            tool(
                box.times,
            ),
            {"a": 2},
        ).text
        == "6"
    )
    assert run(box.plus, {"a": 2}).text == "5"
    assert run(tool(isolation="process")(functools.partial(cellar.plain, b=5)), {"a": 2}).text == "7"
    assert run(Tool(name="probe", execute=cellar.execute), {"x": 1}).text == '["call-1", {"x": 1}, false]'


def test_a_function_inside_a_function_cannot_be_sent_and_is_told_so() -> None:
    """The message says what to do."""

    @tool(isolation="process")
    def local(a: int) -> int:
        return a

    result = run(local, {"a": 1})

    assert result.is_error
    assert "Tool local cannot run in a child process: it cannot be pickled" in result.text
    assert "at the top of a module" in result.text
    assert result.details == {"error_type": "process_isolation"}


def test_arguments_that_cannot_be_sent_are_told(cellar: Any) -> None:
    """A hook may have put anything into them."""
    result = run(cellar.convert, {"a": threading.Lock()})

    assert "cannot pickle" in result.text


def test_without_an_interpreter_there_is_no_child(cellar: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python inside another program may not know its own executable."""
    monkeypatch.setattr(sys, "executable", "")

    assert "sys.executable is empty" in run(cellar.convert, {}).text


def test_an_aborted_signal_starts_nothing(cellar: Any) -> None:
    """Decision 10: new work is never begun after an abort."""
    signal = AbortSignal()
    signal.abort()

    assert run(cellar.hang, {"ready": "/nowhere"}, signal).details == {"error_type": "aborted"}


def test_abort_kills_the_child_and_what_it_started(cellar: Any, tmp_path: Path) -> None:
    """Really: both processes are gone."""
    signal = AbortSignal()
    results: list[ToolResult] = []
    ready = tmp_path / "ready"
    os.mkfifo(ready)

    thread = threading.Thread(target=lambda: results.append(run(cellar.hang, {"ready": str(ready)}, signal)))
    thread.start()
    processes = _processes_named_in(ready)
    signal.abort("enough")
    thread.join(WAIT)

    assert not thread.is_alive()
    assert results[0].details == {"error_type": "aborted"}
    assert results[0].text == "Operation aborted"
    assert all(_ends(process) for process in processes)


def test_a_child_whose_parent_is_killed_ends_too(tmp_path: Path) -> None:
    """Nothing is left behind when the program is killed."""
    (tmp_path / "cellar_of_tools.py").write_text(MODULE)
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    script = (
        "from cellar_of_tools import hang\n"
        "from yiemagent.abort import AbortSignal\n"
        "from yiemagent.tools.process import run_in_process\n"
        f"run_in_process(hang, '1', {{'ready': {str(ready)!r}}}, AbortSignal(), print)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    processes = _processes_named_in(ready)

    parent.kill()
    parent.wait(WAIT)

    assert all(_ends(process) for process in processes)


def _processes_named_in(fifo: Path) -> list[int]:
    """File descriptors of the processes whose numbers the tool writes into *fifo*."""
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert select.select([reader], [], [], WAIT)[0], "the tool never got ready"
        return [os.pidfd_open(int(pid)) for pid in os.read(reader, 100).split()]
    finally:
        os.close(reader)


def _ends(process: int) -> bool:
    """Whether the process has ended or does so in time."""
    try:
        return bool(select.select([process], [], [], WAIT)[0])
    finally:
        os.close(process)


SCRIPT = '''
import dataclasses
from yiemagent.abort import AbortSignal
from yiemagent.tools.decorator import tool
from yiemagent.tools.process import run_in_process
from yiemagent.tools.tool import Tool, ToolResult

print("script runs")
FACTOR = 3

@dataclasses.dataclass
class Price:
    amount: int

@tool(isolation="process")
def multiply(a: int, price: Price) -> ToolResult:
    """Multiply."""
    return ToolResult(str(a * FACTOR * price.amount), Price(1))

class Shop:
    def sell(self, a: int) -> int:
        return a * FACTOR

def execute(tool_call_id, args, signal, on_update):
    return FACTOR

for made, args in [
    (multiply, {"a": 2, "price": {"amount": 4}}),
    (tool(Shop().sell), {"a": 5}),
    (Tool(name="execute", execute=execute), {}),
]:
    result = run_in_process(made, "1", args, AbortSignal(), print)
    print(result.text, result.details)
'''


@pytest.mark.parametrize("as_module", [False, True])
def test_functions_of_a_script_without_a_main_guard_work(tmp_path: Path, as_module: bool) -> None:
    """The script runs once: the child takes only the definitions it needs."""
    (tmp_path / "shop.py").write_text(SCRIPT)
    command = ["-m", "shop"] if as_module else ["shop.py"]

    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert done.stderr == ""
    assert done.stdout == "script runs\n24 Price(amount=1)\n15 None\n3 None\n"


def test_functions_of_an_interactive_session_are_told_to_move(tmp_path: Path) -> None:
    """A notebook's __main__ is no file that a child could read."""
    script = textwrap.dedent(
        """
        from yiemagent.abort import AbortSignal
        from yiemagent.tools.decorator import tool
        from yiemagent.tools.process import run_in_process
        @tool(isolation="process")
        def probe(a: int) -> int:
            return a
        print(run_in_process(probe, "1", {"a": 1}, AbortSignal(), print).text)
        """
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert done.stdout == (
        "Tool probe cannot run in a child process: probe is defined in a notebook or an interactive session, "
        "where no other process finds it. Put it into a module (a .py file) and import it from there, or "
        'leave isolation="process" away.\n'
    )


def test_a_listener_that_raises_ends_the_child(cellar: Any) -> None:
    """What on_update raises leaves no process behind."""
    processes: list[int] = []

    def fail(partial: Any) -> None:
        processes.append(os.pidfd_open(partial))
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        run(cellar.stall, {}, on_update=fail)
    assert _ends(processes[0])


def test_a_child_that_answers_but_does_not_end_is_killed(cellar: Any) -> None:
    """Its result counts, and the process does not stay."""
    processes: list[int] = []

    result = run(cellar.linger, {}, on_update=lambda pid: processes.append(os.pidfd_open(pid)))

    assert result.text == "done"
    assert _ends(processes[0])


def test_a_child_that_cannot_start_is_a_crash(cellar: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken interpreter: it ends before it has read a request larger than the pipe."""
    monkeypatch.setattr(sys, "executable", "/bin/false")

    result = run(cellar.convert, {"a": "x" * 1_000_000})

    assert result.details == {"error_type": "tool_crashed", "exit_code": 1}
