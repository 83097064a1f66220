"""Backups are encrypted snapshots; a restore brings back every row and pauses all grants."""

import json
import os
import re
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from evidence.access.grants import resume_client
from evidence.models.owners import acting_for
from evidence.write.blobs import put_blob
from evidence.write.declaration_store import declare
from evidence.write.sealed_values import SealedError
from importers.models import SourceAccount
from importers.sources import account_store
from operations import schema_version
from operations.backup import drill, dump, plans, table_copy
from operations.backup.drill import scratch_database
from operations.backup.dump import run_to_end
from operations.backup.errors import BackupError, MigrationsDifferError, NewerFormatError
from operations.backup.keys import RecoveryKey, Secret, fingerprint
from operations.backup.restore import BackupReader
from operations.backup.table_copy import backup_tables
from tests.world import MAIL, NOW, PERSONAL, World, mail
from tests.write import processes

pytestmark = pytest.mark.slow

LIST = "/v1/streams/messages/records"
SCRATCH_DATABASES = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"
UNUSUAL_TEXT = "tab\t line\nback\\slash \\N \\. \u2028 \U0001f600 'quote' \"q\" {curly} NULL \r end"
LATER = ("auth", "0012_alter_user_first_name_max_length")
"""A migration that an older backup has not seen. Evidence has only its first one yet."""
SUSPENDED = {"evidence_grant", "evidence_accesstoken"}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(b"k" * 40)
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
    file = tmp_path / "all.backup"
    assert "The backup does not contain the secret key" in back_up(file, key_file)
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


@pytest.mark.parametrize("with_keys", [False, True])
def test_backup_says_that_it_has_credentials_of_live_accounts(
    filled: World, tmp_path: Path, key_file: Path, settings: Any, with_keys: bool
) -> None:
    file = tmp_path / "all.backup"
    before = back_up(tmp_path / "without.backup", key_file, with_keys=with_keys)
    account_store.create_account(
        PERSONAL,
        source_name="imap",
        settings={},
        credential={"password": "abcd-efgh"},
        is_mirror=False,
        now=NOW,
    )

    said = back_up(file, key_file, with_keys=with_keys)
    stored = str(contents()["importers_sourceaccount"])
    delete_everything()
    restore(file, key_file)

    def opened() -> dict[str, str]:
        return account_store.open_credential(SourceAccount.unscoped.get())

    assert "live sources" not in before
    assert "It contains the passwords or sign-ins of 1 live sources" in said
    assert ("and the key that opens them" in said) == with_keys
    assert "abcd-efgh" not in stored
    assert b"abcd-efgh".hex() not in stored
    assert opened() == {"password": "abcd-efgh"}
    settings.SECRET_KEY = "the key of another installation, which is long enough"
    with pytest.raises(SealedError):
        opened()


def test_restore_reuses_no_id(filled: World, tmp_path: Path, key_file: Path) -> None:
    """Caches know declarations by id."""
    file = tmp_path / "all.backup"
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
    file = tmp_path / "all.backup"
    back_up(file, key_file, with_keys=True)
    content = file.read_bytes()
    assert not re.search(rb"Lindenstra|Eva Lang|evidence_record|secret_key", content)
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.backup", "key"]


def test_backup_is_a_consistent_snapshot_during_writes(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    before = counts(contents())
    writer = threading.Thread(target=_write, args=(filled,))

    def write_once(name: str, rows: int) -> None:
        if writer.ident is None:
            writer.start()
            writer.join()

    secret = Secret("file", key_file.read_bytes())
    steps = dump.back_up(tmp_path / "one", secret, migrations=schema_version.applied_migrations(),
        with_keys=False, now=NOW, on_table=write_once)  # fmt: skip
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
    file, bad = tmp_path / "all.backup", tmp_path / "bad.backup"
    back_up(file, key_file)
    content = file.read_bytes()
    with pytest.raises(CommandError, match=r"is not empty.*PDPP_VAR"):
        restore(file, key_file)
    assert filled.get(LIST, "bob").status == 200
    delete_everything()
    middle = len(content) // 2
    edited = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    for wrong, message in {
        content[:-1]: "cut short",
        content[:middle]: "cut short",
        edited: "changed, damaged",
        content + b"x": "changed, damaged",
        b"pdpp backup 2" + content[13:]: "newer version",
        b"GIF89a": "not a PDPP backup",
        content.replace(b'"log_n":16', b'"log_n":15', 1): "does not open",
    }.items():
        bad.write_bytes(wrong)
        with pytest.raises(CommandError, match=message):
            restore(bad, key_file)
        assert table_copy.non_empty_tables() == []
    key_file.write_bytes(b"j" * 40)
    with pytest.raises(CommandError, match="does not open"):
        restore(file, key_file)
    assert table_copy.non_empty_tables() == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [(lambda applied: {*applied, ("evidence", "9999_later")}, NewerFormatError),
     (lambda applied: {migration for migration in applied if migration[0] != "sessions"}, MigrationsDifferError)],
)  # fmt: skip
def test_other_migrations_are_rejected(
    filled: World, tmp_path: Path, key_file: Path, change: Any, fault: type[BackupError]
) -> None:
    ours, secret = schema_version.applied_migrations(), Secret("file", key_file.read_bytes())
    file = tmp_path / "other"
    run_to_end(dump.back_up(file, secret, migrations=change(ours), with_keys=False, now=NOW))
    with file.open("rb") as opened:
        backup = BackupReader(opened, secret)
        with pytest.raises(fault):
            backup.require_restorable(known=schema_version.known_migrations(), applied=ours)
        if fault is MigrationsDifferError:
            backup.require_restorable(known=schema_version.known_migrations(), applied=())


