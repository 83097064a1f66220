"""Taking records away: one, a stream, or a connection with everything it holds.

Whoever erases holds the connection as every writer does, and takes a bounded number of rows in each
transaction. ``evidence.erasure`` makes orders of these steps that survive an interruption.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection, transaction

from evidence.models.digests import key_digest
from evidence.models.sources import declared
from evidence.storing import rows, vector_table
from evidence.storing.change_set import Changes
from evidence.storing.connection_erasure import forget_connection, forget_some
from evidence.storing.locks import Held, hold_to_erase
from evidence.storing.rows import Ref

RECORDS_AT_ONCE = 200

# What the ledger says of a record stays; whose pseudonym it was is gone for good.
FORGET_NAMES = "DELETE FROM evidence_pseudonym"
FORGET_CHANGES = "DELETE FROM evidence_recordchange"

# A hash of an erased value could still be held against a guess by whoever has the secret, and the
# name of a field that nobody declared is the record's own word.
FORGET_VALUES = """
UPDATE evidence_recordchange SET before = coalesce((
    SELECT jsonb_object_agg(b.field, CASE b.hash WHEN 'null' THEN b.hash ELSE '""' END)
    FROM jsonb_each(before) AS b(field, hash) WHERE b.field = ANY(%s)
), '{}')
"""
OF_THESE = " WHERE connection_id = %s AND stream = %s AND record_key = ANY(%s)"
SUPPRESS = """
INSERT INTO evidence_suppression (connection_id, stream, key_digest, erased_at)
SELECT %s, %s, k.digest, %s FROM unnest(%s::bytea[]) AS k(digest) ON CONFLICT DO NOTHING
"""
# Whoever was never shown a record does not wait to hear that it is gone; what the owner looked at on
# their own pages (token ``signed-in``) nobody else has.
HEARD_OF = f"""
SELECT p.record_key FROM evidence_pseudonym p {OF_THESE} AND EXISTS (
    SELECT FROM evidence_disclosure d
    WHERE d.pseudonyms @> ARRAY[p.pseudonym] AND d.token_id <> 'signed-in')
UNION SELECT record_key FROM evidence_recordchange {OF_THESE} AND kind = 'd'
"""  # noqa: S608 - a constant
COUNTS = {
    "search texts": "SELECT count(*) FROM evidence_searchtext",
    "files": "SELECT count(*) FROM evidence_blob",
    "vectors": "SELECT count(*) FROM evidence_passage",
}


@dataclass(frozen=True, slots=True)
class Tally:
    """How many rows of each kind went, and how many stay on purpose."""

    removed: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)


def erase(
    connection_id: str, *, stream: str, record_key: str, suppress: bool, now: datetime
) -> bool:
    """Takes away one record with its blobs and leaves a tombstone; whether there was one.

    With ``suppress`` it stays away: imports skip it from now on, and what its changes still said
    of its values is forgotten. Raises ``ConnectionNotFound``.
    """
    ref = Ref(connection_id, stream, record_key)
    with transaction.atomic():
        held = hold_to_erase(connection_id)
        existed = bool(_delete(held, [ref], now=now))
        if suppress:
            _forget_values(held, stream, [record_key])
            _suppress([ref], now)
    return existed


def erase_stream(connection_id: str, *, stream: str, now: datetime, suppress: bool = False) -> int:
    """Takes away every record of a stream, each with a tombstone; how many there were. Batch by
    batch: a run that was cut short is completed by another. ``suppress`` as for one; a record
    that the stream did not hold may still come. Raises ``ConnectionNotFound``."""
    erased = 0
    while True:
        with transaction.atomic():
            held = hold_to_erase(connection_id)
            refs = rows.names(connection_id, stream, limit=RECORDS_AT_ONCE)
            if not refs:
                return erased
            erased += len(_delete(held, refs, now=now))
            if suppress:
                _forget_values(held, stream, [ref.record_key for ref in refs])
                _suppress(refs, now)


def erase_connection(connection_id: str) -> int:
    """Takes away a connection, its records, their history and its suppression list; how many
    records there were. No tombstones: nobody can ask for them any more. Raises
    ``ConnectionNotFound``."""
    removed: Counter[str] = Counter()
    while some := forget_some(connection_id):
        removed += some
    return (removed + forget_connection(connection_id))["records"]


def take_away(
    connection_id: str, stream: str, keys: list[str], *, tombstones: bool, now: datetime
) -> Tally:
    """Erases some records of one stream for good, whether or not they are there; inside a
    transaction. Without ``tombstones`` nobody who was shown one is told that it is gone, and not
    even its key stays. Raises ``ConnectionNotFound``."""
    refs = [Ref(connection_id, stream, key) for key in keys]
    held = hold_to_erase(connection_id)
    tally = Tally(_counted(connection_id, stream, keys))
    told = _heard_of(connection_id, stream, keys) if tombstones else set()
    existing = _delete(held, refs, now=now, tally=tally)
    rows.delete_blobs(refs)
    _forget_values(held, stream, keys)
    _suppress(refs, now)
    untold = [key for key in keys if key not in told]
    tally.removed["history entries"] += _run(FORGET_CHANGES, connection_id, stream, untold)
    tally.removed["records"] += len(existing)
    tally.kept["tombstones"] += len(told)
    return tally


def _delete(
    held: Held, refs: Iterable[Ref], *, now: datetime, tally: Tally | None = None
) -> list[Ref]:
    """Deletes those of some records of one connection that exist, inside a transaction."""
    refs = list(refs)
    changes = Changes({held.connection_id: held}, now, rows.states(refs))
    existing = list(changes.states)
    for ref in existing:
        changes.delete(ref, emitted_at=None)
    changes.save()
    for stream in {ref.stream for ref in refs}:
        keys = [ref.record_key for ref in refs if ref.stream == stream]
        names = _run(FORGET_NAMES, held.connection_id, stream, keys)
        if tally is not None:
            tally.removed["names in the ledger"] += names
    return existing


def _counted(connection_id: str, stream: str, keys: list[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for kind, statement in COUNTS.items():
            if kind == "vectors" and not vector_table.exists():
                continue
            cursor.execute(statement + OF_THESE, [connection_id, stream, keys])
            found[kind] = cursor.fetchone()[0]
    return found


def _heard_of(connection_id: str, stream: str, keys: list[str]) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(HEARD_OF, [connection_id, stream, keys] * 2)
        return {key for (key,) in cursor}


def _forget_values(held: Held, stream: str, keys: list[str]) -> None:
    _run(
        FORGET_VALUES,
        held.connection_id,
        stream,
        keys,
        more=" AND before IS NOT NULL",
        values=[_declared_fields(held, stream)],
    )


def _declared_fields(held: Held, stream: str) -> list[str]:
    if held.declaration_id is None:
        return []
    streams = declared([held.declaration_id])[held.declaration_id].declaration.streams
    return list(streams[stream].fields) if stream in streams else []


def _run(
    statement: str,
    connection_id: str,
    stream: str,
    keys: Collection[str],
    *,
    more: str = "",
    values: Sequence[list[str]] = (),
) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement + OF_THESE + more, [*values, connection_id, stream, list(keys)])
        return int(cursor.rowcount)


def _suppress(refs: Sequence[Ref], now: datetime) -> None:
    """Keeps records of one stream of one connection away."""
    connection_id, stream, _ = refs[0]
    digests = [
        key_digest(ref.record_key, connection_id=connection_id, stream=stream) for ref in refs
    ]
    with connection.cursor() as cursor:
        cursor.execute(SUPPRESS, [connection_id, stream, now, digests])
