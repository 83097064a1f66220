"""Store erasure orders and receipts, and run the steps of a stream erasure.

A receipt counts what was removed, when and by whom, and contains no erased data.
"""

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import connection, transaction

from evidence.models.connections import (
    CollectorState,
    Connection,
    EmbeddedStream,
    Erasure,
    StreamState,
)
from evidence.models.owners import current_owner, owners_of
from evidence.write import app_data, rows, vectors
from evidence.write.record_erasure import (
    BATCH_SIZE,
    ErasureCounts,
    connection_tables,
    erase_records,
)

ErasureScope = Erasure.Of


def create_erasure(
    of: ErasureScope,
    *,
    owner_id: str,
    by: str,
    now: datetime,
    connection_id: str = "",
    stream: str = "",
    record_digest: bytes | None = None,
    before: datetime | None = None,
    tombstones: bool = True,
) -> Erasure:
    """Create an erasure order, or return the unfinished order for the same data."""
    with transaction.atomic():
        orders = Erasure.unscoped.select_for_update().filter(
            owner_id=owner_id, of=of, connection_id=connection_id, stream=stream,
            finished_at=None, record_digest=record_digest, tombstones=tombstones,
            before__isnull=before is None,
        )  # fmt: skip
        return orders.first() or Erasure.unscoped.create(
            erasure_id="ers_" + secrets.token_hex(12),
            owner_id=owner_id,
            of=of,
            by=by,
            connection_id=connection_id,
            stream=stream,
            record_digest=record_digest,
            before=before,
            tombstones=tombstones,
            wanted_at=now,
            updated_at=now,
        )


@contextmanager
def erasure_step(erasure_id: str, *, now: datetime) -> Iterator[Erasure | None]:
    """Open a transaction that locks the order and saves its counts; None if it is finished."""
    with transaction.atomic():
        row = Erasure.unscoped.select_for_update().get(erasure_id=erasure_id)
        if row.finished_at is not None:
            yield None
            return
        yield row
        row.updated_at = now
        row.save(update_fields=["removed", "kept", "updated_at", "finished_at"])


def add_counts(row: Erasure, counts: ErasureCounts) -> None:
    """Add to the counts of a receipt, inside ``erasure_step``."""
    row.removed = +(Counter(row.removed) + counts.removed)
    row.kept = +(Counter(row.kept) + counts.kept)


def unfinished_erasures() -> list[Erasure]:
    return list(Erasure.unscoped.filter(finished_at=None).order_by("wanted_at", "erasure_id"))


def erasing_owners() -> list[str]:
    """Return the owners with unfinished orders. One query across owners."""
    return owners_of(lambda: Erasure.unscoped.filter(finished_at=None))


def get_receipt(erasure_id: str, *, owner_id: str) -> Erasure | None:
    return Erasure.unscoped.filter(erasure_id=erasure_id, owner_id=owner_id).first()


def list_receipts(owner_id: str, *, most: int) -> list[Erasure]:
    """List the latest receipts, newest first."""
    rows = Erasure.unscoped.filter(owner_id=owner_id).order_by("-wanted_at", "erasure_id")
    return list(rows[:most])


# Keys without a record that history, ledger or blobs still mention.
PAST_KEYS = """
SELECT DISTINCT x.record_key FROM (
    SELECT owner_id, connection_id, stream, record_key FROM evidence_recordchange
    UNION ALL SELECT owner_id, connection_id, stream, record_key FROM evidence_disclosedrecord
    UNION ALL SELECT owner_id, connection_id, stream, record_key FROM evidence_blob
) x
WHERE x.owner_id = %(owner_id)s AND x.connection_id = %(connection_id)s AND x.stream = %(stream)s AND x.record_key > %(after)s
    AND NOT EXISTS (SELECT FROM evidence_record r
        WHERE r.owner_id = x.owner_id AND r.connection_id = x.connection_id
        AND r.stream = x.stream AND r.record_key = x.record_key)
ORDER BY x.record_key LIMIT %(limit)s
"""


