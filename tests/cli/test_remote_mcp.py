"""`pdpp mcp` serves MCP over the REST API of a remote server."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from cli.credentials import CredentialCache
from mcp_adapter.server import TOOLS
from tests.mcp_adapter.fake_rest import FakeRest
from tests.pdpp_site.installation import ROOT, START_SECONDS, Said
from tests.scenarios import scenario

pytestmark = pytest.mark.slow

RECORD = ("cin_work", "messages", "m1", {"body": "we signed the lease"})


class Remote(ThreadingHTTPServer):
    """A resource server that accepts one bearer; `kind` is the token kind that it reports."""

    def __init__(self, bearer: str, *, kind: str = "client") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rest = FakeRest(records=[RECORD])
        self.bearer, self.kind, self.refusal = bearer, kind, "authentication_error"
        self.requests: list[str] = []
        self.connections = 0

    def get_request(self) -> Any:
        self.connections += 1
        return super().get_request()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Remote

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.server.requests.append(parts.path)
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
        """Keep standard error for the test."""


@contextlib.contextmanager
def running(remote: Remote) -> Iterator[Remote]:
    thread = threading.Thread(target=remote.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield remote
    finally:
        remote.shutdown()
        thread.join()
        remote.server_close()


@pytest.fixture
def remote() -> Iterator[Remote]:
    with running(Remote("pdpp_at_agent")) as remote:
        yield remote


def start(cwd: Path, *words: str, **environment: str) -> "subprocess.Popen[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PDPP_")}
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", "mcp", *words],
        cwd=cwd,
        env=inherited
        | {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(cwd / "config")}
        | environment,
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


INITIALIZE = {
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
INITIALIZED = {"method": "notifications/initialized"}


def tool_call(n: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": n, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def run_mcp(cwd: Path, *words: str, **environment: str) -> Said:
    process = start(cwd, *words, **environment)
    out, err = process.communicate("", timeout=START_SECONDS)
    return Said(process.returncode, out, err)


def store_credential(root: Path, url: str, **more: Any) -> CredentialCache:
    cache = CredentialCache(root)
    entry = {"provider_url": url, "credential": {"access_token": "pdpp_at_agent"}}
    cache.write(url, entry | more)
    return cache


@scenario("C2", "C3")
def test_remote_mcp_serves_the_same_tools(remote: Remote, tmp_path: Path) -> None:
    result, answers = converse(
        start(tmp_path, "--provider-url", remote.url, PDPP_ACCESS_TOKEN="pdpp_at_agent"),
        INITIALIZE,
        INITIALIZED,
        {"id": 2, "method": "tools/list"},
        tool_call(3, "search", q="lease"),
        tool_call(4, "fetch", id="cin_work/messages:m1"),
    )

    assert (result.code, result.out, result.err) == (0, "", "")
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == list(TOOLS)
    assert answers[0]["result"]["serverInfo"]["name"] == "pdpp-mcp-server"
    hit = answers[2]["result"]["structuredContent"]["results"][0]
    assert hit["id"] == "cin_work/messages:m1"
    assert hit["url"].startswith(remote.url)
    assert "signed the lease" in answers[3]["result"]["content"][0]["text"]
    assert "pdpp_at_agent" not in json.dumps(answers)


@scenario("C2")
def test_mcp_uses_cached_credential_and_environment(remote: Remote, tmp_path: Path) -> None:
    store_credential(tmp_path / "cache", remote.url)

    result, answers = converse(
        start(
            tmp_path,
            PDPP_PROVIDER_URL=remote.url,
            PDPP_CACHE_ROOT=str(tmp_path / "cache"),
            PDPP_MCP_SERVER_NAME="my-records",
        ),
        INITIALIZE,
        INITIALIZED,
        tool_call(2, "search", q="lease"),
    )

    assert result.code == 0, result.err
    assert answers[0]["result"]["serverInfo"]["name"] == "my-records"
    assert not answers[1]["result"]["isError"]


@scenario("C2")
def test_mcp_has_no_profile_option(tmp_path: Path) -> None:
    said = run_mcp(tmp_path, "--help")
    help_text = said.err

    assert said.out == "", "standard output is for the protocol"
    assert "profile" not in help_text
    assert "--provider-url" in help_text
    assert run_mcp(tmp_path, "--profile", "full").code == 64


def test_revoked_grant_is_an_error_of_the_call(remote: Remote, tmp_path: Path) -> None:
    remote.bearer, remote.refusal = "another", "grant_revoked"

    result, answers = converse(
        start(tmp_path, "--provider-url", remote.url, PDPP_ACCESS_TOKEN="pdpp_at_agent"),
        INITIALIZE,
        INITIALIZED,
        tool_call(2, "search", q="lease"),
    )

    assert result.code == 0
    assert answers[1]["result"]["structuredContent"]["error"]["code"] == "grant_revoked"
    assert "pdpp connect" in answers[1]["result"]["structuredContent"]["next_step"]


def test_deleted_credential_applies_to_the_next_call(remote: Remote, tmp_path: Path) -> None:
    cache = store_credential(tmp_path / "config/pdpp", remote.url)
    process = start(tmp_path, "--provider-url", remote.url)
    assert process.stdin is not None
    assert process.stdout is not None
    for message in (INITIALIZE, INITIALIZED):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()
    process.stdout.readline()
    cache.delete(remote.url)

    result, answers = converse(process, tool_call(2, "search", q="lease"))

    assert result.code == 0
    error = answers[0]["result"]["structuredContent"]["error"]
    assert error["code"] == "not_connected"
    assert "pdpp connect" in error["next_step"]
    assert remote.requests == []


def test_mcp_starts_without_network_and_reports_it(tmp_path: Path) -> None:
    result, answers = converse(
        start(tmp_path, "--provider-url", "http://127.0.0.1:1", PDPP_ACCESS_TOKEN="pdpp_at_x"),
        INITIALIZE,
        INITIALIZED,
        tool_call(2, "search", q="lease"),
    )

    assert result.code == 0
    assert answers[1]["result"]["structuredContent"]["error"]["code"] == "service_unavailable"


@scenario("C6")
def test_owner_token_of_another_server_is_refused_with_every_call(
    tmp_path: Path,
) -> None:
    with running(Remote("at_7", kind="owner")) as remote:
        _, answers = converse(
            start(tmp_path, "--provider-url", remote.url, PDPP_ACCESS_TOKEN="at_7"),
            INITIALIZE,
            INITIALIZED,
            tool_call(2, "search", q="lease"),
            tool_call(3, "schema"),
        )

    codes = [answer["result"]["structuredContent"]["error"]["code"] for answer in answers[1:]]
    assert codes == ["owner_credential"] * 2
    assert set(remote.requests) == {"/v1/schema"}


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
def test_mcp_exit_code_tells_why_it_does_not_start(
    tmp_path: Path, environment: dict[str, str], entry: dict[str, Any] | None, code: int
) -> None:
    url = "https://rs.example"
    if entry is not None:
        store_credential(tmp_path / "config/pdpp", url, **entry)
        if environment.get("PDPP_PROVIDER_URL") == "":
            CredentialCache(tmp_path / "config/pdpp").delete(url)

    result = run_mcp(tmp_path, **{"PDPP_PROVIDER_URL": url, **environment})

    assert result.code == code, result.err
    assert result.out == ""
    assert "next: " in result.err
    assert "pdpp_own_x" not in result.err


def test_initialize_does_not_ask_the_provider(tmp_path: Path) -> None:
    """A provider that does not answer then delays nothing."""
    with running(Remote("pdpp_at_x")) as remote:
        result, answers = converse(
            start(tmp_path, "--provider-url", remote.url, PDPP_ACCESS_TOKEN="pdpp_at_x"),
            INITIALIZE,
        )

    assert result.code == 0
    assert answers[0]["result"]["serverInfo"]["name"]
    assert remote.connections == 0
