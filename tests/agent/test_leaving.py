"""Leaving the interpreter: scripts end at once and in order, whatever they leave behind."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.servers

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
def test_a_script_ends_whatever_it_leaves_behind(child: Any, left: str) -> None:
    """Decision 20, D-17, D-19, T94, issue part 1: no traceback, although a tool sleeps for an hour."""
    running = child(EXITS[left] + "\nasleep.acquire()\nprint('end', flush=True)")
    lines = iter(running.line, "end")

    assert all(lines), running.end()
    assert running.end() == (0, "")


HELD = {
    "a stream": """
left().it = Agent(ScriptedLlm("x"), transform_context=sleeps).stream('go')
lock = left().it._stream._lock
""",
    "a stream that is read": """
stream = Agent(ScriptedLlm("x"), transform_context=sleeps).stream('go')
left().it = iter(stream)
print(next(left().it).type, flush=True)
lock = stream._stream._lock
del stream
""",
    "a background loop": EXITS["the stateless loop in the background"]
    + """
left().it, lock = stream, stream._signals[0]._lock
del stream
""",
    "a kept thread": """
from yiemagent.kept_thread import KeptThread
left().it = KeptThread("mine")
left().it.start(sleeps)
lock = left().it._line._lock
""",
}
"""What is left behind, in a module of its own: the frames of stopped threads keep __main__ as it is."""


@pytest.mark.parametrize("what", list(HELD))
def test_a_script_ends_although_a_thread_was_stopped_with_the_lock_of_what_it_leaves(
    child: Any, what: str
) -> None:
    """D-17: daemon threads are stopped wherever they are, and then the finalizers come."""
    running = child(f"""
import atexit, types
exiting = threading.Semaphore(0)

def keep():
    exiting.acquire()
    lock.acquire()
    asleep.release()
    time.sleep(3600)

@atexit.register  # Behind the hooks of whatever comes after it, and just before the threads are stopped.
def last():
    exiting.release()
    asleep.acquire()

threading.Thread(target=keep, daemon=True).start()

def left():
    return sys.modules.setdefault("left", types.ModuleType("left"))

{HELD[what]}
asleep.acquire()
print("end", flush=True)
""")
    lines = iter(running.line, "end")

    assert all(lines), running.end()
    assert running.end() == (0, "")


@pytest.mark.parametrize("how", ["sys.exit(3)", "raise ValueError('last words')"])
def test_an_exit_code_and_a_last_traceback_are_the_scripts_own(child: Any, how: str) -> None:
    """Decision 20: nothing is added, and nothing taken away."""
    running = child(
        "agent = Agent(ScriptedLlm(call('hangs')), tools=[hang()]); agent.prompt('go')\n"
        f"asleep.acquire()\n{how}"
    )
    code, errors = running.end()

    assert code == (3 if "exit" in how else 1)
    assert errors.count("Traceback") == (0 if "exit" in how else 1)


def test_a_run_that_can_end_in_order_is_given_the_moment_to_do_so(child: Any) -> None:
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
    child: Any,
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


def test_using_many_agents_and_dropping_them_leaves_no_thread(child: Any) -> None:
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
