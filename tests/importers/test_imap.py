"""A mailbox is kept up to date over IMAP, from a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evidence.models.source_accounts import SyncedItem
from tests.importers.dovecot import Dovecot, run_dovecot
from tests.importers.imports import connection, content, one, records, run
from tests.importers.syncing import account_of, connect, message, messages, run_sync

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    with run_dovecot() as dovecot:
        yield dovecot


@pytest.fixture(autouse=True)
def _trusted(server: Dovecot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """A mailbox for each test."""
    return f"{request.node.name[:40]}@mail.example".replace("[", "").replace("]", "")


def test_messages_and_attachments_of_all_usual_folders_are_stored(
    server: Dovecot, user: str
) -> None:
    server.append(user, message(1), message(2, attachment=b"a file"))
    server.append(user, message(3), folder="Archive.2024", flags=r"\Seen")
    server.append(user, message(4), folder="Trash")

    report = run_sync(connect(server, user))

    assert {(each["subject"], each["folder"], each["is_read"]) for each in records("messages")} == {
        ("Letter 1", "inbox", False),
        ("Letter 2", "inbox", False),
        ("Letter 3", "Archive/2024", True),
    }
    assert content(one("attachments")["blob_ref"]) == b"a file"
    assert (report.created, report.files, report.is_complete) == (4, 1, True)


def test_second_sync_reads_what_is_new(server: Dovecot, user: str) -> None:
    server.append(user, message(1))
    pk = connect(server, user)
    run_sync(pk)
    server.append(user, message(2))

    second, third = run_sync(pk), run_sync(pk)

    assert (second.created, second.unchanged) == (1, 0)
    assert (third.created, third.unchanged, third.updated) == (0, 0, 0)
    assert len(records("messages")) == 2
