"""Our server half on a NATS subject: groups, cancellation, sizes, loss, an end in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.agent.agent import Agent
from yiemagent.errors import ConfigurationError, McpConnectionError, McpError, McpTimeout, RunAborted
from yiemagent.mcp import connect as connect_to
from yiemagent.mcp.client import McpClient
from yiemagent.mcp.nats import McpNats
from yiemagent.mcp.serve import McpServer
from yiemagent.mcp.serve_nats import NatsServing, serve_nats
from yiemagent.testing import WAIT, Gate, ScriptedLlm, call, calls, run_in_thread, say
from yiemagent.tools.decorator import tool
from yiemagent.tools.tool import ToolContext

pytestmark = pytest.mark.servers

TOPIC = "yiemagent:tools"


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@pytest.fixture
def serve(nats: Any) -> Iterator[Callable[..., NatsServing]]:
    """Serves on the subject; closes with the test."""
    made: list[NatsServing] = []

    def make(target: Any, **options: Any) -> NatsServing:
        made.append(serve_nats(target, nats.url, TOPIC, **options))
        return made[-1]

    yield make
    for serving in made:
        serving.close(0.2)


@pytest.fixture
def client(nats: Any) -> Iterator[Callable[..., McpClient]]:
    """Makes clients of the subject; closes them with the test."""
    made: list[McpClient] = []

    def make(**options: Any) -> McpClient:
        made.append(McpNats(nats.url, TOPIC, "agent_1", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("era", ["auto", "2026-07-28", "2025-11-25", "2025-06-18", "plain"])
def test_tools_are_listed_and_called_in_every_era_that_needs_no_session(
    serve: Any, client: Any, era: str
) -> None:
    """Issue 5 part 4: the modern era, the handshake without a session, and the Julia design's dialect."""
    serve(McpServer([add, len_of], page_size=1))
    mcp = client(era=era)

    assert [one.name for one in mcp.list_tools()] == ["add", "len_of"]
    assert mcp.call_tool("add", {"a": 1, "b": 2}).content[0]["text"] == "3"
    with pytest.raises(McpError, match="Unknown tool: nothing"):
        mcp.call_tool("nothing")


def len_of(text: str) -> int:
    """How long a text is."""
    return len(text)


def test_versions_that_have_no_header_are_not_agreed_on(serve: Any, client: Any) -> None:
    """Without a session each request must say its version, and 2024-11-05 has no place for it."""
    serve([add])

    assert client(era="2024-11-05").connect().protocol_version == "2025-11-25"


def test_the_callable_of_the_julia_design_gets_the_raw_response(serve: Any, client: Any) -> None:
    """Runbook 1.1, WT-020, WT-021."""
    serve([add])
    mcp = client(era="plain")

    listed = mcp("tools/list", "session-1")
    called = mcp("tools/call", "add", {"a": 1, "b": 2}, "session-1")
    failed = mcp("tools/call", "nothing", {}, "session-1")

    assert listed["result"]["tools"][0]["label"] == "add"
    assert called["result"] == {"content": [{"type": "text", "text": "3"}], "isError": False}
    assert failed["error"]["message"] == "Unknown tool: nothing"


def test_an_address_makes_a_client(serve: Any, nats: Any) -> None:
    """Issue 5 part 1: connect("nats://host/topic")."""
    serve([add])

    with connect_to(f"{nats.url}/{TOPIC}") as mcp:
        assert [one.name for one in mcp.list_tools()] == ["add"]


@pytest.mark.parametrize("era", ["auto", "plain"])
def test_an_agent_uses_tools_over_nats(serve: Any, client: Any, era: str) -> None:
    """WT-001, WT-020, WT-021: the Julia design's mcpServer."""
    serve([add])
    script = ScriptedLlm(calls(call("add", a=20, b=22)), say("It is 42."))

    with Agent(script, mcp_server=client(era=era)) as agent:
        result = agent.run("What is the sum?", timeout=WAIT)

    assert result.text == "It is 42."
    assert [m.text for m in result.new_messages if m.role == "tool_result"] == ["42"]


