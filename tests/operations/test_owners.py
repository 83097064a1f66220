"""Two owners of one installation: jobs, notifications, folders and backups of one leave the other alone."""

import hashlib
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from evidence.models.connections import Connection
from evidence.models.owners import Owner, acting_for, current_owner, in_turn
from importers.models import ImportRun
from importers.runs import record_feed, uploads
from importers.runs.runner import OTHER_OWNERS, ImportWorker
from importers.sources.runner import read_accounts
from operations import background_jobs
from operations.backup import schedule, table_copy
from operations.backup.archive import open_backup
from operations.backup.keys import RecoveryKey
from operations.notifications import delivery, store
from operations.notifications.models import Notification, NotificationKind
from tests import world as cast
from tests.importers.dovecot import message, run_dovecot
from tests.importers.imports import TORTURE
from tests.importers.syncing import connect
from tests.owner.pages.browser import Browser
from tests.owners import OWNER_ID, sign_up
from tests.world import NOW, PERSONAL, World, mail

ALICE, BRUNO = OWNER_ID, "bruno"
LIST = "/v1/streams/messages/records"
KEY = RecoveryKey(b"0123456789abcdef")
SUSPENDED = {"evidence_grant", "evidence_accesstoken"}
"""Tables that a restore changes: it pauses grants and revokes the owner's tokens."""

Worlds = dict[str, World]


def secret(owner_id: str) -> str:
    """A word that only this owner's mail has."""
    return f"zebra{owner_id}"


def both_of(alice: World) -> Worlds:
    """Give Bruno the same cast under the same ids as Alice, and each one a mail of their own."""
    sign_up("alice")
    sign_up(BRUNO, owner_id=BRUNO)
    found = {ALICE: alice}
    with acting_for(BRUNO), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cast, "get_or_create_owner", lambda now: Owner.unscoped.get(pk=BRUNO))
        found[BRUNO] = World.build()
    for owner_id, owned in found.items():
        with acting_for(owner_id):
            owned.put((PERSONAL, "messages", mail("own", None, body_text=secret(owner_id))))
    return found


@pytest.fixture
def both(world: World) -> Worlds:
    return both_of(world)


@pytest.fixture
def committed_both(committed: World) -> Worlds:
    return both_of(committed)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(KEY.secret_line)
    return path


def rows_of(owner_id: str) -> dict[str, str]:
    """Return a digest of all rows of an owner, by table."""
    digests = {}
    with connection.cursor() as cursor:
        for table in table_copy.tables():
            if "owner_id" in table.columns:
                cursor.execute(
                    f"SELECT x::text FROM {table.name} AS x WHERE owner_id = %s ORDER BY 1",  # noqa: S608
                    [owner_id],
                )
                rows = "\n".join(row for (row,) in cursor)
                digests[table.name] = hashlib.sha256(rows.encode()).hexdigest()
    return digests


def run(name: str, *arguments: Any, **options: Any) -> str:
    output = StringIO()
    call_command(name, *arguments, stdout=output, stderr=StringIO(), **options)
    return output.getvalue()


# Jobs.


def test_owners_take_turns_and_failing_work_keeps_nobody_waiting() -> None:
    done: list[str] = []

    def work() -> Iterator[str]:
        owner_id = current_owner()
        for number in range(3):
            if owner_id == "b" and number == 1:
                raise ZeroDivisionError
            yield f"{owner_id}{number}"

    with pytest.raises(ZeroDivisionError):
        done.extend(in_turn(lambda: "abc", work))

    assert done == ["a0", "b0", "c0", "a1", "c1", "a2", "c2"]


def test_jobs_do_the_work_of_every_owner(both: Worlds) -> None:
    for owner_id in both:
        with acting_for(owner_id):
            Connection.unscoped.update(indexed_analyser=0)

    with acting_for(None):
        assert sum(background_jobs.words()) > 0
        list(background_jobs.upkeep())

    for owner_id in both:
        with acting_for(owner_id):
            assert not Connection.unscoped.filter(indexed_analyser=0).exists()
            assert [hit["record_key"] for hit in both[owner_id].get(
                "/v1/search", "alice", q=secret(owner_id)).body["data"]]  # fmt: skip


def test_owners_without_due_work_cost_one_statement(both: Worlds) -> None:
    job = background_jobs.for_changed_owners(background_jobs.vectors)
    with acting_for(None):
        list(job())
        for each in (background_jobs.words, background_jobs.erasures, job, delivery.notifications):
            with CaptureQueriesContext(connection) as queries:
                assert list(each()) == []
            assert len(queries) == 1, each


