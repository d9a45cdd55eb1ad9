"""Requests and their answers, over real loopback connections."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError
from yiemagent.net.errors import (
    HttpBodyTooLarge,
    HttpConnectionError,
    HttpRedirect,
    HttpTimeout,
)
from yiemagent.net.http import HttpClient, Timeouts
from yiemagent.net.lanes import Lanes, shared_lanes
from yiemagent.testing import WAIT, Gate, run_in_thread
from yiemagent.testing.loopback import LoopbackServer, ServedRequest

Serve = Callable[..., LoopbackServer]
Make = Callable[..., HttpClient]


def hello(request: ServedRequest) -> None:
    request.reply(b"hello")


def silent(request: ServedRequest) -> None:
    request.closing.wait(WAIT)


def test_a_request_arrives_as_given(serve: Serve, make_client: Make) -> None:
    """Method, path with query, headers and body."""
    server = serve(hello)
    client = make_client(headers={"X-One": "1"}, auth=lambda: {"Authorization": "Bearer key"})

    with client.request("POST", server.url + "/a?b=c", headers={"X-Two": "2"}, body=b"{}") as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        assert response.read() == b"hello"

    [request] = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/a?b=c", b"{}")
    assert request.headers["x-one"] == "1"
    assert request.headers["x-two"] == "2"
    assert request.headers["authorization"] == "Bearer key"
    assert request.headers["content-length"] == "2"


def test_each_request_over_one_connection_has_its_own_fields(serve: Serve, make_client: Make) -> None:
    """Lines of fields are kept with the connection: some of many values, under name and value."""
    server, client = serve(hello), make_client(headers={"X-Same": "1"})
    values = [str(number) for number in range(40)] * 2
    for value in values:
        client.request("POST", server.url, headers={"X-Own": value, "X-Other": "1"}, body=b"").read()

    assert [request.headers["x-own"] for request in server.requests] == values
    assert {(r.headers["x-same"], r.headers["x-other"]) for r in server.requests} == {("1", "1")}


def test_a_connection_is_kept_for_the_next_request(serve: Serve, make_client: Make) -> None:
    """Also when another thread makes it: threads come and go, connections stay."""
    server, client = serve(hello), make_client()
    for _ in range(3):
        client.request("POST", server.url, body=b"").read()
    run_in_thread(lambda: client.request("POST", server.url, body=b"").read()).get()

    assert server.connections == 1


def test_two_threads_never_share_a_connection(serve: Serve, make_client: Make) -> None:
    """A session of requests is used by one thread at a time."""
    both = threading.Barrier(2)

    def handler(request: ServedRequest) -> None:
        both.wait(WAIT)
        request.reply(request.body)

    server, client = serve(handler), make_client()
    calls = [
        run_in_thread(lambda body=body: client.request("POST", server.url, body=body).read())
        for body in (b"1", b"2")
    ]

    assert [call.get() for call in calls] == [b"1", b"2"]
    assert server.connections == 2


def test_clients_with_shared_lanes_share_connections(serve: Serve) -> None:
    """An agent made for each web request does not pay for a new connection."""
    server = serve(hello)
    lanes = Lanes()
    for _ in range(3):
        HttpClient(lanes=lanes).request("GET", server.url).read()

    assert server.connections == 1
    assert shared_lanes() is shared_lanes()
    lanes.close()


def test_closing_a_client_closes_its_connections(serve: Serve) -> None:
    """The server sees them go."""
    server = serve(hello)
    with HttpClient() as client:
        client.request("GET", server.url).read()

    server.wait_for_disconnects()


def test_a_client_that_is_forgotten_closes_its_connections(serve: Serve) -> None:
    """Nobody has to call close."""
    server = serve(hello)
    client = HttpClient()
    client.request("GET", server.url).read()
    del client

    server.wait_for_disconnects()


def test_a_kept_connection_that_died_costs_one_silent_retry(serve: Serve, make_client: Make) -> None:
    """F-27: closed without a byte of an answer, on the second request of a connection."""
    server, client = serve(hello), make_client()
    client.request("POST", server.url, body=b"1").read()

    def die_once(request: ServedRequest) -> None:
        server.handler = hello
        request.hang_up()

    server.handler = die_once

    assert client.request("POST", server.url, body=b"2").read() == b"hello"
    assert [request.body for request in server.requests] == [b"1", b"2", b"2"]
    assert server.connections == 2


def test_a_connection_that_was_closed_while_idle_is_replaced_unnoticed(
    serve: Serve, make_client: Make
) -> None:
    """F-27: the usual case, seen before the request is sent, so it is safe for every request."""
    server, client = serve(hello), make_client()
    client.request("POST", server.url, body=b"1").read()
    server.drop_connections()

    assert client.request("POST", server.url, body=b"2", resend=False).read() == b"hello"
    assert [request.body for request in server.requests] == [b"1", b"2"]


def test_the_silent_retry_happens_once(serve: Serve, make_client: Make) -> None:
    """F-27: exactly one."""
    server, client = serve(hello), make_client()
    client.request("POST", server.url, body=b"").read()
    server.handler = ServedRequest.hang_up

    with pytest.raises(HttpConnectionError) as caught:
        client.request("POST", server.url, body=b"")

    assert caught.value.cause == "closed"
    assert len(server.requests) == 3


@pytest.mark.parametrize("first", [True, False])
def test_a_request_that_must_not_arrive_twice_is_not_sent_again(
    serve: Serve, make_client: Make, first: bool
) -> None:
    """F-27: nor is one on a new connection, which did not die while idle."""
    server, client = serve(hello), make_client()
    if not first:
        client.request("POST", server.url, body=b"").read()
    before = len(server.requests)
    server.handler = ServedRequest.hang_up

    with pytest.raises(HttpConnectionError):
        client.request("POST", server.url, body=b"", resend=first)

    assert len(server.requests) == before + 1


def test_bytes_are_yielded_as_they_arrive(serve: Serve, make_client: Make) -> None:
    """Measured: iter_content waits for a full buffer when the body is not chunked."""
    gate = Gate()

    def handler(request: ServedRequest) -> None:
        request.start(length=6)
        request.send(b"one")
        gate.block()
        request.send(b"two")

    server, client = serve(handler), make_client()
    pieces = client.request("GET", server.url).iter_bytes()

    assert next(pieces) == b"one"
    gate.open()
    assert b"".join(pieces) == b"two"


def test_a_server_that_closes_after_each_answer_is_read_to_the_end(serve: Serve, make_client: Make) -> None:
    """The socket is gone with the last byte of the body."""
    server = serve(
        lambda request: (request.reply(b"hello", headers={"Connection": "close"}), request.hang_up())
    )
    client = make_client()

    assert [client.request("GET", server.url).read() for _ in range(2)] == [b"hello", b"hello"]
    assert server.connections == 2


def test_a_compressed_body_is_decompressed(serve: Serve, make_client: Make) -> None:
    """We ask for none, some send it all the same."""
    packed = gzip.compress(b"hello" * 50_000)
    server = serve(lambda request: request.reply(packed, headers={"Content-Encoding": "gzip"}))

    assert make_client().request("GET", server.url).read() == b"hello" * 50_000
    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_a_body_above_the_limit_is_refused(serve: Serve, make_client: Make) -> None:
    """A body without an end must not fill the memory."""
    server = serve(lambda request: request.reply(b"x" * 300_000))

    with pytest.raises(HttpBodyTooLarge, match="more than 100000 bytes"):
        make_client().request("GET", server.url).read(limit=100_000)


def test_finishing_keeps_the_connection_when_the_body_ends(serve: Serve, make_client: Make) -> None:
    """The end mark behind [DONE] is swallowed."""
    gate = Gate()

    def handler(request: ServedRequest) -> None:
        request.start()
        request.chunk(b"all of it")
        request.send(b"0\r\n\r\n")
        gate.open()

    server, client = serve(handler), make_client()
    for _ in range(2):
        response = client.request("GET", server.url)
        assert response.read_some() == b"all of it"
        gate.block()
        response.finish()

    assert server.connections == 1


def test_finishing_leaves_a_server_that_does_not_end_its_body(serve: Serve, make_client: Make) -> None:
    """B-44: [DONE], but the socket stays open."""

    def handler(request: ServedRequest) -> None:
        request.start()
        request.chunk(b"all of it")
        request.closing.wait(WAIT)

    server, client = serve(handler), make_client()
    response = client.request("GET", server.url)
    response.read_some()
    response.finish()
    server.handler = hello

    assert client.request("GET", server.url).read() == b"hello"
    assert server.connections == 2


def test_a_body_shorter_than_its_length_is_truncated(serve: Serve, make_client: Make) -> None:
    """It is not taken for the whole."""

    def handler(request: ServedRequest) -> None:
        request.start(length=100)
        request.send(b"half")
        request.hang_up()

    response = make_client().request("GET", serve(handler).url)
    with pytest.raises(HttpConnectionError) as caught:
        response.read()

    assert caught.value.cause == "truncated"


def test_a_length_that_is_given_twice_counts(serve: Serve, make_client: Make) -> None:
    """RFC 9110: gateways that merge headers repeat it; whether a body is whole must not depend on that."""

    def handler(request: ServedRequest) -> None:
        request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10, 10\r\n\r\nhalf")
        request.hang_up()

    with pytest.raises(HttpConnectionError) as caught:
        make_client().request("GET", serve(handler).url).read()

    assert caught.value.cause == "truncated"


def test_what_comes_behind_a_body_is_no_part_of_it(serve: Serve, make_client: Make) -> None:
    """A server that miscounts; the connection is not used again."""

    def handler(request: ServedRequest) -> None:
        request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, world")

    server, client = serve(handler), make_client()

    assert [client.request("GET", server.url).read() for _ in range(2)] == [b"hello", b"hello"]


def test_a_chunked_body_without_its_last_chunk_is_truncated(serve: Serve, make_client: Make) -> None:
    """B-43."""

    def handler(request: ServedRequest) -> None:
        request.start()
        request.chunk(b"half")
        request.hang_up()

    response = make_client().request("GET", serve(handler).url)
    with pytest.raises(HttpConnectionError) as caught:
        response.read()

    assert caught.value.cause == "truncated"


CHUNKED = b"5;name=x\r\nhello\r\n0a\r\n, world\r\n!\r\n1\r\n\n\r\n0\r\nTrailer: 1\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_a_chunked_body_is_the_same_however_it_arrives(serve: Serve, make_client: Make, size: int) -> None:
    """Extensions, line ends inside chunks, trailers; the connection is kept."""

    def handler(request: ServedRequest) -> None:
        request.start()
        for at in range(0, len(CHUNKED), size):
            request.send(CHUNKED[at : at + size])

    server, client = serve(handler), make_client()

    assert [client.request("GET", server.url).read() for _ in range(3)] == [b"hello, world\r\n!\n"] * 3
    assert server.connections == 1


def test_chunks_that_arrived_together_are_handed_out_together(serve: Serve, make_client: Make) -> None:
    """A stream of small chunks costs by the read, not by the chunk."""

    def handler(request: ServedRequest) -> None:
        request.start()
        request.send(b"1\r\na\r\n" * 1000)
        request.send(b"0\r\n\r\n")

    pieces = list(make_client().request("GET", serve(handler).url).iter_bytes())

    assert b"".join(pieces) == b"a" * 1000
    assert len(pieces) < 100


@pytest.mark.parametrize("framing", [b"xyz\r\nhello\r\n", b"-5\r\nhello\r\n", b"\xff\r\n", b"1" * 100_000])
def test_a_chunk_without_a_size_is_not_http(serve: Serve, make_client: Make, framing: bytes) -> None:
    """Nothing is guessed."""

    def handler(request: ServedRequest) -> None:
        request.start()
        request.send(framing)
        request.hang_up()

    with pytest.raises(HttpConnectionError):
        make_client().request("GET", serve(handler).url).read()


def test_a_redirect_is_an_error_that_names_the_goal(serve: Serve, make_client: Make) -> None:
    """C-44: requests would follow a POST with a GET."""
    server = serve(lambda request: request.reply(b"", 301, {"Location": "https://new.test/v1?token=s3cret"}))

    with pytest.raises(HttpRedirect, match=r"POST .* answered 301 .*'https://new.test/v1'") as caught:
        make_client().request("POST", server.url, body=b"{}")

    assert caught.value.location.endswith("s3cret")
    assert "s3cret" not in str(caught.value)
    assert len(server.requests) == 1


def test_no_answer_is_a_first_byte_timeout(serve: Serve, make_client: Make) -> None:
    """The limit and the URL are named, the query is not."""
    server = serve(silent)
    client = make_client(timeouts=Timeouts(first_byte=0.05))

    with pytest.raises(HttpTimeout, match=r"http://127.0.0.1:\d+/x sent no answer for 0.05 s") as caught:
        client.request("GET", server.url + "/x?key=s3cret")

    assert (caught.value.phase, caught.value.limit) == ("first_byte", 0.05)


def test_silence_in_the_body_is_an_idle_timeout(serve: Serve, make_client: Make) -> None:
    """Counted from the last byte."""

    def handler(request: ServedRequest) -> None:
        request.start()
        request.chunk(b"one")
        silent(request)

    response = make_client(timeouts=Timeouts(idle=0.05)).request("GET", serve(handler).url)
    assert response.read_some() == b"one"
    with pytest.raises(HttpTimeout) as caught:
        response.read_some()

    assert (caught.value.phase, caught.value.limit) == ("idle", 0.05)


def test_a_dripping_body_does_not_outlive_the_deadline(serve: Serve, make_client: Make) -> None:
    """F-07: each byte comes in time, all of them do not."""

    def handler(request: ServedRequest) -> None:
        request.start()
        while not request.closing.wait(0.01):
            request.chunk(b".")

    server = serve(handler)
    response = make_client().request("GET", server.url, deadline=time.monotonic() + 0.1)
    with pytest.raises(HttpTimeout) as caught:
        response.read()

    assert caught.value.phase == "total"


@pytest.mark.parametrize("seconds", [-1.0, 0.05])
def test_the_deadline_holds_before_the_headers(serve: Serve, make_client: Make, seconds: float) -> None:
    """A deadline that has passed sends nothing."""
    server = serve(silent)
    with pytest.raises(HttpTimeout) as caught:
        make_client().request("GET", server.url, deadline=time.monotonic() + seconds)

    assert caught.value.phase == "total"
    assert len(server.requests) <= (seconds > 0)


@pytest.mark.parametrize(
    ("url", "cause"),
    [("http://127.0.0.1:9/", "connect"), ("http://nowhere.invalid/", "dns")],
)
def test_no_connection_names_its_cause(make_client: Make, url: str, cause: str) -> None:
    """Port 9 is closed; .invalid has no address."""
    with pytest.raises(HttpConnectionError) as caught:
        make_client().request("GET", url, signal=AbortSignal())

    assert caught.value.cause == cause


def test_something_that_is_not_http_names_its_cause(serve: Serve, make_client: Make) -> None:
    """A server of another protocol on that port."""

    def handler(request: ServedRequest) -> None:
        request.take_over().sendall(b"220 mail.test ESMTP\r\n")

    with pytest.raises(HttpConnectionError) as caught:
        make_client().request("GET", serve(handler).url)

    assert caught.value.cause == "protocol"


@pytest.mark.parametrize("url", ["127.0.0.1/x", "ftp://a.test/", "http://", "", "http://[bad/"])
def test_an_url_that_cannot_work_is_a_configuration_error(make_client: Make, url: str) -> None:
    """Nothing is sent."""
    with pytest.raises(ConfigurationError, match="URL"):
        make_client().request("GET", url)


def test_a_header_with_a_line_break_is_refused_without_showing_it() -> None:
    """Measured: the error of requests has the key in its text."""
    with pytest.raises(ConfigurationError, match="header 'Authorization'") as caught:
        HttpClient(headers={"Authorization": "Bearer s3cret\n"})

    assert "s3cret" not in str(caught.value)


def test_user_information_of_the_url_becomes_basic_authorization(serve: Serve, make_client: Make) -> None:
    """As requests does; the message of an error does not show it."""
    server = serve(hello)
    url = server.url.replace("//", "//user:s3cret@")
    make_client().request("GET", url).read()
    server.handler = silent
    with pytest.raises(HttpTimeout) as caught:
        make_client(timeouts=Timeouts(first_byte=0.05)).request("GET", url)

    assert server.requests[0].headers["authorization"] == "Basic dXNlcjpzM2NyZXQ="
    assert "s3cret" not in str(caught.value)
