"""Compute derived columns, and read, insert and delete rows of records and stream counters.

Derived columns depend only on data and target, so any thread can compute them, again whenever a
declaration changes.

Writers lock the connection and know which rows exist, so there is no staging table and no upsert:
new rows are copied into their table, and a replaced row is deleted first.
"""

import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import orjson
from django.db import connection
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.json import Jsonb
from psycopg.types.numeric import Int2
from typing_extensions import override

from evidence.declarations.declaration import TITLE_ROLE, StreamDeclaration, field_text
from evidence.declarations.storage_layout import (
    in_code_order,
    link_columns,
    owner_code,
    typed_columns,
)
from evidence.declarations.values import declared_time, sort_key
from evidence.models.owners import current_owner
from evidence.search.analysis import VERSION
from evidence.search.analysis.tsquery import EncodedLexemes, IndexedField, encode_lexemes
from evidence.write.targets import Target


class StoredRecord(NamedTuple):
    """The stored version of a record.

    ``field_emitted`` maps fields older than ``emitted_at`` to their own time in ISO format;
    ``change_seq`` is the number of the latest change.
    """

    data: Mapping[str, Any]
    emitted_at: datetime
    field_emitted: Mapping[str, str]
    consent_time: datetime | None
    change_seq: int


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the top-level fields that differ, including added and removed ones."""
    if _canonical(old) == _canonical(new):
        return []
    return [
        name
        for name in {**old, **new}
        if name not in old or name not in new or not json_equal(old[name], new[name])
    ]


def json_equal(left: object, right: object) -> bool:
    """Return whether two JSON values are equal in the sense of jsonb."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            json_equal(left[name], right[name]) for name in left
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def emitted_times(
    state: StoredRecord, *, data: Mapping[str, Any], changed: list[str], emitted_at: datetime
) -> tuple[datetime, dict[str, str]]:
    """Return ``emitted_at`` and ``field_emitted`` of a record updated to ``data``.

    Unchanged fields keep their times. ``emitted_at`` is the latest time of all fields, even if
    lines arrive out of order.
    """
    latest = max([emitted_at, *_unchanged_times(state, data, changed)])
    times = {name: state.field_emitted.get(name, _iso(state.emitted_at)) for name in data}
    times |= dict.fromkeys(set(changed) & data.keys(), _iso(emitted_at))
    row_time = _iso(latest)
    return latest, {name: time for name, time in times.items() if time != row_time}


def _unchanged_times(
    state: StoredRecord, data: Mapping[str, Any], changed: list[str]
) -> list[datetime]:
    unchanged = data.keys() - changed
    own = [
        datetime.fromisoformat(state.field_emitted[n])
        for n in unchanged & state.field_emitted.keys()
    ]
    return [*own, state.emitted_at] if unchanged - state.field_emitted.keys() else own


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _canonical(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


BODY_WEIGHT = 1.0
TITLE_WEIGHT = 2.0
"""A title describes a record better than its body does (design, section 6)."""


Row: TypeAlias = tuple[Any, ...]
"""The values of a row of a table, in the order of its columns."""


class Derived(NamedTuple):
    """Derived columns of a record.

    ``row`` ends with the links; ``search`` is the row of the search text, or None if the stream is not
    searchable.
    """

    consent_time: datetime | None
    row: Row
    search: Row | None


def derive(target: Target, *, key: str, data: Mapping[str, Any]) -> Derived:
    """Compute the columns of a record that do not depend on its history."""
    stream, layout = target.stream, target.layout
    consent_time = _consent_time(stream, data)
    typed = typed_columns(layout, data, fields=stream.fields)
    row = (
        target.owner_id,
        target.connection_id,
        stream.name,
        key,
        _jsonb(data),
        _sort_key(stream, data),
        consent_time,
        # psycopg dumps no lists of mixed types.
        [None if each is None else Decimal(each) for each in typed.numbers] or None,
        typed.times or None,
        typed.words or None,
        *link_columns(layout, data),
    )
    search = _search(target, key, data, consent_time) if layout["search"] else None
    return Derived(consent_time, row, search)


def record_row(derived: Derived, state: StoredRecord) -> Row:
    """Return the complete row of a record, in the column order of ``RECORD_COLUMNS``."""
    times = _jsonb(state.field_emitted) if state.field_emitted else None
    return (*derived.row, state.emitted_at, times, state.change_seq)


def _jsonb(value: Mapping[str, Any]) -> Jsonb:
    return Jsonb(value, dumps=orjson.dumps)


def _consent_time(stream: StreamDeclaration, data: Mapping[str, Any]) -> datetime | None:
    name = stream.consent_time_field
    return None if name is None else declared_time(stream.fields[name], data.get(name))


def _sort_key(stream: StreamDeclaration, data: Mapping[str, Any]) -> str | None:
    if stream.cursor_field is None:
        return None
    return sort_key(stream.fields[stream.cursor_field], value=data.get(stream.cursor_field))


def _search(target: Target, key: str, data: Mapping[str, Any], authored_at: datetime | None) -> Row:
    """Index every field that was ever searchable, because its code is never reused."""
    owner = owner_code(target.owner_id)
    fields = [
        IndexedField(owner + code, text, _weight(target.stream, field))
        for field, code in target.layout["search"].items()
        if (text := field_text(data.get(field)))
    ]
    codes = target.layout["search"].values()
    lexemes = encode_lexemes(fields, languages=target.languages, codes=len(codes))
    orders = [lexemes.orders.get(owner + code, b"") for code in in_code_order(codes)]
    return (
        target.owner_id,
        target.connection_id,
        target.stream.name,
        key,
        lexemes,
        orders,
        authored_at,
        Int2(VERSION),
    )


def _weight(stream: StreamDeclaration, field: str) -> float:
    declared = stream.fields.get(field)
    return TITLE_WEIGHT if declared and declared.role == TITLE_ROLE else BODY_WEIGHT


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


def add_records(rows: Iterable[Row]) -> None:
    copy_rows(RECORD_COLUMNS, rows)


def add_search_texts(rows: Iterable[Row]) -> None:
    copy_rows(SEARCH_COLUMNS, rows, is_binary=True)


def add_changes(rows: Iterable[Row]) -> None:
    copy_rows(CHANGE_COLUMNS, rows)


def copy_rows(columns: str, rows: Iterable[Row], *, is_binary: bool = False) -> None:
    """Copy rows into ``columns``, a constant ``table (columns)``; numbers need exact types in binary."""
    values = list(rows)
    if not values:
        return
    statement = f"COPY {columns} FROM STDIN" + " (FORMAT BINARY)" * is_binary
    # Django does not wrap the database errors of `copy`.
    with connection.wrap_database_errors, connection.cursor() as cursor:
        cursor.adapters.register_dumper(EncodedLexemes, _LexemesDumper)
        with cursor.copy(statement) as copy:
            for row in values:
                copy.write_row(row)


class _LexemesDumper(Dumper):
    """Encodes a tsvector without positions: PostgreSQL parses its text form much slower."""

    format = Format.BINARY
    oid = 3614

    @override
    def dump(self, lexemes: EncodedLexemes) -> bytes:
        return struct.pack(">i", lexemes.total) + lexemes.text.encode()


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
