"""``manage.py run`` as a process of its own, on a directory of its own."""

import contextlib
import json
import os
import signal
import socket
import stat
import time
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import psycopg
import pytest

from operations.postgres.server import url
from tests.owner.pages.browser import Form, Page
from tests.pdpp_site.installation import installed, running

pytestmark = pytest.mark.slow
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the address of all interfaces


def test_it_serves_at_once_and_stops_cleanly() -> None:
    with installed() as installation:
        for command in (["import", "README.md"], ["seed"]):
            refused = installation.say(*command)
            assert (refused.code, refused.out) == (1, "")
            assert (
                "Run `python manage.py migrate`, or start the server with `make run`" in refused.err
            )
            assert len(refused.err.splitlines()) == 1
        # Asked for at once after the service was enabled, it may come before the server's own start.
        assert "/set-up/" in installation.say("setup-link").out
        with running(installation) as server:
            assert installation.get("/readyz") == (200, b'{"status":"ready"}')
            assert installation.get("/v1/schema")[0] == 401
            assert installation.get("/mcp")[0] == 401
            assert installation.get("/login")[0] == 200
            link = next(line.strip() for line in server.lines if "/set-up/" in line)
            assert installation.get(link.partition(str(installation.port))[2])[0] == 200

            busy = installation.say("run")
            assert busy.code == 1
            assert f"Port {installation.port} on 127.0.0.1 is in use." in busy.err
            assert installation.get("/readyz")[0] == 200

        assert server.process.returncode == 0
        assert not installation.database_runs()
        # What is carried over to another secret is in the database, which is started for it.
        assert installation.say("keys", "rotate", "secret").code == 0
        retired = installation.say("keys", "retire", "secret")
        assert (retired.code, installation.database_runs()) == (0, False), retired.err
        assert link.rpartition("/set-up/")[2] not in server.printed.replace(link, "")


@pytest.mark.parametrize(
    ("chosen", "told"),
    [({"PDPP_BIND": EVERYWHERE}, True), ({"PDPP_BIND": "127.0.0.1"}, False),
     ({"PDPP_BIND": EVERYWHERE, "PDPP_TRUSTED_PROXIES": "172.30.77.0/24"}, False)],
)  # fmt: skip
def test_a_public_address_without_a_proxy_is_told_what_one_adds(
    chosen: dict[str, str], told: bool
) -> None:
    with installed() as installation, running(installation, **chosen) as server:
        assert installation.get("/readyz")[0] == 200
    assert ("A proxy before this server adds HTTPS" in server.printed) is told


def test_a_request_that_has_begun_is_finished_also_where_the_server_does_nothing_else() -> None:
    body = b"0123456789"
    with installed() as installation:
        with (
            running(installation, PDPP_BACKGROUND="false") as server,
            contextlib.closing(installation.connect()) as line,
        ):
            with psycopg.connect(url(installation.var / "postgres")) as database:
                database.execute("UPDATE operations_job SET due_at = '2026-01-02T03:04:05Z'")
            status, ready = installation.get("/readyz")
            assert status == 200
            assert "waiting since 2026-01-02 03:04 UTC" in json.loads(ready)["warning"]
            line.putrequest("POST", "/v1/schema")
            line.putheader("Content-Length", str(len(body)))
            line.endheaders(body[:5])
            # Answered after the half request above has arrived, so the server knows of it.
            assert installation.get("/healthz")[0] == 200

            server.process.send_signal(signal.SIGTERM)
            _await_refusal(installation.port)
            line.send(body[5:])

            assert line.getresponse().status in (401, 405)
            assert server.process.wait(60) == 0
        assert not installation.database_runs()


def test_no_other_account_reads_what_a_server_keeps(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with installed(tmp_path) as installation, running(installation) as server:
            _import_by_page(installation.url, next(x for x in server.lines if "/set-up/" in x))
            file = str(installation.var / "backups" / "first")
            key = str(installation.var / "key")
            (installation.var / "backups").mkdir()
            made = installation.say("backup", file, "--key-file", key, "--make-key")
            assert made.code == 0, made.err
            assert installation.say("keys", "rotate", "secret").code == 0
            found = {
                str(path.relative_to(installation.var)): path.lstat().st_mode
                for path in (installation.var, *installation.var.rglob("*"))
            }
    finally:
        os.umask(before)

    assert len(found) > 500
    assert any(path.endswith("export/private.vcf") for path in found)
    del found["backups"]  # made by this test
    # Where the server runs as root, PostgreSQL needs a way to its own folder through ours.
    way = {".", "postgres"}
    assert {
        (path, stat.filemode(mode))
        for path, mode in found.items()
        if not stat.S_ISSOCK(mode) and mode & (0o076 if path in way else 0o077)
    } == set()


CARD = b"BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Eva Lang\r\nN:Lang;Eva\r\nEND:VCARD\r\n"


def _import_by_page(url: str, set_up: str) -> None:
    """Make the owner's account, import a file, and send another one, all in a browser."""
    imports = f"{url}/imports"
    with httpx2.Client(follow_redirects=True, timeout=60, headers={"Referer": url}) as browser:

        def send(page: Page, form: Form, **more: Any) -> Page:
            answers = dict(form.answers) | more.pop("answers", {})
            answer = browser.post(urljoin(url, form.action), data=answers, **more)
            assert answer.status_code == 200, answer.text
            return Page(answer.url.path, answer)

        page = Page(set_up.strip(), browser.get(set_up.strip()))
        password = {"password": "correct horse battery", "again": "correct horse battery"}
        send(page, page.form, answers={"username": "alice", **password})
        page = Page(imports, browser.get(imports))
        page = send(page, page.form, files={"file": ("eva.vcf", CARD)})
        page = send(page, page.form, answers={"start": "1"})
        deadline = time.monotonic() + 60
        while "Finished" not in page.text:
            assert time.monotonic() < deadline, page.text
            page = Page(page.address, browser.get(urljoin(url, page.address)))
        page = Page(imports, browser.get(imports))
        send(page, page.form, files={"file": ("private.vcf", CARD)})


def _await_refusal(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
    raise AssertionError("the server still takes connections")
