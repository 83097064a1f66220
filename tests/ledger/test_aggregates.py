"""An aggregate discloses each group that it shows, and every record behind a small number."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from evidence.access.quotas import set_quotas
from evidence.ledger.disclosures import (
    DisclosureEntry,
    disclosures_to_clients,
    named_records,
    read_disclosures,
)
from evidence.ledger.verification import verify
from evidence.models.grants import Grant
from tests.world import BANK, PERSONAL, WORK, World, mail

AGGREGATE = "/v1/streams/messages/aggregate"
LIST = "/v1/streams/messages/records"
PAID = "/v1/streams/transactions/aggregate"
SENDERS, MAILS_EACH = 6, 8


@pytest.fixture
def busy(world: World) -> World:
    """Bob may read five mails of the cast and six senders with eight mails each."""
    world.put(
        *(
            (
                PERSONAL,
                "messages",
                mail(
                    f"s{sender}-{number}",
                    f"2026-05-{sender + 1:02}T{number:02}:00:00Z",
                    from_name=f"Sender {sender}",
                    size_bytes=number,
                ),
            )
            for sender in range(SENDERS)
            for number in range(MAILS_EACH)
        )
    )
    return world


def last_row(world: World, who: str = "bob") -> DisclosureEntry:
    return next(iter(read_disclosures(disclosures_to_clients(world.packages[who].client_id))))


def keys(row: DisclosureEntry) -> list[tuple[str, str]]:
    return sorted(
        (each.connection_id, each.record_key) for each in named_records(row.record_digests).values()
    )


def ask(world: World, who: str = "bob", path: str = AGGREGATE, **query: Any) -> Any:
    query = {"metric": "count"} | query
    answer = world.get(path, who, **{k: v for k, v in query.items() if v is not None})
    assert answer.status == 200, answer.body
    return answer.body


def test_each_group_is_a_disclosed_record_and_a_small_group_all_of_its_records(
    busy: World,
) -> None:
    body = ask(busy, group_by="from_name", limit=100)

    large = [group for group in body["groups"] if group["count"] >= 5]
    small = [group for group in body["groups"] if group["count"] < 5]
    assert (len(large), sum(group["count"] for group in small)) == (SENDERS, 5)
    row = last_row(busy)
    assert row.record_count == SENDERS + 5
    assert keys(row) == sorted(
        [(PERSONAL, f"s{sender}-0") for sender in range(SENDERS)]
        + [(PERSONAL, key) for key in ("m1", "m2", "m3")]
        + [(WORK, key) for key in ("m1", "w2")]
    )
    assert {name for each in row.covered for name in each.fields} == {"from_name"}


def test_groups_that_a_limit_leaves_out_disclose_nothing_unless_few_records_are_left(
    busy: World,
) -> None:
    ask(busy, group_by="from_name", limit=2)
    assert keys(last_row(busy)) == [(PERSONAL, "s0-0"), (PERSONAL, "s1-0")]

    body = ask(busy, group_by="from_name", limit=SENDERS + 1)
    assert body["other_count"] == 3
    assert last_row(busy).record_count == SENDERS + 5


def test_periods_of_single_records_name_them(busy: World) -> None:
    body = ask(
        busy,
        group_by_time="received_at",
        granularity="minute",
        time_zone="Europe/Berlin",
        filter__from_name="Sender 1",
        limit=100,
    )

    assert [group["count"] for group in body["groups"]] == [1] * MAILS_EACH
    assert keys(last_row(busy)) == [(PERSONAL, f"s1-{number}") for number in range(MAILS_EACH)]


@pytest.mark.parametrize("granularity", ["day", "week", "month", "quarter", "year"])
@pytest.mark.parametrize("zone", ["UTC", "America/Havana"])
@pytest.mark.parametrize("who", ["bob", "dora"])
def test_periods_count_and_name_the_same_records_as_a_list(
    busy: World, who: str, zone: str, granularity: str
) -> None:
    """Counts come from the index on time, where the grant's terms allow it; the list reads the records."""
    put_at_the_edges_of_periods(busy)
    connections = {"bob": (PERSONAL, WORK), "dora": (PERSONAL,)}[who]
    where = {} if who == "bob" else {"connection_id": PERSONAL}
    expected: dict[str | None, list[tuple[str, str]]] = {}
    for one in connections:
        for record in busy.get(LIST, who, connection_id=one, limit=100).body["data"]:
            start = period_start(record["data"].get("received_at"), granularity, zone)
            expected.setdefault(start, []).append((one, record["id"]))

    query = {"group_by_time": "received_at", "granularity": granularity, "time_zone": zone}
    groups = ask(busy, who, **where, **query, limit=100)["groups"]

    in_order = sorted(expected, key=lambda start: (start is None, start or ""))
    assert [(group["key"], group["count"]) for group in groups] == [
        (start, len(expected[start])) for start in in_order
    ]
    named = set(keys(last_row(busy, who)))
    for start, of_period in expected.items():
        shown = named & set(of_period)
        assert shown == set(of_period) if len(of_period) < 5 else len(shown) == 1, start


def put_at_the_edges_of_periods(world: World) -> None:
    """Also in the hour that Havana repeats from midnight, on 1 November 2026, and without a time."""
    edges = ("2026-01-01T00:00:00Z", "2025-12-31T23:59:59.999999Z", "2026-11-01T04:30:00Z",
             "2026-11-01T05:30:00Z", "2026-11-01T03:59:59Z", "2024-02-29T12:00:00Z", None)  # fmt: skip
    world.put(*((PERSONAL, "messages", mail(f"e{number}", at)) for number, at in enumerate(edges)))


