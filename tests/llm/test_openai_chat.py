"""``OpenAIChat``: attempts, aborts, timeouts, keys and hooks, over real loopback HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    InvalidResponse,
    LlmTimeout,
    StreamTruncated,
)
from yiemagent.llm import reading
from yiemagent.llm.openai_chat import OpenAIChat
from yiemagent.llm.retry import RetryPolicy
from yiemagent.messages import UserMessage
from yiemagent.model import Llm, LlmContext, StreamOptions
from yiemagent.testing import WAIT, Gate, run_in_thread
from yiemagent.testing.loopback import ServedRequest

Chat = Callable[..., Any]
Ask = Callable[..., Any]

FAST = RetryPolicy(retries=2, base=0.001, jitter=lambda: 0.0)


def completion(text: str = "fine", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], **more}


def event(content: str | None = None, finish: str | None = None) -> str:
    choice = {"index": 0, "delta": {"content": content} if content else {}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


def fine(request: ServedRequest) -> None:
    if request.json.get("stream"):
        request.stream([event("fine"), event(finish="stop"), "data: [DONE]\n\n"])
    else:
        request.reply(completion())


class Sequence:
    """Answers one request after the other as told, the last way for ever."""

    def __init__(self, *answers: Callable[[ServedRequest], object]) -> None:
        self.answers = list(answers)

    def __call__(self, request: ServedRequest) -> None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer(request)


def status(code: int, **headers: str) -> Callable[[ServedRequest], object]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: request.reply({"error": {"message": "no"}}, code, named)


# -- asking ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "listening", "streams"),
    [
        ("auto", True, True),
        ("auto", False, False),
        (True, False, True),
        (False, True, False),
        ("always", False, True),
        ("never", True, False),
    ],
)
def test_events_are_streamed_when_somebody_listens_or_as_told(
    chat: Chat, ask: Ask, mode: Any, listening: bool, streams: bool
) -> None:
    """A listener gets the same events either way, nobody else gets any."""
    llm, server = chat(fine, stream=mode)

    asked = ask(llm, want_deltas=listening)

    assert asked.message.text == "fine"
    assert ("stream" in server.requests[0].json) is streams
    assert asked.types == (
        ["start", "text_start", "text_delta", "text_end", "done"] if listening else ["done"]
    )


def test_an_answer_says_where_it_came_from(chat: Chat, ask: Ask) -> None:
    """Enough to tell later whether it is the model's own."""
    llm, _ = chat(lambda request: request.reply(completion(id="r1", model="m-2026")))

    message = ask(llm).message

    assert (message.api, message.provider, message.model) == ("openai-chat", "openai-compatible", "m")
    assert message.response_id == "r1"


def test_it_is_an_llm_that_can_be_aborted(chat: Chat) -> None:
    """The loop runs it on its own thread."""
    llm, _ = chat(fine)

    assert isinstance(llm, Llm)
    assert llm.abortable is True
    assert llm.info.api == "openai-chat"


def test_connections_are_kept_between_model_objects(chat: Chat, ask: Ask) -> None:
    """An agent made for each web request does not open a connection for each."""
    llm, server = chat(fine)
    for _ in range(3):
        ask(llm)
        ask(OpenAIChat("m", server.url + "/v1", ""))

    assert server.connections == 1


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("", "/chat/completions"),
        ("/v1beta/openai/", "/v1beta/openai/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1?api-version=7", "/v1/chat/completions?api-version=7"),
    ],
)
def test_the_base_url_is_taken_in_its_usual_forms(chat: Chat, ask: Ask, base: str, path: str) -> None:
    """C-45."""
    llm, server = chat(fine, path=base)
    ask(llm)

    assert server.requests[0].path == path


def test_many_deltas_cost_one_event_each(chat: Chat, ask: Ask) -> None:
    """No event carries what came before it."""
    pieces = [event(f"{number} ") for number in range(300)]
    llm, _ = chat(lambda request: request.stream([*pieces, event(finish="stop"), "data: [DONE]\n\n"]))

    asked = ask(llm)

    deltas = [one.delta for one in asked.events if one.type == "text_delta"]
    assert deltas == [f"{number} " for number in range(300)]
    assert asked.message.text == "".join(deltas)


