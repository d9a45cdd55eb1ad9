"""The channel style: prompt, follow_up and take_response, one response each, in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent import Agent
from yiemagent.agent.queues import FOLLOW_UP_SIZE, INPUT_SIZE, OUTPUT_SIZE, Channels
from yiemagent.agent.results import Response
from yiemagent.agent.tickets import Ticket
from yiemagent.errors import (
    AgentBusy,
    AgentStopped,
    ChannelFull,
    LlmError,
    RunAborted,
    WaitTimeout,
)
from yiemagent.messages import ReasoningContent, TextContent, UserMessage
from yiemagent.testing import WAIT, Gate, Outcome, ScriptedLlm, call, fail, run_in_thread, say


def texts(*responses: dict[str, Any]) -> list[str]:
    return [response["content"][0]["text"] for response in responses]


def taken(agent: Agent, number: int) -> list[str]:
    return texts(*(agent.take_response(WAIT) for _ in range(number)))


# -- one prompt, one response ------------------------------------------------------------


def test_a_prompt_returns_the_agent_at_once_and_is_busy_by_then() -> None:
    """T1, AG-5, AG-8, WT-002: for chaining."""
    gate = Gate()
    with Agent(ScriptedLlm(say("hello", before=gate))) as agent:
        assert agent.prompt("hi") is agent
        assert agent.is_busy
        assert agent.state.is_streaming
        gate.open()
        assert taken(agent, 1) == ["hello"]


def test_a_response_is_an_openai_dict_without_reasoning() -> None:
    """Decision 5, WT-003, FR-006."""
    with Agent(ScriptedLlm(say("hello", reasoning="thinking"))) as agent:
        response = agent.prompt("hi").take_response(WAIT)

    assert response == {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}


def test_nothing_is_started_or_asked_at_construction() -> None:
    """C33, D-09, D-11, WT-001: not even a thread."""
    before = threading.active_count()
    llm = ScriptedLlm()
    agent = Agent(llm)

    assert threading.active_count() == before
    assert llm.requests == []
    assert agent.is_busy is False


@pytest.mark.parametrize(
    ("prompt", "stored"),
    [
        ("x", ["x"]),
        (UserMessage((TextContent("x"),)), ["x"]),
        ({"role": "user", "content": "x"}, ["x"]),
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, ["x"]),
        (["one", {"role": "user", "content": "two"}, UserMessage((TextContent("three"),))],
         ["one", "two", "three"]),
    ],
)  # fmt: skip
def test_every_form_of_a_prompt_is_stored_in_order(prompt: Any, stored: list[str]) -> None:
    """T5, T6, AG-5, architecture section 1."""
    with Agent(ScriptedLlm("hello")) as agent:
        agent.prompt(prompt).take_response(WAIT)

        assert [message.text for message in agent.messages[:-1]] == stored


def test_a_prompt_with_an_image_reaches_the_model() -> None:
    """Runbook 1.2."""
    llm = ScriptedLlm("a label")
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]
    with Agent(llm) as agent:
        agent.prompt({"role": "user", "content": parts}).take_response(WAIT)

    assert [block.type for block in llm.requests[0].messages[0].content] == ["text", "image"]


def test_a_prompt_while_busy_is_answered_after_the_one_before() -> None:
    """Decision 2, C9, T4: three prompts, three runs, in order."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate), "2", "3")) as agent:
        agent.prompt("a").prompt("b").prompt("c")
        gate.open()

        assert taken(agent, 3) == ["1", "2", "3"]
        assert [message.text for message in agent.messages] == ["a", "1", "b", "2", "c", "3"]


