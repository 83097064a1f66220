"""``manage.py declare``, ``connect`` and ``ingest``, as the owner types them."""

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from evidence.models.connections import Connection
from evidence.models.sources import Source
from tests.storing import stored
from tests.world import BANK, MAIL, PERSONAL, World


def run(*arguments: str, **options: Any) -> tuple[str, str]:
    """What a command wrote to standard output and to standard error."""
    out, err = io.StringIO(), io.StringIO()
    call_command(*arguments, stdout=out, stderr=err, **options)
    return out.getvalue(), err.getvalue()


def fails(*arguments: str) -> tuple[str, str, str]:
    """The same for one that must fail, and why it did."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError) as failed:
        call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue(), str(failed.value)


def export(folder: Path, *lines: Any) -> Path:
    """A folder as an export leaves it: one new source, one new connection, these lines."""
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


def test_declare_says_what_it_took(world: World, tmp_path: Path) -> None:
    file = tmp_path / "mail.json"
    file.write_text(json.dumps(MAIL))
    assert run("declare", str(file)) == ("mail 1.0.0: already declared\n", "")
    file.write_text(json.dumps(MAIL | {"version": "1.1.0"}))
    assert run("declare", str(file)) == ("mail 1.1.0: declared (revision 2)\n", "")


def test_declare_names_each_fault_and_takes_the_other_files(world: World, tmp_path: Path) -> None:
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


def test_connect_prints_the_id_and_nothing_else(world: World) -> None:
    out, _ = run("connect", "mail", "--name", "More mail", "--language", "en", "--language", "de")
    row = Connection.unscoped.get(connection_id=out.strip())
    assert (row.display_name, row.languages) == ("More mail", ["en", "de"])


def test_connect_wants_a_declared_source(world: World) -> None:
    assert fails("connect", "nothing", "--name", "x")[2] == "No source 'nothing' is declared."


def test_ingest_takes_a_file_and_says_what_became_of_it(world: World, tmp_path: Path) -> None:
    run("ingest", str(export(tmp_path, note("n1"), note("n2"))), "--set-up")
    out, _ = run("ingest", str(tmp_path / "records.jsonl"))
    assert out == "2 lines: 0 created, 0 updated, 0 deleted, 2 unchanged, 0 not stored\n"


def test_ingest_sets_up_what_a_folder_brings(world: World, tmp_path: Path) -> None:
    folder = export(tmp_path, note("n1"))
    _, err, why = fails("ingest", str(folder))
    assert "--set-up" in err
    assert why == "1 lines were refused."
    for _ in range(2):
        run("ingest", str(folder), "--set-up")
    assert Source.unscoped.filter(connector_key="notes").count() == 1
    assert stored.data("cin_notes", "n1") == {"id": "n1", "subject": "A note"}


def test_ingest_fails_when_lines_are_refused_and_stores_the_others(
    world: World, tmp_path: Path
) -> None:
    bad = note("n2", data={"id": "n2", "subject": 5, "secret": "xylophone"})
    folder = export(tmp_path, note("n1"), bad, "{", note("n3"))
    receipts = tmp_path / "receipts.jsonl"
    out, err, why = fails("ingest", str(folder), "--set-up", "--receipts", str(receipts))
    assert "4 lines: 2 created" in out
    assert "1 invalid_record: The record does not match the schema of its stream." in out
    assert "line 2: invalid_record $.data.subject type" in err
    assert why == "2 lines were refused."
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


def test_ingest_replaces_only_when_told_to(world: World, tmp_path: Path) -> None:
    data = {"id": "b1", "date": "2026-01-13", "amount": 1}
    export(tmp_path, note("b1", connection_id=BANK, stream="transactions", data=data))
    file = str(tmp_path / "records.jsonl")
    assert "append_only_conflict" in fails("ingest", file)[0]
    assert "1 updated" in run("ingest", file, "--replace")[0]


def test_ingest_refuses_lines_longer_than_it_is_told(world: World, tmp_path: Path) -> None:
    long = note("n1", connection_id=PERSONAL, data={"id": "n1", "subject": "x" * 1024 * 1024})
    export(tmp_path, long, note("n2", connection_id=PERSONAL))
    out, _, _ = fails("ingest", str(tmp_path / "records.jsonl"), "--longest", "1")
    assert "1 line_too_long" in out
    assert "1 created" in out


def test_ingest_says_which_file_is_not_there(world: World) -> None:
    assert fails("ingest", "/nowhere/records.jsonl")[2] == (
        "/nowhere/records.jsonl: No such file or directory"
    )


def test_a_large_import_merges_its_search_text_beside_the_load(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.storing.batches.RECORDS_AT_ONCE", 3)
    monkeypatch.setattr("evidence.storing.reindex.PENDING_RECORDS", 5)
    monkeypatch.setattr("evidence.storing.reindex.MOST_PENDING_RECORDS", 7)
    folder = export(tmp_path, *(note(f"n{number}") for number in range(40)))
    run("ingest", str(folder), "--set-up")
    assert "note" in stored.terms("cin_notes", "n39")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("merge")]


def test_an_index_that_cannot_be_merged_beside_the_load_ends_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr("evidence.storing.reindex.PENDING_RECORDS", 1)
    monkeypatch.setattr("evidence.storing.reindex.merge", fail)
    folder = export(tmp_path, note("a"))
    _, _, why = fails("ingest", str(folder), "--set-up")
    assert "What was stored before stays." in why
    assert stored.data("cin_notes", "a")
