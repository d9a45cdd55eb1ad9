"""What is taken from the environment, and what is not: netrc, proxies, CA bundles, fork."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from yiemagent.errors import ConfigurationError
from yiemagent.net.errors import HttpConnectionError
from yiemagent.net.http import HttpClient
from yiemagent.testing.loopback import LoopbackServer, ServedRequest

Serve = Callable[..., LoopbackServer]
Make = Callable[..., HttpClient]


def hello(request: ServedRequest) -> None:
    request.reply(b"hello")


def test_netrc_does_not_replace_the_authorization(
    serve: Serve, make_client: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-40: requests would send Basic in place of the key."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password pass\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server = serve(hello)

    make_client(headers={"Authorization": "Bearer key"}).request("GET", server.url).read()
    make_client().request("GET", server.url).read()

    assert [request.headers.get("authorization") for request in server.requests] == ["Bearer key", None]


def test_a_proxy_of_the_environment_is_used(
    serve: Serve, make_client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As requests does, with the credentials of the proxy's URL."""
    proxy = serve(hello)
    monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//user:pass@"))

    assert make_client().request("GET", "http://models.test/v1?a=b").read() == b"hello"
    [request] = proxy.requests
    assert request.path == "http://models.test/v1?a=b"
    assert request.headers["host"] == "models.test"
    assert request.headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"


def test_a_loopback_address_never_goes_through_a_proxy(
    serve: Serve, make_client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-47: a local model server behind a company proxy."""
    proxy, server = serve(lambda request: request.reply(b"proxy")), serve(hello)
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("all_proxy", proxy.url)
    port = server.url.rpartition(":")[2]

    assert make_client().request("GET", server.url).read() == b"hello"
    assert make_client().request("GET", f"http://localhost:{port}/").read() == b"hello"
    assert proxy.requests == []


def test_a_host_in_no_proxy_is_reached_directly(
    serve: Serve, make_client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As requests does."""
    proxy = serve(hello)
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", "models.test")

    with pytest.raises(HttpConnectionError) as caught:
        make_client().request("GET", "http://models.test/")

    assert caught.value.cause == "dns"


def test_a_proxy_that_is_given_wins(serve: Serve, make_client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the environment, and even for a loopback address."""
    proxy = serve(hello)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    assert make_client(proxies={"http": proxy.url}).request("GET", "http://127.0.0.1:9/").read() == b"hello"


def test_a_proxy_that_is_not_there_is_named(make_client: Make) -> None:
    """The cause is the proxy, not the server."""
    with pytest.raises(HttpConnectionError) as caught:
        make_client(proxies={"http": "http://127.0.0.1:9"}).request("GET", "http://models.test/")

    assert caught.value.cause == "proxy"


def test_https_goes_through_a_proxy_by_a_tunnel(
    serve: Serve,
    make_client: Make,
    server_tls: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proxy sees CONNECT, the server the request."""
    server = serve(hello, server_tls)
    address = ("127.0.0.1", int(server.url.rpartition(":")[2]))

    def tunnel(request: ServedRequest) -> None:
        request.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        _relay(request.take_over(), socket.create_connection(address))

    proxy = serve(tunnel)
    monkeypatch.setenv("https_proxy", proxy.url)
    client = make_client(verify=str(certificate), headers={"Authorization": "Bearer key"})

    assert client.request("GET", "https://models.test/v1").read() == b"hello"
    assert (proxy.requests[0].method, proxy.requests[0].path) == ("CONNECT", "models.test:443")
    assert "authorization" not in proxy.requests[0].headers
    client.close()


def _relay(one: socket.socket, other: socket.socket) -> None:
    with other:
        while True:
            for sock in select.select([one, other], [], [])[0]:
                data = sock.recv(65_536)
                if not data:
                    return
                (other if sock is one else one).sendall(data)


def test_a_certificate_that_nobody_vouches_for_is_refused(
    serve: Serve, make_client: Make, server_tls: ssl.SSLContext
) -> None:
    """Verified by default."""
    with pytest.raises(HttpConnectionError, match="certificate") as caught:
        make_client().request("GET", serve(hello, server_tls).url)

    assert caught.value.cause == "tls"


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_bundle_of_the_environment_is_used(
    serve: Serve,
    make_client: Make,
    server_tls: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Company networks."""
    monkeypatch.setenv(name, str(certificate))

    assert make_client().request("GET", serve(hello, server_tls).url).read() == b"hello"


def test_a_bundle_that_is_given_wins_over_the_environment(
    serve: Serve,
    make_client: Make,
    server_tls: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Measured: requests lets the variable win over the session's."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere.pem")

    url = serve(hello, server_tls).url
    assert make_client(verify=str(certificate)).request("GET", url).read() == b"hello"
    with pytest.raises(ConfigurationError, match=r"/nowhere\.pem.*REQUESTS_CA_BUNDLE"):
        make_client().request("GET", url)


def test_verification_can_be_switched_off(
    serve: Serve, make_client: Make, server_tls: ssl.SSLContext, recwarn: pytest.WarningsRecorder
) -> None:
    """With the warning of urllib3."""
    with pytest.warns(Warning, match="Unverified HTTPS request"):
        response = make_client(verify=False).request("GET", serve(hello, server_tls).url)

    assert response.read() == b"hello"


def test_a_client_certificate_is_sent(make_client: Make, serve: Serve, certificate: Path) -> None:
    """A path that holds certificate and key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    url = serve(hello, context).url

    client = make_client(verify=str(certificate), cert=str(certificate))
    assert client.request("GET", url).read() == b"hello"
    with pytest.raises(ConfigurationError, match=r"client certificate '/nowhere\.pem'"):
        make_client(verify=str(certificate), cert="/nowhere.pem").request("GET", url)


@pytest.mark.servers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_process_opens_connections_of_its_own(serve: Serve, make_client: Make) -> None:
    """D-09: the parent's connection goes on working for the parent."""
    server, client = serve(hello), make_client()
    client.request("GET", server.url, body=b"parent").read()
    child = os.fork()
    if child == 0:
        try:
            answer = client.request("GET", server.url, body=b"child").read()
            os._exit(0 if answer == b"hello" else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert client.request("GET", server.url, body=b"parent").read() == b"hello"
    assert [(request.body, request.connection) for request in server.requests] == [
        (b"parent", 1),
        (b"child", 2),
        (b"parent", 1),
    ]


@pytest.mark.servers
def test_importing_the_client_loads_no_requests() -> None:
    """It is loaded with the first request."""
    code = "import sys, yiemagent.net.http; sys.exit('requests' in sys.modules)"
    thread_count = threading.active_count()
    import subprocess
    import sys

    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
    assert threading.active_count() == thread_count
