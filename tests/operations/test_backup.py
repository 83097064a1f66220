"""Backups are encrypted snapshots; a restore brings back every row and pauses all grants."""

import json
import os
import re
import subprocess
import sys
import tarfile
import threading
from datetime import timedelta
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pyrage
import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from evidence.access.grants import resume_client
from evidence.ledger.verification import verify
from evidence.models.owners import acting_for
from evidence.write.blobs import put_blob
from evidence.write.declaration_store import declare
from evidence.write.sealed_values import SealedError
from importers.models import SourceAccount
from importers.sources import account_store
from operations import health
from operations.backup import archive, schedule, table_copy
from operations.backup import restore as restoring
from operations.backup.archive import NewerFormatError, open_backup, run_to_end
from operations.backup.keys import BackupError, RecoveryKey
from operations.backup.restore import MigrationsDifferError, require_restorable, scratch_database
from operations.backup.table_copy import backup_tables
from tests.owners import OWNER_ID
from tests.tools import require_program
from tests.world import MAIL, NOW, PERSONAL, World, mail
from tests.write import processes

pytestmark = pytest.mark.slow

LIST = "/v1/streams/messages/records"
SCRATCH_DATABASES = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"
UNUSUAL_TEXT = "tab\t line\nback\\slash \\N \\. \u2028 \U0001f600 'quote' \"q\" {curly} NULL \r end"
LATER = ("auth", "0012_alter_user_first_name_max_length")
"""A migration that an older backup has not seen. Evidence has only its first one yet."""
SUSPENDED = {"evidence_grant", "evidence_accesstoken"}
KEY = RecoveryKey(b"0123456789abcdef")
OTHER_KEY = RecoveryKey(bytes(16))


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"# a comment\n{KEY.secret_line}\n")
    return path


@pytest.fixture
def filled(committed: World) -> World:
    """Return a world with ledger entries, a blob, embeddings if available, and unusual texts."""
    world = committed
    world.put(
        (
            PERSONAL,
            "messages",
            mail(UNUSUAL_TEXT[:12].replace("\t", "/"), None, body_text=UNUSUAL_TEXT),
        )
    )
    world.embed()
    put_blob(PERSONAL, stream="messages", record_key="m1", media_type="image/png",
             chunks=[os.urandom(300_000), b"", b"\\x\n\t"], now=NOW)  # fmt: skip
    for who in ("alice", "bob", "dora"):
        assert world.get(LIST, who, connection_id=PERSONAL).status == 200
    call_command("ledger", "checkpoint", stdout=StringIO())
    return world


def back_up(path: Path, key_file: Path | None, **options: Any) -> str:
    output = StringIO()
    call_command("backup", path, key_file=key_file, stdout=output, stderr=StringIO(), **options)
    return output.getvalue()


def restore(path: Path, key_file: Path, **options: Any) -> str:
    output = StringIO()
    call_command("restore", path, key_file=key_file, stdout=output, stderr=StringIO(), **options)
    return output.getvalue()


def delete_everything() -> None:
    with transaction.atomic():
        table_copy.truncate_tables()
    assert table_copy.non_empty_tables() == []


def contents() -> dict[str, list[str]]:
    """Return the rows of every table in a backup as text."""
    rows_by_table = {}
    with connection.cursor() as cursor:
        for table in backup_tables():
            columns = ", ".join(f'"{name}"' for name in table.columns)
            cursor.execute(f'SELECT ROW({columns})::text FROM "{table.name}"')  # noqa: S608
            rows_by_table[table.name] = sorted(row for (row,) in cursor)
    return rows_by_table


def counts(rows_by_table: dict[str, list[str]]) -> dict[str, int]:
    return {name: len(rows) for name, rows in rows_by_table.items()}


