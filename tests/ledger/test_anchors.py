"""A copy of the ledger outside of the database shows what was emptied together."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from evidence.ledger.checkpoints import sign_entries
from evidence.models.ledger import Checkpoint
from operations import background_jobs
from operations.notifications.delivery import monthly_digest
from tests.ledger.test_whole_or_not import LIST, tamper
from tests.owners import OWNER_ID
from tests.world import NOW, World

TABLES = ("disclosure", "checkpoint", "disclosedrecord")


@pytest.fixture
def kept(world: World) -> World:
    for _ in range(3):
        world.get(LIST)
    assert sign_entries(world.owner_id, now=NOW) is not None
    return world


def export(target: Path, *options: str) -> None:
    call_command("ledger", "export", "--to", str(target), *options, owner=OWNER_ID)


def verify_against(path: Path) -> tuple[str, str]:
    """Return what the command wrote, and why it failed."""
    err, failure = StringIO(), ""
    try:
        call_command("ledger", "verify", "--against", str(path), owner=OWNER_ID,
                     stdout=StringIO(), stderr=err)  # fmt: skip
    except CommandError as error:
        failure = str(error)
    return err.getvalue(), failure


def empty_the_ledger() -> None:
    for table in TABLES:
        tamper(f"DELETE FROM evidence_{table}")  # noqa: S608 - from above


@pytest.mark.parametrize("options", [(), ("--heads",)])
def test_tables_emptied_together_are_named(
    kept: World, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "ledger.jsonl"
    export(path, *options)
    assert path.stat().st_mode & 0o777 == 0o600
    assert verify_against(path) == ("", "")

    empty_the_ledger()

    assert verify_against(tmp_path / "ledger.jsonl")[0].count("The chain is gone") == 1
    text, failure = verify_against(path)
    assert "the file counts 3 rows of it" in text
    assert "link to 0 records; the file counts" in text
    assert "not whole" in failure


def test_missing_and_different_rows_are_named_with_their_digests(
    kept: World, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.jsonl"
    export(path)
    rows = [each for each in map(json.loads, path.read_text().splitlines()) if "seq" in each]
    tamper("DELETE FROM evidence_disclosure WHERE seq = 2")
    tamper("UPDATE evidence_disclosure SET digest = '' WHERE seq = 3")

    text, _ = verify_against(path)

    assert f"row 2: The row is missing; the file has its digest {rows[1]['digest']}" in text
    assert f"the file has {rows[2]['digest']}" in text


def test_links_deleted_alone_are_a_fault_without_receipts_and_a_warning_with_them(
    kept: World, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.jsonl"
    export(path, "--heads")
    tamper("DELETE FROM evidence_disclosedrecord")

    text, failure = verify_against(path)
    assert "receipts of erasures explain 0" in text
    assert "not whole" in failure

    tamper(
        "INSERT INTO evidence_erasure (owner_id, erasure_id, of, by, connection_id, stream,"
        " tombstones, removed, kept, wanted_at, updated_at) VALUES"
        " (%s, 'era_x', 'stream', 'owner', 'c', 's', true, '{\"names in the ledger\": 1000}', '{}',"
        " now(), now())",
        OWNER_ID,
    )
    text, failure = verify_against(path)
    assert "Receipts of erasures explain the number." in text
    assert failure == ""


def test_a_copy_is_never_replaced_and_one_of_another_owner_is_refused(
    kept: World, tmp_path: Path
) -> None:
    export(tmp_path)
    [path] = tmp_path.iterdir()
    with pytest.raises(CommandError, match="never replaced"):
        export(tmp_path)
    path.write_text(path.read_text().replace(f'"{OWNER_ID}"', '"stranger"'))
    assert "another owner" in verify_against(path)[1]


def test_daily_upkeep_writes_the_heads_to_the_folder_of_the_setting(
    kept: World, tmp_path: Path, settings: object
) -> None:
    settings.PDPP_LEDGER_FOLDER = str(tmp_path)  # type: ignore[attr-defined]
    kept.get(LIST)
    sign_entries(kept.owner_id, now=timezone.now())
    list(background_jobs.upkeep())
    list(background_jobs.upkeep())

    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
    [path] = tmp_path.glob(f"ledger-{OWNER_ID}-*.jsonl")
    assert verify_against(path)[1] == ""
    empty_the_ledger()
    assert "The chain is gone" in verify_against(path)[0]


def test_the_monthly_digest_carries_the_signed_note(kept: World, tmp_path: Path) -> None:
    now = timezone.now()
    [digest] = monthly_digest(OWNER_ID, since=now - timedelta(days=90), now=now)
    note = Checkpoint.unscoped.get().note
    assert digest.text.endswith(note)
    path = tmp_path / "note.txt"
    path.write_text(note)
    assert "No checkpoint has" not in verify_against(path)[0]
    empty_the_ledger()
    assert "No checkpoint has the signed note" in verify_against(path)[0]
