"""One blob, and which of its bytes a request means. Ranges are those of RFC 9110, one at a time."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evidence.access.gate import Gate
from evidence.access.record_parts import VisibleBlob, blobs_of_id
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import AmbiguousConnection, BlobNotFound, RangeNotSatisfiable

LONGEST_ID = 200
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes from ``start`` up to ``end``."""

    start: int
    end: int


def one(gate: Gate, blob_id: str, *, connection_id: str | None) -> VisibleBlob:
    """The blob of that id, if a visible record points at it; one query.

    Raises ``BlobNotFound`` alike for one that is hidden and one that does not exist, and
    ``AmbiguousConnection`` naming only the connections that show it.
    """
    streams = gate.streams(connection_id=connection_id)
    if "\x00" in blob_id or len(blob_id) > LONGEST_ID:
        raise BlobNotFound
    found = blobs_of_id(streams, blob_id)
    if not found:
        raise BlobNotFound(next_step="Read the record again: blob_ref.fetch_url is the address.")
    if len(found) > 1:
        raise AmbiguousConnection(
            [
                candidate
                for blob in found
                for candidate in blob.visible.narrowed_to(
                    blob.connection.connection_id
                ).candidates()
            ]
        )
    return found[0]


def kept_for(
    visible: VisibleRecords, record: VisibleRecord, shown: Mapping[str, Any]
) -> VisibleBlob | None:
    """The blob that a record points at in what is ``shown`` of it, if its bytes are here; no query
    where it points at none."""
    reference = shown.get(BLOB_REFERENCE)
    blob_id = reference.get("blob_id") if isinstance(reference, dict) else None
    if not isinstance(blob_id, str):
        return None
    place = (record.connection.connection_id, record.record_key)
    found = blobs_of_id([visible], blob_id)
    return next((b for b in found if (b.connection.connection_id, b.record_key) == place), None)


def part(blob: VisibleBlob, wanted: str | None) -> Part | None:
    """What a ``Range`` header asks for; None for the whole, also where it is no single range of
    bytes. Raises ``RangeNotSatisfiable`` for one that lies outside the blob."""
    match = _RANGE.fullmatch(wanted.strip()) if wanted is not None else None
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
        raise RangeNotSatisfiable(message=f"The blob has {blob.size_bytes} bytes.", param="Range")
    return Part(start, end)
