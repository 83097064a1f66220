"""Read field slices, blobs and related records of visible records, and keep digests for the ledger."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from evidence.access.granted_streams import link_expression
from evidence.access.records import RECORD_COLUMNS, RecordKey, VisibleRecord, VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.access.sql import (
    BLOB_TABLES,
    SQL,
    ConnectionGroup,
    bytes_array,
    fetch_all,
    fetch_prepared,
    join_sql,
    owner_is,
    text_array,
    union_all,
    value_table,
)
from evidence.declarations.declaration import BLOB_REFERENCE, Field
from evidence.models.owners import current_owner


@dataclass(frozen=True, slots=True)
class FieldSlice:
    """A slice of a field: ``text`` starts at code point ``start_chars`` of ``total_chars``.

    ``json_type`` is the type of the value, None if there is no value; for any type but string,
    ``text`` is the value as JSON. ``size_bytes`` is the length in UTF-8, ``item_count`` the length of
    an array. ``authorship`` has the granted fields that show who wrote the record.
    """

    connection_id: str
    json_type: str | None
    item_count: int | None
    start_chars: int
    text: str
    total_chars: int
    size_bytes: int
    authorship: Mapping[str, Any]


# In a text of ASCII only, a code point is found at once instead of counted from the beginning.
SLICE_TEXT = (
    "CASE WHEN v.chars = octet_length(v.t)"
    " THEN convert_from(substring(convert_to(v.t, 'UTF8') FROM %s FOR %s), 'UTF8')"
    " ELSE substring(v.t FROM %s FOR %s) END"
)
SLICE_SIZES = SQL(
    ", v.chars, octet_length(v.t), v.a,"
    " CASE WHEN jsonb_typeof(v.j) = 'array' THEN jsonb_array_length(v.j) END FROM"
)


def field_slices(
    visible: VisibleRecords,
    record_key: str,
    field: Field,
    *,
    below: Sequence[str] = (),
    start: int = 0,
    length: int | None = None,
) -> list[FieldSlice]:
    """Return the slice from each connection that has the record, cut in the database. One query.

    ``below`` is the path of keys and indexes to a value inside the field. Without ``length``, the
    whole value is returned. Raises like ``shown_field`` if the field is not granted.
    """
    name = visible.shown_field(field.name, param="field").name
    part = SQL("v.t")
    if length is not None:
        part = SQL(SLICE_TEXT, (start + 1, length, start + 1, length))
    # OFFSET 0 prevents PostgreSQL from computing a large value once for each use; `||` decompresses.
    record = visible.key_query(record_key, SQL("r.connection_id, r.data || '{}'::jsonb AS data"))
    value = SQL("SELECT r.connection_id, r.data #> %s::text[] AS j, ", ([name, *below],))
    value += _authorship(visible) + SQL(" AS a FROM (SELECT r.* FROM (") + record
    value += SQL(") r OFFSET 0) r OFFSET 0")
    text = SQL("SELECT u.*, u.j #>> '{}' AS t FROM (") + value + SQL(") u OFFSET 0")
    sizes = SQL("SELECT u.*, char_length(u.t) AS chars FROM (") + text + SQL(") u OFFSET 0")
    statement = SQL("SELECT v.connection_id, jsonb_typeof(v.j), ") + part + SLICE_SIZES
    rows = fetch_prepared(statement + SQL(" (") + sizes + SQL(") v"))
    return [
        FieldSlice(
            connection_id=connection_id,
            json_type=json_type,
            item_count=items,
            start_chars=start if length is not None else 0,
            text=text or "",
            total_chars=total or 0,
            size_bytes=size or 0,
            authorship=orjson.loads(authorship),
        )
        for connection_id, json_type, text, total, size, authorship, items in rows
    ]


def _authorship(visible: VisibleRecords) -> SQL:
    """Return the fields that show who wrote the record, if every grant shows them."""
    names = [name for name in visible.stream.authorship if visible.shows(name)]
    pairs = join_sql(", ", [SQL("%s::text, r.data->%s", (name, name)) for name in names])
    return SQL("jsonb_build_object(") + pairs + SQL(")::text")


BLOB_COLUMNS = SQL(
    "b.connection_id, b.record_key, b.media_type, b.size_bytes, encode(b.sha256, 'hex')"
)
CHUNKS_OF_BLOB = (
    "evidence_blobchunk c JOIN evidence_blob b USING (owner_id, connection_id, blob_id)"
    " WHERE c.owner_id = %s AND c.connection_id = %s AND c.blob_id = %s AND encode(b.sha256, 'hex') = %s"
)


class BlobGone(Exception):  # noqa: N818 - the owner removed it; nothing failed
    """The blob was removed or replaced while it was being read."""


@dataclass(frozen=True, slots=True)
class VisibleBlob:
    """A blob that a visible record references. ``sha256`` is in hexadecimal digits."""

    visible: VisibleRecords
    connection: ConnectionFacts
    record_key: str
    blob_id: str
    media_type: str
    size_bytes: int
    sha256: str


def find_blobs(streams: Iterable[VisibleRecords], blob_id: str) -> list[VisibleBlob]:
    """Return the blob from each connection that shows it. One query."""
    showing = list(_streams_showing_blobs(streams))
    if not showing:
        return []
    where = [
        SQL(" AND b.blob_id = %s", (blob_id,)),
        SQL(" AND r.data->%s->>'blob_id' = b.blob_id", (BLOB_REFERENCE,)),
    ]
    branches = (
        visible.select(SQL(f"{number}, ") + BLOB_COLUMNS, where, source=BLOB_TABLES)
        for number, visible in enumerate(showing)
    )
    return [
        VisibleBlob(showing[n], showing[n].connection_for[connection_id], key, blob_id, *columns)
        for n, connection_id, key, *columns in fetch_all(union_all(branches))
    ]


def read_chunks(blob: VisibleBlob, *, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes from ``start`` up to ``end``, one chunk in memory at a time.

    One query to find the chunks, and one per chunk. Raises ``BlobGone``.
    """
    key = (current_owner(), blob.connection.connection_id, blob.blob_id, blob.sha256)
    statement = SQL(
        "SELECT c.position, c.starts, c.size FROM (SELECT c.position, octet_length(c.content) AS size,"
        " sum(octet_length(c.content)) OVER (ORDER BY c.position) - octet_length(c.content) AS starts"
        f" FROM {CHUNKS_OF_BLOB}) c"
        " WHERE c.starts < %s AND c.starts + c.size > %s ORDER BY c.position",
        (*key, end, start),
    )
    chunks = fetch_all(statement)
    if not chunks and start < end:
        raise BlobGone
    for position, starts, size in chunks:
        first, last = max(start - int(starts), 0), min(end - int(starts), size)
        yield _read_chunk(key, position, first=first, last=last)


