"""Query for the owner what was disclosed: by client, record and period, and what each client read.

A reading is a client's answers with pauses under half an hour, on one day.

This module defines what all pages and commands count. An answer is one response. Totals count a record in
each answer that shows it, as quotas do; the description of a reading counts different records. Days are in
the owner's time zone, which is Django's current one.

The distinct records that each client was shown take a read of all its rows. A page counts a small
ledger itself. A background job counts a large one every hour, for clients that read something since,
and keeps the result in memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import orjson
from django.core.cache import cache
from django.db.models import Count, Func, Max, Min, OuterRef, QuerySet, Subquery, Sum, TextField
from django.db.models.functions import TruncDate
from django.utils import timezone

from evidence.access.sql import SQL, fetch_all, fill
from evidence.ledger.checkpoints import last_checkpoint
from evidence.ledger.entries import owner_chain
from evidence.models.clients import Client
from evidence.models.ledger import DisclosedRecord, Disclosure
from evidence.models.owners import current_owner


@dataclass(frozen=True, slots=True)
class DisclosedStream:
    """A stream of a connection, its disclosed fields, and the number of its records."""

    connection_id: str
    stream: str
    fields: tuple[str, ...]
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DisclosureEntry:
    """A row of the ledger. `grant_id` is None for the owner's own reads."""

    at: datetime
    client_id: str
    grant_id: str | None
    token_id: str
    request_id: str
    route: str
    covered: tuple[DisclosedStream, ...]
    record_count: int
    size_bytes: int
    counted: int | None
    record_digests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class NamedRecord:
    """A record that an entry names."""

    connection_id: str
    stream: str
    record_key: str


Disclosures: TypeAlias = "QuerySet[Disclosure]"

RESPONSE_COUNT = Count(
    Func("request_id", "at", function="ROW", output_field=TextField()), distinct=True
)
"""A response has one row per grant. Clients choose request ids, which may repeat."""


def disclosures_to_clients(*client_ids: str) -> Disclosures:
    """Return the disclosures to these clients, newest first."""
    return Disclosure.unscoped.filter(client_id__in=client_ids).order_by("-at", "chain", "pk")


def disclosures_to_owner(owner_id: str) -> Disclosures:
    """Return the disclosures to the owner's own tokens and pages, newest first."""
    return Disclosure.unscoped.filter(chain=owner_chain(owner_id)).order_by("-at", "pk")


def all_disclosures(owner_id: str) -> Disclosures:
    """Return all disclosures of an owner's records, newest first."""
    return Disclosure.unscoped.filter(owner_id=owner_id).order_by("-at", "chain", "pk")


def digest_of_record(connection_id: str, stream: str, record_key: str) -> bytes | None:
    """Return the digest by which entries name a record; None if nobody read it or it was erased."""
    rows = DisclosedRecord.unscoped.filter(
        connection_id=connection_id, stream=stream, record_key=record_key
    )
    digest = rows.values_list("digest", flat=True).first()
    return None if digest is None else bytes(digest)


def disclosures_of_record(connection_id: str, stream: str, record_key: str) -> Disclosures:
    """Return the disclosures of a record, newest first; none after its erasure."""
    digest = digest_of_record(connection_id, stream, record_key)
    if digest is None:
        return Disclosure.unscoped.none()
    rows = Disclosure.unscoped.filter(record_digests__contains=[digest])
    return rows.order_by("-at", "chain", "pk")


def disclosures_between(
    owner_id: str, *, client_id: str | None, since: datetime, until: datetime
) -> Disclosures:
    """Return the disclosures of a period, newest first; both times are included."""
    rows = all_disclosures(owner_id).filter(at__gte=since, at__lte=until)
    return rows if client_id is None else rows.filter(client_id=client_id)


def parse_covered(covered: str, record_count: int) -> list[DisclosedStream]:
    """Return the streams in the JSON text of a row.

    An aggregate names no record of a stream; if it covers one stream, that has all counted records.
    """
    streams = [(*stream, 0) if len(stream) == 3 else stream for stream in orjson.loads(covered)]
    is_uncounted = len(streams) == 1 and not streams[0][3]
    return [
        DisclosedStream(
            connection_id, stream, tuple(fields), record_count if is_uncounted else records
        )
        for connection_id, stream, fields, records in streams
    ]


