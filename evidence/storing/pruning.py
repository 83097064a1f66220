"""Letting go of what is no longer needed: old changes, and blobs that no record names.

A bookmark is good for as long as every change since it was given is known. That is promised by
time and kept by number: a batch may be stored well after the time that its changes are marked with,
so changes go a day later than the promise ends.
"""

from datetime import datetime, timedelta

from django.db import connection, transaction

from evidence.declarations.types import BLOB_REFERENCE
from evidence.models.connections import Connection
from evidence.storing.locking import hold_one

MARGIN = timedelta(days=1)
ORPHAN_AGE = timedelta(days=1)
"""Bytes may come before the record that names them, but not by much."""
CHANGES_AT_ONCE = 10_000

# The connection is held, so nothing is numbered meanwhile.
END_PROMISE = """
UPDATE evidence_connection k
SET changes_kept_since = greatest(k.changes_kept_since, %(promised)s),
    pruned_seq = greatest(k.pruned_seq, coalesce((
        SELECT x.seq - 1 FROM evidence_recordchange x
        WHERE x.connection_id = k.connection_id AND x.recorded_at >= %(before)s
        ORDER BY x.seq LIMIT 1
    ), k.change_seq))
WHERE k.connection_id = %(connection_id)s
RETURNING k.pruned_seq
"""
FORGET = """
DELETE FROM evidence_recordchange WHERE connection_id = %s AND seq IN (
    SELECT x.seq FROM evidence_recordchange x
    WHERE x.connection_id = %s AND x.seq <= %s ORDER BY x.seq LIMIT %s
)
"""
ORPHANS = """
DELETE FROM evidence_blob b
WHERE b.connection_id = %s AND b.created_at < %s AND NOT EXISTS (
    SELECT FROM evidence_record r
    WHERE r.connection_id = b.connection_id AND r.stream = b.stream
        AND r.record_key = b.record_key AND r.data->%s->>'blob_id' = b.blob_id
)
RETURNING b.blob_id
"""
PIECES = "DELETE FROM evidence_blobchunk WHERE connection_id = %s AND blob_id = ANY(%s)"


def prune_changes(*, kept_since: datetime) -> int:
    """Ends the promise to tell what has changed since any time before ``kept_since``, and forgets
    the changes that it took; how many. Bookmarks given earlier answer that they have expired."""
    forgotten = 0
    for connection_id in _connection_ids():
        seq = _end_promise(connection_id, kept_since)
        while deleted := _forget(connection_id, seq):
            forgotten += deleted
    return forgotten


def prune_orphans(*, unused_since: datetime) -> int:
    """Deletes blobs taken in before ``unused_since`` that their record does not name, or whose
    record is not there; how many."""
    deleted = 0
    for connection_id in _connection_ids():
        with transaction.atomic(), connection.cursor() as cursor:
            hold_one(connection_id)
            cursor.execute(ORPHANS, [connection_id, unused_since, BLOB_REFERENCE])
            blob_ids = [blob_id for (blob_id,) in cursor]
            cursor.execute(PIECES, [connection_id, blob_ids])
        deleted += len(blob_ids)
    return deleted


def _connection_ids() -> list[str]:
    return list(
        Connection.unscoped.order_by("connection_id").values_list("connection_id", flat=True)
    )


def _end_promise(connection_id: str, kept_since: datetime) -> int:
    """The number of the latest change that may go. Readers must know before it goes."""
    with transaction.atomic(), connection.cursor() as cursor:
        hold_one(connection_id)
        cursor.execute(
            END_PROMISE,
            {
                "connection_id": connection_id,
                "promised": kept_since,
                "before": kept_since - MARGIN,
            },
        )
        [seq] = cursor.fetchone() or [0]
        return int(seq)


def _forget(connection_id: str, seq: int) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(FORGET, [connection_id, connection_id, seq, CHANGES_AT_ONCE])
        return int(cursor.rowcount)
