"""Erase records, streams and connections in bounded transactions.

Every transaction locks the connection. ``evidence.erasure`` combines these steps into orders that
can be resumed after an interruption.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection, transaction

from evidence.declarations.declaration import StreamDeclaration
from evidence.models.owners import current_owner
from evidence.models.sources import load_declarations
from evidence.write import rows, vector_table
from evidence.write.change_set import ChangeSet
from evidence.write.connection_erasure import delete_connection, delete_some_rows
from evidence.write.locks import LockedConnection, lock_connection
from evidence.write.rows import RecordId
from evidence.write.suppression import suppress_keys, suppress_twins

BATCH_SIZE = 200

# Ledger entries remain, but nothing links their digests to the record any more.
DELETE_LINKS = "DELETE FROM evidence_disclosedrecord"
# Wait for answers that show one of the records for the first time, so that their entries are seen.
LOCK_RECORDS = "SELECT FROM evidence_record"
DELETE_CHANGES = "DELETE FROM evidence_recordchange"

# The name of an undeclared field is personal data itself.
CLEAR_UNDECLARED_NAMES = """
UPDATE evidence_recordchange SET changed = ARRAY(
    SELECT name FROM unnest(changed) AS name WHERE name = ANY(%s)
)
"""
BY_KEYS = " WHERE owner_id = %s AND connection_id = %s AND stream = %s AND record_key = ANY(%s)"
# Only records that a client has seen need a tombstone. Token ``signed-in`` is the owner's own pages.
HAS_TRACES = f"""
SELECT r.record_key FROM evidence_disclosedrecord r {BY_KEYS} AND EXISTS (
    SELECT FROM evidence_disclosure d
    WHERE d.owner_id = r.owner_id AND d.record_digests @> ARRAY[r.digest] AND d.token_id <> 'signed-in')
