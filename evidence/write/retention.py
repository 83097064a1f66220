"""Set retention periods and prune old changes and orphaned blobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction

from evidence.access.sql import select_owners
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection, Retention, StreamState
from evidence.models.owners import current_owner, owners_of
from evidence.models.sources import load_declarations
from evidence.write import rows
from evidence.write.locks import LockedConnection, lock_connection

MAX_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class OverdueStream:
    """A stream with records older than its retention period."""

    connection_id: str
    stream: str
    owner_id: str
    before: datetime


def set_retention(connection_id: str, *, days: int | None, stream: str = "", now: datetime) -> None:
    """Set how many days records are kept; None keeps them forever.

    ``stream=""`` applies to every stream without its own period. Raises ``ConnectionNotFound``,
    ``InvalidRequest``.
    """
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise InvalidRequest(message=f"days takes 1 to {MAX_DAYS}; got {days}.", param="days")
    with transaction.atomic():
        connection = lock_connection(connection_id)
        if stream and days is not None:
            _require_stream(connection, stream)
        periods = Retention.unscoped.filter(connection_id=connection_id, stream=stream)
        if days is None:
            periods.delete()
        else:
            Retention.unscoped.update_or_create(
                connection_id=connection_id, stream=stream, defaults={"days": days, "set_at": now}
            )


def _require_stream(connection: LockedConnection, stream: str) -> None:
    # A mistyped name would silently keep records that the owner wants erased.
    declarations = load_declarations([connection.declaration_id or 0]).values()
    streams = [name for stored in declarations for name in stored.declaration.streams]
    if stream not in {*streams, *retention_periods(connection.connection_id)}:
        raise InvalidRequest(
            message=f"No stream {stream}. Choose one of: {', '.join(streams)}.", param="stream"
        )


def retention_periods(connection_id: str) -> dict[str, int]:
    """Return days by stream; the key "" applies to all other streams."""
    periods = Retention.unscoped.filter(connection_id=connection_id).order_by("stream")
    return dict(periods.values_list("stream", "days"))


def overdue_streams(now: datetime) -> Sequence[OverdueStream]:
    """Return the streams with records older than their retention period."""
    overdue = []
    for owned in Connection.unscoped.filter(
        pk__in=Retention.unscoped.values("connection_id")
    ).order_by("pk"):
        periods = retention_periods(owned.pk)
        states = StreamState.unscoped.filter(connection=owned).order_by("stream")
        for stream in states.values_list("stream", flat=True):
            days = periods.get(stream, periods.get(""))
            if days is None:
                continue
            before = now - timedelta(days=days)
            if rows.record_ids(owned.pk, stream, limit=1, before=before):
                overdue.append(OverdueStream(owned.pk, stream, current_owner(), before))
    return overdue


def owners_with_retention() -> list[str]:
    """Return the owners who set a retention period. One query across owners."""
    return owners_of(Retention.unscoped.all)


PRUNE_MARGIN = timedelta(days=1)
ORPHAN_AGE = timedelta(days=1)
"""Blobs can arrive before their record, by less than this time."""
PRUNE_BATCH_SIZE = 10_000

# The connection is locked, so no new change numbers are assigned.
ADVANCE_PRUNED_SEQ = """
-- Parameters: time, time of the first change that is kept, owner id, connection id.
UPDATE evidence_connection k
SET changes_kept_since = greatest(k.changes_kept_since, %s),
    pruned_seq = greatest(k.pruned_seq, coalesce((
        SELECT x.seq - 1 FROM evidence_recordchange x
        WHERE x.owner_id = k.owner_id AND x.connection_id = k.connection_id AND x.recorded_at >= %s
        ORDER BY x.seq LIMIT 1
    ), k.change_seq))
