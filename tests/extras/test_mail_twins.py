"""A mailbox over IMAP and a file of Outlook with the same mail have each mail once."""

from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes, policy
from itertools import count
from pathlib import Path

import pytest
from django.utils import timezone

from evidence.write.record_erasure import delete_record
from tests.extras.outlook_data_file import Mail
from tests.extras.test_outlook import (
    AUTHOR,
    AUTHOR_ADDRESS,
    FILE_CONTENT,
    FILE_NAME,
    MESSAGE_ID,
    SENT_AT,
    SUBJECT,
    TEXT,
    as_msg,
    write_data_file,
)
from tests.importers.dovecot import Dovecot, message, run_dovecot
from tests.importers.imports import connection, content, latest, one, records, run
from tests.importers.needs import OUTLOOK
from tests.importers.syncing import connect, run_sync

pytestmark = pytest.mark.django_db

USERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    with run_dovecot() as dovecot:
        yield dovecot


@pytest.fixture(autouse=True)
def _trusted(server: Dovecot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))


@pytest.fixture
def user(server: Dovecot) -> str:
    """A mailbox with one mail that has a file, and one without."""
    name = f"eva{next(USERS)}@mail.example"
    server.append(name, message(1, attachment=b"a file"), message(2))
    return name


def letter(number: int) -> Mail:
    """Return a mail of ``message`` as a data file has it."""
    properties = {
        SUBJECT: f"Letter {number}",
        SENT_AT: datetime(2026, 1, 5, 8, 0, number, tzinfo=UTC),
        MESSAGE_ID: f"<{number}@mail.example>",
        TEXT: f"This is letter {number}.",
        AUTHOR_ADDRESS: "bea@mail.example",
    }
    files = [{FILE_NAME: "a.txt", FILE_CONTENT: b"a file"}]
    return Mail(properties, [], files if number == 1 else [])


def write(folder: Path, form: str) -> Path:
    """Write the mails of the mailbox, and a third one."""
    folder.mkdir(exist_ok=True)
    if form == "pst":
        return write_data_file(folder / "a.pst", Old=[letter(number) for number in (1, 2, 3)])
    contents = [message(1, attachment=b"a file"), message(2), message(3)]
    for number, raw in enumerate(contents):
        if form == "msg":
            parsed = message_from_bytes(raw, policy=policy.default)
            as_msg(parsed).save(folder / f"{number}.msg")
        else:
            (folder / f"{number}.eml").write_bytes(raw)
    return folder


def subjects() -> list[str]:
    return sorted(each["subject"] for each in records("messages"))


LETTERS = ["Letter 1", "Letter 2", "Letter 3"]
PST = pytest.param("pst", marks=OUTLOOK)


@pytest.mark.slow
@pytest.mark.parametrize("form", [PST, "msg", "eml"])
@pytest.mark.parametrize("is_import_first", [True, False])
def test_mail_of_an_account_and_of_a_file_is_stored_once(
    server: Dovecot, user: str, tmp_path: Path, form: str, *, is_import_first: bool
) -> None:
    path = write(tmp_path / "mail", form)
    if is_import_first:
        run(path)
        pk = connect(server, user, connection_id=connection("Mail").connection_id)
        run_sync(pk)
    else:
        pk = connect(server, user)
        run_sync(pk)
        run(path, connection=pk)

    assert subjects() == LETTERS
    letter = one("messages", subject="Letter 1")
    assert letter["folder"] == "inbox"
    assert one("attachments")["message_id"] == letter["id"]
    assert content(one("attachments")["blob_ref"]) == b"a file"
    run(path, connection=pk)
    assert latest().created == 0
    server.renumber(user)
    assert run_sync(pk).created == 0
    assert subjects() == LETTERS


@pytest.mark.slow
@OUTLOOK
def test_flags_of_an_account_change_mail_of_a_file(
    server: Dovecot, user: str, tmp_path: Path
) -> None:
    run(write(tmp_path / "mail", "pst"))
    pk = connect(server, user, connection_id=connection("Mail").connection_id, is_mirror=True)
    run_sync(pk)
    with server.client(user) as other:
        other.select()
        other.uid("STORE", "2", "+FLAGS", r"(\Seen)")
        other.uid("STORE", "1", "+FLAGS", r"(\Deleted)")
        other.expunge()

    run_sync(pk)
    run_sync(pk)

    assert one("messages", subject="Letter 2")["is_read"] is True
    assert subjects() == LETTERS


