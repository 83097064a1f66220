"""Backups on a schedule: where they go, which are kept, and what the owner hears of a failure."""

import errno
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import time_machine
from django.db import connection

from evidence.models.owners import Owner
from evidence.write.sealed_values import SealedError, unseal
from operations.backup import archive, restore, schedule
from operations.backup.archive import opens
from operations.backup.keys import RecoveryKey, open_file_key, parse_identity
from operations.backup.models import BackupCopy, BackupPlan
from operations.notifications.delivery import current_notices
from operations.notifications.models import NotificationKind
from tests.tools import require_program
from tests.world import World

pytestmark = pytest.mark.slow

KEY = RecoveryKey(b"0123456789abcdef")
START = datetime(2026, 11, 1, 2, 30, tzinfo=UTC)
SCHEDULE = {"hour": 3, "daily": 2, "weekly": 1, "monthly": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.mkdir()
    return path


@pytest.fixture
def planned(committed: World, folder: Path, tmp_path: Path, settings: Any) -> World:
    """Return a world whose backups go to a folder every night at 3."""
    settings.PDPP_VAR = tmp_path / "var"
    schedule.save_key(committed.owner_id, KEY.recipient, now=START)
    values = {**SCHEDULE, "folder": str(folder)}
    schedule.save_schedule(committed.owner_id, values, now=START)
    return committed


def run(at: datetime) -> None:
    with time_machine.travel(at, tick=False):
        for _ in schedule.backups():
            pass


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def plan_of(world: World) -> BackupPlan:
    return schedule.get_plan(world.owner_id)


def said(world: World, now: datetime) -> list[str]:
    return schedule.notices(plan_of(world), schedule.list_copies(world.owner_id), now=now)


def test_backup_is_made_when_it_is_due_and_opens_with_the_words(
    planned: World, folder: Path
) -> None:
    run(START)
    assert names(folder) == []
    assert said(planned, START) == ["There is no backup yet. The schedule makes the first one."]

    run(START + timedelta(hours=1))

    assert names(folder) == [f"pdpp-2026-11-01T033000Z.{KEY.fingerprint}.age"]
    file = folder / names(folder)[0]
    [copy] = schedule.list_copies(planned.owner_id)
    assert (copy.folder, copy.name, copy.size_bytes) == (
        str(folder),
        file.name,
        file.stat().st_size,
    )
    assert copy.fingerprint == KEY.fingerprint
    assert opens(file, KEY.identity)
    assert opens(file, parse_identity(open_file_key(bytes(copy.sealed), KEY)))
    assert not opens(file, RecoveryKey(bytes(16)).identity)
    assert file.stat().st_mode & 0o777 == 0o600
    assert plan_of(planned).due_at == datetime(2026, 11, 2, 3, tzinfo=UTC)
    assert said(planned, START + timedelta(hours=2)) == []


def test_hour_is_one_of_the_owners_time_zone(committed: World) -> None:
    Owner.unscoped.update(time_zone="America/New_York")

    def due(after: datetime) -> datetime:
        return schedule.next_due(committed.owner_id, 3, after=after)

    # Winter time begins on 1 November 2026.
    assert due(datetime(2026, 10, 30, 8, tzinfo=UTC)) == datetime(2026, 10, 31, 7, tzinfo=UTC)
    assert due(datetime(2026, 10, 31, 8, tzinfo=UTC)) == datetime(2026, 11, 1, 8, tzinfo=UTC)
    assert due(datetime(2026, 11, 1, 7, tzinfo=UTC)) == datetime(2026, 11, 1, 8, tzinfo=UTC)


def test_nothing_is_made_without_a_plan(committed: World, tmp_path: Path) -> None:
    run(START)

    assert schedule.list_copies(committed.owner_id) == []
    assert BackupPlan.unscoped.count() == 0


def test_back_up_now_needs_no_schedule(planned: World, folder: Path) -> None:
    values = {**SCHEDULE, "hour": None, "folder": str(folder)}
    schedule.save_schedule(planned.owner_id, values, now=START)
    run(START + timedelta(days=3))
    assert names(folder) == []

    schedule.back_up_now(planned.owner_id, now=START + timedelta(days=3))
    run(START + timedelta(days=3))

    assert len(names(folder)) == 1
    assert plan_of(planned).due_at is None


def test_later_backups_need_the_new_key(planned: World, folder: Path) -> None:
    new = RecoveryKey(bytes(16))
    run(START + timedelta(days=1))
    schedule.save_key(planned.owner_id, new.recipient, now=START)
    run(START + timedelta(days=2))

    copies = schedule.list_copies(planned.owner_id)

    assert [copy.fingerprint for copy in copies] == [
        new.fingerprint,
        KEY.fingerprint,
    ]


def test_old_backups_of_the_plan_are_deleted_and_no_other_file(
    planned: World, folder: Path
) -> None:
    other = folder / "pdpp-2020-01-01T030000Z.age"
    other.write_text("of another installation")
    for days in range(1, 6):
        run(START + timedelta(days=days, hours=1))

    kept = [name.removesuffix(f"T033000Z.{KEY.fingerprint}.age") for name in names(folder)]

    # Two days; the newest of the week and of the month are among them.
    assert kept == ["pdpp-2020-01-01T030000Z.age", "pdpp-2026-11-05", "pdpp-2026-11-06"]
    assert len(schedule.list_copies(planned.owner_id)) == 2


def test_days_weeks_and_months_keep_their_newest() -> None:
    plan = BackupPlan(daily=3, weekly=3, monthly=3)
    first = datetime(2026, 8, 1, 3, tzinfo=UTC)
    copies = [
        BackupCopy(pk=number, made_at=first + timedelta(days=number)) for number in range(100)
    ][::-1]

    gone = {copy.pk for copy in schedule.expired(copies, plan)}

    kept = [f"{copy.made_at:%m-%d}" for copy in copies if copy.pk not in gone]
    assert kept == ["11-08", "11-07", "11-06", "11-01", "10-31", "10-25", "09-30"]


def test_missing_folder_is_said_and_tried_again_in_an_hour(planned: World, folder: Path) -> None:
    folder.rmdir()
    late = START + timedelta(hours=1)

    run(late)

    assert not folder.exists()
    [line] = said(planned, late)
    assert line == (
        f"The last backup failed. The folder for backups does not exist, or its disk is not"
        f" mounted: {folder}. Connect the disk, or choose another folder on the page Backups."
    )
    assert plan_of(planned).due_at == late + timedelta(hours=1)
    folder.mkdir()
    run(late + timedelta(hours=1))
    assert len(names(folder)) == 1
    assert said(planned, late + timedelta(hours=1)) == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, "The disk of the folder for backups is full"),
        (errno.EROFS, "The server may not write into the folder"),
        (errno.EIO, "The folder for backups cannot be used"),
    ],
)
def test_error_of_the_disk_is_said_and_leaves_no_file(
    planned: World, folder: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    late, encrypted = START + timedelta(hours=1), archive.encrypted
    broken = Mock(write=Mock(side_effect=OSError(code, os.strerror(code))))
    monkeypatch.setattr(archive, "encrypted", lambda file, keys: encrypted(broken, keys))

    run(late)

    assert names(folder) == []
    assert message in said(planned, late)[0]
    assert schedule.list_copies(planned.owner_id) == []


def test_unexpected_error_is_said_and_does_not_start_the_backup_again_at_once(
    planned: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = START + timedelta(hours=1)
    fail = Mock(side_effect=ValueError("text of a record"))
    monkeypatch.setattr(archive.ArchiveWriter, "add", fail)

    run(late)

    assert names(folder) == []
    [line] = said(planned, late)
    assert "stopped with an unexpected error: ValueError." in line
    assert plan_of(planned).due_at == late + timedelta(hours=1)


def test_stop_in_the_middle_leaves_no_file_and_the_backup_due(planned: World, folder: Path) -> None:
    with time_machine.travel(START + timedelta(hours=1), tick=False):
        job = schedule.backups()
        next(job)
        assert re.fullmatch(r"\.pdpp-\S+\.age\.\w{8}", names(folder)[0])
        job.close()  # type: ignore[attr-defined]

    assert names(folder) == []
    run(START + timedelta(hours=2))
    assert len(names(folder)) == 1


def test_drafts_of_killed_processes_are_deleted_after_a_day(planned: World, folder: Path) -> None:
    old, new = (folder / f".pdpp-2026-10-0{n}T030000Z.1a2b-3c4d.age.0a1b2c3{n}" for n in (1, 2))
    for draft in (old, new):
        draft.write_text("cut short")
    os.utime(old, (0, 0))
    late = datetime.fromtimestamp(new.stat().st_mtime, UTC) + timedelta(hours=1)

    run(late)

    assert new.name in names(folder)
    assert old.name not in names(folder)


def test_failure_is_announced_once_a_day_without_its_folder(planned: World, folder: Path) -> None:
    folder.rmdir()

    def announced(now: datetime) -> list[tuple[str, str, str]]:
        run(now)
        found = current_notices(planned.owner_id, now=now)
        return [each[1:] for each in found if each.kind == NotificationKind.FAILED_BACKUP]

    first, second = (announced(START + timedelta(hours=hours)) for hours in (1, 3))

    text = "A backup failed. The page Backups says why."
    assert first == [("FolderMissingError 2026-11-01", text, "/backups")]
    assert second == first
    assert announced(START + timedelta(days=1)) != first


def test_late_backup_is_said(planned: World) -> None:
    late = START + timedelta(days=4)
    run(START + timedelta(hours=1))

    [line] = said(planned, late)
    assert line.startswith("The last backup is 3 days old. Choose “Back up now”")


def test_each_problem_of_a_backup_is_said_with_its_next_step(planned: World, folder: Path) -> None:
    run(START + timedelta(hours=1))
    folder.rename(folder.with_name("elsewhere"))
    late = START + timedelta(days=4)
    run(late)

    first, second = said(planned, late)

    assert first.startswith("The last backup failed. The folder for backups does not exist")
    assert second.startswith("The last backup is 3 days old.")


def test_old_copy_elsewhere_is_said(planned: World, folder: Path) -> None:
    """A program that copies the folder touches a file, as docs/backup.md says."""
    run(START + timedelta(hours=1))
    assert schedule.latest(plan_of(planned), []).offsite is None
    copied, marker = START + timedelta(hours=2), folder / schedule.OFFSITE_MARKER
    marker.touch()
    os.utime(marker, (copied.timestamp(), copied.timestamp()))
    run(START + timedelta(days=2))

    assert schedule.latest(plan_of(planned), []).offsite == copied
    assert said(planned, START + timedelta(days=2)) == []
    run(START + timedelta(days=4))
    assert said(planned, START + timedelta(days=4)) == [
        "The last off-site copy is 3 days old. Check the program that copies the folder."
    ]
    assert marker.name in names(folder)


@pytest.mark.parametrize("program", ["restic", "rclone"])
def test_recipe_copies_the_folder_and_touches_the_marker(
    planned: World, folder: Path, tmp_path: Path, program: str
) -> None:
    require_program(program)
    run(START + timedelta(hours=1))
    text = (Path(__file__).parents[2] / "docs" / "backup.md").read_text()
    [recipe] = re.findall(rf"```sh\n(# {program}:.*?)```", text, re.DOTALL)
    password, away = tmp_path / "password", tmp_path / "away"
    password.write_text("correct horse battery")
    for said, meant in {
        "/mnt/backups": str(folder),
        "sftp:me@host:/pdpp": str(away),
        "elsewhere:pdpp": str(away),
        "/etc/pdpp/restic-password": str(password),
    }.items():
        recipe = recipe.replace(said, meant)

    subprocess.run(
        ["/bin/sh", "-eu", "-c", recipe], check=True, env=os.environ | {"HOME": str(tmp_path)}
    )

    assert schedule.latest(plan_of(planned), []).offsite is not None
    assert any(path.stat().st_size > 10_000 for path in away.rglob("*") if path.is_file())


def test_other_owner_without_a_folder_of_the_administrator_is_told(planned: World) -> None:
    values = {**SCHEDULE, "folder": ""}
    schedule.save_schedule(planned.owner_id, values, now=START)

    run(START + timedelta(hours=1))

    assert "does not exist, or its disk is not mounted: none is chosen." in said(
        planned, START + timedelta(hours=1)
    )[0]  # fmt: skip


def test_restored_installation_does_not_rotate_the_backups_of_the_other(
    planned: World, folder: Path
) -> None:
    for days in (1, 2):
        run(START + timedelta(days=days, hours=1))
    BackupPlan.unscoped.update(due_at=None, is_paused=True)  # as restore does

    run(START + timedelta(days=9))
    assert len(names(folder)) == 2
    assert said(planned, START + timedelta(days=9)) == [
        "Backups are paused after a restore. Check the schedule and save it."
    ]
    schedule.back_up_now(planned.owner_id, now=START)
    run(START + timedelta(days=9))
    assert len(names(folder)) == 3


def test_drill_restores_a_copy_and_names_a_changed_file(planned: World, folder: Path) -> None:
    late = START + timedelta(hours=1)
    run(late)
    [copy] = schedule.list_copies(planned.owner_id)

    schedule.request_drill(copy, open_file_key(bytes(copy.sealed), KEY))
    run(late)

    copy.refresh_from_db()
    assert copy.drill_problem == ""
    assert copy.drilled_at == late
    assert copy.drill_key is None
    assert schedule.latest(plan_of(planned), [copy]) == schedule.Latest(late, None, late)

    file = folder / copy.name
    content = file.read_bytes()
    file.write_bytes(content[:-9] + bytes(9))
    schedule.request_drill(copy, open_file_key(bytes(copy.sealed), KEY))
    run(late)

    assert said(planned, late) == [
        "The last drill failed. The backup was changed, damaged or cut short after it was made."
        " Nothing was restored. Use another copy."
    ]
    file.unlink()
    schedule.request_drill(copy, open_file_key(bytes(copy.sealed), KEY))
    run(late)
    assert "no longer where it was stored" in said(planned, late)[0]


def test_interrupted_drill_drops_its_database(planned: World) -> None:
    run(START + timedelta(hours=1))
    [copy] = schedule.list_copies(planned.owner_id)
    schedule.request_drill(copy, open_file_key(bytes(copy.sealed), KEY))

    job = schedule.backups()
    next(job)
    job.close()  # type: ignore[attr-defined]

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)",
            [restore.scratch_prefix()],
        )
        assert cursor.fetchall() == []
    copy.refresh_from_db()
    assert copy.drill_key is not None


def test_waiting_drill_stores_the_secret_of_one_file_and_no_other(
    planned: World, settings: Any
) -> None:
    run(START + timedelta(hours=1))
    [copy] = schedule.list_copies(planned.owner_id)
    secret = open_file_key(bytes(copy.sealed), KEY)

    schedule.request_drill(copy, secret)

    copy.refresh_from_db()
    stored = bytes(copy.drill_key or b"")
    assert unseal(stored, purpose=schedule.DRILL_KEY, row_id=str(copy.pk)).decode() == secret
    found = repr([*BackupCopy.unscoped.values(), *BackupPlan.unscoped.values()])
    assert secret not in found
    assert KEY.secret_line not in found
    assert KEY.entropy.hex() not in found
    settings.SECRET_KEY = "another installation"
    with pytest.raises(SealedError):
        unseal(stored, purpose=schedule.DRILL_KEY, row_id=str(copy.pk))
