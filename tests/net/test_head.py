"""The head of an answer means here what it means to http.client, however it is read."""

from __future__ import annotations

import http.client
import io
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from yiemagent.net.head import HeadResponse

METHODS = st.sampled_from(["GET", "HEAD", "POST"])


@pytest.fixture(autouse=True)
def _both_ways() -> None:
    """Nothing here goes through requests or past it."""


class Pieces(io.RawIOBase):
    """A socket whose data arrives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = data
        self._size = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        most = min(self._size, len(buffer))
        piece, self._data = self._data[:most], self._data[most:]
        buffer[: len(piece)] = piece
        return len(piece)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)


def begun(kind: type[http.client.HTTPResponse], data: bytes, method: str, size: int) -> Any:
    """All that *kind* makes of *data*: what a reader of the response can see, and what is left to read."""
    response: Any = kind(Pieces(data, size), method=method)  # type: ignore[arg-type]
    try:
        response.begin()
    except (http.client.HTTPException, OSError) as error:
        return type(error), str(error)
    return (
        (response.version, response.status, response.code, response.reason, response.msg is response.headers),
        response.headers.items(),
        (response.chunked, response.chunk_left, response.length, response.will_close),
        response.fp.read(),
    )


def assert_the_same(head: bytes, method: str, size: int = 65_536) -> None:
    """*head* and a body, read both ways."""
    data = head + b'{"a": 1}'
    assert begun(HeadResponse, data, method, size) == begun(http.client.HTTPResponse, data, method, size)


NAMES = st.sampled_from(
    ["Content-Length", "content-length", "Transfer-Encoding", "Connection", "Content-Type", "X-A", "x_b", "!"]
)
VALUES = st.sampled_from(
    [
        "8",
        " 8",
        "-1",
        "8, 8",
        "",
        "\t chunked",
        "Chunked",
        "gzip, chunked",
        "close",
        "keep-alive, Close",
        "\xe4 \xff",
    ]
)
FIELDS = st.lists(st.builds("{}:{}".format, NAMES, VALUES))
STATUSES = st.sampled_from(
    ["200 OK", "204 No Content", "304 Not Modified", "404 ", "503", "299   two  words "]
)


@given(STATUSES, FIELDS, METHODS)
@example("200 OK", ["Content-Length: 8", "X-A: 1 \t "], "GET")
@example("304 Not Modified", ["Content-Length: 8"], "GET")
@example("204 No Content", ["Content-Length: 8"], "GET")
@example("200 OK", ["Content-Length: 8"], "HEAD")
@example("200 OK", ["Content-Length: 8", "Connection: keep-alive, Close"], "GET")
@example("200 OK", ["content-length: 8", "Content-Length: 9"], "GET")
@example("200 OK", ["Content-Length: 8", "transfer-encoding: Chunked"], "GET")
@example("200 OK", ["Transfer-Encoding: gzip, chunked"], "GET")
def test_an_ordinary_head(status: str, fields: list[str], method: str) -> None:
    """Faster than the HTTP it wraps, and nobody can tell."""
    assert_the_same("\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode("latin-1"), method)


@given(st.binary(max_size=40), st.binary(max_size=40), METHODS)
@example(b"", b" folded", "GET")
@example(b"", b"no name", "GET")
@example(b"", b": no name", "GET")
@example(b"", b"A B: 1", "GET")
@example(b"", b"A: 1\rB: 2", "GET")
@example(b"", b"A: 1\nContent-Length: 2", "GET")
@example(b"", b"A: 1\r\n\x0c", "GET")
@example(b"", b"A: \x00", "GET")
@example(b"", b"A: \x85B: 2", "GET")
@example(b"\r\n", b"", "GET")
@example(b"HTTP/1.1 100 Continue\r\n\r\n", b"A: 1", "GET")
@example(b"HTTP/1.1 103 Early Hints\r\nLink: 1\r\n\r\n", b"A: 1", "GET")
@example(b"HTTP/1.1 99\r\n", b"", "GET")
@example(b"HTTP/1.1 2000 OK\r\n", b"", "GET")
@example(b"HTTP/1.0 200 OK\r\n", b"Content-Length: 8", "GET")
@example(b"HTTP/1.1\r\n", b"", "GET")
@example(b"ICY 200 OK\r\n", b"", "GET")
def test_a_head_with_anything_in_it(before: bytes, after: bytes, method: str) -> None:
    """What is not ordinary is judged as ever."""
    assert_the_same(
        before + b"HTTP/1.1 200 OK\r\nA: 1\r\n" + after + b"\r\nContent-Length: 8\r\n\r\n", method
    )


@given(st.integers(1, 80))
def test_a_head_that_arrives_in_pieces(size: int) -> None:
    """What has arrived is not lost by having been looked at."""
    assert_the_same(b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 8\r\n\r\n", "GET", size)


@pytest.mark.parametrize("number", [100, 101])
@pytest.mark.parametrize("length", [10, 20_000, 70_000])
def test_a_head_of_many_or_long_fields(number: int, length: int) -> None:
    """The limits stay those of http.client."""
    fields = b"".join(
        b"X-%d: %s\r\n" % (index, b"x" * (length if index == 0 else 3)) for index in range(number)
    )
    assert_the_same(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n", "GET")


def test_a_connection_that_ends_without_a_head() -> None:
    """F-27: told by its own error."""
    assert begun(HeadResponse, b"", "GET", 10) == begun(http.client.HTTPResponse, b"", "GET", 10)