def test_restore_brings_back_every_row_and_pauses_all_grants(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "all.age"
    assert "The backup contains the secret key" in back_up(file, key_file)
    before = contents()
    delete_everything()
    output = restore(file, key_file)
    assert "every table has as many" in output
    assert re.search(r"Answers: (\d\d) of \1 equal those at backup time", output)
    assert "no errors" in output
    assert "5 grants were paused and 1 owner tokens revoked" in output
    after = contents()
    assert counts(after) == counts(before)
    assert {name: rows for name, rows in after.items() if name not in SUSPENDED} == {
        name: rows for name, rows in before.items() if name not in SUSPENDED
    }
    for who in ("bob", "charlie", "dora"):
        assert filled.get(LIST, who).error["code"] == "grant_paused"
    assert filled.get(LIST, "alice").status == 401
    resume_client(filled.packages["bob"].client_id)
    assert len(filled.get(LIST, "bob").ids) == 5
    assert filled.get("/v1/search", "bob", q="deposit").ids
    filled.put((PERSONAL, "messages", mail("new", "2026-05-05T00:00:00Z")))
    call_command("ledger", "verify", stdout=StringIO())


def test_backup_says_that_it_has_credentials_of_live_accounts(
    filled: World, tmp_path: Path, key_file: Path, settings: Any
) -> None:
    file = tmp_path / "all.age"
    before = back_up(tmp_path / "without.age", key_file)
    account_store.create_account(
        PERSONAL,
        source_name="imap",
        settings={},
        credential={"password": "abcd-efgh"},
        is_mirror=False,
        now=NOW,
    )

    said = back_up(file, key_file)
    stored = str(contents()["importers_sourceaccount"])
    delete_everything()
    restore(file, key_file)

    def opened() -> dict[str, str]:
        return account_store.open_credential(SourceAccount.unscoped.get())

    assert "live sources" not in before
    assert "It contains the passwords or sign-ins of 1 live sources" in said
    assert "abcd-efgh" not in stored
    assert b"abcd-efgh".hex() not in stored
    assert opened() == {"password": "abcd-efgh"}
    settings.SECRET_KEY = "the key of another installation, which is long enough"
    with pytest.raises(SealedError):
        opened()


def test_restore_reuses_no_id(filled: World, tmp_path: Path, key_file: Path) -> None:
    """Caches know declarations by id."""
    file = tmp_path / "all.age"
    back_up(file, key_file)
    document = json.dumps(MAIL | {"connector_id": "https://example.org/x", "connector_key": "x"})
    later = declare(document, owner_id=filled.owner_id, now=NOW)
    delete_everything()
    restore(file, key_file)
    again = declare(document, owner_id=filled.owner_id, now=NOW)
    assert again.declaration_id > later.declaration_id


def test_backup_file_is_encrypted_and_private(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "all.age"
    back_up(file, key_file)
    content = file.read_bytes()
    assert not re.search(rb"Lindenstra|Eva Lang|evidence_record|secret_key", content)
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.age", "key"]


def test_backup_is_a_consistent_snapshot_during_writes(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    before = counts(contents())
    writer = threading.Thread(target=_write, args=(filled,))

    def write_once(name: str, rows: int) -> None:
        if writer.ident is None:
            writer.start()
            writer.join()

    steps = archive.back_up(tmp_path / "one", [KEY.identity.to_public()], now=NOW,
        migrations=health.applied_migrations(), on_table=write_once)  # fmt: skip
    summary = run_to_end(steps)
    assert summary.counts == before
    assert counts(contents()) != before
    delete_everything()
    assert "no errors" in restore(tmp_path / "one", key_file)
    assert counts(contents()) == before


def _write(world: World) -> None:
    try:
        with acting_for(world.owner_id):
            world.put(*[(PERSONAL, "messages", mail(f"late{n}", None)) for n in range(9)])
    finally:
        connection.close()


def test_damaged_or_foreign_backup_is_rejected(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file, bad = tmp_path / "all.age", tmp_path / "bad.backup"
    back_up(file, key_file)
    content = file.read_bytes()
    with pytest.raises(CommandError, match=r"is not empty.*PDPP_VAR"):
        restore(file, key_file)
    assert filled.get(LIST, "bob").status == 200
    delete_everything()
    middle = len(content) // 2
    edited = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    for wrong, message in {
        content[:-1]: "changed, damaged or cut short",
        content[:middle]: "changed, damaged or cut short",
        content[:100]: "changed, damaged or cut short",
        edited: "changed, damaged or cut short",
        content + b"x": "changed, damaged or cut short",
        b"pdpp backup 1\n{}\n" + content: "made before version 0.1.0",
        b"GIF89a": "not a PDPP backup",
        b"": "not a PDPP backup",
        pyrage.encrypt(b"GIF89a", [KEY.identity.to_public()]): "changed, damaged or cut short",
        packed({"format": 9}): "A newer version of this program made the backup",
    }.items():
        bad.write_bytes(wrong)
        with pytest.raises(CommandError, match=message):
            restore(bad, key_file)
        assert table_copy.non_empty_tables() == []
    key_file.write_text(OTHER_KEY.secret_line)
    with pytest.raises(CommandError, match="key does not open this backup"):
        restore(file, key_file)
    key_file.write_text("AGE-SECRET-KEY-1QQQ")
    with pytest.raises(CommandError, match="key file has no line"):
        restore(file, key_file)
    assert table_copy.non_empty_tables() == []


def packed(manifest: dict[str, Any]) -> bytes:
    """Return a backup with this manifest and nothing else."""
    file = BytesIO()
    with archive.encrypted(file, [KEY.identity.to_public()]) as target:
        writer = archive.ArchiveWriter(target)
        writer.add_json(archive.MANIFEST, manifest)
        writer.close()
    return file.getvalue()


@pytest.mark.parametrize(
    ("change", "fault"),
    [(lambda applied: {*applied, ("evidence", "9999_later")}, NewerFormatError),
     (lambda applied: {migration for migration in applied if migration[0] != "sessions"}, MigrationsDifferError)],
)  # fmt: skip
def test_other_migrations_are_rejected(
    filled: World, tmp_path: Path, change: Any, fault: type[BackupError]
) -> None:
    ours, known = health.applied_migrations(), health.known_migrations()
    file = tmp_path / "other"
    run_to_end(archive.back_up(file, [KEY.identity.to_public()], migrations=change(ours), now=NOW))
    with open_backup(file, KEY.identity) as backup:
        with pytest.raises(fault):
            require_restorable(backup.manifest, known=known, applied=ours)
        if fault is MigrationsDifferError:
            require_restorable(backup.manifest, known=known, applied=())


def test_restore_continues_after_interrupted_migration(
    filled: World, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, migrate = tmp_path / "all.age", Mock()
    back_up(file, key_file)
    ours = health.applied_migrations()
    latest = max(migration for migration in ours if migration[0] == "evidence")
    monkeypatch.setattr(health, "applied_migrations", lambda: ours - {latest})
    monkeypatch.setattr(health, "migrate_to", migrate)

    with pytest.raises(CommandError, match="is not empty"):
        restore(file, key_file)
    migrate.assert_not_called()
    delete_everything()

    assert "no errors" in restore(file, key_file)
    migrate.assert_called_once_with(ours)


def test_restore_of_everything_brings_the_secret_key_along(
    filled: World, tmp_path: Path, key_file: Path, settings: Any
) -> None:
    file, ours = tmp_path / "all.age", settings.SECRET_KEY
    settings.PDPP_VAR = tmp_path / "var"
    rotated = settings.PDPP_ROTATED_KEYS = {"cursors": ["a-key-of-its-own", ""]}
    back_up(file, key_file)
    delete_everything()
    assert "no errors" in restore(file, key_file)
    assert not (tmp_path / "var" / "keys.json").exists()
    delete_everything()
    settings.SECRET_KEY = "another-secret-key-than-that-of-the-backup"
    settings.PDPP_ROTATED_KEYS = {}

    assert "no errors" in restore(file, key_file)

    assert json.loads((tmp_path / "var" / "keys.json").read_text()) == {
        "secret_key": ours,
        "rotated": rotated,
    }


def test_other_secret_key_is_detected_before_restoring_an_owner(
    filled: World, tmp_path: Path, key_file: Path, settings: Any
) -> None:
    file, ours = tmp_path / "one.age", settings.SECRET_KEY
    said = back_up(file, key_file, owner=filled.owner_id)
    settings.SECRET_KEY = "another-secret-key-than-that-of-the-backup"

    with pytest.raises(CommandError, match="under another PDPP_SECRET_KEY"):
        restore(file, key_file, replace=True)
    assert filled.get(LIST, "bob").status == 401
    output = restore(file, key_file, replace=True, without_the_key=True)

    assert "secret key" not in said
    assert re.search(r"Ledger: 3 rows, \d+ errors", output)
    assert ours not in output


def test_backup_never_replaces_a_file_or_leaves_a_partial_one(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "all.age"
    file.write_text("precious")
    with pytest.raises(CommandError, match="never replaces"):
        back_up(file, key_file)
    assert file.read_text() == "precious"

    def interrupt(name: str, rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_to_end(archive.back_up(tmp_path / "two", [KEY.identity.to_public()], migrations=(), now=NOW,
                       on_table=interrupt))  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.age", "key"]


def test_concurrent_restore_is_refused(filled: World, tmp_path: Path, key_file: Path) -> None:
    file = tmp_path / "all.age"
    back_up(file, key_file)
    delete_everything()
    with psycopg.connect(processes.environment()["DATABASE_URL"]) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [table_copy.RESTORE_LOCK])
        with pytest.raises(CommandError, match="Another restore"):
            restore(file, key_file)
    assert table_copy.non_empty_tables() == []
    assert "no errors" in restore(file, key_file)


def test_key_file_is_created_once_and_opens_its_backup(filled: World, tmp_path: Path) -> None:
    key, file = tmp_path / "new-key", tmp_path / "all.age"

    back_up(file, key, make_key=True)
    with pytest.raises(CommandError, match="File exists"):
        back_up(tmp_path / "again.age", key, make_key=True)
    delete_everything()

    assert key.stat().st_mode & 0o777 == 0o600
    assert "no errors" in restore(file, key)


def test_backup_without_any_key_is_refused(filled: World, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"There is no recovery key\. Create one on the page"):
        back_up(tmp_path / "all.age", None)

    assert list(tmp_path.iterdir()) == []


def test_age_opens_a_backup_without_this_program(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    age, file = require_program("age"), tmp_path / "all.age"
    schedule.save_key(filled.owner_id, KEY.recipient, now=NOW)
    back_up(file, None)

    content = subprocess.run([age, "-d", "-i", key_file, file], capture_output=True, check=True)

    with tarfile.open(fileobj=BytesIO(content.stdout), mode="r:gz") as unpacked:
        unpacked.extractall(tmp_path / "out", filter="data")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    columns = manifest["tables"]["evidence_record"]
    parts = sorted((tmp_path / "out/tables/evidence_record").iterdir())
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE opened AS TABLE evidence_record WITH NO DATA")
        with cursor.copy(f"COPY opened ({', '.join(columns)}) FROM STDIN") as copy:
            for part in parts:
                copy.write(part.read_bytes())
        cursor.execute(f"SELECT ROW({', '.join(columns)})::text FROM opened")  # noqa: S608
        opened = sorted(row for (row,) in cursor)
        cursor.execute("DROP TABLE opened")
    assert opened == contents()["evidence_record"]


def test_restore_signs_entries_that_nobody_had_signed_at_backup_time(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    assert filled.get(LIST, "bob").status == 200
    back_up(tmp_path / "backup", key_file)
    delete_everything()
    with time_machine.travel(timezone.now() + timedelta(minutes=5), tick=True):
        restore(tmp_path / "backup", key_file)
    with acting_for(OWNER_ID):
        report = verify(OWNER_ID)
    assert (report.unsigned, report.problems) == (0, [])


@pytest.mark.slow
def test_drill_verifies_an_older_backup_and_drops_its_database(
    filled: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The drill migrates to the older state, loads the rows, then migrates to the current version.
    file, output = tmp_path / "older", StringIO()
    older = health.applied_migrations() - {LATER}
    assert len(older) < len(health.applied_migrations())
    run_to_end(archive.back_up(file, [KEY.identity.to_public()], migrations=older, now=NOW))
    monkeypatch.setattr("sys.stdin", StringIO(f"{' '.join(KEY.words)}\n"))
    call_command("drill", file, stdout=output)
    assert "The backup is valid." in output.getvalue()
    assert re.search(r"Answers: (\d\d) of \1 equal those at backup time", output.getvalue())
    monkeypatch.setattr("sys.stdin", StringIO(f"{OTHER_KEY.secret_line}\n"))
    with pytest.raises(CommandError, match="key does not open this backup"):
        call_command("drill", file, stdout=output)
    with connection.cursor() as cursor:
        cursor.execute(SCRATCH_DATABASES, [restoring.scratch_prefix()])
        assert cursor.fetchall() == []
    assert filled.get(LIST, "bob").status == 200


def test_drill_drops_only_what_a_killed_one_of_this_installation_left(
    transactional_db: None,
) -> None:
    old, new = NOW - 2 * restoring.MAX_AGE, NOW - restoring.MAX_AGE / 2
    own, others = restoring.scratch_prefix(), f"{restoring.DRILL_PREFIX}1_"
    left, running, elsewhere = (f"{prefix}{int(time.timestamp())}_0123abcd"
                                for prefix, time in ((own, old), (own, new), (others, old)))  # fmt: skip
    with connection.cursor() as cursor:
        for name in (left, running, elsewhere):
            cursor.execute(f"CREATE DATABASE {name}")
        try:
            with scratch_database(now=NOW) as name:
                cursor.execute(SCRATCH_DATABASES, [restoring.DRILL_PREFIX])
                found = {each for (each,) in cursor}
        finally:
            for each in (left, running, elsewhere):
                cursor.execute(f"DROP DATABASE IF EXISTS {each}")

    assert {running, elsewhere, name} <= found
    assert left not in found


WORDS = KEY.words


def run_restore(path: Path, words: list[str], var: Path, name: str) -> "tuple[int, str]":
    """Restore on a machine that has the program and an empty database, and nothing else."""
    server = urlsplit(os.environ["DATABASE_URL"])
    process = subprocess.run(
        [sys.executable, "manage.py", "restore", str(path)],
        env=os.environ | {
            "DATABASE_URL": urlunsplit(server._replace(path=f"/{name}")),
            "PDPP_SECRET_KEY": "a new machine has a key of its own, not ours",
            "PDPP_VAR": str(var),
        },
        input=" ".join(words),
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    return process.returncode, process.stdout + process.stderr


@pytest.mark.slow
def test_words_and_one_file_restore_everything_on_a_new_machine(
    filled: World, tmp_path: Path, settings: Any
) -> None:
    schedule.save_key(filled.owner_id, KEY.recipient, now=NOW)
    file, var = tmp_path / "all.age", tmp_path / "var"
    said = back_up(file, None)
    wrong = [*WORDS[:6], "zoo", *WORDS[7:]]

    with scratch_database(now=timezone.now()) as name:
        refused = run_restore(file, wrong, var, name)
        status, output = run_restore(file, WORDS, var, name)
        again = run_restore(file, WORDS, var, name)

    assert f"Recovery key {KEY.fingerprint} opens it, and nothing else." in said
    assert refused[0] == 1
    assert "Word 7, “zoo”, is wrong." in refused[1]
    assert status == 0, output
    assert re.search(r"Answers: (\d\d) of \1 equal those at backup time", output)
    assert "5 grants were paused" in output
    assert json.loads((var / "keys.json").read_text())["secret_key"] == settings.SECRET_KEY
    assert "Set PDPP_SECRET_KEY to it" in output
    assert "is not empty" in again[1]


def test_words_of_another_key_open_no_backup(
    filled: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.save_key(filled.owner_id, KEY.recipient, now=NOW)
    file = tmp_path / "all.age"
    back_up(file, None)

    monkeypatch.setattr("sys.stdin", StringIO(" ".join(OTHER_KEY.words)))
    with pytest.raises(
        CommandError, match=f"needs another .*these words are {OTHER_KEY.fingerprint}"
    ):
        call_command("drill", file)


def test_backup_before_an_upgrade_needs_no_plan(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE backup_backupplan RENAME TO evidence_plan_of_later")
    try:
        with pytest.raises(CommandError, match="There is no recovery key"):
            back_up(tmp_path / "all.age", None)
        back_up(tmp_path / "all.age", key_file)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE evidence_plan_of_later RENAME TO backup_backupplan")


MEMORY_SCRIPT = """
import os, re, pathlib
from operations.backup.archive import back_up, open_backup, run_to_end
from operations.backup.keys import RecoveryKey
def memory(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) // 1024
key, path = RecoveryKey(bytes(16)).identity, pathlib.Path(sys.argv[1])
from django.db import connection
connection.ensure_connection()
before = memory("VmRSS")
run_to_end(back_up(path, [key.to_public()], migrations=(), now=timezone.now()))
with open_backup(path, key) as backup:
    total = sum(len(chunk) for table, rows in backup.tables() for chunk in rows)
print(total // 2**20, memory("VmHWM") - before)
"""


@pytest.mark.slow
def test_backup_and_reading_use_bounded_memory(filled: World, tmp_path: Path) -> None:
    megabyte = os.urandom(2**20)
    put_blob(PERSONAL, stream="messages", record_key="m2", media_type="video/mp4",
             chunks=(megabyte for _ in range(32)), now=timezone.now())  # fmt: skip
    with processes.python(MEMORY_SCRIPT, str(tmp_path / "big")) as process:
        out, _ = process.communicate()
    total, grown = map(int, out.split())
    assert total >= 64  # bytes are written as two digits each
    assert grown < 24
