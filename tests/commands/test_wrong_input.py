"""What a command is given by mistake ends in a line that says so, before anything is done."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.world import World


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["keep", "--days", "5"], "Of which connection?"),
        (["keep", "cin_personal", "--stream", "mesages", "--days", "5"], "there are messages"),
        (["keep", "--for-good"], "Of which connection?"),
        (["ledger", "show", "owner", "--limit", "-1"], "'-1' is not a number from 1 on"),
        (["ingest", "-", "--longest", "0"], "'0' is not a number from 1 on"),
        (["doctor", "http://[bad"], "is no address such as"),
        (["doctor", "ftp://records.example"], "is no address such as"),
        (["import", "--watch", "{}/none"], "is no folder"),
        (["import", "{}", "--report", "{}/none/report"], "--report: .*No such file"),
        (["backup", "{}/file", "--make-key"], "--key-file"),
    ],
)
def test_it_is_said_at_once(
    world: World, line: list[str], said: str, tmp_path: Path, settings: Any
) -> None:
    settings.PDPP_VAR = tmp_path / "var"
    given = [each.format(tmp_path) for each in line]

    with pytest.raises(CommandError, match=said):
        call_command(*given)

    assert list(tmp_path.iterdir()) == []


def test_a_backup_that_would_replace_a_file_is_not_begun(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.write_bytes(b"k" * 32)

    with pytest.raises(CommandError, match="never replaces one"):
        call_command("backup", there, key_file=there)

    assert there.read_bytes() == b"k" * 32
    assert "rows" not in capsys.readouterr().err
