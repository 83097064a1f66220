"""Read fields, files and relations of visible records, and keep the digests of shown ones."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from evidence.access.gate import Gate
from evidence.access.records import (
    ALL_COLUMNS,
    RecordKey,
    VisibleRecord,
    VisibleRecords,
    link_expression,
)
from evidence.access.scope import ConnectionFacts
from evidence.access.sql import (
    BLOB_TABLES,
    SQL,
    ConnectionGroup,
    bytes_array,
    fetch_all,
    fetch_prepared,
    fill,
    join_sql,
    text_array,
    union_all,
    value_table,
)
from evidence.declarations.declaration import BLOB_REFERENCE, Field
from evidence.errors import AmbiguousConnection, BlobNotFound, RangeNotSatisfiable
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


FIELD_SLICES: Final = """
-- A slice of one field, and its size, from each connection that has the record. Part: the record, with
-- connection_id and data. One query. OFFSET 0 prevents PostgreSQL from computing a large value once for each use.
SELECT v.connection_id, jsonb_typeof(v.j), {slice}, v.chars, octet_length(v.t), v.a,
    CASE WHEN jsonb_typeof(v.j) = 'array' THEN jsonb_array_length(v.j) END
FROM (
    SELECT u.*, char_length(u.t) AS chars FROM (
        SELECT u.*, u.j #>> '{}' AS t FROM (
            SELECT r.connection_id, r.data #> {path}::text[] AS j, {authorship} AS a
            FROM (SELECT r.* FROM ({record}) r OFFSET 0) r OFFSET 0
        ) u OFFSET 0
    ) u OFFSET 0
) v
"""
SLICE: Final = """
CASE WHEN v.chars = octet_length(v.t)
    THEN convert_from(substring(convert_to(v.t, 'UTF8') FROM {start} FOR {length}), 'UTF8')
    ELSE substring(v.t FROM {start} FOR {length}) END"""
"""In a text of ASCII only, a code point is found at once instead of counted from the beginning."""


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
    whole = SQL("v.t")
    # `||` decompresses the data once.
    record = visible.key_query(record_key, SQL("r.connection_id, r.data || '{}'::jsonb AS data"))
    statement = fill(
        FIELD_SLICES,
        slice=whole if length is None else fill(SLICE, start=start + 1, length=length),
        path=[name, *below],
        authorship=_authorship(visible),
        record=record,
    )
    rows = fetch_prepared(statement)
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
CHUNKS: Final = """
-- The chunks of a blob between two positions in bytes, with the start and the size of each. One query.
SELECT c.position, c.starts, c.size
FROM (
    SELECT c.position, octet_length(c.content) AS size,
        sum(octet_length(c.content)) OVER (ORDER BY c.position) - octet_length(c.content) AS starts
    FROM evidence_blobchunk c JOIN evidence_blob b USING (owner_id, connection_id, blob_id)
    WHERE c.owner_id = {owner} AND c.connection_id = {connection} AND c.blob_id = {blob}
        AND encode(b.sha256, 'hex') = {sha256}
) c
WHERE c.starts < {end} AND c.starts + c.size > {start} ORDER BY c.position
"""
CHUNK: Final = """
-- Some bytes of one chunk of a blob. One query per chunk.
SELECT substring(c.content FROM {first} FOR {length})
FROM evidence_blobchunk c JOIN evidence_blob b USING (owner_id, connection_id, blob_id)
WHERE c.owner_id = {owner} AND c.connection_id = {connection} AND c.blob_id = {blob}
    AND encode(b.sha256, 'hex') = {sha256} AND c.position = {position}
