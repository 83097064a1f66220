"""Runs can be resumed and repeated, and survive errors of single items."""

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
from evidence.models.connections import Connection
from evidence.models.owners import get_or_create_owner
from evidence.write.record_erasure import delete_record
from importers.core.importer import ImportRequest
from importers.core.readers import KeySet
from importers.mail import mailboxes
from importers.models import ImportReceipt, ImportRun
from importers.runs import runner
from importers.runs.preview import ExportPart, preview_export
from importers.runs.record_feed import RecordFeed
from importers.runs.runner import ImportStopped, import_part
from tests.importers.imports import TORTURE, connection, latest, one, receipts, records, run
from tests.write import stored

pytestmark = pytest.mark.django_db
MBOX = TORTURE / "mail.mbox"


def mbox(path: Path, *numbers: int) -> Path:
    """Write a mailbox with a message for each number."""
    path.write_bytes(
        b"".join(
            b"From a@example.org Mon Jan  5 08:30:00 2026\nFrom: a@example.org\n"
            b"Message-ID: <%d@example.org>\nDate: Mon, 5 Jan 2026 08:30:00 +0000\n"
            b"Subject: Number %d\n\nThe body of number %d.\n\n" % (number, number, number)
            for number in numbers
        )
    )
    return path


def test_importing_an_export_twice_writes_nothing() -> None:
    run(MBOX)
    before = stored.everything()

    output = run(MBOX)

    assert stored.everything() == before
    assert "0 new, 0 changed" in output


def test_an_import_finds_the_connection_that_got_a_number(tmp_path: Path) -> None:
    run(mbox(tmp_path / "old.mbox", 1))
    Connection.unscoped.update(status="revoked")

    run(mbox(tmp_path / "new.mbox", 1, 2))
    run(mbox(tmp_path / "newer.mbox", 1, 2, 3))

    names = Connection.unscoped.values_list("display_name", flat=True)
    assert sorted(names) == ["Mail", "Mail 2"]
    assert latest().created == 1


def test_an_import_is_not_for_a_connection_that_is_revoked(tmp_path: Path) -> None:
    run(mbox(tmp_path / "old.mbox", 1), connection="Old mail")
    Connection.unscoped.update(status="revoked")

    with pytest.raises(CommandError, match="Old mail is revoked"):
        run(mbox(tmp_path / "new.mbox", 1, 2), connection="Old mail")


def test_newer_export_adds_new_records_only(tmp_path: Path) -> None:
    run(mbox(tmp_path / "old.mbox", 1, 2))

    run(mbox(tmp_path / "new.mbox", 1, 2, 3))

    assert latest().created == 1
    assert latest().updated == 0
    assert len(records("messages")) == 3


def test_dry_run_reports_counts_and_writes_nothing() -> None:
    output = run(MBOX, dry_run=True)

    assert "a new connection" in output
    assert "14 messages" in output
    assert "message 5" in output
    assert not ImportRun.unscoped.exists()


def test_interrupted_run_resumes_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mbox(tmp_path / "many.mbox", *range(2_500), 7)
    now, owner_id = timezone.now(), get_or_create_owner(timezone.now()).owner_id

    def part() -> ExportPart:
        return preview_export(path, request=ImportRequest(), owner_id=owner_id, now=now).parts[0]

    def stop(run: ImportRun) -> None:
        if run.items_done:
            raise ImportStopped

    with pytest.raises(ImportStopped):
        import_part(part(), label="x", workspace=tmp_path, now=now, on_progress=stop)
    stopped = latest()
    assert stopped.status == ImportRun.Status.STOPPED
    assert stopped.items_done == 1_000
    parsed = []
    item_lines = RecordFeed._item_lines

    def counted(*args: object) -> object:
        parsed.append(args)
        return item_lines(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(RecordFeed, "_item_lines", counted)
    finished = import_part(part(), label="x", workspace=tmp_path, now=now)

    assert finished.run_id == stopped.run_id
    assert finished.status == ImportRun.Status.FINISHED
    assert len(parsed) == 1_501
    assert (finished.created, finished.doubles) == (2_500, 1)
    assert finished.bytes_done == finished.bytes_total == path.stat().st_size


def test_run_without_key_log_restarts_and_finds_records_unchanged(tmp_path: Path) -> None:
    path = mbox(tmp_path / "many.mbox", *range(1_200))
    now, owner_id = timezone.now(), get_or_create_owner(timezone.now()).owner_id
    part = preview_export(path, request=ImportRequest(), owner_id=owner_id, now=now).parts[0]

    def stop(run: ImportRun) -> None:
        raise ImportStopped

    with pytest.raises(ImportStopped):
        import_part(part, label="x", workspace=tmp_path, now=now, on_progress=stop)
    for log in tmp_path.glob("*.keys"):
        log.unlink()
    part = preview_export(path, request=ImportRequest(), owner_id=owner_id, now=now).parts[0]

    assert import_part(part, label="x", workspace=tmp_path, now=now).unchanged == 1_000
    assert len(records("messages")) == 1_200


def test_restarted_run_stores_each_receipt_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "a.mbox").write_bytes(MBOX.read_bytes())
    (folder / "what.raw").write_bytes(b"no known format")
    with monkeypatch.context() as full:
        full.setattr(KeySet, "save", Mock(side_effect=OSError(28, "No space left")))
        with pytest.raises(CommandError, match=r"No space left\. What was stored stays"):
            run(folder)

    run(folder)

    assert latest().status == ImportRun.Status.FINISHED
    assert ImportRun.unscoped.count() == 1
    assert ImportReceipt.unscoped.count() == latest().left_out + latest().remarked == 3
    assert len(records("messages")) == 14


