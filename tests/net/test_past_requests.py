"""The two ways to send: through requests when the program has it, past it when nothing needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import responses
from hypothesis import example, given
from hypothesis import strategies as st

from yiemagent import Agent, OpenAIChat
from yiemagent.net.environment import prepared_url
from yiemagent.net.http import HttpClient
from yiemagent.net.target import _PLAIN, _read
from yiemagent.testing.loopback import LoopbackServer, ServedRequest

Serve = Callable[..., LoopbackServer]
Make = Callable[..., HttpClient]

ANSWER = {"choices": [{"message": {"role": "assistant", "content": "mocked"}, "finish_reason": "stop"}]}


@pytest.fixture(autouse=True)
def _both_ways() -> None:
    """Each test here says itself which way it takes."""


def hello(request: ServedRequest) -> None:
    request.reply(b"hello")


@given(st.from_regex(_PLAIN, fullmatch=True))
@example("http://127.0.0.1:8080/v1/chat/completions")
@example("https://models.test")
@example("http://h//a/;x=1,2/b:c@d/")
@example("http://1.2/x-._~!$&'()*+,;=:@")
@example("http://h/a/../b")
@example("http://h/./b")
@example("http://H/a%41?b=\N{LATIN SMALL LETTER A WITH DIAERESIS} c")
@example("http://user:pass@h:08/")
def test_a_plain_url_is_what_requests_makes_of_it(url: str) -> None:
    """C-44 to C-47: reading it here must not change where a request goes."""
    assert _read(url) == prepared_url(url)


@pytest.mark.servers
def test_a_plain_conversation_loads_no_requests(serve: Serve) -> None:
    """Goal of the import to first answer: loading requests takes a quarter of it."""
    server = serve(lambda request: request.reply(json.dumps(ANSWER).encode(), headers={}))
    script = (
        "import sys; from yiemagent import Agent, OpenAIChat\n"
        f"model = OpenAIChat('m', base_url={server.url + '/v1'!r}, api_key='key')\n"
        "print(Agent(model).run('x').text, sorted({'requests', 'certifi', 'jsonschema'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert (out.stdout.strip(), out.stderr) == ("mocked []", "")


@pytest.mark.servers
@pytest.mark.parametrize("proxy", ["", "http://proxy.test:3128"])
def test_a_warm_model_has_loaded_what_its_first_request_needs(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    """The first user of a web worker does not wait for it; with a proxy requests is needed, too."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    server = serve(lambda request: request.reply(json.dumps(ANSWER).encode(), headers={}))
    script = (
        "import sys; from yiemagent import Agent, OpenAIChat\n"
        f"model = OpenAIChat('m', base_url={server.url + '/v1'!r}, api_key='key')\n"
        "model.warm_up(); warm = set(sys.modules)\n"
        "text = Agent(model).run('x').text\n"
        "late = sorted(set(sys.modules) - warm)\n"
        "print(text, [name for name in late if not name.startswith('yiemagent.loop')])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert (out.stdout.strip(), out.stderr) == ("mocked []", "")


@pytest.mark.servers
@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="the system has proxies of its own")
@pytest.mark.parametrize(
    ("name", "loaded"), [("NO_PROXY", False), ("HTTPS_PROXY", True), ("all_proxy", True)]
)
def test_requests_is_loaded_for_the_proxies_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, loaded: bool
) -> None:
    """A list of exceptions is no proxy."""
    monkeypatch.setenv(name, "http://proxy.test:3128")
    script = (
        "import sys; from yiemagent.net.target import make_target\n"
        "make_target('http://models.test/v1', verify=None, cert=None, proxies=None)\n"
        "print('requests' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert (out.stdout.strip(), out.stderr) == (str(loaded), "")


@pytest.mark.parametrize("warm", [False, True])
def test_responses_sees_what_a_model_sends(serve: Serve, monkeypatch: pytest.MonkeyPatch, warm: bool) -> None:
    """The design's package for tests: also when a connection was opened before requests was loaded."""
    server = serve(hello)
    url = f"{server.url}/v1"
    if warm:
        monkeypatch.setattr("yiemagent.net.lane._requests_is_loaded", lambda: False)
        with pytest.raises(Exception, match="hello"):
            Agent(OpenAIChat("m", base_url=url, api_key="key", max_retries=0)).run("x")
    monkeypatch.setattr("yiemagent.net.lane._requests_is_loaded", lambda: True)
    with responses.RequestsMock() as mock:
        mock.add(responses.POST, f"{url}/chat/completions", json=ANSWER)
        result = Agent(OpenAIChat("m", base_url=url, api_key="key")).run("x")

        assert result.text == "mocked"
        [call] = mock.calls
        assert call.request.headers["Authorization"] == "Bearer key"
        assert json.loads(call.request.body)["messages"] == [{"role": "user", "content": "x"}]
    assert len(server.requests) == int(warm)


@pytest.mark.parametrize("ways", [(True, False, True), (False, True, False)])
def test_both_ways_share_a_kept_connection(
    serve: Serve, make_client: Make, monkeypatch: pytest.MonkeyPatch, ways: tuple[bool, ...]
) -> None:
    """F-27: loading requests in the middle of a program closes nothing."""
    server, client = serve(hello), make_client()
    for loaded in ways:
        monkeypatch.setattr("yiemagent.net.lane._requests_is_loaded", lambda loaded=loaded: loaded)
        assert client.request("GET", f"{server.url}/a").read() == b"hello"

    assert server.connections == 1


def test_the_same_request_goes_out_either_way(
    serve: Serve, make_client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte: line, headers and their order, body."""
    server = serve(hello)
    seen: list[Any] = []
    for loaded in (True, False):
        monkeypatch.setattr("yiemagent.net.lane._requests_is_loaded", lambda loaded=loaded: loaded)
        make_client(headers={"X-Mine": "1"}).request("POST", f"{server.url}/v1/x?q=a b", body=b"{}").read()
        request = server.requests[-1]
        seen.append((request.method, request.path, list(request.headers.items()), request.body))

    assert seen[0] == seen[1]
    assert seen[0][1] == "/v1/x?q=a%20b"
