"""``pdpp mcp``: the agents' surface over the REST API of a server elsewhere."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from cli.credential_cache import Cache
from mcp_adapter.surfaces import TOOLS
from tests.mcp_adapter.fake_rest import FakeRest
from tests.pdpp_site.installation import ROOT, START_SECONDS, Said
from tests.scenarios import scenario

RECORD = ("cin_work", "messages", "m1", {"body": "we signed the lease"})


class Remote(ThreadingHTTPServer):
    """A resource server over HTTP that takes one bearer; `kind` is what it says the token is."""

    def __init__(self, bearer: str, *, kind: str = "client") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rest = FakeRest(records=[RECORD])
        self.bearer, self.kind, self.refusal = bearer, kind, "authentication_error"
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Remote

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.server.asked.append(parts.path)
        if self.headers["Authorization"] != f"Bearer {self.server.bearer}":
            error = {"code": self.server.refusal, "message": "No."}
            return self._send(401, {"error": error})
        if parts.path == "/v1/schema" and not parts.query:
            return self._send(200, {"bearer": {"token_kind": self.server.kind}})
        answer = self.server.rest.get(parts.path, parse_qsl(parts.query), "")
        return self._send(answer.status, answer.body)

    def _send(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Nothing: standard error is the test's."""


@contextlib.contextmanager
def serving(remote: Remote) -> Iterator[Remote]:
    thread = threading.Thread(target=remote.serve_forever)
    thread.start()
    try:
        yield remote
    finally:
        remote.shutdown()
        thread.join()
        remote.server_close()


@pytest.fixture
def remote() -> Iterator[Remote]:
    with serving(Remote("pdpp_at_agent")) as remote:
        yield remote


def start(cwd: Path, *words: str, **environment: str) -> "subprocess.Popen[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PDPP_")}
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", "mcp", *words],
        cwd=cwd,
        env=inherited | {"PYTHONPATH": str(ROOT)} | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def converse(process: "subprocess.Popen[str]", *messages: Any) -> tuple[Said, list[Any]]:
    assert process.stdin is not None
    assert process.stdout is not None
    answers = []
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        if "id" in message:
            answers.append(json.loads(process.stdout.readline()))
    out, err = process.communicate(timeout=START_SECONDS)
    return Said(process.returncode, out, err), answers


