"""Store the bytes that belong to a record."""

import hashlib
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import connection, transaction

from evidence.errors import InvalidRequest
from evidence.models.records import Blob, BlobChunk
from evidence.write.disk_usage import check_disk_limit
from evidence.write.locks import lock_connection
from evidence.write.rows import RecordId
from evidence.write.stored_keys import find_suppressed

CHUNK_BYTES = 256 * 1024
BLOB_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")
MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(?:;[ -~]{1,128})?")


class SmallFile(NamedTuple):
    """A file of at most CHUNK_BYTES, and its record."""

    blob_id: str
    stream: str
    record_key: str
    media_type: str
    content: bytes


def put_small_files(
    connection_id: str, files: Sequence[SmallFile], *, now: datetime
) -> frozenset[str]:
    """Store files whose ids are new, in one transaction, and return the ids of those stored.

    Leaves out files of erased records, and those whose id or media type is invalid.
    """
    with transaction.atomic():
        lock_connection(connection_id)
        records = {each: RecordId(connection_id, each.stream, each.record_key) for each in files}
        erased = set(find_suppressed(records.values()))
        kept = [
            each
            for each, record in records.items()
            if record not in erased
            and BLOB_ID.fullmatch(each.blob_id)
            and MEDIA_TYPE.fullmatch(each.media_type)
        ]
        # Another import of the same records can have stored them just now.
        Blob.unscoped.bulk_create(
            (_small_blob(connection_id, each, now) for each in kept), ignore_conflicts=True
        )
        BlobChunk.unscoped.bulk_create(
            (
                BlobChunk(
                    connection_id=connection_id,
                    blob_id=each.blob_id,
                    position=0,
                    content=each.content,
                )
                for each in kept
                if each.content
            ),
            ignore_conflicts=True,
        )
    return frozenset(each.blob_id for each in kept)


def _small_blob(connection_id: str, file: SmallFile, now: datetime) -> Blob:
    return Blob(
        connection_id=connection_id,
        blob_id=file.blob_id,
        stream=file.stream,
        record_key=file.record_key,
        media_type=file.media_type,
        size_bytes=len(file.content),
        sha256=hashlib.sha256(file.content).digest(),
        created_at=now,
    )


def put_blob(
    connection_id: str,
    *,
    stream: str,
    record_key: str,
    media_type: str,
    chunks: Iterable[bytes],
    now: datetime,
    blob_id: str | None = None,
) -> Blob:
    """Store the bytes of ``chunks``, of any sizes, under the given or a new id.

    Storing an id again replaces its bytes, for the same record only. The connection stays locked
    while chunks are read, so have them ready. Raises ``ConnectionNotFound``, and
    ``InvalidRequest`` for an invalid id or media type or an erased record, and ``StorageFull``.
    """
    check_disk_limit()
    blob = Blob(
        connection_id=connection_id,
        blob_id=_validate(blob_id or "blb_" + secrets.token_hex(12), BLOB_ID, "blob_id"),
        stream=stream,
        record_key=record_key,
        media_type=_validate(media_type, MEDIA_TYPE, "media_type"),
        size_bytes=0,
        created_at=now,
    )
    with transaction.atomic():
        lock_connection(connection_id)
        _delete_replaced(blob)
        _store_chunks(blob, chunks)
        blob.save(force_insert=True)
    return blob


def _store_chunks(blob: Blob, chunks: Iterable[bytes]) -> None:
    """Store the chunks, and set the blob's size and hash."""
    digest = hashlib.sha256()
    with connection.cursor() as cursor:
        for position, content in enumerate(_split_chunks(chunks)):
            digest.update(content)
            blob.size_bytes += len(content)
            cursor.execute(
                "INSERT INTO evidence_blobchunk"
                " (owner_id, connection_id, blob_id, position, content)"
                " VALUES (%s, %s, %s, %s, %s)",
                [blob.owner_id, blob.connection_id, blob.blob_id, position, content],
            )
    blob.sha256 = digest.digest()


def _validate(text: str, pattern: re.Pattern[str], param: str) -> str:
    if not pattern.fullmatch(text):
        raise InvalidRequest(message=f"{param} is not valid.", param=param)
    return text


def _delete_replaced(blob: Blob) -> None:
    """Delete the bytes that the blob replaces. Raises ``InvalidRequest`` if it cannot be stored."""
    if find_suppressed([RecordId(blob.connection_id, blob.stream, blob.record_key)]):
        raise InvalidRequest(message="The owner erased this record.", param="record_key")
    name = [blob.owner_id, blob.connection_id, blob.blob_id]
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM evidence_blob WHERE owner_id = %s AND connection_id = %s AND blob_id = %s"
            " RETURNING stream, record_key",
            name,
        )
        if cursor.fetchone() not in (None, (blob.stream, blob.record_key)):
            raise InvalidRequest(message="The blob belongs to another record.", param="blob_id")
        cursor.execute(
            "DELETE FROM evidence_blobchunk"
            " WHERE owner_id = %s AND connection_id = %s AND blob_id = %s",
            name,
        )


def _split_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in chunks of CHUNK_BYTES; the last one may be shorter."""
    buffer = bytearray()
    for chunk in chunks:
        for start in range(0, len(chunk), CHUNK_BYTES):
            buffer += chunk[start : start + CHUNK_BYTES]
            if len(buffer) >= CHUNK_BYTES:
                yield bytes(buffer[:CHUNK_BYTES])
                del buffer[:CHUNK_BYTES]
    if buffer:
        yield bytes(buffer)


def stored_blobs(connection_id: str, blob_ids: Collection[str]) -> frozenset[str]:
    """Return which of ``blob_ids`` are stored for the connection."""
    rows = Blob.unscoped.filter(connection_id=connection_id, blob_id__in=list(blob_ids))
    return frozenset(rows.values_list("blob_id", flat=True))
