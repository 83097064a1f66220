"""SQL that reads, inserts and deletes records and stream counters.

Writers lock the connection and know which rows exist, so there is no staging table and no upsert:
new rows are copied into their table, and a replaced row is deleted first.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db import connection

from evidence.models.owners import current_owner
from evidence.write.copy_format import copy_binary_rows, copy_rows
from evidence.write.derivation import StoredRecord

RECORD_COLUMNS = (
    "evidence_record (owner_id, connection_id, stream, record_key, data, sort_key, consent_time, numbers,"
    " times, words, link_1, link_2, link_3, emitted_at, field_emitted, change_seq)"
)
CHANGE_COLUMNS = (
    "evidence_recordchange (owner_id, connection_id, seq, stream, record_key, kind, changed,"
    " consent_time_before, recorded_at)"
)
SEARCH_COLUMNS = (
    "evidence_searchtext (owner_id, connection_id, stream, record_key, terms, word_order, authored_at,"
    " analyser)"
)

BY_KEYS = "WHERE owner_id = %s AND connection_id = %s AND stream = %s AND record_key = ANY(%s)"
SELECT_RECORDS = """
SELECT record_key, data::text, emitted_at, field_emitted::text, consent_time, change_seq
FROM evidence_record
"""
SELECT_KEYS = """
SELECT record_key FROM evidence_record WHERE owner_id = %s AND connection_id = %s AND stream = %s
    AND (%s::timestamptz IS NULL OR coalesce(consent_time, emitted_at) < %s)
ORDER BY record_key LIMIT %s
"""
SELECT_KEYS_BELOW = """
-- Select the given keys, and the keys that begin with one and a dot; a slash is the next character.
-- Parameters: the keys, owner id, connection id, stream.
SELECT r.record_key FROM unnest(%s::text[]) AS k(key) JOIN evidence_record AS r
    ON r.record_key = k.key OR r.record_key > k.key || '.' AND r.record_key < k.key || '/'
WHERE r.owner_id = %s AND r.connection_id = %s AND r.stream = %s
"""
AFTER_KEY = (
    "WHERE owner_id = %s AND connection_id = %s AND stream = %s AND record_key > %s"
    " ORDER BY record_key LIMIT %s"
)


class RecordId(NamedTuple):
    """The primary key of a record."""

    connection_id: str
    stream: str
    record_key: str


def stored_records(refs: Iterable[RecordId]) -> dict[RecordId, StoredRecord]:
    """Return the current version of each record that exists."""
    records: dict[RecordId, StoredRecord] = {}
    for (connection_id, stream), keys in _group_keys(refs):
        records |= _fetch_records(connection_id, stream, SELECT_RECORDS + BY_KEYS, (keys,))
    return records


def load_page(
    connection_id: str, stream: str, *, after: str, limit: int
) -> dict[RecordId, StoredRecord]:
    """Return the next records of a stream in key order; ``after=""`` starts at the beginning."""
    return _fetch_records(connection_id, stream, SELECT_RECORDS + AFTER_KEY, (after, limit))


def record_ids(
    connection_id: str, stream: str, *, limit: int, before: datetime | None = None
) -> list[RecordId]:
    """Return ids of up to ``limit`` records of a stream, in key order.

    ``before`` keeps records whose consent time, or else emitted time, is earlier.
    """
    with connection.cursor() as cursor:
        cursor.execute(SELECT_KEYS, [current_owner(), connection_id, stream, before, before, limit])
        return [RecordId(connection_id, stream, key) for (key,) in cursor]


def ids_below(parents: Iterable[RecordId]) -> Iterator[RecordId]:
    """Yield the ids of stored records with these keys, or keys that begin with one and a dot."""
    with connection.cursor() as cursor:
        for (connection_id, stream), keys in _group_keys(parents):
            cursor.execute(SELECT_KEYS_BELOW, [keys, current_owner(), connection_id, stream])
            for (key,) in cursor:
                yield RecordId(connection_id, stream, key)


def _fetch_records(
    connection_id: str, stream: str, statement: str, values: tuple[Any, ...]
) -> dict[RecordId, StoredRecord]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [current_owner(), connection_id, stream, *values])
        return {
            RecordId(connection_id, stream, key): StoredRecord(
                data=orjson.loads(text),
                emitted_at=emitted_at,
                field_emitted=orjson.loads(field_emitted) if field_emitted else {},
                consent_time=consent_time,
                change_seq=seq,
            )
            for key, text, emitted_at, field_emitted, consent_time, seq in cursor
        }


def delete_records(refs: Iterable[RecordId]) -> None:
    _delete("evidence_record", refs)


def delete_search_texts(refs: Iterable[RecordId]) -> None:
    _delete("evidence_searchtext", refs)


def delete_blobs(refs: Iterable[RecordId]) -> None:
    """Delete the blobs of records, and their chunks."""
    refs = list(refs)
    with connection.cursor() as cursor:
        for (connection_id, stream), keys in _group_keys(refs):
            cursor.execute(
                "DELETE FROM evidence_blobchunk c USING evidence_blob b"
                " WHERE c.owner_id = b.owner_id AND c.connection_id = b.connection_id"
                " AND c.blob_id = b.blob_id AND b.owner_id = %s AND b.connection_id = %s AND b.stream = %s AND b.record_key = ANY(%s)",
                [current_owner(), connection_id, stream, keys],
            )
    _delete("evidence_blob", refs)


def add_records(rows: Iterable[bytes]) -> None:
    copy_rows(RECORD_COLUMNS, rows)


def add_search_texts(rows: Iterable[bytes]) -> None:
    copy_binary_rows(SEARCH_COLUMNS, rows)


def add_changes(rows: Iterable[bytes]) -> None:
    copy_rows(CHANGE_COLUMNS, rows)


def _delete(table: str, refs: Iterable[RecordId]) -> None:
    with connection.cursor() as cursor:
        for (connection_id, stream), keys in _group_keys(refs):
            # `table` is a constant of this module.
            values: tuple[Any, ...] = (current_owner(), connection_id, stream, keys)
            cursor.execute(f"DELETE FROM {table} {BY_KEYS}", values)  # noqa: S608


def _group_keys(refs: Iterable[RecordId]) -> Iterator[tuple[tuple[str, str], list[str]]]:
    groups: Mapping[tuple[str, str], list[str]] = defaultdict(list)
    for connection_id, stream, key in refs:
        groups[connection_id, stream].append(key)
    yield from groups.items()


UPSERT_COUNTS = """
WITH counted AS (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::timestamptz[], %s::timestamptz[])
        AS n(connection_id, stream, added, latest, declared)
), known AS (
    UPDATE evidence_streamstate t
    SET record_count = t.record_count + n.added,
        latest_emitted_at = greatest(t.latest_emitted_at, n.latest),
        latest_declared_at = greatest(t.latest_declared_at, n.declared),
        updated_at = %s
    FROM counted n
    WHERE t.owner_id = %s AND t.connection_id = n.connection_id AND t.stream = n.stream
    RETURNING t.connection_id, t.stream
)
INSERT INTO evidence_streamstate
    (owner_id, connection_id, stream, record_count, latest_emitted_at, latest_declared_at, updated_at)
