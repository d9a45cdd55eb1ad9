"""Ctrl-C in a loop that runs on the caller's own thread: the run ends in order, then it goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.messages import ToolCall
from yiemagent.testing import ScriptedLlm, calls

Run = Callable[..., Any]

CHILD = """
import json, sys, threading
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.run import run_agent_loop
from yiemagent.messages import TextContent, ToolCall, UserMessage
from yiemagent.testing import ScriptedLlm, calls, say
from yiemagent.tools.tool import Tool

def main_waits():
    frame = sys._current_frames()[threading.main_thread().ident]
    return frame.f_code.co_name == "take"

def here(*args, **kwargs):
    while threading.current_thread() is not threading.main_thread() and not main_waits():
        pass
    print("ready", flush=True)
    threading.Event().wait(60)

class Silent(ScriptedLlm):
    abortable = ABORTABLE
    def stream(self, context, options):
        here()
        yield

where = WHERE
tool = Tool(name="a", description="A.", execute=here if where == "tool" else (lambda *a: "ok"))
two = calls(ToolCall("t1", "a", {}), ToolCall("t2", "a", {}))
model = Silent() if where == "model" else ScriptedLlm(two, "done")
hooks = {where: here} if where not in ("model", "tool", "listener") else {}
config = AgentLoopConfig(model=model, abort_grace=0.0, **hooks)
events = []

def emit(event):
    events.append(event)
    if where == "listener" and event.type == "turn_end":
        here()

try:
    run_agent_loop([UserMessage((TextContent("go"),))], AgentContext(tools=[tool]), config, emit)
    raised = "nothing"
except KeyboardInterrupt:
    raised = "KeyboardInterrupt"
end = events[-1]
print(json.dumps({
    "raised": raised, "last": end.type, "status": end.status,
    "roles": [message.role for message in end.messages],
    "starts": [e.type for e in events if e.type.endswith("_start")],
    "ends": [e.type.replace("_end", "_start") for e in events if e.type.endswith("_end")],
}), flush=True)
"""


@pytest.mark.servers
@pytest.mark.parametrize("abortable", [False, True])
@pytest.mark.parametrize(
    ("where", "roles"),
    [
        ("model", ["user", "assistant"]),
        ("transform_context", ["user", "assistant"]),
        ("before_tool_call", ["user", "assistant", "tool_result", "tool_result"]),
        ("tool", ["user", "assistant", "tool_result", "tool_result"]),
        ("after_tool_call", ["user", "assistant", "tool_result", "tool_result"]),
        ("listener", ["user", "assistant", "tool_result", "tool_result"]),
        ("prepare_next_turn", ["user", "assistant", "tool_result", "tool_result", "assistant"]),
    ],
)
def test_ctrl_c_ends_the_run_in_order_and_then_reaches_the_caller(
    where: str, roles: list[str], abortable: bool
) -> None:
    """D-08, F-22, A10: while the provider, tool or hook still hangs; every call has its result."""
    if abortable and where != "model":
        pytest.skip("only the model is iterated differently")
    code = CHILD.replace("WHERE", repr(where)).replace("ABORTABLE", repr(abortable))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        told = json.loads(child.stdout.readline())
        assert child.wait(10) == 0
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()

    assert (told["raised"], told["last"], told["status"]) == ("KeyboardInterrupt", "agent_end", "aborted")
    assert told["roles"] == roles
    assert sorted(told["starts"]) == sorted(told["ends"])


@pytest.mark.parametrize("hook", ["before_tool_call", "after_tool_call"])
def test_ctrl_c_in_a_hook_of_a_call_is_no_error_result(run: Run, tool: Any, hook: str) -> None:
    """Decision 12 and 13 are for errors; Ctrl-C is the user's."""
    events: list[Any] = []

    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(
            "go", llm=ScriptedLlm(calls(ToolCall("t1", "a", {}))), tools=[tool("a")], emit=events.append,
            **{hook: interrupted},
        )  # fmt: skip

    assert events[-1].status == "aborted"
    result = events[-1].messages[-1]
    assert result.text == ("Operation aborted" if hook == "before_tool_call" else "a done")


def test_ctrl_c_between_two_lines_of_the_loop_leaves_no_call_unanswered(run: Run, tool: Any) -> None:
    """C-02: wherever it comes, the history that was told of can be sent again."""
    events: list[Any] = []

    def interrupted(ctx: Any) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(
            "go", llm=ScriptedLlm(calls(ToolCall("t1", "a", {}))), tools=[tool("a")], emit=events.append,
            should_stop_after_turn=interrupted,
        )  # fmt: skip

    again = run("again", llm=ScriptedLlm("fine"), history=events[-1].messages)
    assert again.end.status == "completed"
    assert json.dumps([message.role for message in events[-1].messages])


def test_ctrl_c_while_a_model_is_iterated_on_the_callers_thread_is_an_abort(run: Run) -> None:
    """D-08: it comes out of the adapter, and is not taken for its failure."""
    events: list[Any] = []

    class Abortable(ScriptedLlm):
        abortable = True

        def stream(self, context: Any, options: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("go", llm=Abortable(), emit=events.append)

    assert [message.stop_reason for message in events[-1].messages[1:]] == ["aborted"]
    assert events[-1].status == "aborted"


def test_ctrl_c_in_a_listener_is_heard_and_the_run_ends_in_order(run: Run) -> None:
    """D-08, D-22: a listener's exception is contained, the user's is not."""
    events: list[Any] = []

    def emit(event: Any) -> None:
        events.append(event)
        if event.type == "message_end":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("go", llm=ScriptedLlm(), emit=emit)

    assert (events[-1].type, events[-1].status) == ("agent_end", "aborted")
