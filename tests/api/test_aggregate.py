"""``GET /v1/streams/{stream}/aggregate``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import TZPATH, reset_tzpath

import pytest

from evidence.access import aggregates
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.world import BANK, PERSONAL, WORK, World

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


def test_averages_have_six_decimals_at_most(world: World) -> None:
    assert ask(world, metric="avg", field="amount")["value"] == 195333.333333


def test_groups_are_largest_first_with_the_rest_counted(world: World) -> None:
    body = ask(world, metric="count", group_by="name", limit=1)
    assert body["groups"] == [{"key": "Acme GmbH", "count": 2}]
    assert body["other_count"] == 1


@pytest.mark.parametrize("name", ["currency", "memo"])
def test_any_granted_short_text_can_be_grouped(world: World, name: str) -> None:
    body = ask(world, metric="count", group_by=name)
    assert sum(group["count"] for group in body["groups"]) == 3
    assert ask(world, metric="count_distinct", field=name)["value"] == len(body["groups"])


def test_long_texts_and_lists_cannot_be_grouped(world: World) -> None:
    for name, kind in (("body_text", "a long text"), ("labels", "array")):
        answer = world.get(MAIL, "dora", metric="count", group_by=name, connection_id=PERSONAL)
        assert answer.error["message"].startswith(
            f"The field {name!r} ({kind}) does not declare group_by. Fields that allow it: id, "
        )


def test_groups_carry_sums(world: World) -> None:
    body = ask(world, metric="sum", field="amount", group_by="name")
    assert body["groups"] == [
        {"key": "Acme GmbH", "count": 2, "value": 820000},
        {"key": "Eva Lang", "count": 1, "value": -234000},
    ]


def test_groups_count_records_of_several_connections(world: World) -> None:
    world.put((WORK, "messages", {"id": "w1", "from_name": "Lycée", "received_at": "2026-03-05T18:30:00Z"}),
              (PERSONAL, "messages", {"id": "p1", "from_name": "Lycée", "received_at": "2026-03-31T18:30:00Z"}))  # fmt: skip
    messages = StreamRequest(name="messages")
    world.grant("erin", GrantRequest(connection_ids=[PERSONAL, WORK], streams=[messages]))
    of_both = {"metric": "count", "filter__from_name": "Lycée"}

    by_name = ask(world, MAIL, "erin", group_by="from_name", **of_both)
    assert by_name["groups"] == [{"key": "Lycée", "count": 2}]
    by_month = ask(world, MAIL, "erin", group_by_time="received_at", granularity="month", **of_both)
    assert by_month["groups"] == [{"key": "2026-03-01", "count": 2}]


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
        ({"metric": "count", "group_by": "body_text"}, 400, "group_by"),
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
            {"metric": "count", "group_by": "from_name,thread_id", "group_by_time": "received_at",
             "granularity": "day"}, 400, "group_by"),
        ({"metric": "count", "group_by": "from_name", "sort": "-sum"}, 400, "sort"),
        ({"metric": "count", "sort": "key"}, 400, "sort"),
        ({"metrics": "count,median"}, 400, "metrics"),
        ({"metrics": "count,sum:nonsense"}, 400, "field"),
        ({"metrics": "count,sum:size_bytes"}, 403, "field"),
        ({"metrics": "count,avg"}, 400, "field"),
        ({"metric": "count", "metrics": "count,sum"}, 400, "metric"),
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


def test_several_metrics_at_once(world: World) -> None:
    body = ask(world, metrics="count,sum,avg,min,max", field="amount")
    assert body["values"] == {
        "count": 3, "sum": 586000, "avg": pytest.approx(195333.333), "min": -234000, "max": 410000,
    }  # fmt: skip
    grouped = ask(world, metrics="count,max:amount", group_by="name", sort="-max:amount")
    assert grouped["groups"] == [
        {"key": "Acme GmbH", "count": 2, "values": {"count": 2, "max:amount": 410000}},
        {"key": "Eva Lang", "count": 1, "values": {"count": 1, "max:amount": -234000}},
    ]
    assert ask(world, metric="avg", field="amount", filter__name="Acme GmbH")["value"] == 410000


def test_two_keys(world: World) -> None:
    monthly = {"group_by_time": "date", "granularity": "month"}
    body = ask(world, metric="sum", field="amount", group_by="name", **monthly)
    assert body["groups"] == [
        {
            "key": "Acme GmbH, 2026-01-01",
            "keys": ["Acme GmbH", "2026-01-01"],
            "count": 1,
            "value": 410000,
        },
        {
            "key": "Acme GmbH, 2026-02-01",
            "keys": ["Acme GmbH", "2026-02-01"],
            "count": 1,
            "value": 410000,
        },
        {
            "key": "Eva Lang, 2026-01-01",
            "keys": ["Eva Lang", "2026-01-01"],
            "count": 1,
            "value": -234000,
        },
    ]
    by_two = ask(world, MAIL, "dora", metric="count", group_by="from_name,is_seen",
                 connection_id=PERSONAL)  # fmt: skip
    assert by_two["groups"][0] == {"key": "Alice, false", "keys": ["Alice", False], "count": 1}
    assert {"key": "Eva Lang, null", "keys": ["Eva Lang", None], "count": 1} in by_two["groups"]


@pytest.mark.parametrize(
    ("sort", "first"),
    [("value", "Eva Lang"), ("-value", "Acme GmbH"), ("key", "Acme GmbH"), ("-key", "Eva Lang"),
     ("count", "Eva Lang"), ("-count", "Acme GmbH")],
)  # fmt: skip
def test_groups_can_be_sorted(world: World, sort: str, first: str) -> None:
    body = ask(world, metric="sum", field="amount", group_by="name", sort=sort)
    assert body["groups"][0]["key"] == first


@pytest.mark.parametrize("sort", [None, "key", "-key", "-count"])
def test_a_cursor_reaches_every_group(world: World, sort: str | None) -> None:
    query = {"metric": "count", "group_by": "from_name"} | ({"sort": sort} if sort else {})
    whole = ask(world, MAIL, "bob", **query)
    pages, cursor = [], {}
    for _ in range(len(whole["groups"])):
        body = ask(world, MAIL, "bob", limit=1, **query, **cursor)
        pages += body["groups"]
        cursor = {"cursor": body.get("next_cursor")}
    assert pages == whole["groups"]
    assert cursor == {"cursor": None}
    assert (body["other_count"], body["filtered_record_count"]) == (0, 5)


def test_a_cursor_belongs_to_its_query(world: World) -> None:
    body = ask(world, MAIL, "bob", metric="count", group_by="from_name", limit=1)
    answer = world.get(MAIL, metric="count", group_by="from_name", sort="key",
                       cursor=body["next_cursor"])  # fmt: skip
    assert (answer.status, answer.error["param"]) == (400, "cursor")


def test_groups_end_where_the_byte_limit_ends(world: World) -> None:
    world.put(*((PERSONAL, "messages", {"id": f"n{n}", "from_name": f"{'Name ' * 20}{n}",
                 "received_at": "2026-04-01T00:00:00Z"}) for n in range(60)))  # fmt: skip
    query = {"metric": "count", "group_by": "from_name", "limit": 100, "sort": "key"}
    whole = ask(world, MAIL, "bob", **query)
    part = ask(world, MAIL, "bob", max_bytes=2000, **query)
    assert len(str(part)) < 2_000 < len(str(whole))
    rest = ask(world, MAIL, "bob", cursor=part["next_cursor"], **query)
    assert part["groups"] + rest["groups"] == whole["groups"]
    assert part["other_count"] == sum(group["count"] for group in rest["groups"])


def test_every_declared_number_can_be_summed(world: World) -> None:
    body = ask(world, MAIL, "dora", metrics="sum,avg", field="size_bytes", connection_id=PERSONAL)
    assert body["values"] == {"sum": 3310, "avg": 662}
