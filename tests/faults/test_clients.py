"""Clients that send or read slowly keep nobody else waiting."""

import contextlib
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.test_blobs import FILES
from tests.faults.load import Load, hold_to_account
from tests.pdpp_site.installation import installed, running
from tests.pdpp_site.living import Cast, cast_in

pytestmark = pytest.mark.faults

SLOW = 100
STALLED_READERS = 2
"""One token has two requests at once; more of them would wait for these."""
"""Half of the threads: each that reads nothing holds one until it is given up."""
BLOB_BYTES = 20_000_000


@contextlib.contextmanager
def lines(cast: Cast, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as open_lines:
        found = []
        for _ in range(count):
            line = socket.socket()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", cast.installation.port))
            found.append(open_lines.enter_context(line))
        yield found


def test_a_hundred_slow_bodies_occupy_no_thread() -> None:
    with installed() as installation, running(installation):
        cast = cast_in(installation)
        head = (
            "POST /v1/ingest/messages?connector_id=mail&connection_id=cin_personal HTTP/1.1\r\n"
            f"Host: localhost\r\nAuthorization: Bearer {cast.tokens['alice']}\r\n"
            "Content-Length: 1000\r\n\r\n{"
        )
        load = Load(cast, "beside")
        with lines(cast, SLOW) as slow:
            for number, line in enumerate(slow):
                # Some have not even finished their head.
                line.sendall(head.encode()[: None if number % 2 else 40])
            with load.going_on():
                load.progress(more=10)
            for line in slow:
                with contextlib.suppress(ConnectionError):  # some are past their deadline
                    line.sendall(b" ")
        assert load.broken == 0
        hold_to_account(cast, load)


def large_blob(cast: Cast, declaration: Path) -> str:
    """The id of one of ``BLOB_BYTES`` that the owner may read."""
    declaration.write_text(json.dumps(FILES))
    assert cast.installation.say("declare", str(declaration)).code == 0
    connected = cast.installation.say("connect", "files", "--name", "Files").out
    [connection_id] = re.findall(r"cin_\w+", connected)
    where = {"connector_id": "files", "connection_id": connection_id}
    with cast.http("alice") as http:
        sent = http.post(
            "/v1/blobs",
            params=where | {"stream": "attachments", "record_key": "a"},
            content=os.urandom(BLOB_BYTES),
            headers={"Content-Type": "application/octet-stream"},
        )
        assert sent.status_code == 200, sent.text
        blob_id = str(sent.json()["blob_id"])
        data = {"id": "a", "blob_ref": {"blob_id": blob_id}}
        line = {"key": "a", "data": data, "emitted_at": "2026-11-01T00:00:00Z"}
        put = http.post("/v1/ingest/attachments", params=where, content=json.dumps(line).encode())
        assert put.json()["records_accepted"] == 1, put.text
    return blob_id


def test_those_that_ask_for_much_and_read_nothing_stop_nobody(tmp_path: Path) -> None:
    with installed() as installation, running(installation):
        cast = cast_in(installation)
        blob_id = large_blob(cast, tmp_path / "files.json")
        request = (
            f"GET /v1/blobs/{blob_id} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {cast.tokens['alice']}\r\n\r\n"
        )
        load = Load(cast, "beside")
        with lines(cast, STALLED_READERS) as stalled:
            for line in stalled:
                line.sendall(request.encode())
                assert line.recv(12) == b"HTTP/1.1 200"
            with load.going_on():
                load.progress(more=10)
        assert load.broken == 0
        hold_to_account(cast, load)
