"""The cost of a page depends on the rows it shows, measured by EXPLAIN ANALYZE."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from evidence.access import aggregates, change_log, record_counts, record_details, records
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.access.ranking import matches, scores
from evidence.access.scope import TimeRange
from evidence.access.sql import SQL
from tests.world import PERSONAL, WORK, World, mail

pytestmark = [
    pytest.mark.slow,
    pytest.mark.one_server("The plan of a cluster's coordinator counts no rows of the nodes."),
]

LIST = "/v1/streams/messages/records"
SEARCH = "/v1/search"
THREADS = "/v1/streams/threads/records"
AGGREGATE = "/v1/streams/messages/aggregate"
MARCH = TimeRange(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
PERSONAL_TABLES = ("evidence_record", "evidence_searchtext")
RECORDS, PER_THREAD = 4_000, 8
MAX_SORTED = change_log.MAX_SORTED_CHANGES
# Without statistics; of rows never committed; of other connections; of these rows.
STATISTICS: dict[str, list[str]] = {
    "none": [],
    "old": [
        statement.format(table)
        for table in ("evidence_record", "evidence_recordchange", "evidence_searchtext")
        for statement in (
            "CREATE TEMPORARY TABLE kept_{0} AS SELECT * FROM {0}",
            "DELETE FROM {0}",
            "ANALYZE {0}",
            "INSERT INTO {0} SELECT * FROM kept_{0}",
            "DROP TABLE kept_{0}",
        )
    ],
    "foreign": [
        "INSERT INTO evidence_recordchange (owner_id, connection_id, seq, stream, record_key, kind, recorded_at)"
        " SELECT 'other', 'cin_of_statistics_' || n, 1, 'messages', 'same', 'c', now()"
        " FROM generate_series(1, 40000) n",
        "ANALYZE evidence_recordchange",
        "DELETE FROM evidence_recordchange WHERE connection_id LIKE 'cin_of_statistics_%'",
    ],
    "fresh": [
        f"ANALYZE {table}"
        for table in ("evidence_record", "evidence_recordchange", "evidence_searchtext")
    ],
}


@pytest.fixture
def without_statistics(world: World, settings: Settings) -> World:
    """Threads of eight messages each, without statistics for the planner."""
    settings.PDPP_TRIPWIRE_SHARE = 0  # A feed is read to its end here.
    world.put(
        *(
            (PERSONAL, "messages", mail(f"k{n:05}", f"2026-0{1 + n % 9}-03T00:00:00Z",
                                        thread_id=f"t{n // PER_THREAD}", body_text="word " * 50))
            for n in range(RECORDS)
        ),
        *((PERSONAL, "threads", {"id": f"t{n}"}) for n in range(RECORDS // PER_THREAD)),
    )  # fmt: skip
    return world


@pytest.fixture
def mailbox(without_statistics: World) -> World:
    """The same threads, with statistics for the planner."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE evidence_record")
        cursor.execute("ANALYZE evidence_recordchange")
    return without_statistics


@pytest.fixture
def count_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Count the rows of personal tables that each statement of a module reads.

    ``outside`` is a connection that indexes look up: the rows found so are not counted.
    """
    counts: list[int] = []

    def watch(module: ModuleType, *, outside: str = "") -> list[int]:
        for name in ("fetch_all", "fetch_prepared"):
            if fetch := getattr(module, name, None):
                monkeypatch.setattr(module, name, partial(explained, fetch, outside))
        return counts

    def explained(fetch: Callable[[SQL], Any], outside: str, statement: SQL) -> Any:
        # The ledger looks shown records up by key; starts of words are read once an hour.
        if "INSERT INTO" in statement.text or statement.text == matches.COMMON_STARTS:
            return fetch(statement)
        with connection.cursor() as cursor:
            text = "EXPLAIN (ANALYZE, FORMAT JSON) " + statement.text
            cursor.execute(text, statement.values)
            [[explained_plan]] = cursor.fetchall()
        plan = json.loads(explained_plan) if isinstance(explained_plan, str) else explained_plan
        counts.append(sum(map(int, _rows(plan[0]["Plan"], outside))))
        return fetch(statement)

    return watch


def _rows(node: dict[str, Any], outside: str) -> Iterator[float]:
    """Yield the rows that each scan of a personal table reads, including filtered ones."""
    looked_up = str(node.get("Index Cond", "")) + str(node.get("Recheck Cond", ""))
    is_personal = str(node.get("Relation Name", "")).startswith(PERSONAL_TABLES)
    if is_personal and not (outside and f"(connection_id = '{outside}'" in looked_up):
        read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield read * node["Actual Loops"]
    for inner in node.get("Plans", []):
        yield from _rows(inner, outside)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_month_histogram_reads_each_record_once(
    mailbox: World, count_rows: Callable[..., list[int]], zone: str
) -> None:
    """The ledger's record of each month is one lookup.

    So small a table may be cheaper to scan whole for each lookup; a large one never is.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    counts = count_rows(aggregates)
    query = {"metric": "count", "group_by_time": "received_at", "granularity": "month"}
    months = mailbox.get(AGGREGATE, "dora", connection_id=PERSONAL, time_zone=zone, **query).body
    assert months["filtered_record_count"] > RECORDS
    others = months["filtered_record_count"] // 4
    scanned = months["filtered_record_count"] + others
    assert sum(counts) <= scanned + 5 * len(months["groups"])


