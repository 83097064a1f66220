"""A watched folder is imported as it fills, and never twice."""

import os
import time
from pathlib import Path

import pytest

from evidence.models.imports import ImportRun
from importers.runs.background import Imports
from tests.importers.imports import TORTURE, latest, records, run

pytestmark = pytest.mark.django_db


def put(path: Path, content: bytes, *, seconds_ago: float) -> None:
    path.write_bytes(content)
    then = time.time() - seconds_ago
    os.utime(path, (then, then))


def look(imports: Imports) -> None:
    for _ in imports.job():
        pass


def test_what_is_put_into_the_folder_is_imported_once_it_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    imports = Imports(tmp_path / "imports", watch=folder, seconds=0)
    calendar = (TORTURE / "calendar.ics").read_bytes()

    put(folder / "cal.ics", calendar, seconds_ago=1)
    look(imports)
    assert records("events") == []

    put(folder / "cal.ics", calendar, seconds_ago=100)
    put(folder / "what.raw", b"nothing anybody knows", seconds_ago=100)
    look(imports)
    look(imports)
    assert ImportRun.unscoped.count() == 1
    before = len(records("events"))

    more = calendar.replace(b"END:VCALENDAR", b"") + (
        b"BEGIN:VEVENT\r\nUID:new\r\nDTSTART:20260101T000000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    put(folder / "cal.ics", more, seconds_ago=90)
    look(imports)
    assert len(records("events")) == before + 1


def test_another_process_does_not_read_it_again(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    put(folder / "cal.ics", (TORTURE / "calendar.ics").read_bytes(), seconds_ago=100)
    look(Imports(tmp_path / "imports", watch=folder, seconds=0))

    look(Imports(tmp_path / "imports", watch=folder, seconds=0))

    assert ImportRun.unscoped.count() == 1


def test_what_is_damaged_or_leaves_a_question_stops_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    put(folder / "a.zip", b"PK\x03\x04 no archive", seconds_ago=100)
    put(folder / "b.csv", b"Quando,Quanto\n2026-01-05,1\n", seconds_ago=100)
    put(folder / "c.ics", (TORTURE / "calendar.ics").read_bytes(), seconds_ago=100)

    look(Imports(tmp_path / "imports", watch=folder, seconds=0))

    assert latest().kind == "icalendar"
    run(folder / "b.csv", column=["date=Quando", "amount=Quanto"])


def test_a_link_to_nothing_does_not_keep_its_folder_waiting_for_ever(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    (folder / "export").mkdir(parents=True)
    (folder / "export" / "gone.ics").symlink_to("nowhere")
    put(folder / "export" / "c.ics", (TORTURE / "calendar.ics").read_bytes(), seconds_ago=100)
    os.utime(folder / "export" / "gone.ics", (1, 1), follow_symlinks=False)

    look(Imports(tmp_path / "imports", watch=folder, seconds=0))

    assert latest().kind == "icalendar"


def test_a_server_that_stops_leaves_off_and_the_next_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    put(folder / "m.mbox", (TORTURE / "mail.mbox").read_bytes(), seconds_ago=100)
    stopping = Imports(tmp_path / "imports", watch=folder, seconds=0)
    stopping.close()

    look(stopping)
    assert latest().status == ImportRun.Status.STOPPED
    look(Imports(tmp_path / "imports", watch=folder, seconds=0))

    assert latest().status == ImportRun.Status.FINISHED
    assert ImportRun.unscoped.count() == 1