def test_restore_continues_after_interrupted_migration(
    filled: World, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, migrate = tmp_path / "all.backup", Mock()
    back_up(file, key_file)
    ours = schema_version.applied_migrations()
    latest = max(migration for migration in ours if migration[0] == "evidence")
    monkeypatch.setattr(schema_version, "applied_migrations", lambda: ours - {latest})
    monkeypatch.setattr(schema_version, "migrate_to", migrate)

    with pytest.raises(CommandError, match="is not empty"):
        restore(file, key_file)
    migrate.assert_not_called()
    delete_everything()

    assert "no errors" in restore(file, key_file)
    migrate.assert_called_once_with(ours)


def test_backup_works_without_hard_links(
    filled: World, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError(1, "Not permitted")))
    file = tmp_path / "all.backup"
    back_up(file, key_file)
    content = file.read_bytes()

    with pytest.raises(CommandError, match="never replaces"):
        back_up(file, key_file)

    assert file.read_bytes() == content
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.backup", "key"]


def test_other_secret_key_is_detected_before_restoring(
    filled: World, tmp_path: Path, key_file: Path, settings: Any
) -> None:
    plain, keyed, ours = tmp_path / "plain", tmp_path / "keyed", settings.SECRET_KEY
    settings.PDPP_VAR = tmp_path / "var"
    rotated = settings.PDPP_ROTATED_KEYS = {"cursors": ["a-key-of-its-own", ""]}
    back_up(plain, key_file)
    assert "anyone who opens it can create tokens" in back_up(keyed, key_file, with_keys=True)
    delete_everything()
    settings.SECRET_KEY = "another-secret-key-than-that-of-the-backup"
    settings.PDPP_ROTATED_KEYS = {}
    for file in (plain, keyed):
        with pytest.raises(CommandError, match="another PDPP_SECRET_KEY"):
            restore(file, key_file)
    with pytest.raises(CommandError, match="not contain the server's secret key"):
        restore(plain, key_file, with_keys=True)
    assert table_copy.non_empty_tables() == []
    output = restore(plain, key_file, without_the_key=True)
    assert re.search(r"Ledger: 3 rows, \d+ errors", output)
    assert filled.get(LIST, "bob").status == 401
    delete_everything()
    assert "no errors" in restore(keyed, key_file, with_keys=True)
    assert json.loads((tmp_path / "var" / "keys.json").read_text()) == {
        "secret_key": ours,
        "rotated": rotated,
    }


def test_backup_never_replaces_a_file_or_leaves_a_partial_one(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "all.backup"
    file.write_text("precious")
    with pytest.raises(CommandError, match="never replaces"):
        back_up(file, key_file)
    assert file.read_text() == "precious"

    def interrupt(name: str, rows: int) -> None:
        raise KeyboardInterrupt

    secret = Secret("file", key_file.read_bytes())
    with pytest.raises(KeyboardInterrupt):
        run_to_end(dump.back_up(tmp_path / "two", secret, migrations=(), with_keys=False, now=NOW,
                       on_table=interrupt))  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.backup", "key"]


def test_concurrent_restore_is_refused(filled: World, tmp_path: Path, key_file: Path) -> None:
    file = tmp_path / "all.backup"
    back_up(file, key_file)
    delete_everything()
    with psycopg.connect(processes.environment()["DATABASE_URL"]) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [table_copy.RESTORE_LOCK])
        with pytest.raises(CommandError, match="Another restore"):
            restore(file, key_file)
    assert table_copy.non_empty_tables() == []
    assert "no errors" in restore(file, key_file)


@pytest.mark.django_db
def test_short_passphrases_and_key_files_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("short\n"))
    with pytest.raises(CommandError, match="at least 12 characters"):
        call_command("backup", tmp_path / "x", stdout=StringIO())
    key = tmp_path / "key"
    key.write_bytes(b"k" * 31)
    with pytest.raises(CommandError, match="at least 32 bytes"):
        call_command("backup", tmp_path / "x", key_file=key, stdout=StringIO())
    with pytest.raises(CommandError, match="File exists"):
        call_command("backup", tmp_path / "x", key_file=key, make_key=True, stdout=StringIO())