HELLO = {
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
READY = {"method": "notifications/initialized"}


def calling(n: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": n, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def ended(cwd: Path, *words: str, **environment: str) -> Said:
    process = start(cwd, *words, **environment)
    out, err = process.communicate("", timeout=START_SECONDS)
    return Said(process.returncode, out, err)


def keep(root: Path, url: str, **more: Any) -> Cache:
    cache = Cache(root)
    entry = {"provider_url": url, "credential": {"access_token": "pdpp_at_agent"}}
    cache.write(url, entry | more)
    return cache


@scenario("C2", "C3")
def test_the_same_tools_answer_over_the_network(remote: Remote, tmp_path: Path) -> None:
    said, answers = converse(
        start(tmp_path, "--provider-url", remote.url, PDPP_ACCESS_TOKEN="pdpp_at_agent"),
        HELLO,
        READY,
        {"id": 2, "method": "tools/list"},
        calling(3, "search", q="lease"),
        calling(4, "fetch", id="cin_work/messages:m1"),
    )

    assert (said.code, said.out, said.err) == (0, "", "")
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == list(TOOLS)
    assert answers[0]["result"]["serverInfo"]["name"] == "pdpp-mcp-server"
    hit = answers[2]["result"]["structuredContent"]["results"][0]
    assert hit["id"] == "cin_work/messages:m1"
    assert hit["url"].startswith(remote.url)
    assert "signed the lease" in answers[3]["result"]["content"][0]["text"]
    assert "pdpp_at_agent" not in json.dumps(answers)


@scenario("C2")
def test_the_cached_credential_and_the_environment_are_all_the_setup(
    remote: Remote, tmp_path: Path
) -> None:
    keep(tmp_path / "cache", remote.url)

    said, answers = converse(
        start(
            tmp_path,
            PDPP_PROVIDER_URL=remote.url,
            PDPP_CACHE_ROOT=str(tmp_path / "cache"),
            PDPP_MCP_SERVER_NAME="my-records",
        ),
        HELLO,
        READY,
        calling(2, "search", q="lease"),
    )

    assert said.code == 0, said.err
    assert answers[0]["result"]["serverInfo"]["name"] == "my-records"
    assert not answers[1]["result"]["isError"]


@scenario("C2")
def test_no_option_or_variable_chooses_a_profile(tmp_path: Path) -> None:
    told = ended(tmp_path, "--help").out

    assert "profile" not in told
    assert "--provider-url" in told
    assert ended(tmp_path, "--profile", "full").code == 64


def test_a_grant_that_ends_is_an_error_of_the_call_not_of_the_server(
    remote: Remote, tmp_path: Path
) -> None:
    remote.bearer, remote.refusal = "another", "grant_revoked"

    said, answers = converse(
        start(tmp_path, "--provider-url", remote.url, PDPP_ACCESS_TOKEN="pdpp_at_agent"),
        HELLO,
        READY,
        calling(2, "search", q="lease"),
    )

    assert said.code == 0
    assert answers[1]["result"]["structuredContent"]["error"]["code"] == "grant_revoked"


def test_a_credential_that_is_taken_away_ends_with_the_next_call(
    remote: Remote, tmp_path: Path
) -> None:
    cache = keep(tmp_path / ".pdpp", remote.url)
    process = start(tmp_path, "--provider-url", remote.url)
    assert process.stdin is not None
    assert process.stdout is not None
    for message in (HELLO, READY):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()
    process.stdout.readline()
    cache.forget(remote.url)

    said, answers = converse(process, calling(2, "search", q="lease"))

    assert said.code == 0
    error = answers[0]["result"]["structuredContent"]["error"]
    assert error["code"] == "not_connected"
    assert "pdpp connect" in error["next_step"]
    assert remote.asked == []


def test_without_a_network_the_server_starts_and_says_so(tmp_path: Path) -> None:
    said, answers = converse(
        start(tmp_path, "--provider-url", "http://127.0.0.1:1", PDPP_ACCESS_TOKEN="pdpp_at_x"),
        HELLO,
        READY,
        calling(2, "search", q="lease"),
    )

    assert said.code == 0
    assert answers[1]["result"]["structuredContent"]["error"]["code"] == "service_unavailable"


@scenario("C6")
def test_a_token_that_another_server_calls_the_owners_is_refused_with_every_call(
    tmp_path: Path,
) -> None:
    with serving(Remote("at_7", kind="owner")) as remote:
        _, answers = converse(
            start(tmp_path, "--provider-url", remote.url, PDPP_ACCESS_TOKEN="at_7"),
            HELLO,
            READY,
            calling(2, "search", q="lease"),
            calling(3, "schema"),
        )

    codes = [answer["result"]["structuredContent"]["error"]["code"] for answer in answers[1:]]
    assert codes == ["owner_credential"] * 2
    assert set(remote.asked) == {"/v1/schema"}


@scenario("C6")
@pytest.mark.parametrize(
    ("environment", "entry", "code"),
    [
        ({"PDPP_PROVIDER_URL": ""}, {}, 64),
        ({"PDPP_PROVIDER_URL": "not a url:"}, {}, 64),
        ({"PDPP_OWNER_TOKEN": "x", "PDPP_ACCESS_TOKEN": "pdpp_at_agent"}, {}, 77),
        ({"PDPP_OWNER_SESSION": "x"}, {}, 77),
        ({"ANYTHING": "Bearer pdpp_own_x", "PDPP_ACCESS_TOKEN": "pdpp_at_agent"}, {}, 77),
        ({}, {"pdpp_token_kind": "owner"}, 77),
        ({}, {"token_kind": "owner"}, 77),
        ({}, {"role": "owner"}, 77),
        ({}, {"credential": {"access_token": "x", "kind": "owner"}}, 77),
        ({}, {"credential": {"access_token": "pdpp_own_x"}}, 77),
        ({}, None, 78),
        ({}, {"credential": {}}, 78),
        ({}, {"credential": {"access_token": "x", "expires_at": "2020-01-01T00:00:00Z"}}, 78),
    ],
)
def test_the_exit_code_says_why_it_does_not_start(
    tmp_path: Path, environment: dict[str, str], entry: dict[str, Any] | None, code: int
) -> None:
    url = "https://rs.example"
    if entry is not None:
        keep(tmp_path / ".pdpp", url, **entry)
        if environment.get("PDPP_PROVIDER_URL") == "":
            Cache(tmp_path / ".pdpp").forget(url)

    said = ended(tmp_path, **{"PDPP_PROVIDER_URL": url, **environment})

    assert said.code == code, said.err
    assert said.out == ""
    assert "next: " in said.err
    assert "pdpp_own_x" not in said.err


def test_the_first_answer_does_not_wait_for_the_provider(tmp_path: Path) -> None:
    began = time.monotonic()
    said, answers = converse(
        start(tmp_path, "--provider-url", "http://192.0.2.1", PDPP_ACCESS_TOKEN="pdpp_at_x"), HELLO
    )

    assert said.code == 0
    assert answers[0]["result"]["serverInfo"]["name"]
    assert time.monotonic() - began < START_SECONDS / 10
