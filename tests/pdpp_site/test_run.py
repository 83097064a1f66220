"""``manage.py run`` as a process of its own, on a directory of its own."""

import contextlib
import json
import signal
import socket
import time

import pytest

from operations import health
from tests.pdpp_site.installation import installed, running

pytestmark = pytest.mark.slow


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


def test_a_request_that_has_begun_is_finished_also_where_the_server_does_nothing_else() -> None:
    body = b"0123456789"
    with installed() as installation:
        with (
            running(installation, PDPP_BACKGROUND="false") as server,
            contextlib.closing(installation.connect()) as line,
        ):
            status, ready = installation.get("/readyz")
            assert (status, json.loads(ready)["warning"]) == (200, health.NO_LEADER)
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


def _await_refusal(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
    raise AssertionError("the server still takes connections")
