"""A page costs what it shows, not what lies beside it: the rows that its statement really touches."""

import json
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from evidence.access import aggregates, change_log, record_parts, records
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.access.ranking import match_counts, matches, scores, top_k
from evidence.access.sql import Fragment
from tests.world import PERSONAL, World, mail

LIST = "/v1/streams/messages/records"
THREADS = "/v1/streams/threads/records"
RECORDS, TO_A_THREAD = 4_000, 8
NEAR = change_log.NEAR
# In this order: statistics of rows that were never committed, of other connections, and of these rows.
STATISTICS: dict[str, list[str]] = {
    "none": [],
    "old": [
        statement.format(table)
        for table in ("evidence_record", "evidence_recordchange")
        for statement in (
            "CREATE TEMPORARY TABLE kept_{0} AS SELECT * FROM {0}",
            "DELETE FROM {0}",
            "ANALYZE {0}",
            "INSERT INTO {0} SELECT * FROM kept_{0}",
            "DROP TABLE kept_{0}",
        )
    ],
    "foreign": [
        "INSERT INTO evidence_recordchange (connection_id, seq, stream, record_key, kind, recorded_at)"
        " SELECT 'cin_of_statistics_' || n, 1, 'messages', 'same', 'c', now()"
        " FROM generate_series(1, 40000) n",
        "ANALYZE evidence_recordchange",
        "DELETE FROM evidence_recordchange WHERE connection_id LIKE 'cin_of_statistics_%'",
    ],
    "fresh": ["ANALYZE evidence_record", "ANALYZE evidence_recordchange"],
}


