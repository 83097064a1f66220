"""The commands ``declare``, ``connect`` and ``ingest``."""

import io
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from evidence.models.connections import Connection
from evidence.models.sources import Source
from evidence.write.reindex import flush_pending_lists
from tests.world import BANK, MAIL, PERSONAL, World
from tests.write import stored

pytestmark = pytest.mark.slow


def run(*arguments: str, **options: Any) -> tuple[str, str]:
    """Run a command and return its standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    call_command(*arguments, stdout=out, stderr=err, **options)
    return out.getvalue(), err.getvalue()


def fails(*arguments: str) -> tuple[str, str, str]:
    """Run a command that must fail; return its output and message."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError) as failed:
        call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue(), str(failed.value)


def export(folder: Path, *lines: Any) -> Path:
    """Create an export folder with a new source, a new connection and these lines."""
    (folder / "manifests").mkdir()
    notes = MAIL | {"connector_key": "notes", "connector_id": "https://registry.example/notes"}
    (folder / "manifests" / "notes.json").write_text(json.dumps(notes))
    listed = [{"connection_id": "cin_notes", "connector_key": "notes", "display_name": "Notes"}]
    (folder / "connections.json").write_text(json.dumps(listed))
    texts = (each if isinstance(each, str) else json.dumps(each) for each in lines)
    (folder / "records.jsonl").write_text("\n".join(texts) + "\n")
    return folder


def note(key: str, **members: Any) -> dict[str, Any]:
    return {
        "connector_key": "notes",
        "connection_id": "cin_notes",
        "stream": "messages",
        "key": key,
        "data": {"id": key, "subject": "A note"},
        "emitted_at": "2026-10-01T00:00:00.000Z",
    } | members


def test_declare_reports_published_declarations(world: World, tmp_path: Path) -> None:
    file = tmp_path / "mail.json"
    file.write_text(json.dumps(MAIL))
    assert run("declare", str(file)) == ("mail 1.0.0: already declared\n", "")
    file.write_text(json.dumps(MAIL | {"version": "1.1.0"}))
    assert run("declare", str(file)) == ("mail 1.1.0: declared (revision 2)\n", "")


def test_declare_lists_errors_and_publishes_valid_files(world: World, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.json", tmp_path / "good.json"
    bad.write_text(json.dumps(MAIL | {"streams": [{"name": "a/b"}]}))
    good.write_text(json.dumps(MAIL | {"version": "1.1.0"}))
    out, err, why = fails("declare", str(bad), str(tmp_path / "missing.json"), str(good))
    assert out == "mail 1.1.0: declared (revision 2)\n"
    assert f"{bad}: $.streams[0].name: source.declaration.invalid_name: " in err
    assert f"{bad}: $.streams[0].schema: source.declaration.missing_member: " in err
    assert "missing.json: No such file or directory" in err
    assert "bad.json" in why
    assert "good.json" not in why


def test_connect_prints_only_the_id(world: World) -> None:
    out, _ = run("connect", "mail", "--name", "More mail", "--language", "en", "--language", "de")
    row = Connection.unscoped.get(connection_id=out.strip())
    assert (row.display_name, row.languages) == ("More mail", ["en", "de"])


def test_connect_refuses_an_undeclared_source(world: World) -> None:
    assert fails("connect", "nothing", "--name", "x")[2] == "No source 'nothing' is declared."


def test_ingest_stores_a_file_and_reports_counts(world: World, tmp_path: Path) -> None:
    run("ingest", str(export(tmp_path, note("n1"), note("n2"))), "--set-up")
    out, _ = run("ingest", str(tmp_path / "records.jsonl"))
    assert out == "2 lines: 0 created, 0 updated, 0 deleted, 2 unchanged, 0 not stored\n"


def test_ingest_set_up_creates_connections_of_a_folder(world: World, tmp_path: Path) -> None:
    folder = export(tmp_path, note("n1"))
    _, err, why = fails("ingest", str(folder))
    assert "--set-up" in err
    assert why == "1 lines were rejected."
    for _ in range(2):
        run("ingest", str(folder), "--set-up")
    assert Source.unscoped.filter(connector_key="notes").count() == 1
    assert stored.data("cin_notes", "n1") == {"id": "n1", "subject": "A note"}


def test_ingest_stores_valid_lines_and_fails_on_rejected_ones(world: World, tmp_path: Path) -> None:
    bad = note("n2", data={"id": "n2", "subject": 5, "secret": "xylophone"})
    folder = export(tmp_path, note("n1"), bad, "{", note("n3"))
    receipts = tmp_path / "receipts.jsonl"
    out, err, why = fails("ingest", str(folder), "--set-up", "--receipts", str(receipts))
    assert "4 lines: 2 created" in out
    assert "1 invalid_record: The record does not match the schema of its stream." in out
    assert "line 2: invalid_record $.data.subject type" in err
    assert why == "2 lines were rejected."
    written = [json.loads(line) for line in receipts.read_text().splitlines()]
    assert [(each["line"], each["code"]) for each in written] == [
        (2, "invalid_record"),
        (3, "malformed_ndjson"),
    ]
    assert "xylophone" not in out + err + receipts.read_text()


def test_ingest_reads_standard_input(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps(note("n1", connection_id=PERSONAL)).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line)))
    assert "1 created" in run("ingest", "-")[0]


def test_ingest_replaces_only_with_the_option(world: World, tmp_path: Path) -> None:
    data = {"id": "b1", "date": "2026-01-13", "amount": 1}
    export(tmp_path, note("b1", connection_id=BANK, stream="transactions", data=data))
    file = str(tmp_path / "records.jsonl")
    assert "append_only_conflict" in fails("ingest", file)[0]
    assert "1 updated" in run("ingest", file, "--replace")[0]


def test_ingest_rejects_lines_over_the_given_length(world: World, tmp_path: Path) -> None:
    long = note("n1", connection_id=PERSONAL, data={"id": "n1", "subject": "x" * 1024 * 1024})
    export(tmp_path, long, note("n2", connection_id=PERSONAL))
    out, _, _ = fails("ingest", str(tmp_path / "records.jsonl"), "--longest", "1")
    assert "1 line_too_long" in out
    assert "1 created" in out


def test_ingest_names_a_missing_file(world: World) -> None:
    assert fails("ingest", "/nowhere/records.jsonl")[2] == (
        "/nowhere/records.jsonl: No such file or directory"
    )


def test_large_import_flushes_on_the_maintenance_thread(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.write.batches.BATCH_LINES", 3)
    monkeypatch.setattr("evidence.write.reindex.FLUSH_AFTER_RECORDS", 5)
    folder = export(tmp_path, *(note(f"n{number}") for number in range(40)))
    importing, flushed = threading.current_thread(), list[bool]()

    def flush_slowly(*where: Any) -> None:
        time.sleep(0.02)
        flushed.append(threading.current_thread() is importing)
        flush_pending_lists(*where)

    monkeypatch.setattr("evidence.write.reindex.flush_pending_lists", flush_slowly)
    run("ingest", str(folder), "--set-up")
    assert "note" in stored.terms("cin_notes", "n39")
    # The import waits for each flush, so every second of the 14 batches starts one.
    assert flushed == [False] * 6 + [True]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("merge")]


def test_failed_flush_stops_the_import(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr("evidence.write.reindex.FLUSH_AFTER_RECORDS", 1)
    monkeypatch.setattr("evidence.write.reindex.flush_pending_lists", fail)
    folder = export(tmp_path, note("a"))
    _, _, why = fails("ingest", str(folder), "--set-up")
    assert "Earlier batches stay stored." in why
    assert stored.data("cin_notes", "a")