def test_with_when_busy_raise_a_second_prompt_is_refused() -> None:
    """Decision 2, AG-6, PI-80, T2, T3, X8: from any thread; the first run still finishes."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate), "2"), when_busy="raise") as agent:
        agent.prompt("a")
        for verb in (agent.prompt, agent.run, agent.submit, agent.stream):
            with pytest.raises(AgentBusy, match=r"steer\(\) or follow_up\(\)"):
                verb("b")
        refused = [run_in_thread(agent.prompt, "b") for _ in range(3)]
        for outcome in refused:
            with pytest.raises(AgentBusy):
                outcome.get()
        gate.open()

        assert taken(agent, 1) == ["1"]
        agent.wait_for_idle()
        assert agent.run("b").text == "2"
        assert [message.text for message in agent.messages] == ["a", "1", "b", "2"]


# -- waiting for a response --------------------------------------------------------------


def test_take_response_waits_for_its_timeout_when_nothing_is_pending() -> None:
    """D-05, decision 26: 0 does not wait."""
    agent = Agent(ScriptedLlm())

    with pytest.raises(WaitTimeout, match=r"within 0 s \(the agent is idle, nothing is pending\)"):
        agent.take_response(timeout=0)


def test_a_timeout_of_take_response_leaves_the_run_alone() -> None:
    """F-23: and says so; the answer is not lost and not shifted."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        agent.prompt("a")
        with pytest.raises(WaitTimeout, match="the run continues"):
            agent.take_response(timeout=0)
        gate.open()

        assert taken(agent, 1) == ["1"]


def test_a_taker_that_waits_is_woken_by_the_response(wait_spy: Callable[[Any, str], Any]) -> None:
    """T14: no lost wake-up."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate))) as agent:
        agent.prompt("a")
        gate.wait_entered()
        spy = wait_spy(agent._channels, "changed")
        taker = run_in_thread(agent.take_response, WAIT)
        spy.wait_for_waiter()
        gate.open()

        assert texts(taker.get()) == ["1"]
        assert spy.notified[0] is True


def test_the_runs_error_is_raised_where_its_response_is_taken() -> None:
    """Decision 5, C27, T18, WT-030: once, and the agent goes on."""
    error = LlmError("api_rate_limited", kind="rate_limit", status=429)
    with Agent(ScriptedLlm(fail(error), "fine")) as agent:
        agent.prompt("a").prompt("b")

        with pytest.raises(LlmError, match="api_rate_limited") as raised:
            agent.take_response(WAIT)
        assert raised.value is error
        assert taken(agent, 1) == ["fine"]


def test_an_aborted_prompt_has_its_response_too() -> None:
    """Decision 4, F-17."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate), "2")) as agent:
        agent.prompt("a").prompt("b")
        gate.wait_entered()
        agent.abort("enough")

        with pytest.raises(RunAborted, match="Operation aborted") as raised:
            agent.take_response(WAIT)
        assert raised.value.reason == "enough"
        gate.open()
        assert taken(agent, 1) == ["2"]


def test_a_reasoning_only_history_is_no_problem() -> None:
    """A-39: what is stored and what is given are two things."""
    with Agent(ScriptedLlm(say("hello", reasoning="hm"))) as agent:
        agent.prompt("a").take_response(WAIT)

        assert agent.messages[-1].content[0] == ReasoningContent("hm")


# -- follow-ups --------------------------------------------------------------------------


def test_a_follow_up_joins_the_run_and_has_its_own_response(tool: Any) -> None:
    """Decision 3, decision 4, AG-27, F-17, T67, WT-004, PI-53: one start, one end."""
    gate = Gate()
    events: list[str] = []
    llm = ScriptedLlm(call("hangs"), "1", "2", "3")
    with Agent(llm, tools=[tool("hangs", lambda *args: gate.block())]) as agent:
        agent.subscribe(lambda event: events.append(event.type))
        agent.prompt("a")
        gate.wait_entered()
        assert agent.follow_up("b") is True
        assert agent.follow_up("c") is True
        gate.open()

        assert taken(agent, 3) == ["1", "2", "3"]
        agent.wait_for_idle()
    assert events.count("agent_start") == events.count("agent_end") == 1
    assert [message.text for message in agent.messages if message.role == "user"] == ["a", "b", "c"]


def test_a_follow_up_while_idle_starts_a_run() -> None:
    """Decision 3, F-14."""
    with Agent(ScriptedLlm("1")) as agent:
        assert agent.follow_up("a") is False
        assert taken(agent, 1) == ["1"]


def test_follow_ups_are_answered_one_after_the_other_by_default() -> None:
    """PI-55, AG-30, T43."""
    gate = Gate()
    llm = ScriptedLlm(say("1", before=gate), "2", "3")
    with Agent(llm) as agent:
        agent.prompt("a")
        gate.wait_entered()
        agent.follow_up("b")
        agent.follow_up("c")
        gate.open()

        assert taken(agent, 3) == ["1", "2", "3"]


