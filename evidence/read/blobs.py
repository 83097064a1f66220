"""Read a blob and resolve its HTTP Range header (RFC 9110), one range per request."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evidence.access.gate import Gate
from evidence.access.record_parts import VisibleBlob, find_blobs
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import AmbiguousConnection, BlobNotFound, RangeNotSatisfiable

MAX_ID_CHARS = 200
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes from ``start`` up to, but excluding, ``end``."""

    start: int
    end: int


def get(gate: Gate, blob_id: str, *, connection_id: str | None) -> VisibleBlob:
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