# -- keys --------------------------------------------------------------------------------


def test_the_key_is_stripped_and_shown_nowhere(chat: Chat, ask: Ask) -> None:
    """C-41: a key read from a file; the provider's error repeats it."""

    def handler(request: ServedRequest) -> None:
        request.reply({"error": {"message": f"bad {request.headers['authorization']}"}}, 401)

    llm, server = chat(handler, api_key=" sk-s3cret\n")
    asked = ask(llm)

    assert server.requests[0].headers["authorization"] == "Bearer sk-s3cret"
    assert isinstance(asked.error, AuthenticationFailed)
    for text in (str(asked.error), repr(asked.error), repr(llm), asked.message.error_message):
        assert "s3cret" not in text


def test_a_key_that_no_header_can_hold_is_not_shown(chat: Chat, ask: Ask) -> None:
    """C-41."""
    llm, server = chat(fine, api_key="sk-s3\ncret")
    asked = ask(llm)

    assert asked.error.kind == "configuration"
    assert "cret" not in str(asked.error)
    assert server.requests == []


def test_the_key_of_the_call_wins(chat: Chat, ask: Ask) -> None:
    """``get_api_key`` of the loop, for keys that change."""
    llm, server = chat(fine, api_key="one")
    ask(llm, api_key=" two ")
    ask(llm)

    assert [request.headers["authorization"] for request in server.requests] == ["Bearer two", "Bearer one"]


def test_no_key_means_no_header_for_a_local_server(chat: Chat, ask: Ask) -> None:
    """C-41: an empty one too."""
    llm, server = chat(fine, api_key="  ")
    ask(llm)

    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("base_url", "variable"),
    [(None, "OPENAI_API_KEY"), ("https://api.mistral.ai/v1", "MISTRAL_API_KEY")],
)
def test_a_missing_key_is_named_before_anything_is_sent(
    ask: Ask, base_url: str | None, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variable that it is looked for in."""
    monkeypatch.delenv(variable, raising=False)
    asked = ask(OpenAIChat("m", base_url))

    assert isinstance(asked.error, AuthenticationFailed)
    assert f"set {variable}" in str(asked.error)


def test_key_and_address_come_from_the_environment(
    serve: Callable[..., Any], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``OPENAI_API_KEY`` and ``OPENAI_BASE_URL``."""
    server = serve(fine)
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")

    assert ask(OpenAIChat("m")).message.text == "fine"
    assert server.requests[0].headers["authorization"] == "Bearer from-env"


# -- attempts ----------------------------------------------------------------------------


@pytest.mark.parametrize("listening", [True, False])
@pytest.mark.parametrize(
    "trouble",
    [
        status(500),
        status(429),
        ServedRequest.hang_up,
        ServedRequest.reset,
        lambda request: request.reply(b"<html>busy</html>"),
        lambda request: request.reply(b""),
        lambda request: request.reply(completion("")),
        lambda request: request.stream([event(finish="stop")]),
        lambda request: request.stream([]),
        lambda request: request.stream(['data: {"error": {"code": 503}}\n\n']),
    ],
)
def test_a_failed_attempt_is_made_again(chat: Chat, ask: Ask, trouble: Any, listening: bool) -> None:
    """Each time with an event, and the answer of the second attempt is the answer."""
    llm, server = chat(Sequence(trouble, fine), retry=FAST)

    asked = ask(llm, want_deltas=listening)

    assert asked.message.text == "fine"
    assert asked.types[0] == "retry"
    assert asked.types.count("start") == listening
    assert (asked.events[0].attempt, asked.events[0].delay) == (1, 0.001)
    assert len(server.requests) == 2


def test_the_attempts_are_counted(chat: Chat, ask: Ask) -> None:
    """Two retries, then the last error."""
    llm, server = chat(status(503), retry=FAST)

    asked = ask(llm)

    assert asked.types == ["retry", "retry", "error"]
    assert [one.attempt for one in asked.events[:2]] == [1, 2]
    assert len(server.requests) == 3
    assert asked.error.status == 503


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422])
def test_what_will_not_pass_is_not_tried_again(chat: Chat, ask: Ask, code: int) -> None:
    """The request is at fault."""
    llm, server = chat(status(code), retry=FAST)

    assert ask(llm).types == ["error"]
    assert len(server.requests) == 1


