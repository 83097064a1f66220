"""One field of one record, or a slice of it cut in the database."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from evidence.access.records import SHOWN, Group, VisibleRecord, VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.access.sql import Fragment, fetched, fetched_by_one_plan, joined
from evidence.declarations.declaration import BLOB_REFERENCE, Field


@dataclass(frozen=True, slots=True)
class FieldSlice:
    """``text`` starts at ``start_chars`` of a field of ``total_chars`` code points.

    ``json_type`` is the type of the value, None when there is none; other than for a string,
    ``text`` is the value as JSON. ``size_bytes`` is its length in UTF-8. ``authorship`` holds the
    granted fields that tell who wrote the record.
    """

    connection_id: str
    json_type: str | None
    start_chars: int
    text: str
    total_chars: int
    size_bytes: int
    authorship: Mapping[str, Any]


def field_slices(
    visible: VisibleRecords,
    record_key: str,
    field: Field,
    *,
    below: Sequence[str] = (),
    start: int = 0,
    length: int | None = None,
) -> list[FieldSlice]:
    """The slice in each connection that has the record; the whole value without ``length``.

    ``below`` are the keys and indexes that lead from the field to a value inside it. One query. The
    caller has the field from ``shown_field``; asking again costs nothing and keeps this safe.
    """
    name = visible.shown_field(field.name, param="field").name
    part = Fragment("v.t")
    if length is not None:
        part = Fragment("substring(v.t from %s for %s)", (start + 1, length))
    # The fences keep a value of a megabyte from being unpacked once for each use of it.
    columns = Fragment("r.connection_id, r.data #> %s::text[] AS j, ", ([name, *below],))
    value = visible.of_key(record_key, columns + _authorship(visible) + Fragment(" AS a"))
    statement = Fragment("SELECT v.connection_id, jsonb_typeof(v.j), ") + part
    statement += Fragment(", char_length(v.t), octet_length(v.t), v.a FROM")
    statement += Fragment(" (SELECT u.connection_id, u.j, u.j #>> '{}' AS t, u.a FROM (") + value
    statement += Fragment(") u OFFSET 0) v")
    rows = fetched_by_one_plan(statement)
    return [
        FieldSlice(
            connection_id=connection_id,
            json_type=json_type,
            start_chars=start if length is not None else 0,
            text=text or "",
            total_chars=total or 0,
            size_bytes=size or 0,
            authorship=orjson.loads(authorship),
        )
        for connection_id, json_type, text, total, size, authorship in rows
    ]


def _authorship(visible: VisibleRecords) -> Fragment:
    """The fields that tell who wrote the record, as far as every grant concerned shows them."""
    shown = [name for name in visible.stream.authorship if visible.shows(name)]
    pairs = joined(", ", [Fragment("%s::text, r.data->%s", (name, name)) for name in shown])
    return Fragment("jsonb_build_object(") + pairs + Fragment(")::text")


SOURCE = (
    "evidence_blob b JOIN evidence_record r ON r.connection_id = b.connection_id"
    " AND r.stream = b.stream AND r.record_key = b.record_key"
)
COLUMNS = Fragment(
    "b.connection_id, b.record_key, b.media_type, b.size_bytes, encode(b.sha256, 'hex')"
)

PIECES = (
    "evidence_blobchunk c JOIN evidence_blob b USING (connection_id, blob_id)"
    " WHERE c.connection_id = %s AND c.blob_id = %s AND encode(b.sha256, 'hex') = %s"
)


class BlobGone(Exception):  # noqa: N818 - the owner took it away, nobody erred
    """The blob was taken away or replaced while it was being read; the answer cannot be completed."""


@dataclass(frozen=True, slots=True)
class VisibleBlob:
    """``sha256`` is in hexadecimal digits."""

    visible: VisibleRecords
    connection: ConnectionFacts
    record_key: str
    blob_id: str
    media_type: str
    size_bytes: int
    sha256: str


def blobs_of_id(streams: Iterable[VisibleRecords], blob_id: str) -> list[VisibleBlob]:
    """The blob of that id in each connection that shows it; one query, visible or not."""
    showing = list(_showing(streams))
    if not showing:
        return []
    where = [
        Fragment(" AND b.blob_id = %s", (blob_id,)),
        Fragment(" AND r.data->%s->>'blob_id' = b.blob_id", (BLOB_REFERENCE,)),
    ]
    branches = (
        visible.matching(Fragment(f"{number}, ") + COLUMNS, where, source=SOURCE)
        for number, visible in enumerate(showing)
    )
    return [
        VisibleBlob(showing[n], showing[n].facts_of[connection_id], key, blob_id, *about)
        for n, connection_id, key, *about in fetched(joined(" UNION ALL ", branches))
    ]


def pieces(blob: VisibleBlob, *, start: int, end: int) -> Iterator[bytes]:
    """The bytes from ``start`` up to ``end``; a query for where they lie and one a piece, so that
    no more than a piece is ever in memory. Raises ``BlobGone`` where they are others by now."""
    name = (blob.connection.connection_id, blob.blob_id, blob.sha256)
    places = Fragment(
        "SELECT c.position, c.starts, c.size FROM (SELECT c.position, octet_length(c.content) AS size,"
        " sum(octet_length(c.content)) OVER (ORDER BY c.position) - octet_length(c.content) AS starts"
        f" FROM {PIECES}) c"
        " WHERE c.starts < %s AND c.starts + c.size > %s ORDER BY c.position",
        (*name, end, start),
    )
    found = fetched(places)
    if not found and start < end:
        raise BlobGone
    for position, starts, size in found:
        first, last = max(start - int(starts), 0), min(end - int(starts), size)
        yield _piece(name, position, first=first, last=last)


def _piece(name: tuple[str, str, str], position: int, *, first: int, last: int) -> bytes:
    rows = fetched(
        Fragment(
            f"SELECT substring(c.content FROM %s FOR %s) FROM {PIECES} AND c.position = %s",
            (first + 1, last - first, *name, position),
        )
    )
    if not rows:
        raise BlobGone
    return bytes(rows[0][0])


def _showing(streams: Iterable[VisibleRecords]) -> Iterator[VisibleRecords]:
    """Each stream through the grants that show the reference."""
    for visible in streams:
        sights = tuple(each for each in visible.sights if each.terms.fields.allows(BLOB_REFERENCE))
        if sights:
            yield VisibleRecords(visible.source, visible.stream, visible.layout, sights)


class Key(NamedTuple):
    """A record of whatever stream, by the connection that it came through."""

    connection_id: str
    record_key: str


def singles(child: VisibleRecords, keys: Iterable[Key]) -> dict[Key, VisibleRecord]:
    """The visible records of these keys; one query, none without keys."""
    branches = [
        Fragment(f"SELECT {SHOWN} FROM ") + pairs + _one_each(group)
        for group, pairs in _grouped(child, frozenset(keys))
    ]
    if not branches:
        return {}
    found = (child.cut(row) for row in fetched_by_one_plan(joined(" UNION ALL ", branches)))
    return {Key(each.connection.connection_id, each.record_key): each for each in found}


def several(
    child: VisibleRecords, foreign_key: str, parents: Iterable[Key], *, limit: int
) -> Mapping[Key, Sequence[VisibleRecord]]:
    """For each parent the first ``limit`` visible records whose ``foreign_key`` holds its key, in
    the order of the stream, newest first; one query, none without parents."""
    child.shown_field(foreign_key, param="expand")
    branches = [
        Fragment("SELECT p.key AS parent, u.* FROM ")
        + pairs
        + Fragment(" CROSS JOIN LATERAL (")
        + joined(" UNION ALL ", _buckets(child, group, foreign_key, limit))
        + Fragment(") u")
        for group, pairs in _grouped(child, frozenset(parents))
    ]
    if not branches:
        return {}
    statement = Fragment("SELECT u.* FROM (") + joined(" UNION ALL ", branches)
    statement += Fragment(f") u ORDER BY {_order(child, 'u')}")
    found: dict[Key, list[VisibleRecord]] = defaultdict(list)
    for parent, *row in fetched_by_one_plan(statement):
        record = child.cut(tuple(row))
        found[Key(record.connection.connection_id, parent)].append(record)
    return {parent: records[:limit] for parent, records in found.items()}


def _one_each(group: Group) -> Fragment:
    """The record of each pair ``p``. The limit says what the primary key says: without it a planner
    that has no statistics yet may read the whole table to join a page with it."""
    rows = Fragment(
        " CROSS JOIN LATERAL (SELECT * FROM evidence_record r"
        " WHERE r.connection_id = p.id AND r.record_key = p.key"
    )
    return rows + group.condition + Fragment(" LIMIT 1) r")


def _buckets(
    child: VisibleRecords, group: Group, foreign_key: str, limit: int
) -> Iterator[Fragment]:
    """The first rows of one parent ``p``, those with a cursor value and those without apart, for
    the index knows but one order of the two."""
    narrowings = ["IS NOT NULL", "IS NULL"] if child.in_time_order else [None]
    for narrowing in narrowings:
        rows = Fragment(f"(SELECT {SHOWN} FROM evidence_record r WHERE r.connection_id = p.id AND ")
        rows += _link(child, foreign_key) + Fragment(" = p.key") + group.condition
        order = "r.record_key DESC"
        if narrowing is not None:
            rows += Fragment(f" AND r.sort_key {narrowing}")
            order = f"r.sort_key DESC, {order}"
        yield rows + Fragment(f" ORDER BY {order} LIMIT {int(limit)})")


def _link(child: VisibleRecords, foreign_key: str) -> Fragment:
    """The foreign key as an expression over ``r``: its column, or the slow way."""
    column = child.layout.get("links", {}).get(foreign_key)
    if column is None:
        return Fragment("r.data->>%s", (foreign_key,))
    return Fragment(f"r.link_{int(column)}")


def _order(child: VisibleRecords, table: str) -> str:
    if not child.in_time_order:
        return f"{table}.record_key DESC"
    return f"({table}.sort_key IS NULL), {table}.sort_key DESC, {table}.record_key DESC"


def _grouped(child: VisibleRecords, keys: frozenset[Key]) -> Iterator[tuple[Group, Fragment]]:
    """The keys of each group of connections, as a table ``p``."""
    for group in child.groups:
        here = sorted(key for key in keys if key.connection_id in group.connection_ids)
        if here:
            values = ([key.connection_id for key in here], [key.record_key for key in here])
            yield group, Fragment("unnest(%s::text[], %s::text[]) AS p(id, key)", values)
