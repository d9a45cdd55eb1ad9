"""Real processes: Ctrl-C in every call that blocks, and leaving the interpreter whatever still runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

pytestmark = pytest.mark.servers

PREAMBLE = """
import json, logging, os, signal, sys, threading, time
from yiemagent import Agent
from yiemagent.testing import Gate, ScriptedLlm, call, calls, say
from yiemagent.tools.tool import Tool

silent = Gate()

def main_waits(inside):
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None:
        if f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_code.co_name}" == inside:
            return True
        frame = frame.f_back
    return False

def ready(inside):
    # On the model's or tool's thread: go on when the main thread is in the call that blocks.
    while not main_waits(inside):
        time.sleep(0.001)
    print("ready", flush=True)
    threading.Event().wait(3600)

asleep = threading.Semaphore(0)

def sleeps(*args):
    asleep.release()
    time.sleep(3600)

def silence(context):
    asleep.release()
    threading.Event().wait(3600)

def hang(*args):
    return Tool(name="hangs", description="Hangs.", execute=sleeps)
"""


class Child:
    """A Python process that tells what it has to say in lines."""

    def __init__(self, code: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Wait for its end; exit code and what it said on stderr. Long before what hangs in it ends."""
        _, errors = self.process.communicate(timeout=20)
        return self.process.returncode, errors


@pytest.fixture
def child() -> Iterator[Callable[[str], Child]]:
    """Start a child; it is killed at the end of the test."""
    children: list[Child] = []

    def start(code: str) -> Child:
        children.append(Child(code))
        return children[-1]

    yield start
    for each in children:
        each.process.kill()
        each.process.wait()
        for pipe in (each.process.stdout, each.process.stderr):
            if pipe is not None:
                pipe.close()


# -- Ctrl-C ------------------------------------------------------------------------------

INTERRUPTED = """
inside = {inside!r}
where = {where!r}

class Llm(ScriptedLlm):
    def stream(self, context, options):
        if where == "model" and not self.requests:
            self.requests.append(context)
            ready(inside)
        return super().stream(context, options)

tool = Tool(name="hangs", description="Hangs.", execute=lambda *args: ready(inside))
script = ["fine"] if where == "model" else [calls(call("hangs"), call("hangs")), "fine"]
agent = Agent(Llm(*script), tools=[tool], abort_grace=0.0)
raised = "nothing"
try:
{code}
except KeyboardInterrupt:
    raised = "KeyboardInterrupt"
if {left_running!r}:
    agent.abort("no longer wanted")
agent.wait_for_idle(10)
while True:
    try:
        agent.take_response(0)
    except TimeoutError:
        break
    except Exception:
        pass
result = agent.run("again", timeout=10)
print(json.dumps({{"raised": raised, "again": result.text, "roles": [m.role for m in agent.messages],
                  "stale": len(result.responses)}}), flush=True)
"""

CALLS = {
    "run": ("tickets.py:wait", "    agent.run('go')", False),
    "take_response": ("output.py:take_output", "    agent.prompt('go').take_response()", True),
    "stream": ("event_stream.py:batches", "    for event in agent.stream('go'): pass", False),
    "result": ("tickets.py:wait", "    agent.stream('go').result()", False),
    "future": ("_base.py:result", "    agent.submit('go').result()", True),
    "wait_for_idle": ("output.py:wait_idle", "    agent.prompt('go').wait_for_idle()", True),
}


@pytest.mark.parametrize("where", ["model", "tool"])
@pytest.mark.parametrize("verb", list(CALLS))
def test_ctrl_c_reaches_the_caller_while_what_it_waits_for_still_hangs(
    child: Callable[[str], Child], verb: str, where: str
) -> None:
    """D-08, F-22, A10, issue part 1: history valid, agent usable, no stale answer afterwards."""
    inside, code, left_running = CALLS[verb]
    running = child(INTERRUPTED.format(inside=inside, where=where, code=code, left_running=left_running))
    assert running.line() == "ready"
    running.interrupt()
    told = json.loads(running.line())
    code_of_exit, errors = running.end()

    assert (told["raised"], told["again"], told["stale"]) == ("KeyboardInterrupt", "fine", 1)
    results = ["tool_result"] * 2 if where == "tool" else []
    assert told["roles"] == ["user", "assistant", *results, "user", "assistant"]
    assert (code_of_exit, errors) == (0, "")


