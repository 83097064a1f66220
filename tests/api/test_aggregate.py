"""``GET /v1/streams/{stream}/aggregate``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import TZPATH, reset_tzpath

import pytest

from evidence.access import aggregates
from tests.world import BANK, PERSONAL, World

MAIL = "/v1/streams/messages/aggregate"
MONEY = "/v1/streams/transactions/aggregate"


def ask(world: World, path: str = MONEY, who: str = "charlie", **query: Any) -> Any:
    answer = world.get(path, who, **query)
    assert answer.status == 200, answer.body
    return answer.body


def test_it_counts_what_is_visible(world: World) -> None:
    body = ask(world, MAIL, "bob", metric="count")
    assert (body["value"], body["filtered_record_count"]) == (5, 5)
    assert ask(world, MAIL, "alice", metric="count", connection_id=PERSONAL)["value"] == 5


def test_it_sums_and_finds_extremes(world: World) -> None:
    assert ask(world, metric="sum", field="amount")["value"] == 586000
    earliest = ask(world, MAIL, "bob", metric="min", field="received_at")
    assert earliest["value"] == "2026-01-10T09:00:00Z"
    distinct = ask(world, MAIL, "bob", metric="count_distinct", field="from_name")
    assert distinct["value"] == 4


def test_groups_are_largest_first_with_the_rest_counted(world: World) -> None:
    body = ask(world, metric="count", group_by="name", limit=1)
    assert body["groups"] == [{"key": "Acme GmbH", "count": 2}]
    assert body["other_count"] == 1


def test_groups_carry_sums(world: World) -> None:
    body = ask(world, metric="sum", field="amount", group_by="name")
    assert body["groups"] == [
        {"key": "Acme GmbH", "count": 2, "value": 820000},
        {"key": "Eva Lang", "count": 1, "value": -234000},
    ]


def test_time_buckets_follow_the_zone(world: World) -> None:
    world.put((PERSONAL, "messages", {"id": "ny", "received_at": "2026-01-31T23:30:00Z"}))
    query = {"metric": "count", "group_by_time": "received_at", "granularity": "month"}
    utc = ask(world, MAIL, "bob", connection_id=PERSONAL, **query)
    berlin = ask(world, MAIL, "bob", connection_id=PERSONAL, time_zone="Europe/Berlin", **query)
    assert utc["groups"][0] == {"key": "2026-01-01", "count": 3}
    assert berlin["groups"][:2] == [
        {"key": "2026-01-01", "count": 2},
        {"key": "2026-02-01", "count": 1},
    ]


def test_filters_narrow_first(world: World) -> None:
    body = ask(world, metric="count", filter__amount__gt=0)
    assert (body["value"], body["filtered_record_count"]) == (2, 2)


@pytest.mark.parametrize(
    ("query", "status", "param"),
    [
        ({}, 400, "metric"),
        ({"metric": "median"}, 400, "metric"),
        ({"metric": "sum"}, 400, "field"),
        ({"metric": "count", "field": "id"}, 400, "field"),
        ({"metric": "sum", "field": "nonsense"}, 400, "field"),
        ({"metric": "sum", "field": "size_bytes"}, 403, "field"),
        ({"metric": "count", "group_by": "subject"}, 400, "group_by"),
        ({"metric": "count", "group_by": "is_seen"}, 403, "group_by"),
        ({"metric": "count", "group_by_time": "received_at"}, 400, "granularity"),
        ({"metric": "count", "granularity": "day"}, 400, "granularity"),
        ({"metric": "count", "limit": "5"}, 400, "limit"),
        ({"metric": "count", "group_by": "from_name", "limit": "101"}, 400, "limit"),
        (
            {"metric": "count", "group_by_time": "received_at", "granularity": "day",
             "time_zone": "Mars/Base"}, 400, "time_zone"),
        (
            {"metric": "count", "group_by_time": "received_at", "granularity": "day",
             "time_zone": "localtime"}, 400, "time_zone"),
        (
            {"metric": "count", "group_by": "from_name", "group_by_time": "received_at",
             "granularity": "day"}, 400, "group_by_time"),
    ],
)  # fmt: skip
def test_bad_aggregates_name_the_parameter(
    world: World, query: dict[str, str], status: int, param: str
) -> None:
    answer = world.get(MAIL, **query)
    assert (answer.status, answer.error["param"]) == (status, param)


@pytest.fixture
def newly_named_zone(tmp_path: Path) -> Iterator[str]:
    """A zone that this machine has heard of, and its database has not."""
    aggregates._time_zones.cache_clear()
    (tmp_path / "Mars").mkdir()
    (tmp_path / "Mars/Base").write_bytes(b"TZif")
    reset_tzpath([tmp_path, *TZPATH])
    yield "Mars/Base"
    reset_tzpath()
    aggregates._time_zones.cache_clear()


def test_a_zone_that_the_database_does_not_know_is_refused(
    world: World, newly_named_zone: str
) -> None:
    daily = {"metric": "count", "group_by_time": "received_at", "granularity": "day"}
    answer = world.get(MAIL, **daily, time_zone=newly_named_zone)
    assert (answer.status, answer.error["param"]) == (400, "time_zone")
    assert world.get(MAIL, **daily, time_zone="Europe/Berlin").status == 200


def test_strangers_see_nothing(world: World) -> None:
    assert world.get(MAIL, "charlie", metric="count").status == 404
    assert world.get(MONEY, "charlie", metric="count", connection_id=BANK).status == 200
