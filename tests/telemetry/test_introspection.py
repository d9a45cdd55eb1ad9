"""Records of what runs do, without what was said in them."""

from __future__ import annotations

import json
import threading

import pytest

from yiemagent import Agent
from yiemagent.context.observation import observing
from yiemagent.context.size import check_size
from yiemagent.context.trust import untrusted
from yiemagent.errors import ConfigurationError, LlmError
from yiemagent.events import AgentStart, Diagnostic
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.limits import Limits
from yiemagent.loop.run import run_agent_loop
from yiemagent.messages import Usage, UserMessage
from yiemagent.telemetry.introspection import Introspection
from yiemagent.testing import WAIT
from yiemagent.testing.gates import Gate
from yiemagent.testing.scripted import ScriptedLlm, call, calls, fail, say
from yiemagent.tools.tool import Tool


def boom(*args):
    raise ValueError("SECRET in an exception")


TOOLS = (
    Tool(name="look", execute=lambda *args: "SECRET result"),
    Tool(name="boom", execute=boom),
    Tool(name="fetch", execute=lambda *args: untrusted("SECRET page", "web")),
)


def run(*script, tools=TOOLS, records=None, prompt="SECRET prompt", options=None, **config):
    """The records of one run of the stateless loop."""
    records = [] if records is None else records
    introspection = Introspection(records.append, background=False, **(options or {}))
    run_agent_loop(
        [UserMessage(prompt)],
        AgentContext("SECRET system", (), tools),
        AgentLoopConfig(model=ScriptedLlm(*script), **config),
        introspection,
    )
    return records


def types(records):
    return [record.type for record in records]


def payload(records, kind):
    (found,) = [record.payload for record in records if record.type == kind]
    return dict(found)


def without_durations(payload):
    assert payload.pop("duration") >= 0
    return payload


def test_a_run_is_told_from_start_to_end():
    """PI-1.14: start, turns, tools, end."""
    records = run(calls(call("look")), "SECRET answer")

    assert types(records) == [
        "agent_loop_started",
        "tool_task.start",
        "tool_task.end",
        "tool_result.emit",
        "agent_turn_observed",
        "agent_turn_observed",
        "agent_loop_ended",
    ]
    assert [record.provenance for record in records] == [
        "direct",
        "direct",
        "direct",
        "direct",
        "inferred",
        "inferred",
        "direct",
    ]
    assert len({record.run_id for record in records}) == 1
    assert len({record.event_id for record in records}) == len(records)


def test_no_record_holds_content():
    """T245: prompts, answers, arguments, results, exceptions and error texts stay inside."""
    records = run(
        calls(call("look", q="SECRET"), call("boom"), text="SECRET thought"),
        fail(LlmError("SECRET from the provider", kind="overloaded")),
    )

    assert "SECRET" not in json.dumps([dict(record.payload) for record in records])
    assert payload(records, "agent_loop_ended")["error_kind"] == "overloaded"


def test_a_turn_is_told_in_numbers():
    """agent_turn_observed."""
    usage = Usage(input_tokens=10, output_tokens=3, cache_read_tokens=2, cost=0.25)
    records = run(calls(call("look"), call("boom"), usage=usage), say("done", usage=usage))

    turn = without_durations(dict(next(r.payload for r in records if r.type == "agent_turn_observed")))
    assert turn == {
        "turn": 1,
        "stop_reason": "tool_calls",
        "error_kind": None,
        "provider": "scripted",
        "model": "scripted",
        "tool_calls": 2,
        "tool_errors": 1,
        "input_tokens": 10,
        "output_tokens": 3,
        "cache_read_tokens": 2,
        "cache_write_tokens": None,
        "cost": 0.25,
    }
    assert without_durations(payload(records, "agent_loop_ended")) == {
        "status": "completed",
        "limit": None,
        "error_kind": None,
        "turns": 2,
        "tool_calls": 2,
        "new_messages": 5,
        "input_tokens": 20,
        "output_tokens": 6,
        "cache_read_tokens": 4,
        "cache_write_tokens": None,
        "cost": 0.5,
    }


def test_the_end_is_told_once_with_its_status():
    """T244."""
    stopped = run(calls(call("look")), limits=Limits(max_tool_turns=1))
    failed = run(fail(LlmError("down")))

    for records, status in ((stopped, "limit"), (failed, "error")):
        assert types(records).count("agent_loop_ended") == 1
        assert payload(records, "agent_loop_ended")["status"] == status
    assert payload(stopped, "agent_loop_ended")["limit"] == "max_tool_turns"


def test_a_tool_that_raises_has_ended():
    """T243: it is not the task that failed."""
    records = run(calls(call("boom")), "done")

    ended = without_durations(payload(records, "tool_task.end"))
    assert (ended["tool_name"], ended["is_error"]) == ("boom", True)
    assert ended["error_type"] == "tool_exception"
    assert "tool_task.error" not in types(records)


def test_a_tool_that_was_left_has_not_ended():
    """T243: killed, timed out, aborted."""
    gate = Gate()
    slow = Tool(name="slow", timeout=0.01, execute=lambda *args: gate.block())
    records = run(calls(call("slow")), "done", tools=[slow])
    gate.open()

    assert payload(records, "tool_task.error")["error_type"] == "tool_timeout"
    assert "tool_task.end" not in types(records)


def test_a_result_keeps_its_trust():
    """T234."""
    records = run(calls(call("fetch")), "done")

    assert payload(records, "tool_result.emit") == {
        "tool_call_id": payload(records, "tool_task.start")["tool_call_id"],
        "tool_name": "fetch",
        "is_error": False,
        "trust": "untrusted",
        "char_count": 11,
        "image_count": 0,
    }