@pytest.mark.django_db(transaction=True)
def test_run_resumes_after_database_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mbox(tmp_path / "many.mbox", *range(1_200))
    store_files = runner._PartImport._store_files

    def cut_off(self: Any, *args: Any) -> None:
        store_files(self, *args)
        with psycopg.connect(os.environ["DATABASE_URL"], dbname=db.settings_dict["NAME"]) as other:
            other.execute("SELECT pg_terminate_backend(%s::int)", [db.connection.info.backend_pid])

    with monkeypatch.context() as gone:
        gone.setattr(runner._PartImport, "_store_files", cut_off)
        with pytest.raises(CommandError, match=r"The database failed\. What was stored stays"):
            run(path)
    db.close()
    run(path)

    assert latest().status == ImportRun.Status.FINISHED
    assert (latest().created, latest().unchanged) == (200, 1_000)
    assert len(records("messages")) == 1_200


def test_concurrent_import_of_same_export_is_refused(tmp_path: Path) -> None:
    now, owner_id = timezone.now(), get_or_create_owner(timezone.now()).owner_id
    refused = []

    def part() -> ExportPart:
        return preview_export(MBOX, request=ImportRequest(), owner_id=owner_id, now=now).parts[0]

    def import_again(run: ImportRun) -> None:
        with pytest.raises(InvalidRequest, match="Another process is importing"):
            import_part(part(), label="x", workspace=tmp_path, now=now)
        refused.append(run)

    done = import_part(part(), label="x", workspace=tmp_path, now=now, on_progress=import_again)

    assert refused
    assert done.status == ImportRun.Status.FINISHED
    assert ImportReceipt.unscoped.count() == done.remarked == 2
    import_part(part(), label="x", workspace=tmp_path, now=now)


def test_records_go_to_the_named_connection(tmp_path: Path) -> None:
    run(mbox(tmp_path / "a.mbox", 1), connection="Private", language=["de"])
    run(mbox(tmp_path / "b.mbox", 2), connection="Work")
    run(mbox(tmp_path / "c.mbox", 3), connection="Private")

    assert connection("Private").languages == ["de"]
    assert connection("Private").labelled_by_owner
    assert stored.counts() == {
        (connection("Private").connection_id, "messages"): 2,
        (connection("Work").connection_id, "messages"): 1,
    }


def test_erased_record_is_not_imported_again() -> None:
    run(MBOX)
    mail = one("messages", internet_message_id="plain@example.org")
    where = connection("Mail").connection_id
    assert not connection("Mail").labelled_by_owner, "the owner named no connection"
    delete_record(
        where, stream="messages", record_key=mail["id"], suppress=True, now=timezone.now()
    )

    run(MBOX)

    assert ("erased", "message 1") in receipts()
    assert not stored.record(where, mail["id"])


def test_error_in_one_item_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = mailboxes.parse_message

    def fail_on_html(raw: bytes, metadata: object) -> object:
        if b"<html@example.org>" in raw:
            raise MemoryError
        return parse(raw, metadata)  # type: ignore[arg-type]

    monkeypatch.setattr(mailboxes, "parse_message", fail_on_html)
    run(MBOX)

    assert ("unreadable", "message 2") in receipts()
    assert len(records("messages")) == 13


def test_report_contains_location_problem_and_next_step(tmp_path: Path) -> None:
    run(MBOX, report=tmp_path / "report.txt")

    line = next(
        line for line in (tmp_path / "report.txt").read_text().splitlines() if "message 5" in line
    )
    assert line.startswith("- mail.mbox, message 5, at byte ")
    assert "The date is invalid" in line
    assert "Mon, 30 Feb 2026" in line
    assert "Text search finds the record" in line


def test_unsafe_zip_members_are_skipped_with_receipts(tmp_path: Path) -> None:
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

    output = run(tmp_path / "takeout.zip")

    assert len(records("messages")) == 14
    assert "points outside the archive" in output
    assert {
        ("unsafe_name", "../../etc/passwd"),
        ("zip_bomb", "Takeout/bomb.mbox"),
        ("encrypted", "Takeout/Mail/locked.mbox"),
    } <= receipts()


def test_damaged_archive_keeps_records_before_the_damage(tmp_path: Path) -> None:
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
def test_invalid_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)

    with pytest.raises(CommandError, match="damaged"):
        run(tmp_path / "x.zip")


def test_unknown_files_and_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.raw").write_bytes(b"\0\1\2")

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(tmp_path / "photo.raw")
    with pytest.raises(CommandError, match="got 'sheep'"):
        run(tmp_path / "photo.raw", kind="sheep")
    for name in ("nothing.mbox", "longer than any name " * 20):
        with pytest.raises(CommandError, match="cannot be opened"):
            run(tmp_path / name)


def test_unreadable_folders_get_receipts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "export" / "closed"
    closed.mkdir(parents=True)
    (closed.parent / "a.mbox").write_bytes((TORTURE / "mail.mbox").read_bytes())
    scandir = os.scandir

    # Tests run as root, who can read every folder.
    def restricted(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", restricted)
    run(closed.parent)

    assert ("cannot_open", "closed") in receipts()
    with pytest.raises(CommandError, match="cannot be opened"):
        run(closed)
