"""Query disclosures by client, record and period for the owner."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NamedTuple, TypeAlias

import orjson
from django.db.models import Count, Func, Max, Min, OuterRef, QuerySet, Subquery, Sum, TextField
from django.db.models.functions import TruncDate

from evidence.ledger.entries import owner_chain
from evidence.models.clients import Client
from evidence.models.ledger import DisclosedRecord, Disclosure


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
