"""Nothing personal reaches the log: a run at DEBUG level with markers in all client input."""

import base64
import contextlib
import hashlib
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest

from tests.owner.consent.client import pressed
from tests.owner.pages.browser import Page
from tests.pdpp_site.installation import Running, installed
from tests.pdpp_site.living import Cast, living

pytestmark = pytest.mark.slow

PASSWORD = "kept-password-marked"
VERIFIER = "kept-verifier-of-more-than-forty-three-characters-0123456789"


@dataclass
class Marks:
    """Markers that must not appear in any output."""

    made: list[str] = field(default_factory=list)

    def new(self, what: str) -> str:
        self.made.append(f"kept{len(self.made)}{what}")
        return self.made[-1]


@dataclass(frozen=True)
class Run:
    server: Running
    cast: Cast
    marks: Marks
    link: str


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run a server through all requests below, and stop it."""
    with installed() as installation:
        chosen = {"PDPP_LOG_LEVEL": "DEBUG", "PDPP_LOG_FORMAT": "json"}
        with living(installation, **chosen) as (server, cast):
            link = next(line.strip() for line in server.lines if "/set-up/" in line)
            run = Run(server, cast, Marks(), link)
            _records(run)
            _tools(run)
            _pages_and_consent(run)
            _malformed(run)
            _failures(run)
        yield run


def _records(run: Run) -> None:
    new = run.marks.new
    key = new("key")
    data = {"id": key, "subject": new("subject"), "received_at": "2026-10-01T00:00:00Z"}
    line = {"key": key, "data": data, "emitted_at": "2026-10-01T00:00:00Z"}
    bad = {"key": new("badkey"), "data": {"id": 7, "subject": new("bad")}, "emitted_at": "never"}
    lines = "\n".join([json.dumps(line), json.dumps(bad), "{" + new("json")])
    with run.cast.http("alice", cookies={new("cookiename"): new("cookie")}) as http:
        where = {"connector_id": "mail", "connection_id": "cin_personal"}
        sent = http.post("/v1/ingest/messages", params=where, content=lines.encode())
        assert sent.json()["records_accepted"] == 1, sent.text
        got = http.get(f"/v1/streams/messages/records/{key}", params=where | {"nothing": ""})
        assert got.status_code == 400
        got = http.get(
            f"/v1/streams/messages/records/{key}", params={"connection_id": "cin_personal"}
        )
        assert got.status_code == 200
        for path, query in (
            ("/v1/search", {"q": new("query")}),
            ("/v1/search", {new("parameter"): "x"}),
            ("/v1/streams/messages/records", {"cursor": new("cursor")}),
            ("/v1/streams/messages/records", {"filter[size_bytes][gte]": new("filter")}),
            (f"/v1/streams/{new('stream')}/records", {}),
            (f"/v1/streams/messages/records/{new('missing')}", {}),
            (f"/v1/blobs/{new('blob')}", {}),
            (f"/{new('path')}", {}),
        ):
            http.get(path, params=query, headers={"Request-Id": new("id"), "X-Odd": new("header")})
    for bearer in (new("bearer"), f"pdpp_at_{new('token')}"):
        with run.cast.http() as http:
            got = http.get("/v1/schema", headers={"Authorization": f"Bearer {bearer}"})
        assert got.status_code == 401


def _tools(run: Run) -> None:
    new = run.marks.new
    with run.cast.http("dora@mcp") as http:
        for tool, arguments in (
            ("search", {"q": new("words")}),
            ("fetch", {"id": f"cin_personal/messages:{new('fetched')}"}),
            ("query_records", {new("argument"): new("value")}),
            ("aggregate", {"stream": new("aggregated"), "metric": new("metric")}),
            (new("tool"), {}),
        ):
            assert run.cast.call_tool(http, tool, **arguments).status_code == 200
        http.post("/mcp", content=("{" + new("body")).encode())
        http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": new("method")})
        http.get("/mcp", headers={"Authorization": f"Bearer {new('agent')}"})


def _pages_and_consent(run: Run) -> None:
    new = run.marks.new
    with run.cast.http(follow_redirects=True) as http:
        form = Page(run.link, http.get(urlsplit(run.link).path)).forms[0]
        for name, value in (("username", "alice"), ("password", PASSWORD), ("again", PASSWORD)):
            form.fill(name, value)
        made = http.post(urlsplit(run.link).path, data=dict(form.answers))
        assert made.status_code == 200, made.text
        run.marks.made += [str(value) for value in http.cookies.values()]
        http.get(f"/records/cin_personal/messages/{new('page')}")
        http.get("/admin/evidence/grant/", params={"q": new("looked")})
        http.get(f"/admin/evidence/grant/{new('grant')}/change/")
        _consented(run, http)
    with run.cast.http() as stranger:
        stranger.post("/login", data={"username": new("user"), "password": new("password")})
        stranger.get("/login", headers={"Host": f"{new('host')}.example"})
        stranger.get(f"/set-up/{new('link')}/")
        stranger.post("/oauth/token", data={"grant_type": new("kind"), "code": new("code")})


def _consented(run: Run, http: httpx2.Client) -> None:
    new = run.marks.new
    callback = f"http://localhost:33418/{new('callback')}"
    client = {"client_name": new("client"), "redirect_uris": [callback]}
    registered = http.post("/oauth/register", json=client).json()
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=")
    asked = {
        "response_type": "code",
        "client_id": registered["client_id"],
        "redirect_uri": callback,
        "code_challenge": challenge.decode(),
        "code_challenge_method": "S256",
        "state": new("state"),
        "resource": f"{run.cast.origin}/mcp",
    }
    page = http.get("/oauth/authorize", params=asked)
    assert page.status_code == 200, page.text
    # Everything is ticked; what that comes to is looked at before it is allowed.
    form = next(each for each in Page("/oauth/authorize", page).forms if len(each.answers) > 3)
    for box in form.boxes.values():
        if box not in form.answers:
            form.answers.append(box)
    seen = http.post("/oauth/authorize", data=pressed(form, "review"))
    form = next(each for each in Page("/oauth/authorize", seen).forms if len(each.answers) > 3)
    answered = http.post("/oauth/authorize", data=pressed(form, "allow"), follow_redirects=False)
    code = re.search(r"[?&]code=([^&]+)", answered.headers["location"])
    assert code, answered.headers
    given = {
        "grant_type": "authorization_code",
        "code": code[1],
        "redirect_uri": callback,
        "client_id": registered["client_id"],
        "code_verifier": VERIFIER,
    }
    tokens = http.post("/oauth/token", data=given)
    assert tokens.status_code == 200, tokens.text
    run.marks.made += [code[1], tokens.json()["access_token"]]
    http.post("/oauth/token", data=given)


def _malformed(run: Run) -> None:
    """Send malformed requests."""
    for raw in (
        f"{run.marks.new('verb')} / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        f"GET / HTTP/1.1\r\n{run.marks.new('bad header')}\r\n\r\n",
        f"GET /{run.marks.new('long')}{'x' * 100_000} HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        server = ("127.0.0.1", run.cast.installation.port)
        with contextlib.suppress(OSError), socket.create_connection(server, 60) as line:
            line.sendall(raw.encode())
            line.recv(4096)


def _failures(run: Run) -> None:
    """Make writing the ledger fail, then reading records."""
    new = run.marks.new
    for table in ("evidence_disclosure", "evidence_searchtext"):
        with psycopg.connect(run.cast.database, autocommit=True) as database:
            database.execute(f"ALTER TABLE {table} RENAME TO away")  # type: ignore[call-overload]
            with run.cast.http("alice") as http:
                answer = http.get("/v1/search", params={"q": new("failing")})
                assert answer.status_code in (500, 503), answer.text
                assert answer.json()["error"]["type"] == "api_error"
            with run.cast.http("dora@mcp") as http:
                run.cast.call_tool(http, "search", q=new("failing"))
            database.execute(f"ALTER TABLE away RENAME TO {table}")  # type: ignore[call-overload]


def test_log_contains_no_personal_data(run: Run) -> None:
    printed = run.server.printed.replace(run.link, "")
    secrets = [*run.marks.made, *run.cast.tokens.values(), PASSWORD, VERIFIER]
    secrets += [run.link.rstrip("/").rpartition("/")[2], "Lease signed", "Lindenstra"]

    assert len(secrets) > 50
    assert [each for each in secrets if each in printed] == []
    assert "KEPT" not in printed  # methods, which Django capitalizes


def test_database_log_contains_no_personal_data(run: Run) -> None:
    written = (run.cast.installation.var / "postgres/data/server.log").read_text(errors="replace")

    assert [each for each in run.marks.made if each in written] == []


def test_every_log_line_is_a_json_object(run: Run) -> None:
    lines = [json.loads(line) for line in run.server.lines if line.startswith("{")]
    requests = [line for line in lines if line["logger"] == "pdpp.access"]

    assert {"time", "level", "logger", "message"} <= set.intersection(
        *(set(each) for each in lines)
    )
    assert {"DEBUG", "INFO", "ERROR"} >= {line["level"] for line in lines} - {"WARNING"}
    assert len(requests) > 30
    assert {line["route"] for line in requests} >= {"/v1/search", "/mcp", "/oauth/token", "/…"}
    assert all({"method", "route", "status", "milliseconds"} <= set(each) for each in requests)
    # Nothing was printed but these and the welcome.
    others = [line for line in run.server.lines if not line.startswith("{")]
    assert len("".join(others)) < 1_000, others


def test_failure_is_logged_without_its_message(run: Run) -> None:
    lines = [json.loads(line) for line in run.server.lines if line.startswith("{")]
    failures = [line for line in lines if "exception" in line]

    assert failures
    assert any("ProgrammingError" in line["exception"] for line in failures)
    assert any("evidence/api/base_views.py" in line["exception"] for line in failures)