SELECT %s, n.connection_id, n.stream, n.added, n.latest, n.declared, %s
FROM counted n
WHERE NOT EXISTS (
    SELECT FROM known k WHERE k.connection_id = n.connection_id AND k.stream = n.stream
)
"""

RECOUNT_DECLARED = """
-- The latest time at which a declared field of one stream was emitted. Reads all its records.
UPDATE evidence_streamstate t
SET latest_declared_at = (
    SELECT max(coalesce((r.field_emitted ->> f.name)::timestamptz, r.emitted_at))
    FROM evidence_record r
    JOIN unnest(%(fields)s::text[]) AS f(name) ON r.data ? f.name
    WHERE r.owner_id = %(owner_id)s AND r.connection_id = %(connection_id)s AND r.stream = %(stream)s
)
WHERE t.owner_id = %(owner_id)s AND t.connection_id = %(connection_id)s AND t.stream = %(stream)s
"""


@dataclass(slots=True)
class CountChange:
    """Change of a stream's record count.

    ``added`` may be negative. ``latest`` is the latest emitted time, ``declared`` the latest one of a
    declared field; erasing does not lower them.
    """

    added: int = 0
    latest: datetime | None = None
    declared: datetime | None = None

    def note(self, added: int, *, emitted_at: datetime | None, is_declared: bool) -> None:
        self.added += added
        if emitted_at is None:
            return
        self.latest = max(self.latest or emitted_at, emitted_at)
        if is_declared:
            self.declared = max(self.declared or emitted_at, emitted_at)


def save_counts(counts: Mapping[tuple[str, str], CountChange], *, now: datetime) -> None:
    """Add changes to the counters, keyed by (connection_id, stream). Connections are locked."""
    with connection.cursor() as cursor:
        cursor.execute(
            UPSERT_COUNTS,
            [
                [connection_id for connection_id, _ in counts],
                [stream for _, stream in counts],
                [count.added for count in counts.values()],
                [count.latest for count in counts.values()],
                [count.declared for count in counts.values()],
                now,
                current_owner(),
                current_owner(),
                now,
            ],
        )


def recount_declared(connection_id: str, stream: str, fields: Collection[str]) -> None:
    """Set ``latest_declared_at`` after the declared fields of a stream changed."""
    asked: dict[str, str | list[str]] = {
        "owner_id": current_owner(), "connection_id": connection_id,
        "stream": stream, "fields": list(fields),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(RECOUNT_DECLARED, asked)
