"""``manage.py distribute`` and ``undistribute`` on a cluster."""

import io
from collections.abc import Iterator

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from operations.distribution import placements
from tests.world import World


def run(command: str, **options: object) -> str:
    out = io.StringIO()
    call_command(command, stdout=out, **options)
    return out.getvalue()


def distributed() -> set[bool]:
    return {placement.is_distributed for placement in placements()}


@pytest.fixture
def _distributed_again(transactional_db: None) -> Iterator[None]:
    yield
    call_command("distribute", shards=4, stdout=io.StringIO())


@pytest.mark.django_db
def test_repeating_it_changes_nothing(world: World) -> None:
    before = world.get("/v1/streams/messages/records").body

    out = run("distribute", shards=8)

    assert out.count("unchanged") == len(placements()) + 1
    assert world.get("/v1/streams/messages/records").body == before


@pytest.mark.usefixtures("_distributed_again")
def test_rows_return_to_the_coordinator_and_leave_again(committed: World) -> None:
    before = committed.get("/v1/streams/messages/records").body
    assert "Nothing was changed" in run("undistribute", dry_run=True)
    assert distributed() == {True}

    run("undistribute")
    assert distributed() == {False}
    assert committed.get("/v1/streams/messages/records").body == before

    out = run("distribute", shards=4, dry_run=True)
    assert "evidence_record: rows by connection, on the nodes; will have 4 shards" in out
    assert distributed() == {False}
    run("distribute", shards=4)
    assert distributed() == {True}
    assert committed.get("/v1/streams/messages/records").body == before


@pytest.mark.django_db
def test_generic_plans_are_refused() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")

    with pytest.raises(CommandError, match="Set PDPP_DISTRIBUTED=true first"):
        run("distribute")
