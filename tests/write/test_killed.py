"""A killed import keeps its reported batches and can be completed."""

import json
from pathlib import Path

import pytest

from evidence.models.records import Record, RecordChange, SearchText
from evidence.write.ingest import ingest_lines
from evidence.write.ndjson import read_lines
from tests.world import MAIL, NOW, PERSONAL, World
from tests.write import processes, stored

pytestmark = pytest.mark.slow

LINES = 6_000
PROGRAM = """
from evidence.write import batches
batches.BATCH_LINES = 200

def report(so_far):
    print(so_far.lines, flush=True)
    if so_far.lines >= 5_000:
        sys.stdin.read()  # so that it is not over before it is killed

with open(sys.argv[1], "rb") as file:
    ingest_lines(
        read_lines(file), owner_id=sys.argv[2], now=timezone.now(), on_progress=report
    )
"""


@pytest.fixture
def committed(transactional_db: None) -> World:
    """Alice's mail connector and one connection of it, visible to other processes."""
    from evidence.models.owners import get_or_create_owner

    world = World(owner_id=get_or_create_owner(NOW).owner_id)
    world.declare(MAIL)
    world.connect(PERSONAL, "mail", "Personal mail")
    return world


def test_killed_import_keeps_reported_lines_and_can_be_completed(
    committed: World, tmp_path: Path
) -> None:
    file = written(tmp_path, lines=LINES)
    with processes.python(PROGRAM, str(file), committed.owner_id) as process:
        assert process.stdout is not None
        acknowledged = 0
        while acknowledged < 1_000:
            acknowledged = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().splitlines()
    acknowledged = max([acknowledged, *(int(each) for each in rest if each.isdigit())])

    kept = set(Record.unscoped.values_list("record_key", flat=True))
    assert {f"k{number:05}" for number in range(acknowledged)} <= kept
    assert len(kept) < LINES, "it was over before it was killed"
    assert_everything_agrees(len(kept))

    with file.open("rb") as again:
        outcome = ingest_lines(read_lines(again), owner_id=committed.owner_id, now=NOW)
    assert (outcome.created, outcome.unchanged) == (LINES - len(kept), len(kept))
    assert_everything_agrees(LINES)


def test_concurrent_imports_of_a_file_store_each_line_once(
    committed: World, tmp_path: Path
) -> None:
    file = written(tmp_path, lines=1_500)
    both = [processes.python(PROGRAM, str(file), committed.owner_id) for _ in range(2)]
    for process in both:
        with process:
            process.communicate()
        assert process.returncode == 0
    assert_everything_agrees(1_500)


def written(folder: Path, *, lines: int) -> Path:
    file = folder / "records.jsonl"
    with file.open("w") as opened:
        for number in range(lines):
            data = {"id": f"k{number:05}", "subject": f"Number {number}", "body_text": "words " * 9}
            named = {"connection_id": PERSONAL, "stream": "messages", "data": data}
            opened.write(json.dumps(named) + "\n")
    return file


def assert_everything_agrees(records: int) -> None:
    assert stored.counts() == stored.true_counts() == {(PERSONAL, "messages"): records}
    assert SearchText.unscoped.count() == RecordChange.unscoped.count() == records
    assert set(RecordChange.unscoped.values_list("kind", flat=True)) == {"c"}
    assert stored.change_seq(PERSONAL) == records