def test_nothing_is_asked_again_after_a_delta_was_shown(chat: Chat, ask: Ask) -> None:
    """The listener would see two beginnings; the partial answer is attached."""
    llm, server = chat(lambda request: request.stream([event("half")]), retry=FAST)

    asked = ask(llm)

    assert isinstance(asked.error, StreamTruncated)
    assert asked.error.retryable
    assert asked.error.partial.text == "half"
    assert len(server.requests) == 1
    assert ask(llm, want_deltas=False, temperature=1).types == ["retry", "retry", "error"]


def test_a_provider_that_asks_for_too_long_a_wait_ends_the_answer(chat: Chat, ask: Ask) -> None:
    """A-51: ``max_retry_delay`` of the call."""
    llm, server = chat(status(429, retry_after="30"), retry=FAST)

    asked = ask(llm, max_retry_delay=10.0)

    assert asked.types == ["error"]
    assert asked.error.retry_after == 30.0
    assert len(server.requests) == 1


def test_a_wait_beyond_the_deadline_is_not_begun(chat: Chat, ask: Ask) -> None:
    """There would be no time left for the answer."""
    llm, server = chat(status(429, retry_after="30"), retry=FAST)

    assert ask(llm, deadline=time.monotonic() + 20).types == ["error"]
    assert len(server.requests) == 1


def test_an_abort_ends_the_wait_for_a_retry(chat: Chat) -> None:
    """F-08: half an hour of Retry-After, and nobody sleeps through it."""
    llm, server = chat(status(429, retry_after="1800"), retry=RetryPolicy(max_retry_after=0))
    signal = AbortSignal()
    gate = Gate()
    events: list[Any] = []

    def follow() -> None:
        for one in llm.stream(LlmContext("", [UserMessage("hi")]), StreamOptions(signal=signal)):  # type: ignore[arg-type]
            events.append(one)
            if one.type == "retry":
                gate.open()

    following = run_in_thread(follow)
    gate.block()
    signal.abort("enough")
    following.get()

    assert [one.type for one in events] == ["retry", "error"]
    assert events[-1].message.stop_reason == "aborted"
    assert events[-1].error is None
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("complaint", "before", "after"),
    [
        (
            "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "max_completion_tokens",
        ),
        ("Extra inputs are not permitted: stream_options", "stream_options", "stream"),
    ],
)
def test_a_complaint_about_a_parameter_is_learned_from(
    chat: Chat, ask: Ask, complaint: str, before: str, after: str
) -> None:
    """C-43, C-49: asked again at once, and never again the old way."""

    def handler(request: ServedRequest) -> None:
        if before in request.json:
            request.reply({"error": {"message": complaint}}, 400)
        else:
            fine(request)

    llm, server = chat(handler, max_retries=0)
    assert ask(llm, max_tokens=5).types[0] == "retry"
    assert ask(llm, max_tokens=5).types[0] == "start"

    assert len(server.requests) == 3
    assert all(after in request.json for request in server.requests[1:])


def test_learning_ends(chat: Chat, ask: Ask) -> None:
    """A server that complains whatever we do gets its error through."""
    llm, server = chat(lambda request: request.reply({"error": "stream_options: not permitted"}, 400))

    asked = ask(llm)

    assert asked.error.kind == "bad_request"
    assert len(server.requests) == 2


# -- aborts and timeouts -----------------------------------------------------------------


