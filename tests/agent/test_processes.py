"""Real processes: Ctrl-C in every call that blocks."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

pytestmark = pytest.mark.servers

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
    child: Any, verb: str, where: str
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


def test_a_signal_handler_that_exits_gets_through(child: Any) -> None:
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


def test_a_soft_time_limit_gets_through(child: Any) -> None:
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
def test_ctrl_c_at_random_moments_leaves_an_agent_that_works(child: Any) -> None:
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
