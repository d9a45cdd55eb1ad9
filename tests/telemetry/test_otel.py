"""Spans and metrics by the GenAI conventions, with the real SDK's in-memory exporters."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the packages of the test extra")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from yiemagent import Agent
from yiemagent.errors import ContextOverflow, LlmError, RunAborted
from yiemagent.loop.config import AgentContext, AgentLoopConfig
from yiemagent.loop.limits import Limits
from yiemagent.loop.run import run_agent_loop
from yiemagent.messages import ImageContent, TextContent, Usage, UserMessage
from yiemagent.model import ModelInfo
from yiemagent.telemetry.genai import SCHEMA_URL, SEMCONV_VERSION, messages_as_json, provider_name
from yiemagent.telemetry.otel import OpenTelemetry
from yiemagent.testing import WAIT
from yiemagent.testing.gates import Gate
from yiemagent.testing.scripted import ScriptedLlm, call, calls, fail, say
from yiemagent.tools.tool import Tool


class Recorded:
    """The SDK with exporters in memory."""

    def __init__(self):
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meter_provider = MeterProvider([self._metrics])
        self.tracer = self.tracer_provider.get_tracer("application")

    def telemetry(self, *args, **options):
        providers = {"tracer_provider": self.tracer_provider, "meter_provider": self.meter_provider}
        return OpenTelemetry(*args, **providers, **options)

    @property
    def spans(self):
        """In the order of their beginning."""
        return sorted(self._spans.get_finished_spans(), key=lambda span: span.start_time)

    def span(self, name):
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def tree(self):
        """Each span's name with its parent's."""
        names = {span.context.span_id: span.name for span in self.spans}
        return [(span.name, names.get(span.parent.span_id) if span.parent else None) for span in self.spans]

    def points(self, metric):
        data = self._metrics.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        ]


@pytest.fixture
def recorded():
    made = Recorded()
    yield made
    made.tracer_provider.shutdown()
    made.meter_provider.shutdown()


LOOK = Tool(name="look", execute=lambda *args: "found it")
INFO = ModelInfo(id="gpt-5-mini", provider="azure")


def ask(telemetry, *script, tools=(LOOK,), info=INFO, **options):
    """Watch one run of an agent; gives its result."""
    with Agent(ScriptedLlm(*script, info=info), tools=tools, **options) as agent:
        telemetry.watch(agent)
        return agent.run("the question", timeout=WAIT)


def boom(*args):
    raise ValueError("SECRET")


# --- the tree


def test_a_run_is_an_agent_span_over_chat_and_tool_spans(recorded):
    """Issue 6, part 5."""
    ask(recorded.telemetry("sommelier"), calls(call("look")), "done")

    assert recorded.tree() == [
        ("invoke_agent sommelier", None),
        ("chat gpt-5-mini", "invoke_agent sommelier"),
        ("execute_tool look", "invoke_agent sommelier"),
        ("chat gpt-5-mini", "invoke_agent sommelier"),
    ]
    assert [span.kind for span in recorded.spans] == [
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
    ]


def test_the_callers_span_is_the_parent(recorded):
    """Context variables travel with the prompt to the agent's thread."""
    with Agent(ScriptedLlm("one", "two")) as agent:
        recorded.telemetry().watch(agent)
        with recorded.tracer.start_as_current_span("request 1"):
            agent.run("q", timeout=WAIT)
        with recorded.tracer.start_as_current_span("request 2"):
            agent.run("q", timeout=WAIT)

    parents = [parent for name, parent in recorded.tree() if name == "invoke_agent"]
    assert parents == ["request 1", "request 2"]


def test_the_agents_thread_is_in_no_span_afterwards(recorded):
    """What is attached is detached; nothing is logged about it either."""
    with Agent(ScriptedLlm(calls(call("look")), "one", "two"), tools=[LOOK]) as agent:
        recorded.telemetry().watch(agent)
        agent.run("q", timeout=WAIT)
        agent.run("q", timeout=WAIT)

    assert [parent for name, parent in recorded.tree() if name == "invoke_agent"] == [None, None]


