"""Commands refuse invalid arguments before doing anything."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from operations.backup.keys import RecoveryKey
from tests.world import World


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["keep", "--days", "5"], "Name a connection"),
        (["keep", "cin_personal", "--stream", "mesages", "--days", "5"], "Choose one of: messages"),
        (["keep", "--for-good"], "Name a connection"),
        (["ledger", "show", "owner", "--limit", "-1"], "'-1' is not a positive integer"),
        (["ingest", "-", "--longest", "0"], "'0' is not a positive integer"),
        (["doctor", "http://[bad"], "is not a URL such as"),
        (["doctor", "ftp://records.example"], "is not a URL such as"),
        (["import", "--watch", "{}/none"], "is no folder"),
        (["import", "{}", "--report", "{}/none/report"], "--report: .*No such file"),
        (["backup", "{}/file", "--make-key"], "--key-file"),
    ],
)
def test_invalid_argument_is_refused_at_once(
    world: World, line: list[str], said: str, tmp_path: Path, settings: Any
) -> None:
    settings.PDPP_VAR = tmp_path / "var"
    given = [each.format(tmp_path) for each in line]

    with pytest.raises(CommandError, match=said):
        call_command(*given)

    assert list(tmp_path.iterdir()) == []


def test_backup_refuses_an_existing_file(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    key = RecoveryKey(bytes(16)).secret_line
    there.write_text(key)

    with pytest.raises(CommandError, match="never replaces one"):
        call_command("backup", there, key_file=there)

    assert there.read_text() == key
    assert "rows" not in capsys.readouterr().err
