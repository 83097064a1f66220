"""Backups on a schedule: where they go, which are kept, and what the owner hears of a failure."""

import errno
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.conf import settings as django_settings
from django.db import connection

from evidence.models.owners import Owner
from evidence.write.sealed_values import SealedError
from operations.backup import archive, drill, plans, schedule, store
from operations.backup.dump import run_to_end
from operations.backup.errors import (
    BackupError,
    BackupMissingError,
    StoreBlockedError,
    StoreMissingError,
    StorePlainError,
    StoreUnreachableError,
)
from operations.backup.keys import RecoveryKey, fingerprint, read_header
from operations.backup.models import BackupCopy, BackupPlan
from operations.notifications.delivery import current_notices
from operations.notifications.models import NotificationKind
from tests.tools import needs_extra
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
    plans.save_key(committed.owner_id, KEY.public_key, now=START)
    values = {**SCHEDULE, "folder": str(folder)}
    plans.save_schedule(committed.owner_id, values, now=START)
    return committed


def run(at: datetime) -> None:
    with time_machine.travel(at, tick=False):
        for _ in schedule.backups():
            pass


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def plan_of(world: World) -> BackupPlan:
    return plans.get_plan(world.owner_id)


def said(world: World, now: datetime) -> list[str]:
    return schedule.notices(plan_of(world), plans.list_copies(world.owner_id), now=now)


def test_backup_is_made_when_it_is_due_and_opens_with_the_words(
    planned: World, folder: Path
) -> None:
    run(START)
    assert names(folder) == []
    assert said(planned, START) == ["There is no backup yet. The schedule makes the first one."]

    run(START + timedelta(hours=1))

    assert names(folder) == ["pdpp-2026-11-01T033000Z.backup"]
    file = folder / names(folder)[0]
    [copy] = plans.list_copies(planned.owner_id)
    assert (copy.place, copy.name, copy.size_bytes) == (str(folder), file.name, file.stat().st_size)
    assert copy.fingerprint == fingerprint(KEY.public_key)
    with file.open("rb") as opened:
        assert read_header(opened).unlock(KEY).content == KEY.open(bytes(copy.sealed))
    assert file.stat().st_mode & 0o777 == 0o600
    assert plan_of(planned).due_at == datetime(2026, 11, 2, 3, tzinfo=UTC)
    assert said(planned, START + timedelta(hours=2)) == []


def test_hour_is_one_of_the_owners_time_zone(committed: World) -> None:
    Owner.unscoped.update(time_zone="America/New_York")

    def due(after: datetime) -> datetime:
        return plans.next_due(committed.owner_id, 3, after=after)

    # Winter time begins on 1 November 2026.
    assert due(datetime(2026, 10, 30, 8, tzinfo=UTC)) == datetime(2026, 10, 31, 7, tzinfo=UTC)
    assert due(datetime(2026, 10, 31, 8, tzinfo=UTC)) == datetime(2026, 11, 1, 8, tzinfo=UTC)
    assert due(datetime(2026, 11, 1, 7, tzinfo=UTC)) == datetime(2026, 11, 1, 8, tzinfo=UTC)


def test_nothing_is_made_without_a_plan(committed: World, tmp_path: Path) -> None:
    run(START)

    assert plans.list_copies(committed.owner_id) == []
    assert BackupPlan.unscoped.count() == 0


def test_back_up_now_needs_no_schedule(planned: World, folder: Path) -> None:
    values = {**SCHEDULE, "hour": None, "folder": str(folder)}
    plans.save_schedule(planned.owner_id, values, now=START)
    run(START + timedelta(days=3))
    assert names(folder) == []

    plans.back_up_now(planned.owner_id, now=START + timedelta(days=3))
    run(START + timedelta(days=3))

    assert len(names(folder)) == 1
    assert plan_of(planned).due_at is None


def test_later_backups_need_the_new_key(planned: World, folder: Path) -> None:
    new = RecoveryKey(bytes(16))
    run(START + timedelta(days=1))
    plans.save_key(planned.owner_id, new.public_key, now=START)
    run(START + timedelta(days=2))

    copies = plans.list_copies(planned.owner_id)

    assert [copy.fingerprint for copy in copies] == [
        fingerprint(new.public_key),
        fingerprint(KEY.public_key),
    ]


def test_old_backups_of_the_plan_are_deleted_and_no_other_file(
    planned: World, folder: Path
) -> None:
    other = folder / "pdpp-2020-01-01T030000Z.backup"
    other.write_text("of another installation")
    for days in range(1, 6):
        run(START + timedelta(days=days, hours=1))

    kept = [name.removesuffix("T033000Z.backup") for name in names(folder)]

    # Two days; the newest of the week and of the month are among them.
    assert kept == ["pdpp-2020-01-01T030000Z.backup", "pdpp-2026-11-05", "pdpp-2026-11-06"]
    assert len(plans.list_copies(planned.owner_id)) == 2


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
    late = START + timedelta(hours=1)

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(archive.EncryptedWriter, "_write_chunk", fail)

    run(late)

    assert names(folder) == []
    assert message in said(planned, late)[0]
    assert plans.list_copies(planned.owner_id) == []


