"""Taking records away: one, a stream, or a connection with everything it holds."""

from collections.abc import Iterable
from datetime import datetime

from django.db import connection, transaction

from evidence.models.keyed import key_digest
from evidence.storing import passages, rows
from evidence.storing.changes import Changes
from evidence.storing.locking import hold_one
from evidence.storing.rows import Ref

RECORDS_AT_ONCE = 1_000

# What the ledger says of a record stays; whose pseudonym it was is gone for good.
FORGET_NAMES = """
DELETE FROM evidence_pseudonym WHERE connection_id = %s AND stream = %s AND record_key = ANY(%s)
"""

# A hash of an erased value could still be held against a guess by whoever has the secret.
FORGET_VALUES = """
UPDATE evidence_recordchange SET before = coalesce((
    SELECT jsonb_object_agg(b.field, CASE b.hash WHEN 'null' THEN b.hash ELSE '""' END)
    FROM jsonb_each(before) AS b(field, hash)
), '{}')
WHERE connection_id = %s AND stream = %s AND record_key = ANY(%s) AND before IS NOT NULL
"""
SUPPRESS = """
INSERT INTO evidence_suppression (connection_id, stream, key_digest, erased_at)
SELECT %s, %s, k.digest, %s FROM unnest(%s::bytea[]) AS k(digest) ON CONFLICT DO NOTHING
"""
# In this order: what points at a row goes before it. All of them have a connection_id.
TABLES = (
    "evidence_blobchunk",
    "evidence_blob",
    "evidence_searchtext",
    "evidence_recordchange",
    "evidence_record",
    "evidence_suppression",
    "evidence_pseudonym",
    "evidence_streamstate",
    "evidence_importreceipt",
    "evidence_importchoice",
    "evidence_importrun",
    "evidence_connection",
)


def erase(
    connection_id: str, *, stream: str, record_key: str, suppress: bool, now: datetime
) -> bool:
    """Takes away one record with its blobs and leaves a tombstone; whether there was one.

    With ``suppress`` it stays away: imports skip it from now on, and what its changes still said
    of its values is forgotten. Raises ``ConnectionNotFound``.
    """
    ref = Ref(connection_id, stream, record_key)
    with transaction.atomic():
        existed = _delete([ref], now=now) == 1
        if suppress:
            _suppress([ref], now)
    return existed


def erase_stream(connection_id: str, *, stream: str, now: datetime, suppress: bool = False) -> int:
    """Takes away every record of a stream, each with a tombstone; how many there were. Batch by
    batch: a run that was cut short is completed by another. ``suppress`` as for one; a record
    that the stream did not hold may still come. Raises ``ConnectionNotFound``."""
    erased = 0
    while refs := _some(connection_id, stream):
        with transaction.atomic():
            erased += _delete(refs, now=now)
            if suppress:
                _suppress(refs, now)
    return erased


def erase_connection(connection_id: str) -> int:
    """Takes away a connection, its records, their history and its suppression list; how many
    records there were. No tombstones: nobody can ask for them any more. Raises
    ``ConnectionNotFound``."""
    deleted: dict[str, int] = {}
    with transaction.atomic():
        hold_one(connection_id)
        passages.forget_streams(connection_id)
        with connection.cursor() as cursor:
            for table in TABLES:
                cursor.execute(f"DELETE FROM {table} WHERE connection_id = %s", [connection_id])  # noqa: S608 - one of TABLES
                deleted[table] = cursor.rowcount
    return deleted["evidence_record"]


def _delete(refs: Iterable[Ref], *, now: datetime) -> int:
    """Deletes those of some records of one connection that exist, inside a transaction."""
    refs = list(refs)
    held = hold_one(refs[0].connection_id)
    changes = Changes({held.connection_id: held}, now, rows.states(refs))
    existing = list(changes.states)
    for ref in existing:
        changes.delete(ref, emitted_at=None)
    changes.save()
    with connection.cursor() as cursor:
        for stream in {ref.stream for ref in refs}:
            keys = [ref.record_key for ref in refs if ref.stream == stream]
            cursor.execute(FORGET_NAMES, [held.connection_id, stream, keys])
    return len(existing)


def _some(connection_id: str, stream: str) -> list[Ref]:
    with transaction.atomic():
        hold_one(connection_id)
        return list(rows.page(connection_id, stream, after="", limit=RECORDS_AT_ONCE))


def _suppress(refs: list[Ref], now: datetime) -> None:
    """Keeps records of one stream of one connection away."""
    connection_id, stream, _ = refs[0]
    keys = [ref.record_key for ref in refs]
    digests = [key_digest(key, connection_id=connection_id, stream=stream) for key in keys]
    with connection.cursor() as cursor:
        cursor.execute(FORGET_VALUES, [connection_id, stream, keys])
        cursor.execute(SUPPRESS, [connection_id, stream, now, digests])