UNION SELECT record_key FROM evidence_recordchange {BY_KEYS} AND kind = 'd'
"""  # noqa: S608 - a constant
COUNT_ROWS = {
    "search texts": "SELECT count(*) FROM evidence_searchtext",
    "files": "SELECT count(*) FROM evidence_blob",
    "vectors": "SELECT count(*) FROM evidence_passage",
}


@dataclass(frozen=True, slots=True)
class ErasureCounts:
    """Number of rows removed and deliberately kept, by kind."""

    removed: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)


def delete_record(
    connection_id: str, *, stream: str, record_key: str, suppress: bool, now: datetime
) -> bool:
    """Erase one record with its blobs, and leave a tombstone. Returns whether it existed.

    ``suppress`` also clears names of undeclared fields from its history and makes imports skip it. Raises
    ``ConnectionNotFound``.
    """
    ref = RecordId(connection_id, stream, record_key)
    with transaction.atomic():
        locked = lock_connection(connection_id)
        existed = bool(_delete(locked, [ref], suppress=suppress, now=now))
        if suppress:
            _clear_undeclared_names(locked, stream, [record_key])
            suppress_keys([ref], now)
    return existed


def delete_stream(connection_id: str, *, stream: str, now: datetime, suppress: bool = False) -> int:
    """Erase every record of a stream with a tombstone each, in batches. Returns their number.

    ``suppress`` is as for ``erase_record``; other records can still be imported. Call again after
    an interruption. Raises ``ConnectionNotFound``.
    """
    erased = 0
    while True:
        with transaction.atomic():
            locked = lock_connection(connection_id)
            refs = rows.record_ids(connection_id, stream, limit=BATCH_SIZE)
            if not refs:
                return erased
            erased += len(_delete(locked, refs, suppress=suppress, now=now))
            if suppress:
                _clear_undeclared_names(locked, stream, [ref.record_key for ref in refs])
                suppress_keys(refs, now)


def erase_connection(connection_id: str) -> int:
    """Erase a connection with everything in it, without tombstones. Returns the number of records.

    Raises ``ConnectionNotFound``.
    """
    removed: Counter[str] = Counter()
    while counts := delete_some_rows(connection_id):
        removed += counts
    return (removed + delete_connection(connection_id))["records"]


def erase_records(
    connection_id: str, stream: str, keys: list[str], *, tombstones: bool, now: datetime
) -> ErasureCounts:
    """Erase records of one stream for good, inside a transaction, whether or not they exist.

    Without ``tombstones``, clients are not notified and no key is kept. Raises
    ``ConnectionNotFound``.
    """
    refs = [RecordId(connection_id, stream, key) for key in keys]
    locked = lock_connection(connection_id)
    _execute(LOCK_RECORDS, connection_id, stream, keys, condition=" FOR UPDATE")
    counts = ErasureCounts(_count_rows(connection_id, stream, keys))
    seen = _keys_with_traces(connection_id, stream, keys) if tombstones else set()
    existing = _delete(locked, refs, suppress=True, now=now, counts=counts)
    rows.delete_blobs(refs)
    _clear_undeclared_names(locked, stream, keys)
    suppress_keys(refs, now)
    unseen = [key for key in keys if key not in seen]
    counts.removed["history entries"] += _execute(DELETE_CHANGES, connection_id, stream, unseen)
    counts.removed["records"] += len(existing)
    counts.kept["tombstones"] += len(seen)
    return counts


def _delete(
    locked: LockedConnection,
    refs: Iterable[RecordId],
    *,
    suppress: bool,
    now: datetime,
    counts: ErasureCounts | None = None,
) -> list[RecordId]:
    """Delete existing records of one connection, inside a transaction, and return their ids.

    ``suppress``: imports also skip the same records of other formats.
    """
    refs = list(refs)
    changes = ChangeSet({locked.connection_id: locked}, now, rows.stored_records(refs))
    existing = list(changes.records)
    for stream in {ref.stream for ref in existing} if suppress else ():
        erased = {ref: row.data for ref, row in changes.records.items() if ref.stream == stream}
        suppress_twins(erased, _twin_fields(locked, stream), now)
    for ref in existing:
        changes.delete(ref, emitted_at=None)
    changes.save()
    for stream in {ref.stream for ref in refs}:
        keys = [ref.record_key for ref in refs if ref.stream == stream]
        links = _execute(DELETE_LINKS, locked.connection_id, stream, keys)
        if counts is not None:
            counts.removed["names in the ledger"] += links
    return existing


def _count_rows(connection_id: str, stream: str, keys: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for kind, statement in COUNT_ROWS.items():
            if kind == "vectors" and not vector_table.exists():
                continue
            cursor.execute(statement + BY_KEYS, [current_owner(), connection_id, stream, keys])
            counts[kind] = cursor.fetchone()[0]
    return counts


def _keys_with_traces(connection_id: str, stream: str, keys: list[str]) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(HAS_TRACES, [current_owner(), connection_id, stream, keys] * 2)
        return {key for (key,) in cursor}


def _clear_undeclared_names(locked: LockedConnection, stream: str, keys: list[str]) -> None:
    _execute(
        CLEAR_UNDECLARED_NAMES,
        locked.connection_id,
        stream,
        keys,
        condition=" AND changed IS NOT NULL",
        values=[_declared_fields(locked, stream)],
    )


def _declared_fields(locked: LockedConnection, stream: str) -> list[str]:
    declared = _declared_stream(locked, stream)
    return list(declared.fields) if declared else []


def _twin_fields(locked: LockedConnection, stream: str) -> tuple[str, ...]:
    declared = _declared_stream(locked, stream)
    return declared.twin_fields if declared else ()


def _declared_stream(locked: LockedConnection, stream: str) -> StreamDeclaration | None:
    if locked.declaration_id is None:
        return None
    declarations = load_declarations([locked.declaration_id])
    return declarations[locked.declaration_id].declaration.streams.get(stream)


def _execute(
    statement: str,
    connection_id: str,
    stream: str,
    keys: Collection[str],
    *,
    condition: str = "",
    values: Sequence[list[str]] = (),
) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            statement + BY_KEYS + condition,
            [*values, current_owner(), connection_id, stream, list(keys)],
        )
        return int(cursor.rowcount)
