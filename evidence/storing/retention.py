"""How long records are kept: a period for a connection, or for one stream of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction

from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection, StreamState
from evidence.models.erasures import Retention
from evidence.models.sources import declared
from evidence.storing import rows
from evidence.storing.locks import Held, hold_one

LONGEST_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class Due:
    """Records of a stream that are older than they are kept."""

    connection_id: str
    stream: str
    owner_id: str
    before: datetime


def keep_for(connection_id: str, *, days: int | None, stream: str = "", now: datetime) -> None:
    """Sets how long records are kept; None: for good. ``stream`` "" is every stream that has no
    period of its own. Raises ``ConnectionNotFound``, ``InvalidRequest``."""
    if days is not None and not 1 <= days <= LONGEST_DAYS:
        raise InvalidRequest(message=f"A period has 1 to {LONGEST_DAYS} days.", param="days")
    with transaction.atomic():
        held = hold_one(connection_id)
        if stream and days is not None:
            _require_stream(held, stream)
        known = Retention.unscoped.filter(connection_id=connection_id, stream=stream)
        if days is None:
            known.delete()
        else:
            Retention.unscoped.update_or_create(
                connection_id=connection_id, stream=stream, defaults={"days": days, "set_at": now}
            )


def _require_stream(connection: Held, stream: str) -> None:
    """A name that was mistyped would keep for good what its owner wants gone."""
    current = declared([connection.declaration_id or 0]).values()
    known = [name for each in current for name in each.declaration.streams]
    if stream not in {*known, *kept_for(connection.connection_id)}:
        raise InvalidRequest(
            message=f"There is no stream {stream}; there are {', '.join(known)}.", param="stream"
        )


def kept_for(connection_id: str) -> dict[str, int]:
    """stream -> days; "" for all others."""
    found = Retention.unscoped.filter(connection_id=connection_id).order_by("stream")
    return dict(found.values_list("stream", "days"))


def due(now: datetime) -> Sequence[Due]:
    """The streams that hold anything older than they may."""
    found = []
    for owned in Connection.unscoped.filter(
        pk__in=Retention.unscoped.values("connection_id")
    ).order_by("pk"):
        periods = kept_for(owned.pk)
        states = StreamState.unscoped.filter(connection=owned).order_by("stream")
        for stream in states.values_list("stream", flat=True):
            days = periods.get(stream, periods.get(""))
            if days is None:
                continue
            before = now - timedelta(days=days)
            if rows.names(owned.pk, stream, limit=1, before=before):
                found.append(Due(owned.pk, stream, owned.owner_id, before))
    return found


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