# Imports and accounts.


def queue(workspace: Path, owner_id: str, export: Path) -> uploads.Upload:
    content = export.read_bytes()
    root = uploads.root_of(workspace, owner_id)
    upload = uploads.create_upload(root, name=export.name, size=len(content))
    upload.path.write_bytes(content)
    upload.save(phase="wanted")
    return upload


def test_a_long_import_lets_another_owner_have_a_turn(
    both: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_feed, "SLICE_SECONDS", 0.0)
    long = queue(tmp_path, ALICE, TORTURE / "mail.mbox")
    short = queue(tmp_path, BRUNO, TORTURE / "calendar.ics")

    with acting_for(None):
        steps = ImportWorker(tmp_path, watch=None, seconds=0).job()
        phases = [(long.state.phase, short.state.phase) for _ in steps]

    assert ("wanted", "done") in phases
    assert phases[-1] == ("done", "done")
    kinds = []
    for owner_id in both:
        with acting_for(owner_id):
            kinds.append([each.kind for each in ImportRun.unscoped.all()])
    assert kinds == [["mbox"], ["icalendar"]]


def test_watched_folder_has_a_folder_for_each_other_owner(both: Worlds, tmp_path: Path) -> None:
    calendar = (TORTURE / "calendar.ics").read_bytes()
    then = time.time() - 100
    for owner_id in (BRUNO, "nobody"):
        path = tmp_path / "watched" / OTHER_OWNERS / owner_id / "c.ics"
        path.parent.mkdir(parents=True)
        path.write_bytes(calendar)
        for each in (path, path.parent, path.parent.parent):
            os.utime(each, (then, then))

    with acting_for(None):
        list(ImportWorker(tmp_path / "imports", watch=tmp_path / "watched", seconds=0).job())

    assert ImportRun.unscoped.count() == 0
    with acting_for(BRUNO):
        assert ImportRun.unscoped.get().kind == "icalendar"


