"""HTTP of live sources: a credential goes to one host, answers are bounded, cuts are noticed."""

import socket
import ssl
from collections.abc import Iterator

import pytest

from importers.authoring.https_server import HttpsServer, https_server
from importers.core.source import ProblemCode, SourceError
from importers.core.source_http import (
    HttpClient,
    HttpResponse,
    TooLargeError,
    basic_authorization,
    parse_url,
    require_success,
)


class DirectNetwork:
    """Connects without a sandbox, as ``Network`` does through the server."""

    def __init__(self, server: HttpsServer) -> None:
        self.tls = ssl.create_default_context(cafile=server.authority)
        self.sockets: list[socket.socket] = []

    def connect(self, host: str, port: int, *, is_encrypted: bool = True) -> socket.socket:
        connected = socket.create_connection((host, port), timeout=60)
        if is_encrypted:
            connected = self.tls.wrap_socket(connected, server_hostname=host)
        self.sockets.append(connected)
        return connected


@pytest.fixture
def server() -> Iterator[HttpsServer]:
    with https_server() as started:
        yield started


@pytest.fixture
def network(server: HttpsServer) -> DirectNetwork:
    return DirectNetwork(server)


def _get(server: HttpsServer, network: DirectNetwork, path: str = "/a") -> HttpResponse:
    authorization = basic_authorization("ida", "pass-1234")
    with HttpClient(network, server.url(), authorization) as client:
        return client.request("GET", server.url(path), max_bytes=1_000)


def _code(server: HttpsServer, network: DirectNetwork) -> ProblemCode:
    with pytest.raises(SourceError) as raised:
        require_success(_get(server, network))
    return raised.value.code


@pytest.mark.parametrize(
    "location", ["https://127.0.0.1:{port}/b", "http://localhost:{port}/b", "https://localhost/b"]
)
def test_redirect_to_another_host_gets_no_request(
    server: HttpsServer, network: DirectNetwork, location: str
) -> None:
    server.pages = {"/a": (302, {"Location": location.format(port=server.port)}, b"")}

    assert _code(server, network) is ProblemCode.MOVED
    assert len(server.requests) == 1
    assert len(network.sockets) == 1


def test_endless_redirects_end(server: HttpsServer, network: DirectNetwork) -> None:
    server.pages = {"/a": (302, {"Location": "/a"}, b"")}

    assert _code(server, network) is ProblemCode.SERVER_REFUSED


def test_response_over_the_limit_is_refused(server: HttpsServer, network: DirectNetwork) -> None:
    server.pages = {"/a": (200, {}, b"x" * 1_001)}

    with pytest.raises(TooLargeError):
        _get(server, network)


def test_closed_connection_is_opened_again(server: HttpsServer, network: DirectNetwork) -> None:
    server.handler = lambda _method, _path, _headers, _body: (200, {}, b"x")
    with HttpClient(network, server.url()) as client:
        client.request("GET", server.url(), max_bytes=1)
        network.sockets[0].shutdown(socket.SHUT_RDWR)

        assert client.request("GET", server.url(), max_bytes=1).body == b"x"
    assert len(network.sockets) == 2


@pytest.mark.parametrize(
    "url", ["https://", "https://ida:x@a.example/", "ftp://a.example", "https://ü.example"]
)
def test_addresses_with_a_password_or_of_another_kind_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"https|ASCII"):
        parse_url(url)


def test_confirmed_host_gets_the_credential(server: HttpsServer, network: DirectNetwork) -> None:
    moved = f"https://localhost:{server.port}/b"
    server.pages = {"/a": (302, {"Location": moved}, b""), "/b": (200, {}, b"x")}
    authorization = basic_authorization("ida", "pass-1234")
    confirmed = [("localhost", server.port)]
    with HttpClient(network, "https://elsewhere.example", authorization, confirmed) as client:
        response = client.request("GET", server.url("/a"), max_bytes=10)

    assert response.url == moved


def test_credential_is_never_sent_without_encryption(network: DirectNetwork) -> None:
    with pytest.raises(SourceError) as refused:
        HttpClient(network, "http://localhost:9/", basic_authorization("ida", "pass-1234"))

    assert refused.value.code is ProblemCode.NO_TLS
    assert network.sockets == []