def test_unexpected_error_is_said_and_does_not_start_the_backup_again_at_once(
    planned: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("text of a record")

    late = START + timedelta(hours=1)
    monkeypatch.setattr(archive.EncryptedWriter, "_write_chunk", fail)

    run(late)

    assert names(folder) == []
    [line] = said(planned, late)
    assert "stopped with an unexpected error: ValueError." in line
    assert plan_of(planned).due_at == late + timedelta(hours=1)


def test_stop_in_the_middle_leaves_no_file_and_the_backup_due(planned: World, folder: Path) -> None:
    with time_machine.travel(START + timedelta(hours=1), tick=False):
        job = schedule.backups()
        next(job)
        assert re.fullmatch(r"\.pdpp-\S+\.backup\.\w{8}", names(folder)[0])
        job.close()  # type: ignore[attr-defined]

    assert names(folder) == []
    run(START + timedelta(hours=2))
    assert len(names(folder)) == 1


def test_drafts_of_killed_processes_are_deleted_after_a_day(planned: World, folder: Path) -> None:
    old, new = (folder / f".pdpp-2026-10-0{n}T030000Z.backup.0a1b2c3{n}" for n in (1, 2))
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
    address = {"url": "https://s3.invalid", "region": "x", "bucket": "b", "folder": ""}
    store = {**address, "access_key": "k", "allows_private": False}
    plans.save_store(planned.owner_id, store, "secret")
    folder.rename(folder.with_name("elsewhere"))
    late = START + timedelta(days=4)
    run(late)

    first, second, third = said(planned, late)

    assert first.startswith("The last backup failed. ")
    assert second.startswith("The last backup failed. ")
    assert first != second
    assert third.startswith("The last backup is 3 days old.")


def test_restored_installation_does_not_rotate_the_backups_of_the_other(
    planned: World, folder: Path
) -> None:
    for days in (1, 2):
        run(START + timedelta(days=days, hours=1))
    plans.pause_all()

    run(START + timedelta(days=9))
    assert len(names(folder)) == 2
    assert said(planned, START + timedelta(days=9)) == [
        "Backups are paused after a restore. Check the schedule and save it."
    ]
    plans.back_up_now(planned.owner_id, now=START)
    run(START + timedelta(days=9))
    assert len(names(folder)) == 3


def test_drill_restores_a_copy_and_names_a_changed_file(planned: World, folder: Path) -> None:
    late = START + timedelta(hours=1)
    run(late)
    [copy] = plans.list_copies(planned.owner_id)

    plans.request_drill(copy, KEY.open(bytes(copy.sealed)))
    run(late)

    copy.refresh_from_db()
    assert copy.drill_problem == ""
    assert copy.drilled_at == late
    assert copy.drill_secret is None
    assert schedule.latest([copy]) == schedule.Latest(late, late)

    file = folder / copy.name
    content = file.read_bytes()
    file.write_bytes(content[:-9] + bytes(9))
    plans.request_drill(copy, KEY.open(bytes(copy.sealed)))
    run(late)

    assert said(planned, late) == [
        "The last drill failed. The backup was changed, damaged or cut short after it was made."
        " Nothing was restored. Use another copy."
    ]
    file.unlink()
    plans.request_drill(copy, KEY.open(bytes(copy.sealed)))
    run(late)
    assert "no longer where it was stored" in said(planned, late)[0]


def test_interrupted_drill_drops_its_database(planned: World) -> None:
    run(START + timedelta(hours=1))
    [copy] = plans.list_copies(planned.owner_id)
    plans.request_drill(copy, KEY.open(bytes(copy.sealed)))

    job = schedule.backups()
    next(job)
    job.close()  # type: ignore[attr-defined]

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)",
            [drill.scratch_prefix()],
        )
        assert cursor.fetchall() == []
    copy.refresh_from_db()
    assert copy.drill_secret is not None


def test_waiting_drill_stores_the_secret_of_one_file_and_no_other(
    planned: World, settings: Any
) -> None:
    run(START + timedelta(hours=1))
    [copy] = plans.list_copies(planned.owner_id)
    secret = KEY.open(bytes(copy.sealed))

    plans.request_drill(copy, secret)

    copy.refresh_from_db()
    assert plans.open_drill_secret(copy) == secret
    stored = repr([*BackupCopy.unscoped.values(), *BackupPlan.unscoped.values()])
    assert secret.hex() not in stored
    assert KEY.entropy.hex() not in stored
    settings.SECRET_KEY = "another installation"
    with pytest.raises(SealedError):
        plans.open_drill_secret(copy)


