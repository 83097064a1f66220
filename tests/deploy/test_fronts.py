"""The shipped proxies, run in front of a server as its unit starts it."""

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evidence import limits
from operations.doctor import Finding, Outcome, diagnose
from tests.deploy.fronts import Front, Ports, Shipped, caddy, front, nginx, ports
from tests.deploy.servers import cast, database, one_of_several
from tests.pdpp_site.web import free_port
from tests.world import PERSONAL

pytestmark = pytest.mark.slow

MEGABYTE = 1024 * 1024


Behind = tuple[Ports, int, dict[str, str]]
Reached = tuple[Front, dict[str, str]]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """A server on a new database, the ports that its proxy is to have, and the tokens of the cast."""
    chosen, port, var = ports(), free_port(), tmp_path_factory.mktemp("var")
    with database() as url:
        tokens = cast(url)
        with one_of_several(var, port=port, url=url, PDPP_PUBLIC_URL=chosen.url):
            yield chosen, port, tokens


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def reached(request: pytest.FixtureRequest, behind: Behind) -> Iterator[Reached]:
    shipped: Shipped = request.param
    chosen, port, tokens = behind
    with front(shipped, chosen, [port]) as way:
        yield way, tokens


def test_the_doctor_walks_through_it(reached: Reached) -> None:
    way, tokens = reached
    with way.client() as client:
        findings: list[Finding] = diagnose(way.url, client, bearer=tokens["dora@mcp"])

    assert [each for each in findings if each.outcome is not Outcome.WORKS] == []
    assert len(findings) == 15


def test_clients_are_led_to_https_at_the_public_address(reached: Reached) -> None:
    way, _ = reached
    with way.client() as client:
        plain = client.get(f"{way.plain}/connect?a=b", follow_redirects=False)
        assert plain.status_code in {301, 308}
        assert plain.headers["location"].startswith("https://")
        issuer = client.get("/.well-known/oauth-authorization-server").json()["issuer"]
        signing_in = client.get("/admin/login/", follow_redirects=True)

    assert issuer.rstrip("/") == way.url
    assert signing_in.status_code == 200
    assert "__Host-csrf=" in signing_in.headers["set-cookie"]
    assert "Secure" in signing_in.headers["set-cookie"]
    assert "max-age" in signing_in.headers["strict-transport-security"]


def test_what_a_client_says_of_itself_is_not_believed(reached: Reached) -> None:
    """A proxy that hands on a forged header would let the server redirect in circles."""
    way, tokens = reached
    forged = {
        "Authorization": f"Bearer {tokens['dora']}",
        "X-Forwarded-Proto": "http",
        "X-Forwarded-For": "203.0.113.9",
    }
    with way.client() as client:
        answer = client.get("/v1/search?q=lease", headers=forged, follow_redirects=False)

    assert answer.status_code == 200
    assert answer.json()["data"]


def test_uploads_of_fifty_megabytes_pass_and_larger_ones_are_refused(
    reached: Reached,
) -> None:
    way, tokens = reached
    route = f"/v1/blobs?connection_id={PERSONAL}&stream=messages&record_key=m1"
    owner = {"Authorization": f"Bearer {tokens['alice']}", "Content-Type": "image/png"}
    with way.client() as client:
        kept = client.post(route, headers=owner, content=bytes(limits.BLOB_MAX_BYTES))
        assert kept.status_code in {200, 201}, kept.text
        refused = client.post(route, headers=owner, content=bytes(limits.BLOB_MAX_BYTES + MEGABYTE))

    # The server refuses by the announced length; Caddy, if it still sends then, may report that.
    told = {413, 502} if refused.headers["server"].startswith("Caddy") else {413}
    assert refused.status_code in told


def test_a_form_over_64_kib_is_refused(reached: Reached) -> None:
    way, _ = reached
    with way.client() as client:
        refused = client.post("/oauth/token", content=bytes(65 * 1024))
        taken = client.post("/oauth/token", content=bytes(63 * 1024))

    assert refused.status_code == 413
    assert taken.status_code == 400


def test_a_large_body_with_a_bad_token_is_answered_with_401(reached: Reached) -> None:
    way, _ = reached
    route = f"/v1/blobs?connection_id={PERSONAL}&stream=messages&record_key=m1"
    headers = {"Authorization": "Bearer unknown", "Content-Type": "image/png"}
    with way.client() as client:
        assert client.post(route, headers=headers, content=bytes(MEGABYTE)).status_code == 401


def test_half_a_header_is_given_up(reached: Reached) -> None:
    way, _ = reached
    port = int(way.url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), 60) as plain,
        way.trusting.wrap_socket(plain, server_hostname="127.0.0.1") as line,
    ):
        line.settimeout(60)
        line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            while line.recv(4096):
                pass


class Slow(BaseHTTPRequestHandler):
    """Sends the second half of an answer once the first has been read."""

    protocol_version = "HTTP/1.1"
    read = threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in (b"data: 1\n\n", b"data: 2\n\n"):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
            assert self.read.wait(60)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *args: object) -> None:
        """Nothing: standard error is the test's."""


@pytest.mark.parametrize("shipped", [nginx, caddy], ids=["nginx", "caddy"])
def test_an_answer_is_passed_on_as_it_is_made(shipped: Shipped, tmp_path: Path) -> None:
    Slow.read.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    chosen = ports()
    try:
        with front(shipped, chosen, [server.server_port]) as way:
            line = http.client.HTTPSConnection(
                "127.0.0.1", chosen.https, context=way.trusting, timeout=60
            )
            line.request("POST", "/mcp", body=b"{}")
            answer = line.getresponse()
            assert answer.readline() == b"data: 1\n"
            Slow.read.set()
            assert b"data: 2" in answer.read()
            line.close()
    finally:
        Slow.read.set()
        server.shutdown()
        thread.join()
        server.server_close()