def test_page_reads_only_the_rows_it_shows(
    mailbox: World, count_rows: Callable[..., list[int]]
) -> None:
    counts = count_rows(records)
    query = {"connection_id": PERSONAL, "limit": 20}
    first = mailbox.get(LIST, "dora", **query)
    second = mailbox.get(LIST, "dora", cursor=first.body["next_cursor"], **query)
    assert len({*first.ids, *second.ids}) == 2 * 20
    assert max(counts) <= 2 * 21


OLD_RANGES: list[tuple[TimeRange | None, dict[str, Any]]] = [
    (MARCH, {}),
    (None, {"after": "2026-03-01", "before": "2026-04-01"}),
    (None, {"filter[received_at][gte]": "2026-03-01T00:00:00Z",
            "filter[received_at][lte]": "2026-03-31T00:00:00Z"}),
    (TimeRange(MARCH.since, None), {"before": "2026-04-01"}),
]  # fmt: skip


@pytest.mark.parametrize(("granted", "asked"), OLD_RANGES)
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_an_old_range_in_the_order_of_time_reads_only_its_rows(
    mailbox: World,
    count_rows: Callable[..., list[int]],
    granted: TimeRange | None,
    asked: dict[str, Any],
    order: str,
) -> None:
    """Mail of one month, with months of mail on either side of it."""
    granted = granted or TimeRange(None, None)
    stream = StreamRequest(name="messages", since=granted.since, until=granted.until)
    mailbox.grant("erin", GrantRequest(connection_ids=[PERSONAL], streams=[stream]))
    counts = count_rows(records)
    query = {"connection_id": PERSONAL, "limit": 20, "order": order, **asked}
    first = mailbox.get(LIST, "erin", **query)
    second = mailbox.get(LIST, "erin", cursor=first.body["next_cursor"], **query)
    shown = [each["data"]["received_at"] for each in [*first.body["data"], *second.body["data"]]]
    assert {each[:7] for each in shown} == {"2026-03"}
    assert len({*first.ids, *second.ids}) == len(shown) == 2 * 20
    assert max(counts) <= 2 * 21


def test_feed_reads_only_the_rows_it_shows(
    mailbox: World, count_rows: Callable[..., list[int]]
) -> None:
    counts = count_rows(change_log)
    since = "beginning"
    first = mailbox.get(LIST, changes_since=since, limit=100)
    assert len(first.ids) == 100
    ended = _read_to_end(mailbox, first.body["next_changes_since"])
    mailbox.put((PERSONAL, "messages", mail("k00007", "2026-03-03T00:00:00Z", subject="New")))
    assert mailbox.get(LIST, changes_since=ended).ids == ["k00007"]
    assert counts[0] <= 3 * 101
    assert counts[-1] <= 10