def test_a_tools_own_spans_hang_below_its_call(recorded):
    """Tools that run one after the other need no help."""

    def inside(*args):
        with recorded.tracer.start_as_current_span("query"):
            return "ok"

    tool = Tool(name="db", execute=inside)
    ask(recorded.telemetry(), calls(call("db"), call("db")), "done", tools=[tool])

    assert [parent for name, parent in recorded.tree() if name == "query"] == ["execute_tool db"] * 2


def parallel_tools(recorded):
    """Two tools that are both running before either goes on, and make a span of their own."""
    both = threading.Barrier(2)

    def inside(name):
        def execute(*args):
            both.wait(WAIT)
            with recorded.tracer.start_as_current_span(f"query {name}"):
                return "ok"

        return execute

    return [Tool(name=name, execute=inside(name)) for name in ("a", "b")]


def test_parallel_tools_hang_below_the_agent_and_not_below_each_other(recorded):
    """Both are open at once, so nobody knows whose their own spans are."""
    ask(
        recorded.telemetry(),
        calls(call("a"), call("b")),
        "done",
        tools=parallel_tools(recorded),
        parallel_tool_execute=True,
    )

    tree = dict(recorded.tree())
    assert (tree["execute_tool a"], tree["execute_tool b"]) == ("invoke_agent", "invoke_agent")
    assert (tree["query a"], tree["query b"]) == ("invoke_agent", "invoke_agent")


def test_a_parallel_tools_own_spans_hang_below_its_call_with_the_hook(recorded):
    """`around_tool_call` runs on the tool's own thread."""
    telemetry = recorded.telemetry()
    ask(
        telemetry,
        calls(call("a"), call("b")),
        "done",
        tools=parallel_tools(recorded),
        parallel_tool_execute=True,
        around_tool_call=telemetry.around_tool_call,
    )

    tree = dict(recorded.tree())
    assert (tree["query a"], tree["query b"]) == ("execute_tool a", "execute_tool b")


def test_a_run_inside_a_hook_does_not_make_the_outer_one_forgotten(recorded):
    """On the same thread, between the outer run's events."""
    telemetry = recorded.telemetry()

    def hook(ctx, signal, event_sink):
        config = AgentLoopConfig(model=ScriptedLlm("inner"))
        run_agent_loop([UserMessage("q")], AgentContext(), config, recorded.telemetry("inner"))

    ask(
        telemetry,
        calls(call("a"), call("b")),
        "done",
        tools=parallel_tools(recorded),
        parallel_tool_execute=True,
        around_tool_call=telemetry.around_tool_call,
        before_tool_call=hook,
    )

    tree = dict(recorded.tree())
    assert (tree["query a"], tree["query b"]) == ("execute_tool a", "execute_tool b")


def test_the_model_is_asked_inside_the_chat_span(recorded):
    """HTTP instrumentation finds its parent."""
    inside = []

    def answer(context):
        inside.append(get_current_span().name)
        return "done"

    ask(recorded.telemetry(), answer)

    assert inside == ["chat gpt-5-mini"]


def test_an_agent_inside_a_tool_hangs_below_the_call(recorded):
    """Subagents."""
    telemetry = recorded.telemetry("outer")
    inner_telemetry = recorded.telemetry("inner")

    def delegate(*args):
        return ask(inner_telemetry, "inner answer").text

    ask(telemetry, calls(call("delegate")), "done", tools=[Tool(name="delegate", execute=delegate)])

    assert ("invoke_agent inner", "execute_tool delegate") in recorded.tree()


