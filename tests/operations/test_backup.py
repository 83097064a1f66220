"""A backup is one sealed file of one moment; restoring it gives everything back, and reads nothing."""

import json
import os
import re
import threading
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from evidence.access.grants import resume_client
from evidence.storing import table_copy
from evidence.storing.blobs import put_blob
from evidence.storing.table_copy import Table, kept_tables
from operations import schema_version
from operations.backup import dump
from operations.backup.archive import Secret
from operations.backup.errors import BackupFault, NewerFormat, OtherMigrations
from operations.backup.restore import Backup
from tests.storing import processes
from tests.world import NOW, PERSONAL, World, mail

LIST = "/v1/streams/messages/records"
NASTY = "tab\t line\nback\\slash \\N \\. \u2028 \U0001f600 'quote' \"q\" {curly} NULL \r end"
OLDER = ("evidence", "0015_quotas")
SUSPENDED = {"evidence_grant", "evidence_accesstoken"}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(b"k" * 40)
    return path


@pytest.fixture
def filled(committed: World) -> World:
    """The cast, some reads on the ledger, a file, vectors where there can be any, and nasty texts."""
    world = committed
    world.put((PERSONAL, "messages", mail(NASTY[:12].replace("\t", "/"), None, body_text=NASTY)))
    world.embed()
    put_blob(PERSONAL, stream="messages", record_key="m1", media_type="image/png",
             chunks=[os.urandom(300_000), b"", b"\\x\n\t"], now=NOW)  # fmt: skip
    for who in ("alice", "bob", "dora"):
        assert world.get(LIST, who, connection_id=PERSONAL).status == 200
    call_command("ledger", "checkpoint", stdout=StringIO())
    return world


def back_up(path: Path, key_file: Path | None, **options: Any) -> str:
    said = StringIO()
    call_command("backup", path, key_file=key_file, stdout=said, stderr=StringIO(), **options)
    return said.getvalue()


def restore(path: Path, key_file: Path, **options: Any) -> str:
    said = StringIO()
    call_command("restore", path, key_file=key_file, stdout=said, stderr=StringIO(), **options)
    return said.getvalue()


def lose_everything() -> None:
    with transaction.atomic():
        table_copy.make_room()
    assert table_copy.occupied() == []


def contents() -> dict[str, list[str]]:
    """Every row of every table that is kept, as text."""
    found = {}
    with connection.cursor() as cursor:
        for table in kept_tables():
            columns = ", ".join(f'"{name}"' for name in table.columns)
            cursor.execute(f'SELECT ROW({columns})::text FROM "{table.name}"')  # noqa: S608
            found[table.name] = sorted(row for (row,) in cursor)
    return found


def counts(found: dict[str, list[str]]) -> dict[str, int]:
    return {name: len(rows) for name, rows in found.items()}