@pytest.mark.parametrize("mail_of", ["mailbox", "without_statistics"])
def test_feed_of_many_changes_reads_only_the_rows_it_shows(
    mail_of: str,
    request: pytest.FixtureRequest,
    count_rows: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Above MAX_SORTED_CHANGES, changes are read by key, with any statistics."""
    world: World = request.getfixturevalue(mail_of)
    since = _read_to_end(world, "beginning")
    world.put(
        *((PERSONAL, "messages", mail(f"k{n:05}", "2026-03-03T00:00:00Z")) for n in range(RECORDS))
    )
    monkeypatch.setattr(change_log, "MAX_SORTED_CHANGES", 100)
    counts = count_rows(change_log)
    assert len(world.get(LIST, changes_since=since, limit=50).ids) == 50
    assert counts[-1] <= 6 * 51


@pytest.mark.parametrize("max_sorted", [MAX_SORTED, -1], ids=["by number", "by key"])
def test_feed_reads_the_same_rows_with_any_statistics(
    max_sorted: int,
    without_statistics: World,
    count_rows: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unchanged records cost an index entry by key, and nothing by change number."""
    some = StreamRequest(name="messages", resources=["k00001", "k00002"])
    without_statistics.grant("ivan", GrantRequest(connection_ids=[PERSONAL], streams=[some]))
    since = {who: _read_to_end(without_statistics, "beginning", who) for who in ("bob", "ivan")}
    without_statistics.put(
        *((PERSONAL, "threads", {"id": f"t{n}", "topic": "New"}) for n in range(500)),
        (PERSONAL, "messages", mail("k00001", "2026-03-03T00:00:00Z", subject="New")),
    )
    monkeypatch.setattr(change_log, "MAX_SORTED_CHANGES", max_sorted)
    counts = count_rows(change_log)
    read: dict[str, list[int]] = {}
    for name, statements in STATISTICS.items():
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        counts.clear()
        for who in since:
            assert without_statistics.get(LIST, who, changes_since=since[who]).ids == ["k00001"]
        read[name] = list(counts)

    assert len(set(map(tuple, read.values()))) == 1, read
    if max_sorted == MAX_SORTED:
        assert max(read["none"]) <= 501 + 10
    else:
        assert read["none"][0] <= RECORDS + 50
        assert read["none"][1] <= 20


def test_expansion_reads_only_the_rows_it_shows(
    mailbox: World, count_rows: Callable[..., list[int]]
) -> None:
    count_rows(records)
    counts = count_rows(record_details)
    query = {"connection_id": PERSONAL, "limit": 25}
    threads = mailbox.get(THREADS, "dora", expand="messages", **query).body["data"]
    assert sum(len(row["expanded"]["messages"]["data"]) for row in threads) == 25 * 2
    messages = mailbox.get(LIST, "dora", expand="thread", **query).body["data"]
    assert all(row["expanded"]["thread"] for row in messages)
    _threads, children, _messages, parents = counts
    assert children <= 25 * PER_THREAD
    assert parents <= 25


READS: list[tuple[str, dict[str, Any]]] = [
    (LIST, {"limit": 20}),
    (LIST, {"limit": 20, "filter__is_seen": "true"}),
    (SEARCH, {"q": "word deposit"}),
    (SEARCH, {"q": '"word word"'}),
    (SEARCH, {"q": "wrod depositt"}),
    (SEARCH, {"q": "word deposit", "streams": "messages", "filter__is_seen": "true"}),
    (SEARCH, {"q": "wrod depositt", "streams": "messages", "filter__is_seen": "true"}),
    (SEARCH, {"q": "unicornn zebraa", "streams": "messages", "filter__is_seen": "true"}),
    (f"{LIST}/k00001/field-window", {"field": "body_text", "q": "word"}),
    (AGGREGATE, {"metric": "count"}),
    (AGGREGATE, {"metric": "count", "filter__is_seen": "true"}),
    (AGGREGATE, {"metric": "count", "group_by_time": "received_at", "granularity": "month"}),
]
KEYS = [f"k{n:05}" for n in range(20)]
SINCE = datetime(2026, 3, 1, tzinfo=UTC)
TERMS = {
    "some records": StreamRequest(name="messages", resources=KEYS),
    "a time": StreamRequest(name="messages", since=SINCE),
    "a connection": StreamRequest(name="messages"),
}


@pytest.mark.parametrize(
    ("terms", "statistics"),
    [*product(["some records"], STATISTICS), *product(["a time", "a connection"], ["fresh"])],
)
def test_hidden_rows_add_no_work(
    world: World, count_rows: Callable[..., list[int]], terms: str, statistics: str
) -> None:
    """Otherwise a time limit would reveal hidden rows.

    Records are looked up by key with any statistics; a range of time by the index that PostgreSQL
    chooses once it has some. So small a table may be cheaper to scan whole; a large one never is.
    Of a connection that is visible as a whole, the plan may read all records for each of the words to
    try where it expects fewer records than matches, so only other rows count.
    """
    world.grant("ivan", GrantRequest(connection_ids=[PERSONAL], streams=[TERMS[terms]]))
    if terms != "some records":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    put_like(world, KEYS, at="2026-03-03T00:00:00Z")
    _make_statistics(statistics)
    for module in (aggregates, record_counts, record_details, records, matches, scores):
        counted = count_rows(module, outside=PERSONAL if terms == "a connection" else "")
    before = _rows_by_read(world, counted)
    others = [f"h{n:05}" for n in range(2_000)]  # a hundred times as many hidden rows
    put_like(
        world,
        others,
        at="2025-03-03T00:00:00Z" if terms == "a time" else "2026-03-03T00:00:00Z",
        connection_id=WORK if terms == "a connection" else PERSONAL,
    )
    _make_statistics(statistics)
    after = _rows_by_read(world, counted)
    assert terms == "a connection" or all(sum(rows) > 0 for rows in before.values())
    assert {at: len(rows) for at, rows in after.items()} == {
        at: len(rows) for at, rows in before.items()
    }
    # A statement has up to ten parts, each of which may read the text and the record of a row.
    assert {at: rows for at, rows in after.items() if max(rows) > 20 * len(KEYS)} == {}


def _rows_by_read(world: World, counted: list[int]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for path, query in READS:
        counted.clear()
        assert world.get(path, "ivan", **query).status == 200
        rows[f"{path} {query}"] = list(counted)
    return rows


def _make_statistics(name: str) -> None:
    with connection.cursor() as cursor:
        for statement in STATISTICS[name]:
            cursor.execute(statement)


def put_like(
    world: World,
    keys: Sequence[str],
    *,
    at: str = "2026-03-03T00:00:00Z",
    connection_id: str = PERSONAL,
) -> None:
    text = "word deposit " * 5
    world.put(
        *((connection_id, "messages", mail(key, at, body_text=text, is_seen=True)) for key in keys)
    )


def _read_to_end(world: World, since: str, who: str = "bob") -> str:
    more = True
    while more:
        answer = world.get(LIST, who, changes_since=since, limit=100)
        since, more = answer.body["next_changes_since"], answer.body["has_more"]
    return since
