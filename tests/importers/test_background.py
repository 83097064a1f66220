"""Exports in a watched folder are imported once."""

import os
import time
from pathlib import Path

import pytest

from importers.models import ImportRun
from importers.runs.runner import ImportWorker
from tests.importers.imports import TORTURE, latest, records, run

pytestmark = pytest.mark.django_db


def put(path: Path, content: bytes, *, seconds_ago: float) -> None:
    path.write_bytes(content)
    then = time.time() - seconds_ago
    os.utime(path, (then, then))


def run_jobs(worker: ImportWorker) -> None:
    for _ in worker.job():
        pass


def test_export_is_imported_after_quiet_period(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    worker = ImportWorker(tmp_path / "imports", watch=folder, seconds=0)
    calendar = (TORTURE / "calendar.ics").read_bytes()

    put(folder / "cal.ics", calendar, seconds_ago=1)
    run_jobs(worker)
    assert records("events") == []

    put(folder / "cal.ics", calendar, seconds_ago=100)
    put(folder / "what.raw", b"no known format", seconds_ago=100)
    run_jobs(worker)
    run_jobs(worker)
    assert ImportRun.unscoped.count() == 1
    before = len(records("events"))

    more = calendar.replace(b"END:VCALENDAR", b"") + (
        b"BEGIN:VEVENT\r\nUID:new\r\nDTSTART:20260101T000000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    put(folder / "cal.ics", more, seconds_ago=90)
    run_jobs(worker)
    assert len(records("events")) == before + 1


def test_damaged_and_ambiguous_exports_do_not_stop_others(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    put(folder / "a.zip", b"PK\x03\x04 no archive", seconds_ago=100)
    put(folder / "b.csv", b"Quando,Quanto\n2026-01-05,-1\n", seconds_ago=100)
    put(folder / "c.ics", (TORTURE / "calendar.ics").read_bytes(), seconds_ago=100)

    run_jobs(ImportWorker(tmp_path / "imports", watch=folder, seconds=0))

    assert latest().kind == "icalendar"
    run(folder / "b.csv", column=["date=Quando", "amount=Quanto"])


def test_dangling_link_does_not_block_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    (folder / "export").mkdir(parents=True)
    (folder / "export" / "gone.ics").symlink_to("nowhere")
    put(folder / "export" / "c.ics", (TORTURE / "calendar.ics").read_bytes(), seconds_ago=100)
    os.utime(folder / "export" / "gone.ics", (1, 1), follow_symlinks=False)

    run_jobs(ImportWorker(tmp_path / "imports", watch=folder, seconds=0))

    assert latest().kind == "icalendar"


def test_closed_worker_stops_and_next_worker_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    put(folder / "m.mbox", (TORTURE / "mail.mbox").read_bytes(), seconds_ago=100)
    closed = ImportWorker(tmp_path / "imports", watch=folder, seconds=0)
    closed.close()

    run_jobs(closed)
    assert latest().status == ImportRun.Status.STOPPED
    run_jobs(ImportWorker(tmp_path / "imports", watch=folder, seconds=0))

    assert latest().status == ImportRun.Status.FINISHED
    assert ImportRun.unscoped.count() == 1