def test_two_members_of_a_queue_group_share_the_requests(serve: Any, client: Any) -> None:
    """Section 5.6: two workers, each busy with one call at a time, meet at a barrier."""
    meeting, met = threading.Barrier(2), threading.Event()

    def meet() -> str:
        if not met.is_set():
            meeting.wait(WAIT)
            met.set()
        return "met"

    mcp = client()
    serve([meet], concurrency=1)
    serve([meet], concurrency=1)
    mcp.connect()

    # NATS picks a member at random: calls come in until both have one.
    asked = [run_in_thread(mcp.call_tool, "meet") for _ in range(16)]

    assert {one.get().content[0]["text"] for one in asked} == {"met"}


def test_servers_of_different_groups_are_both_asked(serve: Any, client: Any) -> None:
    """The first answer counts."""
    asked: list[str] = []
    both = threading.Barrier(3)

    def who(name: str) -> Any:
        def ask() -> str:
            asked.append(name)
            both.wait(WAIT)
            return name

        return tool(name="ask")(ask)

    serve([who("one")], queue_group="one")
    serve([who("two")], queue_group="two")
    calling = run_in_thread(client().call_tool, "ask")
    both.wait(WAIT)

    calling.get()
    assert sorted(asked) == ["one", "two"]


def test_a_cancellation_finds_the_member_that_runs_the_call(serve: Any, client: Any) -> None:
    """A queue group: whichever member gets the news, the right call is cancelled."""
    cancelled = threading.Semaphore(0)

    @tool
    def wait(ctx: ToolContext) -> str:
        """Wait until the call is cancelled."""
        ctx.update("waiting")
        if ctx.signal.wait(WAIT):
            cancelled.release()
        return "over"

    for _ in range(3):
        serve([wait])
    mcp = client()

    for _ in range(6):
        signal = AbortSignal()
        with pytest.raises(RunAborted):
            mcp.call_tool("wait", signal=signal, on_progress=lambda _, signal=signal: signal.abort())
        assert cancelled.acquire(timeout=WAIT)


def test_progress_comes_before_the_response(serve: Any, client: Any) -> None:
    """Progress notes, in order."""

    @tool
    def count(to: int, ctx: ToolContext) -> str:
        """Count."""
        for step in range(to):
            ctx.update(f"step {step}")
        return "done"

    serve([count])
    steps: list[str] = []

    result = client().call_tool("count", {"to": 20}, on_progress=lambda step: steps.append(step.message))

    assert result.content[0]["text"] == "done"
    assert steps == [f"step {step}" for step in range(20)]


def test_an_answer_over_max_payload_is_an_error_with_both_numbers(serve: Any, client: Any) -> None:
    """Case E-18: said by the server, which knows; not a silence."""

    def large(size: int) -> str:
        return "x" * size

    serve([large])
    mcp = client()

    with pytest.raises(
        McpError, match=r"the answer is 2,000,\d\d\d bytes long, but NATS takes at most 1,048,576"
    ):
        mcp.call_tool("large", {"size": 2_000_000})
    assert len(mcp.call_tool("large", {"size": 1_000_000}).content[0]["text"]) == 1_000_000


def test_a_slow_tool_does_not_hold_up_the_others(serve: Any, client: Any) -> None:
    """Field problem 54: callbacks of one subscription run one after the other in nats-py."""
    gate = Gate()

    def block() -> str:
        gate.block()
        return "opened"

    serve([block, add])
    mcp = client()
    blocked = run_in_thread(mcp.call_tool, "block")
    gate.wait_entered()

    assert mcp.call_tool("add", {"a": 1, "b": 2}).content[0]["text"] == "3"
    gate.open()
    assert blocked.get().content[0]["text"] == "opened"


