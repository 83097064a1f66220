"""`python -m demo DIR` writes the demo data as files."""

import json
from pathlib import Path

import pytest

from demo import __main__ as program
from demo import life


def test_command_writes_records_declarations_connections_and_blobs(tmp_path: Path) -> None:
    assert program.main([str(tmp_path)]) == 0
    lines = (tmp_path / "records.jsonl").read_bytes().split(b"\n")
    assert len(lines) == life.RECORD_COUNT + 1
    assert json.loads(lines[0]) == next(life.records())
    assert json.loads((tmp_path / "connections.json").read_text()) == life.connections()
    written = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("declarations/*")}
    assert written == {document["connector_key"]: document for document in life.declarations()}
    assert {path.name for path in tmp_path.glob("blobs/*")} == {
        blob["blob_id"] for blob in life.blobs()
    }


def test_command_without_folder_prints_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([]) == 2
    assert "usage" in capsys.readouterr().err
