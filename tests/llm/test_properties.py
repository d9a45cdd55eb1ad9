"""What holds for any input: splits, prefixes, and rubbish."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yiemagent.messages import AssistantMessage
from yiemagent.testing.loopback import ServedRequest
from yiemagent.tools.tool import Tool

TOOLS = [Tool(name="weather", execute=lambda *a: None)]
SETTINGS = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def chunk(**delta: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def call(index: int, text: str, **more: Any) -> dict[str, Any]:
    return chunk(tool_calls=[{"index": index, **more, "function": {"arguments": text, **more.pop("fn", {})}}])


STREAM = (
    "".join(
        f"data: {json.dumps(data, ensure_ascii=False)}\r\n\r\n"
        for data in (
            chunk(role="assistant", content=None),
            chunk(reasoning_content="let me ✅\u2028 see"),
            chunk(content="<b>Wé"),
            chunk(content="ll</b>"),
            call(0, "", id="c1", fn={"name": "weather"}),
            call(0, '{"city": "Os'),
            call(0, 'lo\\n"}'),
            call(1, '{"city": "Rome"}', id="c2", fn={"name": "weather"}),
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}},
        )
    ).encode()
    + b"data: [DONE]\r\n\r\n"
)


class Script:
    """Answers with the pieces it was given last."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.status = 200

    def __call__(self, request: ServedRequest) -> None:
        request.start(self.status)
        for piece in self.pieces:
            if piece:
                request.chunk(piece)
        request.chunk(b"")


def bare(message: AssistantMessage) -> AssistantMessage:
    return replace(message, timestamp=0.0)


@SETTINGS
@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20).map(sorted), listening=st.booleans())
def test_any_split_of_a_stream_gives_the_same_message(
    chat: Callable[..., Any], ask: Callable[..., Any], cuts: list[int], listening: bool
) -> None:
    """Decoding rule 1."""
    script = Script()
    llm, server = chat(script)
    script.pieces = [STREAM]
    whole = ask(llm, tools=TOOLS).message
    assert len(whole.tool_calls) == 2

    script.pieces = [STREAM[a:b] for a, b in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)]

    assert bare(ask(llm, tools=TOOLS, want_deltas=listening).message) == bare(whole)
    server.close()


def test_any_prefix_of_a_stream_is_truncated_and_has_no_call(
    chat: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    """B-39, B-41, C-03: half a call is no call, and nothing of half an answer is run."""
    script = Script()
    llm, _ = chat(script)
    script.pieces = [STREAM]
    whole = ask(llm, tools=TOOLS).message
    end = STREAM.index(b'"finish_reason": "tool_calls"')
    for length in range(0, len(STREAM), 3):
        script.pieces = [STREAM[:length]]
        asked = ask(llm, tools=TOOLS)
        if asked.error is None:
            assert length > end
            assert asked.message.tool_calls == whole.tool_calls
        else:
            assert asked.error.kind == "stream_truncated"
            assert asked.error.retryable
            assert asked.message.tool_calls == ()
            assert whole.text.startswith(asked.message.text)
            assert length <= end + 40


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = [
    *["choices", "delta", "message", "content", "tool_calls", "function", "arguments", "name", "id", "index"],
    *["finish_reason", "usage", "error", "reasoning", "reasoning_details", "type", "text", "refusal"],
]
VALUES = st.recursive(
    SCALARS | st.sampled_from(["tool_calls", "stop", "{", "}", '{"a":1}', "weather", "[DONE]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": VALUES,
        "tool_calls": VALUES
        | st.lists(st.fixed_dictionaries({"function": VALUES, "index": SCALARS}), max_size=2),
        "reasoning": VALUES,
        "reasoning_details": VALUES,
        "function_call": VALUES,
        "refusal": VALUES,
    },
)
CHUNKS = VALUES | st.builds(
    lambda delta, key, reason, index, usage: {
        "choices": [{"index": index, key: delta, "finish_reason": reason}],
        "usage": usage,
    },
    DELTAS | VALUES,
    st.sampled_from(["delta", "message"]),
    SCALARS,
    SCALARS,
    VALUES,
)


@SETTINGS
@given(chunks=st.lists(CHUNKS, max_size=5), framed=st.booleans(), listening=st.booleans())
def test_no_json_makes_a_stream_raise(
    chat: Callable[..., Any], ask: Callable[..., Any], chunks: list[Any], framed: bool, listening: bool
) -> None:
    """It ends with Done or Failed, and what is done holds something."""
    script = Script()
    llm, server = chat(script)
    texts = [json.dumps(one) for one in chunks]
    script.pieces = (
        [f"data: {text}\n\n".encode() for text in texts] if framed else [t.encode() for t in texts]
    )

    asked = ask(llm, tools=TOOLS, want_deltas=listening)

    assert (
        asked.error is not None
        or asked.message.content
        or asked.message.refusal
        or asked.message.stop_reason != "stop"
    )
    server.close()


@SETTINGS
@given(
    body=st.binary(max_size=200),
    status=st.sampled_from([200, 201, 400, 404, 429, 500, 599]),
    data=st.booleans(),
)
def test_no_bytes_make_a_stream_raise(
    chat: Callable[..., Any], ask: Callable[..., Any], body: bytes, status: int, data: bool
) -> None:
    """Any status, any body."""
    script = Script()
    llm, server = chat(script)
    script.status, script.pieces = status, [b"data: " * data + body]

    asked = ask(llm)

    assert asked.error is not None
    assert asked.message.stop_reason == "error"
    server.close()