def read_disclosures(rows: Disclosures) -> Iterator[DisclosureEntry]:
    for row in rows.iterator(1_000):
        yield DisclosureEntry(
            at=row.at,
            client_id=row.client_id,
            grant_id=None if row.chain.startswith("own:") else row.chain,
            token_id=row.token_id,
            request_id=row.request_id,
            route=row.route,
            covered=tuple(parse_covered(row.covered, row.record_count)),
            record_count=row.record_count,
            size_bytes=row.size_bytes,
            counted=row.counted,
            record_digests=tuple(map(bytes, row.record_digests)),
        )


def named_records(digests: Sequence[bytes]) -> dict[bytes, NamedRecord]:
    """Return the record of each digest; erased records are missing."""
    rows = DisclosedRecord.unscoped.filter(digest__in=digests)
    return {
        bytes(row.digest): NamedRecord(row.connection_id, row.stream, row.record_key)
        for row in rows
    }


def last_answer_by_client(owner_id: str) -> dict[str, datetime]:
    """Return client id -> the time of its last response, if there is one. One query, one index lookup per client."""
    rows = Disclosure.unscoped.filter(client_id=OuterRef("pk")).order_by("-at").values("at")
    clients = Client.unscoped.filter(owner_id=owner_id).annotate(last=Subquery(rows[:1]))
    return dict(clients.filter(last__isnull=False).values_list("pk", "last"))


@dataclass(frozen=True, slots=True)
class DailyUse:
    """What was charged to one grant on one day (UTC)."""

    grant_id: str
    day: date
    calls: int
    records: int
    bytes: int


def daily_use(client_id: str, *, since: datetime) -> list[DailyUse]:
    """Return the use of each day and grant since then, without calls that disclosed nothing."""
    rows = (
        Disclosure.unscoped.filter(client_id=client_id, at__gte=since)
        .order_by()
        .values("chain", day=TruncDate("at", tzinfo=UTC))
        .annotate(calls=Count("pk"), records=Sum("record_count"), bytes=Sum("size_bytes"))
        .values_list("chain", "day", "calls", "records", "bytes")
    )
    return [DailyUse(*row) for row in rows]


def first_disclosure_at(grant_ids: Sequence[str]) -> datetime | None:
    """Return the time of the first response under any of these grants."""
    rows = Disclosure.unscoped.filter(chain__in=grant_ids)
    first: datetime | None = rows.aggregate(first=Min("at"))["first"]
    return first


class ReadTotals(NamedTuple):
    """Responses to one client, and the records in them."""

    answers: int
    records: int


def read_totals(
    grant_ids: Sequence[str], *, since: datetime, until: datetime
) -> dict[str, ReadTotals]:
    """Return client id -> what it read under these grants in a period. One query."""
    rows = Disclosure.unscoped.filter(chain__in=grant_ids, at__gte=since, at__lt=until).order_by()
    found = rows.values("client_id").annotate(answers=RESPONSE_COUNT, records=Sum("record_count"))
    return {row["client_id"]: ReadTotals(row["answers"], row["records"]) for row in found}


def readers_of_record(
    connection_id: str, stream: str, record_key: str
) -> list[tuple[str, int, datetime]]:
    """Return client id, responses and last time per reader, latest first. The owner's id is empty."""
    rows = disclosures_of_record(connection_id, stream, record_key).order_by()
    found = rows.values("client_id").annotate(answers=RESPONSE_COUNT, last=Max("at"))
    return [(row["client_id"], row["answers"], row["last"]) for row in found.order_by("-last")]


Place = tuple[str, str]
"""Connection id and stream."""

