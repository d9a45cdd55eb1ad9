"""The offline model speaks the real dialect over real HTTP (issue 2, part 7)."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from yiemagent.demo.offline import OfflineModel
from yiemagent.testing import WAIT


def _events(response: requests.Response) -> list[str]:
    assert response.headers["Content-Type"].startswith("text/event-stream")
    blocks = [block for block in response.text.split("\n\n") if block]
    assert all(block.startswith("data: ") for block in blocks)
    return [block.removeprefix("data: ") for block in blocks]


def _deltas(response: requests.Response) -> list[dict[str, Any]]:
    events = _events(response)
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def test_a_plain_answer_has_the_shape_of_the_dialect(talk: Any) -> None:
    """Chat Completions, not streamed."""
    talk.messages.append({"role": "user", "content": "hello"})

    body = talk.post().json()

    assert body["object"] == "chat.completion"
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"].startswith("Hello")
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_tool_calls_have_ids_and_json_arguments(talk: Any) -> None:
    """Each id is unique, the arguments are a JSON text."""
    talk.messages.append({"role": "user", "content": "Compare Barolo and Barbaresco"})

    choice = talk.post().json()["choices"][0]

    assert choice["finish_reason"] == "tool_calls"
    calls = choice["message"]["tool_calls"]
    assert len({call["id"] for call in calls}) == len(calls) > 1
    assert json.loads(calls[0]["function"]["arguments"]) == {"region": "Barolo"}


def test_one_call_at_a_time_when_parallel_calls_are_not_wanted(talk: Any) -> None:
    """``parallel_tool_calls: false`` is kept."""
    talk.messages.append({"role": "user", "content": "Compare Barolo and Barbaresco"})

    calls = talk.post(parallel_tool_calls=False).json()["choices"][0]["message"]["tool_calls"]

    assert len(calls) == 1


def test_a_streamed_text_is_the_plain_one_in_pieces(talk: Any) -> None:
    """Server-sent events, one chunk each, ``[DONE]`` last."""
    talk.messages.append({"role": "user", "content": "what can you do?"})
    plain = talk.post().json()["choices"][0]["message"]["content"]

    chunks = _deltas(talk.post(stream=True))

    pieces = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks]
    assert "".join(pieces) == plain
    assert len(pieces) > 10
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_streamed_arguments_come_in_fragments_that_join(talk: Any) -> None:
    """Id and name first, then pieces of the JSON text by index."""
    talk.messages.append({"role": "user", "content": "Which reds from Italy are below 30 euros?"})

    chunks = _deltas(talk.post(stream=True))

    fragments = [
        call
        for chunk in chunks
        for call in chunk["choices"][0]["delta"].get("tool_calls", ())
        if chunk["choices"]
    ]
    assert fragments[0]["function"]["name"] == "search_wines"
    assert fragments[0]["id"]
    arguments = json.loads("".join(fragment["function"]["arguments"] for fragment in fragments))
    assert arguments == {"colour": "red", "country": "Italy", "max_price": 30.0, "max_results": 5}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_usage_is_streamed_only_when_asked_for(talk: Any) -> None:
    """``stream_options.include_usage`` adds one chunk without choices."""
    talk.messages.append({"role": "user", "content": "hello"})

    without = _deltas(talk.post(stream=True))
    with_usage = _deltas(talk.post(stream=True, stream_options={"include_usage": True}))

    assert not any("usage" in chunk for chunk in without)
    assert with_usage[-1]["choices"] == []
    assert with_usage[-1]["usage"]["total_tokens"] > 0


def test_the_same_conversation_gets_the_same_answer(talk: Any) -> None:
    """Deterministic: nothing random, no memory between requests."""
    talk.messages.append({"role": "user", "content": "the cheapest Barolo"})

    first, second = (talk.post().json()["choices"] for _ in range(2))

    assert first == second


def test_models_are_listed(offline: OfflineModel) -> None:
    """What a client asks a local server for."""
    listed = requests.get(f"{offline.base_url}/models", timeout=WAIT).json()
    assert [model["id"] for model in listed["data"]] == [offline.name]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": []}, "messages must be a non-empty array"),
        ({"messages": "hi"}, "messages must be a non-empty array"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0] has the unknown role 'robot'"),
        ({"messages": [{"role": "user"}]}, "messages[0] needs content"),
        ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "1"}]}, "no call of that id is open"),
        ({"model": ""}, "You must provide a model"),
        ({"temperature": 9}, "temperature must be between 0 and 2"),
        ({"tools": []}, "tools must be a non-empty array"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "has the name 'a b'"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}]}, "type object"),
        ({"tool_choice": "sometimes"}, "tool_choice 'sometimes' is unknown"),
        ({"tool_choice": {"type": "function", "function": {"name": "nope"}}}, "not among the tools"),
    ],
)
def test_a_bad_request_is_refused_in_words(talk: Any, change: dict[str, Any], words: str) -> None:
    """The stand-in is as strict as the services, so that it finds our own mistakes."""
    talk.messages.append({"role": "user", "content": "hello"})

    response = talk.post(**change)

    assert response.status_code == 400
    assert words in response.json()["error"]["message"]


def test_calls_that_stay_unanswered_are_refused(talk: Any) -> None:
    """Tool calls and results have to pair up."""
    talk.messages.append({"role": "user", "content": "the cheapest Barolo"})
    talk.messages.append(talk.post().json()["choices"][0]["message"])
    talk.messages.append({"role": "user", "content": "well?"})

    response = talk.post()

    assert response.status_code == 400
    assert "comes before the tool messages that answer" in response.json()["error"]["message"]


def test_a_body_that_is_no_json_is_refused(offline: OfflineModel) -> None:
    """400 with the reason."""
    response = requests.post(f"{offline.base_url}/chat/completions", data=b"{", timeout=WAIT)
    assert response.status_code == 400
    assert "not valid JSON" in response.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_404(offline: OfflineModel, method: str) -> None:
    """And says so in the dialect's words."""
    response = requests.request(method, f"{offline.base_url}/nothing", json={}, timeout=WAIT)
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_body_without_a_length_is_refused(offline: OfflineModel) -> None:
    """Chunked requests are not read."""
    address = urlsplit(offline.base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=WAIT)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/v1/chat/completions")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        with connection.getresponse() as response:
            assert response.status == 411
            assert b"Content-Length" in response.read()


def test_closing_hangs_up_on_a_client_in_the_middle_of_a_stream() -> None:
    """A slow stream does not keep the server or its threads alive."""
    model = OfflineModel(pause=60)
    with model, requests.Session() as session:
        body = {"model": "any", "messages": [{"role": "user", "content": "hello"}], "stream": True}
        response = session.post(f"{model.base_url}/chat/completions", json=body, stream=True, timeout=WAIT)
        lines = response.iter_lines()
        next(lines)
        model.close()
        with pytest.raises(requests.RequestException):
            list(lines)
    assert not [t.name for t in threading.enumerate() if t.name.startswith("yiemagent-offline")]


def test_a_model_that_is_not_started_says_so() -> None:
    """And closing it twice is harmless."""
    model = OfflineModel()
    with pytest.raises(RuntimeError, match="not started; use it in a with block"):
        model.base_url
    model.close()
