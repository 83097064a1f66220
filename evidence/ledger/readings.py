"""What each client read, in readings: answers with pauses under half an hour, on one day.

This module defines what all pages and commands count. An answer is one response. A record read is one
record in one answer, as quotas count it; a record in two answers counts twice. Days are in the
owner's time zone, which is Django's current one.

The distinct records that each client was shown take a read of all its rows. A page counts a small
ledger itself. A background job counts a large one every hour, for clients that read something since,
and keeps the result in memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.core.cache import cache
from django.utils import timezone

from evidence.access.sql import SQL, fetch_all
from evidence.ledger.checkpoints import last_checkpoint
from evidence.ledger.disclosures import last_answer_by_client, parse_covered
from evidence.models.owners import current_owner

Place = tuple[str, str]
"""Connection id and stream."""
DAY = timedelta(days=1)

SELECT_READINGS = """
-- Group answers into readings, and each reading by route (answers) and by covered streams (records).
-- An answer has one row per grant; the first of them counts as the answer.
-- Parameters: those of the rows, time zone, since, until, those of the conditions. One query.
WITH rows AS (
    SELECT d.client_id, d.at, d.route, d.covered, d.record_count,
        date_trunc('day', d.at, z.name) AS day,
        (d.at - lag(d.at) OVER latest < interval '30 minutes') IS NOT TRUE AS begins,
        (d.at, d.request_id) IS DISTINCT FROM
            (lag(d.at) OVER latest, lag(d.request_id) OVER latest) AS is_first
    FROM {rows} CROSS JOIN (SELECT %s::text AS name) AS z
    WHERE d.at >= %s AND d.at < %s {conditions}
    WINDOW latest AS (
        PARTITION BY d.client_id, date_trunc('day', d.at, z.name) ORDER BY d.at, d.request_id, d.chain
    )
),
numbered AS (
    SELECT *, count(*) FILTER (WHERE begins) OVER (
        PARTITION BY client_id, day ORDER BY at ROWS UNBOUNDED PRECEDING
    ) AS number
    FROM rows
)
SELECT client_id, day, number, route, covered, min(at), max(at),
    count(*) FILTER (WHERE is_first), count(*), sum(record_count)
