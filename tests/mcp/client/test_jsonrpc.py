"""JSON-RPC as servers really speak it."""

from __future__ import annotations

import math

import pytest

from yiemagent.errors import McpError, McpProtocolError
from yiemagent.mcp.jsonrpc import (
    decode,
    encode,
    error_of,
    id_key,
    kind_of,
    make_error,
    make_notification,
    make_request,
    make_result,
    owner_key,
    result_of,
)


def test_a_message_survives_encoding_and_has_no_line_end_in_it() -> None:
    """E-13: one message is one line."""
    message = make_request(1, "tools/call", {"name": "é\n\r\u2028x", "arguments": {"a": [1.5, None, True]}})
    line = encode(message)
    assert b"\n" not in line
    assert b"\r" not in line
    assert decode(line) == [message]


def test_half_a_surrogate_pair_is_sent_as_an_escape() -> None:
    """Models write them; UTF-8 cannot."""
    message = make_notification("x", {"text": "\ud83d"})
    assert decode(encode(message)) == [message]


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, object()])
def test_what_json_cannot_say_is_an_error_that_names_the_method(value: object) -> None:
    """Messages name the thing."""
    with pytest.raises(McpProtocolError, match="tools/call cannot be written as JSON"):
        encode(make_request(1, "tools/call", {"arguments": value}))


def test_a_cycle_is_an_error() -> None:
    """It must not end the reader or the caller with something else."""
    loop: dict[str, object] = {}
    loop["self"] = loop
    with pytest.raises(McpProtocolError):
        encode(make_notification("x", loop))


def test_a_batch_is_read_as_its_members() -> None:
    """Protocol 2025-03-26: receiving batches is a MUST."""
    assert decode('[{"id":1,"result":{}}, 7, {"method":"x"}]') == [{"id": 1, "result": {}}, {"method": "x"}]
    assert decode("[]") == []


@pytest.mark.parametrize(
    "payload", [b"Starting server...", b"42", b'"text"', b"\xff\xfe\x00", b"{", b"null", b""]
)
def test_what_is_no_message_is_refused_with_its_text(payload: bytes) -> None:
    """Field problem 38: banners on stdout."""
    with pytest.raises(McpProtocolError, match="not a JSON-RPC message"):
        decode(payload)


def test_a_very_deep_message_is_refused() -> None:
    """A server cannot end our reader with a recursion error."""
    with pytest.raises(McpProtocolError):
        decode(b"[" * 200_000)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"id": 1, "method": "ping"}, "request"),
        ({"id": "a", "method": "ping", "result": {}}, "request"),
        ({"method": "notifications/x"}, "notification"),
        ({"method": "notifications/x", "id": None}, "notification"),
        ({"id": 1, "result": {}}, "response"),
        ({"id": None, "error": {"code": -32700}}, "response"),
        ({"error": {"code": -32700}}, "response"),
        ({"id": 1, "method": None, "result": {}}, "response"),
        ({"level": "info", "msg": "started"}, "invalid"),
        ({}, "invalid"),
    ],
)
def test_messages_are_told_apart_by_method_and_id(message: dict[str, object], kind: str) -> None:
    """E-14."""
    assert kind_of(message) == kind


def test_ids_are_compared_by_what_they_say() -> None:
    """E-07: some servers answer 7 with "7"; fact: some turn it into 7.0."""
    assert id_key(7) == id_key("7") == id_key(7.0)
    assert id_key("a") != id_key("b")
    assert id_key(None) is None
    assert id_key(True) is None
    assert id_key(1.5) == "1.5"


def test_progress_and_subscriptions_name_their_request() -> None:
    """Protocol: progressToken; subscriptionId in _meta since 2026-07-28."""
    assert owner_key(make_notification("notifications/progress", {"progressToken": 3})) == "3"
    meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": "9"}}
    assert owner_key(make_notification("notifications/tools/list_changed", meta)) == "9"
    assert owner_key(make_notification("notifications/tools/list_changed")) is None
    assert owner_key({"method": "notifications/progress", "params": []}) is None


@pytest.mark.parametrize(
    ("response", "message", "code"),
    [
        ({"id": 1, "error": {"code": -32601, "message": "Method not found"}}, "Method not found", -32601),
        ({"id": 1, "error": "broken"}, "broken", None),
        ({"id": 1, "error": {"code": -32000}}, "error -32000", -32000),
        ({"id": 1, "error": {}}, "error {}", None),
        ({"id": 1, "error": {"code": "E7", "message": "odd"}}, "odd", None),
        ({"id": 1, "result": {"x": 1}, "error": {"code": 1, "message": "both"}}, "both", 1),
    ],
)
def test_errors_of_any_shape_have_a_message(
    response: dict[str, object], message: str, code: int | None
) -> None:
    """E-07, WT-022."""
    error = error_of(response)
    assert error is not None
    assert (error.message, error.code) == (message, code)
    with pytest.raises(McpError) as caught:
        result_of(response)
    assert caught.value.code == code


def test_a_null_error_beside_a_result_is_no_error() -> None:
    """E-07: a good result must not be reported as a failure."""
    assert error_of({"id": 1, "result": {"x": 1}, "error": None}) is None
    assert result_of({"id": 1, "result": {"x": 1}, "error": None}) == {"x": 1}


@pytest.mark.parametrize("response", [{"id": 1}, {"id": 1, "result": None}, {"id": 1, "result": [1]}])
def test_a_response_without_a_result_object_breaks_the_protocol(response: dict[str, object]) -> None:
    """It is named instead of failing later with a KeyError."""
    with pytest.raises(McpProtocolError):
        result_of(response)


def test_answers_of_ours_have_the_id_they_were_asked_with() -> None:
    """Whatever kind of id the server uses."""
    assert make_result("srv-1", {})["id"] == "srv-1"
    assert make_error(7, -32601, "no", {"x": 1})["error"] == {
        "code": -32601,
        "message": "no",
        "data": {"x": 1},
    }