def period_start(at: str | None, granularity: str, zone: str) -> str | None:
    if at is None:
        return None
    day = datetime.fromisoformat(at).astimezone(ZoneInfo(zone)).date()
    starts = {
        "day": day,
        "week": day - timedelta(days=day.weekday()),
        "month": day.replace(day=1),
        "quarter": day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "year": day.replace(month=1, day=1),
    }
    return starts[granularity].isoformat()


def test_records_without_a_value_are_a_group_too(world: World) -> None:
    query = {"group_by": "is_seen", "filter__from_name": "Eva Lang", "connection_id": PERSONAL}
    ask(world, "dora", **query)
    assert keys(last_row(world, "dora")) == [(PERSONAL, "m0"), (PERSONAL, "m1")]


@pytest.mark.parametrize("metric", [{}, {"metric": "sum", "field": "size_bytes"}])
def test_a_number_over_fewer_than_five_records_names_them(
    busy: World, metric: dict[str, str]
) -> None:
    who = {"who": "dora", "connection_id": PERSONAL, "filter__from_name": "Alice"}
    ask(busy, **(who | metric))
    assert keys(last_row(busy, "dora")) == [(PERSONAL, "m2"), (PERSONAL, "m4")]
    ask(busy, **(who | metric | {"filter__from_name": "Sender 1"}))
    row = last_row(busy, "dora")
    assert (row.record_count, [each.stream for each in row.covered]) == (0, ["messages"])


@pytest.mark.parametrize(("metric", "key"), [("min", "s1-0"), ("max", "s1-7")])
def test_an_extreme_names_its_record(busy: World, metric: str, key: str) -> None:
    query = {"metric": metric, "field": "received_at", "filter__from_name": "Sender 1"}
    ask(busy, **query)
    assert keys(last_row(busy)) == [(PERSONAL, key)]
    ask(busy, **query, group_by="from_name")
    assert keys(last_row(busy)) == [(PERSONAL, key)]


def test_nothing_is_named_where_nothing_matches(busy: World) -> None:
    assert ask(busy, filter__from_name="Nobody")["value"] == 0
    row = last_row(busy)
    covered = {each.connection_id for each in row.covered}
    assert (row.record_count, covered) == (0, {PERSONAL, WORK})


def test_groups_use_up_the_limit_of_records(busy: World) -> None:
    most = {("records", "day"): SENDERS + 4}
    set_quotas(busy.grants["bob"][0].pk, most, now=timezone.now())

    refused = busy.get(AGGREGATE, metric="count", group_by="from_name", limit=100)

    assert (refused.status, refused.error["limit"]["asked"]) == (429, SENDERS + 5)
    assert "Sender" not in str(refused.body)
    assert busy.get(AGGREGATE, metric="count", group_by="from_name", limit=6).status == 200


def test_single_records_behind_groups_trip_the_wire(busy: World, settings: Any) -> None:
    settings.PDPP_TRIPWIRE_RECORDS = 20
    query = {"group_by_time": "received_at", "granularity": "minute", "limit": 100}

    ask(busy, **query)

    assert Grant.unscoped.get(pk=busy.grants["bob"][0].pk).paused_at is not None
    assert verify(busy.owner_id).problems == []


def test_records_of_each_grant_are_on_its_own_chain(world: World) -> None:
    ask(world, "dora", PAID, group_by="name")
    row = last_row(world, "dora")
    assert row.grant_id == world.grants["dora"][2].pk
    assert keys(row) == [(BANK, "b1"), (BANK, "b2"), (BANK, "b3")]


def test_groups_of_two_keys_name_their_records(busy: World) -> None:
    body = ask(busy, group_by="from_name", group_by_time="received_at", granularity="month",
               limit=100)  # fmt: skip
    small = [group for group in body["groups"] if group["count"] < 5]
    assert sum(group["count"] for group in small) == 5
    assert len(keys(last_row(busy))) == SENDERS + 5
    fields = {name for each in last_row(busy).covered for name in each.fields}
    assert fields == {"from_name", "received_at"}


def test_every_extreme_of_several_metrics_names_its_record(busy: World) -> None:
    query = {"metric": None, "metrics": "count,min,max", "field": "received_at",
             "filter__from_name": "Sender 1"}  # fmt: skip
    ask(busy, **query)
    assert keys(last_row(busy)) == [(PERSONAL, "s1-0"), (PERSONAL, "s1-7")]
    ask(busy, **query, group_by="from_name")
    assert keys(last_row(busy)) == [(PERSONAL, "s1-0"), (PERSONAL, "s1-7")]


def test_a_number_over_few_values_names_their_records(busy: World) -> None:
    """Of eight records, one has a value: the sum is that value."""
    for number in range(SENDERS + 2):
        busy.put((PERSONAL, "messages", mail(f"x{number}", "2026-07-01T00:00:00Z",
                  from_name="Sender X", size_bytes=7 if number == 3 else None)))  # fmt: skip
    query = {"metric": "sum", "field": "size_bytes", "connection_id": PERSONAL}
    assert ask(busy, "dora", **query, filter__from_name="Sender X")["value"] == 7
    assert keys(last_row(busy, "dora")) == [(PERSONAL, "x3")]


def test_pages_of_groups_name_only_what_they_show(busy: World) -> None:
    first = ask(busy, group_by="from_name", limit=SENDERS)
    assert len(keys(last_row(busy))) == SENDERS
    ask(busy, group_by="from_name", limit=2, cursor=first["next_cursor"])
    assert len(keys(last_row(busy))) == 5
    ask(busy, group_by="from_name", limit=100, max_bytes=1000)
    assert len(keys(last_row(busy))) <= SENDERS