FROM numbered
GROUP BY GROUPING SETS ((client_id, day, number, route), (client_id, day, number, covered))
"""


@dataclass(slots=True, kw_only=True)
class Reading:
    """What one client read from `first` to `last`; the owner's id is empty."""

    client_id: str
    first: datetime
    last: datetime
    records: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    """Answers by route."""
    places: Counter[Place] = field(default_factory=Counter)
    """Records by stream. Places without records were counted or listed only."""

    @property
    def answers(self) -> int:
        return self.calls.total()

    def add(self, other: "Reading") -> None:
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)
        self.records += other.records
        self.calls.update(other.calls)
        self.places.update(other.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFilter:
    """Restricts readings. None means no restriction; the owner's client id is empty."""

    client_id: str | None = None
    only_apps: bool = False
    connection_id: str | None = None
    record_digest: bytes | None = None
    """Only the answers that showed this record; empty bytes are a record that nobody read."""

    @property
    def rows(self) -> SQL:
        """Return the rows `d` of the ledger, for FROM.

        The rows of one record are found by their own index before anything sorts them by time.
        """
        if self.record_digest is None:
            return SQL("evidence_disclosure AS d")
        found = (
            "(SELECT * FROM evidence_disclosure WHERE owner_id = %s AND record_digests @> ARRAY[%s::bytea]"
            " OFFSET 0) AS d"
        )
        return SQL(found, (current_owner(), self.record_digest))

    @property
    def conditions(self) -> SQL:
        """Return the conditions on the rows, which name their owner."""
        sql = SQL(" AND d.owner_id = %s", (current_owner(),))
        if self.only_apps:
            sql += SQL(" AND d.client_id <> ''")
        if self.client_id is not None:
            sql += SQL(" AND d.client_id = %s", (self.client_id,))
        if self.connection_id is not None:
            sql += SQL(" AND strpos(d.covered, %s) > 0", (f'["{self.connection_id}",',))
        return sql

    def query(self, text: str, *values: object, period: tuple[object, ...]) -> SQL:
        """Return a statement with the rows of a period; `values` are its last parameters."""
        rows, more = self.rows, self.conditions
        return SQL(
            text.format(rows=rows.text, conditions=more.text),
            (*rows.values, *period, *more.values, *values),
        )


EVERYTHING = ReadingFilter()
APPS = ReadingFilter(only_apps=True)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
WEEK = timedelta(days=7)
MAX_PAGE_ROWS = 10_000
"""A page shows fewer days than a week if they have more rows than this."""

FIND_ROW = """
-- Return the time of the row that follows a number of newer rows. One query, by an index on time.
-- Parameters: those of the rows, since, until, those of the conditions, number of newer rows.
SELECT d.at FROM {rows} WHERE d.at >= %s AND d.at < %s {conditions}
ORDER BY d.at DESC OFFSET %s LIMIT 1
"""


def find_time(
    where: ReadingFilter, *, until: datetime, since: datetime = EARLIEST, newer: int = 0
) -> datetime | None:
    """Return the time of the latest answer of a period, after `newer` rows. One query."""
    rows = fetch_all(where.query(FIND_ROW, newer, period=(since, until)))
    return rows[0][0] if rows else None


def page_start(end: datetime, *, where: ReadingFilter) -> datetime:
    """Return the start of the days on a page that ends at midnight: a week or less. One query."""
    busy = find_time(where, until=end, since=end - WEEK, newer=MAX_PAGE_ROWS)
    if busy is None:
        return end - WEEK
    return min(start_of_day(busy), end - 2 * DAY) + DAY


def list_readings(
    *, since: datetime, until: datetime, where: ReadingFilter = EVERYTHING
) -> list[Reading]:
    """Return the readings of a period, latest first. One query over the rows of the period."""
    period = (timezone.get_current_timezone_name(), since, until)
    statement = where.query(SELECT_READINGS, period=period)
    readings: dict[Any, Reading] = {}
    for client_id, day, number, route, covered, first, last, *counts in fetch_all(statement):
        key = (client_id, day, number)
        reading = readings.setdefault(key, Reading(client_id=client_id, first=first, last=last))
        answers, rows, records = counts
        reading.first, reading.last = min(reading.first, first), max(reading.last, last)
        if route is not None:
            reading.calls[route] += answers
            continue
        for each in parse_covered(covered, records, rows=rows):
            if where.connection_id in (None, each.connection_id):
                reading.places[each.connection_id, each.stream] += each.records
        reading.records += records
    return sorted(readings.values(), key=lambda reading: reading.last, reverse=True)


def sum_by_client(readings: Iterable[Reading]) -> dict[str, Reading]:
    """Return client id -> all its readings together."""
    totals: dict[str, Reading] = {}
    for each in readings:
        total = totals.setdefault(
            each.client_id, Reading(client_id=each.client_id, first=each.first, last=each.last)
        )
        total.add(each)
    return totals


def count_rows(owner_id: str) -> int:
    """Return the number of signed rows in the ledger. One query."""
    last = last_checkpoint(owner_id)
    return 0 if last is None else last.size


def start_of_day(moment: datetime) -> datetime:
    """Return the midnight before a moment."""
    return midnight(timezone.localtime(moment).date())


def midnight(day: date) -> datetime:
    """Return the start of a day in the current time zone."""
    return datetime.combine(day, time.min, timezone.get_current_timezone())


def last_days(now: datetime, days: int) -> tuple[datetime, datetime]:
    """Return the start of the earliest of the last days, today included, and the end of today."""
    end = start_of_day(now) + DAY
    return end - days * DAY, end


SMALL_LEDGER = 5_000
"""Rows that a page counts itself."""
RECOUNT_AFTER = timedelta(days=1)
"""Counts again for a client that read nothing since, as records may have been erased."""

COUNT_SHOWN_RECORDS = """
-- Count the distinct records that a client was shown, without erased ones, by connection.
-- Parameters: owner id, client id, owner id. One query, which reads all rows of the client.
SELECT r.connection_id, count(*)
FROM (
    SELECT DISTINCT x.digest
    FROM evidence_disclosure AS d CROSS JOIN LATERAL unnest(d.record_digests) AS x(digest)
    WHERE d.owner_id = %s AND d.client_id = %s
) AS n
JOIN evidence_disclosedrecord AS r ON r.owner_id = %s AND r.digest = n.digest
GROUP BY r.connection_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecords:
    """Distinct records by connection, counted after the answer of `last`."""

    by_connection: Mapping[str, int]
    last: datetime
    counted_at: datetime


def shown_records(owner_id: str, *, now: datetime) -> dict[str, ShownRecords]:
    """Return client id -> its records. Clients of a large ledger are missing until counted."""
    if count_rows(owner_id) <= SMALL_LEDGER:
        return {pk: _count(pk, last, now) for pk, last in _last_answers(owner_id).items()}
    return _cached(owner_id)


def recount_shown_records(owner_id: str, *, now: datetime) -> Iterator[str]:
    """Count a large ledger for the clients whose count is out of date, and yield their ids."""
    if count_rows(owner_id) <= SMALL_LEDGER:
        return
    for client_id, last in _last_answers(owner_id).items():
        counted = _cached(owner_id).get(client_id)
        if counted and counted.last == last and now - counted.counted_at < RECOUNT_AFTER:
            continue
        fresh = _count(client_id, last, now)
        cache.set(_key(owner_id), _cached(owner_id) | {client_id: fresh}, None)
        yield client_id


def _last_answers(owner_id: str) -> dict[str, datetime]:
    lasts = last_answer_by_client(owner_id)
    return {client_id: last for client_id, last in lasts.items() if last is not None}


def _count(client_id: str, last: datetime, now: datetime) -> ShownRecords:
    counts = dict(
        fetch_all(SQL(COUNT_SHOWN_RECORDS, (current_owner(), client_id, current_owner())))
    )
    return ShownRecords(by_connection=counts, last=last, counted_at=now)


def _cached(owner_id: str) -> dict[str, ShownRecords]:
    counted: dict[str, ShownRecords] = cache.get(_key(owner_id), {})
    return counted


def _key(owner_id: str) -> str:
    return f"shown-records-{owner_id}"
