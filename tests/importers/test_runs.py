"""Runs: said first, resumed, repeated, brought up to date, and never ended by what they read."""

import os
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.core.management.base import CommandError
from django.db import connection as db
from django.utils import timezone

from evidence.errors import InvalidRequest
from evidence.models.accounts import the_owner
from evidence.models.imports import ImportReceipt, ImportRun
from evidence.storing.record_erasure import erase
from importers.mail import mailboxes
from importers.runs import runner
from importers.runs.preview import Wish, survey
from importers.runs.runner import Stopped, import_part
from tests.importers.imports import TORTURE, connection, latest, one, receipts, records, run
from tests.storing import stored

pytestmark = pytest.mark.django_db
MBOX = TORTURE / "mail.mbox"


def mbox(path: Path, *numbers: int) -> Path:
    """A mailbox with a mail for each number."""
    path.write_bytes(
        b"".join(
            b"From a@example.org Mon Jan  5 08:30:00 2026\nFrom: a@example.org\n"
            b"Message-ID: <%d@example.org>\nDate: Mon, 5 Jan 2026 08:30:00 +0000\n"
            b"Subject: Number %d\n\nThe body of number %d.\n\n" % (number, number, number)
            for number in numbers
        )
    )
    return path


def test_the_same_export_again_writes_nothing() -> None:
    run(MBOX)
    before = stored.everything()

    said = run(MBOX)

    assert stored.everything() == before
    assert "0 new, 0 changed" in said


def test_a_newer_export_adds_what_is_new(tmp_path: Path) -> None:
    run(mbox(tmp_path / "old.mbox", 1, 2))

    run(mbox(tmp_path / "new.mbox", 1, 2, 3))

    assert latest().created == 1
    assert latest().updated == 0
    assert len(records("messages")) == 3


def test_a_dry_run_says_what_is_there_and_writes_nothing() -> None:
    said = run(MBOX, dry_run=True)

    assert "a new connection" in said
    assert "14 messages" in said
    assert "mail 5" in said
    assert not ImportRun.unscoped.exists()


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mbox(tmp_path / "many.mbox", *range(2_500), 7)
    now, owner_id = timezone.now(), the_owner(timezone.now()).owner_id

    def part() -> runner.Part:
        return survey(path, wish=Wish(), owner_id=owner_id, now=now).parts[0]

    def stop(so_far: ImportRun) -> None:
        if so_far.items_done:
            raise Stopped

    with pytest.raises(Stopped):
        import_part(part(), label="x", workspace=tmp_path, now=now, on_progress=stop)
    stopped = latest()
    assert stopped.status == ImportRun.Status.STOPPED
    assert stopped.items_done == 1_000
    read = []
    make = runner.Feed._of_piece

    def counted(*args: object) -> object:
        read.append(args)
        return make(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(runner.Feed, "_of_piece", counted)
    finished = import_part(part(), label="x", workspace=tmp_path, now=now)

    assert finished.run_id == stopped.run_id
    assert finished.status == ImportRun.Status.FINISHED
    assert len(read) == 1_501
    assert (finished.created, finished.doubles) == (2_500, 1)
    assert finished.bytes_done == finished.bytes_total == path.stat().st_size


def test_without_its_log_a_run_starts_over_and_finds_nothing_new(tmp_path: Path) -> None:
    path = mbox(tmp_path / "many.mbox", *range(1_200))
    now, owner_id = timezone.now(), the_owner(timezone.now()).owner_id
    part = survey(path, wish=Wish(), owner_id=owner_id, now=now).parts[0]

    def stop(so_far: ImportRun) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        import_part(part, label="x", workspace=tmp_path, now=now, on_progress=stop)
    for log in tmp_path.glob("*.keys"):
        log.unlink()
    part = survey(path, wish=Wish(), owner_id=owner_id, now=now).parts[0]

    assert import_part(part, label="x", workspace=tmp_path, now=now).unchanged == 1_000
    assert len(records("messages")) == 1_200


def test_a_run_that_starts_over_says_everything_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "a.mbox").write_bytes(MBOX.read_bytes())
    (folder / "what.raw").write_bytes(b"nothing anybody knows")
    with monkeypatch.context() as full:
        full.setattr(runner.KeyLog, "append", Mock(side_effect=OSError(28, "No space left")))
        with pytest.raises(CommandError, match=r"No space left\. What was stored stays"):
            run(folder)

    run(folder)

    assert latest().status == ImportRun.Status.FINISHED
    assert ImportRun.unscoped.count() == 1
    assert ImportReceipt.unscoped.count() == latest().left_out + latest().remarked == 3
    assert len(records("messages")) == 14


@pytest.mark.django_db(transaction=True)
def test_a_database_that_goes_away_is_said_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mbox(tmp_path / "many.mbox", *range(1_200))
    keep = runner._Importing._keep_files

    def cut_off(self: Any, *args: Any) -> None:
        keep(self, *args)
        with psycopg.connect(os.environ["DATABASE_URL"], dbname=db.settings_dict["NAME"]) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [db.connection.info.backend_pid])

    with monkeypatch.context() as gone:
        gone.setattr(runner._Importing, "_keep_files", cut_off)
        with pytest.raises(CommandError, match=r"The database failed\. What was stored stays"):
            run(path)
    db.close()
    run(path)

    assert latest().status == ImportRun.Status.FINISHED
    assert (latest().created, latest().unchanged) == (200, 1_000)
    assert len(records("messages")) == 1_200