def test_a_signal_handler_that_exits_gets_through(child: Callable[[str], Child]) -> None:
    """D-37: gunicorn's worker timeout raises SystemExit in the main thread; the run is aborted."""
    running = child("""
def handler(number, frame):
    sys.exit(7)

signal.signal(signal.SIGTERM, handler)
ends = []

class Llm(ScriptedLlm):
    def stream(self, context, options):
        options.signal.on_abort(lambda: print("aborted", options.signal.reason, flush=True))
        ready("tickets.py:wait")

Agent(Llm()).run("go")
""")
    assert running.line() == "ready"
    running.process.send_signal(signal.SIGTERM)

    assert running.line() == "aborted interrupted"
    assert running.end() == (7, "")


def test_a_soft_time_limit_gets_through(child: Callable[[str], Child]) -> None:
    """D-38: celery raises SoftTimeLimitExceeded from a signal handler; the run is aborted."""
    running = child("""
class SoftTimeLimitExceeded(Exception):
    pass

def handler(number, frame):
    raise SoftTimeLimitExceeded

signal.signal(signal.SIGUSR1, handler)

class Llm(ScriptedLlm):
    def stream(self, context, options):
        if self.requests:
            return super().stream(context, options)
        self.requests.append(context)
        ready("tickets.py:wait")

agent = Agent(Llm("fine"))
try:
    agent.run("go")
except SoftTimeLimitExceeded:
    print(agent.wait_for_idle(10), agent.run("again", timeout=10).text, flush=True)
""")
    assert running.line() == "ready"
    running.process.send_signal(signal.SIGUSR1)

    assert running.line() == "True fine"
    assert running.end() == (0, "")


@pytest.mark.threads
def test_ctrl_c_at_random_moments_leaves_an_agent_that_works(child: Callable[[str], Child]) -> None:
    """D-08, F-22: two hundred times in one process, wherever the main thread happens to be."""
    running = child("""
import random
rng = random.Random(7)
agent = Agent(ScriptedLlm(*["x"] * 5000))
interrupted = 0
for number in range(200):
    timer = threading.Timer(rng.random() * 0.004, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        for _ in range(20):
            agent.run("go", timeout=10)
        timer.join()
        threading.Event().wait(0.01)
    except KeyboardInterrupt:
        interrupted += 1
    while True:
        try:
            timer.join()
            assert agent.wait_for_idle(10)
            break
        except KeyboardInterrupt:
            interrupted += 1
agent.messages = ()
print(interrupted, agent.run("last", timeout=10).text, [m.text for m in agent.messages], flush=True)
agent.stop()
""")
    line = running.line()

    assert line.endswith("x ['last', 'x']"), running.end()
    assert running.end() == (0, "")


# -- leaving the interpreter -------------------------------------------------------------

EXITS: dict[str, str] = {
    "an idle agent": "agent = Agent(ScriptedLlm('x')); agent.run('go'); asleep.release()",
    "a hung tool": "agent = Agent(ScriptedLlm(call('hangs')), tools=[hang()]); agent.prompt('go')",
    "hung tools side by side": (
        "agent = Agent(ScriptedLlm(calls(call('hangs'), call('hangs'))), tools=[hang()],"
        " parallel_tool_execute=True); agent.prompt('go'); asleep.acquire()"
    ),
    "a silent model": "agent = Agent(ScriptedLlm(silence)); agent.prompt('go')",
    "a hung hook": (
        "agent = Agent(ScriptedLlm(), transform_context=lambda m, s: sleeps()); agent.prompt('go')"
    ),
    "a hung listener": (
        "agent = Agent(ScriptedLlm('x')); agent.subscribe(lambda event: sleeps()); agent.prompt('go')"
    ),
    "a caller that waits": """
agent = Agent(ScriptedLlm(silence))
def waits():
    try:
        agent.run("go")
    except Exception as error:
        os.write(1, f"{error}\\n".encode())
threading.Thread(target=waits, daemon=True).start()
""",
    "a reader that has stopped reading": (
        "agent = Agent(ScriptedLlm(say('', chunks=['x'] * 5000))); stream = agent.stream('go')\n"
        "while stream._stream.stats.queue_size < 1000: time.sleep(0.001)\n"
        "asleep.release()"
    ),
    "a full output channel": (
        "agent = Agent(ScriptedLlm(*['x'] * 40))\n"
        "for number in range(33): agent.prompt('go')\n"
        "asleep.release()"
    ),
    "fifty agents with hung tools": (
        "agents = [Agent(ScriptedLlm(call('hangs')), tools=[hang()]) for _ in range(50)]\n"
        "for agent in agents: agent.prompt('go')\n"
        "for _ in range(49): asleep.acquire()"
    ),
    "fifty agents with hung hooks": (
        "agents = [Agent(ScriptedLlm(), transform_context=lambda m, s: sleeps()) for _ in range(50)]\n"
        "for agent in agents: agent.prompt('go')\n"
        "for _ in range(49): asleep.acquire()"
    ),
    "an agent in a reference cycle": (
        "agent = Agent(ScriptedLlm(silence)); agent.prompt('go'); cycle = [agent]; cycle.append(cycle)"
    ),
    "a sink that prints": (
        "agent = Agent(ScriptedLlm(say('', chunks=['x'] * 100), call('hangs')), tools=[hang()],"
        " event_sink=lambda text, publish=False: print('event', file=sys.stdout)); agent.run('a');"
        " agent.prompt('go')"
    ),
    "the stateless loop in the background": """
from yiemagent import AgentContext, AgentLoopConfig, agent_loop
from yiemagent.messages import TextContent, UserMessage
stream = agent_loop([UserMessage((TextContent('go'),))], AgentContext(tools=[hang()]),
                    AgentLoopConfig(model=ScriptedLlm(call('hangs'))))
""",
}