@pytest.mark.slow
def test_an_account_syncs_while_another_owner_imports(
    committed_both: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_feed, "SLICE_SECONDS", 0.0)
    upload = queue(tmp_path, ALICE, TORTURE / "mail.mbox")
    with run_dovecot() as server, acting_for(BRUNO):
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        server.append("ida@mail.example", message(1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.importers.syncing.get_or_create_owner",
                          lambda now: Owner.unscoped.get(pk=BRUNO))  # fmt: skip
            pk = connect(server, "ida@mail.example")
        with acting_for(None):
            imports = ImportWorker(tmp_path, watch=None, seconds=0).job()
            next(imports)
            list(read_accounts())
            with acting_for(ALICE):
                assert ImportRun.unscoped.get().status == ImportRun.Status.RUNNING
            list(imports)
        answer = committed_both[BRUNO].get(LIST, "alice", connection_id=pk)

    assert len(answer.ids) == 1
    assert upload.state.phase == "done"
    assert committed_both[ALICE].get(LIST, "alice", connection_id=pk).status == 404


# Notifications.


def test_monthly_digest_tells_each_owner_of_their_own_apps(both: Worlds) -> None:
    start = datetime(2026, 11, 3, tzinfo=UTC)
    with time_machine.travel(start, tick=False):
        for owner_id in both:
            with acting_for(owner_id):
                store.create_channel("webhook", {"url": "https://127.0.0.1:9/none"},
                    kinds=[NotificationKind.DIGEST], owner_id=owner_id, now=timezone.now())  # fmt: skip
        assert both[ALICE].get(LIST, "bob", connection_id=PERSONAL).status == 200
    with time_machine.travel(start + timedelta(days=30), tick=False), acting_for(None):
        list(delivery.notifications())

    texts = {}
    for owner_id in both:
        with acting_for(owner_id):
            digest = Notification.unscoped.get(kind=NotificationKind.DIGEST)
            texts[owner_id] = digest.text
    assert "“bob” read" in texts[ALICE].lower()
    assert texts[BRUNO] == "In November 2026, no app read anything."


# Erasure and backups.


def test_erasing_everything_leaves_the_rows_of_another_owner(
    both: Worlds, tmp_path: Path, settings: Any
) -> None:
    settings.PDPP_VAR = tmp_path
    kept = queue(tmp_path / "imports", ALICE, TORTURE / "calendar.ics")
    gone = queue(tmp_path / "imports", BRUNO, TORTURE / "calendar.ics")
    before = rows_of(ALICE)

    run("erase", "--owner", BRUNO, "owner", "--yes")

    assert rows_of(ALICE) == before
    assert kept.folder.exists()
    assert not gone.folder.exists()
    assert both[ALICE].get(LIST, "alice", connection_id=PERSONAL).status == 200
    assert both[BRUNO].get(LIST, "alice").status == 401


def test_restore_of_one_owner_changes_no_row_of_another(
    committed_both: Worlds, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "bruno.age"
    run("backup", file, key_file=key_file, owner=BRUNO)
    at_backup = rows_of(BRUNO)
    with acting_for(BRUNO):
        committed_both[BRUNO].put((PERSONAL, "messages", mail("later", None)))
        committed_both[BRUNO].get(LIST, "bob")
    before = rows_of(ALICE)

    with pytest.raises(CommandError, match=r"has records or settings here already.*--replace"):
        run("restore", file, key_file=key_file)
    said = run("restore", file, key_file=key_file, replace=True)

    assert rows_of(ALICE) == before
    restored = rows_of(BRUNO)
    assert {table for table in at_backup if at_backup[table] != restored[table]} <= SUSPENDED
    assert "no errors" in said
    assert committed_both[BRUNO].get(LIST, "bob").error["code"] == "grant_paused"
    assert committed_both[ALICE].get(LIST, "bob").status == 200


def test_backup_of_everything_has_all_owners_and_is_not_restored_beside_any(
    committed_both: Worlds, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "all.age"
    run("backup", file, key_file=key_file)
    before = {owner_id: rows_of(owner_id) for owner_id in committed_both}

    with pytest.raises(CommandError, match="is not empty"):
        run("restore", file, key_file=key_file, replace=True)
    table_copy.truncate_tables()
    said = run("restore", file, key_file=key_file)

    for owner_id, rows in before.items():
        restored = rows_of(owner_id)
        assert {table for table in rows if rows[table] != restored[table]} <= SUSPENDED | {
            "evidence_embeddedstream", "people_peopleprogress",
        }  # fmt: skip
    assert "no errors" in said


def back_up_by_plan(owner_id: str, folder: Path, *, covers_everyone: bool) -> bytes:
    """Run the schedule of one owner, and return what the backup contains."""
    values = {"hour": 3, "daily": 7, "weekly": 0, "monthly": 0, "covers_everyone": covers_everyone}
    with acting_for(ALICE):  # the folder is the administrator's
        schedule.save_schedule(ALICE, values | {"hour": None, "folder": str(folder)}, now=NOW)
    with acting_for(owner_id):
        schedule.save_key(owner_id, KEY.recipient, now=NOW)
        schedule.save_schedule(owner_id, values, now=NOW)
    with time_machine.travel(NOW + timedelta(days=2), tick=False), acting_for(None):
        list(schedule.backups())
    with acting_for(owner_id):
        [copy] = schedule.list_copies(owner_id)
    with open_backup(folder / copy.name, KEY.identity) as backup:
        rows = b"".join(chunk for _, chunks in backup.tables() for chunk in chunks)
        return rows + repr(backup.manifest).encode()


@pytest.mark.parametrize("covers_everyone", [False, True])
def test_plan_of_one_of_several_owners_backs_up_their_rows_and_no_key(
    committed_both: Worlds, tmp_path: Path, settings: Any, *, covers_everyone: bool
) -> None:
    content = back_up_by_plan(BRUNO, tmp_path, covers_everyone=covers_everyone)

    assert schedule.list_copies(ALICE) == []
    assert secret(BRUNO).encode() in content
    assert secret(ALICE).encode() not in content
    assert settings.SECRET_KEY.encode() not in content


def test_administrator_can_back_up_all_owners(
    committed_both: Worlds, tmp_path: Path, settings: Any
) -> None:
    content = back_up_by_plan(ALICE, tmp_path, covers_everyone=True)

    assert all(secret(owner_id).encode() in content for owner_id in committed_both)
    assert settings.SECRET_KEY.encode() in content


def test_only_an_administrator_chooses_a_folder_or_everyone(both: Worlds) -> None:
    fields = ("Folder on the server", "Back up all owners")
    for owner_id, is_offered in ((ALICE, True), (BRUNO, False)):
        browser = Browser().sign_in(Owner.unscoped.get(pk=owner_id).user)
        browser.http.defaults["HTTP_ACCEPT"] = "text/html"
        page = browser.open("/backups/schedule").text
        assert [field in page for field in fields] == [is_offered] * 2