@pytest.fixture
def unanalysed(world: World, settings: Settings) -> World:
    """Threads of eight messages each, of which the planner has no statistics, or some other test's."""
    settings.PDPP_TRIPWIRE_SHARE = 0  # A feed is read to its end here.
    world.put(
        *(
            (PERSONAL, "messages", mail(f"k{n:05}", f"2026-0{1 + n % 9}-03T00:00:00Z",
                                        thread_id=f"t{n // TO_A_THREAD}", body_text="word " * 50))
            for n in range(RECORDS)
        ),
        *((PERSONAL, "threads", {"id": f"t{n}"}) for n in range(RECORDS // TO_A_THREAD)),
    )  # fmt: skip
    return world


@pytest.fixture
def mailbox(unanalysed: World) -> World:
    """The same; the planner knows how many there are."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE evidence_record")
        cursor.execute("ANALYZE evidence_recordchange")
    return unanalysed


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Makes a module explain its statements; how many rows of personal tables each touched."""
    counts: list[int] = []

    def watch(module: ModuleType) -> list[int]:
        name = "fetched_by_one_plan" if hasattr(module, "fetched_by_one_plan") else "fetched"
        fetch = getattr(module, name)

        def explained(statement: Fragment) -> Any:
            with connection.cursor() as cursor:
                text = "EXPLAIN (ANALYZE, FORMAT JSON) " + statement.text
                cursor.execute(text, statement.values)
                [[found]] = cursor.fetchall()
            plan = json.loads(found) if isinstance(found, str) else found
            counts.append(sum(map(int, _rows(plan[0]["Plan"]))))
            return fetch(statement)

        monkeypatch.setattr(module, name, explained)
        return counts

    return watch


def _rows(node: dict[str, Any]) -> Iterator[float]:
    """The rows that each scan of a personal table read, those it dropped included."""
    if str(node.get("Relation Name", "")).startswith(("evidence_record", "evidence_searchtext")):
        read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield read * node["Actual Loops"]
    for inner in node.get("Plans", []):
        yield from _rows(inner)


def test_a_page_reads_what_it_shows(mailbox: World, touched: Callable[..., list[int]]) -> None:
    counts = touched(records)
    asked = {"connection_id": PERSONAL, "limit": 20}
    first = mailbox.get(LIST, "dora", **asked)
    second = mailbox.get(LIST, "dora", cursor=first.body["next_cursor"], **asked)
    assert len({*first.ids, *second.ids}) == 2 * 20
    assert max(counts) <= 2 * 21


def test_a_feed_reads_what_it_shows(mailbox: World, touched: Callable[..., list[int]]) -> None:
    counts = touched(change_log)
    since = "beginning"
    first = mailbox.get(LIST, changes_since=since, limit=100)
    assert len(first.ids) == 100
    ended = _to_the_end(mailbox, first.body["next_changes_since"])
    mailbox.put((PERSONAL, "messages", mail("k00007", "2026-03-03T00:00:00Z", subject="New")))
    assert mailbox.get(LIST, changes_since=ended).ids == ["k00007"]
    assert counts[0] <= 3 * 101
    assert counts[-1] <= 10


@pytest.mark.parametrize("mail_of", ["mailbox", "unanalysed"])
def test_a_feed_of_many_changes_reads_what_it_shows(
    mail_of: str,
    request: pytest.FixtureRequest,
    touched: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More changes than are sorted: they are read in the order of the keys, whatever the planner
    believes of them."""
    world: World = request.getfixturevalue(mail_of)
    since = _to_the_end(world, "beginning")
    world.put(
        *((PERSONAL, "messages", mail(f"k{n:05}", "2026-03-03T00:00:00Z")) for n in range(RECORDS))
    )
    monkeypatch.setattr(change_log, "NEAR", 100)
    counts = touched(change_log)
    assert len(world.get(LIST, changes_since=since, limit=50).ids) == 50
    assert counts[-1] <= 6 * 51


@pytest.mark.parametrize("near", [NEAR, -1], ids=["by number", "by key"])
def test_a_feed_reads_the_same_rows_whatever_the_statistics(
    near: int,
    unanalysed: World,
    touched: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unchanged records cost their entry in the index by key, and nothing by number."""
    some = StreamRequest(name="messages", resources=["k00001", "k00002"])
    unanalysed.grant("ivan", GrantRequest(connection_ids=[PERSONAL], streams=[some]))
    since = {who: _to_the_end(unanalysed, "beginning", who) for who in ("bob", "ivan")}
    unanalysed.put(
        *((PERSONAL, "threads", {"id": f"t{n}", "topic": "New"}) for n in range(500)),
        (PERSONAL, "messages", mail("k00001", "2026-03-03T00:00:00Z", subject="New")),
    )
    monkeypatch.setattr(change_log, "NEAR", near)
    counts = touched(change_log)
    read: dict[str, list[int]] = {}
    for name, statements in STATISTICS.items():
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        counts.clear()
        for who in since:
            assert unanalysed.get(LIST, who, changes_since=since[who]).ids == ["k00001"]
        read[name] = list(counts)

    assert len(set(map(tuple, read.values()))) == 1, read
    if near == NEAR:
        assert max(read["none"]) <= 501 + 10
    else:
        assert read["none"][0] <= RECORDS + 50
        assert read["none"][1] <= 20


def test_expanding_reads_what_it_shows(mailbox: World, touched: Callable[..., list[int]]) -> None:
    counts = touched(record_parts)
    asked = {"connection_id": PERSONAL, "limit": 25}
    threads = mailbox.get(THREADS, "dora", expand="messages", **asked).body["data"]
    assert sum(len(row["expanded"]["messages"]["data"]) for row in threads) == 25 * 2
    messages = mailbox.get(LIST, "dora", expand="thread", **asked).body["data"]
    assert all(row["expanded"]["thread"] for row in messages)
    assert counts[0] <= 25 * TO_A_THREAD
    assert counts[1] <= 25


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (LIST, {"limit": 20}),
        ("/v1/search", {"q": "word deposit"}),
        ("/v1/search", {"q": '"word word"'}),
        ("/v1/search", {"q": "wrod depositt"}),
        (f"{LIST}/k00001/field-window", {"field": "body_text", "q": "word"}),
        ("/v1/streams/messages/aggregate", {"metric": "count"}),
    ],
)
def test_hidden_rows_add_no_work(
    world: World, touched: Callable[..., list[int]], path: str, query: dict[str, Any]
) -> None:
    """A limit of time tells nothing of what a grant hides."""
    keys = [f"k{n:05}" for n in range(20)]
    some = StreamRequest(name="messages", resources=keys)
    world.grant("ivan", GrantRequest(connection_ids=[PERSONAL], streams=[some]))
    put_like(world, keys)
    for module in (
        aggregates,
        match_counts,
        aggregates,
        record_parts,
        matches,
        top_k,
        records,
        scores,
    ):
        counted = touched(module)
    assert world.get(path, "ivan", **query).status == 200
    before = sum(counted)
    counted.clear()
    put_like(world, [f"h{n:05}" for n in range(2_000)])
    assert world.get(path, "ivan", **query).status == 200
    assert before > 0
    assert sum(counted) <= 1.1 * before  # a hundred times as many hidden rows


def put_like(world: World, keys: Sequence[str]) -> None:
    world.put(
        *((PERSONAL, "messages", mail(key, "2026-03-03T00:00:00Z", body_text="word deposit " * 5))
          for key in keys)
    )  # fmt: skip
    with connection.cursor() as cursor:
        for table in ("evidence_record", "evidence_recordchange", "evidence_searchtext"):
            cursor.execute(f"ANALYZE {table}")


def _to_the_end(world: World, since: str, who: str = "bob") -> str:
    more = True
    while more:
        answer = world.get(LIST, who, changes_since=since, limit=100)
        since, more = answer.body["next_changes_since"], answer.body["has_more"]
    return since
