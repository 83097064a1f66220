"""``manage.py distribute`` and ``undistribute`` on a cluster."""

import io
from collections.abc import Iterator

import pytest
from django.core.management import call_command

from operations.distribution import placements
from tests.owners import owned_tables
from tests.world import World

LIST = "/v1/streams/messages/records"


def run(command: str, **options: object) -> str:
    out = io.StringIO()
    call_command(command, stdout=out, **options)
    return out.getvalue()


def placed() -> set[bool]:
    return {placement.is_placed for placement in placements()}


@pytest.fixture
def _distributed_again(transactional_db: None) -> Iterator[None]:
    yield
    run("distribute", shards=4)


@pytest.mark.django_db
def test_every_table_of_owners_is_placed_and_repeating_it_changes_nothing(world: World) -> None:
    before = world.get(LIST).body

    out = run("distribute", shards=8)

    assert placed() == {True}
    assert owned_tables() - {placement.table for placement in placements()} <= {"evidence_passage"}
    assert out.count("unchanged") == len(placements()) + 1
    assert world.get(LIST).body["data"] == before["data"]


@pytest.mark.usefixtures("_distributed_again")
def test_rows_return_to_the_coordinator_and_leave_again(committed: World) -> None:
    before = committed.get(LIST).ids
    assert "Nothing was changed" in run("undistribute", dry_run=True)
    assert placed() == {True}

    run("undistribute")
    assert placed() == {False}
    assert committed.get(LIST).ids == before

    out = run("distribute", shards=4, dry_run=True)
    assert "evidence_record: rows by owner, on the nodes; will be placed" in out
    assert placed() == {False}
    run("distribute", shards=4)
    assert placed() == {True}
    assert committed.get(LIST).ids == before