"""


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
    of_blob = {
        "owner": current_owner(),
        "connection": blob.connection.connection_id,
        "blob": blob.blob_id,
        "sha256": blob.sha256,
    }
    chunks = fetch_all(fill(CHUNKS, **of_blob, start=start, end=end))
    if not chunks and start < end:
        raise BlobGone
    for position, starts, size in chunks:
        first, last = max(start - int(starts), 0), min(end - int(starts), size)
        rows = fetch_all(
            fill(CHUNK, **of_blob, position=position, first=first + 1, length=last - first)
        )
        if not rows:
            raise BlobGone
        yield bytes(rows[0][0])


def _streams_showing_blobs(streams: Iterable[VisibleRecords]) -> Iterator[VisibleRecords]:
    """Yield each stream restricted to the grants that show the blob reference."""
    for visible in streams:
        granted = tuple(
            grant for grant in visible.granted if grant.terms.fields.allows(BLOB_REFERENCE)
        )
        if granted:
            yield VisibleRecords(visible.source, visible.stream, visible.layout, granted)


RECORDS_BY_KEY: Final = "SELECT {columns} FROM {keys}{record}"
"""The visible records of some keys p of connections with the same terms."""


def fetch_one_related(
    child: VisibleRecords, keys: Iterable[RecordKey]
) -> dict[RecordKey, VisibleRecord]:
    """Return the visible records of these keys. One query, or none without keys."""
    branches = [
        fill(
            RECORDS_BY_KEY,
            columns=ALL_COLUMNS,
            keys=pairs,
            record=group.join_row(SQL("p.id"), "p.key"),
        )
        for group, pairs in _keys_by_group(child, frozenset(keys))
    ]
    if not branches:
        return {}
    rows = fetch_prepared(union_all(branches))
    return {
        RecordKey(record.connection.connection_id, record.record_key): record
        for record in map(child.project, rows)
    }


RELATED: Final = """
-- The first visible records of each parent. Part: records of parents with the same terms. One query.
SELECT u.* FROM ({rows}) u ORDER BY {order}
"""
RELATED_OF_PARENTS: Final = """
SELECT p.key AS parent, u.* FROM {parents} CROSS JOIN LATERAL ({records}) u
"""
RELATED_OF_PARENT: Final = """
(SELECT {columns} FROM evidence_record r
WHERE r.owner_id = {owner} AND r.connection_id = p.id AND {link} = p.key{terms}{condition}
ORDER BY {order} LIMIT {limit})
"""
"""The first records of a parent p, either of those with a sort key or of those without one."""


def fetch_many_related(
    child: VisibleRecords, foreign_key: str, parents: Iterable[RecordKey], *, limit: int
) -> Mapping[RecordKey, Sequence[VisibleRecord]]:
    """Return the first ``limit`` visible records of each parent, newest first in stream order.

    A record belongs to the parent whose key is in its ``foreign_key``. One query, or none without
    parents.
    """
    child.shown_field(foreign_key, param="expand")
    branches = [
        fill(
            RELATED_OF_PARENTS,
            parents=pairs,
            records=union_all(_sort_partitions(child, group, foreign_key, limit)),
        )
        for group, pairs in _keys_by_group(child, frozenset(parents))
    ]
    if not branches:
        return {}
    statement = fill(RELATED, rows=union_all(branches), order=SQL(_order(child, "u")))
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
    parts = {
        "columns": ALL_COLUMNS,
        "owner": current_owner(),
        "link": link_expression(child, foreign_key),
        "terms": group.condition,
        "limit": SQL(f"{limit:d}"),
    }
    if not child.in_time_order:
        by_key = SQL("r.record_key DESC")
        yield fill(RELATED_OF_PARENT, **parts, condition=SQL(""), order=by_key)
        return
    order = SQL("r.sort_key DESC, r.record_key DESC")
    for condition in (SQL(" AND r.sort_key IS NOT NULL"), SQL(" AND r.sort_key IS NULL")):
        yield fill(RELATED_OF_PARENT, **parts, condition=condition, order=order)


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


MAX_ID_CHARS = 200
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes from ``start`` up to, but excluding, ``end``."""

    start: int
    end: int


def get_blob(gate: Gate, blob_id: str, *, connection_id: str | None) -> VisibleBlob:
    """Return a blob that a visible record references; one query.

    Raises BlobNotFound for hidden and missing blobs alike, and AmbiguousConnection naming only the
    connections that show the blob.
    """
    streams = gate.streams(connection_id=connection_id)
    if "\x00" in blob_id or len(blob_id) > MAX_ID_CHARS:
        raise BlobNotFound
    blobs = find_blobs(streams, blob_id)
    if not blobs:
        raise BlobNotFound(next_step="Read the record again: blob_ref.fetch_url is the address.")
    if len(blobs) > 1:
        candidates = [
            candidate
            for blob in blobs
            for candidate in blob.visible.for_connection(blob.connection.connection_id).candidates()
        ]
        raise AmbiguousConnection(candidates).disclosing(
            *(
                (blob.connection.connection_id, blob.visible.stream.name, blob.record_key)
                for blob in blobs
            ),
            fields=[BLOB_REFERENCE],
        )
    return blobs[0]


def stored_blob(
    visible: VisibleRecords, record: VisibleRecord, data: Mapping[str, Any]
) -> VisibleBlob | None:
    """Return the stored blob that the visible ``data`` of a record references, if any.

    Runs no query if there is no reference.
    """
    reference = data.get(BLOB_REFERENCE)
    blob_id = reference.get("blob_id") if isinstance(reference, dict) else None
    if not isinstance(blob_id, str):
        return None
    key = (record.connection.connection_id, record.record_key)
    blobs = find_blobs([visible], blob_id)
    return next((b for b in blobs if (b.connection.connection_id, b.record_key) == key), None)


def parse_range(blob: VisibleBlob, header: str | None) -> ByteRange | None:
    """Parse a ``Range`` header; None, for the whole blob, unless it is a single range of bytes.

    Raises RangeNotSatisfiable if the range is outside the blob.
    """
    match = _RANGE.fullmatch(header.strip()) if header is not None else None
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        start, end = max(blob.size_bytes - int(last), 0), blob.size_bytes
    else:
        start, end = int(first), min(int(last or blob.size_bytes) + 1, blob.size_bytes)
        if last and int(last) < start:
            return None
    if start >= end:
        error = RangeNotSatisfiable(message=f"The blob has {blob.size_bytes} bytes.", param="Range")
        place = (blob.connection.connection_id, blob.visible.stream.name, blob.record_key)
        raise error.disclosing(place, fields=[BLOB_REFERENCE])
    return ByteRange(start, end)