def _read_chunk(key: tuple[str, ...], position: int, *, first: int, last: int) -> bytes:
    rows = fetch_all(
        SQL(
            f"SELECT substring(c.content FROM %s FOR %s) FROM {CHUNKS_OF_BLOB} AND c.position = %s",
            (first + 1, last - first, *key, position),
        )
    )
    if not rows:
        raise BlobGone
    return bytes(rows[0][0])


def _streams_showing_blobs(streams: Iterable[VisibleRecords]) -> Iterator[VisibleRecords]:
    """Yield each stream restricted to the grants that show the blob reference."""
    for visible in streams:
        granted = tuple(
            grant for grant in visible.granted if grant.terms.fields.allows(BLOB_REFERENCE)
        )
        if granted:
            yield VisibleRecords(visible.source, visible.stream, visible.layout, granted)


def fetch_one_related(
    child: VisibleRecords, keys: Iterable[RecordKey]
) -> dict[RecordKey, VisibleRecord]:
    """Return the visible records of these keys. One query, or none without keys."""
    branches = [
        SQL(f"SELECT {RECORD_COLUMNS} FROM ") + pairs + group.join_row(SQL("p.id"), "p.key")
        for group, pairs in _keys_by_group(child, frozenset(keys))
    ]
    if not branches:
        return {}
    rows = fetch_prepared(union_all(branches))
    return {
        RecordKey(record.connection.connection_id, record.record_key): record
        for record in map(child.project, rows)
    }


