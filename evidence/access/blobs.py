"""Blobs that a visible record points at, and their bytes, piece by piece.

A blob is as visible as the ``blob_ref`` of the record that it was kept for: the record must be in
the grant, the field granted, and it must name the blob.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evidence.access.rows import VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.access.statements import Fragment, fetched, joined
from evidence.declarations.types import BLOB_REFERENCE

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
