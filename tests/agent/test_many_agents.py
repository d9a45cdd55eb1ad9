"""Agents that are made, used and dropped by the thousand leave nothing behind."""

from __future__ import annotations

import gc
import os
import threading

from yiemagent import Agent, OpenAIChat
from yiemagent.testing import WAIT, ScriptedLlm, call, calls
from yiemagent.testing.loopback import LoopbackServer, ServedRequest

ANSWER = {"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("yiemagent")]


def join_all() -> None:
    gc.collect()
    for thread in ours():
        thread.join(WAIT)


def open_sockets() -> int:
    folder = "/proc/self/fd"
    links = [os.path.join(folder, name) for name in os.listdir(folder)]
    return sum("socket:" in os.readlink(link) for link in links if os.path.islink(link))


def test_a_thousand_agents_dropped_without_stop_leave_no_thread() -> None:
    """D-20: each one ran a tool, so each one had an agent thread, a tool thread and a model thread."""
    for _ in range(1000):
        agent = Agent(ScriptedLlm(calls(call("add", a=1, b=2)), "three"), tools=[add])
        assert agent.run("1 + 2?").text == "three"
        del agent

    join_all()

    assert ours() == []


def test_agents_dropped_without_stop_leave_no_socket() -> None:
    """D-10, D-20: connections are kept by the process, not by each agent."""
    server = LoopbackServer(lambda request: reply(request))
    before = open_sockets()
    for _ in range(200):
        Agent(OpenAIChat("m", base_url=f"{server.url}/v1", api_key="k")).run("x")
    join_all()

    assert open_sockets() - before <= 4
    server.close()


def reply(request: ServedRequest) -> None:
    request.reply(ANSWER)


def test_agents_that_were_never_used_have_no_thread() -> None:
    """Nothing is started at construction."""
    agents = [Agent(ScriptedLlm(), tools=[add]) for _ in range(100)]

    assert ours() == []
    assert len(agents) == 100