def test_what_is_restored_is_what_was_there_and_reads_nothing(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "all.backup"
    assert "The server's secret key is not inside" in back_up(file, key_file)
    before = contents()
    lose_everything()
    said = restore(file, key_file)
    assert "as many in every table" in said
    assert re.search(r"Answers: (\d\d) of \1 as they were then", said)
    assert "no fault" in said
    assert "5 grants are paused and 1 owner tokens have ended" in said
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


def test_the_file_says_nothing_without_its_key(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "all.backup"
    back_up(file, key_file, with_keys=True)
    content = file.read_bytes()
    assert not re.search(rb"Lindenstra|Eva Lang|evidence_record|secret_key", content)
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.backup", "key"]


def test_a_backup_is_of_one_moment_while_others_write(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    before = counts(contents())
    writer = threading.Thread(target=_write, args=(filled,))

    def begin(name: str, rows: int) -> None:
        if writer.ident is None:
            writer.start()
            writer.join()

    secret = Secret("file", key_file.read_bytes())
    made = dump.back_up(tmp_path / "one", secret, migrations=schema_version.applied(),
        with_keys=False, now=NOW, on_table=begin)  # fmt: skip
    assert made.counts == before
    assert counts(contents()) != before
    lose_everything()
    assert "no fault" in restore(tmp_path / "one", key_file)
    assert counts(contents()) == before


def _write(world: World) -> None:
    try:
        world.put(*[(PERSONAL, "messages", mail(f"late{n}", None)) for n in range(9)])
    finally:
        connection.close()


def test_what_is_not_whole_or_not_ours_restores_nothing(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file, bad = tmp_path / "all.backup", tmp_path / "bad.backup"
    back_up(file, key_file)
    content = file.read_bytes()
    with pytest.raises(CommandError, match=r"this one holds something.*PDPP_VAR"):
        restore(file, key_file)
    assert filled.get(LIST, "bob").status == 200
    lose_everything()
    middle = len(content) // 2
    edited = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    for wrong, message in {
        content[:-1]: "cut short",
        content[:middle]: "cut short",
        edited: "changed, damaged",
        content + b"x": "changed, damaged",
        b"pdpp backup 2" + content[13:]: "newer version",
        b"GIF89a": "no backup",
        content.replace(b'"log_n":16', b'"log_n":15', 1): "does not open",
    }.items():
        bad.write_bytes(wrong)
        with pytest.raises(CommandError, match=message):
            restore(bad, key_file)
        assert table_copy.occupied() == []
    key_file.write_bytes(b"j" * 40)
    with pytest.raises(CommandError, match="does not open"):
        restore(file, key_file)
    assert table_copy.occupied() == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [(lambda ours: {*ours, ("evidence", "9999_later")}, NewerFormat),
     (lambda ours: {each for each in ours if each[0] != "sessions"}, OtherMigrations)],
)  # fmt: skip
def test_tables_of_another_version_are_not_filled(
    filled: World, tmp_path: Path, key_file: Path, change: Any, fault: type[BackupFault]
) -> None:
    ours, secret = schema_version.applied(), Secret("file", key_file.read_bytes())
    file = tmp_path / "other"
    dump.back_up(file, secret, migrations=change(ours), with_keys=False, now=NOW)
    with file.open("rb") as opened:
        backup = Backup(opened, secret)
        with pytest.raises(fault):
            backup.require_restorable(known=schema_version.known(), applied=ours)
        if fault is OtherMigrations:
            backup.require_restorable(known=schema_version.known(), applied=())


def test_a_restore_that_was_killed_while_it_made_the_tables_goes_on(
    filled: World, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, went = tmp_path / "all.backup", Mock()
    back_up(file, key_file)
    ours = schema_version.applied()
    latest = max(each for each in ours if each[0] == "evidence")
    monkeypatch.setattr(schema_version, "applied", lambda: ours - {latest})
    monkeypatch.setattr(schema_version, "migrate_to", went)

    with pytest.raises(CommandError, match="this one holds something"):
        restore(file, key_file)
    went.assert_not_called()
    lose_everything()

    assert "no fault" in restore(file, key_file)
    went.assert_called_once_with(ours)


def test_a_disk_without_second_names_takes_a_backup_too(
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


def test_another_secret_is_noticed_before_anything_is_written(
    filled: World, tmp_path: Path, key_file: Path, settings: Any
) -> None:
    plain, keyed, ours = tmp_path / "plain", tmp_path / "keyed", settings.SECRET_KEY
    settings.PDPP_VAR = tmp_path / "var"
    rotated = settings.PDPP_ROTATED_KEYS = {"cursors": ["a-key-of-its-own", ""]}
    back_up(plain, key_file)
    assert "whoever opens this file can make tokens" in back_up(keyed, key_file, with_keys=True)
    lose_everything()
    settings.SECRET_KEY = "another-secret-key-that-nothing-was-made-under"
    settings.PDPP_ROTATED_KEYS = {}
    for file in (plain, keyed):
        with pytest.raises(CommandError, match="another PDPP_SECRET_KEY"):
            restore(file, key_file)
    with pytest.raises(CommandError, match="without the server's secret key"):
        restore(plain, key_file, with_keys=True)
    assert table_copy.occupied() == []
    said = restore(plain, key_file, without_the_key=True)
    assert re.search(r"Ledger: 3 rows, \d+ faults", said)
    assert filled.get(LIST, "bob").status == 401
    lose_everything()
    assert "no fault" in restore(keyed, key_file, with_keys=True)
    assert json.loads((tmp_path / "var" / "keys.json").read_text()) == {
        "secret_key": ours,
        "rotated": rotated,
    }


def test_a_backup_never_replaces_a_file_and_leaves_none_when_interrupted(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "all.backup"
    file.write_text("precious")
    with pytest.raises(CommandError, match="never replaces"):
        back_up(file, key_file)
    assert file.read_text() == "precious"

    def interrupted(name: str, rows: int) -> None:
        raise KeyboardInterrupt

    secret = Secret("file", key_file.read_bytes())
    with pytest.raises(KeyboardInterrupt):
        dump.back_up(tmp_path / "two", secret, migrations=(), with_keys=False, now=NOW,
                       on_table=interrupted)  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.backup", "key"]


def test_of_two_restores_at_once_one_is_refused(
    filled: World, tmp_path: Path, key_file: Path
) -> None:
    file = tmp_path / "all.backup"
    back_up(file, key_file)
    lose_everything()
    with psycopg.connect(processes._database_url()) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [table_copy.LOADING])
        with pytest.raises(CommandError, match="Another restore"):
            restore(file, key_file)
    assert table_copy.occupied() == []
    assert "no fault" in restore(file, key_file)


def test_keys_that_are_too_short_are_refused(
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


def of_an_older_version() -> list[Table]:
    """The tables and columns that are kept, as far as OLDER had them."""
    state = MigrationLoader(connection).project_state([OLDER]).apps
    had = {model._meta.db_table: {field.column for field in model._meta.local_concrete_fields}
           for model in state.get_models(include_auto_created=True)}  # fmt: skip
    return [
        Table(table.name, tuple(name for name in table.columns if name in had[table.name]))
        for table in kept_tables()
        if table.name in had
    ]


def test_a_drill_proves_an_older_backup_in_a_database_of_its_own_and_leaves_nothing(
    filled: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never migrated at first: to where the backup was, filled, then on to this version."""
    file, said, words = tmp_path / "older", StringIO(), "correct horse battery"
    older = {each for each in schema_version.applied() if each[0] != OLDER[0] or each <= OLDER}
    with monkeypatch.context() as then:
        then.setattr(dump, "kept_tables", of_an_older_version)
        dump.back_up(file, Secret("passphrase", words.encode()), migrations=older,
                       with_keys=False, now=NOW)  # fmt: skip
    monkeypatch.setattr("sys.stdin", StringIO(f"{words}\n"))
    call_command("drill", file, stdout=said)
    assert "The backup holds." in said.getvalue()
    assert re.search(r"Answers: (\d\d) of \1 as they were then", said.getvalue())
    monkeypatch.setattr("sys.stdin", StringIO("another horse battery\n"))
    with pytest.raises(CommandError, match="does not open this backup"):
        call_command("drill", file, stdout=said)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'pdpp\\_drill%'")
        assert cursor.fetchone() == (0,)
    assert filled.get(LIST, "bob").status == 200


BIG = """
import os, re, pathlib
from operations.backup.dump import back_up
from operations.backup.archive import Secret, Opener
from operations.backup.archive import frames
def memory(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) // 1024
secret, path = Secret("file", b"k" * 32), pathlib.Path(sys.argv[1])
from django.db import connection
connection.ensure_connection()
before = memory("VmRSS")
back_up(path, secret, migrations=(), with_keys=False, now=timezone.now())
with path.open("rb") as file:
    total = sum(len(each.content) for each in frames(Opener(file, secret)))
print(total // 2**20, memory("VmHWM") - before)
"""


def test_memory_stays_within_bounds_whatever_a_file_holds(filled: World, tmp_path: Path) -> None:
    megabyte = os.urandom(2**20)
    put_blob(PERSONAL, stream="messages", record_key="m2", media_type="video/mp4",
             chunks=(megabyte for _ in range(32)), now=timezone.now())  # fmt: skip
    with processes.python(BIG, str(tmp_path / "big")) as process:
        out, _ = process.communicate()
    total, grown = map(int, out.split())
    assert total >= 64  # bytes are written as two digits each
    assert grown < 24
