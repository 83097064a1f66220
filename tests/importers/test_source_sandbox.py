"""Live sources of other packages run in a process that reaches the hosts of its account only."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from evidence.models.owners import get_or_create_owner
from importers.core.source import ProblemCode
from importers.core.source_process import open_connection
from importers.registry import find_source, installed_sources
from importers.sources import accounts
from tests.importers.imports import records
from tests.importers.syncing import account_of, run_sync

pytestmark = [pytest.mark.django_db, pytest.mark.subprocess]

MANIFEST = """
[[sources]]
name = "notes"
object = "pdpp_notes.source:NOTES"
title = "notes of a server"
label = "Notes"
declaration = "pdpp:documents"
hosts = [["host", "port"]]

[[sources.fields]]
name = "host"
label = "Server"
kind = "host"

[[sources.fields]]
name = "port"
label = "Port"
kind = "port"

[[sources.fields]]
name = "token"
label = "Token"
kind = "secret"
"""
CODE = """
import json, os, socket
from importers.core.results import ExportItem, ParsedItem, ParsedRecord
from importers.core.source import Checkpoint, Container, Item, Source

def attempt(action):
    try:
        return repr(action())
    except Exception as error:
        return type(error).__name__ + " " + str(getattr(error, "code", ""))

def parse(key, text):
    if text == "die":
        os._exit(9)
    data = {{"id": key, "path": key, "text": text}}
    return ParsedItem(records=[ParsedRecord("documents", data)])

def item(key, text):
    return Item("notes", key, "", ExportItem("notes", key, 1, lambda: parse(key, text)))

def read(run):
{body}

NOTES = Source(run=read, containers=lambda run: [Container("notes", "notes", True)])
"""
ESCAPES = """
    host, port = run.settings["host"], run.settings["port"]
    ours = run.network.connect(host, port, is_encrypted=False)
    ours.sendall(b"ping")
    answers = {"pong": ours.recv(4).decode()}
    ours.close()
    closed = run.network.connect(host, port, is_encrypted=False)
    closed.sendall(b"quit")
    closed.recv(1)  # the server ends the connection
    spare = ("127.0.0.1", run.settings["port"])
    answers["socket"] = attempt(lambda: socket.socket())
    answers["other host"] = attempt(lambda: run.network.connect("example.org", 443))
    answers["other port"] = attempt(lambda: run.network.connect(host, port + 1))
    answers["connect"] = attempt(lambda: closed.connect(spare))
    answers["fast open"] = attempt(lambda: closed.sendto(b"x", 0x20000000, spare))
    answers["message"] = attempt(lambda: closed.sendmsg([b"x"], [], 0x20000000, spare))
    answers["listen"] = attempt(lambda: closed.listen())
    answers["file"] = attempt(lambda: open("/etc/passwd").read())
    answers["home"] = attempt(lambda: os.listdir("/root"))
    answers["keys"] = sorted(set(os.environ) - {"LC_ALL", "TMPDIR", "LC_CTYPE", "SSL_CERT_FILE"})
    answers["secret"] = run.credential
    yield item("answers", json.dumps(answers))
    yield Checkpoint({"done": True}, ends_pass=True)
"""
DYING = """
    for number in range(run.state.get("next", 0), 4):
        yield item(f"note {number}", "die" if number == 2 else "well")
        yield Checkpoint({"next": number + 1})
    yield Checkpoint({"next": 4}, ends_pass=True)
"""
LEAKING = """
    raise __import__("importers.core.source", fromlist=["x"]).SourceError(
        "server_refused", "the token is " + run.credential["token"])
"""
Install = Callable[[str], str]


@pytest.fixture
def port() -> Iterator[int]:
    """A server that answers ping, and ends a connection on quit."""

    def serve() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            with client:
                if client.recv(4) == b"ping":
                    client.sendall(b"pong")

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> Iterator[Install]:
    """Return a function that installs a package with a source, and connects an account of it."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def install_package(body: str) -> str:
        files = {
            "pdpp_notes/__init__.py": "",
            "pdpp_notes/source.py": CODE.format(body=body),
            "pdpp_notes/sources.toml": MANIFEST,
            "pdpp_notes-1.dist-info/METADATA": "Name: pdpp-notes\nVersion: 1\n",
            "pdpp_notes-1.dist-info/entry_points.txt": "[pdpp.sources]\nnotes = pdpp_notes\n",
        }
        for name, text in files.items():
            path = tmp_path / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        installed_sources.cache_clear()
        return _connect(port)

    yield install_package
    installed_sources.cache_clear()


def _connect(port: int) -> str:
    source = find_source("notes")
    assert source is not None
    values = {"host": "localhost", "port": str(port), "token": "tok-1234", "allows_private": "yes"}
    now = timezone.now()
    account = accounts.connect_account(
        accounts.parse_details(source, values),
        containers=["notes"],
        connection_id=None,
        is_mirror=False,
        owner_id=get_or_create_owner(now).owner_id,
        now=now,
    )
    return account.connection_id


def test_source_reaches_its_hosts_and_nothing_else(install: Install) -> None:
    run_sync(install(ESCAPES))

    (record,) = records("documents")
    answers: dict[str, Any] = json.loads(record["text"])
    assert answers == {
        "pong": "pong",
        "socket": "PermissionError ",
        "other host": "SourceError source_failed",
        "other port": "SourceError source_failed",
        "connect": "PermissionError ",
        "fast open": "PermissionError ",
        "message": "PermissionError ",
        "listen": "PermissionError ",
        "file": "PermissionError ",
        "home": "PermissionError ",
        "keys": [],
        "secret": {"token": "tok-1234"},
    }


def test_item_that_kills_the_source_is_skipped_at_last(install: Install) -> None:
    pk = install(DYING)

    reports = [run_sync(pk) for _ in range(3)]

    assert [each.is_complete for each in reports] == [False, False, True]
    assert sorted(each["id"] for each in records("documents")) == ["note 0", "note 1", "note 3"]
    assert reports[2].notes == ["notes note 2: The item cannot be read. it stopped the source"]
    assert account_of(pk).problem is None


def test_error_of_a_source_shows_no_secret(install: Install) -> None:
    pk = install(LEAKING)

    run_sync(pk)

    problem = account_of(pk).problem
    assert problem is not None
    assert problem["code"] == ProblemCode.SERVER_REFUSED
    assert problem["detail"] == "the token is …"


@pytest.mark.parametrize("host", ["169.254.169.254", "224.0.0.1", "::ffff:169.254.169.254"])
def test_permission_for_private_addresses_covers_no_metadata_service(host: str) -> None:
    source = find_source("imap")
    assert source is not None

    with pytest.raises(Exception, match=ProblemCode.PRIVATE_ADDRESS):
        open_connection(source, {"host": host, "port": 993}, host, 993, private=True)
