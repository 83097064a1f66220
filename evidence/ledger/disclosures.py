"""What the owner asks of the ledger: who has seen what, and who has seen this."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias
from uuid import UUID

import orjson
from django.db.models import Count, Func, Max, Min, QuerySet, Sum, TextField
from django.db.models.functions import TruncDate

from evidence.ledger.entries import own_chain
from evidence.models.ledger import Chain, Disclosure, Pseudonym


@dataclass(frozen=True, slots=True)
class Covered:
    """A stream of a connection, and the fields of it that were shown."""

    connection_id: str
    stream: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosed:
    """One row of the ledger, to be read. ``grant_id`` is None for what the owner read."""

    seq: int
    at: datetime
    client_id: str
    grant_id: str | None
    token_id: str
    request_id: str
    route: str
    covered: tuple[Covered, ...]
    record_count: int
    size_bytes: int
    pseudonyms: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Day:
    """The reads of one day (UTC)."""

    day: date
    answers: int
    records: int


@dataclass(frozen=True, slots=True)
class Named:
    """A record that a pseudonym still leads to."""

    connection_id: str
    stream: str
    record_key: str


Rows: TypeAlias = "QuerySet[Disclosure]"

ANSWERS = Count(Func("request_id", "at", function="ROW", output_field=TextField()), distinct=True)
"""One answer has a row for each grant. Its id alone may be the client's choice, and the same again."""


def to_client(*client_ids: str) -> Rows:
    """What these clients were shown, latest first."""
    return Disclosure.unscoped.filter(client_id__in=client_ids).order_by("-at", "chain", "-seq")


def to_owner(owner_id: str) -> Rows:
    """What the owner's own tokens and pages have shown, latest first."""
    return Disclosure.unscoped.filter(chain=own_chain(owner_id)).order_by("-seq")


def every(owner_id: str) -> Rows:
    """All answers from an owner's records, latest first."""
    chains = Chain.unscoped.filter(owner_id=owner_id).values("chain")
    return Disclosure.unscoped.filter(chain__in=chains).order_by("-at", "chain", "-seq")


def of_record(connection_id: str, stream: str, record_key: str) -> Rows:
    """Every answer that showed a record, latest first; none once it was erased."""
    names = list(
        Pseudonym.unscoped.filter(
            connection_id=connection_id, stream=stream, record_key=record_key
        ).values_list("pseudonym", flat=True)
    )
    found = Disclosure.unscoped.filter(pseudonyms__overlap=names) if names else None
    return (Disclosure.unscoped.none() if found is None else found).order_by("-at", "chain", "-seq")


def narrowed(
    rows: Rows,
    *,
    client_id: str | None = None,
    connection_id: str | None = None,
    day: date | None = None,
) -> Rows:
    """Those of one client (empty: the owner), that show something of one connection, of one day
    (UTC)."""
    if client_id is not None:
        rows = rows.filter(client_id=client_id)
    if connection_id is not None:
        rows = rows.filter(covered__contains=f'["{connection_id}",')
    if day is not None:
        start = datetime(day.year, day.month, day.day, tzinfo=UTC)
        rows = rows.filter(at__gte=start, at__lt=start + timedelta(days=1))
    return rows


def read(rows: Rows) -> Iterator[Disclosed]:
    for row in rows.iterator(1_000):
        yield Disclosed(
            seq=row.seq,
            at=row.at,
            client_id=row.client_id,
            grant_id=None if row.chain.startswith("own:") else row.chain,
            token_id=row.token_id,
            request_id=row.request_id,
            route=row.route,
            covered=tuple(
                Covered(connection_id, stream, tuple(fields))
                for connection_id, stream, fields in orjson.loads(row.covered)
            ),
            record_count=row.record_count,
            size_bytes=row.size_bytes,
            pseudonyms=tuple(row.pseudonyms),
        )


def calendar(rows: Rows, *, since: datetime) -> list[Day]:
    """How much was shown on each day since, oldest first; days without a read are left out."""
    days = (
        rows.filter(at__gte=since)
        .order_by()
        .annotate(day=TruncDate("at"))
        .values("day")
        .annotate(answers=ANSWERS, records=Sum("record_count"))
        .order_by("day")
    )
    return [Day(row["day"], row["answers"], row["records"]) for row in days]


def named(pseudonyms: Sequence[UUID]) -> dict[UUID, Named]:
    """The records behind pseudonyms; those that were erased are missing."""
    rows = Pseudonym.unscoped.filter(pseudonym__in=pseudonyms)
    return {row.pseudonym: Named(row.connection_id, row.stream, row.record_key) for row in rows}


def use_by_client(*, since: datetime) -> dict[str, tuple[datetime, int]]:
    """client_id -> its last answer ever, and how many it was given since; two queries."""
    rows = Disclosure.unscoped.exclude(client_id="").order_by().values("client_id")
    last = rows.annotate(last=Max("at")).values_list("client_id", "last")
    lately = rows.filter(at__gte=since).annotate(answers=ANSWERS)
    answers = dict(lately.values_list("client_id", "answers"))
    return {client_id: (at, answers.get(client_id, 0)) for client_id, at in last}


def first_under(grant_ids: Sequence[str]) -> datetime | None:
    """When the first answer under any of these grants was given."""
    rows = Disclosure.unscoped.filter(chain__in=grant_ids)
    found: datetime | None = rows.aggregate(first=Min("at"))["first"]
    return found