def test_follow_ups_taken_all_at_once_share_an_answer_and_have_a_response_each() -> None:
    """PI-55, AG-30, decision 4."""
    gate = Gate()
    llm = ScriptedLlm(say("1", before=gate), "2")
    with Agent(llm, follow_up_mode="all") as agent:
        agent.prompt("a")
        gate.wait_entered()
        agent.follow_up("b")
        agent.follow_up("c")
        gate.open()

        assert taken(agent, 3) == ["1", "2", "2"]
        assert [message.text for message in llm.requests[1].messages] == ["a", "1", "b", "c"]


def test_follow_ups_of_a_failed_run_start_a_run_of_their_own() -> None:
    """Decision 4: nobody asked for silence, and every accepted message has its response."""
    gate = Gate()
    with Agent(ScriptedLlm(fail(LlmError("no"), before=gate), "2")) as agent:
        agent.prompt("a")
        gate.wait_entered()
        agent.follow_up("b")
        gate.open()

        with pytest.raises(LlmError):
            agent.take_response(WAIT)
        assert taken(agent, 1) == ["2"]


def test_follow_ups_of_a_limited_run_start_a_run_of_their_own(tool: Any) -> None:
    """F-16: with their own budget."""
    gate = Gate()
    llm = ScriptedLlm(call("hangs"), "2")
    with Agent(llm, tools=[tool("hangs", lambda *args: gate.block())], max_tool_turns=1) as agent:
        agent.prompt("a")
        gate.wait_entered()
        agent.follow_up("b")
        gate.open()

        first, second = taken(agent, 2)
        assert first.startswith("I stopped because the maximum tool-call turn budget")
        assert second == "2"


def test_follow_ups_left_over_by_an_abort_wait_for_the_next_message() -> None:
    """Decision 10, T27: whoever aborted does not want the agent to start again by itself."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate), "2", "3")) as agent:
        agent.prompt("a")
        gate.wait_entered()
        agent.follow_up("b")
        agent.abort()

        with pytest.raises(RunAborted):
            agent.take_response(WAIT)
        assert agent.wait_for_idle(WAIT)
        assert agent.has_queued_messages
        agent.prompt("c")
        assert taken(agent, 2) == ["2", "3"]
        gate.open()
    assert [message.text for message in agent.messages if message.role == "user"] == ["a", "c", "b"]


def test_a_follow_up_accepted_after_the_abort_is_answered(tool: Any) -> None:
    """T68, F-14: while the aborted run is still on its way out."""
    gate = Gate()
    ending = Gate()
    agent = Agent(ScriptedLlm(say("1", before=gate), "2"))
    agent.subscribe(lambda event: ending.block() if event.type == "agent_end" else None)
    with agent:
        agent.prompt("a")
        gate.wait_entered()
        agent.abort()
        ending.wait_entered()
        assert agent.follow_up("b") is False
        ending.open()

        with pytest.raises(RunAborted):
            agent.take_response(WAIT)
        assert taken(agent, 1) == ["2"]
        gate.open()


# -- full channels -----------------------------------------------------------------------


def test_a_full_input_channel_makes_a_prompt_wait_for_room(wait_spy: Callable[[Any, str], Any]) -> None:
    """Decision 6, D-21: 16 wait, the next one too, until the agent takes one."""
    gate = Gate()
    llm = ScriptedLlm(say("0", before=gate), *(str(n) for n in range(1, INPUT_SIZE + 2)))
    with Agent(llm) as agent:
        agent.prompt("first")
        gate.wait_entered()
        for number in range(INPUT_SIZE):
            agent.prompt(str(number), timeout=0)
        with pytest.raises(ChannelFull, match=r"input channel \(16\) had no room within 0 s"):
            agent.prompt("one too many", timeout=0)
        spy = wait_spy(agent._channels, "changed")
        waiting = run_in_thread(agent.prompt, "last")
        spy.wait_for_waiter()
        gate.open()

        waiting.get()
        assert all(spy.notified)
        assert taken(agent, INPUT_SIZE + 2)[-1] == str(INPUT_SIZE + 1)


def test_a_full_output_channel_holds_the_loop_up_until_a_response_is_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Decision 6, D-21: it warns once; nothing is lost."""
    number = OUTPUT_SIZE + 3
    with caplog.at_level(logging.WARNING, "yiemagent"), Agent(ScriptedLlm(*map(str, range(number)))) as agent:
        for each in range(number):
            agent.prompt(str(each))
        while not caplog.records:
            threading.Event().wait(0.001)
        assert taken(agent, number) == [str(each) for each in range(number)]
        agent.wait_for_idle()

    assert len([record for record in caplog.records if "output channel is full" in record.message]) == 1