def erase_next_records(
    connection_id: str, stream: str, *, before: datetime | None, tombstones: bool, now: datetime
) -> ErasureCounts | None:
    """Erase the next records of a stream, inside a transaction; None when none is left.

    ``before`` restricts the erasure to older records.
    """
    refs = rows.record_ids(connection_id, stream, limit=BATCH_SIZE, before=before)
    if not refs:
        return None
    keys = [ref.record_key for ref in refs]
    return erase_records(connection_id, stream, keys, tombstones=tombstones, now=now)


def erase_past_records(
    connection_id: str, stream: str, *, after: str, tombstones: bool, now: datetime
) -> tuple[ErasureCounts, str] | None:
    """Erase the next keys without a record, in key order, inside a transaction.

    Returns the counts and the last key, or None when none is left.
    """
    parameters: dict[str, str | int] = {
        "owner_id": current_owner(), "connection_id": connection_id, "stream": stream,
        "after": after, "limit": BATCH_SIZE,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(PAST_KEYS, parameters)
        keys = [key for (key,) in cursor]
    if not keys:
        return None
    return erase_records(connection_id, stream, keys, tombstones=tombstones, now=now), keys[-1]


def delete_stream_data(connection_id: str, stream: str) -> Counter[str]:
    """Delete a stream's data other than records. Returns the number of rows by kind."""
    EmbeddedStream.unscoped.filter(connection_id=connection_id, stream=stream).delete()
    StreamState.unscoped.filter(connection_id=connection_id, stream=stream).delete()
    removed = delete_quotes(connection_id)
    removed["collector states"] += delete_collector_state(connection_id, stream)
    return +removed


def delete_quotes(connection_id: str, *, before: datetime | None = None) -> Counter[str]:
    """Delete what may quote records of a connection, such as import receipts, or only older rows."""
    quotes = (data.delete_quotes(connection_id, before=before) for data in app_data.registered())
    return sum(quotes, Counter[str]())


def delete_collector_state(connection_id: str, stream: str, record_key: str | None = None) -> int:
    """Delete a stream's collector state, or only a state that mentions the record.

    Returns the number of states changed.
    """
    changed = 0
    with transaction.atomic():
        states = CollectorState.unscoped.select_for_update().filter(connection_id=connection_id)
        for row in states.order_by("pk"):
            if stream in row.state and (
                record_key is None or record_key in _all_text(row.state[stream])
            ):
                del row.state[stream]
                row.save(update_fields=["state"])
                changed += 1
    return changed


def _all_text(state: object) -> str:
    """Return all texts in a JSON value, unescaped."""
    if isinstance(state, dict):
        return "\n".join(_all_text(value) for pair in state.items() for value in pair)
    if isinstance(state, list):
        return "\n".join(map(_all_text, state))
    return str(state)


STREAM_TABLES = (
    "evidence_record", "evidence_blob", "evidence_passage", "evidence_searchtext",
    "evidence_recordchange", "evidence_disclosedrecord",
)  # fmt: skip


def count_holdings(
    connection_id: str, *, stream: str | None = None, record_key: str | None = None
) -> Counter[str]:
    """Count the rows of a connection, of one of its streams, or of one record, by kind."""
    condition, parameters = "owner_id = %s AND connection_id = %s", [current_owner(), connection_id]
    if stream is not None:
        condition, parameters = condition + " AND stream = %s", [*parameters, stream]
    if record_key is not None:
        condition, parameters = condition + " AND record_key = %s", [*parameters, record_key]
    counts: Counter[str] = Counter()
    of_records = {
        *STREAM_TABLES,
        *(t for data in app_data.registered() for t in data.record_tables),
    }
    with connection.cursor() as cursor:
        for table, kind in connection_tables().items():
            if stream is not None and table not in of_records:
                continue
            if table == "evidence_passage" and not vectors.exists():
                continue
            cursor.execute(f"SELECT count(*) FROM {table} WHERE {condition}", parameters)  # noqa: S608 - constants
            counts[kind] = cursor.fetchone()[0]
    return +counts


def count_all_holdings(owner_id: str) -> Counter[str]:
    """Count the connections of an owner and their rows, by kind."""
    ids = list(Connection.unscoped.filter(owner_id=owner_id).values_list("pk", flat=True))
    counts = sum((count_holdings(connection_id) for connection_id in ids), Counter[str]())
    counts["connections"] = len(ids)
    return +counts
