"""Server-sent events: whatever the pieces, the same events."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from yiemagent.net.errors import HttpBodyTooLarge
from yiemagent.net.sse import SseEvent, SseParser, read_event_batches

LINES = [
    *[b"data: a", b"data:b", b"data", b"data: ", b"data:", b" data: x", b'data: {"a":1}', b":c", b"", b""],
    *[b"id: 7", b"id", b"id: x\0y", b"event: e", b"event", b"retry: 1500", b"retry: x", b"other: 1"],
    *["data: é\u2028\u0085✅".encode(), b"\xff\xfe", b"\xef\xbb\xbf", b"\xef\xbb\xbfdata: bom"],
]
ENDS = [b"\n", b"\r", b"\r\n"]
PAIRS = st.tuples(st.sampled_from(LINES) | st.binary(max_size=5), st.sampled_from(ENDS))
BODIES = st.builds(
    lambda pairs, tail: b"".join(line + end for line, end in pairs) + tail,
    st.lists(PAIRS, max_size=20),
    st.sampled_from([b"", b"data: tail", b"da"]),
)


def reference(body: bytes) -> list[SseEvent]:
    """The whole body at once, as plainly as it can be said."""
    body = body.removeprefix(b"\xef\xbb\xbf")
    events: list[SseEvent] = []
    data: list[str] = []
    event = last_id = ""
    for line in [*re.split(rb"\r\n|\r|\n", body), b""]:
        text = line.decode("utf-8", "replace")
        name, _, value = text.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if not line:
            if data:
                events.append(SseEvent("\n".join(data), event or "message", last_id))
            data, event = [], ""
        elif name == "data":
            data.append(value)
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last_id = value
    return events


def parse(pieces: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.finish()


@given(BODIES, st.data())
def test_any_split_of_a_body_gives_the_same_events(body: bytes, data: st.DataObject) -> None:
    """Decoding rule 1."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    assert parse(pieces) == reference(body)


@given(BODIES)
@example(b"data: a\r\ndata: b\r\n\r\n")
def test_single_bytes_give_the_same_events(body: bytes) -> None:
    """Decoding rule 1: CR and LF in different reads end one line, not two (B-27)."""
    assert parse([body[i : i + 1] for i in range(len(body))]) == reference(body)


def test_a_line_separator_inside_the_data_does_not_end_the_line() -> None:
    """B-31, B-32."""
    text = "a\u2028b\u0085c✅d\x0be"

    assert parse([f"data: {text}\n\n".encode()]) == [SseEvent(text)]


def test_an_event_with_an_empty_data_line_is_an_event_and_one_without_is_none() -> None:
    """An MCP stream begins with an id and an empty data line."""
    parser = SseParser()

    assert parser.feed(b"id: 1\ndata:\n\nid: 2\n\n") == [SseEvent("", "message", "1")]
    assert parser.last_event_id == "2"


def test_the_reconnection_time_is_seconds() -> None:
    """Decision 26."""
    parser = SseParser()
    parser.feed(b"retry: 1500\nretry: soon\n\n")

    assert parser.retry == 1.5


def test_an_event_that_never_ends_is_refused() -> None:
    """A body without an end must not fill the memory."""
    parser = SseParser(max_event_bytes=1000)
    parser.feed(b"data: " + b"x" * 900)

    with pytest.raises(HttpBodyTooLarge):
        parser.feed(b"y" * 200)


def test_many_events_are_not_taken_for_one_that_is_too_long() -> None:
    """The limit is for an event, not for the stream."""
    parser = SseParser(max_event_bytes=1000)
    for _ in range(50):
        assert len(parser.feed(b"data: " + b"x" * 400 + b"\n\n")) == 1


class Body:
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.asked: list[float | None] = []

    def read_some(self, idle_until: float | None = None) -> bytes:
        self.asked.append(idle_until)
        return self.pieces.pop(0) if self.pieces else b""


def test_comments_do_not_push_the_idle_limit_back() -> None:
    """F-07: only events count as a sign of life."""
    body = Body(b": ping\n\n", b": ping\n\n", b"data: 1\n\n", b": ping\n\n")

    batches = list(read_event_batches(body, SseParser(), idle=60.0))

    assert batches == [[SseEvent("1")]]
    assert body.asked[0] == body.asked[1] == body.asked[2]
    assert body.asked[3] is not None
    assert body.asked[3] > (body.asked[2] or 0)
    assert body.asked[4] == body.asked[3]


def test_bytes_that_were_read_already_come_first() -> None:
    """The caller looks at the first bytes to see what kind of body it is."""
    body = Body(b"ta: 1\n\ndata: 2")

    assert list(read_event_batches(body, SseParser(), None, first=b"da")) == [
        [SseEvent("1")],
        [SseEvent("2")],
    ]