def fetch_many_related(
    child: VisibleRecords, foreign_key: str, parents: Iterable[RecordKey], *, limit: int
) -> Mapping[RecordKey, Sequence[VisibleRecord]]:
    """Return the first ``limit`` visible records of each parent, newest first in stream order.

    A record belongs to the parent whose key is in its ``foreign_key``. One query, or none without
    parents.
    """
    child.shown_field(foreign_key, param="expand")
    branches = [
        SQL("SELECT p.key AS parent, u.* FROM ")
        + pairs
        + SQL(" CROSS JOIN LATERAL (")
        + union_all(_sort_partitions(child, group, foreign_key, limit))
        + SQL(") u")
        for group, pairs in _keys_by_group(child, frozenset(parents))
    ]
    if not branches:
        return {}
    statement = SQL("SELECT u.* FROM (") + union_all(branches)
    statement += SQL(f") u ORDER BY {_order(child, 'u')}")
    related: dict[RecordKey, list[VisibleRecord]] = defaultdict(list)
    for parent, *row in fetch_prepared(statement):
        record = child.project(tuple(row))
        related[RecordKey(record.connection.connection_id, parent)].append(record)
    return {parent: records[:limit] for parent, records in related.items()}


def _sort_partitions(
    child: VisibleRecords, group: ConnectionGroup, foreign_key: str, limit: int
) -> Iterator[SQL]:
    """Yield the first records of a parent ``p`` with a sort key, then those without one.

    They are separate subqueries because the index provides the order of only one of them at a time.
    """
    sort_key_conditions = ["IS NOT NULL", "IS NULL"] if child.in_time_order else [None]
    for sort_key_condition in sort_key_conditions:
        rows = SQL(f"(SELECT {RECORD_COLUMNS} FROM evidence_record r WHERE ") + owner_is()
        rows += SQL("r.connection_id = p.id AND ")
        rows += link_expression(child, foreign_key) + SQL(" = p.key") + group.condition
        order = "r.record_key DESC"
        if sort_key_condition is not None:
            rows += SQL(f" AND r.sort_key {sort_key_condition}")
            order = f"r.sort_key DESC, {order}"
        yield rows + SQL(f" ORDER BY {order} LIMIT {int(limit)})")


def _order(child: VisibleRecords, table: str) -> str:
    if not child.in_time_order:
        return f"{table}.record_key DESC"
    return f"({table}.sort_key IS NULL), {table}.sort_key DESC, {table}.record_key DESC"


def _keys_by_group(
    child: VisibleRecords, keys: frozenset[RecordKey]
) -> Iterator[tuple[ConnectionGroup, SQL]]:
    """Yield groups of connections with keys of them as a table ``p``."""
    for group in child.groups:
        group_keys = sorted(key for key in keys if key.connection_id in group.connection_ids)
        if group_keys:
            yield group, value_table("p", {"id": "text", "key": "text"}, group_keys)


# SKIP LOCKED leaves out records that are being erased: their row here would outlive them.
ADD_DIGESTS = """
-- Keep the nonces of records that are disclosed for the first time, and return their digests; records
-- that do not exist any more are left out. Parameters: connection ids, streams, keys, nonces, digests,
-- owner id. One query per answer with such records.
INSERT INTO evidence_disclosedrecord (owner_id, connection_id, stream, record_key, nonce, digest)
SELECT r.owner_id, r.connection_id, r.stream, r.record_key, n.nonce, n.digest
FROM unnest(%s::text[], %s::text[], %s::text[], %s::bytea[], %s::bytea[])
    AS n(connection_id, stream, record_key, nonce, digest)
JOIN evidence_record AS r ON r.owner_id = %s AND r.connection_id = n.connection_id
    AND r.stream = n.stream AND r.record_key = n.record_key
ORDER BY r.connection_id, r.stream, r.record_key
FOR KEY SHARE OF r SKIP LOCKED
ON CONFLICT DO NOTHING
RETURNING connection_id, stream, record_key, digest
"""


def add_digests(
    keys: Sequence[tuple[str, str, str]], nonces: Sequence[bytes], digests: Sequence[bytes]
) -> Sequence[tuple[Any, ...]]:
    """Keep the nonces and digests of records, for the ledger. One query.

    Returns connection id, stream, key and digest of those that exist and had none.
    """
    columns = [text_array(key[column] for key in keys) for column in range(3)]
    columns += [bytes_array(nonces), bytes_array(digests)]
    return fetch_prepared(SQL(ADD_DIGESTS, (*columns, current_owner())))
