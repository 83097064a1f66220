"""Count the distinct records that each client was shown, for the share of each source.

The count reads all rows of a client. A page counts a small ledger itself. A background job counts a
large one every hour, for clients that read something since, and keeps the result in memory.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache

from evidence.access.sql import SQL, fetch_all
from evidence.ledger.disclosures import last_answer_by_client
from evidence.ledger.readings import count_rows

SMALL_LEDGER = 5_000
"""Rows that a page counts itself."""
RECOUNT_AFTER = timedelta(days=1)
"""Counts again for a client that read nothing since, as records may have been erased."""

COUNT_SHOWN_RECORDS = """
-- Count the distinct records that a client was shown, without erased ones, by connection.
-- Parameters: client id. One query, which reads all rows of the client.
SELECT p.connection_id, count(*)
FROM (
    SELECT DISTINCT x.pseudonym
    FROM evidence_disclosure AS d CROSS JOIN LATERAL unnest(d.pseudonyms) AS x(pseudonym)
    WHERE d.client_id = %s
) AS r
JOIN evidence_pseudonym AS p ON p.pseudonym = r.pseudonym
GROUP BY p.connection_id
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
    counts = dict(fetch_all(SQL(COUNT_SHOWN_RECORDS, (client_id,))))
    return ShownRecords(by_connection=counts, last=last, counted_at=now)


def _cached(owner_id: str) -> dict[str, ShownRecords]:
    counted: dict[str, ShownRecords] = cache.get(_key(owner_id), {})
    return counted


def _key(owner_id: str) -> str:
    return f"shown-records-{owner_id}"