def test_the_stateless_loop_can_tell_it_directly(recorded):
    """`emit=`: the model names itself with its answer."""
    config = AgentLoopConfig(model=ScriptedLlm("done", info=INFO))
    run_agent_loop([UserMessage("q")], AgentContext(), config, recorded.telemetry())

    assert recorded.tree() == [("invoke_agent", None), ("chat gpt-5-mini", "invoke_agent")]
    for span in recorded.spans:
        assert span.attributes["gen_ai.request.model"] == "gpt-5-mini"
        assert span.attributes["gen_ai.provider.name"] == "azure.ai.openai"
    assert {
        p.attributes["gen_ai.provider.name"] for p in recorded.points("gen_ai.client.operation.duration")
    } == {"azure.ai.openai"}


# --- attributes


def test_an_answer_is_told_by_the_conventions(recorded):
    """Cached tokens are part of the input; content is not told."""
    usage = Usage(
        input_tokens=100,
        output_tokens=7,
        cache_read_tokens=50,
        cache_write_tokens=5,
        reasoning_tokens=3,
        cost=0.5,
    )
    ask(recorded.telemetry("a", conversation_id="s1"), say("the answer", usage=usage))

    assert dict(recorded.span("chat gpt-5-mini").attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.response.model": "gpt-5-mini",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage.input_tokens": 155,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 50,
        "gen_ai.usage.cache_creation.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 3,
        "yiemagent.cost": 0.5,
    }


def test_a_run_is_told_with_all_its_tokens(recorded):
    """The sum over its answers."""
    usage = Usage(input_tokens=10, output_tokens=2)
    ask(recorded.telemetry("a"), calls(call("look"), usage=usage), say("done", usage=usage))

    assert dict(recorded.span("invoke_agent a").attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.agent.name": "a",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 4,
        "yiemagent.status": "completed",
    }


def test_a_tool_call_is_told_by_the_conventions(recorded):
    """Neither arguments nor result."""
    wanted = call("look", q="SECRET")
    ask(recorded.telemetry(), calls(wanted), "done")

    assert dict(recorded.span("execute_tool look").attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": wanted.id,
        "gen_ai.tool.type": "function",
    }


def test_content_is_told_when_asked_for(recorded):
    """Messages in the conventions' form, on the span that they belong to."""
    wanted = call("look", q="oak")
    ask(recorded.telemetry(capture_content=True), calls(wanted, text="let me look"), "done")

    first, second = [span for span in recorded.spans if span.name.startswith("chat")]
    assert json.loads(first.attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "the question"}]}
    ]
    assert json.loads(first.attributes["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "let me look"},
                {"type": "tool_call", "id": wanted.id, "name": "look", "arguments": {"q": "oak"}},
            ],
            "finish_reason": "tool_call",
        }
    ]
    assert json.loads(second.attributes["gen_ai.input.messages"]) == [
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": wanted.id, "response": "found it"}],
        }
    ]
    tool = recorded.span("execute_tool look").attributes
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"q": "oak"}
    assert tool["gen_ai.tool.call.result"] == "found it"
    agent = recorded.span("invoke_agent").attributes
    assert "the question" in agent["gen_ai.input.messages"]
    assert "done" in agent["gen_ai.output.messages"]


def test_no_content_is_told_otherwise(recorded):
    """Prompts, answers, arguments, results and error texts stay inside."""
    tools = [Tool(name="boom", execute=boom)]
    telemetry = recorded.telemetry()
    with pytest.raises(LlmError):
        ask(
            telemetry,
            calls(call("boom", q="SECRET"), text="SECRET"),
            fail(LlmError("SECRET")),
            tools=tools,
            system_prompt="SECRET",
        )

    assert "SECRET" not in "".join(span.to_json() for span in recorded.spans)
    assert "the question" not in "".join(span.to_json() for span in recorded.spans)


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (TextContent("x"), {"type": "text", "content": "x"}),
        (
            ImageContent(url="http://127.0.0.1/a.png"),
            {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "http://127.0.0.1/a.png"},
        ),
        (
            ImageContent(data="QQ=="),
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QQ=="},
        ),
    ],
)
def test_blocks_have_the_conventions_form(block, part):
    """gen-ai-input-messages.json."""
    assert json.loads(messages_as_json([UserMessage((block,))])) == [{"role": "user", "parts": [part]}]


