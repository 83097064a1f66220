"""Erase records, streams, connections and owners in bounded transactions.

Every transaction locks the connection. ``evidence.erasure`` combines these steps into orders that
can be resumed after an interruption.

A connection is revoked first, so that nobody reads or writes it, and its own row is deleted last,
so that an interrupted deletion can be resumed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection, transaction

from evidence.declarations.declaration import StreamDeclaration
from evidence.models.connections import Connection, EmbeddedStream
from evidence.models.owners import Owner, current_owner
from evidence.models.sources import Source, SourceDeclaration, load_declarations
from evidence.write import app_data, rows, vectors
from evidence.write.batches import ChangeSet
from evidence.write.locks import LockedConnection, lock_connection
from evidence.write.rows import RecordId
from evidence.write.stored_keys import suppress_keys, suppress_twins

# In foreign key order. Every table has a connection_id, the only partition key in use, so a ctid is
# unique among the rows of one connection.
TABLES: Mapping[str, str] = {
    "evidence_blobchunk": "pieces of files",
    "evidence_blob": "files",
    "evidence_passage": "vectors",
    "evidence_searchtext": "search texts",
    "evidence_recordchange": "history entries",
    "evidence_record": "records",
    "evidence_suppression": "entries of the list of erased records",
    "evidence_disclosedrecord": "names in the ledger",
    "evidence_retention": "retention periods",
    "evidence_streamstate": "stream counters",
    "evidence_collectorstate": "collector states",
    "evidence_watchedstream": "followed streams",
    "evidence_event": "events",
}


def connection_tables() -> dict[str, str]:
    """Return the tables of connections, of evidence and of other apps, and the kinds of their rows."""
    return {**app_data.connection_tables(), **TABLES}


DELETE_BATCH_SIZE = 5_000
CHUNK_BATCH_SIZE = 200
"""Chunks have 256 KiB each."""

DELETE_ALL = "DELETE FROM {table} WHERE owner_id = %s AND connection_id = %s"
DELETE_SOME = """
DELETE FROM {table} WHERE owner_id = %s AND connection_id = %s AND ctid = ANY(ARRAY(
    SELECT ctid FROM {table} WHERE owner_id = %s AND connection_id = %s LIMIT %s
))
"""
DELETE_ADMIN_LOG = """
DELETE FROM django_admin_log l USING django_content_type t
WHERE t.id = l.content_type_id AND t.app_label = 'evidence' AND t.model = 'connection'
    AND l.object_id = %s
"""


def delete_some_rows(connection_id: str) -> Counter[str]:
    """Delete some rows of a connection and return their number by kind; the first call revokes it.

    Empty when only the connection itself is left. Raises ``ConnectionNotFound``.
    """
    key = [current_owner(), connection_id]
    for table, kind in connection_tables().items():
        with transaction.atomic():
            _revoke(connection_id)
            if table == "evidence_passage":
                EmbeddedStream.unscoped.filter(connection_id=connection_id).delete()
                if not vectors.exists():
                    continue
            limit = CHUNK_BATCH_SIZE if table == "evidence_blobchunk" else DELETE_BATCH_SIZE
            with connection.cursor() as cursor:
                cursor.execute(DELETE_SOME.format(table=table), [*key, *key, limit])
                if cursor.rowcount:
                    return Counter({kind: cursor.rowcount})
    return Counter()


def delete_connection(connection_id: str) -> Counter[str]:
    """Delete the connection itself, and rows added since ``delete_some_rows`` found none.

    Raises ``ConnectionNotFound``.
    """
    removed: Counter[str] = Counter()
    key = [current_owner(), connection_id]
    with transaction.atomic(), connection.cursor() as cursor:
        _revoke(connection_id)
        vectors.delete_stream_vectors(connection_id)
        for table, kind in connection_tables().items():
            if table != "evidence_passage":
                cursor.execute(DELETE_ALL.format(table=table), key)
                removed[kind] += cursor.rowcount
        cursor.execute(DELETE_ADMIN_LOG, [connection_id])
        cursor.execute(DELETE_ALL.format(table="evidence_connection"), key)
        for data in app_data.registered():
            data.connection_deleted()
    removed["connections"] += 1
    return +removed


def revoke_connections(owner_id: str) -> list[str]:
    """Revoke every connection of an owner, and return their ids."""
    connections = Connection.unscoped.filter(owner_id=owner_id)
    connections.update(status=Connection.Status.REVOKED)
    return list(connections.order_by("pk").values_list("pk", flat=True))


def owner_account_id(owner_id: str) -> int | None:
    """Return the id of the account that the owner signs in with."""
    return Owner.unscoped.values_list("user_id", flat=True).get(pk=owner_id)


@transaction.atomic
def delete_owner_data(owner_id: str) -> Counter[str]:
    """Delete an owner's rows other than connections and grants.

    The owner's row stays, without personal data, because the ledger and receipts refer to it.
    """
    sources = Source.unscoped.filter(owner_id=owner_id)
    sources.update(current_declaration=None)
    removed = Counter(
        {
            "declarations": SourceDeclaration.unscoped.filter(source__in=sources).delete()[0],
            "sources": sources.delete()[0],
        }
    )
    Owner.unscoped.filter(pk=owner_id).update(user=None, display_name="Owner")
    return +removed


def _revoke(connection_id: str) -> None:
    lock_connection(connection_id)
    Connection.unscoped.filter(connection_id=connection_id).update(status=Connection.Status.REVOKED)


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


def delete_stream(connection_id: str, *, stream: str, now: datetime) -> int:
    """Erase every record of a stream with a tombstone each, in batches. Returns their number.

    Call again after an interruption. Raises ``ConnectionNotFound``.
    """
    erased = 0
    while True:
        with transaction.atomic():
            locked = lock_connection(connection_id)
            refs = rows.record_ids(connection_id, stream, limit=BATCH_SIZE)
            if not refs:
                return erased
            erased += len(_delete(locked, refs, suppress=False, now=now))


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
            if kind == "vectors" and not vectors.exists():
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
