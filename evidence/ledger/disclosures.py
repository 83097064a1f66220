"""Query disclosures by client, record and day for the owner."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias
from uuid import UUID

import orjson
from django.db.models import Count, Func, Max, Min, QuerySet, Sum, TextField
from django.db.models.functions import TruncDate

from evidence.ledger.entries import owner_chain
from evidence.models.ledger import Chain, Disclosure, Pseudonym


@dataclass(frozen=True, slots=True)
class DisclosedStream:
    """A stream of a connection, and its disclosed fields."""

    connection_id: str
    stream: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisclosureEntry:
    """A row of the ledger. `grant_id` is None for the owner's own reads."""

    seq: int
    at: datetime
    client_id: str
    grant_id: str | None
    token_id: str
    request_id: str
    route: str
    covered: tuple[DisclosedStream, ...]
    record_count: int
    size_bytes: int
    pseudonyms: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class DayTotals:
    """Number of responses and records disclosed on one day (UTC)."""

    day: date
    answers: int
    records: int


@dataclass(frozen=True, slots=True)
class PseudonymTarget:
    """The record of a pseudonym."""

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
    return Disclosure.unscoped.filter(client_id__in=client_ids).order_by("-at", "chain", "-seq")


def disclosures_to_owner(owner_id: str) -> Disclosures:
    """Return the disclosures to the owner's own tokens and pages, newest first."""
    return Disclosure.unscoped.filter(chain=owner_chain(owner_id)).order_by("-seq")


def all_disclosures(owner_id: str) -> Disclosures:
    """Return all disclosures of an owner's records, newest first."""
    chains = Chain.unscoped.filter(owner_id=owner_id).values("chain")
    return Disclosure.unscoped.filter(chain__in=chains).order_by("-at", "chain", "-seq")


def disclosures_of_record(connection_id: str, stream: str, record_key: str) -> Disclosures:
    """Return the disclosures of a record, newest first; none after its erasure."""
    pseudonyms = list(
        Pseudonym.unscoped.filter(
            connection_id=connection_id, stream=stream, record_key=record_key
        ).values_list("pseudonym", flat=True)
    )
    if not pseudonyms:
        return Disclosure.unscoped.none()
    rows = Disclosure.unscoped.filter(pseudonyms__overlap=pseudonyms)
    return rows.order_by("-at", "chain", "-seq")


def filter_disclosures(
    rows: Disclosures,
    *,
    client_id: str | None = None,
    connection_id: str | None = None,
    day: date | None = None,
) -> Disclosures:
    """Filter by client (empty for the owner), connection and day (UTC)."""
    if client_id is not None:
        rows = rows.filter(client_id=client_id)
    if connection_id is not None:
        rows = rows.filter(covered__contains=f'["{connection_id}",')
    if day is not None:
        start = datetime(day.year, day.month, day.day, tzinfo=UTC)
        rows = rows.filter(at__gte=start, at__lt=start + timedelta(days=1))
    return rows


def read_disclosures(rows: Disclosures) -> Iterator[DisclosureEntry]:
    for row in rows.iterator(1_000):
        yield DisclosureEntry(
            seq=row.seq,
            at=row.at,
            client_id=row.client_id,
            grant_id=None if row.chain.startswith("own:") else row.chain,
            token_id=row.token_id,
            request_id=row.request_id,
            route=row.route,
            covered=tuple(
                DisclosedStream(connection_id, stream, tuple(fields))
                for connection_id, stream, fields in orjson.loads(row.covered)
            ),
            record_count=row.record_count,
            size_bytes=row.size_bytes,
            pseudonyms=tuple(row.pseudonyms),
        )


def daily_totals(rows: Disclosures, *, since: datetime) -> list[DayTotals]:
    """Return the totals of each day with disclosures since then, oldest first."""
    days = (
        rows.filter(at__gte=since)
        .order_by()
        .annotate(day=TruncDate("at"))
        .values("day")
        .annotate(answers=RESPONSE_COUNT, records=Sum("record_count"))
        .order_by("day")
    )
    return [DayTotals(row["day"], row["answers"], row["records"]) for row in days]


def resolve_pseudonyms(pseudonyms: Sequence[UUID]) -> dict[UUID, PseudonymTarget]:
    """Return the record of each pseudonym; erased records are missing."""
    rows = Pseudonym.unscoped.filter(pseudonym__in=pseudonyms)
    return {
        row.pseudonym: PseudonymTarget(row.connection_id, row.stream, row.record_key)
        for row in rows
    }


def usage_by_client(*, since: datetime) -> dict[str, tuple[datetime, int]]:
    """Return client id -> (time of its last response, responses since then). Two queries."""
    rows = Disclosure.unscoped.exclude(client_id="").order_by().values("client_id")
    last = rows.annotate(last=Max("at")).values_list("client_id", "last")
    recent = rows.filter(at__gte=since).annotate(answers=RESPONSE_COUNT)
    answers = dict(recent.values_list("client_id", "answers"))
    return {client_id: (at, answers.get(client_id, 0)) for client_id, at in last}


def first_disclosure_at(grant_ids: Sequence[str]) -> datetime | None:
    """Return the time of the first response under any of these grants."""
    rows = Disclosure.unscoped.filter(chain__in=grant_ids)
    first: datetime | None = rows.aggregate(first=Min("at"))["first"]
    return first


@dataclass(slots=True)
class AppReading:
    """What one client read: responses, records in them, and the streams of connections."""

    answers: int
    records: int
    last: datetime
    places: set[tuple[str, str]]


def readings_by_client(*, since: datetime) -> dict[str, AppReading]:
    """Return client id -> what it read since then, without the owner's own reads. Two queries."""
    rows = Disclosure.unscoped.filter(at__gte=since).exclude(client_id="").order_by()
    totals = rows.values("client_id").annotate(
        answers=RESPONSE_COUNT, records=Sum("record_count"), last=Max("at")
    )
    readings = {
        row["client_id"]: AppReading(row["answers"], row["records"], row["last"], set())
        for row in totals
    }
    for client_id, covered in rows.values_list("client_id", "covered").distinct():
        places = {(connection_id, stream) for connection_id, stream, _ in orjson.loads(covered)}
        readings[client_id].places |= places
    return readings


def readers_of_record(
    connection_id: str, stream: str, record_key: str
) -> list[tuple[str, int, datetime]]:
    """Return client id, responses and last time per reader, latest first. The owner's id is empty."""
    rows = disclosures_of_record(connection_id, stream, record_key).order_by()
    found = rows.values("client_id").annotate(answers=RESPONSE_COUNT, last=Max("at"))
    return [(row["client_id"], row["answers"], row["last"]) for row in found.order_by("-last")]
