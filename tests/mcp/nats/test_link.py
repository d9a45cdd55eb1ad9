"""Reaching NATS: absent, lost and restarted servers, credentials, TLS."""

from __future__ import annotations

import logging
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from typing import Any

import pytest

from yiemagent.abort import AbortSignal
from yiemagent.errors import ConfigurationError, McpConnectionError, McpTimeout, RunAborted
from yiemagent.mcp.deadline import Deadline
from yiemagent.mcp.nats import NatsTransport
from yiemagent.mcp.nats_loop import lease_loop
from yiemagent.mcp.nats_options import NatsOptions
from yiemagent.mcp.transport import RequestRefused
from yiemagent.testing import WAIT, Gate, run_in_thread

pytestmark = pytest.mark.servers


def ok(request: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request.get("id"), "result": {}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_absent_server_is_named_within_the_dial_timeout(connect: Any) -> None:
    """Field problem 58: one clear error, not a minute of silence."""
    url = f"nats://127.0.0.1:{free_port()}"

    with pytest.raises(McpConnectionError, match=rf"could not reach NATS subject 'yiemagent:tools' at {url}"):
        connect(url)


def test_a_server_that_never_greets_is_given_up_after_the_dial_timeout(connect: Any) -> None:
    """Field problem 58: the port is open, but nobody speaks NATS."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"nats://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(McpConnectionError, match=r"no answer within 0\.1 s"):
            connect(url, dial_timeout=0.1)


def test_the_callers_deadline_ends_the_dialling(connect: Any) -> None:
    """Issue 5 part 6: one deadline from the caller down."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"nats://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(McpTimeout, match=r"within 0\.05 s"):
            connect(url, timeout=0.05, dial_timeout=WAIT)


def test_an_abort_ends_the_dialling() -> None:
    """Issue 5 part 6: abort within 0.2 s, also while connecting."""
    signal = AbortSignal()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        transport = NatsTransport(f"nats://127.0.0.1:{mute.getsockname()[1]}", "t", dial_timeout=60)
        dialling = run_in_thread(transport.connect, None, deadline=Deadline(None), signal=signal)
        with mute.accept()[0]:
            signal.abort()
            with pytest.raises(RunAborted):
                dialling.get()


def test_the_second_of_two_servers_is_taken_when_the_first_is_away(
    connect: Any, nats: Any, respond: Any
) -> None:
    """Case E-20: one of several servers stopped."""
    respond(lambda request, message: [ok(request)])

    ask = connect([f"nats://127.0.0.1:{free_port()}", nats.url])

    assert ask()["id"] == 1


def test_a_lost_server_fails_the_call_in_flight_at_once_and_never_resends_it(
    connect: Any, nats: Any, respond: Any
) -> None:
    """Case E-19, field problem 59."""
    came = threading.Event()
    responder = respond(lambda request, message: came.set() or [])
    ask = connect()

    waiting = run_in_thread(ask, timeout=None)
    assert came.wait(WAIT)
    nats.kill()
    with pytest.raises(
        McpConnectionError, match=rf"tools/call: the connection to NATS at {nats.url} was lost"
    ):
        waiting.get()

    nats.start()
    fresh = respond(lambda request, message: [ok(request)])
    ask("tools/list")

    assert [b"tools/call" in message.data for message in responder.messages[:1]] == [True]
    assert all(b"tools/call" not in message.data for message in responder.messages[1:] + fresh.messages)


def test_a_call_made_while_the_server_is_away_waits_for_it(connect: Any, nats: Any) -> None:
    """Case E-20: dialled for ever, with pauses, and used as soon as it is there."""
    ask = connect(dial_timeout=60)
    nats.kill()
    in_flight = run_in_thread(ask, timeout=None)  # ends when the loss is noticed, or waits already
    waiting = run_in_thread(ask, timeout=None)
    nats.start()

    with pytest.raises(McpConnectionError):
        in_flight.get()
    with pytest.raises(McpConnectionError) as caught:
        waiting.get()
    if "was lost" in str(caught.value):
        with pytest.raises(RequestRefused) as caught:
            ask()
    assert isinstance(caught.value, RequestRefused)  # NATS itself says that nobody listens


def test_a_call_made_while_the_server_stays_away_names_the_reason(connect: Any, nats: Any) -> None:
    """Case E-20: the state is visible to the user."""
    ask = connect(dial_timeout=0.3)
    nats.kill()

    with pytest.raises(McpConnectionError, match=r"was lost|no connection to NATS at nats://.*: "):
        ask()
    with pytest.raises(McpConnectionError, match=rf"no connection to NATS at {nats.url}: "):
        ask()


def test_an_absent_server_writes_no_tracebacks(
    connect: Any, nats: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Section 7: nats-py alone writes a traceback for each attempt to stderr."""
    caplog.set_level(logging.INFO)
    ask = connect(dial_timeout=0.3)
    nats.kill()
    with pytest.raises(McpConnectionError):
        ask()
    with pytest.raises(McpConnectionError):
        ask()

    assert [r.levelname for r in caplog.records if "connection lost" in r.message] == ["WARNING"]
    assert not [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]
    assert capfd.readouterr().err.count("\n") == 0


def test_closing_while_the_server_is_away_is_prompt(connect: Any, nats: Any) -> None:
    """Field problem 56: close does not wait out the pauses; the guard sees the thread gone."""
    ask = connect(dial_timeout=60)
    nats.kill()
    waiting = run_in_thread(ask, timeout=None)

    ask.connection.close(1.0)

    with pytest.raises(McpConnectionError):
        waiting.get()


def test_a_server_that_answers_no_ping_is_lost(connect: Any) -> None:
    """Field problem 55: a half-open connection is found out by our own deadline."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        url = f"nats://127.0.0.1:{frozen.getsockname()[1]}"
        dialling = run_in_thread(connect, url, ping_interval=0.05, dial_timeout=0.3)
        with frozen.accept()[0] as line, line.makefile("rb") as reader:
            line.sendall(b'INFO {"max_payload":1048576,"headers":true}\r\n')
            greeted = 0
            while greeted < 3:  # the PING of the greeting, and two after SUB
                if reader.readline().startswith(b"PING"):
                    line.sendall(b"PONG\r\n")
                    greeted += 1
            ask = dialling.get()
            with pytest.raises(McpConnectionError, match=r"no answer to a ping within 0\.3 s"):
                ask(timeout=None)


def test_a_reset_connection_fails_what_was_just_sent(connect: Any) -> None:
    """Case E-19: nats-py tells nobody when it could not send the rest before it closed."""
    gate, loop = Gate(), lease_loop()
    with socket.create_server(("127.0.0.1", 0)) as rude:
        dialling = run_in_thread(connect, f"nats://127.0.0.1:{rude.getsockname()[1]}", dial_timeout=60)
        line = rude.accept()[0]
        with line.makefile("rb") as reader:
            line.sendall(b'INFO {"max_payload":1048576,"headers":true}\r\n')
            for _ in range(3):  # the PING of the greeting, and two after SUB
                while not reader.readline().startswith(b"PING"):
                    pass
                line.sendall(b"PONG\r\n")
            ask = dialling.get()
        # While the loop is held, a request is handed to it and the connection is reset.
        loop.post(gate.block)
        gate.wait_entered()
        waiting = run_in_thread(ask, timeout=None)
        while not ask.connection._desk.calls:
            pass
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.close()
        gate.open()

        with pytest.raises(McpConnectionError, match="was lost"):
            waiting.get()
    loop.release()


USERS = ("--user", "ada", "--pass", "secret-1")


def test_user_and_password_are_sent(connect: Any, nats_server: Any) -> None:
    """Issue 5 part 4: authentication."""
    server = nats_server(*USERS)

    connect(server.url, user="ada", password="secret-1")
    connect(f"nats://ada:secret-1@{server.address}")


@pytest.mark.parametrize(
    ("credentials", "named"),
    [
        ({"user": "ada", "password": "wrong-2"}, "user 'ada' with this password"),
        ({"token": "wrong-2"}, "this token"),
        ({}, "a client without credentials; give user and password"),
    ],
)
def test_refused_credentials_are_named_but_not_shown(
    connect: Any, nats_server: Any, credentials: dict[str, str], named: str
) -> None:
    """Issue 5 part 4: a prompt and clear error, without the secret."""
    server = nats_server(*USERS)

    with pytest.raises(McpConnectionError, match=named) as caught:
        connect(server.url, **credentials)

    assert "wrong-2" not in str(caught.value)


def test_a_token_is_sent(connect: Any, nats_server: Any) -> None:
    """Issue 5 part 4: authentication."""
    server = nats_server("--auth", "t0ken")

    connect(server.url, token="t0ken")
    connect(f"nats://t0ken@{server.address}")


PERMISSIONS = """
authorization {{ users: [
  {{ user: ada, password: p, permissions: {{ publish: {{ {publish} }}, subscribe: {{ {subscribe} }} }} }}
] }}
"""


def guarded(nats_server: Any, folder: pathlib.Path, publish: str = "", subscribe: str = "") -> Any:
    config = folder / "nats.conf"
    config.write_text(PERMISSIONS.format(publish=publish, subscribe=subscribe))
    return nats_server("-c", str(config))


def test_a_subject_that_may_not_be_published_to_fails_the_call_at_once(
    connect: Any, nats_server: Any, tmp_path: pathlib.Path
) -> None:
    """Issue 5 part 4: what an account may not do is said, not waited out."""
    server = guarded(nats_server, tmp_path, publish='deny: "yiemagent:tools"')
    ask = connect(server.url, user="ada", password="p")

    with pytest.raises(
        McpConnectionError, match=r"tools/call: NATS .* refuses it: permissions violation for publish"
    ):
        ask(timeout=None)


def test_an_inbox_that_may_not_be_heard_is_told_when_connecting(
    connect: Any, nats_server: Any, tmp_path: pathlib.Path
) -> None:
    """inbox_prefix is the way out for such accounts."""
    server = guarded(nats_server, tmp_path, subscribe='allow: "mine.>"')

    with pytest.raises(McpConnectionError, match="permissions violation for subscription"):
        connect(server.url, user="ada", password="p")
    connect(server.url, user="ada", password="p", inbox_prefix="mine")


class LateRefuser:
    """As a server that reads a connection in small pieces: it answers each ping before it reads on."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self._socket.getsockname()[1]}"
        self.thread = run_in_thread(self._serve)

    def _serve(self) -> None:
        with self._socket, self._socket.accept()[0] as peer, peer.makefile("rwb", buffering=0) as wire:
            wire.write(b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576,"proto":1}\r\n')
            refusal = b""
            for line in wire:
                if line.startswith(b"SUB "):
                    refusal = b"-ERR 'Permissions Violation for Subscription to \"_INBOX\"'\r\n"
                if line.startswith(b"PING"):
                    wire.write(refusal + b"PONG\r\n")


def test_a_refusal_that_the_first_pong_overtakes_is_told_when_connecting(connect: Any) -> None:
    """nats-py writes a ping before the subscription that was made before it."""
    server = LateRefuser()

    with pytest.raises(McpConnectionError, match="permissions violation for subscription"):
        connect(server.url)
    server.thread.get()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with an authority (ca.pem) and a certificate for 127.0.0.1 (cert.pem, key.pem)."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command")
    folder = tmp_path_factory.mktemp("tls")
    # The usage and the key of the authority are named since Python 3.13 trusts no chain without them.
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    usage = "-addext keyUsage=critical,keyCertSign"
    for command in (
        f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem {usage}",
        "req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout key.pem -out cert.csr",
        "x509 -req -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out cert.pem",
    ):
        subprocess.run([openssl, *command.split()], cwd=folder, check=True, capture_output=True)
    return folder


def tls_arguments(folder: pathlib.Path) -> tuple[str, ...]:
    return ("--tls", "--tlscert", str(folder / "cert.pem"), "--tlskey", str(folder / "key.pem"))


def test_tls_trusts_the_given_authority(connect: Any, nats_server: Any, certificates: pathlib.Path) -> None:
    """Issue 5 part 4: TLS, by file and by context."""
    server = nats_server(*tls_arguments(certificates))

    connect(server.url, tls=certificates / "ca.pem")
    connect(f"tls://{server.address}", tls=ssl.create_default_context(cafile=certificates / "ca.pem"))


def test_tls_refuses_a_certificate_that_nobody_vouches_for(
    connect: Any, nats_server: Any, certificates: pathlib.Path
) -> None:
    """Issue 5 part 4: TLS is checked."""
    server = nats_server(*tls_arguments(certificates))

    with pytest.raises(McpConnectionError, match="certificate verify failed"):
        connect(server.url)


def test_credentials_are_not_sent_in_the_clear_when_tls_was_asked_for(
    connect: Any, certificates: pathlib.Path
) -> None:
    """A server (or somebody in between) that offers no TLS does not see the password."""
    said = []
    with socket.create_server(("127.0.0.1", 0)) as plain:
        url = f"nats://127.0.0.1:{plain.getsockname()[1]}"
        options = {"tls": certificates / "ca.pem", "user": "ada", "password": "secret-1"}
        dialling = run_in_thread(connect, url, **options)
        with plain.accept()[0] as line:
            line.sendall(b'INFO {"max_payload":1048576,"auth_required":true}\r\n')
            while chunk := line.recv(4096):
                said.append(chunk)
        with pytest.raises(McpConnectionError, match="TLS was asked for, but this server offers none"):
            dialling.get()

    assert b"secret-1" not in b"".join(said)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"servers": "http://127.0.0.1"}, "must begin with nats:// or tls://"),
        ({"servers": []}, "servers is empty"),
        ({"servers": "nats://127.0.0.1:99999"}, "no usable port"),
        ({"servers": "nats://x", "user": "ada"}, "belong together"),
        ({"servers": "nats://x", "dial_timeout": 0}, "dial_timeout must be more than 0"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], complaint: str) -> None:
    """Messages name the keyword, the value and the way out."""
    with pytest.raises(ConfigurationError, match=complaint):
        NatsOptions(**options)


@pytest.mark.parametrize("topic", ["", "a b", "a.*", "a..b", ".a", "a.>"])
def test_a_topic_that_cannot_be_published_to_is_refused(topic: str) -> None:
    """Wildcards and empty words are for subscribers only."""
    with pytest.raises(ConfigurationError, match="no NATS subject"):
        NatsTransport("nats://x", topic)


def test_labels_and_representations_hide_credentials() -> None:
    """Decision 28: no keys in messages."""
    transport = NatsTransport("nats://ada:secret-1@host", "t", token="t0ken")

    assert transport.label == "NATS subject 't' at nats://host:4222"
    assert "secret-1" not in repr(transport)
    assert "t0ken" not in repr(transport.options) + transport.label