@pytest.fixture(scope="module")
def store_server() -> Iterator[SimpleNamespace]:
    """Serve the protocol of Amazon S3 on this machine, with one bucket."""
    boto3 = pytest.importorskip("boto3", reason=needs_extra("s3"))
    moto = pytest.importorskip("moto.server", reason="needs moto: make test-all")
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "url": f"http://{host}:{port}",
        "region": "us-east-1",
        "bucket": "safe",
        "folder": "home/",
        "access_key": "access",
        "allows_private": True,
    }
    client = boto3.client(
        "s3", endpoint_url=settings["url"], region_name="us-east-1",
        aws_access_key_id="access", aws_secret_access_key="secret",
    )  # fmt: skip
    client.create_bucket(Bucket="safe")
    yield SimpleNamespace(settings=settings, client=client)
    server.stop()


@pytest.fixture
def s3(store_server: SimpleNamespace) -> SimpleNamespace:
    """The bucket, without what another test left in it."""
    for key in objects(store_server):
        store_server.client.delete_object(Bucket="safe", Key=key)
    return store_server


def objects(s3: SimpleNamespace) -> list[str]:
    listed = s3.client.list_objects_v2(Bucket="safe").get("Contents", [])
    return sorted(each["Key"] for each in listed)


def test_store_gets_the_copy_though_the_folder_is_missing(
    planned: World, folder: Path, s3: SimpleNamespace
) -> None:
    late = START + timedelta(hours=1)
    folder.rmdir()
    plans.save_store(planned.owner_id, s3.settings, "secret")

    run(late)

    assert objects(s3) == ["home/pdpp-2026-11-01T033000Z.backup"]
    [copy] = plans.list_copies(planned.owner_id)
    assert copy.place == f"{s3.settings['url']}/safe/home/"
    assert "does not exist" in said(planned, late)[0]
    assert names(django_settings.PDPP_VAR) == []

    plans.request_drill(copy, KEY.open(bytes(copy.sealed)))
    run(late)
    copy.refresh_from_db()
    assert (copy.drilled_at, copy.drill_problem) == (late, "")


def test_store_is_rotated_as_the_folder_is(
    planned: World, folder: Path, s3: SimpleNamespace
) -> None:
    plans.save_store(planned.owner_id, {**s3.settings, "folder": "rotated/"}, "secret")
    for days in range(1, 5):
        run(START + timedelta(days=days, hours=1))

    expected = names(folder)

    assert len(expected) == 2
    found = [name for name in objects(s3) if name.startswith("rotated/")]
    assert found == [f"rotated/{name}" for name in expected]


def test_secret_of_the_store_is_sealed_and_survives_a_new_key(
    planned: World, s3: SimpleNamespace, settings: Any
) -> None:
    plans.save_store(planned.owner_id, s3.settings, "wJalrXUtnFEMI")
    assert "wJalrXUtnFEMI" not in repr(BackupPlan.unscoped.values())
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "the next key of this installation"

    assert plans.reencrypt() == 1

    settings.SECRET_KEY_FALLBACKS = []
    assert plans.open_store_secret(plan_of(planned)) == "wJalrXUtnFEMI"


def test_large_file_is_sent_in_parts_and_read_in_ranges(
    tmp_path: Path, s3: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(12 * 1024 * 1024 + 1)
    (tmp_path / "large").write_bytes(content)
    monkeypatch.setattr(store, "PART_BYTES", 5 * 1024 * 1024)
    bucket = store.Store(s3.settings, "secret")

    parts = len(list(bucket.put(tmp_path / "large", "large")))
    run_to_end(bucket.get("large", tmp_path / "back"))
    bucket.delete("large")

    assert parts == 3
    assert (tmp_path / "back").read_bytes() == content
    assert "home/large" not in objects(s3)


def test_upload_that_ends_early_leaves_no_object(tmp_path: Path, s3: SimpleNamespace) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)

    upload = store.Store(s3.settings, "secret").put(tmp_path / "file", "early")
    next(upload)
    upload.close()

    assert "home/early" not in objects(s3)
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket="safe")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"bucket": "none"}, StoreMissingError),
        ({"url": "http://127.0.0.1:1"}, StoreUnreachableError),
        ({"url": "https://127.0.0.1:1", "allows_private": False}, StoreBlockedError),
        ({"url": "http://169.254.169.254"}, StoreBlockedError),
        ({"allows_private": False}, StorePlainError),
        ({"url": "https://nowhere.invalid"}, StoreUnreachableError),
    ],
)
def test_error_of_a_store_is_typed(
    s3: SimpleNamespace, change: dict[str, Any], error: type[BackupError]
) -> None:
    with pytest.raises(error):
        store.Store({**s3.settings, **change}, "secret").check()


def test_missing_object_is_no_missing_bucket(tmp_path: Path, s3: SimpleNamespace) -> None:
    with pytest.raises((BackupMissingError, StoreMissingError)):
        run_to_end(store.Store(s3.settings, "secret").get("none", tmp_path / "none"))