def aborted_once(llm: OpenAIChat, arrived: Callable[[], object], **options: Any) -> Any:
    """Abort when *arrived* returns; the server never goes on, so to end is to be ended."""
    signal = AbortSignal()

    def follow() -> list[Any]:
        context = LlmContext("", [UserMessage("hi")])  # type: ignore[arg-type]
        return list(llm.stream(context, StreamOptions(signal=signal, **options)))

    following = run_in_thread(follow)
    arrived()
    signal.abort("enough")
    return following.get()


def test_an_abort_before_the_headers(chat: Chat) -> None:
    """F-04: a plain request."""
    llm, server = chat(lambda request: request.closing.wait(WAIT))

    [last] = aborted_once(llm, lambda: server.wait_for_requests(1), want_deltas=False)

    assert (last.message.stop_reason, last.error) == ("aborted", None)


def test_an_abort_in_the_middle_of_a_stream_keeps_what_came(chat: Chat) -> None:
    """F-05: and no half of a call."""
    gate = Gate()
    piece = {"index": 0, "id": "c1", "function": {"name": "weather", "arguments": '{"city": '}}
    calls = json.dumps({"choices": [{"delta": {"tool_calls": [piece]}}]})

    def handler(request: ServedRequest) -> None:
        request.start()
        request.chunk(event("half") + f"data: {calls}\n\n")
        request.closing.wait(WAIT)

    llm, _ = chat(handler)
    signal = AbortSignal()

    def follow() -> list[Any]:
        events = []
        for one in llm.stream(LlmContext("", [UserMessage("hi")]), StreamOptions(signal=signal)):  # type: ignore[arg-type]
            events.append(one)
            if one.type == "toolcall_delta" or one.type == "tool_call_delta":
                gate.open()
        return events

    following = run_in_thread(follow)
    gate.block()
    signal.abort()
    last = following.get()[-1]

    assert last.message.stop_reason == "aborted"
    assert last.message.text == "half"
    assert last.message.tool_calls == ()


def test_an_abort_before_asking_sends_nothing(chat: Chat, ask: Ask) -> None:
    """F-13."""
    llm, server = chat(fine)
    signal = AbortSignal()
    signal.abort()

    asked = ask(llm, signal=signal)

    assert asked.message.stop_reason == "aborted"
    assert server.requests == []


def test_an_abort_while_an_error_is_read(chat: Chat) -> None:
    """The status has come, its explanation never does."""
    gate = Gate()

    def handler(request: ServedRequest) -> None:
        request.start(500, length=100)
        gate.open()
        request.closing.wait(WAIT)

    llm, _ = chat(handler)

    assert aborted_once(llm, gate.block)[-1].message.stop_reason == "aborted"


def silent(request: ServedRequest) -> None:
    request.closing.wait(WAIT)


def chatty(request: ServedRequest) -> None:
    """Comments, but never an event."""
    request.start()
    while not request.closing.wait(0.01):
        request.chunk(": ping\n\n")


@pytest.mark.parametrize(
    ("handler", "options", "words"),
    [
        (silent, {"first_byte_timeout": 0.05}, "sent no answer for 0.05 s"),
        (silent, {"timeout": 0.05}, "did not answer before the deadline"),
        (chatty, {"idle_timeout": 0.1}, "sent nothing for 0.1 s"),
        (chatty, {"timeout": 0.5}, "did not finish before the deadline"),
    ],
)
def test_a_silent_provider_is_a_timeout(chat: Chat, ask: Ask, handler: Any, options: Any, words: str) -> None:
    """F-06, F-07: comments are no sign of life."""
    llm, _ = chat(handler, **options)

    asked = ask(llm)

    assert isinstance(asked.error, LlmTimeout)
    assert words in str(asked.error)


