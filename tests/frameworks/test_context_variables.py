"""The caller's context travels with its message: Flask, OpenTelemetry, and a hook on the tool's thread."""

from __future__ import annotations

import contextvars
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask, current_app
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from yiemagent import Agent, ToolContext
from yiemagent.testing import ScriptedLlm, call, calls

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


def test_each_message_runs_in_the_context_it_was_sent_from() -> None:
    """D-14: hooks and tools see the sender's variables, not those of the sender before."""
    seen: list[tuple[str, str]] = []

    def who() -> str:
        """Say who."""
        seen.append(("tool", TENANT.get()))
        return TENANT.get()

    def before(ctx: Any, signal: Any, event_sink: Any) -> None:
        seen.append(("hook", TENANT.get()))

    script = ScriptedLlm(*[calls(call("who")), "done"] * 2)
    with Agent(script, tools=[who], before_tool_call=before) as agent:
        for tenant in ("anna", "ben"):
            contextvars.copy_context().run(lambda tenant=tenant: (TENANT.set(tenant), agent.run("x")))

    assert seen == [("hook", "anna"), ("tool", "anna"), ("hook", "ben"), ("tool", "ben")]


def test_parallel_tools_each_have_a_context_of_their_own() -> None:
    """D-14: one context cannot be entered by two threads; what one tool sets the other does not see."""
    barrier = threading.Barrier(3)

    def mark(name: str) -> str:
        """Set the tenant, meet the others, read it."""
        TENANT.set(name)
        barrier.wait(5)
        return TENANT.get()

    script = ScriptedLlm(calls(*[call("mark", name=name) for name in "abc"]), "done")
    with Agent(script, tools=[mark], parallel_tool_execute=True) as agent:
        results = agent.run("x").new_messages[2:5]

    assert [result.text for result in results] == ["a", "b", "c"]  # type: ignore[union-attr]
    assert TENANT.get() == "nobody"


def test_flasks_current_app_reaches_a_tool() -> None:
    """D-33."""
    app = Flask("cellar")

    def name() -> str:
        """Name the application."""
        return current_app.name

    with Agent(ScriptedLlm(calls(call("name")), "done"), tools=[name]) as agent, app.app_context():
        assert agent.run("x").new_messages[2].text == "cellar"  # type: ignore[union-attr]


def test_the_callers_span_is_the_parent_of_what_a_tool_does() -> None:
    """D-14: a span opened in a tool belongs to the caller's trace."""
    tracer = TracerProvider().get_tracer("test")
    spans: list[Any] = []

    def work() -> str:
        """Open a span."""
        with tracer.start_as_current_span("in the tool") as span:
            spans.append(span)
        return "ok"

    with Agent(ScriptedLlm(calls(call("work")), "done"), tools=[work]) as agent:
        with tracer.start_as_current_span("request") as request:
            agent.run("x")

    assert spans[0].parent.span_id == request.get_span_context().span_id
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_hook_surrounds_each_tool_call_on_the_tools_own_thread() -> None:
    """Part 4: where Django users close old connections, errors of the tool included."""
    threads: list[tuple[str, str]] = []

    @contextmanager
    def around(context: ToolContext) -> Iterator[None]:
        threads.append((f"open {context.tool_name}", threading.current_thread().name))
        try:
            yield
        finally:
            threads.append((f"close {context.tool_name}", threading.current_thread().name))

    def good() -> str:
        """Work."""
        threads.append(("good", threading.current_thread().name))
        return "ok"

    def bad() -> str:
        """Fail."""
        raise ValueError("no")

    script = ScriptedLlm(calls(call("good"), call("bad")), "done")
    with Agent(script, tools=[good, bad], around_tool_call=around) as agent:
        agent.run("x")

    assert [what for what, _ in threads] == ["open good", "good", "close good", "open bad", "close bad"]
    assert {thread for _, thread in threads} == {"yiemagent-tool"}


def test_a_connection_bound_to_its_thread_serves_several_calls() -> None:
    """D-15, decision 19: calls in turn run on one thread that is kept."""
    connections: list[sqlite3.Connection] = []

    def query(sql: str) -> str:
        """Run SQL on a connection that was made by the first call."""
        if not connections:
            connections.append(sqlite3.connect(":memory:"))
        return str(connections[0].execute(sql).fetchall())

    def finish() -> str:
        """Close the connection where it was made."""
        connections[0].close()
        return "closed"

    script = ScriptedLlm(
        calls(call("query", sql="create table t (n)")),
        calls(call("query", sql="insert into t values (1) returning n")),
        "one",
        calls(call("query", sql="select n from t"), call("finish")),
        "two",
    )
    with Agent(script, tools=[query, finish]) as agent:
        agent.run("x")
        results = agent.run("y").new_messages[2:4]

    assert [result.text for result in results] == ["[(1,)]", "closed"]  # type: ignore[union-attr]