def test_prompting_into_both_full_channels_raises_at_once() -> None:
    """Decision 6: waiting could never help that thread."""
    with Agent(ScriptedLlm(*map(str, range(OUTPUT_SIZE + INPUT_SIZE + 1)))) as agent:
        for each in range(OUTPUT_SIZE + INPUT_SIZE + 1):
            agent.prompt(str(each))
        while len(agent._channels.input) < INPUT_SIZE:
            threading.Event().wait(0.001)

        with pytest.raises(ChannelFull, match=r"call take_response\(\) before prompting again"):
            agent.prompt("one too many")
        assert len(taken(agent, OUTPUT_SIZE + INPUT_SIZE + 1)) == OUTPUT_SIZE + INPUT_SIZE + 1


def full_input() -> Channels:
    """Channels whose input has no room."""
    channels = Channels()
    for _ in range(INPUT_SIZE):
        channels.accept_prompt(Ticket(()), deadline=None, timeout=None)
    return channels


def waiting_for_room(channels: Channels, spy: Any) -> Outcome[bool]:
    """A prompt that waits in *channels* by now, as *spy* on their condition tells."""
    waiting = run_in_thread(channels.accept_prompt, Ticket(()), deadline=None, timeout=None)
    spy.wait_for_waiter()
    return waiting


def test_a_prompt_that_waits_for_room_is_woken_when_a_run_takes_one(
    wait_spy: Callable[[Any, str], Any],
) -> None:
    """Decision 6."""
    channels = full_input()
    spy = wait_spy(channels, "changed")
    waiting = waiting_for_room(channels, spy)
    channels.next_run(0)

    waiting.get()
    assert spy.notified == [True]


def test_a_prompt_between_two_runs_waits_although_both_channels_are_full(
    wait_spy: Callable[[Any, str], Any],
) -> None:
    """Decision 6: waiting helps, for the loop takes the next one however full the output is."""
    channels = full_input()
    channels.output.extend([Response("completed")] * OUTPUT_SIZE)
    waiting = waiting_for_room(channels, wait_spy(channels, "changed"))
    channels.next_run(0)

    waiting.get()
    with pytest.raises(ChannelFull, match="call take_response"):
        channels.accept_prompt(Ticket(()), deadline=None, timeout=None)


def test_a_prompt_that_waits_for_room_is_woken_when_one_before_it_is_withdrawn(
    wait_spy: Callable[[Any, str], Any],
) -> None:
    """Decision 6: the run in progress goes on for as long as it likes."""
    gate = Gate()
    llm = ScriptedLlm(say("0", before=gate), *["x"] * INPUT_SIZE)
    with Agent(llm) as agent:
        agent.prompt("first")
        gate.wait_entered()
        futures = [agent.submit(str(number)) for number in range(INPUT_SIZE)]
        spy = wait_spy(agent._channels, "changed")
        waiting = run_in_thread(agent.prompt, "last")
        spy.wait_for_waiter()
        assert futures[3].cancel()

        waiting.get()
        assert all(spy.notified)
        gate.open()
        taken(agent, 2)


@pytest.mark.parametrize("wake", ["take_response", "abort", "stop"])
def test_a_loop_that_waits_for_room_is_woken(wake: str, wait_spy: Callable[[Any, str], Any]) -> None:
    """Decision 6, D-21: by a taker, an abort or a stop, and not by its time slice."""
    gate = Gate()
    llm = ScriptedLlm(*map(str, range(OUTPUT_SIZE)), say("last", before=gate))
    agent = Agent(llm)
    for each in range(OUTPUT_SIZE + 1):
        agent.prompt(str(each))
    gate.wait_entered()
    spy = wait_spy(agent._channels, "changed")
    gate.open()
    spy.wait_for_waiter()
    getattr(agent, wake)()

    assert agent.wait_for_idle(WAIT)
    assert all(spy.notified)
    assert len(taken(agent, OUTPUT_SIZE)) == OUTPUT_SIZE
    agent.stop()