def test_calls_beyond_the_concurrency_wait_their_turn_and_can_be_cancelled_there(
    serve: Any, client: Any
) -> None:
    """A call that was cancelled before its turn never runs."""
    gate = Gate()
    ran: list[int] = []
    watching, seen = threading.Event(), threading.Event()

    def block(number: int) -> str:
        ran.append(number)
        gate.block()
        return str(number)

    @tool
    def watch(ctx: ToolContext) -> str:
        watching.set()
        ctx.signal.wait(WAIT)
        seen.set()
        gate.block()
        return "over"

    serve([block, watch], concurrency=2)
    mcp, signal = client(), AbortSignal()
    first = run_in_thread(mcp.call_tool, "block", {"number": 1})
    gate.wait_entered()
    watched = run_in_thread(mcp.call_tool, "watch", signal=signal)
    assert watching.wait(WAIT)
    with pytest.raises(McpTimeout):
        mcp.call_tool("block", {"number": 2}, timeout=0.2)
    third = run_in_thread(mcp.call_tool, "block", {"number": 3})
    signal.abort()
    assert seen.wait(WAIT)  # cancellations are carried out in order, so number 2 was cancelled, too

    gate.open()

    assert [first.get().content[0]["text"], third.get().content[0]["text"]] == ["1", "3"]
    assert ran == [1, 3]
    with pytest.raises(RunAborted):
        watched.get()


def test_a_server_goes_on_after_nats_was_restarted(nats: Any, serve: Any, client: Any) -> None:
    """Case E-20: the subscription is made again; the client hears of the loss at once."""
    serve([add])
    mcp = client()
    mcp.connect()
    nats.kill()
    with pytest.raises(McpError, match=r"lost|is down"):
        mcp.call_tool("add", {"a": 1, "b": 1}, timeout=0.2)
    nats.start()

    for _ in range(1_000):
        try:
            result = mcp.call_tool("add", {"a": 1, "b": 1})
        except McpConnectionError:
            continue  # NATS is back before the server has subscribed again
        break

    assert result.content[0]["text"] == "2"


def test_closing_lets_running_calls_finish_and_takes_no_more(serve: Any, client: Any) -> None:
    """An end in order: unsubscribe, finish, leave."""
    gate = Gate()

    def block() -> str:
        gate.block()
        return "finished"

    serving = serve([block])
    mcp = client()
    running = run_in_thread(mcp.call_tool, "block")
    gate.wait_entered()

    closing = run_in_thread(serving.close, WAIT)
    with pytest.raises(McpConnectionError, match="no MCP server listens"):
        while True:  # until the subscription is gone
            mcp.request("tools/list", timeout=WAIT)
    gate.open()

    assert running.get().content[0]["text"] == "finished"
    closing.get()
    assert serving.wait(0)


def test_closing_aborts_what_does_not_finish(serve: Any, client: Any) -> None:
    """A hung tool sees its signal."""
    aborted = threading.Event()
    entered = threading.Event()

    @tool
    def hang(ctx: ToolContext) -> str:
        """Hang."""
        entered.set()
        if ctx.signal.wait(WAIT):
            aborted.set()
        return "over"

    serving = serve([hang])
    calling = run_in_thread(client().call_tool, "hang", timeout=0.5)
    assert entered.wait(WAIT)

    serving.close(0.0)

    assert aborted.wait(WAIT)
    with pytest.raises(McpTimeout):
        calling.get()


def test_what_is_no_json_is_answered_with_a_parse_error(serve: Any, connect: Any) -> None:
    """JSON-RPC -32700 over NATS; the raw message goes past the client."""
    serve([add])
    ask = connect()
    loop, link = ask.connection._loop, ask.connection._desk.link

    async def send() -> Any:
        import nats

        raw = await nats.connect(link.client.connected_url.geturl())
        try:
            return (await raw.request(TOPIC, b"{", timeout=WAIT)).data
        finally:
            await raw.close()

    assert b"-32700" in loop.call(send, WAIT)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"queue_group": ""}, "queue_group must be a word"),
        ({"topic": "a b"}, "no NATS subject"),
        ({"servers": "http://x"}, "must begin with nats://"),
        ({"dial_timeout": -1}, "dial_timeout must be"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], complaint: str) -> None:
    """Messages name the keyword, the value and the way out."""
    settings: dict[str, Any] = {"servers": "nats://127.0.0.1:1", "topic": "t", **options}

    with pytest.raises(ConfigurationError, match=complaint):
        serve_nats([], settings.pop("servers"), settings.pop("topic"), **settings)


def test_an_absent_nats_server_is_named(nats: Any) -> None:
    """Field problem 58, for servers too."""
    nats.kill()

    with pytest.raises(McpConnectionError, match=rf"could not reach NATS at {nats.url}"):
        serve_nats([], nats.url, TOPIC)
