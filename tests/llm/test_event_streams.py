"""What holds for every dialect whose answers come as typed events, whatever the events are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yiemagent.llm.answer import AnswerBuilder
from yiemagent.llm.anthropic_decode import AnthropicDecoder
from yiemagent.llm.event_decoder import EventDecoder
from yiemagent.llm.proxy_wire import ProxyDecoder
from yiemagent.llm.responses_decode import ResponsesDecoder
from yiemagent.messages import AssistantMessage
from yiemagent.model import ModelInfo
from yiemagent.tools.tool import Tool

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get_weather"}
TEXT = {"type": "message", "id": "m_1", "content": [{"type": "output_text", "text": "Sunny."}]}
WEATHER = Tool(
    name="get_weather",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}},
    execute=lambda *a: "sun",
)


class Dialect(NamedTuple):
    """A decoder, a whole stream with a call in it, and the names its events have things under."""

    decoder: type[EventDecoder]
    stream: list[dict[str, Any]]
    keys: list[str]

    def begin(self) -> Any:
        builder = AnswerBuilder(AssistantMessage(()), (WEATHER,), listening=True)
        return self.decoder(builder, "it", ModelInfo(id="m"))


_RECORDED = Path(__file__).parent / "cases" / "bodies" / "B-56-anthropic_baseline.sse"
DIALECTS = [
    Dialect(
        AnthropicDecoder,
        [
            json.loads(line.removeprefix("data: "))
            for line in _RECORDED.read_text("utf-8").splitlines()
            if line.startswith("data: ")
        ],
        ["index", "delta", "content_block", "message", "usage"],
    ),
    Dialect(
        ResponsesDecoder,
        [
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.added", "output_index": 0, "item": TEXT},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Sunny."},
            {"type": "response.output_item.done", "output_index": 0, "item": TEXT},
            {"type": "response.output_item.added", "output_index": 1, "item": CALL},
            {
                "type": "response.function_call_arguments.delta",
                "output_index": 1,
                "delta": '{"city": "Oslo"}',
            },
            {"type": "response.reasoning_text.delta", "output_index": 2, "delta": "Hm."},
            {"type": "response.output_item.done", "output_index": 1, "item": {**CALL, "arguments": "{}"}},
            {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
        ],
        ["item", "response", "output", "delta", "output_index"],
    ),
    Dialect(
        ProxyDecoder,
        [
            {"type": "start"},
            {"type": "thinking_delta", "contentIndex": 0, "delta": "hm"},
            {"type": "text_delta", "contentIndex": 1, "delta": "Let me."},
            {"type": "text_end", "contentIndex": 1, "contentSignature": "s"},
            {"type": "toolcall_start", "contentIndex": 2, "id": "c1", "toolName": "get_weather"},
            {"type": "toolcall_delta", "contentIndex": 2, "delta": '{"city": "Oslo"}'},
            {"type": "done", "reason": "toolUse"},
        ],
        ["contentIndex", "delta", "id", "toolName", "usage", "reason"],
    ),
]


def _events(dialect: Dialect) -> st.SearchStrategy[list[tuple[str, Any]]]:
    kinds = st.sampled_from([event["type"] for event in dialect.stream] + ["error", "x"])
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*dialect.keys, "type", "error"]), inner)
        ),
        max_leaves=8,
    )
    return st.lists(st.tuples(kinds, values), max_size=6)


EVENTS = {dialect.decoder: _events(dialect) for dialect in DIALECTS}
every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.decoder.__name__)


@every_dialect
@given(data=st.data())
def test_any_prefix_of_a_stream_is_truncated_and_runs_nothing(dialect: Dialect, data: st.DataObject) -> None:
    """Property, B-39 and B-61: a stream is complete only with its last event."""
    reader = dialect.begin()
    for event in dialect.stream[: data.draw(st.integers(0, len(dialect.stream) - 1))]:
        assert not reader.feed(json.dumps(event))

    message, error = reader.finish()

    assert error is not None
    assert error.kind == "stream_truncated"
    assert message.tool_calls == ()


@every_dialect
@given(data=st.data())
def test_no_event_makes_the_decoder_raise(dialect: Dialect, data: st.DataObject) -> None:
    """Property: whatever a provider sends ends as a message or an LlmError."""
    reader = dialect.begin()
    for kind, value in data.draw(EVENTS[dialect.decoder]):
        event = {**value, "type": kind} if isinstance(value, dict) else value
        if reader.feed(json.dumps(event)):
            break

    message, _ = reader.finish()

    assert isinstance(message, AssistantMessage)


@every_dialect
@pytest.mark.parametrize("line", ["", " ", "[DONE]"])
def test_lines_that_say_nothing_leave_no_warning(dialect: Dialect, line: str) -> None:
    """Proxies of any dialect end what they pass on with OpenAI's mark, which is no event here."""
    assert _read_with(dialect, line).warnings == ()


@every_dialect
def test_a_line_that_is_no_json_is_read_past_with_a_warning(dialect: Dialect) -> None:
    """What deviates leaves a name in the message, and the answer is kept."""
    message = _read_with(dialect, "<html>")

    assert message.warnings == ("ignored_non_json_data",)
    assert [call.name for call in message.tool_calls] == ["get_weather"]


def _read_with(dialect: Dialect, line: str) -> AssistantMessage:
    reader = dialect.begin()
    reader.feed(line)
    for event in dialect.stream:
        reader.feed(json.dumps(event))
    message, error = reader.finish()
    assert error is None
    return message