def test_providers_have_the_conventions_names():
    """Unknown ones keep theirs."""
    assert [provider_name(name) for name in ("openai", "mistral", "gemini", "lmstudio", "")] == [
        "openai",
        "mistral_ai",
        "gcp.gemini",
        "lmstudio",
        "unknown",
    ]


def test_the_version_of_the_conventions_is_told(recorded):
    """Named in one place."""
    ask(recorded.telemetry(), "done")

    scope = recorded.spans[0].instrumentation_scope
    assert (scope.name, scope.schema_url) == ("yiemagent", SCHEMA_URL)
    assert SCHEMA_URL.endswith(SEMCONV_VERSION)


# --- errors


def errors(recorded):
    return {
        span.name: span.attributes.get("error.type")
        for span in recorded.spans
        if span.status.status_code is StatusCode.ERROR
    }


def test_a_failed_answer_fails_chat_and_agent(recorded):
    """error.type is the kind of the error."""
    with pytest.raises(LlmError):
        ask(recorded.telemetry(), fail(LlmError("down", kind="overloaded")))

    assert errors(recorded) == {"invoke_agent": "overloaded", "chat gpt-5-mini": "overloaded"}
    assert all(span.status.description is None for span in recorded.spans)


def test_a_failed_tool_fails_its_own_span_only(recorded):
    """The run goes on, so it did not fail."""
    ask(recorded.telemetry(), calls(call("boom")), "done", tools=[Tool(name="boom", execute=boom)])

    assert errors(recorded) == {"execute_tool boom": "tool_exception"}


def test_what_went_wrong_is_told_with_the_content(recorded):
    """It may quote what was said."""
    with pytest.raises(LlmError):
        ask(recorded.telemetry(capture_content=True), fail(LlmError("down", kind="overloaded")))

    assert {span.status.description for span in recorded.spans} == {"down"}


def test_an_aborted_run_says_so_and_leaves_no_span_open(recorded):
    """Every start has its end on every path."""
    gate = Gate()
    with Agent(ScriptedLlm(say("x", before=gate), info=INFO)) as agent:
        recorded.telemetry().watch(agent)
        future = agent.submit("q")
        gate.wait_entered()
        agent.abort("enough")
        with pytest.raises(RunAborted):
            future.result(WAIT)
    gate.open()

    assert errors(recorded) == {"invoke_agent": "aborted", "chat gpt-5-mini": "aborted"}


def test_a_run_at_its_limit_has_no_chat_that_nobody_asked_for(recorded):
    """The last message is written by the loop, not by a model."""
    result = ask(recorded.telemetry(), calls(call("look")), max_tool_turns=1)

    assert result.status == "limit"
    assert [name for name, _ in recorded.tree()] == ["invoke_agent", "chat gpt-5-mini", "execute_tool look"]
    agent = recorded.span("invoke_agent")
    assert agent.attributes["yiemagent.status"] == "limit"
    assert agent.attributes["yiemagent.limit"] == "max_tool_turns"
    assert [event.name for event in agent.events] == ["limit_reached"]
    assert errors(recorded) == {}


def test_a_turn_that_begins_at_a_limit_has_no_chat(recorded):
    """A follow-up for which no tokens are left."""
    follow_ups = [[UserMessage("and?")]]
    config = AgentLoopConfig(
        model=ScriptedLlm(say("done", usage=Usage(input_tokens=10, output_tokens=2)), info=INFO),
        limits=Limits(max_total_tokens=5),
        get_follow_up_messages=lambda: follow_ups.pop() if follow_ups else (),
    )
    run_agent_loop([UserMessage("q")], AgentContext(), config, recorded.telemetry())

    assert [name for name, _ in recorded.tree()] == ["invoke_agent", "chat gpt-5-mini"]
    assert recorded.span("invoke_agent").attributes["yiemagent.limit"] == "max_total_tokens"
    assert get_current_span().get_span_context().is_valid is False