def test_a_stop_alone_ends_the_wait_for_room(wait_spy: Callable[[Any, str], Any]) -> None:
    """D-21: without the abort that comes behind it."""
    channels = Channels()
    channels.accept_prompt(Ticket(()), deadline=None, timeout=None)
    run = channels.next_run(0)
    assert run is not None
    channels.output.extend([Response("completed")] * OUTPUT_SIZE)
    spy = wait_spy(channels, "changed")
    ending = run_in_thread(channels.end_run, run, Response("completed"))
    spy.wait_for_waiter()
    channels.stop()

    ending.get()
    assert len(channels.output) == OUTPUT_SIZE + 1
    assert spy.notified == [True]


@pytest.mark.parametrize("end", ["abort", "stop"])
def test_a_loop_held_up_by_a_full_output_channel_can_be_ended(end: str) -> None:
    """Decision 6, D-21: the response goes over the bound, and is not lost."""
    agent = Agent(ScriptedLlm(*map(str, range(OUTPUT_SIZE + 1))))
    for each in range(OUTPUT_SIZE + 1):
        agent.prompt(str(each))
    while len(agent._channels.output) < OUTPUT_SIZE or not agent._channels._warned_full:
        threading.Event().wait(0.001)
    getattr(agent, end)()

    assert agent.wait_for_idle(WAIT)
    assert taken(agent, OUTPUT_SIZE) == [str(each) for each in range(OUTPUT_SIZE)]
    assert taken(agent, 1) == [str(OUTPUT_SIZE)]  # It was complete when the loop was held up.
    assert agent.stop()


def test_a_full_follow_up_channel_refuses_at_once() -> None:
    """Decision 3: 32; T41, T58."""
    gate = Gate()
    with Agent(ScriptedLlm(say("1", before=gate), *["x"] * FOLLOW_UP_SIZE)) as agent:
        agent.prompt("a")
        gate.wait_entered()
        for number in range(FOLLOW_UP_SIZE):
            agent.follow_up(str(number))
        with pytest.raises(ChannelFull, match=r"follow-up channel \(32\) is full"):
            agent.follow_up("one too many")
        agent.abort()
        gate.open()


def test_a_prompt_from_inside_the_run_does_not_wait_for_room(tool: Any) -> None:
    """D-03, D-21: the channel is emptied only after this very run."""
    gate = Gate()
    refused: list[BaseException] = []

    def prompts(*args: Any) -> str:
        gate.block()
        try:
            agent.prompt("from a tool")
        except ChannelFull as error:
            refused.append(error)
        return "ok"

    agent = Agent(
        ScriptedLlm(call("prompts"), *map(str, range(INPUT_SIZE + 1))), tools=[tool("prompts", prompts)]
    )
    with agent:
        agent.prompt("a")
        gate.wait_entered()
        for number in range(INPUT_SIZE):
            agent.prompt(str(number))
        gate.open()

        assert len(taken(agent, INPUT_SIZE + 1)) == INPUT_SIZE + 1
    assert len(refused) == 1


def test_a_prompt_from_a_tool_is_a_run_of_its_own_afterwards(tool: Any) -> None:
    """D-03: it waits for nothing, so it may be asked for."""
    llm = ScriptedLlm(call("prompts"), "1", "2")
    agent = Agent(llm, tools=[tool("prompts", lambda *args: str(agent.prompt("later") is agent))])
    with agent:
        agent.prompt("a")

        assert taken(agent, 2) == ["1", "2"]


# -- stopped -----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["prompt", "run", "submit", "stream", "follow_up", "steer", "redirect"])
def test_a_stopped_agent_takes_no_message(verb: str) -> None:
    """F-19: used or not."""
    agent = Agent(ScriptedLlm())
    assert agent.stop() is True

    with pytest.raises(AgentStopped, match="make a new Agent"):
        getattr(agent, verb)("x")


def test_a_stopped_agent_cannot_be_continued_or_waited_for() -> None:
    """F-19, D-05."""
    agent = Agent(ScriptedLlm("1"))
    agent.run("a")
    agent.stop()

    with pytest.raises(AgentStopped):
        agent.continue_()
    with pytest.raises(AgentStopped):
        agent.take_response()
    assert agent.wait_for_idle() is True
    assert agent.messages[-1].text == "1"