@pytest.mark.slow
@pytest.mark.parametrize("form", [PST, "msg", "eml"])
@pytest.mark.parametrize("is_import_first", [True, False])
def test_erased_mail_does_not_return(
    server: Dovecot, user: str, tmp_path: Path, form: str, *, is_import_first: bool
) -> None:
    path = write(tmp_path / "mail", form)
    if is_import_first:
        run(path)
        pk = connection("Mail").connection_id
    else:
        pk = connect(server, user)
        run_sync(pk)
    erased = {"messages": one("messages", subject="Letter 1"), "attachments": one("attachments")}
    for stream, record in erased.items():
        delete_record(pk, stream=stream, record_key=record["id"], suppress=True, now=timezone.now())

    if is_import_first:
        connect(server, user, connection_id=pk)
        run_sync(pk)
    else:
        run(path, connection=pk)

    assert subjects() == LETTERS[1:]
    assert records("attachments") == []
    server.renumber(user)
    run_sync(pk)
    assert subjects() == LETTERS[1:]


def anonymous(number: int, *, html: bool = False) -> bytes:
    """Return a mail without a Message-ID."""
    raw = message(number).replace(f"Message-ID: <{number}@mail.example>\r\n".encode(), b"")
    if html:
        page = f"<p>This is&nbsp;<b>letter</b> {number}. <a href='https://x.example/a?b=c'></a></p>\r\n"
        head, _, _ = raw.partition(b"\r\n\r\n")
        raw = head + b"\r\nContent-Type: text/html\r\n\r\n" + page.encode()
    return raw


def write_anonymous(folder: Path, form: str, *numbers: int) -> Path:
    folder.mkdir(exist_ok=True)
    if form == "pst":
        letters = [letter(number) for number in numbers]
        for each in letters:
            del each.properties[MESSAGE_ID]
            each.properties[AUTHOR] = "Bea"
        return write_data_file(folder / "a.pst", Old=letters)
    for number in numbers:
        raw = anonymous(number, html=form == "html")
        if form == "msg":
            parsed = message_from_bytes(raw, policy=policy.default)
            as_msg(parsed).save(folder / f"{number}.msg")
        elif form == "mbox":
            with (folder / "a.mbox").open("ab") as mbox:
                mbox.write(b"From a Mon Jan  5 08:30:00 2026\n" + raw.replace(b"\r", b"") + b"\n")
        elif form == "maildir":
            for name in ("cur", "new", "tmp"):
                (folder / name).mkdir(exist_ok=True)
            (folder / "cur" / f"{number}.host:2,S").write_bytes(raw)
        else:
            (folder / f"{number}.eml").write_bytes(raw)
    return folder


FORMS = ["mbox", "eml", "maildir", "html", "msg", PST]


@pytest.mark.parametrize("second", FORMS)
@pytest.mark.parametrize("first", ["mbox", "msg", PST])
def test_mail_without_a_message_id_is_stored_once(tmp_path: Path, first: str, second: str) -> None:
    run(write_anonymous(tmp_path / "first", first, 2, 3))
    erased = one("messages", subject="Letter 2")
    pk = connection("Mail").connection_id
    delete_record(pk, stream="messages", record_key=erased["id"], suppress=True, now=timezone.now())

    path = write_anonymous(tmp_path / "second", second, 2, 3, 4)
    run(path)

    is_mime = first == "mbox" and second == "html"  # two mails: their bytes differ, not their form
    assert subjects() == ["Letter 2"] * is_mime + ["Letter 3"] * (1 + is_mime) + ["Letter 4"]
    run(path)
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("form", [PST, "msg", "eml"])
def test_mail_of_an_account_without_a_message_id(
    server: Dovecot, tmp_path: Path, form: str
) -> None:
    name = f"eva{next(USERS)}@mail.example"
    server.append(name, anonymous(2), anonymous(3))
    run(write_anonymous(tmp_path / "mail", form, 2, 3))

    run_sync(connect(server, name, connection_id=connection("Mail").connection_id))

    assert subjects() == ["Letter 2", "Letter 3"]