NUMBERED_ROWS = """
-- Number the readings of each client and day. An answer has one row per grant; the first of them counts as
-- the answer.
WITH rows AS (
    SELECT d.client_id, d.at, d.route, d.covered, d.record_count, d.record_digests,
        date_trunc('day', d.at, z.name) AS day,
        (d.at - lag(d.at) OVER latest < interval '30 minutes') IS NOT TRUE AS begins,
        (d.at, d.request_id) IS DISTINCT FROM
            (lag(d.at) OVER latest, lag(d.request_id) OVER latest) AS is_first
    FROM {rows} CROSS JOIN (SELECT {zone}::text AS name) AS z
    WHERE d.at >= {since} AND d.at < {until}{conditions}
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
SELECT_READINGS = """
-- Group answers into readings, and each reading by route (answers) and by covered streams. Part: NUMBERED_ROWS.
-- One query.
{numbered}
SELECT client_id, day, number, route, covered, min(at), max(at),
    count(*) FILTER (WHERE is_first), sum(record_count)
FROM numbered
GROUP BY GROUPING SETS ((client_id, day, number, route), (client_id, day, number, covered))
"""
COUNT_DIFFERENT_RECORDS = """
-- Count the different records of each reading by stream; those erased since, by covered streams.
-- Part: NUMBERED_ROWS. One query.
{numbered},
shown AS (
    SELECT n.client_id, n.day, n.number, x.digest, min(n.covered) AS covered
    FROM numbered AS n CROSS JOIN LATERAL unnest(n.record_digests) AS x(digest)
    GROUP BY n.client_id, n.day, n.number, x.digest
)
SELECT s.client_id, s.day, s.number,
    CASE WHEN r.digest IS NULL THEN s.covered
        ELSE json_build_array(json_build_array(r.connection_id, r.stream))::text END, count(*)
FROM shown AS s LEFT JOIN evidence_disclosedrecord AS r ON r.owner_id = {owner} AND r.digest = s.digest
GROUP BY 1, 2, 3, 4
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


ROWS_OF_RECORD = """
(SELECT * FROM evidence_disclosure
WHERE owner_id = {owner} AND record_digests @> ARRAY[{digest}::bytea] OFFSET 0) AS d
"""


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
        return fill(ROWS_OF_RECORD, owner=current_owner(), digest=self.record_digest)

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

    def query(self, template: str, **parts: object) -> SQL:
        """Return a statement over these rows."""
        return fill(template, rows=self.rows, conditions=self.conditions, **parts)


APPS = ReadingFilter(only_apps=True)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)

FIND_ROW = """
-- Return the time of the row that follows a number of newer rows. One query, by an index on time.
SELECT d.at FROM {rows} WHERE d.at >= {since} AND d.at < {until}{conditions}
ORDER BY d.at DESC OFFSET {newer} LIMIT 1
"""


def find_time(
    where: ReadingFilter, *, until: datetime, since: datetime = EARLIEST, newer: int = 0
) -> datetime | None:
    """Return the time of the latest answer of a period, after `newer` rows. One query."""
    rows = fetch_all(where.query(FIND_ROW, since=since, until=until, newer=newer))
    return rows[0][0] if rows else None


def list_readings(
    *, since: datetime, until: datetime, where: ReadingFilter, counts_records: bool = False
) -> list[Reading]:
    """Return the readings of a period, latest first, with their different records if asked.

    One or two queries over the rows of the period.
    """
    zone = timezone.get_current_timezone_name()
    numbered = where.query(NUMBERED_ROWS, zone=zone, since=since, until=until)
    readings: dict[Any, Reading] = {}
    rows = fetch_all(fill(SELECT_READINGS, numbered=numbered))
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
            fill(COUNT_DIFFERENT_RECORDS, numbered=numbered, owner=current_owner())
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
-- One query, which reads all rows of the client.
SELECT r.connection_id, count(*)
FROM (
    SELECT DISTINCT x.digest
    FROM evidence_disclosure AS d CROSS JOIN LATERAL unnest(d.record_digests) AS x(digest)
    WHERE d.owner_id = {owner} AND d.client_id = {client}
) AS n
JOIN evidence_disclosedrecord AS r ON r.owner_id = {owner} AND r.digest = n.digest
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
    counts = fetch_all(fill(COUNT_SHOWN_RECORDS, owner=current_owner(), client=client_id))
    return ShownRecords(by_connection=dict(counts), last=last, counted_at=now)


def _cached(owner_id: str) -> dict[str, ShownRecords]:
    counted: dict[str, ShownRecords] = cache.get(CACHE_KEY.format(owner_id), {})
    return counted