@pytest.mark.slow
def test_drill_verifies_an_older_backup_and_drops_its_database(
    filled: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The drill migrates to the older state, loads the rows, then migrates to the current version.
    file, output, passphrase = tmp_path / "older", StringIO(), "correct horse battery"
    older = schema_version.applied_migrations() - {LATER}
    assert len(older) < len(schema_version.applied_migrations())
    run_to_end(dump.back_up(file, Secret("passphrase", passphrase.encode()), migrations=older,
                   with_keys=False, now=NOW))  # fmt: skip
    monkeypatch.setattr("sys.stdin", StringIO(f"{passphrase}\n"))
    call_command("drill", file, stdout=output)
    assert "The backup is valid." in output.getvalue()
    assert re.search(r"Answers: (\d\d) of \1 equal those at backup time", output.getvalue())
    monkeypatch.setattr("sys.stdin", StringIO("another horse battery\n"))
    with pytest.raises(CommandError, match="does not open this backup"):
        call_command("drill", file, stdout=output)
    with connection.cursor() as cursor:
        cursor.execute(SCRATCH_DATABASES, [drill.scratch_prefix()])
        assert cursor.fetchall() == []
    assert filled.get(LIST, "bob").status == 200


def test_drill_drops_only_what_a_killed_one_of_this_installation_left(
    transactional_db: None,
) -> None:
    old, new = NOW - 2 * drill.MAX_AGE, NOW - drill.MAX_AGE / 2
    own, others = drill.scratch_prefix(), f"{drill.PREFIX}1_"
    left, running, elsewhere = (f"{prefix}{int(time.timestamp())}_0123abcd"
                                for prefix, time in ((own, old), (own, new), (others, old)))  # fmt: skip
    with connection.cursor() as cursor:
        for name in (left, running, elsewhere):
            cursor.execute(f"CREATE DATABASE {name}")
        try:
            with scratch_database(now=NOW) as name:
                cursor.execute(SCRATCH_DATABASES, [drill.PREFIX])
                found = {each for (each,) in cursor}
        finally:
            for each in (left, running, elsewhere):
                cursor.execute(f"DROP DATABASE IF EXISTS {each}")

    assert {running, elsewhere, name} <= found
    assert left not in found


WORDS = RecoveryKey(b"0123456789abcdef").words


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
    key = RecoveryKey.parse(" ".join(WORDS))
    plans.save_key(filled.owner_id, key.public_key, now=NOW)
    file, var = tmp_path / "all.backup", tmp_path / "var"
    said = back_up(file, None)
    wrong = [*WORDS[:6], "zoo", *WORDS[7:]]

    with scratch_database(now=timezone.now()) as name:
        refused = run_restore(file, wrong, var, name)
        status, output = run_restore(file, WORDS, var, name)
        again = run_restore(file, WORDS, var, name)

    assert f"The words of recovery key {fingerprint(key.public_key)} open it" in said
    assert refused[0] == 1
    assert "Word 7, “zoo”, is wrong." in refused[1]
    assert status == 0, output
    assert re.search(r"Answers: (\d\d) of \1 equal those at backup time", output)
    assert "5 grants were paused" in output
    assert json.loads((var / "keys.json").read_text())["secret_key"] == settings.SECRET_KEY
    assert "Set PDPP_SECRET_KEY to it" in output
    assert "is not empty" in again[1]


def test_key_file_and_words_of_another_key_open_no_sealed_backup(
    filled: World, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans.save_key(filled.owner_id, RecoveryKey.parse(" ".join(WORDS)).public_key, now=NOW)
    file = tmp_path / "all.backup"
    back_up(file, None)

    with pytest.raises(CommandError, match="It needs the words of recovery key"):
        call_command("drill", file, key_file=key_file)
    monkeypatch.setattr("sys.stdin", StringIO(" ".join(RecoveryKey(bytes(16)).words)))
    with pytest.raises(CommandError, match=r"It needs \w{4}-\w{4}; these words are \w{4}-\w{4}"):
        call_command("drill", file)


def test_passphrase_is_asked_for_if_the_owner_says_so(
    filled: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans.save_key(filled.owner_id, RecoveryKey(bytes(16)).public_key, now=NOW)
    monkeypatch.setattr("sys.stdin", StringIO("correct horse battery\n"))

    back_up(tmp_path / "all.backup", None, passphrase=True)

    assert b'"key":"passphrase"' in (tmp_path / "all.backup").read_bytes()[:60]


def test_backup_before_an_upgrade_needs_no_plan(
    filled: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("correct horse battery\n"))
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE backup_backupplan RENAME TO evidence_plan_of_later")
    try:
        back_up(tmp_path / "all.backup", None)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE evidence_plan_of_later RENAME TO backup_backupplan")

    assert b'"key":"passphrase"' in (tmp_path / "all.backup").read_bytes()[:60]


MEMORY_SCRIPT = """
import os, re, pathlib
from operations.backup.dump import back_up, run_to_end
from operations.backup.archive import EncryptedReader, read_frames
from operations.backup.keys import Secret
def memory(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) // 1024
secret, path = Secret("file", b"k" * 32), pathlib.Path(sys.argv[1])
from django.db import connection
connection.ensure_connection()
before = memory("VmRSS")
run_to_end(back_up(path, secret, migrations=(), with_keys=False, now=timezone.now()))
with path.open("rb") as file:
    total = sum(len(frame.content) for frame in read_frames(EncryptedReader(file, secret)))
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
