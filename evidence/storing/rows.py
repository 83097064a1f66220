"""The statements over personal rows: what is there, taking away, putting in.

There is no stage and no upsert: whoever holds the connection knows which rows exist, so new rows
are copied straight into their table and a replaced row is deleted first.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db import connection

from evidence.storing.copy_format import copy_binary_rows, copy_rows
from evidence.storing.derivation import State

RECORDS = (
    "evidence_record (connection_id, stream, record_key, data, sort_key, consent_time, numbers,"
    " times, words, link_1, link_2, link_3, emitted_at, field_emitted, change_seq)"
)
CHANGES = (
    "evidence_recordchange (connection_id, seq, stream, record_key, kind, before,"
    " consent_time_before, recorded_at)"
)
SEARCH = "evidence_searchtext (connection_id, stream, record_key, terms, authored_at, analyser)"

# One connection and stream a statement, named in it, so that one partition is all it plans for.
NAMED = "WHERE connection_id = %s AND stream = %s AND record_key = ANY(%s)"
STATE = """
SELECT record_key, data::text, emitted_at, field_emitted::text, consent_time, change_seq
FROM evidence_record
"""
NAMES = """
SELECT record_key FROM evidence_record WHERE connection_id = %s AND stream = %s
    AND (%s::timestamptz IS NULL OR coalesce(consent_time, emitted_at) < %s)
ORDER BY record_key LIMIT %s
"""
NEXT = "WHERE connection_id = %s AND stream = %s AND record_key > %s ORDER BY record_key LIMIT %s"


class Ref(NamedTuple):
    """The name of a record."""

    connection_id: str
    stream: str
    record_key: str


def states(refs: Iterable[Ref]) -> dict[Ref, State]:
    """The records that exist, as they stand."""
    found: dict[Ref, State] = {}
    for (connection_id, stream), keys in _together(refs):
        found |= _states(connection_id, stream, STATE + NAMED, (keys,))
    return found


def page(connection_id: str, stream: str, *, after: str, limit: int) -> dict[Ref, State]:
    """The next records of a stream in the order of their keys; ``after`` "" is the beginning."""
    return _states(connection_id, stream, STATE + NEXT, (after, limit))


def names(
    connection_id: str, stream: str, *, limit: int, before: datetime | None = None
) -> list[Ref]:
    """Some records of a stream, in the order of their keys; ``before``: only those whose own time,
    or where they have none the time they came with, is earlier."""
    with connection.cursor() as cursor:
        cursor.execute(NAMES, [connection_id, stream, before, before, limit])
        return [Ref(connection_id, stream, key) for (key,) in cursor]


def _states(
    connection_id: str, stream: str, statement: str, values: tuple[Any, ...]
) -> dict[Ref, State]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [connection_id, stream, *values])
        return {
            Ref(connection_id, stream, key): State(
                data=orjson.loads(text),
                emitted_at=emitted_at,
                field_emitted=orjson.loads(field_emitted) if field_emitted else {},
                consent_time=consent_time,
                change_seq=seq,
            )
            for key, text, emitted_at, field_emitted, consent_time, seq in cursor
        }


def delete_records(refs: Iterable[Ref]) -> None:
    _delete("evidence_record", refs)


def delete_search(refs: Iterable[Ref]) -> None:
    _delete("evidence_searchtext", refs)


def delete_blobs(refs: Iterable[Ref]) -> None:
    """The blobs of records, and their pieces."""
    refs = list(refs)
    with connection.cursor() as cursor:
        for (connection_id, stream), keys in _together(refs):
            cursor.execute(
                "DELETE FROM evidence_blobchunk c USING evidence_blob b"
                " WHERE c.connection_id = b.connection_id AND c.blob_id = b.blob_id"
                " AND b.connection_id = %s AND b.stream = %s AND b.record_key = ANY(%s)",
                [connection_id, stream, keys],
            )
    _delete("evidence_blob", refs)


def add_records(rows: Iterable[bytes]) -> None:
    copy_rows(RECORDS, rows)


def add_search(rows: Iterable[bytes]) -> None:
    copy_binary_rows(SEARCH, rows)


def add_changes(rows: Iterable[bytes]) -> None:
    copy_rows(CHANGES, rows)


def _delete(table: str, refs: Iterable[Ref]) -> None:
    with connection.cursor() as cursor:
        for (connection_id, stream), keys in _together(refs):
            # `table` is one of four constants above.
            cursor.execute(f"DELETE FROM {table} {NAMED}", [connection_id, stream, keys])  # noqa: S608


def _together(refs: Iterable[Ref]) -> Iterator[tuple[tuple[str, str], list[str]]]:
    groups: Mapping[tuple[str, str], list[str]] = defaultdict(list)
    for connection_id, stream, key in refs:
        groups[connection_id, stream].append(key)
    yield from groups.items()


APPLY = """
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
    WHERE t.connection_id = n.connection_id AND t.stream = n.stream
    RETURNING t.connection_id, t.stream
)
INSERT INTO evidence_streamstate
    (connection_id, stream, record_count, latest_emitted_at, latest_declared_at, updated_at)
SELECT n.connection_id, n.stream, n.added, n.latest, n.declared, %s
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
    WHERE r.connection_id = %(connection_id)s AND r.stream = %(stream)s
)
WHERE t.connection_id = %(connection_id)s AND t.stream = %(stream)s
"""


@dataclass(slots=True)
class Count:
    """``added`` may be negative. ``latest`` is the latest time at which the source said anything
    new, ``declared`` the latest for a declared field; erasing a record does not take that back."""

    added: int = 0
    latest: datetime | None = None
    declared: datetime | None = None

    def note(self, added: int, *, emitted_at: datetime | None, declared: bool) -> None:
        self.added += added
        if emitted_at is None:
            return
        self.latest = max(self.latest or emitted_at, emitted_at)
        if declared:
            self.declared = max(self.declared or emitted_at, emitted_at)


def save_counts(counts: Mapping[tuple[str, str], Count], *, now: datetime) -> None:
    """Adds the counts by (connection_id, stream); the connections are held."""
    with connection.cursor() as cursor:
        cursor.execute(
            APPLY,
            [
                [connection_id for connection_id, _ in counts],
                [stream for _, stream in counts],
                [count.added for count in counts.values()],
                [count.latest for count in counts.values()],
                [count.declared for count in counts.values()],
                now,
                now,
            ],
        )


def recount_declared(connection_id: str, stream: str, fields: Collection[str]) -> None:
    """Set ``latest_declared_at`` after the declared fields of a stream changed."""
    asked: dict[str, str | list[str]] = {
        "connection_id": connection_id, "stream": stream, "fields": list(fields),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(RECOUNT_DECLARED, asked)