def test_an_overflow_and_its_second_answer_are_two_chats(recorded):
    """Case C-38."""
    ask(
        recorded.telemetry(),
        fail(ContextOverflow("too long")),
        "done",
        recover_context=lambda messages: messages,
    )

    chats = [span for span in recorded.spans if span.name == "chat gpt-5-mini"]
    assert [span.attributes.get("error.type") for span in chats] == ["context_overflow", None]
    assert errors(recorded) == {"chat gpt-5-mini": "context_overflow"}


# --- metrics


def test_durations_and_tokens_are_measured(recorded):
    """The conventions' instruments, with their buckets."""
    usage = Usage(input_tokens=10, output_tokens=2, cache_read_tokens=5)
    ask(recorded.telemetry(), calls(call("look"), usage=usage), say("done", usage=usage))

    durations = {
        point.attributes["gen_ai.operation.name"]: point
        for point in recorded.points("gen_ai.client.operation.duration")
    }
    assert {name: point.count for name, point in durations.items()} == {
        "chat": 2,
        "execute_tool": 1,
        "invoke_agent": 1,
    }
    assert list(durations["chat"].explicit_bounds[:3]) == [0.01, 0.02, 0.04]
    assert all("error.type" not in point.attributes for point in durations.values())
    tokens = {p.attributes["gen_ai.token.type"]: p for p in recorded.points("gen_ai.client.token.usage")}
    assert {kind: point.sum for kind, point in tokens.items()} == {"input": 30, "output": 4}
    assert dict(tokens["input"].attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.response.model": "gpt-5-mini",
        "gen_ai.token.type": "input",
    }
    assert list(tokens["input"].explicit_bounds[-2:]) == [16777216, 67108864]


def test_an_error_is_told_to_the_duration_too(recorded):
    """A span and its metric say the same."""
    with pytest.raises(LlmError):
        ask(recorded.telemetry(), fail(LlmError("down", kind="overloaded")))

    points = recorded.points("gen_ai.client.operation.duration")
    assert {point.attributes["error.type"] for point in points} == {"overloaded"}
    assert recorded.points("gen_ai.client.token.usage") == []


# --- robustness


def test_tool_calls_of_unknown_runs_are_left_alone(recorded):
    """The hook without the listener."""
    with recorded.telemetry().around_tool_call(SimpleNamespace(tool_call_id="c1")):
        pass

    assert recorded.spans == []


def test_agents_that_run_side_by_side_are_told_apart(recorded):
    """One listener, many runs."""
    both = threading.Barrier(2)
    meet = Tool(name="meet", execute=lambda *args: both.wait(WAIT))
    telemetry = recorded.telemetry()
    agents = [Agent(ScriptedLlm(calls(call("meet")), "done", info=INFO), tools=[meet]) for _ in range(2)]
    for agent in agents:
        telemetry.watch(agent)
    for future in [agent.submit("q") for agent in agents]:
        future.result(WAIT)
    for agent in agents:
        agent.stop()

    traces = {}
    for span in recorded.spans:
        traces.setdefault(span.context.trace_id, []).append(span.name)
    assert len(traces) == 2
    for names in traces.values():
        assert names == ["invoke_agent", "chat gpt-5-mini", "execute_tool meet", "chat gpt-5-mini"]


def test_watching_can_be_ended(recorded):
    """The returned function unsubscribes."""
    with Agent(ScriptedLlm("one")) as agent:
        recorded.telemetry().watch(agent)()
        agent.run("q", timeout=WAIT)

    assert recorded.spans == []


@pytest.mark.servers
def test_without_the_packages_the_way_out_is_named():
    """The extra is optional, and so is its module."""
    script = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import yiemagent.telemetry.introspection\n"
        "import yiemagent.telemetry.otel\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )

    assert "pip install 'yiemagent[otel]'" in done.stderr
    assert "ConfigurationError" in done.stderr.splitlines()[-1]