WHERE k.owner_id = %s AND k.connection_id = %s
RETURNING k.pruned_seq
"""
OWNERS_WITH_OLD_CHANGES = """
-- Owners with a connection whose first stored change is older than a time. One query across owners.
SELECT DISTINCT k.owner_id
FROM evidence_connection AS k
JOIN LATERAL (
    SELECT x.recorded_at FROM evidence_recordchange AS x
    WHERE x.owner_id = k.owner_id AND x.connection_id = k.connection_id ORDER BY x.seq LIMIT 1
) AS x ON x.recorded_at < %s
"""
OWNERS_WITH_BLOBS = """
-- Owners with stored files. One query across owners, by the key of blobs.
SELECT DISTINCT k.owner_id FROM evidence_connection AS k
WHERE EXISTS (
    SELECT FROM evidence_blob AS b
    WHERE b.owner_id = k.owner_id AND b.connection_id = k.connection_id
)
"""
DELETE_CHANGES = """
DELETE FROM evidence_recordchange WHERE owner_id = %s AND connection_id = %s AND seq IN (
    SELECT x.seq FROM evidence_recordchange x
    WHERE x.owner_id = %s AND x.connection_id = %s AND x.seq <= %s ORDER BY x.seq LIMIT %s
)
"""
DELETE_ORPHANS = """
DELETE FROM evidence_blob b
WHERE b.owner_id = %s AND b.connection_id = %s AND b.created_at < %s AND NOT EXISTS (
    SELECT FROM evidence_record r
    WHERE r.owner_id = b.owner_id AND r.connection_id = b.connection_id AND r.stream = b.stream
        AND r.record_key = b.record_key AND r.data->%s->>'blob_id' = b.blob_id
)
RETURNING b.blob_id
"""
DELETE_CHUNKS = """
DELETE FROM evidence_blobchunk WHERE owner_id = %s AND connection_id = %s AND blob_id = ANY(%s)
"""


def prune_changes(*, kept_since: datetime) -> int:
    """Delete changes before ``kept_since`` and return their number. Older bookmarks expire."""
    deleted_changes = 0
    for connection_id in _connection_ids():
        seq = _advance_pruned_seq(connection_id, kept_since)
        while deleted := _delete_changes(connection_id, seq):
            deleted_changes += deleted
    return deleted_changes


def prune_orphans(*, unused_since: datetime) -> int:
    """Delete blobs stored before ``unused_since`` that no record references; return their number."""
    deleted = 0
    for connection_id in _connection_ids():
        with transaction.atomic(), connection.cursor() as cursor:
            lock_connection(connection_id)
            cursor.execute(
                DELETE_ORPHANS, [current_owner(), connection_id, unused_since, BLOB_REFERENCE]
            )
            blob_ids = [blob_id for (blob_id,) in cursor]
            cursor.execute(DELETE_CHUNKS, [current_owner(), connection_id, blob_ids])
        deleted += len(blob_ids)
    return deleted


def owners_with_old_changes(kept_since: datetime) -> list[str]:
    """Return the owners of whom ``prune_changes`` deletes something. One query across owners."""
    return select_owners(OWNERS_WITH_OLD_CHANGES, [kept_since - PRUNE_MARGIN])


def owners_with_blobs() -> list[str]:
    return select_owners(OWNERS_WITH_BLOBS)


def _connection_ids() -> list[str]:
    return list(
        Connection.unscoped.order_by("connection_id").values_list("connection_id", flat=True)
    )


def _advance_pruned_seq(connection_id: str, kept_since: datetime) -> int:
    """Tell readers which changes expire, and return the latest of their numbers."""
    with transaction.atomic(), connection.cursor() as cursor:
        lock_connection(connection_id)
        times = kept_since, kept_since - PRUNE_MARGIN
        cursor.execute(ADVANCE_PRUNED_SEQ, (*times, current_owner(), connection_id))
        [seq] = cursor.fetchone() or [0]
        return int(seq)


def _delete_changes(connection_id: str, seq: int) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        ids = [current_owner(), connection_id]
        cursor.execute(DELETE_CHANGES, [*ids, *ids, seq, PRUNE_BATCH_SIZE])
        return int(cursor.rowcount)