def test_arguments_are_told_when_asked_for_and_sanitised():
    """TL-2."""
    script = (calls(call("look", q="wine", password="hunter2")), "done")

    assert payload(run(*script), "tool_task.start")["arguments"] == "[redacted]"
    script = (calls(call("look", q="wine", password="hunter2")), "done")
    told = payload(run(*script, options={"capture_arguments": True}), "tool_task.start")
    assert told["arguments"] == {"q": "wine"}


def test_diagnostics_are_told_by_their_names():
    """TL-1: context.size, context.warning, retries, limits."""
    records = []
    introspection = Introspection(records.append, background=False)
    introspection(AgentStart())
    with observing(introspection):
        check_size([UserMessage("x" * 200_001)])
    introspection(Diagnostic("llm_retry", {"attempt": 1, "prompt": "SECRET"}))

    assert types(records) == ["agent_loop_started", "context.size", "context.warning", "llm_retry"]
    assert dict(records[2].payload) == {"level": "warning", "char_count": 200_001, "threshold": 200_000}
    assert dict(records[3].payload) == {"attempt": 1}


def test_records_name_agent_and_session():
    """Several agents may share one handler."""
    records = run("done", options={"agent": "sommelier", "session_id": "s1"})

    assert {(record.agent, record.session_id) for record in records} == {("sommelier", "s1")}


def test_an_agent_is_watched_until_told_otherwise():
    """`watch` subscribes without the deltas, so the model may be asked for a plain answer."""
    records, llm = [], ScriptedLlm("one", "two")
    with Introspection(records.append) as introspection, Agent(llm) as agent:
        stop = introspection.watch(agent)
        agent.run("q", timeout=WAIT)
        stop()
        agent.run("q", timeout=WAIT)

    assert types(records) == ["agent_loop_started", "agent_turn_observed", "agent_loop_ended"]
    assert llm.options[0].want_deltas is False


def test_agents_that_run_side_by_side_are_told_apart():
    """One listener, many runs."""
    records, both = [], threading.Barrier(2)
    meet = Tool(name="meet", execute=lambda *args: both.wait(WAIT))
    with Introspection(records.append) as introspection:
        agents = [Agent(ScriptedLlm(calls(call("meet")), "done"), tools=[meet]) for _ in range(2)]
        for agent in agents:
            introspection.watch(agent)
        futures = [agent.submit("q") for agent in agents]
        for future in futures:
            future.result(WAIT)
        for agent in agents:
            agent.stop()

    by_run = {}
    for record in records:
        by_run.setdefault(record.run_id, []).append(record.type)
    assert len(by_run) == 2
    first, second = by_run.values()
    assert first == second
    assert first[0] == "agent_loop_started"
    assert first[-1] == "agent_loop_ended"


def test_a_run_inside_a_run_is_told_apart():
    """A tool that runs the stateless loop, on a thread of its own."""
    records = []
    introspection = Introspection(records.append, background=False)

    def inner(*args):
        config = AgentLoopConfig(model=ScriptedLlm("inner"))
        run_agent_loop([UserMessage("q")], AgentContext(), config, introspection)
        return "ok"

    tools = [Tool(name="inner", execute=inner)]
    config = AgentLoopConfig(model=ScriptedLlm(calls(call("inner")), "outer"))
    run_agent_loop([UserMessage("q")], AgentContext("", (), tools), config, introspection)

    assert len({record.run_id for record in records}) == 2
    assert types(records)[0] == "agent_loop_started"
    assert records[0].run_id == records[-1].run_id


def test_a_handler_that_blocks_does_not_hold_up_the_run():
    """Issue 6: a telemetry handler that raises or blocks."""
    gate = Gate()
    introspection = Introspection(lambda record: gate.block())
    with Agent(ScriptedLlm("answer")) as agent:
        introspection.watch(agent)

        assert agent.run("q", timeout=WAIT).text == "answer"

    gate.open()
    assert introspection.close(WAIT)


def test_a_handler_that_raises_does_not_harm_the_run(caplog):
    """Issue 6, called on the loop's thread."""

    def broken(record):
        raise RuntimeError("broken")

    introspection = Introspection(broken, background=False)
    with Agent(ScriptedLlm("answer")) as agent:
        introspection.watch(agent)

        assert agent.run("q", timeout=WAIT).text == "answer"
    assert caplog.text.count("its later failures are not logged") == 1


def test_events_of_a_run_whose_beginning_was_missed_are_passed_over():
    """Subscribed in the middle of a run."""
    records = []
    Introspection(records.append, background=False)(Diagnostic("llm_retry"))

    assert records == []


def test_the_application_may_add_records():
    """TL-2: of no run."""
    records = []
    introspection = Introspection(records.append, background=False, agent="a")
    introspection.emit("order.placed", {"bottles": 6, "token": "SECRET"}, provenance="inferred")

    (record,) = records
    assert (record.type, record.run_id, record.provenance) == ("order.placed", None, "inferred")
    assert dict(record.payload) == {"bottles": 6}


@pytest.mark.parametrize(("kind", "payload"), [("", {}), (" ", {}), (None, {}), ("x", None), ("x", [1])])
def test_records_that_make_no_sense_are_refused(kind, payload):
    """TL-2: invalid_introspection_event, invalid_payload."""
    with pytest.raises(ConfigurationError, match="of a record must be"):
        Introspection(print).emit(kind, payload)