def test_of_two_that_import_the_same_at_once_one_is_told_so(tmp_path: Path) -> None:
    now, owner_id = timezone.now(), the_owner(timezone.now()).owner_id
    refused = []

    def part() -> runner.Part:
        return survey(MBOX, wish=Wish(), owner_id=owner_id, now=now).parts[0]

    def again(so_far: ImportRun) -> None:
        with pytest.raises(InvalidRequest, match="being imported already"):
            import_part(part(), label="x", workspace=tmp_path, now=now)
        refused.append(so_far)

    done = import_part(part(), label="x", workspace=tmp_path, now=now, on_progress=again)

    assert refused
    assert done.status == ImportRun.Status.FINISHED
    assert ImportReceipt.unscoped.count() == done.remarked == 2
    import_part(part(), label="x", workspace=tmp_path, now=now)


def test_records_go_to_the_connection_that_is_named(tmp_path: Path) -> None:
    run(mbox(tmp_path / "a.mbox", 1), connection="Private", language=["de"])
    run(mbox(tmp_path / "b.mbox", 2), connection="Work")
    run(mbox(tmp_path / "c.mbox", 3), connection="Private")

    assert connection("Private").languages == ["de"]
    assert connection("Private").labelled_by_owner
    assert stored.counts() == {
        (connection("Private").connection_id, "messages"): 2,
        (connection("Work").connection_id, "messages"): 1,
    }


def test_what_was_erased_stays_erased_and_is_said() -> None:
    run(MBOX)
    mail = one("messages", internet_message_id="plain@example.org")
    where = connection("Mail").connection_id
    assert not connection("Mail").labelled_by_owner, "nobody named it"
    erase(where, stream="messages", record_key=mail["id"], suppress=True, now=timezone.now())

    run(MBOX)

    assert ("erased", "mail 1") in receipts()
    assert not stored.record(where, mail["id"])


def test_a_reader_that_fails_in_one_piece_goes_on_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = mailboxes.read_mail

    def fail_on_html(raw: bytes, envelope: object) -> object:
        if b"<html@example.org>" in raw:
            raise MemoryError
        return read(raw, envelope)  # type: ignore[arg-type]

    monkeypatch.setattr(mailboxes, "read_mail", fail_on_html)
    run(MBOX)

    assert ("unreadable", "mail 2") in receipts()
    assert len(records("messages")) == 13


def test_a_report_says_where_why_and_what_to_do(tmp_path: Path) -> None:
    run(MBOX, report=tmp_path / "report.txt")

    line = next(
        line for line in (tmp_path / "report.txt").read_text().splitlines() if "mail 5" in line
    )
    assert line.startswith("- mail.mbox, mail 5, at byte ")
    assert "Its date does not exist" in line
    assert "Mon, 30 Feb 2026" in line
    assert "Search finds it by its words" in line


def test_a_zip_is_read_without_being_unpacked_and_its_traps_are_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "takeout.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(MBOX, "Takeout/Mail/All mail Including Spam and Trash.mbox")
        archive.writestr("../../etc/passwd", "root")
        archive.writestr("Takeout/bomb.mbox", b"\0" * 20_000_000)
        archive.writestr("Takeout/Mail/locked.mbox", "From a Mon Jan  5 08:30:00 2026\nA: b\n\n")
    content = (tmp_path / "takeout.zip").read_bytes()
    name = b"Takeout/Mail/locked.mbox"
    central = content.rindex(name) - 46
    content = content[: central + 8] + b"\x01\x00" + content[central + 10 :]
    (tmp_path / "takeout.zip").write_bytes(content)

    said = run(tmp_path / "takeout.zip")

    assert len(records("messages")) == 14
    assert "leads out of the archive" in said
    assert {
        ("unsafe_name", "../../etc/passwd"),
        ("zip_bomb", "Takeout/bomb.mbox"),
        ("encrypted", "Takeout/Mail/locked.mbox"),
    } <= receipts()


def test_an_archive_that_is_cut_off_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "takeout.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(mbox(tmp_path / "a.mbox", *range(3_000)), "a.mbox")
    content = bytearray(path.read_bytes())
    content[200_000:200_100] = b"\xff" * 100
    path.write_bytes(content)

    run(path)

    assert ("damaged", "a.mbox") in receipts()
    assert len(records("messages")) >= 500


@pytest.mark.parametrize("content", [b"PK\x03\x04 not a zip at all", b"PK\x05\x06"])
def test_what_only_looks_like_an_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)

    with pytest.raises(CommandError, match="damaged"):
        run(tmp_path / "x.zip")


def test_what_nobody_knows_is_said_and_fails(tmp_path: Path) -> None:
    (tmp_path / "photo.raw").write_bytes(b"\0\1\2")

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(tmp_path / "photo.raw")
    with pytest.raises(CommandError, match="No kind is called 'sheep'"):
        run(tmp_path / "photo.raw", kind="sheep")
    for name in ("nothing.mbox", "longer than any name " * 20):
        with pytest.raises(CommandError, match="cannot be opened"):
            run(tmp_path / name)


def test_folders_that_are_closed_to_the_server_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "export" / "closed"
    closed.mkdir(parents=True)
    (closed.parent / "a.mbox").write_bytes((TORTURE / "mail.mbox").read_bytes())
    looked = os.scandir

    # Tests run as root, to whom nothing is closed.
    def scandir(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return looked(path)

    monkeypatch.setattr(os, "scandir", scandir)
    run(closed.parent)

    assert ("cannot_open", "closed") in receipts()
    with pytest.raises(CommandError, match="cannot be opened"):
        run(closed)
