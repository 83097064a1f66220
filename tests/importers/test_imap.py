"""A mailbox is kept up to date over IMAP, from a real server."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from django.utils import timezone

from evidence.write.record_erasure import delete_record
from importers.core import source_process
from importers.core.source import ProblemCode, SourceError
from importers.models import SyncedItem
from importers.sources.accounts import list_containers
from tests.importers.cutting_proxy import CuttingProxy, cutting_proxy
from tests.importers.dovecot import Dovecot, message, messages, run_dovecot
from tests.importers.imports import connection, content, latest, one, records, run
from tests.importers.syncing import account_of, connect, details, run_sync

pytestmark = pytest.mark.django_db

MBOX_START = b"From bea@mail.example Mon Jan  5 08:30:00 2026\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    with run_dovecot() as dovecot:
        yield dovecot


@pytest.fixture
def proxy(server: Dovecot) -> Iterator[CuttingProxy]:
    with cutting_proxy(server.port) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _trusted(server: Dovecot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))


USERS = count()


@pytest.fixture
def user() -> str:
    """A mailbox for each test."""
    return f"ida{next(USERS)}@mail.example"


def subjects() -> list[str]:
    return sorted(each["subject"] for each in records("messages"))


def letters(*numbers: int) -> list[str]:
    return sorted(f"Letter {number}" for number in numbers)


def mbox(path: Path, *numbers: int) -> Path:
    content = b"".join(
        MBOX_START + message(number).replace(b"\r\n", b"\n") + b"\n" for number in numbers
    )
    path.write_bytes(content)
    return path


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


@pytest.mark.slow
def test_second_sync_reads_what_is_new(server: Dovecot, user: str) -> None:
    server.append(user, message(1))
    pk = connect(server, user)
    run_sync(pk)
    server.append(user, message(2))

    second, third = run_sync(pk), run_sync(pk)

    assert (second.created, second.unchanged) == (1, 0)
    assert (third.created, third.unchanged, third.updated) == (0, 0, 0)
    assert subjects() == letters(1, 2)


def test_flags_and_moves_change_records(server: Dovecot, user: str) -> None:
    server.append(user, message(1), message(2), message(3))
    pk = connect(server, user)
    run_sync(pk)
    with server.client(user) as other:
        other.create("Archive")
        other.select()
        other.uid("STORE", "1", "+FLAGS", r"(\Seen)")
        other.uid("MOVE", "2", "Archive")
        other.uid("COPY", "3", "Archive")
    account = account_of(pk)
    account.settings["containers"].append("Archive")
    account.save(update_fields=["settings"])

    report = run_sync(pk)

    assert (report.created, report.updated, report.deleted) == (0, 2, 0)
    places = {each["subject"]: (each["folder"], each["is_read"]) for each in records("messages")}
    assert places == {
        "Letter 1": ("inbox", True),
        "Letter 2": ("Archive", False),
        "Letter 3": ("inbox", False),
    }


@pytest.mark.slow
@pytest.mark.parametrize("is_mirror", [False, True])
def test_deleted_messages_stay_unless_the_owner_chose_mirroring(
    server: Dovecot, user: str, tmp_path: Path, is_mirror: bool
) -> None:
    server.append(user, message(1), message(2, attachment=b"a file"), message(3), message(4))
    run(mbox(tmp_path / "mail.mbox", 3))
    pk = connect(server, user, is_mirror=is_mirror, connection_id=connection("Mail").connection_id)
    run_sync(pk)
    with server.client(user) as other:
        other.select()
        other.uid("STORE", "2:3", "+FLAGS", r"(\Deleted)")
        other.expunge()

    first, second = run_sync(pk), run_sync(pk)

    # A pass later: the message could be on its way to another folder.
    assert first.deleted == 0
    assert second.deleted == (2 if is_mirror else 0)
    assert subjects() == (letters(1, 3, 4) if is_mirror else letters(1, 2, 3, 4))
    assert len(records("attachments")) == (0 if is_mirror else 1)
    assert run_sync(pk).deleted == 0


@pytest.mark.slow
def test_an_import_since_protects_its_records_from_mirroring(
    server: Dovecot, user: str, tmp_path: Path
) -> None:
    server.append(user, message(1))
    pk = connect(server, user, is_mirror=True)
    run_sync(pk)
    run(mbox(tmp_path / "mail.mbox", 1), connection=pk)
    with server.client(user) as other:
        other.select()
        other.uid("STORE", "1", "+FLAGS", r"(\Deleted)")
        other.expunge()

    reports = [run_sync(pk) for _ in range(3)]

    assert sum(each.deleted for each in reports) == 0
    assert subjects() == letters(1)


@pytest.mark.slow
@pytest.mark.parametrize("is_mirror", [False, True])
def test_renumbered_folder_is_read_again_and_nothing_is_removed(
    server: Dovecot, user: str, is_mirror: bool
) -> None:
    server.append(user, *messages(range(1, 6)))
    pk = connect(server, user, is_mirror=is_mirror)
    run_sync(pk)
    validity = account_of(pk).state["folders"]["INBOX"]["validity"]
    server.renumber(user)

    reports = [run_sync(pk) for _ in range(3)]

    assert account_of(pk).state["folders"]["INBOX"]["validity"] != validity
    assert [(each.created, each.updated, each.deleted) for each in reports] == [(0, 0, 0)] * 3
    assert subjects() == letters(*range(1, 6))
    assert SyncedItem.unscoped.filter(connection_id=pk).count() == 5


@pytest.mark.slow
def test_imported_and_synced_mailbox_has_no_duplicates(
    server: Dovecot, user: str, tmp_path: Path
) -> None:
    run(mbox(tmp_path / "mail.mbox", 1, 2))
    server.append(user, *messages(range(1, 4)))
    pk = connect(server, user, connection_id=connection("Mail").connection_id)

    report = run_sync(pk)
    run(mbox(tmp_path / "later.mbox", 1, 2, 3), connection=pk)

    assert report.created == 1
    assert subjects() == letters(1, 2, 3)


@pytest.mark.slow
def test_import_keeps_folder_and_flags_that_only_the_account_knows(
    server: Dovecot, user: str, tmp_path: Path
) -> None:
    server.append(user, message(1), folder="Archive")
    pk = connect(server, user)
    run_sync(pk)
    synced = one("messages", subject="Letter 1")
    assert (synced["folder"], synced["is_read"]) == ("Archive", False)

    run(mbox(tmp_path / "mail.mbox", 1), connection=pk)

    found = one("messages", subject="Letter 1")
    assert (found["folder"], found["is_read"]) == ("Archive", False)
    assert latest().created == 0


@pytest.mark.slow
def test_sync_keeps_labels_that_only_an_import_knows(
    server: Dovecot, user: str, tmp_path: Path
) -> None:
    export = mbox(tmp_path / "mail.mbox", 1)
    separator, _, rest = export.read_bytes().partition(b"\n")
    export.write_bytes(separator + b"\nX-Gmail-Labels: Travel,Opened\n" + rest)
    run(export)
    server.append(user, message(1), folder="Archive")
    pk = connect(server, user, connection_id=connection("Mail").connection_id)

    run_sync(pk)
    run(mbox(tmp_path / "bare.mbox", 1), connection=pk)

    found = one("messages", subject="Letter 1")
    assert found["labels"] == ["Travel", "Opened"]
    assert (found["folder"], found["is_read"]) == ("Archive", False)


@pytest.mark.slow
def test_erased_message_stays_erased(server: Dovecot, user: str) -> None:
    server.append(user, message(1), message(2))
    pk = connect(server, user)
    run_sync(pk)
    key = one("messages", subject="Letter 1")["id"]
    delete_record(pk, stream="messages", record_key=key, suppress=True, now=timezone.now())
    server.renumber(user)

    report = run_sync(pk)

    assert subjects() == letters(2)
    assert report.notes == ["inbox message 1: You erased this record; it was not imported again."]
    assert not SyncedItem.unscoped.filter(record_key=key).exists()


@pytest.mark.slow
def test_connection_cut_anywhere_loses_and_doubles_nothing(
    server: Dovecot, user: str, proxy: CuttingProxy
) -> None:
    """The cut comes later at each attempt, so that it falls into every step."""
    server.append(user, *messages(range(1, 30)))
    server.append(user, message(50, attachment=b"x" * 20_000), folder="Archive")
    pk = connect(server, user, port=str(proxy.port))
    codes, stored = set(), 0
    for cut_after in range(500, 60_000, 1_500):
        proxy.cut_after = cut_after
        run_sync(pk)
        problem = account_of(pk).problem
        _state_is_true(pk)
        assert len(records("messages")) >= stored
        stored = len(records("messages"))
        if problem is None:
            break
        codes.add(problem["code"])

    assert codes <= {ProblemCode.CONNECTION_LOST}
    assert codes
    assert subjects() == letters(*range(1, 30), 50)
    assert account_of(pk).problem is None
    assert run_sync(pk).created == 0


def _state_is_true(pk: str) -> None:
    """Everything that the state covers is stored, and has a note."""
    folders = account_of(pk).state.get("folders", {})
    for name, state in folders.items():
        title = "inbox" if name == "INBOX" else name
        items = SyncedItem.unscoped.filter(connection_id=pk, container=title)
        assert items.count() == state["next_uid"] - 1
    keys = set(SyncedItem.unscoped.filter(connection_id=pk).values_list("record_key", flat=True))
    assert keys == {each["id"] for each in records("messages")}


@pytest.mark.slow
def test_change_by_another_program_while_we_read(
    server: Dovecot, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.append(user, *messages(range(1, 21)))
    pk = connect(server, user)
    run_sync(pk)
    server.append(user, *messages(range(21, 41)))

    def disturb(_done: int, _total: int) -> None:
        with server.client(user) as other:
            other.select()
            other.uid("STORE", "1:10", "+FLAGS", r"(\Deleted)")
            other.expunge()
            other.append("INBOX", "", None, message(99))

    monkeypatch.setattr("importers.sources.runner.BATCH_ITEMS", 1)
    run_sync(pk, on_progress=disturb)
    run_sync(pk)

    assert subjects() == letters(*range(1, 41), 99)


@pytest.mark.slow
def test_wrong_password_names_the_side_and_is_not_tried_again_soon(
    server: Dovecot, user: str
) -> None:
    server.append(user, message(1))
    pk = connect(server, user, folders=["INBOX"], password="wrong")

    report = run_sync(pk)

    account = account_of(pk)
    assert report.created == 0
    assert account.problem is not None
    assert account.problem["code"] == ProblemCode.PASSWORD_REFUSED
    assert (account.due_at - timezone.now()).total_seconds() > 4 * 3600
    assert "wrong" not in str(vars(account))


@pytest.mark.slow
def test_wrong_certificate_gets_no_password(
    server: Dovecot, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    pk = connect(server, user, folders=["INBOX"])

    run_sync(pk)

    account = account_of(pk)
    assert account.problem is not None
    assert account.problem["code"] == ProblemCode.BAD_CERTIFICATE
    assert user not in (server.base / "log").read_text()


@pytest.mark.slow
def test_certificate_of_another_name_is_refused(server: Dovecot, user: str) -> None:
    with pytest.raises(SourceError) as refused:
        list_containers(details(server, user, host="127.0.0.1"), now=timezone.now())

    assert refused.value.code is ProblemCode.BAD_CERTIFICATE


@pytest.mark.slow
def test_private_address_needs_the_owners_permission(server: Dovecot, user: str) -> None:
    with pytest.raises(SourceError) as refused:
        list_containers(details(server, user, allows_private=""), now=timezone.now())

    assert refused.value.code is ProblemCode.PRIVATE_ADDRESS


@pytest.mark.slow
def test_silent_server_is_too_slow(
    server: Dovecot, user: str, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    pk = connect(server, user, folders=["INBOX"], port=str(proxy.port))
    proxy.is_silent = True
    monkeypatch.setattr(source_process, "READ_SECONDS", 1.0)

    run_sync(pk)

    account = account_of(pk)
    assert account.problem is not None
    assert account.problem["code"] == ProblemCode.TOO_SLOW