@pytest.mark.parametrize("left", list(EXITS))
def test_a_script_ends_whatever_it_leaves_behind(child: Callable[[str], Child], left: str) -> None:
    """Decision 20, D-17, D-19, T94, issue part 1: no traceback, although a tool sleeps for an hour."""
    running = child(EXITS[left] + "\nasleep.acquire()\nprint('end', flush=True)")
    lines = iter(running.line, "end")

    assert all(lines), running.end()
    assert running.end() == (0, "")


@pytest.mark.parametrize("how", ["sys.exit(3)", "raise ValueError('last words')"])
def test_an_exit_code_and_a_last_traceback_are_the_scripts_own(
    child: Callable[[str], Child], how: str
) -> None:
    """Decision 20: nothing is added, and nothing taken away."""
    running = child(
        "agent = Agent(ScriptedLlm(call('hangs')), tools=[hang()]); agent.prompt('go')\n"
        f"asleep.acquire()\n{how}"
    )
    code, errors = running.end()

    assert code == (3 if "exit" in how else 1)
    assert errors.count("Traceback") == (0 if "exit" in how else 1)


def test_a_run_that_can_end_in_order_is_given_the_moment_to_do_so(child: Callable[[str], Child]) -> None:
    """D-19: a tool that heeds its signal is told, and its run ends with its last event."""
    running = child("""
def heeds(tool_call_id, args, signal, on_update):
    print("asleep", flush=True)
    signal.wait(3600)
    print("told", signal.reason, flush=True)
    return "stopped"

agent = Agent(ScriptedLlm(call("a")), tools=[Tool(name="a", description="A.", execute=heeds)])
agent.subscribe(lambda event: print(event.status, flush=True) if event.type == "agent_end" else None)
agent.prompt("go")
while not agent.state.pending_tool_calls: time.sleep(0.001)
""")

    assert [running.line() for _ in range(3)] == ["asleep", "told interpreter exit", "aborted"]
    assert running.end() == (0, "")


def test_the_child_of_a_fork_leaves_without_waiting_for_its_parents_runs(
    child: Callable[[str], Child],
) -> None:
    """D-09: the parent's locks and threads are not the child's to touch."""
    running = child("""
agent = Agent(ScriptedLlm(silence))
agent.prompt("go")
asleep.acquire()
pid = os.fork()
if pid == 0:
    sys.exit(5)
print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
""")
    lines = [running.line() for _ in range(2)]

    assert "child 5" in lines
    assert running.end()[0] == 0


def test_using_many_agents_and_dropping_them_leaves_no_thread(child: Callable[[str], Child]) -> None:
    """D-20, issue part 4: made, used, dropped, never stopped."""
    running = child("""
import gc
tool = Tool(name="a", description="A.", execute=lambda *args: "ok")
for number in range(200):
    Agent(ScriptedLlm(call("a"), "x"), tools=[tool]).run("go")
gc.collect()
deadline = time.monotonic() + 10
while threading.active_count() > 1 and time.monotonic() < deadline:
    time.sleep(0.01)
print(threading.active_count(), flush=True)
""")

    assert running.line() == "1"
    assert running.end() == (0, "")