def test_the_deadline_of_the_run_holds(chat: Chat, ask: Ask) -> None:
    """And is not worth another attempt."""
    llm, server = chat(silent, retry=FAST)

    asked = ask(llm, deadline=time.monotonic() + 0.05)

    assert isinstance(asked.error, LlmTimeout)
    assert (asked.types, asked.error.retryable) == (["error"], False)
    assert len(server.requests) <= 1


def test_a_stream_that_falls_silent_after_its_end_is_complete(
    chat: Chat, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-37, B-44: finish_reason was seen; [DONE] never comes, and is not waited for as for an event."""
    monkeypatch.setattr(reading, "_AFTER_END", 0.05)

    def handler(request: ServedRequest) -> None:
        request.start()
        request.chunk(event("fine") + event(finish="stop"))
        if not request.closing.wait(WAIT):
            request.chunk('data: {"error": "the client is still here"}\n\n')

    llm, _ = chat(handler, idle_timeout=60.0)
    asked = ask(llm)

    assert asked.message.text == "fine"
    assert asked.message.warnings == ("stream_not_ended_by_done",)


def test_a_stream_whose_connection_breaks_after_its_end_is_complete(chat: Chat, ask: Ask) -> None:
    """The last chunk is missing, the answer is not."""

    def handler(request: ServedRequest) -> None:
        request.start()
        request.chunk(event("fine") + event(finish="stop"))
        request.hang_up()

    llm, _ = chat(handler)

    assert ask(llm).message.text == "fine"


def test_no_server_is_a_failed_connection(ask: Ask) -> None:
    """With the deepest cause in its message."""
    asked = ask(OpenAIChat("m", "http://127.0.0.1:9/v1", "", max_retries=0))

    assert isinstance(asked.error, ConnectionFailed)
    assert "ConnectionRefused" in str(asked.error) or "refused" in str(asked.error)
    assert asked.error.retryable


def test_a_redirect_names_the_goal(chat: Chat, ask: Ask) -> None:
    """C-44."""
    llm, server = chat(
        lambda request: request.reply(b"", 301, {"Location": "https://new.test/v1"}), retry=FAST
    )

    asked = ask(llm)

    assert "https://new.test/v1" in str(asked.error)
    assert (asked.error.status, asked.error.retryable) == (301, False)
    assert len(server.requests) == 1


def test_a_404_names_the_url(chat: Chat, ask: Ask) -> None:
    """C-45: /v1 forgotten or doubled."""
    llm, server = chat(status(404))

    assert f"asked at {server.url}/v1/chat/completions" in str(ask(llm).error)


def test_a_bad_gateway_names_the_proxy(serve: Callable[..., Any], ask: Ask) -> None:
    """C-47: it was the proxy that said so."""
    proxy = serve(status(502))
    llm = OpenAIChat("m", "http://models.test/v1", "", proxies={"http": proxy.url}, max_retries=0)

    assert f"through the proxy {proxy.url}" in str(ask(llm).error)


# -- hooks -------------------------------------------------------------------------------


def test_on_payload_sees_and_may_replace_the_request(chat: Chat, ask: Ask) -> None:
    """None keeps it."""
    llm, server = chat(fine)
    seen: list[Any] = []

    def replacing(payload: Any) -> Any:
        return {**payload, "seed": 7}

    ask(llm, on_payload=seen.append)
    ask(llm, on_payload=replacing)

    assert seen[0]["messages"] == [{"role": "user", "content": "hi"}]
    assert [request.json.get("seed") for request in server.requests] == [None, 7]


def test_on_response_sees_status_and_headers_of_each_attempt(chat: Chat, ask: Ask) -> None:
    """Rate limit headers, request ids."""
    llm, _ = chat(Sequence(status(500), fine), retry=FAST)
    seen: list[Any] = []

    ask(llm, on_response=lambda code, headers: seen.append((code, headers["Content-Type"])))

    assert seen == [(500, "application/json"), (200, "text/event-stream")]


@pytest.mark.parametrize("name", ["on_payload", "on_response"])
def test_a_hook_that_raises_fails_the_answer(chat: Chat, ask: Ask, name: str) -> None:
    """It never raises into the loop."""

    def hook(*args: Any) -> None:
        raise KeyError("oops")

    llm, _ = chat(fine, retry=FAST)
    asked = ask(llm, **{name: hook})

    assert asked.error.kind == "hook_failed"
    assert name in str(asked.error)


def test_a_request_that_cannot_be_written_fails_the_answer(chat: Chat, ask: Ask) -> None:
    """Something that JSON has no form for."""
    llm, server = chat(fine)

    assert ask(llm, extra_body={"x": object()}).error.kind == "bad_request"
    assert ask(llm, [UserMessage((object(),))]).error is not None or server.requests  # type: ignore[arg-type]


# -- construction ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": ""}, "model must be"),
        ({"model": None}, "model must be"),
        ({"base_url": "127.0.0.1:1234"}, "base_url must be"),
        ({"base_url": "ftp://a"}, "base_url must be"),
        ({"stream": "sometimes"}, "stream must be"),
        ({"api_key": 7}, "api_key must be"),
        ({"quirks": {"max_token_field": "x"}}, "no quirk"),
        ({"info": {"window": 1}}, "no field of ModelInfo"),
        ({"headers": {"a b": "c"}}, "header name"),
    ],
)
def test_what_cannot_work_is_refused_at_construction(options: Any, words: str) -> None:
    """The message names the value and the way out."""
    with pytest.raises(ConfigurationError, match=words):
        OpenAIChat(**{"model": "m", **options})


def test_what_is_known_of_a_model_comes_from_the_table_and_the_user() -> None:
    """A dated name is found by its family."""
    info = OpenAIChat("gpt-5-mini-2025-08-07", info={"context_window": 5}).info

    assert (info.id, info.provider, info.context_window) == ("gpt-5-mini-2025-08-07", "openai", 5)
    assert info.input_price == 0.25


def test_an_answer_of_a_known_model_has_a_cost(chat: Chat, ask: Ask) -> None:
    """Cached tokens are cheaper and not counted twice."""
    usage = {
        "prompt_tokens": 1_000_000,
        "completion_tokens": 500_000,
        "prompt_tokens_details": {"cached_tokens": 400_000},
        "completion_tokens_details": {"reasoning_tokens": 100_000},
    }
    llm, _ = chat(lambda request: request.reply(completion(usage=usage)), model="gpt-5-mini")

    counted = ask(llm, want_deltas=False).message.usage

    assert (counted.input_tokens, counted.cache_read_tokens, counted.output_tokens) == (
        600_000,
        400_000,
        500_000,
    )
    assert counted.reasoning_tokens == 100_000
    assert counted.total_tokens == 1_500_000
    assert counted.cost == pytest.approx(0.6 * 0.25 + 0.4 * 0.025 + 0.5 * 2.0)


def test_an_empty_answer_to_a_full_window_is_an_overflow(chat: Chat, ask: Ask) -> None:
    """C-38, PI-95: a local server with a small window says nothing at all."""
    usage = {"prompt_tokens": 4096, "completion_tokens": 0}
    body = {"choices": [{"message": {"content": ""}, "finish_reason": "length"}], "usage": usage}
    llm, _ = chat(lambda request: request.reply(body), info={"context_window": 4096})

    assert ask(llm, want_deltas=False).error.kind == "context_overflow"


def test_json_that_is_cut_off_is_an_invalid_response(chat: Chat, ask: Ask) -> None:
    """With its beginning in the message."""
    llm, _ = chat(lambda request: request.reply(b'{"choices": [{"message": {"con'))

    asked = ask(llm, want_deltas=False)

    assert isinstance(asked.error, InvalidResponse)
    assert '{"choices"' in str(asked.error)


def test_an_unknown_keyword_gets_a_guess() -> None:
    """And a known one is what it says."""
    with pytest.raises(ConfigurationError, match="unknown keyword 'timout'; did you mean 'timeout'"):
        OpenAIChat("m", timout=3)  # type: ignore[call-arg]
