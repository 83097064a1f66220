"""Mirroring deletes little by itself: many deletions at once wait for the owner."""

from collections.abc import Iterator
from itertools import count

import pytest

from importers.models import SyncedItem
from importers.sources import status
from tests.importers.dovecot import Dovecot, message, messages, run_dovecot
from tests.importers.imports import records
from tests.importers.syncing import account_of, connect, run_sync

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

USERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    with run_dovecot() as dovecot:
        yield dovecot


@pytest.fixture
def user(server: Dovecot, monkeypatch: pytest.MonkeyPatch) -> str:
    """A mailbox for each test."""
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
    return f"eve{next(USERS)}@mail.example"


def delete(server: Dovecot, user: str, uids: str) -> None:
    with server.client(user) as other:
        other.select()
        other.uid("STORE", uids, "+FLAGS", r"(\Deleted)")
        other.expunge()


@pytest.mark.parametrize(
    ("mails", "lost", "is_held"),
    [(120, 60, True), (120, 50, False), (400, 70, False), (60, 60, True)],
)
def test_many_deletions_of_a_folder_wait_for_the_owner(
    server: Dovecot, user: str, mails: int, lost: int, is_held: bool
) -> None:
    server.fill(user, messages(range(mails)))
    server.append(user, message(1_000), message(1_001), folder="Archive")
    pk = connect(server, user, is_mirror=True)
    run_sync(pk)
    delete(server, user, f"1:{lost}")
    with server.client(user) as other:
        other.select("Archive")
        other.uid("STORE", "1", "+FLAGS", r"(\Deleted)")
        other.expunge()
    server.append(user, message(2_000))

    deleted = sum(run_sync(pk).deleted for _ in range(3))

    assert deleted == (0 if is_held else lost + 1)
    assert len(records("messages")) == mails + 3 - deleted
    asked = status.question(account_of(pk))
    assert (asked is not None) == is_held
    assert not is_held or f"{lost} of {mails + 1} records of Inbox" in str(asked)


def test_question_ends_when_the_messages_are_back(server: Dovecot, user: str) -> None:
    server.fill(user, messages(range(60)))
    pk = connect(server, user, is_mirror=True)
    run_sync(pk)
    delete(server, user, "1:60")
    for _ in range(2):
        run_sync(pk)
    held = account_of(pk).held_deletions
    server.append(user, *messages(range(60)))

    reports = [run_sync(pk) for _ in range(2)]

    assert held is not None
    assert account_of(pk).held_deletions is None
    assert sum(each.deleted for each in reports) == 0
    assert len(records("messages")) == 60


def test_renumbered_folder_that_lost_messages_removes_none(server: Dovecot, user: str) -> None:
    server.append(user, *messages(range(1, 6)))
    pk = connect(server, user, is_mirror=True)
    run_sync(pk)
    delete(server, user, "1:3")
    server.renumber(user)

    reports = [run_sync(pk) for _ in range(3)]

    assert sum(each.deleted for each in reports) == 0
    assert len(records("messages")) == 5
    assert SyncedItem.unscoped.filter(connection_id=pk).count() == 2


def test_folder_that_no_longer_exists_removes_nothing_and_delays_no_other(
    server: Dovecot, user: str
) -> None:
    server.append(user, message(1))
    server.append(user, message(2), folder="Archive")
    pk = connect(server, user, is_mirror=True)
    run_sync(pk)
    with server.client(user) as other:
        other.delete("Archive")

    reports = [run_sync(pk) for _ in range(3)]

    account = account_of(pk)
    assert sum(each.deleted for each in reports) == 0
    assert len(records("messages")) == 2
    assert account.failures == 0
    assert "A chosen folder no longer exists" in str(status.problem_line(account))


def move(server: Dovecot, user: str, uids: str, folder: str) -> None:
    with server.client(user) as other:
        other.create(folder)
        other.select()
        other.uid("COPY", uids, folder)
        other.uid("STORE", uids, "+FLAGS", r"(\Deleted)")
        other.expunge()


def folders() -> dict[str, str]:
    return {each["subject"]: each["folder"] for each in records("messages")}


def test_folder_made_later_is_followed(server: Dovecot, user: str) -> None:
    server.append(user, *messages(range(1, 4)))
    pk = connect(server, user, is_mirror=True)
    run_sync(pk)
    move(server, user, "1", "Projects")
    server.append(user, message(9), folder="Projects")

    reports = [run_sync(pk) for _ in range(3)]

    assert sum(each.deleted for each in reports) == 0
    assert folders() == {
        "Letter 1": "Projects", "Letter 2": "inbox", "Letter 3": "inbox", "Letter 9": "Projects",
    }  # fmt: skip
    delete_in(server, user, "Projects", "1")
    assert sum(run_sync(pk).deleted for _ in range(3)) == 1


def delete_in(server: Dovecot, user: str, folder: str, uids: str) -> None:
    with server.client(user) as other:
        other.select(folder)
        other.uid("STORE", uids, "+FLAGS", r"(\Deleted)")
        other.expunge()


@pytest.mark.parametrize(("folder", "kept"), [("Archive", True), ("Trash", False)])
def test_message_moved_to_a_folder_that_is_not_read_is_kept(
    server: Dovecot, user: str, folder: str, kept: bool
) -> None:
    server.append(user, *messages(range(1, 5)))
    server.append(user, message(8), folder="Archive")
    server.append(user, message(8), folder="Trash")
    pk = connect(server, user, is_mirror=True, folders=["INBOX"])
    run_sync(pk)
    move(server, user, "1", folder)
    delete(server, user, "2")
    server.append(user, message(9), folder="Archive")

    for _ in range(3):
        run_sync(pk)

    found = folders()
    assert ("Letter 1" in found) == kept
    assert "Letter 2" not in found
    assert "Letter 9" not in found  # the owner did not choose this folder


def test_flagged_message_says_so(server: Dovecot, user: str) -> None:
    server.append(user, message(1), flags=r"\Flagged")
    server.append(user, message(2))
    pk = connect(server, user)
    run_sync(pk)
    assert [each["is_flagged"] for each in records("messages")].count(True) == 1

    with server.client(user) as other:
        other.select()
        other.uid("STORE", "2", "+FLAGS", r"(\Flagged)")
    run_sync(pk)

    assert [each["is_flagged"] for each in records("messages")] == [True, True]
