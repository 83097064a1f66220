"""What each client read, in readings: answers with pauses under half an hour, on one day.

This module defines what all pages and commands count. An answer is one response. Totals count a record in
each answer that shows it, as quotas do; the description of a reading counts different records. Days are in the
owner's time zone, which is Django's current one.

The distinct records that each client was shown take a read of all its rows. A page counts a small
ledger itself. A background job counts a large one every hour, for clients that read something since,
and keeps the result in memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from django.core.cache import cache
from django.utils import timezone

from evidence.access.sql import SQL, fetch_all
from evidence.ledger.checkpoints import last_checkpoint
from evidence.ledger.disclosures import last_answer_by_client
from evidence.models.owners import current_owner

Place = tuple[str, str]
"""Connection id and stream."""

NUMBERED_ROWS = """
-- Number the readings of each client and day. An answer has one row per grant; the first of them counts as
-- the answer. Parameters: those of the rows, time zone, since, until, those of the conditions.
WITH rows AS (
    SELECT d.client_id, d.at, d.route, d.covered, d.record_count, d.record_digests,
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
"""
SELECT_READINGS = f"""
-- Group answers into readings, and each reading by route (answers) and by covered streams. One query.
{NUMBERED_ROWS}
SELECT client_id, day, number, route, covered, min(at), max(at),
    count(*) FILTER (WHERE is_first), sum(record_count)
FROM numbered
GROUP BY GROUPING SETS ((client_id, day, number, route), (client_id, day, number, covered))
"""  # noqa: S608 - of constants
COUNT_DIFFERENT_RECORDS = f"""
-- Count the different records of each reading by stream; those erased since, by covered streams. One query.
-- Last parameter: owner id.
{NUMBERED_ROWS},
shown AS (
    SELECT n.client_id, n.day, n.number, x.digest, min(n.covered) AS covered
    FROM numbered AS n CROSS JOIN LATERAL unnest(n.record_digests) AS x(digest)
    GROUP BY n.client_id, n.day, n.number, x.digest
)
SELECT s.client_id, s.day, s.number,
    CASE WHEN r.digest IS NULL THEN s.covered
        ELSE json_build_array(json_build_array(r.connection_id, r.stream))::text END, count(*)
FROM shown AS s LEFT JOIN evidence_disclosedrecord AS r ON r.owner_id = %s AND r.digest = s.digest
GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - of constants


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
    """Different records by stream, if they were counted: ``list_readings`` names the streams alone."""
    unplaced: int = 0
    """Different records that were erased since and may be of several streams."""

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


APPS = ReadingFilter(only_apps=True)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)

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


def list_readings(
    *, since: datetime, until: datetime, where: ReadingFilter, counts_records: bool = False
) -> list[Reading]:
    """Return the readings of a period, latest first, with their different records if asked.

    One or two queries over the rows of the period.
    """
    period = (timezone.get_current_timezone_name(), since, until)
    readings: dict[Any, Reading] = {}
    rows = fetch_all(where.query(SELECT_READINGS, period=period))
    for client_id, day, number, route, covered, first, last, answers, records in rows:
        key = (client_id, day, number)
        reading = readings.setdefault(key, Reading(client_id=client_id, first=first, last=last))
        reading.first, reading.last = min(reading.first, first), max(reading.last, last)
        if route is not None:
            reading.calls[route] += answers
            continue
        reading.places.update(dict.fromkeys(_places(covered, where), 0))
        reading.records += records
    if counts_records:
        for *ids, covered, count in fetch_all(
            where.query(COUNT_DIFFERENT_RECORDS, current_owner(), period=period)
        ):
            reading = readings.get(tuple(ids)) or Reading(client_id="", first=since, last=until)
            if len(places := _places(covered, where)) == 1:
                reading.places.update(dict.fromkeys(places, count))
            reading.unplaced += count if len(places) > 1 else 0
    return sorted(readings.values(), key=lambda reading: reading.last, reverse=True)


def _places(covered: str, where: ReadingFilter) -> set[Place]:
    places = {(each[0], each[1]) for each in orjson.loads(covered)}
    return {each for each in places if where.connection_id in (None, each[0])}


def sum_by_client(readings: Iterable[Reading]) -> dict[str, Reading]:
    """Return client id -> all its readings together."""
    totals: dict[str, Reading] = {}
    for each in readings:
        total = totals.setdefault(
            each.client_id, Reading(client_id=each.client_id, first=each.first, last=each.last)
        )
        total.add(each)
    return totals


CACHE_KEY = "shown-records-{}"
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
    if _is_small(owner_id):
        return {pk: _count(pk, last, now) for pk, last in last_answer_by_client(owner_id).items()}
    return _cached(owner_id)


def recount_shown_records(owner_id: str, *, now: datetime) -> Iterator[str]:
    """Count a large ledger for the clients whose count is out of date, and yield their ids."""
    if _is_small(owner_id):
        return
    for client_id, last in last_answer_by_client(owner_id).items():
        counted = _cached(owner_id).get(client_id)
        if counted and counted.last == last and now - counted.counted_at < RECOUNT_AFTER:
            continue
        fresh = _count(client_id, last, now)
        cache.set(CACHE_KEY.format(owner_id), _cached(owner_id) | {client_id: fresh}, None)
        yield client_id


def _is_small(owner_id: str) -> bool:
    last = last_checkpoint(owner_id)
    return last is None or last.size <= SMALL_LEDGER


def _count(client_id: str, last: datetime, now: datetime) -> ShownRecords:
    counts = dict(
        fetch_all(SQL(COUNT_SHOWN_RECORDS, (current_owner(), client_id, current_owner())))
    )
    return ShownRecords(by_connection=counts, last=last, counted_at=now)


def _cached(owner_id: str) -> dict[str, ShownRecords]:
    counted: dict[str, ShownRecords] = cache.get(CACHE_KEY.format(owner_id), {})
    return counted
