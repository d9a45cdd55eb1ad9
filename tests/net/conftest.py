"""Real loopback servers, plain and over TLS."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import yiemagent.net.adapter  # here, so that no deadline of a test pays for loading requests
import yiemagent.net.lane
import yiemagent.net.response
import yiemagent.net.target  # noqa: F401
from yiemagent.net.http import HttpClient
from yiemagent.testing.loopback import Handler, LoopbackServer


@pytest.fixture
def serve() -> Iterator[Callable[..., LoopbackServer]]:
    """Start a server for a handler; closed after the test."""
    servers: list[LoopbackServer] = []

    def start(handler: Handler, tls: ssl.SSLContext | None = None) -> LoopbackServer:
        servers.append(LoopbackServer(handler, tls=tls))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def make_client() -> Iterator[Callable[..., HttpClient]]:
    """Make clients with connections of their own; closed after the test."""
    clients: list[HttpClient] = []

    def make(**options: object) -> HttpClient:
        clients.append(HttpClient(**options))  # type: ignore[arg-type]
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of our own for 127.0.0.1 and models.test, its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    pem, key, cert = folder / "both.pem", folder / "key.pem", folder / "cert.pem"
    names = "subjectAltName=IP:127.0.0.1,DNS:models.test"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=models.test"]
    subprocess.run([*command, "-addext", names], check=True, capture_output=True, timeout=30)
    pem.write_bytes(key.read_bytes() + cert.read_bytes())
    return pem


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    """The server side of the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture(autouse=True, params=["requests loaded", "requests not loaded"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test goes through requests and past it: a user must not be able to tell."""
    loaded = request.param == "requests loaded"
    monkeypatch.setattr("yiemagent.net.lane._requests_is_loaded", lambda: loaded)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, bundle or netrc of the machine reaches a test."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
